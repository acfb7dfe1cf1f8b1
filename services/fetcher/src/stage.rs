//! The fetcher as a stage: receives dispatches, sends their requests in time, and builds the resulting plans.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use orbweaver_log::{ConsumerRecord, Offset, Partition, Record};
use orbweaver_messages::{CLOCK_MARGIN_MS, LEASE_MS, Millis, Outcome, ReadyDispatch, Topic, decode, topic};
use orbweaver_scope::{ControlChange, ControlRecord, Controls};
use orbweaver_stage::{
    Actions, ByteBudget, Origin, PartitionContext, Plan, RestoreFrom, RestoreSpec, Stage, StageError, Step, Token,
};
use orbweaver_store::{RobotsRow, Write};
use orbweaver_url::{SiteName, Url};

use crate::{
    active_dispatch::ActiveDispatch,
    addresses::Addresses,
    archive_lag::ArchiveLag,
    classify::refused_until,
    config::{FetcherConfig, millis},
    dispatches::{Dispatches, InFlightPlan},
    gates::{GateEvent, SiteGates},
    metrics::FetcherMetrics,
    ownership::Ownership,
    profile::{Profiles, RequestProfile},
    records::outcome_record,
    requests::Requests,
    robots_cache::RobotsCache,
    robots_lookups::RobotsLookups,
    sitemaps::Announced,
    worker::{Done, Job},
};

/// Actions of the runtime, for this stage.
pub(crate) type Acts = Actions<Job, Write>;

/// The time of a call, and its actions.
pub(crate) struct At<'a> {
    /// Milliseconds since the Unix epoch.
    pub(crate) now: Millis,
    /// Actions of the call.
    pub(crate) acts: &'a mut Acts,
}

/// Purpose of a request that is queued or in flight.
#[derive(Debug)]
pub(crate) enum FetchTarget {
    Page(Box<ActiveDispatch>),
    /// The robots.txt of this key, at this URL.
    Robots(Arc<str>, Url),
}

impl FetchTarget {
    pub(crate) fn url(&self) -> &Url {
        match self {
            Self::Page(active) => &active.url,
            Self::Robots(_, url) => url,
        }
    }

    pub(crate) fn is_page_of(&self, partition: Partition) -> bool {
        matches!(self, Self::Page(active) if active.partition() == partition)
    }
}

/// Interval for updating the display figures and expiring lookups of robots.txt, in milliseconds.
const LOOK_EVERY_MS: Millis = 1000;

/// The fetcher: each part decides by itself, and this carries the decisions from one to the other.
pub struct FetcherStage {
    pub(crate) config: FetcherConfig,
    pub(crate) metrics: FetcherMetrics,
    /// Number of requests in flight, for a progress display.
    in_flight: Arc<AtomicU64>,
    pub(crate) ownership: Ownership,
    pub(crate) dispatches: Dispatches,
    pub(crate) requests: Requests,
    pub(crate) gates: SiteGates<FetchTarget>,
    pub(crate) addresses: Addresses,
    pub(crate) robots: RobotsCache,
    pub(crate) lookups: RobotsLookups,
    /// Sitemaps that were discovered.
    pub(crate) announced: Announced,
    /// Settings of sites and crawls.
    pub(crate) controls: Controls,
    pub(crate) profiles: Profiles,
    pub(crate) archive_lag: Arc<ArchiveLag>,
    /// Blocks read back from the log, until they can be applied. Sorted, like every collection that is iterated: the
    /// same events then lead to the same requests, in the same order.
    recalled_blocks: BTreeMap<SiteName, Millis>,
    looked_ms: Millis,
    pub(crate) events: Vec<GateEvent<FetchTarget>>,
}

