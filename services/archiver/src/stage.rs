//! Glue to the runtime: records in, entries and completions out.

use std::collections::{BTreeSet, HashMap};

use orbweaver_log::{ConsumerRecord, Offset, Partition, TopicPartition};
use orbweaver_messages::{ArchiveFile, Millis, Topic, decode, topic};
use orbweaver_stage::{Actions, Origin, PartitionContext, RestoreFrom, RestoreSpec, Stage, StageError, Token};
use orbweaver_store::Write;

use crate::{
    ArchiveError, ArchiverConfig, ArchiverMetrics, CloseFiles,
    config::FileLimits,
    file::{CrawlFile, Phase},
    job::{ArchiveDone, ArchiveJob, Archived, FileId, Recovery},
    ledger::Ledger,
    page::{Route, route},
    partition::OpenPartition,
};

/// Name of the service and of its group.
pub const SERVICE: &str = "archiver";

/// Actions of this stage.
pub(crate) type Wanted = Actions<ArchiveJob, Write>;

/// The archiver as a stage over `crawl.pages`.
#[derive(Debug)]
pub struct ArchiverStage {
    pub(crate) limits: FileLimits,
    pub(crate) max_open_files: usize,
    /// Whether closed files are uploaded.
    pub(crate) is_uploading: bool,
    pub(crate) metrics: ArchiverMetrics,
    closer: CloseFiles,
    /// Entries of partitions that are being restored.
    restoring: HashMap<Partition, Ledger>,
    pub(crate) partitions: HashMap<Partition, OpenPartition>,
    /// Files whose entries are being appended, by the token of the plan.
    pub(crate) entering: HashMap<Token, FileId>,
    /// Files of whose responses the locations are being stored, by the token of the plan.
    pub(crate) locating: HashMap<Token, FileId>,
    pub(crate) last_token: Token,
    /// Jobs of the next tick.
    recoveries: Vec<Recovery>,
    discards: Vec<FileId>,
    /// Whether a partition was revoked since the last tick.
    is_revoked: bool,
    /// Number of records that are being checked.
    checking: usize,
    /// Time before which no file closes by its age; `None` without files.
    pub(crate) closes_at: Option<Millis>,
}

impl ArchiverStage {
    /// Creates a stage. Its worker is [`crate::FileWorker`], with the same settings.
    #[must_use]
    pub fn new(config: &ArchiverConfig, metrics: ArchiverMetrics) -> Self {
        Self {
            limits: config.file_limits(),
            max_open_files: config.max_open_files,
            is_uploading: config.upload.is_some(),
            metrics,
            closer: CloseFiles::default(),
            restoring: HashMap::new(),
            partitions: HashMap::new(),
            entering: HashMap::new(),
            locating: HashMap::new(),
            last_token: 0,
            recoveries: vec![],
            discards: vec![],
            is_revoked: false,
            checking: 0,
            closes_at: None,
        }
    }

    /// Returns a handle that closes all open files.
    #[must_use]
    pub fn closer(&self) -> CloseFiles {
        self.closer.clone()
    }
}

impl Stage for ArchiverStage {
    type Job = ArchiveJob;
    type Done = ArchiveDone;
    type Effect = Write;

