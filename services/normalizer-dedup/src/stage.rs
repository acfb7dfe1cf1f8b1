//! Glue between the runtime and the decision code.

use std::{
    collections::{HashMap, hash_map::Entry},
    convert::Infallible,
    fmt::Display,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use bytes::Bytes;
use orbweaver_log::{ConsumerRecord, Log, Offset, Partition, Record, TopicPartition};
use orbweaver_messages::{Discovered, Millis, SeenBatch, Topic, decode, encode, topic};
use orbweaver_seen::{IndexStats, Lookups, Recent, SeenError, SeenIndex, SeenPartition};
use orbweaver_settings::Section as _;
use orbweaver_stage::{Actions, Origin, PartitionContext, RestoreFrom, RestoreSpec, Stage, StageError, Token};
use orbweaver_url::{partition_of, slot_of};

use crate::{
    Config, DedupStats, IndexKind,
    admission::{Admission, OpenPartition},
    awaiting_definition::AwaitingDefinition,
    checkpoint_check::{position_of, records_of_seen, verify_checkpoints},
    crawls::{ControlChange, CrawlLookup, Crawls},
    draft::Tokens,
    seeds,
    tally::{Counts, LinkOutcome},
};

const SERVICE: &str = "normalizer-dedup";
/// Interval at which moved index checkpoints are written to disk, in milliseconds.
const WRITE_EVERY_MS: Millis = 10_000;

pub(crate) fn halted(reason: impl Display) -> StageError {
    StageError::Halted { service: SERVICE, reason: reason.to_string() }
}

/// Actions of this stage, which starts no jobs and has no effects outside of the log.
pub(crate) type Wanted = Actions<Infallible, Infallible>;

/// The service as a stage of the runtime.
#[derive(Debug)]
pub struct NormalizerDedup {
    pub(crate) config: Config,
    pub(crate) crawls: Crawls,
    index: SeenIndex,
    recent: Recent,
    restoring: HashMap<Partition, Box<dyn SeenPartition>>,
    served: HashMap<Partition, OpenPartition>,
    tokens: Tokens,
    pub(crate) held: AwaitingDefinition,
    /// Seeds of this call to be forwarded to `crawl.discovered`.
    sightings: Vec<Record>,
    sightings_of: Vec<Origin>,
    pub(crate) partitions: Partition,
    counts: Counts,
    tally: Arc<DedupStats>,
    written_at: Millis,
    lookups_of_closed: Lookups,
}

impl NormalizerDedup {
    /// Opens the service and verifies its index checkpoints against the log; an index that does not match is discarded.
    ///
    /// # Errors
    /// If a setting is out of range, the index cannot be opened or the log cannot be read.
    pub async fn open(config: Config, log: &dyn Log) -> Result<Self, StageError> {
        let mut service = Self::new(config)?;
        if let SeenIndex::Bloom(records) = &mut service.index {
            *records = records_of_seen(log).await?;
        }
        verify_checkpoints(&service.index, log).await?;
        Ok(service)
    }

    /// Opens the service. An index over another log is detected only when its partition is restored, and ends the
    /// service.
    pub fn new(config: Config) -> Result<Self, StageError> {
        config.check().map_err(halted)?;
        let index = match config.index {
            IndexKind::Exact => SeenIndex::open(&config.index_dir).map_err(halted)?,
            IndexKind::Bloom => SeenIndex::Bloom(vec![]),
        };
        let recent = Recent::new(config.recent_entries);
        Ok(Self {
            crawls: Crawls::new(config.wide_domains.clone()),
            config,
            index,
            recent,
            restoring: HashMap::new(),
            served: HashMap::new(),
            tokens: Tokens::default(),
            held: AwaitingDefinition::default(),
            sightings: vec![],
            sightings_of: vec![],
            partitions: 1,
            counts: Counts::default(),
            tally: Arc::default(),
            written_at: 0,
            lookups_of_closed: Lookups::default(),
        })
    }

    /// Returns the counters of the service.
    #[must_use]
    pub fn tally(&self) -> Arc<DedupStats> {
        self.tally.clone()
    }

    /// Handles a record of a consumed topic.
    pub(crate) fn one(
        &mut self,
        origin: Origin,
        record: ConsumerRecord,
        now: Millis,
        actions: &mut Wanted,
    ) -> Result<(), SeenError> {
        let result = if origin.tp.topic == topic::SEEDS {
            self.seed(origin, record, now)
        } else {
            self.discovered(origin, record, now, actions)?
        };
        if let Err(reason) = result {
            self.reject(origin, reason, actions);
        }
        Ok(())
    }

    pub(crate) fn reject(&self, origin: Origin, reason: String, actions: &mut Wanted) {
        self.tally.rejected.fetch_add(1, Relaxed);
        actions.rejects.push((origin, reason));
    }

    /// Forwards a seed to the partition of its site, or holds it. A seed of a stopped crawl is held until `crawl.control` was
    /// read to its end: the crawl may have been deleted, and another one created with its name, before the seed was
    /// written. An error is the reason for a rejection.
    fn seed(&mut self, origin: Origin, record: ConsumerRecord, now: Millis) -> Result<(), String> {
        let found = self.seed_of(&record, now)?;
        match self.crawls.find(&found.crawl) {
            CrawlLookup::Defined(rules, _) if !rules.applied.rules.is_stopped() => self.forward(origin, &found, now),
            _ => self.hold(origin, record, &found.crawl, now),
        }
        Ok(())
    }

    /// Reads a seed. An error is the reason for a rejection.
    fn seed_of(&self, record: &ConsumerRecord, now: Millis) -> Result<Discovered, String> {
        let seed = seeds::read(record.value.as_ref())?;
        let name = seed.crawl.as_ref().unwrap_or(&self.config.default_crawl);
        let crawl = self.crawls.definitions.latest(name).map_or(name, |(latest, _)| latest);
        seeds::discovered(&seed, crawl, &self.config.wide_domains, now)
    }

    /// Forwards a seed of a crawl that is defined.
    pub(crate) fn forward_held(&mut self, origin: Origin, record: &ConsumerRecord, now: Millis) -> Result<(), String> {
        let found = self.seed_of(record, now)?;
        self.forward(origin, &found, now);
        Ok(())
    }

    fn forward(&mut self, origin: Origin, found: &Discovered, now: Millis) {
        self.tally.seeds.fetch_add(1, Relaxed);
        let tp = TopicPartition::new(topic::DISCOVERED, partition_of(slot_of(&found.site), self.partitions));
        let (key, value) = (Some(Bytes::copy_from_slice(found.site.as_bytes())), Some(encode(found)));
        self.sightings.push(Record::new(tp, key, value, now));
        self.sightings_of.push(origin);
    }

    /// Admits or drops links, or keeps the record while the links of its partition wait for a plan. An inner error is
    /// the reason for rejecting the record.
    fn discovered(
        &mut self,
        origin: Origin,
        record: ConsumerRecord,
        now: Millis,
        actions: &mut Wanted,
    ) -> Result<Result<(), String>, SeenError> {
        let own = origin.tp.partition;
        if self.tokens.awaited(own).is_some()
            && let Some(served) = self.served.get_mut(&own)
        {
            served.backlog.push_back((origin, record));
            return Ok(Ok(()));
        }
        let found: Discovered = match decode("discovered", record.value.as_ref()) {
            Ok(found) => found,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let partition = partition_of(slot_of(&found.site), self.partitions);
        if partition != own {
            let site = &found.site;
            let reason = format!("records of the site `{site}` belong to partition {partition}; this one is in {own}");
            return Ok(Err(reason));
        }
        match self.crawls.find(&found.crawl) {
            CrawlLookup::Defined(..) => self.admit(origin, found, now, actions)?,
            CrawlLookup::Unusable(_) | CrawlLookup::Unknown => self.hold(origin, record, &found.crawl, now),
        }
        Ok(Ok(()))
    }

    /// Decides on links; completes their origin unless it waits for a plan.
    fn admit(
        &mut self,
        origin: Origin,
        mut found: Discovered,
        now: Millis,
        actions: &mut Wanted,
    ) -> Result<(), SeenError> {
        let Some(served) = self.served.get_mut(&origin.tp.partition) else { return Ok(()) };
        let CrawlLookup::Defined(rules, entries) = self.crawls.find(&found.crawl) else {
            // Deleted while these links waited for a plan.
            self.counts.add(LinkOutcome::OutOfScope, found.urls.len());
            return Ok(());
        };
        let mut admission = Admission {
            rules,
            entries,
            served,
            recent: &mut self.recent,
            counts: &mut self.counts,
            plans: &mut actions.plans,
            tokens: &mut self.tokens,
            partitions: self.partitions,
            now,
        };
        let before = admission.counts.passed_and_repeated();
        let admitted = admission.admit(origin, &mut found);
        let after = self.counts.passed_and_repeated();
        self.tally.add_links(&found.crawl, after.0 - before.0, after.1 - before.1);
        admitted?;
        if !served.pending.is_waiting(&origin) {
            actions.completes.push(origin);
        }
        Ok(())
    }

    /// Decides on links that waited for a plan which has ended, then on records that arrived meanwhile.
    fn resume(
        &mut self,
        partition: Partition,
        deferred: Vec<(Origin, Discovered)>,
        now: Millis,
        actions: &mut Wanted,
    ) -> Result<(), SeenError> {
        for (origin, found) in deferred {
            // An origin that waits for nothing was rejected with another plan.
            let waits = self.served.get(&partition).is_some_and(|served| served.pending.is_waiting(&origin));
            if !waits {
                continue;
            }
            self.admit(origin, found, now, actions)?;
            if self.served.get_mut(&partition).is_some_and(|served| served.pending.release(&origin)) {
                actions.completes.push(origin);
            }
        }
        while self.tokens.awaited(partition).is_none()
            && let Some(served) = self.served.get_mut(&partition)
            && let Some((origin, record)) = served.backlog.pop_front()
        {
            self.one(origin, record, now, actions)?;
        }
        Ok(())
    }

    /// Starts the plans and refreshes that this call has collected.
    pub(crate) fn end_call(&mut self, now: Millis, actions: &mut Wanted) {
        if !self.sightings.is_empty() {
            actions.produce(std::mem::take(&mut self.sightings), std::mem::take(&mut self.sightings_of));
        }
        for partition in self.tokens.take_drafted() {
            if let Some(served) = self.served.get_mut(&partition) {
                actions.plans.extend(served.finish_draft(now));
            }
        }
        actions.refreshes.extend(self.held.take_refresh());
        self.tally.take(&mut self.counts);
        self.tally.plans.store(self.tokens.len() as u64, Relaxed);
        self.tally.held.store(self.held.len() as u64, Relaxed);
    }

    /// Applies a record read back from `crawl.seen`. An undecodable record is skipped: its URLs may be admitted again,
    /// and stopping would not recover them.
    fn read_back(tally: &DedupStats, seen: &mut dyn SeenPartition, record: &ConsumerRecord) -> Result<(), SeenError> {
        let batch = SeenBatch::decode(record.value.as_ref()).unwrap_or_else(|error| {
            tally.damaged_seen.fetch_add(1, Relaxed);
            tracing::error!(
                topic_partition = %record.tp, offset = record.offset, %error,
                "record of crawl.seen cannot be decoded: skipped; its URLs may be admitted again"
            );
            SeenBatch::default()
        });
        seen.read_back(position_of(record), &batch)
    }

    fn write_positions(&mut self, now: Millis) {
        if (0..WRITE_EVERY_MS).contains(&now.saturating_sub(self.written_at)) {
            return;
        }
        self.written_at = now;
        for served in self.served.values_mut() {
            if self.config.waits_for_disk {
                // The next lookup reports a failure, too.
                let _ = served.seen.write();
            } else {
                served.seen.write_soon();
            }
        }
    }

    /// Publishes the size and hit counts of the tiers.
    fn show_tiers(&self) {
        let mut index = IndexStats { lookups: self.lookups_of_closed, ..IndexStats::default() };
        self.served.values().for_each(|served| index += served.seen.stats());
        self.tally.show_tiers(self.recent.counts(), index);
    }
}

impl Stage for NormalizerDedup {
    type Job = Infallible;
    type Done = Infallible;
    type Effect = Infallible;

    fn service(&self) -> &'static str {
        SERVICE
    }

    fn topics(&self) -> &'static [Topic] {
        &[topic::SEEDS, topic::DISCOVERED]
    }

    fn tails(&self) -> &'static [Topic] {
        &[topic::CONTROL]
    }

    fn restore_specs(&self, partition: Partition) -> Vec<RestoreSpec> {
        // A disk failure recurs when the index is opened, where it can be reported.
        let position = self.index.position(partition).ok().flatten();
        // The record at the checkpoint is read again to prove that the index belongs to this log.
        let from = position.map_or(RestoreFrom::Start, |position| RestoreFrom::Offset(position.offset));
        vec![RestoreSpec { topic: topic::SEEN, from, follow: true }]
    }

    fn restore(&mut self, partition: Partition, record: &ConsumerRecord) -> Result<(), StageError> {
        let seen = match self.restoring.entry(partition) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => vacant.insert(self.index.partition(partition).map_err(halted)?),
        };
        Self::read_back(&self.tally, &mut **seen, record).map_err(halted)
    }

    fn receive_tailed(&mut self, record: &ConsumerRecord, now: Millis, actions: &mut Wanted) -> Result<(), StageError> {
        if record.tp.topic == topic::CONTROL {
            // A definition applies to all subsequent links.
            match self.crawls.apply(record).map_err(halted)? {
                ControlChange::Definition => {
                    self.tally.show_versions(&self.crawls.definitions);
                    return self.look_again(now, actions).map_err(halted);
                }
                ControlChange::Refused => drop(self.tally.refused_definitions.fetch_add(1, Relaxed)),
                ControlChange::Nothing => {}
            }
        } else if let Some(served) = self.served.get_mut(&record.tp.partition) {
            Self::read_back(&self.tally, &mut *served.seen, record).map_err(halted)?;
        }
        self.end_call(now, actions);
        Ok(())
    }

    fn refreshed(&mut self, token: Token, now: Millis, actions: &mut Wanted) -> Result<(), StageError> {
        self.held.end_refresh(token);
        if self.held.is_due(now) {
            self.look_again(now, actions).map_err(halted)?;
        }
        Ok(())
    }

    fn prepare(&mut self, opening: PartitionContext, _: Millis) -> Result<(), StageError> {
        let PartitionContext { partition, partitions, .. } = opening;
        self.partitions = partitions;
        let mut seen = match self.restoring.remove(&partition) {
            Some(seen) => seen,
            None => self.index.partition(partition).map_err(halted)?,
        };
        seen.serve().map_err(halted)?;
        self.served.insert(partition, OpenPartition::new(partition, seen));
        self.crawls.set_partitions(partitions).map_err(halted)
    }

    fn receive(
        &mut self,
        batch: Vec<(Origin, ConsumerRecord)>,
        now: Millis,
        actions: &mut Wanted,
    ) -> Result<(), StageError> {
        for (origin, record) in batch {
            self.one(origin, record, now, actions).map_err(halted)?;
        }
        self.end_call(now, actions);
        Ok(())
    }

    fn plan_durable(
        &mut self,
        token: Token,
        offsets: &[Offset],
        now: Millis,
        actions: &mut Wanted,
    ) -> Result<(), StageError> {
        let Some(partition) = self.tokens.settle(token) else { return Ok(()) };
        let Some(served) = self.served.get_mut(&partition) else { return Ok(()) };
        let Some(settled) = served.pending.settle(token) else { return Ok(()) };
        // The `seen` record is the last one of any plan that has one.
        let offset = offsets.last().copied().unwrap_or_default();
        served.seen.acknowledge(&settled.entries, offset).map_err(halted)?;
        for entry in &settled.entries {
            self.recent.insert(entry.fingerprint, entry.depth);
        }
        for (crawl, entry) in served.entries.remove(&token).unwrap_or_default() {
            self.crawls.entry_is_durable(&crawl, &entry);
        }
        actions.completes.extend(settled.completes);
        self.resume(partition, settled.deferred, now, actions).map_err(halted)?;
        self.end_call(now, actions);
        Ok(())
    }

    /// Forgets the URLs of a refused plan, which may be admitted later, and rejects the origins that waited for it.
    fn refused(&mut self, token: Token, reason: &str, now: Millis, actions: &mut Wanted) -> Result<(), StageError> {
        let Some(partition) = self.tokens.settle(token) else { return Ok(()) };
        let Some(served) = self.served.get_mut(&partition) else { return Ok(()) };
        let Some(refused) = served.pending.refuse(token) else { return Ok(()) };
        served.entries.remove(&token);
        actions.rejects.extend(refused.completes.into_iter().map(|origin| (origin, reason.to_owned())));
        self.resume(partition, refused.deferred, now, actions).map_err(halted)?;
        self.end_call(now, actions);
        Ok(())
    }

    fn tick(&mut self, now: Millis, actions: &mut Wanted) -> Result<(), StageError> {
        self.write_positions(now);
        self.show_tiers();
        if self.held.is_due(now) {
            return self.look_again(now, actions).map_err(halted);
        }
        self.end_call(now, actions);
        Ok(())
    }

    fn next_tick(&self) -> Option<Millis> {
        self.held.next()
    }

    fn close(&mut self, partition: Partition) {
        self.restoring.remove(&partition);
        self.tokens.forget(partition);
        self.held.forget(partition);
        if let Some(mut served) = self.served.remove(&partition) {
            self.lookups_of_closed += served.seen.stats().lookups;
            if let Err(error) = served.seen.write() {
                tracing::warn!(partition, %error, "cannot write the index; the next restore replays more of the log");
            }
        }
    }

    fn due(&self, now: Millis) -> usize {
        self.tokens.len() + usize::from(self.held.is_due(now))
    }
}

#[cfg(test)]
mod tests;
