//! Shortages of memory and of disk space.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};

/// Roots of the memory control groups, version 2 and version 1, each with the file that holds the limit.
const ROOTS: [(&str, &str); 2] = [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")];
/// Memory limit, in bytes: next to nothing.
const LEFT: &str = "65536";
/// The file that fills the disk.
const FILLER: &str = "filler";

/// A control group with hardly any memory. It is removed on drop, unless a process is still in it.
#[derive(Debug)]
pub(crate) struct NoMemory(PathBuf);

impl NoMemory {
    /// Creates a group. Returns `None` without memory control groups or without root privileges.
    pub(crate) fn make(name: &str) -> Option<Self> {
        ROOTS.into_iter().find_map(|(root, limit)| {
            let group = Path::new(root).join(format!("orbweaver-chaos-{}-{name}", std::process::id()));
            fs::create_dir(&group).ok()?;
            let group = Self(group);
            // The kernel creates this file if the hierarchy has the memory controller.
            let limit = group.0.join(limit);
            (limit.exists() && fs::write(limit, LEFT).is_ok()).then_some(group)
        })
    }

    /// Allows a process no memory beyond what it has.
    pub(crate) fn take_in(&self, process: u32) -> Result<()> {
        let path = self.0.join("cgroup.procs");
        fs::write(&path, process.to_string()).with_context(|| path.display().to_string())
    }
}

impl Drop for NoMemory {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// A small disk for the states of all instances.
#[derive(Debug)]
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Returns the disk that is mounted at `dir`.
    pub(crate) fn at(dir: PathBuf) -> Self {
        Self(dir)
    }

    /// Puts the state of the instance with directory `dir` on this disk, unless it is there already.
    pub(crate) fn take_in(&self, dir: &Path) -> Result<()> {
        let (name, state) = (dir.file_name().context("the directory of an instance has a name")?, dir.join("state"));
        if !state.exists() {
            fs::create_dir_all(dir)?;
            fs::create_dir_all(self.0.join(name))?;
            symlink(self.0.join(name), &state)?;
        }
        Ok(())
    }

    /// Fills the disk for this time, including space that is freed in the meantime.
    pub(crate) async fn fill(&self, for_ms: u64) -> Result<()> {
        let path = self.0.join(FILLER);
        let file = File::create(&path)?;
        let (mut taken, mut ticks) = (0, tokio::time::interval(Duration::from_millis(100)));
        for _ in 0..for_ms / 100 {
            ticks.tick().await;
            let disk = fstatvfs(&file)?;
            let free = disk.f_bavail * disk.f_frsize;
            if free > 0 && fallocate(&file, FallocateFlags::empty(), taken, free).is_ok() {
                taken += free;
            }
        }
        fs::remove_file(&path)?;
        ensure!(taken > 0, "{}: no space was free to be taken", path.display());
        Ok(())
    }
}