impl FetcherStage {
    /// Creates a fetcher with a validated configuration. It stores the number of its requests in flight in `in_flight`
    /// once per second.
    #[must_use]
    pub fn new(config: FetcherConfig, metrics: FetcherMetrics, in_flight: Arc<AtomicU64>) -> Self {
        let memory = ByteBudget::new(config.body_memory, metrics.memory.clone());
        Self {
            ownership: Ownership::new(),
            dispatches: Dispatches::default(),
            requests: Requests::new(config.concurrency, memory),
            gates: SiteGates::new(config.concurrency),
            addresses: Addresses::new(config.max_requests_per_address, millis(config.address_interval).unsigned_abs()),
            robots: RobotsCache::new(config.robots_cache_bytes),
            lookups: RobotsLookups::default(),
            announced: Announced::default(),
            controls: Controls::default(),
            profiles: Profiles::new(&config),
            archive_lag: Arc::new(ArchiveLag::new(config.max_archive_lag)),
            config,
            metrics,
            in_flight,
            recalled_blocks: BTreeMap::new(),
            looked_ms: Millis::MIN,
            events: vec![],
        }
    }

    /// Returns the memory for bodies, which the worker reserves.
    #[must_use]
    pub fn memory(&self) -> ByteBudget {
        self.requests.memory.clone()
    }

    /// Ends a dispatch: when the steps are durable, its origin completes and its slot is freed.
    pub(crate) fn settle(&mut self, active: &ActiveDispatch, steps: Vec<Step<Write>>, at: &mut At<'_>) {
        self.archive_lag.count(&steps);
        let plan = InFlightPlan::Outcome { name: active.name(), has_slot: active.has_slot };
        let token = Some(self.dispatches.plan(plan));
        at.acts.plans.push(Plan { steps, completes: vec![active.origin], token });
    }

    /// Stores a robots.txt, which applies once it is durable.
    pub(crate) fn store_robots(&mut self, key: Arc<str>, row: RobotsRow, at: &mut At<'_>) {
        let archived = self.lookups.get_mut(&key).and_then(|lookup| lookup.archived.take());
        let archived = archived.map(|record| Step::Produce(vec![record]));
        let steps = archived.into_iter().chain([Step::Perform(vec![Write::Robots(row.clone())])]).collect();
        let token = Some(self.dispatches.plan(InFlightPlan::Robots(key, row)));
        at.acts.plans.push(Plan { steps, completes: vec![], token });
    }

    /// Abandons a dispatch; its record stays incomplete, and the partition's next owner receives it.
    pub(crate) fn leave(&mut self, active: &ActiveDispatch) {
        self.requests.free(usize::from(active.has_slot));
        self.dispatches.abandon(active);
    }

    /// Accepts a record.
    fn take_in(&mut self, origin: Origin, record: &ConsumerRecord, at: &mut At<'_>) {
        let ready = match decode::<ReadyDispatch>("ready", record.value.as_ref()) {
            Ok(ready) => ready.in_time(at.now),
            Err(error) => return at.acts.rejects.push((origin, error.to_string())),
        };
        let url = match orbweaver_url::parse(&ready.dispatch.context.url) {
            Ok(url) => url,
            Err(error) => return at.acts.rejects.push((origin, format!("dispatch {}: {error}", ready.dispatch.id))),
        };
        if !self.dispatches.accept(origin.tp.partition, ready.dispatch.id) {
            self.metrics.duplicates.inc();
            return at.acts.completes.push(origin);
        }
        self.admit(Box::new(ActiveDispatch::new(origin, ready, url)), at);
    }

    /// Starts a call; must precede all other work of it.
    fn begin(&mut self, at: &mut At<'_>) {
        if self.ownership.was_suspended(at.now) {
            // Queued requests are checked again before any is sent: timers expire before gates open. Another fetcher
            // may have sent requests to their sites in the meantime.
            tracing::warn!("process was suspended; restarting every politeness delay");
            self.metrics.freezes.inc();
            self.gates.reset_clocks(at.now);
        }
        for (site, until_ms) in std::mem::take(&mut self.recalled_blocks) {
            self.block(&site, until_ms, at);
        }
    }

    /// Performs periodic work.
    fn look(&mut self, at: &mut At<'_>) {
        if at.now.saturating_sub(self.looked_ms).abs() < LOOK_EVERY_MS {
            return;
        }
        self.looked_ms = at.now;
        self.dispatches.completed.rotate(at.now);
        self.expire_lookups(at);
        self.addresses.forget(at.now);
        self.metrics.address_waits.set(i64::try_from(self.addresses.waiting()).unwrap_or(i64::MAX));
        self.metrics.in_flight.set(i64::try_from(self.requests.in_flight.len()).unwrap_or(i64::MAX));
        self.metrics.held.set(i64::try_from(self.gates.queued).unwrap_or(i64::MAX));
        self.metrics.sites.set(i64::try_from(self.gates.sites.len()).unwrap_or(i64::MAX));
        self.in_flight.store(self.requests.in_flight.len() as u64, Ordering::Relaxed);
    }

