//! One partition of the frontier: its queued URLs, its leases, and the handling of outcomes.
//!
//! Pure except for the index, which is a trait: every method takes the current time as a value and adds [`Decision`]s.
//! A URL is in exactly one state, and every origin that is passed in completes through exactly one decision.
//!
//! An *idle* URL is queued and neither leased nor being written to the log; it is only in the index. Memory holds the
//! state that the index cannot contain, because no record does yet: leases, and records and tombstones that are being
//! written. Their number follows the work in flight.
//!
//! After an error the partition must be closed, and the decisions of that call must not be carried out.

mod active;
mod cap;
mod live;
mod merge;
mod outcomes;
mod patterns;
mod records;
mod releases;
mod restore;
mod site_cap;

use std::collections::{BTreeMap, VecDeque};

use foldhash::HashMap;
use orbweaver_log::{Offset, Partition, TopicPartition};
use orbweaver_messages::{CrawlDefinition, Dispatch, DispatchId, FrontierUrl, Millis, Outcome, OutcomeKind, topic};
use orbweaver_patterns::Patterns;
use orbweaver_stage::{IndexCheckpoint, Origin};
use orbweaver_url::{CrawlName, Fingerprint};

use crate::{
    FrontierConfig, SiteLoad,
    decision::{Decision, DecisionContext},
    dispatch_limit::DispatchLimit,
    index::{CrawlKey, Index, IndexEntry, IndexError, QueueKey, is_demoted},
    leases::{Lease, Leases},
    listed_updates::{ListedUpdates, UpdateCounts},
    offsets::Offsets,
    revisit::EndedVisit,
    site_pages::SitePageCounts,
    site_slots::SiteKey,
    site_weight::CrawlTerms,
    sites::{Next, SiteQueues, Source},
};

use active::{Active, ActiveState, Rewriting};
pub use live::Live;
use live::LiveUrls;
use merge::at_the_depth_of;
pub(crate) use patterns::TRAP;
use releases::Release;

/// Maximum number of records re-appended per call.
const REAPPEND_BATCH: usize = 512;
/// Longest time between two ticks that counts, in milliseconds; the stage ticks every second.
const LONGEST_TICK_MS: Millis = 2_000;
/// Maximum number of leases that expire per call; the record of a URL that lost its dispatch is re-appended.
const EXPIRE_BATCH: u64 = 512;
/// Maximum number of ready URLs that are demoted, refused or found to be capped per call.
const PASS_OVER_BATCH: usize = 512;
/// Maximum number of site queues resumed per crawl and call after a cap was raised.
const RESUME_BATCH: u64 = 512;
/// Maximum number of delayed URLs that are released per call.
const WAKE_BATCH: usize = 512;
/// Interval at which the index is written regardless of its changes, in milliseconds, and the number of URLs per additional
/// millisecond: a write has the states of all URLs.
const WRITE_EVERY_MS: Millis = 1000;
const URLS_PER_MS: u64 = 1000;

/// Lease found during a restore, with the outcome of its dispatch if one was found that is not applied to the queued
/// record: its offset, and the end of the URL if it is terminal.
#[derive(Debug)]
struct FoundLease {
    lease: Lease,
    outcome: Option<(Offset, Option<Ending>)>,
}

/// End of a visit to a URL by a terminal outcome; without revisits, it ends the URL.
#[derive(Debug)]
struct Ending {
    depth: u16,
    /// Event time of the outcome.
    event_ms: Millis,
    visit: EndedVisit,
    /// Whether the first visit found a page.
    is_page: bool,
}

impl Ending {
    fn of(outcome: &Outcome) -> Self {
        let is_page = outcome.kind == OutcomeKind::Fetched && outcome.context.may_be_new_page();
        Self { depth: outcome.context.depth, event_ms: outcome.event_ms(), visit: EndedVisit::of(outcome), is_page }
    }
}

/// Names of what this owner of the partition writes and completes.
#[derive(Debug)]
struct Owner {
    partition: Partition,
    /// Owner epoch of everything that is written: the offset of the claim.
    epoch: u64,
    /// Assignment epoch of this partition's origins.
    assignment: u32,
    next_sequence: u64,
}

