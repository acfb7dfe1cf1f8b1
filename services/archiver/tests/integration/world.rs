//! One partition with a simulated disk and log, of which every step can be the last one before a crash.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use orbweaver_archiver::{
    ArchiverConfig, ArchiverMetrics, ArchiverStage, PAGE_HEADER,
    job::{ArchiveJob, Archived, Closed, Recovery, Size},
};
use orbweaver_log::{ConsumerRecord, Offset, Record, TopicPartition};
use orbweaver_messages::{ArchiveFile, Millis, decode, topic};
use orbweaver_stage::{Actions, Origin, PartitionContext, Plan, Stage, Step};
use orbweaver_store::{CaptureRow, Write};
use orbweaver_url::Fingerprint;
use prometheus::Registry;

const PAGES: TopicPartition = TopicPartition { topic: topic::PAGES, partition: 3 };
const ARCHIVE: TopicPartition = TopicPartition { topic: topic::ARCHIVE, partition: 3 };

/// A record of `crawl.pages`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageRecord {
    Captured(&'static str),
    /// With a capture that cannot be read.
    Damaged(&'static str),
    Plain,
}

/// A record of `crawl.archive`.
#[derive(Debug, Clone)]
enum LedgerRecord {
    Claim,
    Entry(Record),
}

type Wanted = Actions<ArchiveJob, Write>;

/// An owner of the partition.
#[derive(Debug)]
struct Owner {
    stage: ArchiverStage,
    jobs: VecDeque<ArchiveJob>,
    plans: VecDeque<Plan<Write>>,
    rejects: Vec<Offset>,
    /// Next offset to deliver.
    position: Offset,
    /// Offsets from the commit point that are complete.
    complete: BTreeSet<Offset>,
    parked: BTreeSet<Offset>,
}

#[derive(Debug)]
pub(crate) struct World {
    pages: Vec<PageRecord>,
    limits: ArchiverConfig,
    owner: Owner,
    ledger: Vec<LedgerRecord>,
    commit: Offset,
    pub(crate) dead_letters: BTreeSet<Offset>,
    /// Offsets in files, by path: unfinished ones, those whose upload has begun, and those with their final names in the
    /// directory or in the store.
    open: BTreeMap<String, Vec<Offset>>,
    uploading: BTreeMap<String, Vec<Offset>>,
    pub(crate) closed: BTreeMap<String, Vec<Offset>>,
    /// Files in which the store locates the response of an offset, by owner epoch.
    locations: BTreeMap<Offset, BTreeMap<Offset, String>>,
    now: Millis,
    assignments: u32,
}

impl World {
    pub(crate) fn new(pages: Vec<PageRecord>, limits: ArchiverConfig) -> Self {
        let owner = Owner::new(&limits);
        let mut world = Self {
            pages,
            limits,
            owner,
            ledger: vec![],
            commit: 0,
            dead_letters: BTreeSet::new(),
            open: BTreeMap::new(),
            uploading: BTreeMap::new(),
            closed: BTreeMap::new(),
            locations: BTreeMap::new(),
            now: 1_700_000_000_000,
            assignments: 0,
        };
        world.start();
        world
    }

    /// Starts a new owner at the commit point.
    fn start(&mut self) {
        self.assignments += 1;
        let partition = PAGES.partition;
        let claim = self.ledger.len() as Offset;
        let mut owner = Owner::new(&self.limits);
        owner.position = self.commit;
        owner.stage.assigned(partition);
        for (record, offset) in self.ledger.iter().zip(0..) {
            match record {
                LedgerRecord::Claim => owner.stage.restore_claim(partition, ARCHIVE, offset),
                LedgerRecord::Entry(record) => {
                    let (key, value) = (record.key.clone(), record.value.clone());
                    let record = ConsumerRecord { tp: ARCHIVE, offset, timestamp_ms: 0, key, value, headers: vec![] };
                    owner.stage.restore(partition, &record).unwrap();
                }
            }
        }
        self.ledger.push(LedgerRecord::Claim);
        let context = PartitionContext {
            partition,
            partitions: 8,
            assignment_epoch: self.assignments,
            owner_epoch: claim,
            commits: [self.commit, 0, 0],
        };
        owner.stage.prepare(context, self.now).unwrap();
        owner.stage.open(context, self.now);
        self.owner = owner;
        self.tick(0);
    }

    /// Replaces the owner: files that it has open remain unfinished. With `is_suspended` it wakes up afterwards, and
    /// carries out its plans.
    pub(crate) fn crash(&mut self, is_suspended: bool) {
        let plans = std::mem::take(&mut self.owner.plans);
        self.start();
        if is_suspended {
            plans.into_iter().for_each(|plan| self.carry_out(plan));
        }
    }

    /// Carries out the oldest plan; then the owner crashes.
    pub(crate) fn crash_after_append(&mut self) {
        if let Some(plan) = self.owner.plans.pop_front() {
            self.carry_out(plan);
        }
        self.start();
    }

    fn carry_out(&mut self, plan: Plan<Write>) {
        for step in plan.steps {
            match step {
                Step::Produce(records) => self.ledger.extend(records.into_iter().map(LedgerRecord::Entry)),
                Step::Perform(writes) => {
                    for write in writes {
                        let Write::Capture(row) = write else { panic!("{write:?}") };
                        self.locations.entry(row.offset).or_default().insert(row.epoch, row.file);
                    }
                }
            }
        }
    }

    pub(crate) fn deliver(&mut self, records: usize) {
        let from = self.owner.position;
        let pages = self.pages.iter().zip(0..).skip(from as usize).take(records);
        let epoch = self.assignments;
        let batch: Vec<(Origin, ConsumerRecord)> =
            pages.map(|(&page, offset)| delivered(page, offset, epoch)).collect();
        self.owner.position += batch.len() as Offset;
        if !batch.is_empty() {
            self.call(|stage, now, actions| stage.receive(batch, now, actions).unwrap());
        }
    }

    pub(crate) fn tick(&mut self, after: Millis) {
        self.now += after;
        self.call(|stage, now, actions| stage.tick(now, actions).unwrap());
    }

    pub(crate) fn close_files(&mut self) {
        self.owner.stage.closer().request();
        self.tick(1);
    }

    /// Writes the dead letters of rejected records.
    pub(crate) fn land_rejects(&mut self) {
        let rejects = std::mem::take(&mut self.owner.rejects);
        self.dead_letters.extend(&rejects);
        self.owner.complete.extend(rejects);
    }

    pub(crate) fn land_plan(&mut self) {
        let Some(plan) = self.owner.plans.pop_front() else { return };
        let token = plan.token.unwrap();
        self.carry_out(plan);
        self.call(|stage, now, actions| stage.plan_durable(token, &[], now, actions).unwrap());
    }

    pub(crate) fn commit(&mut self) {
        while self.owner.complete.contains(&self.commit) {
            self.commit += 1;
        }
    }

    /// Carries out one of the jobs in progress; jobs are independent.
    pub(crate) fn run_job(&mut self, which: usize) {
        if self.owner.jobs.is_empty() {
            return;
        }
        let index = which % self.owner.jobs.len();
        let done = match self.owner.jobs.remove(index).unwrap() {
            ArchiveJob::Write { file, records, .. } => {
                let path = file.name.path();
                let results: Vec<_> = records.iter().map(|(origin, record)| (*origin, check(record))).collect();
                let valid = results.iter().filter(|(_, result)| result.is_ok()).map(|(origin, _)| origin.offset);
                let valid: Vec<Offset> = valid.collect();
                let location = |&offset: &Offset| location(file.owner_epoch, path.clone(), offset);
                let locations = valid.iter().map(location).collect();
                if !valid.is_empty() {
                    assert!(!self.closed.contains_key(&path), "{path} is closed");
                    self.open.entry(path.clone()).or_default().extend(valid);
                }
                let bytes = self.open.get(&path).map_or(0, |offsets| 100 * offsets.len() as u64);
                let size = Size { bytes, index_bytes: bytes };
                Archived::Written { file, records: results, locations, size }
            }
            ArchiveJob::Finish(file) => {
                let bytes = 100 * self.open[&file.name.path()].len() as u64;
                Archived::Finished { file, closed: Closed { bytes, sha256: String::new() } }
            }
            ArchiveJob::Upload { file, closed } => {
                let path = file.name.path();
                match self.open.remove(&path) {
                    Some(offsets) => {
                        self.closed.insert(path.clone(), offsets.clone());
                        self.uploading.insert(path, offsets);
                        Archived::Uploaded { file, closed }
                    }
                    None => Archived::Missing(file),
                }
            }
            ArchiveJob::Publish { file, .. } => {
                let path = file.name.path();
                if self.uploading.remove(&path).is_none() {
                    let offsets = self.open.remove(&path).unwrap();
                    self.closed.insert(path, offsets);
                }
                Archived::Published(file)
            }
            ArchiveJob::Discard(file) => {
                self.discard(&file.name.path());
                Archived::Cleaned
            }
            ArchiveJob::Check(records) => {
                Archived::Checked(records.iter().map(|(origin, record)| (*origin, check(record))).collect())
            }
            ArchiveJob::Recover(recoveries) => {
                self.recover(&recoveries);
                Archived::Cleaned
            }
        };
        self.call(|stage, now, actions| stage.job_done(Ok(done), now, actions).unwrap());
    }

    /// Carries out all jobs and plans, and those that they cause.
    pub(crate) fn run_jobs(&mut self) {
        while !self.owner.jobs.is_empty() || !self.owner.plans.is_empty() {
            self.run_job(0);
            self.land_plan();
        }
    }

    /// Returns crawl, first offset and owner epoch of the closed files, from their names.
    pub(crate) fn closed_files(&self) -> Vec<(&str, Offset, Offset)> {
        fn of_name(path: &str) -> Option<(&str, Offset, Offset)> {
            let (crawl, file) = path.split_once('/')?;
            let mut parts = file.strip_suffix(".warc.gz")?.rsplit('-').map(str::parse);
            let (owner_epoch, first) = (parts.next()?.ok()?, parts.next()?.ok()?);
            Some((crawl, first, owner_epoch))
        }
        self.closed.keys().map(|path| of_name(path).unwrap()).collect()
    }

    fn discard(&mut self, path: &str) {
        self.open.remove(path);
        if self.uploading.remove(path).is_some() {
            self.closed.remove(path);
        }
    }

    fn recover(&mut self, recoveries: &[Recovery]) {
        let [recovery] = recoveries else { panic!("{recoveries:?}") };
        let paths: Vec<String> = self.open.keys().chain(self.uploading.keys()).cloned().collect();
        for path in paths {
            let epoch = path.trim_end_matches(".warc.gz").rsplit('-').next().unwrap().parse::<Offset>().unwrap();
            if epoch >= recovery.owner_epoch {
                continue;
            }
            if !recovery.published.contains(&path) {
                self.discard(&path);
            } else if self.uploading.remove(&path).is_none() {
                let offsets = self.open.remove(&path).unwrap();
                self.closed.insert(path, offsets);
            }
        }
    }

    /// Lets the owner finish everything, without a crash.
    pub(crate) fn finish(&mut self) {
        for _ in 0..1000 {
            self.deliver(usize::MAX);
            self.run_jobs();
            self.land_rejects();
            self.commit();
            if self.commit == self.pages.len() as Offset && self.owner.jobs.is_empty() {
                return;
            }
            self.close_files();
        }
        panic!("the commit point stays at {}: {self:?}", self.commit);
    }

    /// Checks that the closed files have each response exactly once, and no others, and that the store locates each in its
    /// file.
    pub(crate) fn verify(&self) {
        let mut archived: BTreeMap<Offset, &str> = BTreeMap::new();
        for (path, offsets) in &self.closed {
            assert!(offsets.is_sorted() && !offsets.is_empty(), "{path}: {offsets:?}");
            let crawl = path.split('/').next().unwrap();
            for offset in offsets {
                let located = self.locations[offset].last_key_value().unwrap();
                assert_eq!(located.1, path, "the location of {offset}: {self:?}");
                assert_eq!(archived.insert(*offset, crawl), None, "{offset} is archived twice: {self:?}");
            }
        }
        for (page, offset) in self.pages.iter().zip(0..) {
            let expected = if let PageRecord::Captured(crawl) = page { Some(*crawl) } else { None };
            assert_eq!(archived.get(&offset).copied(), expected, "{offset}: {self:?}");
            let is_dead = self.dead_letters.contains(&offset);
            assert_eq!(is_dead, matches!(page, PageRecord::Damaged(_)), "{offset}: {self:?}");
        }
        assert!(self.open.is_empty() && self.uploading.is_empty(), "{:?} {:?}", self.open, self.uploading);
        assert_eq!(self.owner.stage.due(self.now), 0);
        self.verify_entries();
    }

    /// Checks that each closed file has its entry.
    fn verify_entries(&self) {
        let mut entries = BTreeMap::new();
        for record in &self.ledger {
            let LedgerRecord::Entry(record) = record else { continue };
            let entry: ArchiveFile = decode("archive-file", record.value.as_ref()).unwrap();
            assert_eq!(record.key.as_deref(), Some(entry.crawl.as_bytes()));
            entries.insert(entry.file.clone(), entry);
        }
        for (path, offsets) in &self.closed {
            let entry = &entries[path];
            assert_eq!((entry.first, entry.last), (offsets[0], offsets[offsets.len() - 1]));
            assert_eq!((entry.responses, entry.bytes), (offsets.len() as u64, 100 * offsets.len() as u64));
        }
    }

    /// Closes the partition in an orderly way: the owner drains it, as far as `jobs` steps reach, and another one opens it.
    pub(crate) fn revoke(&mut self, jobs: usize) {
        self.owner.stage.drain(PAGES.partition);
        assert!(self.owner.stage.next_tick().is_some_and(|at| at <= self.now));
        self.tick(1);
        for _ in 0..jobs {
            self.run_job(0);
            self.land_plan();
        }
        if self.owner.stage.is_drained(PAGES.partition) {
            assert!(self.owner.plans.is_empty());
        }
        self.lose();
    }

    /// Closes the partition, as after its loss, and opens it under a new owner.
    pub(crate) fn lose(&mut self) {
        self.commit();
        self.owner.stage.close(PAGES.partition);
        self.tick(1);
        self.run_jobs();
        assert!(self.open.is_empty() && self.uploading.is_empty(), "the owner deletes its unfinished files: {self:?}");
        self.start();
    }

    fn call(&mut self, call: impl FnOnce(&mut ArchiverStage, Millis, &mut Wanted)) {
        let mut actions = Actions::default();
        call(&mut self.owner.stage, self.now, &mut actions);
        let Actions { plans, jobs, completes, parked, rejects, refreshes } = actions;
        assert!(refreshes.is_empty());
        self.owner.plans.extend(plans);
        self.owner.jobs.extend(jobs);
        for origin in completes {
            if origin.assignment_epoch == self.assignments {
                assert!(self.owner.complete.insert(origin.offset), "{} is completed twice", origin.offset);
            }
        }
        for origin in parked {
            assert!(self.owner.parked.insert(origin.offset), "{} is parked twice", origin.offset);
        }
        self.owner.rejects.extend(rejects.into_iter().map(|(origin, _)| origin.offset));
    }
}

impl Owner {
    fn new(limits: &ArchiverConfig) -> Self {
        let metrics = ArchiverMetrics::register(&Registry::new()).unwrap();
        Self {
            stage: ArchiverStage::new(limits, metrics),
            jobs: VecDeque::new(),
            plans: VecDeque::new(),
            rejects: vec![],
            position: 0,
            complete: BTreeSet::new(),
            parked: BTreeSet::new(),
        }
    }
}

/// Returns the location of a response, whose offset in the file is that of its record.
fn location(epoch: Offset, file: String, offset: Offset) -> CaptureRow {
    CaptureRow {
        fingerprint: Fingerprint([0; 16]),
        at_ms: 0,
        epoch,
        file,
        offset,
        length: 1,
        status: 200,
        is_revisit: false,
        content_hash: None,
    }
}

fn check(record: &ConsumerRecord) -> Result<(), String> {
    if record.value.as_deref() == Some(b"damaged") { Err("damaged".to_owned()) } else { Ok(()) }
}

fn delivered(page: PageRecord, offset: Offset, assignment_epoch: u32) -> (Origin, ConsumerRecord) {
    let (crawl, capture, value) = match page {
        PageRecord::Captured(crawl) => (crawl, r#","capture":{}"#, "body"),
        PageRecord::Damaged(crawl) => (crawl, r#","capture":{}"#, "damaged"),
        PageRecord::Plain => ("plain", "", "body"),
    };
    let header = format!(r#"{{"context":{{"crawl":"{crawl}"}}{capture}}}"#);
    let headers = vec![(PAGE_HEADER.into(), Bytes::from(header))];
    let value = Some(Bytes::from_static(value.as_bytes()));
    let record = ConsumerRecord { tp: PAGES, offset, timestamp_ms: 0, key: None, value, headers };
    (Origin { tp: PAGES, offset, assignment_epoch }, record)
}
