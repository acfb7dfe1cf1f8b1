//! The stage of the frontier: decodes records, opens partitions, groups decisions into plans.

mod counts;
mod figures;

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use orbweaver_log::{ConsumerRecord, Offset, Partition};
use orbweaver_messages::{
    Dispatch, LEASE_MS, Millis, Outcome, Topic, decode,
    topic::{CONTROL, FRONTIER, OUTCOMES, SCHEDULED, SITE_PAGES},
};
use orbweaver_stage::{
    Actions, Incomplete, IndexCheckpoint, Origin, PartitionContext, RestoreFrom, RestoreSpec, Stage, StageError, Token,
};
use orbweaver_url::CrawlName;

use crate::{
    FrontierConfig, FrontierView, counted,
    crawl_events::EVENTS_PARTITION,
    decision::{Decision, DecisionContext},
    index::{CrawlKey, FrontierIndex, Index, IndexError, MemoryIndex},
    metrics::FrontierMetrics,
    pages::{Counted, PageCaps},
    partition::PartitionFrontier,
    plan_builder::{PlanBuilder, frontier_record, tombstone_of},
    probes::Probes,
    scope::{ControlChange, CrawlScopes},
};

/// Interval at which the sites with the most queued URLs are determined, in milliseconds; this reads all sites.
const BUSIEST_EVERY_MS: Millis = 1000;
/// Number of sites per additional multiple of that interval, so that this takes at most a few per cent of the time.
const BUSIEST_SITES: usize = 100_000;
/// Maximum age of the record at an index's checkpoint; an older index is rebuilt. Half of the log's delete retention
/// (`delete.retention.ms` of `crawl.frontier`, a day by default): a URL that ended earlier may have left no tombstone
/// after the checkpoint.
const INDEX_WITHIN: Duration = Duration::from_secs(12 * 3600);

pub(crate) const SERVICE: &str = "frontier";

pub(crate) type FrontierActions = Actions<Infallible, Infallible>;

type Decisions = BTreeMap<Partition, Vec<Decision>>;

pub struct FrontierStage {
    config: FrontierConfig,
    metrics: FrontierMetrics,
    view: Arc<FrontierView>,
    pages: PageCaps,
    scopes: CrawlScopes,
    probes: Probes,
    /// Crawls that have had a definition, by key.
    names: BTreeMap<CrawlKey, CrawlName>,
    /// Store of all partitions' indexes, if they are on disk.
    index: Option<FrontierIndex>,
    restoring: BTreeMap<Partition, PartitionFrontier>,
    open: BTreeMap<Partition, PartitionFrontier>,
    draining: Vec<Partition>,
    busiest_at_ms: Millis,
    crawls_at_ms: Millis,
}

impl FrontierStage {
    /// Creates a frontier without partitions, which indexes queued URLs in memory.
    #[must_use]
    pub fn new(config: FrontierConfig, metrics: FrontierMetrics, view: Arc<FrontierView>) -> Self {
        Self {
            config,
            metrics,
            view,
            pages: PageCaps::default(),
            scopes: CrawlScopes::default(),
            probes: Probes::default(),
            names: BTreeMap::new(),
            index: None,
            restoring: BTreeMap::new(),
            open: BTreeMap::new(),
            draining: vec![],
            busiest_at_ms: 0,
            crawls_at_ms: 0,
        }
    }

    /// Indexes queued URLs on disk instead.
    #[must_use]
    pub fn with_index(self, index: FrontierIndex) -> Self {
        Self { index: Some(index), ..self }
    }

    fn partition(&self, number: Partition) -> Result<PartitionFrontier, IndexError> {
        let index: Box<dyn Index> = match &self.index {
            Some(index) => Box::new(index.partition(number)?),
            None => Box::<MemoryIndex>::default(),
        };
        Ok(PartitionFrontier::new(number, self.config.clone(), index))
    }

    /// Returns the error that ends the stage. A damaged index is marked to be discarded at the next start.
    fn halted(&self, error: &IndexError) -> StageError {
        if let Some(index) = self.index.as_ref().filter(|_| error.is_damage()) {
            index.condemn();
        }
        StageError::Halted { service: SERVICE, reason: error.to_string() }
    }

