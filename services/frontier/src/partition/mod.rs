//! One partition of the frontier: what waits, what is leased, what an outcome means.
//!
//! Pure but for the index, which is a trait: every method takes the moment as a value and adds [`Decision`]s. A URL is in
//! exactly one state; each origin that is handed in completes through exactly one decision.
//!
//! What merely waits is in the index alone. In memory is what the index cannot say, since no record says it yet: leases, and
//! records and tombstones that are on their way into the log. Their number follows what is in flight.
//!
//! After an error the partition cannot be served on, and what was decided in that call must not be carried out.

mod ends;
mod held;
mod records;
mod restore;
mod similar;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use orbweaver_log::{Offset, Partition, TopicPartition};
use orbweaver_messages::{Dispatch, DispatchId, EXPIRES_MS, Millis, NOT_AFTER_MS, Trail, Waiting, topic};
use orbweaver_patterns::Patterns;
use orbweaver_stage::{Origin, Position};
use orbweaver_url::Fingerprint;

use crate::{
    FrontierConfig, SiteLoad,
    decision::{Decision, Turn},
    index::{Index, IndexError, Place, SiteId, is_at_back},
    leases::{Lease, Leases},
    offsets::Offsets,
    sites::{Sites, Source},
};

/// Records that are appended anew in one go, at most.
const REAPPEND_BATCH: usize = 512;
/// URLs in turn that are put at the back, or refused, in one go, at most.
const PASS_OVER_BATCH: usize = 512;
/// Sites that get their turn in one go when a cap is raised, at most.
const LET_GO_BATCH: u64 = 512;
/// Delayed URLs that are woken in one go, at most.
const WAKE_BATCH: usize = 512;

/// What is the matter with a URL that does not merely wait.
#[derive(Debug)]
enum Busy {
    /// It waits for the outcome of a dispatch.
    Leased(DispatchId, Box<Waiting>),
    /// It waits for its own new record, which was appended and is not yet read back (rule 7: one outstanding write a key). The
    /// outcomes that ended it meanwhile, each with its depth, complete with the tombstone that follows.
    Rewriting(Vec<(Origin, u16)>),
    /// Its record at this offset has ended, at this depth; its tombstone was appended and is not yet read back.
    Ended(Offset, u16),
}

#[derive(Debug)]
struct Active {
    /// Where the index has it.
    place: Place,
    busy: Busy,
}

/// One partition of the frontier.
#[derive(Debug)]
pub struct PartitionFrontier {
    partition: Partition,
    config: FrontierConfig,
    /// The claim's offset: the epoch of all that is written.
    epoch: u64,
    /// The epoch that origins of this assignment carry.
    assignment: u32,
    index: Box<dyn Index>,
    active: HashMap<Fingerprint, Active>,
    /// The offsets of what merely waits: in the index and not in `active`.
    idle: Offsets,
    /// When the first delayed URL is to be woken.
    next_wake_ms: Option<Millis>,
    sites: Sites,
    leases: Leases,
    /// Leases found in `crawl.scheduled` while restoring.
    found: HashMap<Fingerprint, Dispatch>,
    /// What must be appended anew, since the last record of it that the log holds is not what waits: it was found again at a
    /// lesser depth.
    outdated: BTreeSet<Fingerprint>,
    next_sequence: u64,
    /// What is known of similar URLs; it may be lost.
    patterns: Patterns,
    /// URLs that were put at the back of their site since that was asked for last.
    put_back: u64,
    /// As many URLs as one call looks at were passed over, and there may be more.
    passing_over: bool,
    /// Leases that ended without an outcome since that was asked for last.
    expired: u64,
    /// The offset behind the last record of `crawl.frontier` that was read.
    end: Offset,
    limit: usize,
    outcomes_since_tick: u32,
    outcomes_per_second: f64,
    last_tick_ms: Millis,
    /// By crawl, the sites whose turn waits for its cap.
    held: BTreeMap<String, VecDeque<SiteId>>,
}

impl PartitionFrontier {
    /// A partition as its index has it, to be restored from there on.
    #[must_use]
    pub fn new(partition: Partition, config: FrontierConfig, index: Box<dyn Index>) -> Self {
        Self {
            partition,
            epoch: 0,
            assignment: 0,
            end: index.position().map_or(0, |position| position.offset + 1),
            index,
            active: HashMap::new(),
            idle: Offsets::default(),
            next_wake_ms: None,
            sites: Sites::new(config.default_interval_ms),
            leases: Leases::default(),
            found: HashMap::new(),
            outdated: BTreeSet::new(),
            next_sequence: 0,
            patterns: Patterns::new(similar::PATTERN_BYTES),
            put_back: 0,
            passing_over: false,
            expired: 0,
            limit: config.min_outstanding,
            outcomes_since_tick: 0,
            outcomes_per_second: 0.0,
            last_tick_ms: 0,
            held: BTreeMap::new(),
            config,
        }
    }

