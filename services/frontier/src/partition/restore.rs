//! Restore and opening of a partition.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashSet},
    ops::Range,
};

use orbweaver_log::Offset;
use orbweaver_messages::{Dispatch, FrontierUrl, LEASE_MS, Millis, Outcome, OutcomeKind, UrlContext};
use orbweaver_stage::PartitionContext;
use orbweaver_url::Fingerprint;

use super::{
    Active, ActiveState, Ending, FoundLease, PartitionFrontier, WAKE_BATCH,
    merge::{merged, unknown},
    outcomes::is_a_fetchers,
};
use crate::{
    decision::Tombstone,
    index::{IndexEntry, IndexError, QueueKey},
    leases::Lease,
    pages::PageCaps,
};

impl PartitionFrontier {
    /// Replays a record of `crawl.frontier` that queues a URL.
    pub fn restore_record(&mut self, offset: Offset, waiting: &FrontierUrl) -> Result<(), IndexError> {
        self.end = self.end.max(offset + 1);
        let fingerprint = waiting.context.fingerprint;
        let old = self.index.entry(fingerprint)?;
        let queued = match old {
            Some(old) => merged(&*self.index.waiting(old.offset)?, waiting),
            None => unknown(waiting),
        };
        // A URL with an earliest request time is delayed even if that time has passed; due URLs are queued when the
        // partition opens.
        self.index.replace(fingerprint, old, Some((IndexEntry::of(&queued, offset, 0), &*queued)));
        let is_last = old.is_none() || matches!(queued, Cow::Borrowed(_));
        self.index.mark(fingerprint, old.filter(|_| !is_last).map(|old| old.offset));
        Ok(())
    }

    /// Replays a tombstone of `crawl.frontier`. Only its content decides whether it applies: the records that it
    /// replaced may have been compacted away.
    pub fn restore_tombstone(
        &mut self,
        offset: Offset,
        fingerprint: Fingerprint,
        Tombstone { ends, depth, .. }: Tombstone,
    ) -> Result<(), IndexError> {
        self.end = self.end.max(offset + 1);
        let Some(old) = self.index.entry(fingerprint)? else { return Ok(()) };
        if old.offset > ends || old.depth < depth {
            self.index.mark(fingerprint, Some(old.offset));
        } else {
            self.index.replace(fingerprint, Some(old), None);
            self.index.mark(fingerprint, None);
        }
        Ok(())
    }

    /// Replays a dispatch of `crawl.scheduled`.
    pub fn restore_dispatch(&mut self, dispatch: &Dispatch) -> Result<(), IndexError> {
        let Dispatch { id, dispatched_at_ms, .. } = *dispatch;
        let fingerprint = dispatch.context.fingerprint;
        // Not current if a newer attempt is queued. The queued record may have fewer attempts: a copy of the URL that
        // was admitted again.
        let current = |entry: &IndexEntry| entry.failures < dispatch.attempt && entry.blocks <= dispatch.blocks;
        let Some(entry) = self.index.entry(fingerprint)?.filter(current) else { return Ok(()) };
        if self.is_of_visit(&entry, &dispatch.context)? {
            let lease = Lease { dispatched_at_ms, fingerprint, id };
            self.found.insert(fingerprint, FoundLease { lease, outcome: None });
        }
        Ok(())
    }

    /// Returns `true` if the queued record of a URL is of the visit of this context.
    fn is_of_visit(&mut self, entry: &IndexEntry, context: &UrlContext) -> Result<bool, IndexError> {
        // Most URLs are visited for the first time, which their queue shows.
        let is_first = context.visit == 0 && entry.site == QueueKey::of(context);
        Ok(is_first || self.index.waiting(entry.offset)?.context.visit == context.visit)
    }

