//! Unfinished files of earlier processes that had the same directory.
//!
//! When a partition opens, the files of its earlier owners are recovered in the directory of the new owner. A process
//! that crashed may find another instance, with another directory, as the owner of its partitions when it starts again:
//! such a file gets its final name, or is deleted, once the log shows that its owner has a successor.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use orbweaver_log::{ConsumerRecord, Log, LogError, Partition, TopicPartition, read_up_to};
use orbweaver_messages::{ArchiveFile, Millis, decode, topic};
use orbweaver_process::EverySecond;
use orbweaver_stage::is_claim;

use crate::{
    disk::{self, OpenFile},
    error::ArchiveError,
    job::Recovery,
    ledger::Ledger,
    remote::Remote,
};

/// Time between two attempts, in milliseconds: a successor claims a partition when the session of its owner has ended.
const RETRY_MS: Millis = 10_000;

/// Files that had no final name when this process started.
#[derive(Debug)]
pub(crate) struct Leftovers {
    root: PathBuf,
    remote: Option<Remote>,
    files: Vec<OpenFile>,
    next_at: Millis,
}

impl Leftovers {
    /// Lists the unfinished files in the directory of an archive; `remote` has their objects.
    pub(crate) fn find(root: &Path, remote: Option<Remote>) -> Result<Self, ArchiveError> {
        Ok(Self { root: root.to_owned(), remote, files: disk::open_files(root)?, next_at: 0 })
    }
}

impl EverySecond for Leftovers {
    const PURPOSE: &'static str = "recovery of unfinished files of earlier processes";

    async fn act(&mut self, log: &dyn Log, now: Millis) -> Result<(), LogError> {
        if self.files.is_empty() || now < self.next_at {
            return Ok(());
        }
        self.next_at = now.saturating_add(RETRY_MS);
        let partitions: BTreeSet<Partition> = self.files.iter().map(|file| file.numbers.partition).collect();
        let mut recoveries = vec![];
        for partition in partitions {
            recoveries.extend(recovery(log, partition).await?);
        }
        let (root, remote, files) = (self.root.clone(), self.remote.clone(), self.files.clone());
        let recovering = move || disk::recover(&root, remote.as_ref(), files, &recoveries);
        match tokio::task::spawn_blocking(recovering).await {
            Ok(Ok(left)) => self.files = left,
            Ok(Err(error)) => tracing::warn!(%error, "unfinished files of earlier processes cannot be recovered yet"),
            Err(error) => tracing::warn!(%error, "the recovery of unfinished files failed"),
        }
        Ok(())
    }
}

/// Reads the entries of a partition. Returns `None` without a claim, or if an entry cannot be read: then its files
/// stay as they are.
async fn recovery(log: &dyn Log, partition: Partition) -> Result<Option<Recovery>, LogError> {
    let tp = TopicPartition::new(topic::ARCHIVE, partition);
    if partition >= log.partitions(topic::ARCHIVE)? {
        return Ok(None);
    }
    let (mut ledger, mut is_readable) = (Ledger::default(), true);
    let bounds = log.bounds(tp).await?;
    let apply = |record: ConsumerRecord| {
        if is_claim(&record) {
            return ledger.claimed(record.offset);
        }
        match decode::<ArchiveFile>("archive-file", record.value.as_ref()) {
            Ok(entry) => ledger.add(entry),
            Err(_) => is_readable = false,
        }
    };
    read_up_to(log, tp, bounds.start, bounds, apply).await?;
    let published = ledger.take_files();
    Ok(ledger.owner_epoch().filter(|_| is_readable).map(|owner_epoch| Recovery { partition, owner_epoch, published }))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use orbweaver_log::{Cleanup, MemoryLog, Record, TopicSpec};
    use orbweaver_messages::encode;
    use orbweaver_stage::CLAIM_HEADER;
    use orbweaver_url::CrawlName;

    use super::*;
    use crate::file_name::FileName;

    const TP: TopicPartition = TopicPartition { topic: topic::ARCHIVE, partition: 3 };

    async fn append(log: &MemoryLog, record: Record) {
        log.append(vec![record]).await.unwrap();
    }

    async fn claim(log: &MemoryLog) {
        let headers = vec![(CLAIM_HEADER, "archiver".into())];
        append(log, Record { tp: TP, key: None, value: None, headers, timestamp_ms: 0 }).await;
    }

    /// Creates an unfinished file of an owner.
    fn leave(root: &Path, first: u64, epoch: u64) -> FileName {
        let name = FileName::new(&CrawlName::default(), 0, 3, first, epoch);
        fs::create_dir_all(root.join(&name.directory)).unwrap();
        fs::write(root.join(name.open_path()), "").unwrap();
        name
    }

    async fn enter(log: &MemoryLog, name: &FileName, last: u64, epoch: u64) {
        let (crawl, file) = (CrawlName::default(), name.path());
        let entry =
            ArchiveFile { crawl, file, first: 0, last, responses: 1, bytes: 1, sha256: None, closed_at_ms: 0, epoch };
        append(log, Record::new(TP, None, Some(encode(&entry)), 0)).await;
    }

    #[tokio::test]
    async fn files_are_finished_or_deleted_once_their_owner_has_a_successor_with_another_directory() {
        let log = MemoryLog::new(&[TopicSpec::new(topic::ARCHIVE, 4, Cleanup::Keep)]);
        let dir = tempfile::tempdir().unwrap();
        claim(&log).await;
        let [with_entry, without] = [leave(dir.path(), 5, 0), leave(dir.path(), 9, 0)];
        enter(&log, &with_entry, 8, 0).await;
        let mut leftovers = Leftovers::find(dir.path(), None).unwrap();
        // Of this process.
        let later = leave(dir.path(), 20, 0);
        let exist = |name: &FileName| [name.open_path(), name.path()].map(|path| dir.path().join(path).exists());

        leftovers.act(&log, 0).await.unwrap();
        for name in [&with_entry, &without, &later] {
            assert_eq!(exist(name), [true, false], "its owner may still write it");
        }
        claim(&log).await;
        leftovers.act(&log, RETRY_MS - 1).await.unwrap();
        assert_eq!(exist(&with_entry), [true, false], "before the next attempt");
        leftovers.act(&log, RETRY_MS).await.unwrap();
        assert_eq!(exist(&with_entry), [false, true]);
        assert_eq!(exist(&without), [false, false]);
        assert_eq!(exist(&later), [true, false]);
        assert_eq!(leftovers.files, []);
    }

    #[tokio::test]
    async fn files_are_left_alone_if_an_entry_cannot_be_read_or_their_partition_does_not_exist() {
        let log = MemoryLog::new(&[TopicSpec::new(topic::ARCHIVE, 4, Cleanup::Keep)]);
        let dir = tempfile::tempdir().unwrap();
        claim(&log).await;
        append(&log, Record::new(TP, None, Some("{".into()), 0)).await;
        claim(&log).await;
        let name = leave(dir.path(), 5, 0);
        let elsewhere = FileName::new(&CrawlName::default(), 0, 4, 0, 0);
        fs::write(dir.path().join(elsewhere.open_path()), "").unwrap();
        let mut leftovers = Leftovers::find(dir.path(), None).unwrap();
        leftovers.act(&log, 0).await.unwrap();
        assert!([name, elsewhere].iter().all(|name| dir.path().join(name.open_path()).exists()));
        assert_eq!(leftovers.files.len(), 2);
    }
}
