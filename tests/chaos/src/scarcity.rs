//! Shortages of memory and of disk space.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};

/// Roots of control groups of memory, of the second version and of the first, and the file with the limit.
const ROOTS: [(&str, &str); 2] = [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")];
/// Memory that a process may still take, in bytes: next to nothing.
const LEFT: &str = "65536";
/// The file that takes the rest of the disk.
const FILLER: &str = "filler";

/// A control group with hardly any memory. Removed when it is dropped, unless a process is still in it.
#[derive(Debug)]
pub(crate) struct NoMemory(PathBuf);

impl NoMemory {
    /// Makes a group. `None` where there are no control groups of memory, or only root may make one.
    pub(crate) fn make(name: &str) -> Option<Self> {
        ROOTS.into_iter().find_map(|(root, limit)| {
            let group = Path::new(root).join(format!("orbweaver-chaos-{}-{name}", std::process::id()));
            fs::create_dir(&group).ok()?;
            let group = Self(group);
            // The kernel makes this file, where the hierarchy has the controller of memory.
            let limit = group.0.join(limit);
            (limit.exists() && fs::write(limit, LEFT).is_ok()).then_some(group)
        })
    }

    /// Leaves a process no memory beyond what it has.
    ///
    /// # Errors
    /// When it cannot be moved, since it has ended, say.
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
    /// The disk that is mounted at `dir`.
    pub(crate) fn at(dir: PathBuf) -> Self {
        Self(dir)
    }

    /// Puts the state of the instance whose directory is `dir` on this disk, if it is not there yet.
    ///
    /// # Errors
    /// When a directory or the link cannot be made.
    pub(crate) fn take_in(&self, dir: &Path) -> Result<()> {
        let (name, state) = (dir.file_name().context("the directory of an instance has a name")?, dir.join("state"));
        if !state.exists() {
            fs::create_dir_all(dir)?;
            fs::create_dir_all(self.0.join(name))?;
            symlink(self.0.join(name), &state)?;
        }
        Ok(())
    }

    /// Fills the disk for a while. Space that is freed meanwhile is taken, too.
    ///
    /// # Errors
    /// When it cannot be filled.
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