impl Owner {
    fn next_id(&mut self) -> DispatchId {
        let id = DispatchId { epoch: self.epoch, sequence: self.next_sequence };
        self.next_sequence += 1;
        id
    }

    fn origin(&self, offset: Offset) -> Origin {
        let tp = TopicPartition::new(topic::FRONTIER, self.partition);
        Origin { tp, offset, assignment_epoch: self.assignment }
    }
}

/// A partition: its parts decide by themselves, and this carries the decisions from one to the other.
#[derive(Debug)]
pub struct PartitionFrontier {
    owner: Owner,
    config: FrontierConfig,
    index: Box<dyn Index>,
    active: HashMap<Fingerprint, Active>,
    /// Offsets of idle URLs: in the index and not in `active`.
    idle: Offsets,
    /// Time at which the first delayed URL is due.
    next_wake_ms: Option<Millis>,
    sites: SiteQueues,
    leases: Leases,
    /// Leases found in `crawl.scheduled` during the restore.
    found: HashMap<Fingerprint, FoundLease>,
    /// Queued URLs found at the opening that were admitted a second time before the tombstone of the first: they end as
    /// well, as they would have if the tombstone had been read back.
    copies: BTreeMap<Fingerprint, Ending>,
    /// URLs found at the opening whose last record in the log is not the queued one, and which must be re-appended,
    /// each with the offset of an earlier record that completes only then, if there is one; see [`Index::mark`].
    outdated: BTreeMap<Fingerprint, Option<Offset>>,
    /// State of the patterns of similar URLs; it may be lost.
    patterns: Patterns,
    /// Number of URLs demoted since the last call of `similar`.
    demote: u64,
    /// The last call of `dispatch` reached a batch limit, and there may be more to do.
    passing_over: bool,
    /// Number of leases expired since the last call of `take_expired`.
    expired: u64,
    /// Offset after the last record of `crawl.frontier` that was read.
    end: Offset,
    limit: DispatchLimit,
    live: LiveUrls,
    /// Time for which the partition has been open, in milliseconds, and time of its last tick.
    open_for_ms: Millis,
    ticked_at_ms: Millis,
    written_at_ms: Millis,
    /// Queues that are paused at a page cap, or with their crawl, by crawl and by whether they are of revisits.
    held: BTreeMap<(CrawlName, bool), VecDeque<QueueKey>>,
    site_pages: SitePageCounts,
    /// Queues of deleted crawls whose page counts are still to be removed.
    forgotten: Vec<QueueKey>,
    listed_updates: ListedUpdates,
    /// Crawls of which delayed URLs are being released.
    releases: BTreeMap<CrawlKey, Release>,
}

impl PartitionFrontier {
    /// Creates a partition from its index, to be restored from the index's checkpoint on.
    #[must_use]
    pub fn new(partition: Partition, config: FrontierConfig, index: Box<dyn Index>) -> Self {
        Self {
            owner: Owner { partition, epoch: 0, assignment: 0, next_sequence: 0 },
            end: index.position().map_or(0, |position| position.offset + 1),
            index,
            active: HashMap::default(),
            idle: Offsets::default(),
            next_wake_ms: None,
            sites: SiteQueues::new(config.default_interval_ms),
            leases: Leases::default(),
            found: HashMap::default(),
            copies: BTreeMap::new(),
            outdated: BTreeMap::new(),
            patterns: Patterns::new(patterns::PATTERN_BYTES),
            demote: 0,
            passing_over: false,
            expired: 0,
            limit: DispatchLimit::new(&config),
            live: LiveUrls::default(),
            open_for_ms: 0,
            ticked_at_ms: 0,
            written_at_ms: 0,
            held: BTreeMap::new(),
            site_pages: SitePageCounts::default(),
            forgotten: vec![],
            listed_updates: ListedUpdates::default(),
            releases: BTreeMap::new(),
            config,
        }
    }

    /// Returns the owner epoch: the offset of the partition's claim.
    pub(crate) fn epoch(&self) -> u64 {
        self.owner.epoch
    }

    /// Sets the terms of a crawl to those of its definition; `None`: it is not defined.
    pub fn set_terms(&mut self, crawl: &CrawlName, definition: Option<&CrawlDefinition>, now: Millis) {
        self.sites.set_terms(CrawlKey::of(crawl), definition.map(CrawlTerms::of), now);
    }

