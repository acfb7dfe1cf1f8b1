//! After a restart of the system, all topics and commits are as of the same moment.

use std::{fs, path::Path};

use orbweaver_log::{Bounds, Commit, EmbeddedLog, Log, Options};

use crate::fixture::{
    DELETE, KEEP, append, commit, committed, created, files, filled, killed, open, read_all, specs, still, tp,
};

/// Rewrites the checkpoints as if an earlier boot of the system had written them.
pub(crate) fn restart_the_system(dir: &Path) {
    for slot in ["checkpoint.0", "checkpoint.1"] {
        let path = dir.join(slot);
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let (body, _) = text.split_once("\ncrc ").unwrap();
        let line = body.lines().find(|line| line.starts_with("boot ")).unwrap();
        let body = body.replace(line, "boot 00000000-0000-0000-0000-000000000000");
        fs::write(&path, format!("{body}\ncrc {:08x}\n", crc32fast::hash(body.as_bytes()))).unwrap();
    }
}

fn checkpoints(dir: &Path) -> String {
    ["checkpoint.0", "checkpoint.1"].map(|slot| fs::read_to_string(dir.join(slot)).unwrap_or_default()).concat()
}

#[tokio::test]
async fn everything_goes_back_to_the_same_moment() {
    let (keep, delete, late) = (tp(KEEP, 0), tp(DELETE, 0), tp(KEEP, 1));
    let (dir, log) = filled(keep, 0..50).await;
    append(&log, delete, 0..70).await;
    commit(&log, 40).await.unwrap();
    log.delete_below(delete, 30).await.unwrap();
    log.flush().unwrap();

    append(&log, keep, 50..200).await;
    append(&log, delete, 70..75).await;
    append(&log, late, 0..20).await;
    commit(&log, 74).await.unwrap();
    log.delete_below(delete, 74).await.unwrap();

    let crashed = killed(dir.path());
    let after = open(crashed.path());
    assert_eq!(after.bounds(keep).await.unwrap().end, 200, "a process that was killed loses nothing");
    assert_eq!(committed(&after).await, Some(74));
    drop(after);

    let cut = killed(dir.path());
    restart_the_system(cut.path());
    let after = open(cut.path());
    assert_eq!(after.bounds(keep).await.unwrap(), Bounds { start: 0, end: 50 });
    assert_eq!(after.bounds(delete).await.unwrap(), Bounds { start: 30, end: 70 });
    assert_eq!(after.bounds(late).await.unwrap(), Bounds { start: 0, end: 0 });
    assert_eq!(committed(&after).await, Some(40), "no commit is ahead of what it stands for");
    assert_eq!(read_all(&after, keep).await.len(), 50);
    assert_eq!(read_all(&after, delete).await.first(), Some(&(30, 30)));
    append(&after, keep, 50..60).await;
    commit(&after, 50).await.unwrap();
    after.close().unwrap();
    restart_the_system(cut.path());
    let after = open(cut.path());
    assert_eq!(read_all(&after, keep).await.len(), 60, "a log that was closed loses nothing");
    assert_eq!(committed(&after).await, Some(50));
}

#[tokio::test]
async fn what_records_vouch_for_is_made_durable_before_the_checkpoint_that_holds_them() {
    let (dir, log) = created();
    let (before, path) = (checkpoints(dir.path()), dir.path().to_owned());
    let seen = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let sees = seen.clone();
    log.sync_before_checkpoints(move || {
        *sees.lock().unwrap() = checkpoints(&path);
        Ok(())
    });
    append(&log, tp(KEEP, 0), 0..5).await;
    log.flush().unwrap();
    assert_eq!(*seen.lock().unwrap(), before, "synced before it was written");
    assert_ne!(checkpoints(dir.path()), before);
}

