//! In-memory log and single-step runtime, so that a test controls the order of events.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use bytes::Bytes;
use orbweaver_log::{ConsumerRecord, Offset, Partition, Record, TopicPartition};
use orbweaver_messages::{
    CrawlDefinition, Discovered, DiscoveryKind, FrontierUrl, Pins, Priority, Scope, SeedMetadata, SeenBatch, SeenEntry,
    Topic, Trail, crawl_key, decode, encode, topic,
};
use orbweaver_normalizer_dedup::{Config, IndexKind, NormalizerDedup};
use orbweaver_stage::{Actions, Origin, PartitionContext, Plan, RestoreFrom, Stage, StageError, Step};
use orbweaver_url::{CrawlName, Fingerprint, canonical_text, parse, partition_of, slot_of};

type Never = std::convert::Infallible;

/// State that survives a crash: the log and the completed offsets.
pub(crate) struct World {
    pub(crate) log: BTreeMap<TopicPartition, Vec<ConsumerRecord>>,
    pub(crate) completed: BTreeSet<(TopicPartition, Offset)>,
    pub(crate) rejected: Vec<(TopicPartition, Offset, String)>,
    pub(crate) partitions: Partition,
    /// Settings of the processes, except for those that the world chooses.
    pub(crate) settings: Config,
    pub(crate) directory: tempfile::TempDir,
}

impl World {
    pub(crate) fn new(partitions: Partition) -> Self {
        Self {
            log: BTreeMap::new(),
            completed: BTreeSet::new(),
            rejected: vec![],
            partitions,
            settings: Config::default(),
            directory: tempfile::tempdir().expect("a directory"),
        }
    }

    /// Creates a world in which the default crawl is defined.
    pub(crate) fn defined(partitions: Partition, scope: Scope, max_depth: Option<u16>) -> Self {
        let mut world = Self::new(partitions);
        world.define("default", scope, max_depth);
        world
    }

    /// Returns the settings of a process.
    pub(crate) fn config(&self) -> Config {
        Config { recent_entries: 64, index_dir: self.directory.path().join("seen"), ..self.settings.clone() }
    }

    /// Deletes the index, if it is on disk.
    pub(crate) fn delete_index(&self) {
        if self.settings.index == IndexKind::Exact {
            std::fs::remove_dir_all(self.config().index_dir).expect("the disk");
        }
    }

    pub(crate) fn append(&mut self, record: Record) -> Offset {
        let records = self.log.entry(record.tp).or_default();
        let offset = records.len() as Offset;
        let Record { tp, key, value, timestamp_ms, .. } = record;
        records.push(ConsumerRecord { tp, offset, timestamp_ms, key, value, headers: vec![] });
        offset
    }

    pub(crate) fn put(&mut self, topic: Topic, partition: Partition, key: &str, value: impl Into<Bytes>) -> Offset {
        let key = Some(Bytes::copy_from_slice(key.as_bytes()));
        let tp = TopicPartition::new(topic, partition);
        self.append(Record::new(tp, key, Some(value.into()), 1))
    }

    pub(crate) fn define(&mut self, name: &str, scope: Scope, max_depth: Option<u16>) {
        let host = include_str!("../../../../schemas/examples/crawl-definition/1/host.json");
        let host: CrawlDefinition = serde_json::from_str(host).expect("a definition");
        let pins = Pins { partitions: self.partitions, ..host.pins };
        let (name, exclude) = (name.parse().expect("a name"), vec!["/private/".to_owned()]);
        let definition = CrawlDefinition { name, scope, exclude, max_depth, pins, ..host };
        self.put(topic::CONTROL, 0, &crawl_key(&definition.name), encode(&definition));
    }

    /// Deletes the definition of a crawl.
    pub(crate) fn delete(&mut self, name: &str) {
        let (tp, key) =
            (TopicPartition::new(topic::CONTROL, 0), Some(crawl_key(&name.parse().expect("a name")).into()));
        self.append(Record::new(tp, key, None, 1));
    }

    pub(crate) fn seed(&mut self, text: &str) -> Offset {
        self.put(topic::SEEDS, 0, "", text.to_owned())
    }

    pub(crate) fn links(&mut self, site: &str, depth: u16, urls: &[&str]) -> Offset {
        self.discovered(&links(site, depth, urls))
    }

    pub(crate) fn discovered(&mut self, found: &Discovered) -> Offset {
        self.put(topic::DISCOVERED, self.partition(&found.site), &found.site, encode(found))
    }

    pub(crate) fn partition(&self, site: &str) -> Partition {
        partition_of(slot_of(site), self.partitions)
    }

    pub(crate) fn records(&self, topic: Topic) -> impl Iterator<Item = &ConsumerRecord> {
        self.log.iter().filter(move |(tp, _)| tp.topic == topic).flat_map(|(_, records)| records)
    }

