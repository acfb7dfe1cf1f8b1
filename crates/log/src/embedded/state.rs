//! Shared state of the log: partitions, commits, groups.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    path::Path,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::Thread,
};

use orbweaver_messages::Topic;

use super::{
    Options,
    checkpoint::Checkpoint,
    commits::{Commits, MAX_GROUP},
    disk::Disk,
    flush::FlushState,
    frame::{MAX_HEADER_NAME, MAX_HEADERS},
    log_dir,
    partition::PartitionLog,
    recover::{Recovery, partition_dir, recover},
    waiters::Waiters,
};
use crate::{Commit, LogError, Offset, Record, Refusal, Refused, TopicPartition, TopicSpec};

/// A topic; its partitions are adjacent in the list of all partitions.
pub(super) struct TopicLog {
    pub(super) spec: TopicSpec,
    first: usize,
    pub(super) waiters: Waiters,
}

/// Shared state of the log.
pub(super) struct Shared {
    pub(super) disk: Disk,
    topics: HashMap<Topic, TopicLog>,
    pub(super) partitions: Vec<Arc<PartitionLog>>,
    pub(super) commits: Commits,
    groups: Mutex<HashSet<String>>,
    /// Read-locked by changes to the log, write-locked for a consistent cut.
    pub(super) cut: RwLock<()>,
    /// Partitions changed since the last cut.
    pub(super) dirty: Mutex<Vec<usize>>,
    pub(super) passes: Mutex<FlushState>,
    /// Syncs the external data that the records of a cut refer to.
    pub(super) external_sync: OnceLock<super::ExternalSync>,
    /// Flush thread, woken by the first change.
    pub(super) flusher: OnceLock<Thread>,
    pub(super) closing: AtomicBool,
    /// Unlocks the directory when the last user of the log is gone.
    _lock: File,
}

impl Shared {
    pub(super) fn open(path: &Path, options: Options, specs: &[TopicSpec]) -> Result<Self, LogError> {
        options.check()?;
        TopicSpec::check(specs)?;
        let lock = log_dir::take(path)?;
        let checkpoint = Checkpoint::load(path)?;
        let disk = Disk::new(path.to_owned(), options);
        let failed = disk.is_marked()?;
        let recovery = Recovery::after(checkpoint.as_ref(), failed);
        if failed {
            tracing::warn!(path = %path.display(), "an earlier sync failed; the log resumes with its durable records");
            // Everything that it names is durable, but the failed sync may have been its own.
            checkpoint.as_ref().map_or(Ok(()), |last| last.store(&disk))?;
        } else if recovery == Recovery::RollBack {
            tracing::info!(path = %path.display(), "the system was restarted; the log resumes at its last checkpoint");
        }
        let (mut topics, mut partitions) = (HashMap::new(), vec![]);
        for spec in specs {
            let topic = log_dir::topic(path, spec)?;
            topics.insert(spec.topic, TopicLog { spec: *spec, first: partitions.len(), waiters: Waiters::default() });
            for partition in 0..spec.partitions {
                let dir = partition_dir(&topic, partition);
                let known = |last: &Checkpoint| last.entries.get(&(spec.topic.0.to_owned(), partition)).copied();
                let entry = checkpoint.as_ref().and_then(known).unwrap_or_default();
                let found = recover(&dir, &entry, recovery)?;
                let tp = TopicPartition::new(spec.topic, partition);
                partitions.push(Arc::new(PartitionLog::new(partitions.len(), (tp, *spec), dir, found)));
            }
        }
        let known = checkpoint.as_ref().map(|checkpoint| checkpoint.commits);
        let commits = Commits::open(path, known, recovery)?;
        let passes = FlushState::new(checkpoint, partitions.len());
        let shared = Self {
            disk,
            topics,
            dirty: Mutex::default(),
            partitions,
            commits,
            groups: Mutex::default(),
            cut: RwLock::new(()),
            passes: Mutex::new(passes),
            external_sync: OnceLock::new(),
            flusher: OnceLock::new(),
            closing: AtomicBool::new(false),
            _lock: lock,
        };
        if recovery == Recovery::Continue {
            // A checkpoint now would include records that a killed process left beyond the last one, before the caller
            // could register the sync of the external data that those records refer to.
            shared.commits.dirty.store(false, Ordering::Release);
        } else {
            // From here on the checkpoint has the current boot ID and the files as recovered.
            shared.touch_recovered();
            shared.flush_changes()?;
        }
        if failed {
            shared.disk.unmark()?;
        }
        Ok(shared)
    }

    pub(super) fn topic(&self, topic: Topic) -> Result<&TopicLog, LogError> {
        self.topics.get(&topic).ok_or(LogError::UnknownTopic(topic))
    }