    /// Notes that all records of `crawl.frontier` up to this one have been passed in.
    pub fn applied(&mut self, position: IndexCheckpoint) -> Result<(), IndexError> {
        self.passed_over(position.offset);
        self.index.applied(position)
    }

    /// Notes a record that changes nothing: a claim, or one that cannot be decoded.
    pub fn passed_over(&mut self, offset: Offset) {
        self.end = self.end.max(offset + 1);
    }

    /// Writes the changes that the index keeps in memory.
    pub fn write(&mut self) -> Result<(), IndexError> {
        self.index.write()
    }

    /// Does so if the last such write is long ago.
    pub fn write_if_due(&mut self, now: Millis) -> Result<(), IndexError> {
        let every_ms = WRITE_EVERY_MS.saturating_add((self.urls() / URLS_PER_MS).cast_signed());
        if (0..every_ms).contains(&now.saturating_sub(self.written_at_ms)) {
            return Ok(());
        }
        self.written_at_ms = now;
        self.write()
    }

    /// Returns the number of queued, delayed and sleeping URLs.
    fn urls(&self) -> u64 {
        self.sites.waiting() as u64 + self.live.asleep()
    }

    /// Expires leases, releases delayed URLs, and keeps the commit point close (docs/protocol.md#re-append).
    pub fn tick(&mut self, turn: &mut DecisionContext<'_>) -> Result<(), IndexError> {
        let since_ms = turn.now.saturating_sub(std::mem::replace(&mut self.ticked_at_ms, turn.now));
        self.open_for_ms += since_ms.clamp(0, LONGEST_TICK_MS);
        self.limit.measure(turn.now, &self.config);
        self.end_copies(turn)?;
        self.wake(turn.now)?;
        self.release(turn.now)?;
        self.forget_pages(turn);
        let mut expired = 0;
        while expired < EXPIRE_BATCH
            && let Some(lease) = self.leases.pop_over(turn.now, |lease| is_current(&self.active, lease))
        {
            expired += 1;
            self.expire(&lease, turn)?;
        }
        if expired > 0 {
            self.expired += expired;
            tracing::warn!(partition = self.owner.partition, expired, "leases expired without an outcome");
        }
        self.renew(turn)?;
        self.reappend(turn)
    }

    /// Leases ready URLs, as far as page caps and the limit of outstanding dispatches allow.
    pub fn dispatch(&mut self, turn: &mut DecisionContext<'_>) -> Result<(), IndexError> {
        self.wake(turn.now)?;
        self.end_copies(turn)?;
        let mut passed_over = 0;
        let more_may_go = self.resume_after_cap(turn);
        while passed_over < PASS_OVER_BATCH {
            let mut source = Source { index: &mut *self.index, idle: &self.idle };
            let next = self.sites.next(self.limit.limit(), turn.now, &mut source)?;
            let Some(Next { site, rank, ready_ms }) = next else { break };
            let offset = rank.1;
            let waiting = self.index.waiting(offset)?;
            let fingerprint = waiting.context.fingerprint;
            let entry = IndexEntry { site, demoted: is_demoted(rank), ..IndexEntry::of(&waiting, offset, Millis::MAX) };
            if !self.sites.join(&entry, SiteKey::of(&waiting.context.site), turn.now) {
                passed_over += 1;
                continue;
            }
            if turn.pages.slack_of(&waiting.context.crawl, waiting.context.may_be_new_page()) == 0 {
                self.pause_for_cap(&waiting.context, &entry, turn.now);
                passed_over += 1;
                continue;
            }
            let Some(trail) = self.admit_dispatch(&entry, &waiting, turn)? else {
                passed_over += 1;
                continue;
            };
            self.sites.set_weight(site, turn.scopes.site_weight(&waiting.context.site));
            let id = self.owner.next_id();
            let last = waiting.failures.saturating_add(1) >= self.config.max_attempts;
            let mut dispatch = Dispatch::of(&waiting, id, last, turn.now);
            dispatch.context.trail = trail;
            dispatch.definition = turn.scopes.version(&waiting.context.crawl);
            if turn.scopes.revisit(&waiting.context.crawl).is_some() {
                dispatch.known.get_or_insert_default();
            }
            turn.out.push(Decision::Dispatch { dispatch: Box::new(dispatch), ready_ms });
            self.idle.remove(offset);
            turn.pages.add_lease(self.owner.partition, &waiting.context.crawl);
            self.active.insert(fingerprint, Active { entry, busy: ActiveState::Leased(id, waiting) });
            self.leases.add(Lease { dispatched_at_ms: turn.now, fingerprint, id });
        }
        self.passing_over = passed_over == PASS_OVER_BATCH || more_may_go;
        Ok(())
    }