    pub(crate) fn waiting(&self) -> Vec<FrontierUrl> {
        let waiting = self.records(topic::FRONTIER).map(|record| decode("waiting", record.value.as_ref()));
        waiting.collect::<Result<_, _>>().expect("waiting messages")
    }

    pub(crate) fn seen(&self) -> Vec<SeenEntry> {
        let batches =
            self.records(topic::SEEN).map(|record| SeenBatch::decode(record.value.as_ref()).expect("a batch"));
        batches.flat_map(|batch| batch.entries).collect()
    }

    /// Returns the number of admissions of each canonical URL.
    pub(crate) fn passes(&self) -> BTreeMap<String, usize> {
        let mut passes = BTreeMap::new();
        for waiting in self.waiting() {
            *passes.entry(waiting.context.key().to_owned()).or_default() += 1;
        }
        passes
    }

    pub(crate) fn is_complete(&self) -> bool {
        let groups = self.log.iter().filter(|(tp, _)| [topic::SEEDS, topic::DISCOVERED].contains(&tp.topic));
        groups.flat_map(|(_, records)| records).all(|record| self.completed.contains(&(record.tp, record.offset)))
    }
}

/// Returns links that were found on a page of their site.
pub(crate) fn links(site: &str, depth: u16, urls: &[&str]) -> Discovered {
    Discovered {
        crawl: CrawlName::default(),
        site: site.into(),
        via: Some(format!("https://{site}/via")),
        depth,
        sighting: DiscoveryKind::Link,
        chain: vec![],
        trail: Trail::default(),
        content: None,
        priority: Priority::default(),
        metadata: SeedMetadata::default(),
        urls: urls.iter().map(|url| (*url).to_owned()).collect(),
        modified_ms: vec![],
        found_at_ms: 5,
    }
}

pub(crate) fn fingerprint(url: &str) -> Fingerprint {
    Fingerprint::of(&CrawlName::default(), &canonical_text(&parse(url).expect("a url")))
}

/// Process between two crashes.
pub(crate) struct Life {
    pub(crate) stage: NormalizerDedup,
    /// Plans in flight: next step, and offsets so far.
    pub(crate) flying: Vec<(Plan<Never>, usize, Vec<Offset>)>,
    /// Next offset to read in each partition of a consumed topic.
    read: HashMap<TopicPartition, Offset>,
    /// Next offset to read in each tailed log.
    followed: HashMap<TopicPartition, Offset>,
    completed_here: BTreeSet<(TopicPartition, Offset)>,
    /// Requested refreshes, each with the log ends at that time.
    pub(crate) refreshes: VecDeque<(u64, HashMap<TopicPartition, Offset>)>,
    pub(crate) now: i64,
    pub(crate) halted: Option<String>,
}

/// Ways in which a life ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    Idle,
    Killed,
}

impl Life {
    /// Starts the process: restores and opens all partitions.
    pub(crate) fn begin(world: &World) -> Self {
        let stage = NormalizerDedup::new(world.config()).expect("an index");
        let mut life = Self {
            stage,
            flying: vec![],
            read: HashMap::new(),
            followed: HashMap::new(),
            completed_here: BTreeSet::new(),
            refreshes: VecDeque::new(),
            now: 100,
            halted: None,
        };
        for topic in life.stage.tails() {
            for tp in (0..world.partitions).map(|partition| TopicPartition::new(*topic, partition)) {
                let records = world.log.get(&tp).cloned().unwrap_or_default();
                life.followed.insert(tp, records.len() as Offset);
                let mut actions = Actions::default();
                for record in &records {
                    life.stage.receive_tailed(record, life.now, &mut actions).expect("a record of a tail");
                }
                assert_eq!(actions.plans, vec![], "nothing is open");
            }
        }
        for partition in 0..world.partitions {
            for spec in life.stage.restore_specs(partition) {
                let tp = TopicPartition::new(spec.topic, partition);
                let records = world.log.get(&tp).map_or(&[][..], Vec::as_slice);
                let from = match spec.from {
                    RestoreFrom::Start => 0,
                    RestoreFrom::Offset(offset) => offset,
                    other => panic!("{other:?}"),
                };
                for record in &records[from as usize..] {
                    life.stage.restore(partition, record).expect("a restore");
                }
                life.followed.insert(tp, records.len() as Offset);
            }
            let partitions = world.partitions;
            let opening =
                PartitionContext { partition, partitions, assignment_epoch: 1, owner_epoch: 0, commits: [0; 3] };
            life.stage.prepare(opening, life.now).expect("an index");
        }
        life
    }

    fn take(&mut self, mut actions: Actions<Never, Never>, world: &mut World) {
        assert!(actions.jobs.is_empty() && actions.parked.is_empty());
        self.flying.extend(actions.plans.into_iter().map(|plan| (plan, 0, vec![])));
        for token in actions.refreshes {
            let tails = world.log.iter().filter(|(tp, _)| tp.topic == topic::CONTROL);
            self.refreshes.push_back((token, tails.map(|(tp, log)| (*tp, log.len() as Offset)).collect()));
        }
        let rejected = actions.rejects.into_iter().map(|(origin, reason)| {
            world.rejected.push((origin.tp, origin.offset, reason));
            origin
        });
        actions.completes.extend(rejected);
        self.complete(actions.completes, world);
    }