    pub(super) fn partition(&self, tp: TopicPartition) -> Result<&Arc<PartitionLog>, LogError> {
        let topic = self.topic(tp.topic)?;
        let known = tp.partition < topic.spec.partitions;
        let found = if known { self.partitions.get(topic.first + tp.partition as usize) } else { None };
        found.ok_or(LogError::UnknownPartition(tp))
    }

    /// Validates all records, then appends those that are not refused, one write per partition; waiters are woken once
    /// all are written.
    pub(super) fn append(&self, records: &[Record]) -> Result<Vec<Offset>, LogError> {
        let (mut order, mut refusals) = (Vec::with_capacity(records.len()), vec![]);
        for (index, record) in records.iter().enumerate() {
            let number = self.partition(record.tp)?.number;
            match check(record, self.disk.options.record_limit) {
                Ok(()) => order.push((number, index)),
                Err(refusal) => refusals.push((index, refusal)),
            }
        }
        // By partition, and in input order within each.
        order.sort_unstable();
        let mut offsets = vec![0; records.len()];
        let mut touched = vec![];
        {
            let _change = self.cut.read().unwrap_or_else(PoisonError::into_inner);
            for run in order.chunk_by(|(a, _), (b, _)| a == b) {
                let Some(partition) = run.first().and_then(|(number, _)| self.partitions.get(*number)) else {
                    continue;
                };
                self.changed(partition);
                let first = partition.append(&self.disk, run.iter().filter_map(|(_, index)| records.get(*index)))?;
                for ((_, index), offset) in run.iter().zip(first..) {
                    if let Some(slot) = offsets.get_mut(*index) {
                        *slot = offset;
                    }
                }
                touched.push(partition.tp);
            }
        }
        for run in touched.chunk_by(|a, b| a.topic == b.topic) {
            let partitions: Vec<_> = run.iter().map(|tp| tp.partition).collect();
            if let Some(topic) = run.first().and_then(|tp| self.topics.get(&tp.topic)) {
                topic.waiters.wake(&partitions);
            }
        }
        Refused::unless_all(offsets, refusals)
    }

    /// Marks a partition as changed, before the change: since the caller holds `cut`, a cut either includes the change
    /// or precedes it.
    fn changed(&self, partition: &PartitionLog) {
        if !partition.dirty.swap(true, Ordering::AcqRel) {
            let mut dirty = self.dirty.lock().unwrap_or_else(PoisonError::into_inner);
            dirty.push(partition.number);
            if dirty.len() == 1 {
                self.wake_flusher();
            }
        }
    }

    pub(super) fn wake_flusher(&self) {
        if let Some(flusher) = self.flusher.get() {
            flusher.unpark();
        }
    }

    pub(super) fn commit(&self, group: &str, commits: Vec<(TopicPartition, Commit)>) -> Result<(), LogError> {
        commits.iter().try_for_each(|(tp, commit)| commit.check_size(*tp))?;
        let _change = self.cut.read().unwrap_or_else(PoisonError::into_inner);
        let clean = !self.commits.dirty.load(Ordering::Acquire);
        self.commits.commit(&self.disk, group, commits)?;
        if clean {
            self.wake_flusher();
        }
        Ok(())
    }

    pub(super) fn delete_below(&self, tp: TopicPartition, before: Offset) -> Result<(), LogError> {
        let partition = self.partition(tp)?;
        let _change = self.cut.read().unwrap_or_else(PoisonError::into_inner);
        self.changed(partition);
        partition.delete_below(&self.disk, before)
    }

    pub(super) fn join(&self, group: &str) -> Result<(), LogError> {
        if group.is_empty() || group.len() > MAX_GROUP {
            let length = group.len();
            return Err(LogError::Invalid(format!("a group name of {length} bytes; allowed: 1 to {MAX_GROUP}")));
        }
        if self.groups.lock().unwrap_or_else(PoisonError::into_inner).insert(group.to_owned()) {
            Ok(())
        } else {
            Err(LogError::GroupTaken(group.to_owned()))
        }
    }

    pub(super) fn leave(&self, group: &str) {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).remove(group);
    }
}

/// Checks the limits of a frame.
fn check(record: &Record, limit: usize) -> Result<(), Refusal> {
    Refusal::check_size(record, limit)?;
    let longest = record.headers.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    if record.headers.len() > MAX_HEADERS || longest > MAX_HEADER_NAME {
        let reason = format!(
            "a record of {} headers with names of up to {longest} bytes; allowed: {MAX_HEADERS} headers and \
             {MAX_HEADER_NAME} bytes",
            record.headers.len()
        );
        return Err(Refusal::Invalid { tp: record.tp, reason });
    }
    Ok(())
}
