//! One partition of the frontier: what waits, what is leased, what an outcome means.
//!
//! Pure: every method takes the moment as a value and adds [`Decision`]s. A URL is in exactly one state; each origin that is
//! handed in completes through exactly one decision.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashMap, hash_map},
    sync::Arc,
};

use orbweaver_log::{Offset, Partition, TopicPartition};
use orbweaver_messages::{Dispatch, DispatchId, LEASE_MS, Millis, Outcome, OutcomeKind, Waiting, topic};
use orbweaver_stage::Origin;
use orbweaver_url::Fingerprint;

use crate::{
    FrontierConfig, SiteLoad,
    cap::PageCap,
    decision::{Decision, Turn, gave_up},
    entry::{Entry, Interner, State},
    leases::{Lease, Leases},
    sites::Sites,
};

/// Records that are appended anew in one go, at most.
const REAPPEND_BATCH: usize = 512;

/// One partition of the frontier.
#[derive(Debug)]
pub struct PartitionFrontier {
    partition: Partition,
    config: FrontierConfig,
    /// The claim's offset: the epoch of all that is written.
    epoch: u64,
    /// The epoch that origins of this assignment carry.
    assignment: u32,
    /// Boxed, so that the table itself stays small when it grows.
    entries: HashMap<Fingerprint, Box<Entry>>,
    /// By the offset that holds the commit point back.
    by_offset: BTreeMap<Offset, Fingerprint>,
    delayed: BinaryHeap<Reverse<(Millis, Offset)>>,
    sites: Sites,
    leases: Leases,
    /// Leases found in `crawl.scheduled` while restoring.
    found: HashMap<Fingerprint, Dispatch>,
    interner: Interner,
    next_sequence: u64,
    /// The offset behind the last record of `crawl.frontier` that was read.
    end: Offset,
    limit: usize,
    outcomes_since_tick: u32,
    outcomes_per_second: f64,
    last_tick_ms: Millis,
}

impl PartitionFrontier {
    /// An empty partition, to be restored.
    #[must_use]
    pub fn new(partition: Partition, config: FrontierConfig) -> Self {
        Self {
            partition,
            epoch: 0,
            assignment: 0,
            entries: HashMap::new(),
            by_offset: BTreeMap::new(),
            delayed: BinaryHeap::new(),
            sites: Sites::new(config.default_interval_ms),
            leases: Leases::default(),
            found: HashMap::new(),
            interner: Interner::default(),
            next_sequence: 0,
            end: 0,
            limit: config.min_outstanding,
            outcomes_since_tick: 0,
            outcomes_per_second: 0.0,
            last_tick_ms: 0,
            config,
        }
    }

    /// A record of `crawl.frontier` that is replayed; `waiting: None` is a tombstone.
    pub fn restore_record(&mut self, offset: Offset, fingerprint: Fingerprint, waiting: Option<Waiting>) {
        self.end = offset + 1;
        if let Some(old) = self.remove(fingerprint) {
            self.sites.dismiss(&old.site, 0);
        }
        if let Some(waiting) = waiting {
            self.insert(fingerprint, waiting, offset);
        }
    }

    /// A dispatch of `crawl.scheduled` that is replayed.
    pub fn restore_dispatch(&mut self, dispatch: Dispatch) {
        let current =
            |entry: &Entry| entry.failures.saturating_add(1) == dispatch.attempt && entry.blocks == dispatch.blocks;
        if self.entries.get(&dispatch.fingerprint).is_some_and(|entry| current(entry)) {
            self.found.insert(dispatch.fingerprint, dispatch);
        }
    }

    /// An outcome of `crawl.outcomes` that is replayed: its dispatch is not on its way any more. What it means for the URL
    /// is decided when it is received.
    pub fn restore_outcome(&mut self, fingerprint: Fingerprint, id: DispatchId, kind: OutcomeKind) {
        // Only a deferral leaves no other trace; the lease of any other outcome ends when that outcome is received (again).
        if kind == OutcomeKind::Deferred && self.found.get(&fingerprint).is_some_and(|found| found.id == id) {
            self.found.remove(&fingerprint);
        }
    }