    /// Adds the decisions that a record causes. The inner `Err` is the reason why the record cannot be processed.
    fn receive_one(
        &mut self,
        origin: Origin,
        record: &ConsumerRecord,
        now: Millis,
        out: &mut Decisions,
    ) -> Result<Result<(), String>, IndexError> {
        let number = origin.tp.partition;
        let Some(partition) = self.open.get_mut(&number) else {
            return Ok(Err(format!("partition {number} is not open")));
        };
        let out = out.entry(number).or_default();
        if origin.tp.topic == OUTCOMES {
            let outcome = match decode::<Outcome>("outcome", record.value.as_ref()) {
                Ok(outcome) => outcome.in_time(now),
                Err(error) => return Ok(Err(error.to_string())),
            };
            self.metrics.outcome(&outcome);
            let turn = &mut DecisionContext { now, pages: &mut self.pages, scopes: &self.scopes, out };
            return partition.outcome(origin, &outcome, turn).map(Ok);
        }
        let read = frontier_record(record);
        if let Ok((_, Some(waiting))) = &read {
            self.scopes.note(waiting);
        }
        let turn = &mut DecisionContext { now, pages: &mut self.pages, scopes: &self.scopes, out };
        match read {
            Ok((fingerprint, None)) => partition.tombstone(origin, fingerprint, tombstone_of(record), turn).map(Ok),
            Ok((_, Some(waiting))) => partition.waiting(origin, &waiting, turn).map(Ok),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    fn receive_all(
        &mut self,
        batch: Vec<(Origin, ConsumerRecord)>,
        now: Millis,
        actions: &mut FrontierActions,
    ) -> Result<(), IndexError> {
        let (mut decisions, mut last) = (Decisions::new(), BTreeMap::new());
        for (origin, record) in batch {
            if let Err(reason) = self.receive_one(origin, &record, now, &mut decisions)? {
                actions.rejects.push((origin, reason));
            }
            if record.tp.topic == FRONTIER {
                last.insert(record.tp.partition, record);
            }
        }
        for (number, record) in last {
            if let Some(partition) = self.open.get_mut(&number) {
                partition.applied(IndexCheckpoint::of(&record))?;
            }
        }
        self.carry_out(decisions, now, actions)
    }

    fn tick_all(&mut self, now: Millis, actions: &mut FrontierActions) -> Result<(), IndexError> {
        self.pages.pass(now);
        let mut decisions = Decisions::new();
        for (number, partition) in &mut self.open {
            let out = decisions.entry(*number).or_default();
            partition.tick(&mut DecisionContext { now, pages: &mut self.pages, scopes: &self.scopes, out })?;
            partition.write_if_due(now)?;
        }
        self.carry_out(decisions, now, actions)?;
        self.write_counts(now, actions);
        self.answer_probes(now, actions);
        self.show_crawls(now);
        Ok(())
    }

    fn answer_probes(&mut self, now: Millis, actions: &mut FrontierActions) {
        let answers = self.probes.answers(&self.open, &self.draining, &self.pages, now);
        if !answers.is_empty() {
            actions.produce(answers, vec![]);
        }
    }

    /// Lets every open partition dispatch, and turns all decisions into plans: one append per kind, regardless of their
    /// number.
    fn carry_out(
        &mut self,
        mut decisions: Decisions,
        now: Millis,
        actions: &mut FrontierActions,
    ) -> Result<(), IndexError> {
        for (number, partition) in &mut self.open {
            if !self.draining.contains(number) {
                let out = decisions.entry(*number).or_default();
                partition.dispatch(&mut DecisionContext { now, pages: &mut self.pages, scopes: &self.scopes, out })?;
            }
        }
        let mut appends = PlanBuilder::at(now);
        for (number, decisions) in decisions {
            appends.partition = number;
            appends.epoch = self.open.get(&number).map_or(0, PartitionFrontier::epoch);
            for decision in decisions {
                self.count(&decision);
                appends.add(decision, actions);
            }
        }
        appends.finish(|| self.probes.dispatches(), actions);
        self.show(now)
    }

    fn count(&self, decision: &Decision) {
        match decision {
            Decision::Dispatch { ready_ms, .. } => self.metrics.dispatched(*ready_ms),
            Decision::Abandon { .. } => self.metrics.stuck.inc(),
            Decision::Rewrite { .. } => self.metrics.reappended.inc(),
            Decision::Refuse { outcome, .. } => {
                self.metrics.refused.with_label_values(&[outcome.reason.as_deref().unwrap_or_default()]).inc();
            }
            Decision::Change(change) => self.metrics.changed(change.kind),
            Decision::Complete(_)
            | Decision::Park(_)
            | Decision::End { .. }
            | Decision::CountPages(_)
            | Decision::ForgetPages(_) => {}
        }
    }

    fn restore_one(&mut self, partition: Partition, record: &ConsumerRecord) -> Result<(), IndexError> {
        if !self.restoring.contains_key(&partition) {
            let index = self.partition(partition)?;
            self.restoring.insert(partition, index);
        }
        let Some(index) = self.restoring.get_mut(&partition) else { return Ok(()) };
        // An unreadable record went to the dead letters when it was received, or will do so.
        match record.tp.topic {
            FRONTIER => {
                if let Ok((fingerprint, waiting)) = frontier_record(record) {
                    match waiting {
                        Some(waiting) => {
                            self.scopes.note(&waiting);
                            index.restore_record(record.offset, &waiting)?;
                        }
                        None => index.restore_tombstone(record.offset, fingerprint, tombstone_of(record))?,
                    }
                }
                index.applied(IndexCheckpoint::of(record))
            }
            SCHEDULED => match decode::<Dispatch>("dispatch", record.value.as_ref()) {
                Ok(dispatch) => index.restore_dispatch(&dispatch),
                Err(_) => Ok(()),
            },
            SITE_PAGES => {
                counts::restore_pages(index, record);
                Ok(())
            }
            _ => {
                let Ok(outcome) = decode::<Outcome>("outcome", record.value.as_ref()) else { return Ok(()) };
                self.pages.outcome(partition, record.offset, Counted::of(&outcome));
                index.restore_outcome(record.offset, &outcome)
            }
        }
    }

    fn open_one(&mut self, opening: PartitionContext, now: Millis) -> Result<(), IndexError> {
        let number = opening.partition;
        let mut partition = match self.restoring.remove(&number) {
            Some(partition) => partition,
            None => self.partition(number)?,
        };
        self.pages.serve(number, opening.owner_epoch, opening.partitions);
        for (crawl, _) in self.scopes.versions() {
            partition.set_terms(crawl, self.scopes.definition(crawl), now);
        }
        partition.open(opening, now, &mut self.pages)?;
        for (crawl, _) in self.scopes.versions() {
            if let Some(policy) = self.scopes.revisit(crawl) {
                partition.wake_beyond(crawl, policy, now);
            }
        }
        for (crawl, _) in self.scopes.versions().filter(|(crawl, _)| self.scopes.is_stopped(crawl)) {
            partition.stop(crawl, now);
            if self.scopes.is_deleted(crawl) {
                partition.delete(crawl);
            }
        }
        self.draining.retain(|draining| *draining != number);
        self.open.insert(number, partition);
        Ok(())
    }
}

impl Stage for FrontierStage {
    type Job = Infallible;
    type Done = Infallible;
    type Effect = Infallible;

    fn service(&self) -> &'static str {
        SERVICE
    }

    fn topics(&self) -> &'static [Topic] {
        &[FRONTIER, OUTCOMES]
    }