    fn service(&self) -> &'static str {
        SERVICE
    }

    fn topics(&self) -> &'static [Topic] {
        &[topic::PAGES]
    }

    fn claimed_topics(&self) -> &'static [Topic] {
        &[topic::ARCHIVE]
    }

    fn assigned(&mut self, partition: Partition) {
        self.restoring.insert(partition, Ledger::default());
    }

    fn restore_specs(&self, _: Partition) -> Vec<RestoreSpec> {
        vec![RestoreSpec { topic: topic::ARCHIVE, from: RestoreFrom::Start, follow: false }]
    }

    fn restore_claim(&mut self, partition: Partition, _: TopicPartition, owner_epoch: Offset) {
        self.restoring.entry(partition).or_default().claimed(owner_epoch);
    }

    fn restore(&mut self, partition: Partition, record: &ConsumerRecord) -> Result<(), StageError> {
        let entry: ArchiveFile = decode("archive-file", record.value.as_ref()).map_err(|error| StageError::Halted {
            service: SERVICE,
            reason: format!("{}@{}: {error}; without it responses would be archived twice", record.tp, record.offset),
        })?;
        self.restoring.entry(partition).or_default().add(entry);
        Ok(())
    }

    fn open(&mut self, opening: PartitionContext, _: Millis) {
        let PartitionContext { partition, owner_epoch, .. } = opening;
        let mut ledger = self.restoring.remove(&partition).unwrap_or_default();
        let published = ledger.take_files();
        self.recoveries.push(Recovery { partition, owner_epoch, published });
        self.partitions.insert(partition, OpenPartition::new(opening, ledger));
    }

    fn receive(
        &mut self,
        batch: Vec<(Origin, ConsumerRecord)>,
        now: Millis,
        actions: &mut Wanted,
    ) -> Result<(), StageError> {
        let (mut passed_over, mut checks, mut written) = (0, vec![], BTreeSet::new());
        for (origin, record) in batch {
            match route(&record) {
                Route::PassOver => {
                    passed_over += 1;
                    actions.completes.push(origin);
                }
                Route::Reject(reason) => self.reject(origin, reason, actions),
                Route::Archive(crawl) => {
                    let Some(open) = self.partitions.get_mut(&origin.tp.partition) else { continue };
                    if open.ledger.is_archived(&crawl, origin.offset) {
                        checks.push((origin, record));
                    } else {
                        open.crawls.entry(crawl.clone()).or_insert_with(CrawlFile::new).push(origin, record);
                        written.insert((origin.tp.partition, crawl));
                    }
                }
            }
        }
        self.metrics.count("passed_over", passed_over);
        if !checks.is_empty() {
            self.checking += checks.len();
            actions.jobs.push(ArchiveJob::Check(checks));
        }
        written.iter().for_each(|(partition, crawl)| self.advance(*partition, crawl, now, actions));
        if !written.is_empty() {
            self.close_beyond_limit(&written, now, actions);
        }
        Ok(())
    }

    fn plan_durable(
        &mut self,
        token: Token,
        _: &[Offset],
        now: Millis,
        actions: &mut Wanted,
    ) -> Result<(), StageError> {
        if let Some(file) = self.locating.remove(&token) {
            self.located(file, now, actions);
        }
        let Some(file) = self.entering.remove(&token) else { return Ok(()) };
        let crawl = self.partitions.get_mut(&file.partition).and_then(|open| open.crawl_of(&file));
        let is_stale = crawl.map(|crawl| crawl.phase = Phase::Publishing).is_none();
        actions.jobs.push(ArchiveJob::Publish { file, is_stale });
        Ok(())
    }

    fn refused(&mut self, token: Token, reason: &str, _: Millis, _: &mut Wanted) -> Result<(), StageError> {
        let file = self.entering.remove(&token).map(|file| file.name.path()).unwrap_or_default();
        let reason = format!("{file}: the log refused its entry in {}: {reason}", topic::ARCHIVE);
        Err(StageError::Halted { service: SERVICE, reason })
    }

    fn job_done(&mut self, done: ArchiveDone, now: Millis, actions: &mut Wanted) -> Result<(), StageError> {
        match done? {
            Archived::Written { file, records, locations, size } => {
                let (partition, crawl) = (file.partition, file.crawl.clone());
                self.written(file, (records, size), locations, actions);
                self.advance(partition, &crawl, now, actions);
            }
            Archived::Finished { file, closed } => self.finished(file, closed, now, actions),
            Archived::Missing(file) => {
                let path = file.name.path();
                let open = self.partitions.get_mut(&file.partition);
                if open.is_some_and(|open| open.crawl_of(&file).is_some()) {
                    return Err(ArchiveError::NotOpen(path.into()).into());
                }
                tracing::warn!(file = path, "file deleted by the next owner of its partition");
            }
            Archived::Uploaded { file, closed } => self.enter(file, closed, now, actions),
            Archived::Published(file) => self.published(&file, now, actions),
            Archived::Checked(records) => {
                self.checking = self.checking.saturating_sub(records.len());
                for (origin, result) in records {
                    match result {
                        Ok(()) => actions.completes.push(origin),
                        Err(reason) => self.reject(origin, reason, actions),
                    }
                }
            }
            Archived::Cleaned => {}
        }
        Ok(())
    }

    fn tick(&mut self, now: Millis, actions: &mut Wanted) -> Result<(), StageError> {
        actions.jobs.extend(self.discards.drain(..).map(ArchiveJob::Discard));
        if !self.recoveries.is_empty() {
            actions.jobs.push(ArchiveJob::Recover(std::mem::take(&mut self.recoveries)));
        }
        if std::mem::take(&mut self.is_revoked) {
            self.drain_revoked(now, actions);
        }
        if self.closer.take() {
            self.crawls(|_| true)
                .iter()
                .for_each(|(partition, crawl)| self.close_file(*partition, crawl, now, actions));
        }
        if self.closes_at.is_some_and(|at| at <= now) {
            self.closes_at = None;
            self.crawls(|_| true).iter().for_each(|(partition, crawl)| self.advance(*partition, crawl, now, actions));
        }
        let open_files: usize = self.partitions.values().map(OpenPartition::open_files).sum();
        self.metrics.open_files.set(i64::try_from(open_files).unwrap_or(i64::MAX));
        Ok(())
    }

    fn next_tick(&self) -> Option<Millis> {
        let is_waiting = self.is_revoked || !self.discards.is_empty() || !self.recoveries.is_empty();
        if is_waiting || self.closer.is_requested() { Some(Millis::MIN) } else { self.closes_at }
    }

    fn drain(&mut self, partition: Partition) {
        if let Some(open) = self.partitions.get_mut(&partition) {
            open.is_draining = true;
            self.is_revoked = true;
        }
    }

    fn is_drained(&self, partition: Partition) -> bool {
        self.partitions.get(&partition).is_none_or(|open| open.crawls.is_empty())
    }

    fn close(&mut self, partition: Partition) {
        self.restoring.remove(&partition);
        self.recoveries.retain(|recovery| recovery.partition != partition);
        let Some(mut open) = self.partitions.remove(&partition) else { return };
        // A file with a step in progress is deleted, or published, once that is over.
        for (crawl, file) in std::mem::take(&mut open.crawls) {
            if let (Phase::Ready, Some(file)) = (file.phase, file.file) {
                self.discards.push(open.file(crawl, file.name));
            }
        }
    }

    fn due(&self, _: Millis) -> usize {
        let crawls = self.partitions.values().flat_map(|open| open.crawls.values());
        crawls.map(CrawlFile::due).sum::<usize>() + self.checking
    }
}