    /// Starts no new work for a partition. Its requests in flight continue while it `drains`, so that no other fetcher
    /// sends requests to the same sites meanwhile.
    fn leave_partition(&mut self, partition: Partition, drains: bool) {
        self.ownership.leave(partition);
        self.announced.forget();
        self.share_addresses();
        let asked = if drains { self.requests.robots_keys() } else { HashSet::new() };
        for active in self.take_queued(|active| active.partition() == partition, &asked) {
            self.leave(&active);
        }
    }

    /// Returns the settings of the requests of a dispatch.
    pub(crate) fn profile(&self, active: &ActiveDispatch) -> &Arc<RequestProfile> {
        self.profiles.of(&active.dispatch().context.crawl)
    }

    /// Removes and returns the queued dispatches that match, and ends lookups of robots.txt that no other one waits for.
    /// Of those that wait for one in flight (`asked`), one stays.
    pub(crate) fn take_queued(
        &mut self,
        matches: impl Fn(&ActiveDispatch) -> bool,
        asked: &HashSet<Arc<str>>,
    ) -> VecDeque<Box<ActiveDispatch>> {
        let mut taken = self.lookups.take_where(&matches, asked);
        let lookups = &self.lookups;
        let targets = self.gates.take_where(|target| match target {
            FetchTarget::Page(active) => matches(active),
            FetchTarget::Robots(key, _) => lookups.get(key).is_none(),
        });
        taken.extend(targets.into_iter().filter_map(|target| match target {
            FetchTarget::Page(active) => Some(active),
            FetchTarget::Robots(..) => None,
        }));
        taken.make_contiguous().sort_unstable_by_key(|active| active.name());
        taken
    }
}

impl Stage for FetcherStage {
    type Job = Job;
    type Done = Done;
    type Effect = Write;