    /// Serves from now on. Gives the offsets back that are not complete.
    pub fn open(&mut self, epoch: u64, assignment: u32, now: Millis, cap: &mut PageCap) -> Vec<Offset> {
        self.epoch = epoch;
        self.assignment = assignment;
        self.last_tick_ms = now;
        let mut found: Vec<Dispatch> = std::mem::take(&mut self.found).into_values().collect();
        found.retain(|dispatch| now < dispatch.dispatched_at_ms + LEASE_MS);
        found.sort_by_key(|dispatch| dispatch.dispatched_at_ms);
        for dispatch in found {
            let Some(entry) = self.entries.get_mut(&dispatch.fingerprint) else { continue };
            entry.state = State::Leased(dispatch.id);
            self.sites.count_outstanding(&entry.site);
            // A dispatch from a clock ahead of ours counts as made now.
            let dispatched_at_ms = dispatch.dispatched_at_ms.min(now);
            self.leases.add(Lease { dispatched_at_ms, fingerprint: dispatch.fingerprint, id: dispatch.id });
            cap.reserve();
        }
        let waiting: Vec<(Offset, Fingerprint)> = self.by_offset.iter().map(|(o, f)| (*o, *f)).collect();
        for (_, fingerprint) in &waiting {
            if self.entries.get(fingerprint).is_some_and(|entry| entry.state == State::Queued) {
                self.admit(*fingerprint, now);
            }
        }
        waiting.into_iter().map(|(offset, _)| offset).collect()
    }

    /// A record of `crawl.frontier`: a URL waits (again).
    pub fn waiting(&mut self, origin: Origin, waiting: Waiting, turn: &mut Turn<'_>) {
        self.end = self.end.max(origin.offset + 1);
        let fingerprint = waiting.fingerprint;
        let mut ended = vec![];
        if let Some(old) = self.entries.get_mut(&fingerprint) {
            match std::mem::replace(&mut old.state, State::Queued) {
                // Our own record, read back. The plan that appended it completed the old one.
                State::Rewriting(outcomes) => ended = outcomes,
                // The way there is travelled already: the newer record only takes over the offset.
                State::Leased(id) => {
                    let superseded = self.origin(old_offset(&self.entries, fingerprint));
                    self.take_over(fingerprint, origin.offset, State::Leased(id));
                    turn.out.push(Decision::Complete(superseded));
                    turn.out.push(Decision::Park(origin));
                    return;
                }
                State::Queued | State::Delayed => {
                    let offset = old_offset(&self.entries, fingerprint);
                    turn.out.push(Decision::Complete(self.origin(offset)));
                }
            }
            if let Some(old) = self.remove(fingerprint) {
                self.sites.withdraw(&old.site, old.depth, old.offset);
                self.sites.dismiss(&old.site, turn.now);
            }
        }
        if !ended.is_empty() {
            ended.push(origin);
            turn.out.push(Decision::End { fingerprint, completes: ended });
            return;
        }
        self.insert(fingerprint, waiting, origin.offset);
        self.admit(fingerprint, turn.now);
        turn.out.push(Decision::Park(origin));
    }

    /// A tombstone of `crawl.frontier`; `epoch` is that of its writer.
    pub fn tombstone(&mut self, origin: Origin, fingerprint: Fingerprint, epoch: u64, turn: &mut Turn<'_>) {
        self.end = self.end.max(origin.offset + 1);
        turn.out.push(Decision::Complete(origin));
        let Some(entry) = self.entries.get(&fingerprint) else { return };
        if entry.offset > origin.offset || matches!(entry.state, State::Rewriting(_)) {
            return;
        }
        self.release(fingerprint, turn);
        if epoch < self.epoch {
            // Rule 3: a former owner woke up and its tombstone came behind our claim. What still waits is appended again.
            self.rewrite(fingerprint, vec![], turn);
        } else if let Some(entry) = self.remove(fingerprint) {
            // The log has the last word: a second copy of a URL was admitted behind the one that ended.
            self.sites.withdraw(&entry.site, entry.depth, entry.offset);
            self.sites.dismiss(&entry.site, turn.now);
            turn.out.push(Decision::Complete(self.origin(entry.offset)));
        }
    }