    /// All records of `crawl.frontier` up to this one were handed in.
    ///
    /// # Errors
    /// When the index fails.
    pub fn applied(&mut self, position: Position) -> Result<(), IndexError> {
        self.index.applied(position)
    }

    /// Writes what the index keeps in memory.
    ///
    /// # Errors
    /// When the index fails.
    pub fn write(&mut self) -> Result<(), IndexError> {
        self.index.write()
    }

    /// Time has passed: ends leases, wakes what is delayed, keeps the commit point close (rule 8).
    ///
    /// # Errors
    /// When the index fails.
    pub fn tick(&mut self, turn: &mut Turn<'_>) -> Result<(), IndexError> {
        self.measure(turn.now);
        self.wake(turn.now)?;
        let mut expired = 0;
        while let Some(lease) = self.leases.pop_over(turn.now, |lease| is_current(&self.active, lease)) {
            expired += 1;
            self.expire(&lease, turn)?;
        }
        if expired > 0 {
            self.expired += expired;
            tracing::warn!(partition = self.partition, expired, "leases ended without an outcome");
        }
        self.renew(turn)?;
        self.reappend(turn)
    }

    /// Gives out leases to what is in turn, as far as the caps of crawls and the limit of outstanding dispatches allow.
    ///
    /// # Errors
    /// When the index fails.
    pub fn dispatch(&mut self, turn: &mut Turn<'_>) -> Result<(), IndexError> {
        self.wake(turn.now)?;
        let mut passed_over = 0;
        let more_may_go = self.let_go(turn);
        while self.leases.outstanding() < self.limit && passed_over < PASS_OVER_BATCH {
            let mut source = Source { index: &mut *self.index, idle: &self.idle };
            let Some((site, rank)) = self.sites.next(turn.now, &mut source)? else { break };
            let offset = rank.1;
            let waiting = self.index.waiting(offset)?;
            let fingerprint = waiting.fingerprint;
            let place = Place { site, back: is_at_back(rank), ..Place::of(&waiting, offset, Millis::MAX) };
            if turn.pages.slack(&waiting.crawl) == 0 {
                self.hold(&waiting.crawl, &place, turn.now);
                passed_over += 1;
                continue;
            }
            let Some(trail) = self.in_its_turn(&place, &waiting, turn)? else {
                passed_over += 1;
                continue;
            };
            let id = self.next_id();
            let last = waiting.failures.saturating_add(1) >= self.config.max_attempts;
            turn.out.push(Decision::Dispatch(Box::new(Dispatch { trail, ..dispatched(&waiting, id, last, turn.now) })));
            self.idle.remove(offset);
            turn.pages.lease(self.partition, &waiting.crawl);
            self.active.insert(fingerprint, Active { place, busy: Busy::Leased(id, Box::new(waiting)) });
            self.leases.add(Lease { dispatched_at_ms: turn.now, fingerprint, id });
        }
        self.passing_over = passed_over == PASS_OVER_BATCH || more_may_go;
        Ok(())
    }

    fn next_id(&mut self) -> DispatchId {
        let id = DispatchId { epoch: self.epoch, sequence: self.next_sequence };
        self.next_sequence += 1;
        id
    }

    /// When something waits for a moment: the soonest.
    #[must_use]
    pub fn next_moment_ms(&self) -> Option<Millis> {
        let at_once = self.passing_over.then_some(0);
        [at_once, self.next_wake_ms, self.sites.next_wake_ms(), self.leases.next_over_ms()].into_iter().flatten().min()
    }

