//! What instances have less of than they need: memory and disk.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};

/// Where control groups of memory are, in the second version and in the first, and the file with the limit.
const GROUPS: [(&str, &str); 2] =
    [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")];
/// What a process may still take, in bytes: next to nothing.
const LEFT: &str = "65536";
/// The file that takes the rest of the disk.
const FILLER: &str = "filler";

/// A control group with hardly any memory for one process. Removed when it is dropped.
#[derive(Debug)]
pub(crate) struct NoMemory(PathBuf);

impl NoMemory {
    /// Leaves a process no memory beyond what it has.
    ///
    /// # Errors
    /// When there are no control groups, or not for us.
    pub(crate) fn of(process: u32) -> Result<Self> {
        let found = GROUPS.iter().find(|(root, limit)| {
            // The root of the second version has no limit of its own, and names its controllers.
            Path::new(root).join(limit).exists()
                || fs::read_to_string(Path::new(root).join("cgroup.subtree_control"))
                    .is_ok_and(|controllers| controllers.split_whitespace().any(|one| one == "memory"))
        });
        let Some((root, limit)) = found else { bail!("no control groups of memory") };
        let group = Self(Path::new(root).join(format!("orbweaver-chaos-{process}")));
        let shown = || group.0.display().to_string();
        fs::create_dir(&group.0).with_context(shown)?;
        fs::write(group.0.join(limit), LEFT).with_context(shown)?;
        fs::write(group.0.join("cgroup.procs"), process.to_string()).with_context(shown)?;
        Ok(group)
    }
}

impl Drop for NoMemory {
    fn drop(&mut self) {
        // Not while the process is in it; a group that is left has no process in the end, and costs nothing.
        let _ = fs::remove_dir(&self.0);
    }
}

/// A small disk for the states of all instances.
#[derive(Debug)]
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// The disk that is mounted there.
    pub(crate) fn at(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Puts the state of the instance in `folder` on this disk, if it is not there yet.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub(crate) fn take_in(&self, folder: &Path) -> Result<()> {
        let (name, state) = (folder.file_name().context("the folder of an instance has a name")?, folder.join("state"));
        if state.exists() {
            return Ok(());
        }
        fs::create_dir_all(folder)?;
        fs::create_dir_all(self.0.join(name)).and_then(|()| symlink(self.0.join(name), &state))?;
        Ok(())
    }

    /// Fills the disk, for a while. What becomes free meanwhile is taken, too.
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
        anyhow::ensure!(taken > 0, "{}: nothing was free to be taken", path.display());
        Ok(())
    }
}