    /// Returns the earliest time at which something is due, if anything is.
    #[must_use]
    pub fn next_moment_ms(&self) -> Option<Millis> {
        let is_more_due = self.passing_over || !self.releases.is_empty() || !self.forgotten.is_empty();
        let at_once = is_more_due.then_some(0);
        [at_once, self.next_wake_ms, self.sites.next_wake_ms(), self.leases.next_over_ms()].into_iter().flatten().min()
    }

    /// Returns `true` if a dispatch could be made now.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.sites.has_ready(self.limit.limit())
    }

    /// Returns the number of leases that have expired since the last call.
    pub fn take_expired(&mut self) -> u64 {
        std::mem::take(&mut self.expired)
    }

    /// Returns the numbers of updates by sitemaps and feeds since the last call.
    pub fn take_updates(&mut self) -> UpdateCounts {
        self.listed_updates.take_counts()
    }

    /// Returns the numbers of queued URLs, leases, and sites.
    #[must_use]
    pub fn load(&self) -> (usize, usize, usize) {
        (self.sites.waiting(), self.leases.outstanding(), self.sites.len())
    }

    /// Returns the number of URLs that sleep until their next visit.
    #[must_use]
    pub fn asleep(&self) -> u64 {
        self.live.asleep()
    }

    /// Returns the time at which the first delayed or sleeping URL is due.
    #[must_use]
    pub fn next_due_ms(&self) -> Option<Millis> {
        self.next_wake_ms
    }

    /// Returns the offset up to which `crawl.frontier` was read.
    #[must_use]
    pub fn read(&self) -> Offset {
        self.end
    }

    /// Returns the time since which a site has been ready for longest.
    pub(crate) fn ready_since_ms(&self) -> Option<Millis> {
        self.sites.ready_since_ms()
    }

    /// Returns the sites with the most queued URLs. A site whose URLs are all leased or delayed has no name here and
    /// may be omitted.
    pub fn busiest(&mut self, most: usize) -> Result<Vec<SiteLoad>, IndexError> {
        let mut named = vec![];
        for (site, waiting, low) in self.sites.busiest(most) {
            if let Some((_, offset)) = self.index.queued(&[(site, low)], 1)?.iter().flatten().next() {
                let site = self.index.waiting(*offset)?.context.site;
                named.push(SiteLoad { site, waiting: waiting.into() });
            }
        }
        Ok(named)
    }

    /// Returns the time for which the partition has been open, in milliseconds; suspensions and steps of the clock do not
    /// count.
    pub(crate) fn open_for_ms(&self) -> Millis {
        self.open_for_ms
    }

    /// Returns the live URLs of a crawl, and the offset up to which `crawl.frontier` was read.
    #[must_use]
    pub fn live(&self, crawl: CrawlKey) -> (Live, Offset) {
        (self.live.of(crawl), self.end)
    }

    /// Passes the live URLs of each crawl for which their number has changed to `report`, again until it returns `true`.
    pub fn report_live(&mut self, report: impl FnMut(CrawlKey, Live) -> bool) {
        self.live.report(report);
    }

    /// Replaces the entry and the record of a URL in the index, or removes them.
    fn replace(&mut self, fingerprint: Fingerprint, old: Option<IndexEntry>, new: Option<(IndexEntry, &FrontierUrl)>) {
        self.live.replace(old.as_ref(), new.as_ref().map(|(entry, _)| entry), self.end);
        self.index.replace(fingerprint, old, new);
    }

    /// Counts a URL in the queue of its new entry instead of that of its old one. URLs that sleep are in none, so that
    /// memory follows the sites that may be requested.
    fn recount(&mut self, old: Option<&IndexEntry>, new: Option<&IndexEntry>, now: Millis) {
        if let Some(new) = new.filter(|new| !new.asleep) {
            self.sites.admit(new);
        }
        if let Some(old) = old.filter(|old| !old.asleep) {
            self.sites.remove_url(old.site, now);
        }
    }

    /// Makes a URL idle: available in its site's queue, or delayed until its time.
    fn make_idle(&mut self, entry: &IndexEntry, now: Millis) {
        self.idle.insert(entry.offset);
        if entry.is_delayed() {
            self.next_wake_ms = Some(self.next_wake_ms.map_or(entry.not_before_ms, |at| at.min(entry.not_before_ms)));
        } else {
            self.sites.enqueue(entry.site, entry.rank(), now);
        }
    }

    /// Ends the idle state of a URL. It may still count as queued.
    fn end_idle(&mut self, entry: &IndexEntry) {
        self.idle.remove(entry.offset);
        if !entry.is_delayed() {
            self.sites.withdraw(entry);
        }
    }

    fn wake(&mut self, now: Millis) -> Result<(), IndexError> {
        if self.next_wake_ms.is_some_and(|at| at <= now) {
            let due = self.index.delayed(None, now, WAKE_BATCH)?;
            for (fingerprint, entry) in &due {
                self.make_due(*fingerprint, *entry, now);
            }
            self.next_wake_ms = if due.len() == WAKE_BATCH {
                Some(now)
            } else {
                self.index.delayed(None, Millis::MAX, 1)?.first().map(|(_, entry)| entry.not_before_ms)
            };
        }
        self.sites.wake(now);
        Ok(())
    }

    /// Re-appends records that are outdated in the log, those of leased URLs too: their leases may last longer than
    /// this owner. URLs that are being written are retried later.
    fn renew(&mut self, turn: &mut DecisionContext<'_>) -> Result<(), IndexError> {
        for (fingerprint, held) in std::mem::take(&mut self.outdated) {
            let completes: Vec<Origin> = held.map(|offset| self.owner.origin(offset)).into_iter().collect();
            if let Some(Active { entry, busy }) = self.active.get(&fingerprint) {
                let ActiveState::Leased(_, leased) = busy else {
                    self.outdated.insert(fingerprint, held);
                    continue;
                };
                let (entry, leased) = (*entry, leased.clone());
                let waiting = self.as_found(&entry, leased)?;
                turn.out.push(Decision::Rewrite { waiting, completes });
            } else if let Some(entry) = self.index.entry(fingerprint)? {
                let waiting = self.index.waiting(entry.offset)?;
                self.end_idle(&entry);
                self.rewrite(entry, waiting, completes, turn);
            } else {
                turn.out.extend(completes.into_iter().map(Decision::Complete));
            }
        }
        Ok(())
    }

    /// Returns the queued record of a leased URL: it may have been discovered at a lesser depth since it was leased as
    /// `leased`.
    fn as_found(&mut self, entry: &IndexEntry, leased: Box<FrontierUrl>) -> Result<Box<FrontierUrl>, IndexError> {
        if entry.depth >= leased.context.depth {
            return Ok(leased);
        }
        Ok(Box::new(at_the_depth_of(*self.index.waiting(entry.offset)?, &leased)))
    }

    /// Re-appends the lowest queued records if they hold the commit point far below the log end
    /// (docs/protocol.md#re-append).
    fn reappend(&mut self, turn: &mut DecisionContext<'_>) -> Result<(), IndexError> {
        let tolerated = self.config.reappend_above.max(4 * self.urls());
        // Only records below that offset: otherwise a lease on the lowest record would cause all others to be rewritten
        // repeatedly.
        let Some(behind) = self.end.checked_sub(tolerated) else { return Ok(()) };
        for offset in self.idle.lowest_below(behind, REAPPEND_BATCH) {
            let waiting = self.index.waiting(offset)?;
            if let Some(entry) = self.index.entry(waiting.context.fingerprint)? {
                self.end_idle(&entry);
                self.rewrite(entry, waiting, vec![], turn);
            }
        }
        Ok(())
    }
}

fn is_current(active: &HashMap<Fingerprint, Active>, lease: &Lease) -> bool {
    matches!(active.get(&lease.fingerprint), Some(Active { busy: ActiveState::Leased(id, _), .. }) if *id == lease.id)
}