    /// How a dispatch ended.
    pub fn outcome(&mut self, origin: Origin, outcome: &Outcome, turn: &mut Turn<'_>) {
        self.outcomes_since_tick += 1;
        let Some(entry) = self.entries.get_mut(&outcome.fingerprint) else {
            turn.out.push(Decision::Complete(origin));
            return;
        };
        let site = Arc::clone(&entry.site);
        if let Some(delay) = outcome.crawl_delay_ms {
            self.sites.learn_delay(&site, delay);
        }
        let leased = match &entry.state {
            State::Leased(id) => Some(*id),
            _ => None,
        };
        let current = leased == Some(outcome.id);
        // Rule 16: a terminal outcome counts whatever its id, another only if its attempt is current.
        if !current && !outcome.kind.is_terminal() {
            turn.out.push(Decision::Complete(origin));
            return;
        }
        if let Some(id) = leased {
            self.leases.end(id, true);
            let asked = outcome.requested_at_ms.is_some();
            self.sites.end(&site, asked.then_some(outcome.ended_at_ms - outcome.dispatched_at_ms), turn.now);
            if outcome.kind != OutcomeKind::Fetched {
                turn.cap.give_back();
            }
        }
        match outcome.kind {
            OutcomeKind::Deferred => {
                self.sites.pause(&site, outcome.retry_at_ms.unwrap_or(turn.now));
                self.set_state(outcome.fingerprint, State::Queued);
                self.admit(outcome.fingerprint, turn.now);
                turn.out.push(Decision::Complete(origin));
            }
            OutcomeKind::Retry | OutcomeKind::Blocked => {
                let Some(entry) = self.entries.get_mut(&outcome.fingerprint) else { return };
                if outcome.kind == OutcomeKind::Retry {
                    entry.failures = entry.failures.saturating_add(1);
                    entry.not_before_ms = outcome.retry_at_ms.unwrap_or(turn.now);
                } else {
                    entry.blocks = entry.blocks.saturating_add(1);
                    let until = outcome.blocked_until_ms.unwrap_or(turn.now);
                    entry.not_before_ms = until;
                    self.sites.pause(&site, until);
                }
                self.rewrite(outcome.fingerprint, vec![origin], turn);
            }
            OutcomeKind::Fetched
            | OutcomeKind::Unchanged
            | OutcomeKind::Redirected
            | OutcomeKind::Refused
            | OutcomeKind::Gone => self.end(outcome.fingerprint, origin, turn),
        }
    }

    /// Time has passed: ends leases, wakes what is delayed, keeps the commit point close (rule 8).
    pub fn tick(&mut self, turn: &mut Turn<'_>) {
        self.measure(turn.now);
        self.wake(turn.now);
        let mut expired = 0;
        while let Some(lease) = self.leases.pop_over(turn.now, |lease| is_current(&self.entries, lease)) {
            expired += 1;
            self.expire(lease, turn);
        }
        if expired > 0 {
            tracing::warn!(partition = self.partition, expired, "leases ended without an outcome");
        }
        self.reappend(turn);
    }

    /// Gives out leases to what is in turn, as far as `cap` and the limit of outstanding dispatches allow.
    pub fn dispatch(&mut self, turn: &mut Turn<'_>) {
        self.wake(turn.now);
        while self.leases.outstanding() < self.limit && !turn.cap.is_exhausted() {
            let Some((_, offset)) = self.sites.next(turn.now) else { break };
            let Some(fingerprint) = self.by_offset.get(&offset).copied() else { continue };
            let Some(entry) = self.entries.get_mut(&fingerprint) else { continue };
            let id = DispatchId { epoch: self.epoch, sequence: self.next_sequence };
            self.next_sequence += 1;
            entry.state = State::Leased(id);
            let last = entry.failures.saturating_add(1) >= self.config.max_attempts;
            turn.out.push(Decision::Dispatch(Box::new(entry.to_dispatch(fingerprint, id, last, turn.now))));
            self.leases.add(Lease { dispatched_at_ms: turn.now, fingerprint, id });
            turn.cap.reserve();
        }
    }

