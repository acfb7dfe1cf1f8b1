//! Metrics of the disk with the files of a service, for alerts.

use std::path::{Path, PathBuf};

use prometheus::{
    IntGauge, Registry,
    core::{Collector, Desc},
    proto::MetricFamily,
};
use rustix::fs::statvfs;

/// Bytes of the disk with the index (normalizer-dedup, frontier) or the files (archiver) of the service. Alert: none.
pub const DISK: &str = "orbweaver_process_disk_bytes";
/// Bytes that the service can still write to that disk. Alert: below a tenth of `orbweaver_process_disk_bytes`.
pub const DISK_FREE: &str = "orbweaver_process_disk_free_bytes";

/// Exports free and total bytes at each scrape; none if they cannot be determined.
struct Disk {
    directory: PathBuf,
    free: IntGauge,
    total: IntGauge,
}

impl Disk {
    fn bytes(&self) -> Option<(u64, u64)> {
        disk_space(&self.directory)
    }
}

/// Returns the free and the total bytes of the disk with a directory. One that is not created yet will be on the disk of
/// its parent.
#[must_use]
pub fn disk_space(directory: &Path) -> Option<(u64, u64)> {
    let of = |path| statvfs(path).ok().map(|disk| (disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize));
    directory.ancestors().map(|path| if path.as_os_str().is_empty() { ".".as_ref() } else { path }).find_map(of)
}

impl Collector for Disk {
    fn desc(&self) -> Vec<&Desc> {
        self.free.desc().into_iter().chain(self.total.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some((free, total)) = self.bytes() else { return vec![] };
        for (gauge, bytes) in [(&self.free, free), (&self.total, total)] {
            gauge.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        }
        self.free.collect().into_iter().chain(self.total.collect()).collect()
    }
}

/// Registers the metrics of the disk of a directory.
pub(crate) fn register(registry: &Registry, directory: PathBuf) -> Result<(), prometheus::Error> {
    registry.register(Box::new(Disk {
        directory,
        free: IntGauge::new(DISK_FREE, "Free bytes of the disk with the files of the service")?,
        total: IntGauge::new(DISK, "Bytes of the disk with the files of the service")?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(directory: PathBuf) -> Vec<(String, f64)> {
        let registry = Registry::new();
        register(&registry, directory).unwrap();
        let families = registry.gather();
        families
            .iter()
            .map(|family| (family.name().to_owned(), family.get_metric()[0].get_gauge().get_value()))
            .collect()
    }

    #[test]
    fn a_directory_has_the_bytes_of_its_disk_also_before_it_is_created() {
        let dir = tempfile::tempdir().unwrap();
        for directory in [dir.path().to_owned(), dir.path().join("not/yet"), "not/yet".into()] {
            let shown = shown(directory);
            let [(total_name, total), (free_name, free)] = &shown[..] else { panic!("{shown:?}") };
            assert_eq!([&**total_name, &**free_name], [DISK, DISK_FREE]);
            assert!(0.0 < *free && free <= total, "{free} of {total}");
        }
    }
}