/// A process is killed, and the next one does not get to register the sync of its store before the power cut.
#[tokio::test]
async fn what_a_killed_process_left_is_in_no_checkpoint_before_the_sync_of_other_data_is_registered() {
    let (at, other) = (tp(KEEP, 0), tp(KEEP, 1));
    let (dir, log) = filled(at, 0..30).await;
    commit(&log, 10).await.unwrap();
    log.flush().unwrap();
    append(&log, at, 30..200).await;
    commit(&log, 20).await.unwrap();
    let after_power_cut = async |dir: &Path| {
        let cut = killed(dir);
        restart_the_system(cut.path());
        let log = open(cut.path());
        (read_all(&log, at).await.len(), read_all(&log, other).await.len(), committed(&log).await)
    };

    let crashed = killed(dir.path());
    let log = open(crashed.path());
    assert_eq!(read_all(&log, at).await.len(), 200);
    drop(log);
    assert_eq!(after_power_cut(crashed.path()).await, (30, 0, Some(10)));

    let log = open(crashed.path());
    log.sync_before_checkpoints(|| Ok(()));
    log.flush().unwrap();
    assert_eq!(after_power_cut(crashed.path()).await, (200, 0, Some(20)));

    let changed = killed(dir.path());
    let log = open(changed.path());
    append(&log, other, 0..5).await;
    drop(log);
    assert_eq!(after_power_cut(changed.path()).await, (200, 5, Some(20)), "as of the same moment");

    let closed = killed(dir.path());
    open(closed.path()).close().unwrap();
    assert_eq!(after_power_cut(closed.path()).await, (200, 0, Some(20)));
}

/// A log whose caller registers a sync needs no change for that.
#[tokio::test]
async fn what_a_killed_process_left_is_durable_soon_after_the_sync_of_other_data_is_registered() {
    let (dir, _log) = filled(tp(KEEP, 0), 0..30).await;
    let crashed = killed(dir.path());
    let options = Options { sync_every: std::time::Duration::from_millis(1), ..still() };
    let log = EmbeddedLog::open(crashed.path(), options, &specs()).unwrap();
    let (synced, syncs) = std::sync::mpsc::channel();
    log.sync_before_checkpoints(move || synced.send(()).map_err(|error| error.to_string()));
    syncs.recv_timeout(std::time::Duration::from_secs(30)).unwrap();
}

#[tokio::test]
async fn pages_that_never_reached_the_disk_are_behind_the_checkpoint() {
    let at = tp(KEEP, 0);
    let (dir, log) = filled(at, 0..30).await;
    log.flush().unwrap();
    append(&log, at, 30..200).await;
    let cut = killed(dir.path());
    restart_the_system(cut.path());
    // The system writes pages back in any order: a file beyond the checkpoint may have its end but not its start.
    let last = files(cut.path(), at).pop().unwrap();
    let mut bytes = fs::read(&last).unwrap();
    bytes[..100].fill(0);
    fs::write(&last, bytes).unwrap();
    assert_eq!(read_all(&open(cut.path()), at).await.len(), 30);
}

#[tokio::test]
async fn grown_commits_are_rewritten_and_stay_true_to_the_checkpoint() {
    let (dir, log) = created();
    let at = tp(DELETE, 0);
    let mut consumer = log.consumer("group", &[DELETE]).unwrap();
    let mut commits = async |offset| {
        let metadata = "m".repeat(4_000);
        consumer.commit(vec![(at, Commit { offset, metadata })]).await.unwrap();
    };
    for offset in 0..300 {
        commits(offset).await;
    }
    log.flush().unwrap();
    let names = |dir: &Path| {
        let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("commits")).collect::<Vec<_>>()
    };
    assert_eq!(names(dir.path()), ["commits.1"], "the grown one is gone once a checkpoint names the next");
    assert!(fs::metadata(dir.path().join("commits.1")).unwrap().len() < 10_000);
    commits(300).await;

    let crashed = killed(dir.path());
    assert_eq!(committed(&open(crashed.path())).await, Some(300));
    let cut = killed(dir.path());
    restart_the_system(cut.path());
    assert_eq!(committed(&open(cut.path())).await, Some(299));
}