    fn service(&self) -> &'static str {
        "fetcher"
    }

    fn topics(&self) -> &'static [Topic] {
        &[topic::READY]
    }

    fn tails(&self) -> &'static [Topic] {
        &[topic::CONTROL]
    }

    fn receive_tailed(&mut self, record: &ConsumerRecord, now: Millis, acts: &mut Acts) -> Result<(), StageError> {
        let (partition, offset) = (record.tp.partition, record.offset);
        let (key, value) = (record.key.as_deref(), record.value.as_ref());
        let at = &mut At { now, acts };
        // The rate-limiter and the frontier log settings that cannot be used.
        match self.controls.apply(ControlRecord { partition, offset, key, value }) {
            ControlChange::Site(site) if self.controls.is_frozen(&site) => {
                self.begin(at);
                self.freeze(&site, at);
            }
            ControlChange::Crawl(crawl) => {
                let profile = self.controls.profile(&crawl);
                let has_new_profile = self.profiles.set(&crawl, profile, &self.config);
                if let Some(hold) = self.controls.hold_of(&crawl) {
                    self.begin(at);
                    self.hold_back(&crawl, hold, at);
                } else if has_new_profile {
                    self.begin(at);
                    self.admit_again(&crawl, at);
                } else {
                    return Ok(());
                }
            }
            _ => return Ok(()),
        }
        self.send_ready(at);
        Ok(())
    }

    fn restore_specs(&self, _partition: Partition) -> Vec<RestoreSpec> {
        let from = RestoreFrom::LookBack(Duration::from_millis(LEASE_MS.unsigned_abs()));
        vec![RestoreSpec { topic: topic::OUTCOMES, from, follow: false }]
    }

    fn restore(&mut self, partition: Partition, record: &ConsumerRecord) -> Result<(), StageError> {
        // The frontier rejects an unreadable one; it ended no dispatch that is known here.
        if let Ok(outcome) = decode::<Outcome>("outcome", record.value.as_ref()) {
            self.dispatches.completed.recall(partition, outcome.id);
            if let Some(until_ms) = refused_until(&outcome) {
                // By the clock of the process that was refused, which may be behind this one.
                let until_ms = until_ms.saturating_add(CLOCK_MARGIN_MS);
                let known = self.recalled_blocks.entry(outcome.context.site).or_insert(until_ms);
                *known = until_ms.max(*known);
            }
        }
        Ok(())
    }

    fn open(&mut self, opening: PartitionContext, now: Millis) {
        self.ownership.open(opening, now);
        self.share_addresses();
        self.recalled_blocks.retain(|_, until_ms| *until_ms > now);
    }

    fn receive(
        &mut self,
        batch: Vec<(Origin, ConsumerRecord)>,
        now: Millis,
        acts: &mut Acts,
    ) -> Result<(), StageError> {
        let at = &mut At { now, acts };
        self.begin(at);
        for (origin, record) in &batch {
            self.take_in(*origin, record, at);
        }
        self.send_ready(at);
        Ok(())
    }

    /// Handles a refused plan: its dispatch is in the dead letters, has ended, and frees its slot. Its sitemaps may not be
    /// durable.
    fn refused(&mut self, token: Token, _reason: &str, now: Millis, acts: &mut Acts) -> Result<(), StageError> {
        self.announced.forget();
        self.plan_durable(token, &[], now, acts)
    }

    fn plan_durable(
        &mut self,
        token: Token,
        _offsets: &[Offset],
        now: Millis,
        acts: &mut Acts,
    ) -> Result<(), StageError> {
        let at = &mut At { now, acts };
        self.begin(at);
        match self.dispatches.durable(token, now) {
            Some(InFlightPlan::Outcome { has_slot, .. }) => self.requests.free(usize::from(has_slot)),
            Some(InFlightPlan::Robots(key, row)) => self.apply(&key, &row, row.expires_ms, at),
            None => {}
        }
        self.send_ready(at);
        Ok(())
    }

    fn job_done(&mut self, done: Done, now: Millis, acts: &mut Acts) -> Result<(), StageError> {
        let at = &mut At { now, acts };
        self.begin(at);
        match done {
            Done::Asked { number, attempt, body } => self.asked(number, *attempt, body, at),
            Done::Located { site, host, located } => {
                if self.addresses.located(&site, &host, located, now) {
                    self.resume(&site, at);
                }
            }
            Done::Loaded { key, row } => self.robots_loaded(&key, row, at),
        }
        self.send_ready(at);
        Ok(())
    }

    fn tick(&mut self, now: Millis, acts: &mut Acts) -> Result<(), StageError> {
        let at = &mut At { now, acts };
        self.begin(at);
        self.look(at);
        self.send_ready(at);
        Ok(())
    }

    fn next_tick(&self) -> Option<Millis> {
        let look = self.looked_ms.saturating_add(LOOK_EVERY_MS);
        let at_once = (!self.dispatches.abandoned.is_empty()).then_some(Millis::MIN);
        at_once.into_iter().chain(self.gates.next_ms()).chain(self.addresses.next_ms()).chain([look]).min()
    }

    fn needs_proof(&self) -> bool {
        true
    }

    fn owns_until(&mut self, until_ms: Millis) {
        self.ownership.until_ms = self.ownership.until_ms.max(until_ms);
    }

    fn drain(&mut self, partition: Partition) {
        self.leave_partition(partition, true);
    }

    fn close(&mut self, partition: Partition) {
        self.leave_partition(partition, false);
        self.requests.free(self.dispatches.close(partition));
        self.requests.close(partition);
    }

    fn ends_of_rejected(record: &ConsumerRecord, now: Millis) -> Vec<Record> {
        let outcome = record.value.as_deref().and_then(|ready| Outcome::of_rejected(ready, now));
        outcome.map(|outcome| outcome_record(&outcome, record.tp.partition)).into_iter().collect()
    }

    fn due(&self, now: Millis) -> usize {
        // Requests that wait for their time, a slot or a response are not due; a request always ends in time.
        let can_send = self.requests.free_slots() > 0 && self.ownership.is_certain(now);
        let ready = if can_send { self.gates.ready.len() } else { 0 };
        ready + self.requests.overdue(now)
    }
}

#[cfg(test)]
mod tests;