    /// Whether a dispatch could be made now.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.sites.has_turn() && self.leases.outstanding() < self.limit
    }

    /// How many leases ended without an outcome since this was asked last.
    pub fn take_expired(&mut self) -> u64 {
        std::mem::take(&mut self.expired)
    }

    /// URLs that wait, leases, sites.
    #[must_use]
    pub fn load(&self) -> (usize, usize, usize) {
        (self.sites.waiting(), self.leases.outstanding(), self.sites.len())
    }

    /// The sites with the most waiting URLs. One of which all are leased or delayed has no name here and may be left out.
    ///
    /// # Errors
    /// When the index fails.
    pub fn busiest(&mut self, most: usize) -> Result<Vec<SiteLoad>, IndexError> {
        let mut named = vec![];
        for (site, waiting, low) in self.sites.busiest(most) {
            if let Some((_, offset)) = self.index.queued(site, low, 1)?.first() {
                let site = self.index.waiting(*offset)?.site;
                named.push(SiteLoad { site, waiting: waiting.into() });
            }
        }
        Ok(named)
    }

    fn origin(&self, offset: Offset) -> Origin {
        let place = TopicPartition::new(topic::FRONTIER, self.partition);
        Origin { place, offset, epoch: self.assignment }
    }

    /// A URL merely waits from now on: in its site's queue, or aside until its moment.
    fn lay(&mut self, place: &Place, now: Millis) {
        self.idle.insert(place.offset);
        if place.is_delayed() {
            self.next_wake_ms = Some(self.next_wake_ms.map_or(place.not_before_ms, |at| at.min(place.not_before_ms)));
        } else {
            self.sites.enqueue(place.site, place.rank(), now);
        }
    }

    /// A URL that merely waited does not any more. It may still count as one that waits.
    fn lift(&mut self, place: &Place) {
        self.idle.remove(place.offset);
        if !place.is_delayed() {
            self.sites.withdraw(place);
        }
    }

    fn wake(&mut self, now: Millis) -> Result<(), IndexError> {
        if self.next_wake_ms.is_some_and(|at| at <= now) {
            let due = self.index.delayed(now, WAKE_BATCH)?;
            for (fingerprint, place) in &due {
                self.index.release(*fingerprint, *place);
                match self.active.get_mut(fingerprint) {
                    Some(active) => active.place = active.place.queued(),
                    None => self.sites.enqueue(place.site, place.rank(), now),
                }
            }
            self.next_wake_ms = if due.len() == WAKE_BATCH {
                Some(now)
            } else {
                self.index.delayed(Millis::MAX, 1)?.first().map(|(_, place)| place.not_before_ms)
            };
        }
        self.sites.wake(now);
        Ok(())
    }

    /// Appends anew what the log holds outdated. What is busy is looked at again.
    fn renew(&mut self, turn: &mut Turn<'_>) -> Result<(), IndexError> {
        for fingerprint in std::mem::take(&mut self.outdated) {
            if self.active.contains_key(&fingerprint) {
                self.outdated.insert(fingerprint);
            } else if let Some(place) = self.index.place(fingerprint)? {
                let waiting = Box::new(self.index.waiting(place.offset)?);
                self.lift(&place);
                self.rewrite(place, waiting, vec![], turn);
            }
        }
        Ok(())
    }

    /// What waits of a leased URL: it may have been found at a lesser depth since it was leased as `leased`.
    fn as_found(&mut self, place: &Place, leased: Box<Waiting>) -> Result<Box<Waiting>, IndexError> {
        if place.depth >= leased.depth {
            return Ok(leased);
        }
        Ok(Box::new(at_the_depth_of(self.index.waiting(place.offset)?, &leased)))
    }

    /// Rule 8: when the lowest waiting records hold the commit point far behind the end, they are appended anew.
    fn reappend(&mut self, turn: &mut Turn<'_>) -> Result<(), IndexError> {
        let tolerated = self.config.reappend_above.max(4 * self.sites.waiting() as u64);
        // Only what lies behind that: a lease at the very front must not make everything else be written again and again.
        let Some(behind) = self.end.checked_sub(tolerated) else { return Ok(()) };
        for offset in self.idle.lowest_below(behind, REAPPEND_BATCH) {
            let waiting = self.index.waiting(offset)?;
            if let Some(place) = self.index.place(waiting.fingerprint)? {
                self.lift(&place);
                self.rewrite(place, Box::new(waiting), vec![], turn);
            }
        }
        Ok(())
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

/// What waits of a URL that was found again: found as `lesser`, with the attempts of `other`.
fn at_the_depth_of(lesser: Waiting, other: &Waiting) -> Waiting {
    let written_at_ms = lesser.written_at_ms.max(other.written_at_ms);
    let Waiting { failures, blocks, not_before_ms, .. } = *other;
    Waiting { failures, blocks, not_before_ms, written_at_ms, ..lesser }
}

fn is_current(active: &HashMap<Fingerprint, Active>, lease: &Lease) -> bool {
    matches!(active.get(&lease.fingerprint), Some(Active { busy: Busy::Leased(id, _), .. }) if *id == lease.id)
}

/// A lease on a URL, from `now` on.
fn dispatched(waiting: &Waiting, id: DispatchId, last_attempt: bool, now: Millis) -> Dispatch {
    Dispatch {
        id,
        crawl: waiting.crawl.clone(),
        fingerprint: waiting.fingerprint,
        url: waiting.url.clone(),
        key: waiting.key.clone(),
        policy: waiting.policy,
        site: waiting.site.clone(),
        depth: waiting.depth,
        sighting: waiting.sighting,
        via: waiting.via.clone(),
        chain: waiting.chain.clone(),
        trail: Trail::default(),
        attempt: waiting.failures.saturating_add(1),
        last_attempt,
        blocks: waiting.blocks,
        written_at_ms: waiting.written_at_ms,
        dispatched_at_ms: now,
        not_after_ms: now + NOT_AFTER_MS,
        expires_ms: now + EXPIRES_MS,
    }
}