    /// Replays an outcome of `crawl.outcomes`: its dispatch is no longer in flight. If the outcome was not applied and
    /// will be received, the lease remains until then, because an outcome without a lease would have no effect.
    pub fn restore_outcome(&mut self, offset: Offset, outcome: &Outcome) -> Result<(), IndexError> {
        // A dispatch has reached the fetchers. A refusal may be the frontier's own; the highest ID belongs to no
        // dispatch.
        if outcome.requested_at_ms.is_some() && outcome.id.epoch < u64::MAX {
            self.leases.reach(outcome.id);
        }
        let fingerprint = outcome.context.fingerprint;
        let Some(found) = self.found.get_mut(&fingerprint).filter(|found| found.lease.id == outcome.id) else {
            return Ok(());
        };
        let Some(entry) = self.index.entry(fingerprint)? else { return Ok(()) };
        if is_applied(outcome, &*self.index.waiting(entry.offset)?) {
            self.found.remove(&fingerprint);
        } else {
            found.outcome = Some((offset, outcome.kind.is_terminal().then(|| Ending::of(outcome))));
        }
        Ok(())
    }

    /// Opens the partition, which `pages` already counts as open.
    pub fn open(&mut self, opening: PartitionContext, now: Millis, pages: &mut PageCaps) -> Result<(), IndexError> {
        let PartitionContext { owner_epoch: claim, commits, assignment_epoch: assignment, .. } = opening;
        let [commit, outcomes_commit, _] = commits;
        self.owner.epoch = claim;
        self.owner.assignment = assignment;
        let read_to = self.end;
        // The claim itself is never passed in.
        self.end = self.end.max(claim.saturating_add(1));
        self.ticked_at_ms = now;
        self.limit.start(now);
        self.queue_what_is_due(now)?;
        let leased = self.lease_what_was_found([commit, outcomes_commit], now, pages)?;
        self.live.open(self.end);
        let Self { index, sites, idle, live, .. } = self;
        let (mut next_wake_ms, mut ended) = (None::<Millis>, vec![]);
        index.each(&mut |entry| {
            if entry.offset < commit {
                ended.push(entry.offset);
                return;
            }
            live.count(&entry);
            if !entry.asleep {
                sites.admit(&entry);
            }
            if leased.contains(&entry.offset) {
                sites.count_in_flight(&entry);
                return;
            }
            idle.insert(entry.offset);
            if entry.is_delayed() {
                next_wake_ms = Some(next_wake_ms.map_or(entry.not_before_ms, |at| at.min(entry.not_before_ms)));
            } else {
                sites.count_queued(&entry, now);
            }
        })?;
        self.next_wake_ms = next_wake_ms;
        self.forget(&ended)?;
        self.hold_back_outdated(commit..read_to)
    }

    /// Removes URLs below the commit point from the index: they have ended, and their tombstones were compacted away
    /// before this index read them.
    fn forget(&mut self, ended: &[Offset]) -> Result<(), IndexError> {
        if !ended.is_empty() {
            let (partition, urls) = (self.owner.partition, ended.len());
            tracing::warn!(partition, urls, "removed URLs whose tombstones were compacted away unread");
        }
        for offset in ended {
            let fingerprint = self.index.waiting(*offset)?.context.fingerprint;
            let entry = self.index.entry(fingerprint)?;
            self.index.replace(fingerprint, entry, None);
            self.index.mark(fingerprint, None);
        }
        Ok(())
    }

    /// Determines the URLs to be re-appended. The record from which such a URL can be restored stays incomplete until
    /// then, even if a later one is the queued one: from a later commit point, the next owner would not read it.
    fn hold_back_outdated(&mut self, restored: Range<Offset>) -> Result<(), IndexError> {
        for (fingerprint, since) in self.index.outdated().clone() {
            let Some(offset) = self.index.offset(fingerprint)? else {
                self.index.mark(fingerprint, None);
                continue;
            };
            let held = Some(since).filter(|since| *since != offset && restored.contains(since));
            self.outdated.insert(fingerprint, held);
        }
        Ok(())
    }

