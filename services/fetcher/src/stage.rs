//! The fetcher as a stage: takes dispatches in, sends requests when their moment has come, and puts together what they caused.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use orbweaver_log::{Delivered, Offset, Partition, Record};
use orbweaver_messages::{
    CLOCK_MARGIN_MS, DispatchId, LEASE_MS, LONGEST_FETCH_MS, Millis, Outcome, Ready, Topic, decode, topic,
};
use orbweaver_politeness::robots::agent_token;
use orbweaver_stage::{
    Actions, ByteBudget, Opening, Origin, Plan, RestoreFrom, RestoreSpec, Stage, StageError, Step, Token,
};
use orbweaver_store::{RobotsRow, Write};
use orbweaver_url::Url;

use crate::{
    body::PackedBody,
    classify::refused_until,
    client::{Attempt, FIRST_BYTES, Purpose, Request},
    config::FetcherConfig,
    ended::Ended,
    gates::{Gates, Turn, Wish},
    metrics::FetcherMetrics,
    records::{body_room, outcome_record},
    robots_cache::RobotsCache,
    robots_desk::Lookup,
    view::FetcherView,
    visit::Visit,
    worker::{Done, Job},
};

/// The runtime's actions, for this stage.
pub(crate) type Acts = Actions<Job, Write>;

/// A moment, and what is done at it.
pub(crate) struct At<'a> {
    /// In milliseconds since the Unix epoch.
    pub(crate) now: Millis,
    /// What is done.
    pub(crate) acts: &'a mut Acts,
}

/// What waits at a gate.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// The page of a dispatch.
    Page(Box<Visit>),
    /// The robots.txt of an authority, to be had at this URL.
    Robots(Arc<str>, Url),
}

/// A request in flight.
#[derive(Debug)]
struct Running {
    site: Arc<str>,
    since_ms: Millis,
    of: Asked,
}

/// What is asked for.
#[derive(Debug)]
enum Asked {
    /// `None`: its partition is gone, and the answer of use to nobody.
    Page(Option<Box<Visit>>),
    Robots(Arc<str>, Url),
}

/// A plan that is not durable yet.
#[derive(Debug)]
enum Settling {
    Outcome { name: (Partition, DispatchId), has_slot: bool },
    Robots(Arc<str>, RobotsRow),
}

/// A gap in time larger than this means that the process was frozen, in milliseconds. The stage is called every second.
const FROZEN_MS: Millis = 10_000;
/// How often what a display shows is brought up to date, and what waits for robots.txt is looked through, in milliseconds.
const LOOK_EVERY_MS: Millis = 1000;

/// The fetcher.
pub struct FetcherStage {
    pub(crate) config: FetcherConfig,
    /// The product token that robots.txt files address.
    pub(crate) agent: String,
    pub(crate) metrics: FetcherMetrics,
    pub(crate) view: Arc<FetcherView>,
    /// For bodies: those being read, and those that are not durable.
    memory: ByteBudget,
    pub(crate) gates: Gates<Wanted>,
    pub(crate) robots: RobotsCache,
    /// Sorted, as all that is gone through: the same events then lead to the same requests, in the same order.
    pub(crate) lookups: BTreeMap<Arc<str>, Lookup>,
    pub(crate) partitions: Partition,
    /// Open partitions, with the moment of their opening.
    pub(crate) opened: HashMap<Partition, Millis>,
    ended: Ended,
    /// Dispatches that are held, in flight, or not durably ended.
    held: HashSet<(Partition, DispatchId)>,
    running: HashMap<u64, Running>,
    settling: HashMap<Token, Settling>,
    /// Numbers requests and plans.
    number: u64,
    /// Requests without a durable outcome.
    slots: usize,
    /// Blocks that the log told of, until a moment is known at which to apply them.
    recalled_blocks: BTreeMap<String, Millis>,
    /// Records of a partition that is wanted back, which nothing more is done for.
    left: Vec<Origin>,
    called_ms: Option<Millis>,
    /// Until when the partitions are certainly ours: no request is begun later.
    owned_until_ms: Millis,
    looked_ms: Millis,
    turns: Vec<Turn<Wanted>>,
}

