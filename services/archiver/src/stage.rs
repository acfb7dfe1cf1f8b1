//! Glue to the runtime: records in, entries and completions out.

use std::{
    collections::{BTreeSet, HashMap},
    convert::Infallible,
};

use orbweaver_log::{ConsumerRecord, Offset, Partition, Record, TopicPartition};
use orbweaver_messages::{ArchiveFile, Millis, Topic, decode, encode, topic};
use orbweaver_stage::{
    Actions, Origin, PartitionContext, Plan, RestoreFrom, RestoreSpec, Stage, StageError, Step as PlanStep, Token,
};
use orbweaver_url::CrawlName;

use crate::{
    ArchiverConfig, ArchiverMetrics, CloseFiles,
    config::FileLimits,
    file::{CrawlFile, Phase, Step},
    file_name::FileName,
    job::{ArchiveDone, ArchiveJob, Archived, Checked, FileId, Recovery},
    ledger::Ledger,
    page::{Route, route},
    partition::OpenPartition,
};

pub(crate) const SERVICE: &str = "archiver";

/// Actions of this stage, which has no effects outside of the log except for its jobs.
type Wanted = Actions<ArchiveJob, Infallible>;

/// The archiver as a stage over `crawl.pages`.
#[derive(Debug)]
pub struct ArchiverStage {
    limits: FileLimits,
    max_open_files: usize,
    metrics: ArchiverMetrics,
    closer: CloseFiles,
    /// Entries of partitions that are being restored.
    restoring: HashMap<Partition, Ledger>,
    partitions: HashMap<Partition, OpenPartition>,
    /// Files whose entries are being appended, by the token of the plan.
    entering: HashMap<Token, FileId>,
    last_token: Token,
    /// Jobs of the next tick.
    recoveries: Vec<Recovery>,
    discards: Vec<FileId>,
    /// Whether a partition was revoked since the last tick.
    is_revoked: bool,
    /// Number of records that are being checked.
    checking: usize,
    /// Time before which no file closes by its age; `None` without files.
    closes_at: Option<Millis>,
}