    fn claimed_topics(&self) -> &'static [Topic] {
        &[FRONTIER]
    }

    fn tails(&self) -> &'static [Topic] {
        &[CONTROL]
    }

    fn restore_specs(&self, partition: Partition) -> Vec<RestoreSpec> {
        // A disk failure here recurs when the index is opened, where it can be reported.
        let position = self.index.as_ref().and_then(|index| index.position(partition).ok().flatten());
        let proven = |position| RestoreFrom::FromCheckpoint { position, within: Some(INDEX_WITHIN) };
        let waiting = position.map_or(RestoreFrom::CommitPoint, proven);
        let demoted = RestoreFrom::LookBack(Duration::from_millis(LEASE_MS.unsigned_abs()));
        // In this order: dispatches are matched with queued URLs, outcomes with both.
        let specs = [(FRONTIER, waiting), (SCHEDULED, demoted), (OUTCOMES, demoted), (SITE_PAGES, RestoreFrom::Start)];
        specs.map(|(topic, from)| RestoreSpec { topic, from, follow: topic == SITE_PAGES }).to_vec()
    }

    fn assigned(&mut self, partition: Partition) {
        self.pages.assign(partition);
    }

    fn look_back_offset(&self, partition: Partition, topic: Topic) -> Option<Offset> {
        // Earlier counts are in `crawl.control`, which is read before a partition is opened.
        (topic == OUTCOMES).then(|| self.pages.counted_upto(partition))
    }

    fn discard_index(&mut self, partition: Partition, _: Topic) -> Result<(), StageError> {
        let discarded = self.index.as_ref().map_or(Ok(()), |index| index.discard(partition));
        discarded.map_err(|error| self.halted(&error))
    }

    fn restore(&mut self, partition: Partition, record: &ConsumerRecord) -> Result<(), StageError> {
        self.restore_one(partition, record).map_err(|error| self.halted(&error))
    }

    /// Applies a record of `crawl.control`. Queued URLs are compared with a definition from the next dispatch on.
    fn receive_tailed(
        &mut self,
        record: &ConsumerRecord,
        now: Millis,
        actions: &mut FrontierActions,
    ) -> Result<(), StageError> {
        if record.tp.topic == SITE_PAGES {
            self.correct_pages(record, now, actions);
            return Ok(());
        }
        if let Some(count) = counted::page_count(record) {
            self.pages.apply(record.offset, &count);
            return Ok(());
        }
        if self.probes.apply(record) {
            return Ok(());
        }
        match self.scopes.apply(record) {
            ControlChange::Definition(crawl) => {
                self.names.insert(CrawlKey::of(&crawl), crawl.clone());
                self.scopes.cap(&crawl, &mut self.pages);
                let is_deleted = self.scopes.is_deleted(&crawl);
                if is_deleted {
                    self.pages.delete(&crawl);
                }
                let revisit = self.scopes.revisit(&crawl);
                let (definition, is_stopped) = (self.scopes.definition(&crawl), self.scopes.is_stopped(&crawl));
                for partition in self.open.values_mut() {
                    partition.set_terms(&crawl, definition, now);
                    if is_stopped {
                        partition.stop(&crawl, now);
                    } else if let Some(policy) = revisit {
                        partition.wake_beyond(&crawl, policy, now);
                    }
                    if is_deleted {
                        partition.delete(&crawl);
                    }
                }
                self.metrics.show_versions(self.scopes.versions());
            }
            ControlChange::Refused => self.metrics.refused_definitions.inc(),
            ControlChange::Nothing => {}
        }
        Ok(())
    }

    fn prepare(&mut self, opening: PartitionContext, now: Millis) -> Result<(), StageError> {
        self.open_one(opening, now).map_err(|error| self.halted(&error))
    }

    fn incomplete(&self, partition: Partition) -> Incomplete<'_> {
        let Some(open) = self.open.get(&partition) else {
            // The records of a closed partition must not count as complete.
            let reason = format!("partition {partition} is not open");
            return Err(StageError::Halted { service: SERVICE, reason });
        };
        Ok(Box::new(open.incomplete().map(|offset| (FRONTIER, offset))))
    }

    fn receive(
        &mut self,
        batch: Vec<(Origin, ConsumerRecord)>,
        now: Millis,
        actions: &mut FrontierActions,
    ) -> Result<(), StageError> {
        self.receive_all(batch, now, actions).map_err(|error| self.halted(&error))
    }

    fn plan_durable(
        &mut self,
        token: Token,
        _: &[Offset],
        _: Millis,
        _: &mut FrontierActions,
    ) -> Result<(), StageError> {
        // Otherwise it is a plan that writes page counts.
        if !self.probes.settled(token) {
            let (partition, epoch) = counted::named(token);
            self.pages.settled(partition, epoch);
        }
        Ok(())
    }

    fn refused(&mut self, token: Token, _: &str, _: Millis, _: &mut FrontierActions) -> Result<(), StageError> {
        if !self.probes.settled(token) {
            let (partition, epoch) = counted::named(token);
            self.pages.refused(partition, epoch);
        }
        Ok(())
    }

    fn tick(&mut self, now: Millis, actions: &mut FrontierActions) -> Result<(), StageError> {
        self.tick_all(now, actions).map_err(|error| self.halted(&error))
    }

    fn next_tick(&self) -> Option<Millis> {
        self.open.values().filter_map(PartitionFrontier::next_moment_ms).min()
    }

    fn passed_over(&mut self, Origin { tp, offset, .. }: Origin) {
        if let Some(partition) = self.open.get_mut(&tp.partition).filter(|_| tp.topic == FRONTIER) {
            partition.passed_over(offset);
        }
    }

    fn drain(&mut self, partition: Partition) {
        self.draining.push(partition);
    }

    fn close(&mut self, partition: Partition) {
        if let Some(mut closed) = self.open.remove(&partition).or_else(|| self.restoring.remove(&partition))
            && let Err(error) = closed.write()
        {
            // The index stays at its last written checkpoint; the log has the rest.
            tracing::warn!(partition, %error, "cannot write the index; the next restore replays more of the log");
        }
        if partition == EVENTS_PARTITION {
            *self.view.lock_crawls() = None;
        }
        self.pages.leave(partition);
        self.probes.leave(partition);
        self.draining.retain(|draining| *draining != partition);
    }

    fn due(&self, _: Millis) -> usize {
        self.open.values().filter(|partition| partition.is_due()).count()
    }
}
