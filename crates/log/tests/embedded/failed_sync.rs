//! After a failed sync the log resumes with its durable records, although the system still shows the rest and syncs it
//! without an error.
//!
//! A write to `/dev/null` succeeds, and its sync fails: a link to it replaces a file of the log.

use std::{fs, os::unix::fs::symlink, path::Path};

use orbweaver_log::{Bounds, EmbeddedLog, Log, LogError};

use crate::{
    fixture::{KEEP, append, commit, committed, filled, killed, open, read_all, record, tp},
    power_cut::restart_the_system,
};

/// Replaces a file, which may be missing, by one whose sync fails.
fn break_sync(path: &Path) {
    let link = path.with_extension("link");
    symlink("/dev/null", &link).unwrap();
    fs::rename(&link, path).unwrap();
}

fn is_marked(dir: &Path) -> bool {
    dir.join("failed").exists()
}

/// Checks that the log refuses everything that would change it.
async fn refuses_writes(log: &EmbeddedLog) {
    let at = tp(KEEP, 0);
    let errors = [
        log.append(vec![record(at, 0)]).await.err(),
        commit(log, 1).await.err(),
        log.delete_below(at, 0).await.err(),
        log.flush().err(),
    ];
    for error in errors {
        assert!(matches!(&error, Some(LogError::Fatal(reason)) if reason.contains("opened again")), "{error:?}");
    }
}

#[tokio::test]
async fn after_a_failed_sync_of_a_checkpoint_the_log_resumes_at_the_one_before() {
    let at = tp(KEEP, 0);
    let (dir, log) = filled(at, 0..30).await;
    commit(&log, 10).await.unwrap();
    log.flush().unwrap();
    append(&log, at, 30..200).await;
    commit(&log, 20).await.unwrap();
    // The opening wrote the first checkpoint, the flush the second.
    break_sync(&dir.path().join("checkpoint.1"));
    let error = log.flush().unwrap_err().to_string();
    assert!(error.contains("checkpoint.1"), "{error}");
    refuses_writes(&log).await;
    drop(log);
    assert!(is_marked(dir.path()));

    // Readable files and syncs that succeed prove nothing about the disk.
    fs::remove_file(dir.path().join("checkpoint.1")).unwrap();
    let restarted = killed(dir.path());
    restart_the_system(restarted.path());
    for dir in [dir.path(), restarted.path()] {
        let log = open(dir);
        assert_eq!(log.bounds(at).await.unwrap(), Bounds { start: 0, end: 30 });
        assert_eq!(committed(&log).await, Some(10), "commits and records are as of the same moment");
        assert!(!is_marked(dir));
        append(&log, at, 30..60).await;
        log.close().unwrap();
        let cut = killed(dir);
        restart_the_system(cut.path());
        assert_eq!(read_all(&open(cut.path()), at).await.len(), 60);
    }
}

#[tokio::test]
async fn after_a_failed_sync_of_a_segment_all_partitions_resume_as_of_the_same_moment() {
    let (one, other) = (tp(KEEP, 0), tp(KEEP, 1));
    let (dir, log) = filled(one, 0..30).await;
    log.flush().unwrap();
    let broken = dir.path().join("topics").join(KEEP.0).join("1").join(format!("{:020}.log", 0));
    break_sync(&broken);
    append(&log, other, 0..5).await;
    append(&log, one, 30..40).await;
    let error = log.flush().unwrap_err().to_string();
    assert!(error.contains(broken.to_str().unwrap()), "{error}");
    refuses_writes(&log).await;
    drop(log);

    fs::remove_file(&broken).unwrap();
    let log = open(dir.path());
    assert_eq!(log.bounds(one).await.unwrap().end, 30);
    assert_eq!(log.bounds(other).await.unwrap().end, 0);
}

#[tokio::test]
async fn records_whose_other_data_could_not_be_synced_are_dropped() {
    let at = tp(KEEP, 0);
    let (dir, log) = filled(at, 0..30).await;
    log.flush().unwrap();
    log.sync_before_checkpoints(|| Err("the disk of the store is gone".to_owned()));
    append(&log, at, 30..40).await;
    let error = log.flush().unwrap_err().to_string();
    assert!(error.contains("the disk of the store is gone"), "{error}");
    drop(log);
    let restarted = killed(dir.path());
    restart_the_system(restarted.path());
    for dir in [dir, restarted] {
        assert_eq!(open(dir.path()).bounds(at).await.unwrap().end, 30, "no checkpoint vouches for what may be lost");
    }
}
