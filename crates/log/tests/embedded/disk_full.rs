//! A full disk: a clear error, no partial records, and the log continues once there is space.

use std::{fs, path::Path, process::Command};

use orbweaver_log::{EmbeddedLog, Log, LogError, Options};

use crate::fixture::{KEEP, read_all, record, specs, still, tp, try_open};

/// A 1 MiB file system, unmounted on drop.
struct Small(tempfile::TempDir);

impl Small {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(dir.path()).output();
        mount.is_ok_and(|output| output.status.success()).then_some(Self(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}

/// Checks that the records are intact, consecutive, and include all below `acknowledged`; returns the end.
fn intact(found: &[(u64, u64)], acknowledged: u64) -> u64 {
    let first = found.first().map_or(0, |(offset, _)| *offset);
    assert!(found.iter().zip(first..).all(|((offset, number), wanted)| *offset == wanted && *number == wanted));
    let end = first + found.len() as u64;
    assert!(end >= acknowledged, "{acknowledged} records were acknowledged, {end} are there");
    end
}

#[tokio::test]
async fn a_full_disk_loses_nothing_and_the_log_goes_on_when_there_is_room() {
    let Some(small) = Small::mount() else {
        eprintln!("skipped: mounting a small file system is not permitted here");
        return;
    };
    let ballast = small.path().join("ballast");
    fs::write(&ballast, vec![1; 256 << 10]).unwrap();
    let dir = small.path().join("log");
    // Large segments first, so that a write fails within one; then small ones, so that creating one fails.
    for segment_bytes in [64 << 20, 4 << 10] {
        let log = EmbeddedLog::open(&dir, Options { segment_bytes, ..still() }, &specs()).unwrap();
        let at = tp(KEEP, 0);
        let mut next = log.bounds(at).await.unwrap().end;
        let error = loop {
            let batch: Vec<_> = (next..next + 7).map(|number| record(at, number)).collect();
            match log.append(batch).await {
                Ok(offsets) => next += offsets.len() as u64,
                Err(error) => break error,
            }
        };
        match &error {
            LogError::Io { path, source } => {
                assert!(path.starts_with(dir.to_str().unwrap()), "{path}");
                assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
            }
            other => panic!("not the error of a full disk: {other}"),
        }
        let refused = log.append(vec![record(at, 0)]).await;
        assert!(matches!(&refused, Err(LogError::Fatal(reason)) if reason.contains("opened again")), "{refused:?}");
        let all = read_all(&log, at).await;
        intact(&all, next);
        drop(log);

        fs::remove_file(&ballast).unwrap();
        let log = try_open(&dir).unwrap();
        let found = read_all(&log, at).await;
        let end = intact(&found, next);
        assert_eq!(log.append(vec![record(at, end)]).await.unwrap(), [end]);
        log.delete_below(at, end).await.unwrap();
        log.close().unwrap();
        let room = Command::new("df").args(["--output=avail", "-k"]).arg(small.path()).output().unwrap();
        let room: usize = String::from_utf8(room.stdout).unwrap().lines().last().unwrap().trim().parse().unwrap();
        assert!(room > 300, "deleting did not free the segments: {room} KiB left");
        fs::write(&ballast, vec![1; 256 << 10]).unwrap();
    }
}