impl FetcherStage {
    /// A fetcher with a validated configuration.
    #[must_use]
    pub fn new(config: FetcherConfig, metrics: FetcherMetrics, view: Arc<FetcherView>) -> Self {
        Self {
            agent: agent_token(&config.user_agent),
            memory: ByteBudget::new(config.body_memory, metrics.memory.clone()),
            gates: Gates::new(config.concurrency),
            robots: RobotsCache::new(config.robots_cache_bytes),
            config,
            metrics,
            view,
            lookups: BTreeMap::new(),
            partitions: 1,
            opened: HashMap::new(),
            ended: Ended::default(),
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

    /// The memory for bodies, which its worker reserves.
    #[must_use]
    pub fn memory(&self) -> ByteBudget {
        self.memory.clone()
    }

    /// Slots that a request may have now: none while there is no memory for what it would bring.
    fn free_slots(&self) -> usize {
        if self.memory.has_room(FIRST_BYTES) { self.config.concurrency.saturating_sub(self.slots) } else { 0 }
    }

    /// Whether records of a partition are still worked on.
    pub(crate) fn is_open(&self, partition: Partition) -> bool {
        self.opened.contains_key(&partition)
    }

    /// When a site that nothing is known of counts as asked: when its partition was opened; for a site of which no partition
    /// is known (a robots.txt redirects there), when the last one was.
    pub(crate) fn asked_ms(&self, partition: Option<Partition>) -> Millis {
        let opened = partition.and_then(|partition| self.opened.get(&partition)).copied();
        opened.or_else(|| self.opened.values().max().copied()).unwrap_or(Millis::MIN)
    }

    /// Ends a visit: its origin completes when the steps are durable, and its slot is free then.
    pub(crate) fn settle(&mut self, visit: &Visit, steps: Vec<Step<Write>>, at: &mut At<'_>) {
        let token = self.next_number();
        self.settling.insert(token, Settling::Outcome { name: visit.name(), has_slot: visit.has_slot });
        at.acts.plans.push(Plan { steps, completes: vec![visit.origin], token: Some(token) });
    }

    /// Stores a robots.txt; it is used when it is durable.
    pub(crate) fn store_robots(&mut self, authority: Arc<str>, row: RobotsRow, at: &mut At<'_>) {
        let token = self.next_number();
        let steps = vec![Step::Perform(vec![Write::Robots(row.clone())])];
        self.settling.insert(token, Settling::Robots(authority, row));
        at.acts.plans.push(Plan { steps, completes: vec![], token: Some(token) });
    }

    /// Does nothing more for a visit; its record stays incomplete, and the successor gets it.
    pub(crate) fn leave(&mut self, visit: &Visit) {
        self.free(visit.has_slot);
        self.held.remove(&visit.name());
        self.left.push(visit.origin);
    }

    /// Drops a visit whose lease is over.
    pub(crate) fn expire(&mut self, visit: &Visit, at: &mut At<'_>) {
        self.free(visit.has_slot);
        self.held.remove(&visit.name());
        self.metrics.expired.inc();
        at.acts.completes.push(visit.origin);
    }

    /// Gives a slot back.
    pub(crate) fn free(&mut self, has_slot: bool) {
        self.slots -= usize::from(has_slot);
    }

    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Takes one record in.
    fn take_in(&mut self, origin: Origin, record: &Delivered, at: &mut At<'_>) {
        let ready = match decode::<Ready>("ready", record.value.as_ref()) {
            Ok(ready) => ready.in_time(at.now),
            Err(error) => return at.acts.rejects.push((origin, error.to_string())),
        };
        let url = match orbweaver_url::parse(&ready.dispatch.url) {
            Ok(url) => url,
            Err(error) => return at.acts.rejects.push((origin, format!("dispatch {}: {error}", ready.dispatch.id))),
        };
        let name = (origin.place.partition, ready.dispatch.id);
        // Its first record, which is incomplete below this one, or its durable outcome carries the work.
        if self.ended.contains(name.0, name.1) || !self.held.insert(name) {
            self.metrics.duplicates.inc();
            return at.acts.completes.push(origin);
        }
        self.admit(Box::new(Visit::new(origin, ready, url)), at);
    }

    /// Sends what may be sent.
    fn pump(&mut self, at: &mut At<'_>) {
        let mut turns = std::mem::take(&mut self.turns);
        // Rule 21: a fetcher that may have lost its partitions starts no request while their next owner does.
        let free = if self.is_owner(at.now) { self.free_slots() } else { 0 };
        self.gates.poll(at.now, free, &mut turns);
        for turn in turns.drain(..) {
            match turn {
                Turn::Send(site, Wish { payload, .. }) => self.send(site, payload, at),
                Turn::Late(Wish { payload: Wanted::Page(visit), .. }) => self.late(&visit, at),
                // Somebody else may have come to wait for it meanwhile.
                Turn::Late(Wish { payload: Wanted::Robots(authority, url), .. }) => {
                    self.ask_robots_at(&authority, url, at);
                }
            }
        }
        self.turns = turns;
        at.acts.parked.append(&mut self.left);
        self.metrics.slots.set(i64::try_from(self.slots).unwrap_or(i64::MAX));
    }

    /// Whether requests may be begun.
    fn is_owner(&self, now: Millis) -> bool {
        now <= self.owned_until_ms
    }

    fn send(&mut self, site: Arc<str>, wanted: Wanted, at: &mut At<'_>) {
        self.slots += 1;
        let number = self.next_number();
        let (of, request, room) = match wanted {
            Wanted::Page(mut visit) => {
                visit.has_slot = true;
                let request =
                    Request { url: visit.url.clone(), purpose: Purpose::Page, cookie: visit.cookies.header() };
                let room = body_room(&visit, self.config.record_limit);
                (Asked::Page(Some(visit)), request, room)
            }
            Wanted::Robots(authority, url) => {
                let request = Request { url: url.clone(), purpose: Purpose::Robots, cookie: None };
                (Asked::Robots(authority, url), request, 0)
            }
        };
        self.running.insert(number, Running { site, since_ms: at.now, of });
        at.acts.jobs.push(Job::Ask { number, request, room });
    }

    fn asked(&mut self, number: u64, attempt: Attempt, body: Option<PackedBody>, at: &mut At<'_>) {
        let Some(running) = self.running.remove(&number) else { return };
        let bytes = body.as_ref().map_or(0, |body| body.bytes);
        self.metrics.asked(&attempt, bytes);
        self.view.asked(&attempt, bytes);
        self.gates.answered(&running.site, attempt.answered_at_ms, at.now);
        match running.of {
            Asked::Page(Some(visit)) => self.conclude(visit, attempt, body, at),
            Asked::Page(None) => self.free(true),
            Asked::Robots(authority, url) => {
                self.free(true);
                self.robots_answered(&authority, &url, &attempt, at);
            }
        }
    }

    /// To be called first, with each moment.
    fn begin(&mut self, at: &mut At<'_>) {
        if self.called_ms.replace(at.now).is_some_and(|called| at.now.saturating_sub(called) > FROZEN_MS) {
            // What is held is looked at anew before anything is sent: timers run out before gates open. Somebody else may have
            // asked its sites meanwhile.
            tracing::warn!("process was suspended; restarting every politeness delay");
            self.metrics.freezes.inc();
            self.gates.ask_anew(at.now);
        }
        for (site, until_ms) in std::mem::take(&mut self.recalled_blocks) {
            self.block(&site, until_ms, at);
        }
    }

    /// What has to be done now and then only.
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
        self.view.set(self.running.len(), self.gates.held());
        let asked = self.running.values().map(|running| &*running.site);
        self.view.set_busiest(asked.collect(), &self.gates);
    }

    /// The authorities whose robots.txt is being asked for.
    pub(crate) fn robots_in_flight(&self) -> HashSet<Arc<str>> {
        let asked = self.running.values().filter_map(|running| match &running.of {
            Asked::Robots(authority, _) => Some(authority.clone()),
            Asked::Page(_) => None,
        });
        asked.collect()
    }

    /// Begins nothing new for a partition. What it is being asked for goes on while it `drains`, so that nobody else asks its
    /// sites meanwhile.
    fn leave_partition(&mut self, partition: Partition, drains: bool) {
        self.opened.remove(&partition);
        let of_it = |visit: &Visit| visit.origin.place.partition == partition;
        let asked = if drains { self.robots_in_flight() } else { HashSet::new() };
        let mut left = self.leave_lookups(partition, &asked);
        let lookups = &self.lookups;
        let taken = self.gates.take_where(|wanted| match wanted {
            Wanted::Page(visit) => of_it(visit),
            Wanted::Robots(authority, _) => !lookups.contains_key(authority),
        });
        left.extend(taken.into_iter().filter_map(|wanted| match wanted {
            Wanted::Page(visit) => Some(visit),
            Wanted::Robots(..) => None,
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

    fn restores(&self, _partition: Partition) -> Vec<RestoreSpec> {
        let from = RestoreFrom::Back(Duration::from_millis(LEASE_MS.unsigned_abs()));
        vec![RestoreSpec { topic: topic::OUTCOMES, from, follow: false }]
    }

    fn restore(&mut self, partition: Partition, record: &Delivered) -> Result<(), StageError> {
        // One that cannot be read is the frontier's to reject; it ended no dispatch that we know of.
        if let Ok(outcome) = decode::<Outcome>("outcome", record.value.as_ref()) {
            self.ended.recall(partition, outcome.id);
            if let Some(until_ms) = refused_until(&outcome) {
                // By the clock of the process that was refused, which may be behind ours.
                let until_ms = until_ms.saturating_add(CLOCK_MARGIN_MS);
                let known = self.recalled_blocks.entry(outcome.site).or_insert(until_ms);
                *known = until_ms.max(*known);
            }
        }
        Ok(())
    }

    fn open(&mut self, opening: Opening, now: Millis) {
        self.partitions = opening.partitions;
        self.opened.insert(opening.partition, now);
        self.recalled_blocks.retain(|_, until_ms| *until_ms > now);
    }

    fn receive(&mut self, batch: Vec<(Origin, Delivered)>, now: Millis, acts: &mut Acts) {
        let at = &mut At { now, acts };
        self.begin(at);
        for (origin, record) in &batch {
            self.take_in(*origin, record, at);
        }
        self.pump(at);
    }

    /// The dispatch is among the dead letters: its visit is over, and its slot is free.
    fn refused(&mut self, token: Token, _reason: &str, now: Millis, acts: &mut Acts) {
        self.settled(token, &[], now, acts);
    }

    fn settled(&mut self, token: Token, _offsets: &[Offset], now: Millis, acts: &mut Acts) {
        let at = &mut At { now, acts };
        self.begin(at);
        match self.settling.remove(&token) {
            Some(Settling::Outcome { name, has_slot }) => {
                self.free(has_slot);
                self.held.remove(&name);
                self.ended.insert(name.0, name.1, now);
            }
            Some(Settling::Robots(authority, row)) => self.robots_stored(&authority, &row, at),
            None => {}
        }
        self.pump(at);
    }

    fn finished(&mut self, done: Done, now: Millis, acts: &mut Acts) {
        let at = &mut At { now, acts };
        self.begin(at);
        match done {
            Done::Asked { number, attempt, body } => self.asked(number, *attempt, body, at),
            Done::Loaded { authority, row } => self.robots_loaded(&authority, row, at),
        }
        self.pump(at);
    }

    fn tick(&mut self, now: Millis, acts: &mut Acts) {
        let at = &mut At { now, acts };
        self.begin(at);
        self.look(at);
        self.pump(at);
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
        self.left.retain(|origin| origin.place.partition != partition);
        self.held.retain(|name| name.0 != partition);
        let mut freed = 0;
        self.settling.retain(|_, settling| match settling {
            Settling::Outcome { name, has_slot } if name.0 == partition => {
                freed += usize::from(*has_slot);
                false
            }
            _ => true,
        });
        self.slots -= freed;
        // The site stays in flight until the answer is there, and so does the slot.
        for running in self.running.values_mut() {
            if let Asked::Page(visit) = &mut running.of
                && visit.as_ref().is_some_and(|visit| visit.origin.place.partition == partition)
            {
                *visit = None;
            }
        }
    }

    fn ends_of_rejected(record: &Delivered, now: Millis) -> Vec<Record> {
        let outcome = record.value.as_deref().and_then(|ready| Outcome::of_rejected(ready, now));
        outcome.map(|outcome| outcome_record(&outcome, record.place.partition)).into_iter().collect()
    }

    fn due(&self, now: Millis) -> usize {
        // What waits for its moment, for a slot or for an answer cannot move; a request always ends in time.
        let ready = if self.free_slots() > 0 && self.is_owner(now) { self.gates.ready() } else { 0 };
        let overdue = self.running.values().filter(|running| now.saturating_sub(running.since_ms) > LONGEST_FETCH_MS);
        ready + overdue.count()
    }
}

#[cfg(test)]
mod tests;