    /// When something waits for a moment: the soonest.
    #[must_use]
    pub fn next_moment_ms(&self) -> Option<Millis> {
        let delayed = self.delayed.peek().map(|Reverse((at, _))| *at);
        [delayed, self.sites.next_wake_ms(), self.leases.next_over_ms()].into_iter().flatten().min()
    }

    /// Whether a dispatch could be made now.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.sites.has_turn() && self.leases.outstanding() < self.limit
    }

    /// URLs that wait, leases, sites.
    #[must_use]
    pub fn load(&self) -> (usize, usize, usize) {
        (self.entries.len(), self.leases.outstanding(), self.sites.len())
    }

    /// The sites with the most waiting URLs.
    #[must_use]
    pub fn busiest(&self, most: usize) -> Vec<SiteLoad> {
        self.sites.busiest(most)
    }

    fn origin(&self, offset: Offset) -> Origin {
        let place = TopicPartition::new(topic::FRONTIER, self.partition);
        Origin { place, offset, epoch: self.assignment }
    }

    fn insert(&mut self, fingerprint: Fingerprint, waiting: Waiting, offset: Offset) {
        let site = self.sites.admit(&waiting.site);
        let entry = Entry::new(waiting, offset, site, &mut self.interner);
        self.by_offset.insert(offset, fingerprint);
        self.entries.insert(fingerprint, Box::new(entry));
    }

    fn remove(&mut self, fingerprint: Fingerprint) -> Option<Box<Entry>> {
        let entry = self.entries.remove(&fingerprint)?;
        self.by_offset.remove(&entry.offset);
        Some(entry)
    }

    fn set_state(&mut self, fingerprint: Fingerprint, state: State) {
        if let Some(entry) = self.entries.get_mut(&fingerprint) {
            entry.state = state;
        }
    }

    fn take_over(&mut self, fingerprint: Fingerprint, offset: Offset, state: State) {
        if let Some(entry) = self.entries.get_mut(&fingerprint) {
            self.by_offset.remove(&entry.offset);
            self.by_offset.insert(offset, fingerprint);
            entry.offset = offset;
            entry.state = state;
        }
    }

    /// Puts a waiting URL where it waits: into its site's queue, or aside until its moment.
    fn admit(&mut self, fingerprint: Fingerprint, now: Millis) {
        let Some(entry) = self.entries.get_mut(&fingerprint) else { return };
        if entry.not_before_ms > now {
            entry.state = State::Delayed;
            self.delayed.push(Reverse((entry.not_before_ms, entry.offset)));
        } else {
            entry.state = State::Queued;
            self.sites.enqueue(&entry.site, entry.depth, entry.offset, now);
        }
    }

    fn wake(&mut self, now: Millis) {
        while let Some(Reverse((at, offset))) = self.delayed.peek().copied()
            && at <= now
        {
            self.delayed.pop();
            // The URL may have ended, or moved to a newer record.
            let Some(fingerprint) = self.by_offset.get(&offset).copied() else { continue };
            if self.entries.get(&fingerprint).is_some_and(|entry| entry.state == State::Delayed) {
                self.admit(fingerprint, now);
            }
        }
        self.sites.wake(now);
    }

    /// Appends the record of a URL anew; `completes` and its old record complete with it.
    fn rewrite(&mut self, fingerprint: Fingerprint, mut completes: Vec<Origin>, turn: &mut Turn<'_>) {
        let Some(offset) = self.entries.get(&fingerprint).map(|entry| entry.offset) else { return };
        completes.push(self.origin(offset));
        let Some(entry) = self.entries.get_mut(&fingerprint) else { return };
        entry.state = State::Rewriting(vec![]);
        self.sites.withdraw(&entry.site, entry.depth, entry.offset);
        let waiting = Box::new(entry.to_waiting(fingerprint));
        turn.out.push(Decision::Rewrite { waiting, completes });
    }

    fn end(&mut self, fingerprint: Fingerprint, outcome: Origin, turn: &mut Turn<'_>) {
        if let hash_map::Entry::Occupied(mut entry) = self.entries.entry(fingerprint)
            && let State::Rewriting(ended) = &mut entry.get_mut().state
        {
            // Its new record is on its way; the tombstone must come behind it.
            ended.push(outcome);
            return;
        }
        let Some(entry) = self.remove(fingerprint) else { return };
        self.sites.withdraw(&entry.site, entry.depth, entry.offset);
        self.sites.dismiss(&entry.site, turn.now);
        turn.out.push(Decision::End { fingerprint, completes: vec![outcome, self.origin(entry.offset)] });
    }

    /// A lease ended without an outcome. It counts as an attempt only if the way was open (rule 16).
    fn expire(&mut self, lease: Lease, turn: &mut Turn<'_>) {
        let overtaken = self.leases.overtaken(lease.id);
        let Some(entry) = self.entries.get_mut(&lease.fingerprint) else { return };
        if overtaken && entry.failures.saturating_add(1) >= self.config.max_attempts {
            let dispatch = entry.to_dispatch(lease.fingerprint, lease.id, true, lease.dispatched_at_ms);
            turn.out.push(Decision::GiveUp(Box::new(gave_up(dispatch, turn.now))));
            // It comes back as a terminal outcome; until then the lease stays.
            self.leases.renew(Lease { dispatched_at_ms: turn.now, ..lease });
            return;
        }
        if overtaken {
            entry.failures += 1;
        }
        self.release(lease.fingerprint, turn);
        if overtaken {
            self.rewrite(lease.fingerprint, vec![], turn);
        } else {
            self.admit(lease.fingerprint, turn.now);
        }
    }

    /// Takes the lease off a URL, if it has one, without an outcome.
    fn release(&mut self, fingerprint: Fingerprint, turn: &mut Turn<'_>) {
        let Some(entry) = self.entries.get_mut(&fingerprint) else { return };
        if let State::Leased(id) = entry.state {
            entry.state = State::Queued;
            let site = Arc::clone(&entry.site);
            self.leases.end(id, false);
            self.sites.end(&site, None, turn.now);
            turn.cap.give_back();
        }
    }

    /// Rule 8: when the lowest waiting records hold the commit point far behind the end, they are appended anew.
    fn reappend(&mut self, turn: &mut Turn<'_>) {
        let tolerated = self.config.reappend_above.max(4 * self.entries.len() as u64);
        // Only what lies behind that: a lease at the very front must not make everything else be written again and again.
        let behind = self.by_offset.range(..self.end.saturating_sub(tolerated));
        let lowest: Vec<Fingerprint> = behind.take(REAPPEND_BATCH).map(|(_, fingerprint)| *fingerprint).collect();
        for fingerprint in lowest {
            if self.entries.get(&fingerprint).is_some_and(|e| matches!(e.state, State::Queued | State::Delayed)) {
                self.rewrite(fingerprint, vec![], turn);
            }
        }
    }

    /// Rule 15: outstanding dispatches are bounded by a few seconds of measured outcomes.
    fn measure(&mut self, now: Millis) {
        let elapsed = now - self.last_tick_ms;
        if elapsed < 250 {
            return;
        }
        #[allow(clippy::cast_precision_loss, reason = "elapsed milliseconds are far below 2^52")]
        let rate = f64::from(self.outcomes_since_tick) * 1000.0 / elapsed as f64;
        self.outcomes_per_second += 0.3 * (rate - self.outcomes_per_second);
        self.outcomes_since_tick = 0;
        self.last_tick_ms = now;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped right after")]
        let two_seconds = (2.0 * self.outcomes_per_second) as usize;
        self.limit = two_seconds.clamp(self.config.min_outstanding, self.config.max_outstanding);
    }
}

fn old_offset(entries: &HashMap<Fingerprint, Box<Entry>>, fingerprint: Fingerprint) -> Offset {
    entries.get(&fingerprint).map_or(0, |entry| entry.offset)
}

fn is_current(entries: &HashMap<Fingerprint, Box<Entry>>, lease: &Lease) -> bool {
    entries.get(&lease.fingerprint).is_some_and(|entry| entry.state == State::Leased(lease.id))
}