    fn complete(&mut self, origins: Vec<Origin>, world: &mut World) {
        for origin in origins {
            let tp = (origin.tp, origin.offset);
            assert!(self.completed_here.insert(tp), "{origin:?} was completed twice");
            world.completed.insert(tp);
        }
    }

    /// Refuses the plan at `index`.
    pub(crate) fn refuse(&mut self, world: &mut World, index: usize) {
        let token = self.flying.remove(index).0.token.expect("a token");
        self.call(world, |stage, now, actions| stage.refused(token, "too large", now, actions));
    }

    pub(crate) fn call(
        &mut self,
        world: &mut World,
        call: impl FnOnce(&mut NormalizerDedup, i64, &mut Actions<Never, Never>) -> Result<(), StageError>,
    ) {
        self.now += 1;
        let mut actions = Actions::default();
        match call(&mut self.stage, self.now, &mut actions) {
            Ok(()) => self.take(actions, world),
            Err(error) => self.halted = self.halted.take().or(Some(error.to_string())),
        }
    }

    /// Delivers up to `records` records; returns `true` if there were any.
    pub(crate) fn deliver(&mut self, world: &mut World, records: usize) -> bool {
        let mut batch = vec![];
        for (tp, log) in &world.log {
            if ![topic::SEEDS, topic::DISCOVERED].contains(&tp.topic) {
                continue;
            }
            let next = self.read.entry(*tp).or_default();
            while batch.len() < records && (*next as usize) < log.len() {
                // Completed offsets below the commit point are not delivered again; those above it are.
                let commit = (0..).find(|offset| !world.completed.contains(&(*tp, *offset))).unwrap_or_default();
                if *next >= commit || self.completed_here.contains(&(*tp, *next)) {
                    batch.push((Origin { tp: *tp, offset: *next, assignment_epoch: 1 }, log[*next as usize].clone()));
                }
                *next += 1;
            }
        }
        let any = !batch.is_empty();
        if any {
            self.call(world, |stage, now, actions| stage.receive(batch, now, actions));
        }
        any
    }

    /// Executes the next step of the plan at `index`.
    pub(crate) fn step(&mut self, world: &mut World, index: usize) {
        let (plan, next, offsets) = &mut self.flying[index];
        if let Some(Step::Produce(records)) = plan.steps.get(*next) {
            offsets.extend(records.clone().into_iter().map(|record| world.append(record)));
            *next += 1;
        }
        if *next == plan.steps.len() {
            let (plan, _, offsets) = self.flying.swap_remove(index);
            self.complete(plan.completes, world);
            if let Some(token) = plan.token {
                self.call(world, |stage, now, actions| stage.plan_durable(token, &offsets, now, actions));
            }
        }
    }

    /// Reads the next record of a tailed log; returns `true` if there was one.
    pub(crate) fn receive_tailed(&mut self, world: &mut World) -> bool {
        let next = world.log.iter().find_map(|(tp, log)| {
            let at = *self.followed.entry(*tp).or_insert(0);
            let followed = [topic::SEEN, topic::CONTROL].contains(&tp.topic);
            (followed && (at as usize) < log.len()).then(|| log[at as usize].clone())
        });
        let Some(record) = next else { return false };
        self.followed.insert(record.tp, record.offset + 1);
        self.call(world, |stage, now, actions| stage.receive_tailed(&record, now, actions));
        true
    }

    /// Completes the oldest refresh if the tailed logs have been read to its ends; returns `true` if so.
    pub(crate) fn refresh(&mut self, world: &mut World) -> bool {
        let is_read =
            |(tp, end): (&TopicPartition, &Offset)| self.followed.get(tp).is_some_and(|position| position >= end);
        let Some((token, _)) = self.refreshes.front().filter(|(_, ends)| ends.iter().all(is_read)) else {
            return false;
        };
        let token = *token;
        self.refreshes.pop_front();
        self.call(world, |stage, now, actions| stage.refreshed(token, now, actions));
        true
    }

    /// Runs until nothing is left to do, or until killed after `steps` steps of plans.
    pub(crate) fn run(&mut self, world: &mut World, mut steps: usize) -> End {
        loop {
            assert_eq!(self.halted, None);
            if !self.flying.is_empty() {
                if steps == 0 {
                    return End::Killed;
                }
                steps -= 1;
                self.step(world, 0);
            } else if !self.receive_tailed(world) && !self.refresh(world) && !self.deliver(world, 3) {
                return End::Idle;
            }
        }
    }
}

/// Runs one life to its end.
pub(crate) fn live(world: &mut World) -> NormalizerDedup {
    let mut life = Life::begin(world);
    assert_eq!(life.run(world, usize::MAX), End::Idle);
    life.stage
}