impl ArchiverStage {
    /// Creates a stage. Its worker is [`crate::FileWorker`], with the same settings.
    #[must_use]
    pub fn new(config: &ArchiverConfig, metrics: ArchiverMetrics) -> Self {
        Self {
            limits: config.file_limits(),
            max_open_files: config.max_open_files,
            metrics,
            closer: CloseFiles::default(),
            restoring: HashMap::new(),
            partitions: HashMap::new(),
            entering: HashMap::new(),
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

    /// Starts the next step of a crawl's file, if one is due.
    fn advance(&mut self, partition: Partition, crawl: &CrawlName, now: Millis, actions: &mut Wanted) {
        let Some(open) = self.partitions.get_mut(&partition) else { return };
        let epoch = open.owner_epoch;
        let Some(file) = open.crawls.get_mut(crawl) else { return };
        let step = file.next(&self.limits, now, |first| FileName::new(crawl, partition, first, epoch));
        if file.is_empty() {
            open.crawls.remove(crawl);
        } else if let Some(at) = file.closes_at(&self.limits) {
            self.closes_at = Some(self.closes_at.map_or(at, |other| other.min(at)));
        }
        match step {
            None => {}
            Some(Step::Write(name, records)) => {
                actions.jobs.push(ArchiveJob::Write { file: open.file(crawl.clone(), name), records, now });
            }
            Some(Step::Finish(name)) => actions.jobs.push(ArchiveJob::Finish(open.file(crawl.clone(), name))),
        }
    }

    /// Closes the least recently written files beyond the limit, except for those of `written`.
    fn close_beyond_limit(&mut self, written: &BTreeSet<(Partition, CrawlName)>, now: Millis, actions: &mut Wanted) {
        let open_files: usize = self.partitions.values().map(OpenPartition::open_files).sum();
        self.metrics.open_files.set(i64::try_from(open_files).unwrap_or(i64::MAX));
        let beyond = open_files.saturating_sub(self.max_open_files);
        if beyond == 0 {
            return;
        }
        let mut open: Vec<(Millis, (Partition, CrawlName))> = vec![];
        let mut closing = 0;
        for (&partition, files) in &self.partitions {
            for (crawl, file) in &files.crawls {
                let id = (partition, crawl.clone());
                match file.written_at() {
                    Some(at) if !written.contains(&id) => open.push((at, id)),
                    None if file.file.is_some() => closing += 1,
                    _ => {}
                }
            }
        }
        open.sort_unstable();
        for (_, (partition, crawl)) in open.into_iter().take(beyond.saturating_sub(closing)) {
            self.close_file(partition, &crawl, now, actions);
        }
    }

    fn close_file(&mut self, partition: Partition, crawl: &CrawlName, now: Millis, actions: &mut Wanted) {
        if let Some(file) = self.partitions.get_mut(&partition).and_then(|open| open.crawls.get_mut(crawl)) {
            file.close();
        }
        self.advance(partition, crawl, now, actions);
    }

    /// Returns all crawls with files or waiting records, of the partitions that `are`.
    fn crawls(&self, are: impl Fn(&OpenPartition) -> bool) -> Vec<(Partition, CrawlName)> {
        let partitions = self.partitions.iter().filter(|(_, open)| are(open));
        partitions
            .flat_map(|(&partition, open)| open.crawls.keys().map(move |crawl| (partition, crawl.clone())))
            .collect()
    }

    /// Closes the files of revoked partitions; records that wait are left to their next owners.
    fn drain_revoked(&mut self, now: Millis, actions: &mut Wanted) {
        for (partition, crawl) in self.crawls(|open| open.is_draining) {
            let file = self.partitions.get_mut(&partition).and_then(|open| open.crawls.get_mut(&crawl));
            let waiting = file.map(CrawlFile::take_queue).unwrap_or_default();
            actions.parked.extend(waiting.into_iter().map(|(origin, _)| origin));
            self.close_file(partition, &crawl, now, actions);
        }
    }

    /// Rejects the record, unless it is one of an earlier assignment, which its next owner rejects.
    fn reject(&self, origin: Origin, reason: String, actions: &mut Wanted) {
        let open = self.partitions.get(&origin.tp.partition);
        if open.is_some_and(|open| open.assignment_epoch == origin.assignment_epoch) {
            self.metrics.count("rejected", 1);
            tracing::warn!(topic_partition = %origin.tp, offset = origin.offset, reason, "page record rejected");
            actions.rejects.push((origin, reason));
        }
    }

    fn written(&mut self, id: FileId, records: Vec<Checked>, bytes: u64, now: Millis, actions: &mut Wanted) {
        let Some(file) = self.partitions.get_mut(&id.partition).and_then(|open| open.crawl_of(&id)) else {
            actions.jobs.push(ArchiveJob::Discard(id));
            return;
        };
        file.written(&records, bytes);
        for (origin, result) in records {
            match result {
                Ok(()) => actions.parked.push(origin),
                Err(reason) => self.reject(origin, reason, actions),
            }
        }
        self.advance(id.partition, &id.crawl, now, actions);
    }

    /// Appends the entry of a durable file.
    fn finished(&mut self, id: FileId, bytes: u64, now: Millis, actions: &mut Wanted) {
        let Some(open) = self.partitions.get_mut(&id.partition) else {
            actions.jobs.push(ArchiveJob::Discard(id));
            return;
        };
        let epoch = open.owner_epoch;
        let file = open.crawl_of(&id).and_then(|crawl| {
            crawl.phase = Phase::Entering;
            crawl.file.as_ref()
        });
        let Some((file, (&first, &last))) =
            file.and_then(|file| Some((file, file.offsets.first().zip(file.offsets.last())?)))
        else {
            actions.jobs.push(ArchiveJob::Discard(id));
            return;
        };
        let entry = ArchiveFile {
            crawl: id.crawl.clone(),
            file: id.name.path(),
            first,
            last,
            responses: u64::try_from(file.offsets.len()).unwrap_or(u64::MAX),
            bytes,
            closed_at_ms: now,
            epoch,
        };
        let tp = TopicPartition::new(topic::ARCHIVE, id.partition);
        let key = id.crawl.as_bytes().to_vec().into();
        let record = Record::new(tp, Some(key), Some(encode(&entry)), now);
        self.last_token += 1;
        self.entering.insert(self.last_token, id);
        let steps = vec![PlanStep::Produce(vec![record])];
        actions.plans.push(Plan { steps, completes: vec![], token: Some(self.last_token) });
    }

    fn published(&mut self, id: &FileId, now: Millis, actions: &mut Wanted) {
        self.metrics.files.inc();
        let Some(open) = self.partitions.get_mut(&id.partition) else { return };
        let assignment_epoch = open.assignment_epoch;
        let Some(file) = open.crawl_of(id).and_then(CrawlFile::published) else { return };
        self.metrics.count("archived", file.offsets.len());
        let tp = TopicPartition::new(topic::PAGES, id.partition);
        let origins = file.offsets.into_iter().map(|offset| Origin { tp, offset, assignment_epoch });
        actions.completes.extend(origins);
        self.advance(id.partition, &id.crawl, now, actions);
    }
}

impl Stage for ArchiverStage {
    type Job = ArchiveJob;
    type Done = ArchiveDone;
    type Effect = Infallible;

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

    fn plan_durable(&mut self, token: Token, _: &[Offset], _: Millis, actions: &mut Wanted) -> Result<(), StageError> {
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
            Archived::Written { file, records, bytes } => self.written(file, records, bytes, now, actions),
            Archived::Finished { file, bytes } => self.finished(file, bytes, now, actions),
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
