//! The fetcher as a stage: receives dispatches, sends their requests in time, and builds the resulting plans.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use orbweaver_log::{ConsumerRecord, Offset, Partition, Record};
use orbweaver_messages::{
    CLOCK_MARGIN_MS, DispatchId, LEASE_MS, MAX_FETCH_MS, Millis, Outcome, ReadyDispatch, Topic, decode, topic,
};
use orbweaver_politeness::robots::agent_token;
use orbweaver_stage::{
    Actions, ByteBudget, Origin, PartitionContext, Plan, RestoreFrom, RestoreSpec, Stage, StageError, Step, Token,
};
use orbweaver_store::{RobotsRow, Write};
use orbweaver_url::Url;

use crate::{
    active_dispatch::ActiveDispatch,
    body::PackedBody,
    classify::refused_until,
    client::{Attempt, FIRST_BYTES, Purpose, Request},
    completed_dispatches::CompletedDispatches,
    config::FetcherConfig,
    gates::{GateEvent, QueuedRequest, SiteGates},
    metrics::FetcherMetrics,
    records::{body_room, outcome_record},
    robots_cache::RobotsCache,
    robots_lookup::RobotsLookup,
    view::FetcherView,
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

/// Payload of a queued request.
#[derive(Debug)]
pub(crate) enum FetchTarget {
    Page(Box<ActiveDispatch>),
    /// Robots.txt of an authority, at this URL.
    Robots(Arc<str>, Url),
}

/// A request in flight.
#[derive(Debug)]
struct Running {
    site: Arc<str>,
    since_ms: Millis,
    of: RequestKind,
}

/// Kind of a request in flight.
#[derive(Debug)]
enum RequestKind {
    /// `None` if the partition is gone and the response is of no use.
    Page(Option<Box<ActiveDispatch>>),
    Robots(Arc<str>, Url),
}

/// A plan that is not yet durable.
#[derive(Debug)]
enum InFlightPlan {
    Outcome { name: (Partition, DispatchId), has_slot: bool },
    Robots(Arc<str>, RobotsRow),
}

/// Time between two calls from which the process counts as suspended, in milliseconds. The stage is called every
/// second.
const SUSPENDED_MS: Millis = 10_000;
/// Interval for updating the display figures and expiring lookups of robots.txt, in milliseconds.
const LOOK_EVERY_MS: Millis = 1000;

pub struct FetcherStage {
    pub(crate) config: FetcherConfig,
    /// Product token, looked up in robots.txt files.
    pub(crate) agent: String,
    pub(crate) metrics: FetcherMetrics,
    pub(crate) view: Arc<FetcherView>,
    /// Memory for bodies: those being read, and those that are not durable.
    memory: ByteBudget,
    pub(crate) gates: SiteGates<FetchTarget>,
    pub(crate) robots: RobotsCache,
    /// Sorted, like every collection that is iterated: the same events then lead to the same requests, in the same
    /// order.
    pub(crate) lookups: BTreeMap<Arc<str>, RobotsLookup>,
    pub(crate) partitions: Partition,
    /// Open partitions, and the times of their opening.
    pub(crate) opened: HashMap<Partition, Millis>,
    ended: CompletedDispatches,
    /// Dispatches that wait, are in flight, or have not durably ended.
    held: HashSet<(Partition, DispatchId)>,
    running: HashMap<u64, Running>,
    settling: HashMap<Token, InFlightPlan>,
    /// Last number of a request or plan.
    number: u64,
    /// Number of requests without a durable outcome.
    slots: usize,
    /// Blocks read back from the log, until they can be applied.
    recalled_blocks: BTreeMap<String, Millis>,
    /// Records of a revoked partition on which work has stopped.
    left: Vec<Origin>,
    called_ms: Option<Millis>,
    /// Time until which the partitions are certainly owned: no request is sent later.
    owned_until_ms: Millis,
    looked_ms: Millis,
    turns: Vec<GateEvent<FetchTarget>>,
}

impl FetcherStage {
    /// Creates a fetcher with a validated configuration.
    #[must_use]
    pub fn new(config: FetcherConfig, metrics: FetcherMetrics, view: Arc<FetcherView>) -> Self {
        Self {
            agent: agent_token(&config.user_agent),
            memory: ByteBudget::new(config.body_memory, metrics.memory.clone()),
            gates: SiteGates::new(config.concurrency),
            robots: RobotsCache::new(config.robots_cache_bytes),
            config,
            metrics,
            view,
            lookups: BTreeMap::new(),
            partitions: 1,
            opened: HashMap::new(),
            ended: CompletedDispatches::default(),
            held: HashSet::new(),
            running: HashMap::new(),
            settling: HashMap::new(),
            number: 0,
            slots: 0,
            recalled_blocks: BTreeMap::new(),
            left: vec![],
            called_ms: None,
            owned_until_ms: Millis::MIN,
            looked_ms: Millis::MIN,
            turns: vec![],
        }
    }

    /// Returns the memory for bodies, which the worker reserves.
    #[must_use]
    pub fn memory(&self) -> ByteBudget {
        self.memory.clone()
    }

    /// Returns the number of free request slots: none while there is no memory for a response.
    fn free_slots(&self) -> usize {
        if self.memory.has_room(FIRST_BYTES) { self.config.concurrency.saturating_sub(self.slots) } else { 0 }
    }

    /// Returns `true` while records of a partition are processed.
    pub(crate) fn is_open(&self, partition: Partition) -> bool {
        self.opened.contains_key(&partition)
    }

    /// Returns the time at which an unknown site counts as requested: when its partition was opened; for a site
    /// without a known partition (the target of a redirected robots.txt), when the last one was opened.
    pub(crate) fn asked_ms(&self, partition: Option<Partition>) -> Millis {
        let opened = partition.and_then(|partition| self.opened.get(&partition)).copied();
        opened.or_else(|| self.opened.values().max().copied()).unwrap_or(Millis::MIN)
    }

    /// Ends a dispatch: when the steps are durable, its origin completes and its slot is freed.
    pub(crate) fn settle(&mut self, visit: &ActiveDispatch, steps: Vec<Step<Write>>, at: &mut At<'_>) {
        let token = self.next_number();
        self.settling.insert(token, InFlightPlan::Outcome { name: visit.name(), has_slot: visit.has_slot });
        at.acts.plans.push(Plan { steps, completes: vec![visit.origin], token: Some(token) });
    }

    /// Stores a robots.txt, which applies once it is durable.
    pub(crate) fn store_robots(&mut self, authority: Arc<str>, row: RobotsRow, at: &mut At<'_>) {
        let token = self.next_number();
        let steps = vec![Step::Perform(vec![Write::Robots(row.clone())])];
        self.settling.insert(token, InFlightPlan::Robots(authority, row));
        at.acts.plans.push(Plan { steps, completes: vec![], token: Some(token) });
    }

    /// Abandons a dispatch; its record stays incomplete, and the partition's next owner receives it.
    pub(crate) fn leave(&mut self, visit: &ActiveDispatch) {
        self.free(visit.has_slot);
        self.held.remove(&visit.name());
        self.left.push(visit.origin);
    }

    /// Frees a slot.
    pub(crate) fn free(&mut self, has_slot: bool) {
        self.slots -= usize::from(has_slot);
    }

    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Accepts a record.
    fn take_in(&mut self, origin: Origin, record: &ConsumerRecord, at: &mut At<'_>) {
        let ready = match decode::<ReadyDispatch>("ready", record.value.as_ref()) {
            Ok(ready) => ready.in_time(at.now),
            Err(error) => return at.acts.rejects.push((origin, error.to_string())),
        };
        let url = match orbweaver_url::parse(&ready.dispatch.url) {
            Ok(url) => url,
            Err(error) => return at.acts.rejects.push((origin, format!("dispatch {}: {error}", ready.dispatch.id))),
        };
        let name = (origin.tp.partition, ready.dispatch.id);
        // The work is carried by its first record, which is incomplete at a lower offset, or by its durable outcome.
        if self.ended.contains(name.0, name.1) || !self.held.insert(name) {
            self.metrics.duplicates.inc();
            return at.acts.completes.push(origin);
        }
        self.admit(Box::new(ActiveDispatch::new(origin, ready, url)), at);
    }

    /// Sends all requests that may be sent.
    fn send_ready(&mut self, at: &mut At<'_>) {
        let mut turns = std::mem::take(&mut self.turns);
        // A fetcher that may have lost its partitions starts no request while the next owner does
        // (docs/protocol.md#fenced-requests).
        let free = if self.is_owner(at.now) { self.free_slots() } else { 0 };
        self.gates.poll(at.now, free, &mut turns);
        for turn in turns.drain(..) {
            match turn {
                GateEvent::Send(site, QueuedRequest { payload, .. }) => self.send(site, payload, at),
                GateEvent::Late(QueuedRequest { payload: FetchTarget::Page(visit), .. }) => self.late(&visit, at),
                // Another dispatch may wait for it by now.
                GateEvent::Late(QueuedRequest { payload: FetchTarget::Robots(authority, url), .. }) => {
                    self.ask_robots_at(&authority, url, at);
                }
            }
        }
        self.turns = turns;
        at.acts.parked.append(&mut self.left);
        self.metrics.slots.set(i64::try_from(self.slots).unwrap_or(i64::MAX));
    }

    /// Returns `true` while requests may be sent.
    fn is_owner(&self, now: Millis) -> bool {
        now <= self.owned_until_ms
    }

    fn send(&mut self, site: Arc<str>, wanted: FetchTarget, at: &mut At<'_>) {
        self.slots += 1;
        let number = self.next_number();
        let (of, request, room) = match wanted {
            FetchTarget::Page(mut visit) => {
                visit.has_slot = true;
                let request =
                    Request { url: visit.url.clone(), purpose: Purpose::Page, cookie: visit.cookies.header() };
                let room = body_room(&visit, self.config.record_limit);
                (RequestKind::Page(Some(visit)), request, room)
            }
            FetchTarget::Robots(authority, url) => {
                let request = Request { url: url.clone(), purpose: Purpose::Robots, cookie: None };
                (RequestKind::Robots(authority, url), request, 0)
            }
        };
        self.running.insert(number, Running { site, since_ms: at.now, of });
        at.acts.jobs.push(Job::Ask { number, request, room });
    }

    fn asked(&mut self, number: u64, attempt: Attempt, body: Option<PackedBody>, at: &mut At<'_>) {
        let Some(running) = self.running.remove(&number) else { return };
        self.metrics.asked(&attempt, body.as_ref().map_or(0, |body| body.bytes));
        self.gates.answered(&running.site, attempt.answered_at_ms, at.now);
        match running.of {
            RequestKind::Page(Some(visit)) => self.conclude(visit, attempt, body, at),
            RequestKind::Page(None) => self.free(true),
            RequestKind::Robots(authority, url) => {
                self.free(true);
                self.robots_answered(&authority, &url, &attempt, at);
            }
        }
    }

    /// Starts a call; must precede all other work of it.
    fn begin(&mut self, at: &mut At<'_>) {
        if self.called_ms.replace(at.now).is_some_and(|called| at.now.saturating_sub(called) > SUSPENDED_MS) {
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
        self.ended.turn(at.now);
        self.expire_lookups(at);
        self.metrics.in_flight.set(i64::try_from(self.running.len()).unwrap_or(i64::MAX));
        self.metrics.held.set(i64::try_from(self.gates.held()).unwrap_or(i64::MAX));
        self.metrics.sites.set(i64::try_from(self.gates.sites()).unwrap_or(i64::MAX));
        self.view.set(self.running.len());
    }

    /// Returns the authorities whose robots.txt is being requested.
    pub(crate) fn robots_in_flight(&self) -> HashSet<Arc<str>> {
        let asked = self.running.values().filter_map(|running| match &running.of {
            RequestKind::Robots(authority, _) => Some(authority.clone()),
            RequestKind::Page(_) => None,
        });
        asked.collect()
    }

    /// Starts no new work for a partition. Its requests in flight continue while it `drains`, so that no other fetcher
    /// sends requests to the same sites meanwhile.
    fn leave_partition(&mut self, partition: Partition, drains: bool) {
        self.opened.remove(&partition);
        let of_it = |visit: &ActiveDispatch| visit.origin.tp.partition == partition;
        let asked = if drains { self.robots_in_flight() } else { HashSet::new() };
        let mut left = self.leave_lookups(partition, &asked);
        let lookups = &self.lookups;
        let taken = self.gates.take_where(|wanted| match wanted {
            FetchTarget::Page(visit) => of_it(visit),
            FetchTarget::Robots(authority, _) => !lookups.contains_key(authority),
        });
        left.extend(taken.into_iter().filter_map(|wanted| match wanted {
            FetchTarget::Page(visit) => Some(visit),
            FetchTarget::Robots(..) => None,
        }));
        for visit in left {
            self.leave(&visit);
        }
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

    fn restore_specs(&self, _partition: Partition) -> Vec<RestoreSpec> {
        let from = RestoreFrom::LookBack(Duration::from_millis(LEASE_MS.unsigned_abs()));
        vec![RestoreSpec { topic: topic::OUTCOMES, from, follow: false }]
    }

    fn restore(&mut self, partition: Partition, record: &ConsumerRecord) -> Result<(), StageError> {
        // The frontier rejects an unreadable one; it ended no dispatch that is known here.
        if let Ok(outcome) = decode::<Outcome>("outcome", record.value.as_ref()) {
            self.ended.recall(partition, outcome.id);
            if let Some(until_ms) = refused_until(&outcome) {
                // By the clock of the process that was refused, which may be behind this one.
                let until_ms = until_ms.saturating_add(CLOCK_MARGIN_MS);
                let known = self.recalled_blocks.entry(outcome.site).or_insert(until_ms);
                *known = until_ms.max(*known);
            }
        }
        Ok(())
    }

    fn open(&mut self, opening: PartitionContext, now: Millis) {
        self.partitions = opening.partitions;
        self.opened.insert(opening.partition, now);
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

    /// Handles a refused plan: its dispatch is in the dead letters, has ended, and frees its slot.
    fn refused(&mut self, token: Token, _reason: &str, now: Millis, acts: &mut Acts) -> Result<(), StageError> {
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
        match self.settling.remove(&token) {
            Some(InFlightPlan::Outcome { name, has_slot }) => {
                self.free(has_slot);
                self.held.remove(&name);
                self.ended.insert(name.0, name.1, now);
            }
            Some(InFlightPlan::Robots(authority, row)) => self.robots_stored(&authority, &row, at),
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
            Done::Loaded { authority, row } => self.robots_loaded(&authority, row, at),
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
        let at_once = (!self.left.is_empty()).then_some(Millis::MIN);
        at_once.into_iter().chain(self.gates.next_ms()).chain([look]).min()
    }

    fn needs_proof(&self) -> bool {
        true
    }

    fn owns_until(&mut self, until_ms: Millis) {
        self.owned_until_ms = self.owned_until_ms.max(until_ms);
    }

    fn drain(&mut self, partition: Partition) {
        self.leave_partition(partition, true);
    }

    fn close(&mut self, partition: Partition) {
        self.leave_partition(partition, false);
        self.left.retain(|origin| origin.tp.partition != partition);
        self.held.retain(|name| name.0 != partition);
        let mut freed = 0;
        self.settling.retain(|_, settling| match settling {
            InFlightPlan::Outcome { name, has_slot } if name.0 == partition => {
                freed += usize::from(*has_slot);
                false
            }
            _ => true,
        });
        self.slots -= freed;
        // The site stays in flight until the response has arrived, and so does the slot.
        for running in self.running.values_mut() {
            if let RequestKind::Page(visit) = &mut running.of
                && visit.as_ref().is_some_and(|visit| visit.origin.tp.partition == partition)
            {
                *visit = None;
            }
        }
    }

    fn ends_of_rejected(record: &ConsumerRecord, now: Millis) -> Vec<Record> {
        let outcome = record.value.as_deref().and_then(|ready| Outcome::of_rejected(ready, now));
        outcome.map(|outcome| outcome_record(&outcome, record.tp.partition)).into_iter().collect()
    }

    fn due(&self, now: Millis) -> usize {
        // Requests that wait for their time, a slot or a response are not due; a request always ends in time.
        let ready = if self.free_slots() > 0 && self.is_owner(now) { self.gates.ready() } else { 0 };
        let overdue = self.running.values().filter(|running| now.saturating_sub(running.since_ms) > MAX_FETCH_MS);
        ready + overdue.count()
    }
}

#[cfg(test)]
mod tests;