    /// Returns the incomplete offsets, in ascending order. Call it right after [`PartitionFrontier::open`], when every
    /// URL is idle or leased.
    pub fn incomplete(&self) -> impl Iterator<Item = Offset> + '_ {
        let leased = self.active.values().map(|active| active.entry.offset);
        let others: BTreeSet<Offset> = leased.chain(self.outdated.values().flatten().copied()).collect();
        let (mut others, mut idle) = (others.into_iter().peekable(), self.idle.iter().peekable());
        std::iter::from_fn(move || match (others.peek(), idle.peek()) {
            (Some(first), Some(second)) if first < second => others.next(),
            (_, Some(_)) => idle.next(),
            (_, None) => others.next(),
        })
    }

    fn queue_what_is_due(&mut self, now: Millis) -> Result<(), IndexError> {
        loop {
            let due = self.index.delayed(None, now, WAKE_BATCH)?;
            due.iter().for_each(|(fingerprint, entry)| self.index.make_due(*fingerprint, *entry));
            if due.len() < WAKE_BATCH {
                return Ok(());
            }
        }
    }

    /// Restores the leases that were found, without those whose outcome is complete: it will not be received again, and
    /// everything that it caused is in the log. Returns the offsets of the leased URLs.
    fn lease_what_was_found(
        &mut self,
        [commit, outcomes_commit]: [Offset; 2],
        now: Millis,
        pages: &mut PageCaps,
    ) -> Result<HashSet<Offset>, IndexError> {
        let mut found: Vec<Lease> = vec![];
        for (fingerprint, FoundLease { lease, outcome }) in std::mem::take(&mut self.found) {
            match outcome {
                Some((offset, ending)) if offset < outcomes_commit => {
                    self.copies.extend(ending.map(|ending| (fingerprint, ending)));
                }
                _ => found.push(lease),
            }
        }
        found.retain(|lease| now < lease.dispatched_at_ms.saturating_add(LEASE_MS));
        found.sort_by_key(|lease| (lease.dispatched_at_ms, lease.id));
        let mut leased = HashSet::with_capacity(found.len());
        for Lease { id, fingerprint, dispatched_at_ms } in found {
            let Some(mut entry) = self.index.entry(fingerprint)?.filter(|entry| entry.offset >= commit) else {
                continue;
            };
            if entry.is_delayed() {
                // The URL was due when it was dispatched.
                self.index.make_due(fingerprint, entry);
                entry = entry.queued();
            }
            let waiting = self.index.waiting(entry.offset)?;
            leased.insert(entry.offset);
            pages.add_lease(self.owner.partition, &waiting.context.crawl);
            self.active.insert(fingerprint, Active { entry, busy: ActiveState::Leased(id, waiting) });
            // A dispatch from a clock ahead of the local one counts as made now.
            self.leases.add(Lease { dispatched_at_ms: dispatched_at_ms.min(now), fingerprint, id });
        }
        Ok(leased)
    }
}

/// Returns `true` if the queued record of a URL shows that this outcome, of the URL's current dispatch, was applied
/// (docs/protocol.md#effect-order), or if the outcome leads to no record.
fn is_applied(outcome: &Outcome, queued: &FrontierUrl) -> bool {
    // A counted attempt is in the record's number of attempts, so that its dispatch would not be current.
    let was_asked = outcome.requested_at_ms.is_some();
    let is_delayed_to = |at_ms: Option<Millis>| !was_asked && at_ms == Some(queued.not_before_ms);
    match outcome.kind {
        // A deferral that resets the count of lost dispatches leads to a record without it.
        OutcomeKind::Deferred => queued.lost == 0 || !is_a_fetchers(outcome),
        OutcomeKind::Retry => is_delayed_to(outcome.retry_at_ms),
        OutcomeKind::Blocked => is_delayed_to(outcome.blocked_until_ms),
        // The URL is queued again only if it was discovered at a lesser depth. Its record then has the time of the row
        // (docs/protocol.md#event-times).
        OutcomeKind::Fetched
        | OutcomeKind::Unchanged
        | OutcomeKind::Redirected
        | OutcomeKind::Refused
        | OutcomeKind::Gone => {
            // The URL sleeps until the next visit, or is queued for it.
            queued.context.visit > outcome.context.visit
                || queued.context.depth < outcome.context.depth && queued.written_at_ms >= outcome.event_ms()
        }
    }
}
