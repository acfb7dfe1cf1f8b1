//! The end of dispatches: with an outcome, or without one.

use orbweaver_messages::{Dispatch, FrontierUrl, Millis, Outcome, OutcomeKind, STUCK};
use orbweaver_stage::Origin;
use orbweaver_url::Fingerprint;

use super::{Active, ActiveState, Ending, PartitionFrontier, Rewriting};
use crate::{
    decision::{Decision, DecisionContext},
    index::{IndexEntry, IndexError, QueueKey},
    leases::{LOST_DISPATCHES, Lease},
    pages::Counted,
    revisit::Change,
    site_slots::SiteKey,
    site_weight::score,
};

/// Maximum pause after a deferral that is measured from the local time instead of the rate-limiter's, in milliseconds.
const DEFERRED_AT_LEAST_MS: Millis = 1_000;

impl PartitionFrontier {
    /// Handles the outcome of a dispatch.
    pub fn outcome(
        &mut self,
        origin: Origin,
        outcome: &Outcome,
        turn: &mut DecisionContext<'_>,
    ) -> Result<(), IndexError> {
        self.limit.count();
        turn.pages.outcome(self.owner.partition, origin.offset, Counted::of(outcome));
        if let Some(delay) = outcome.crawl_delay_ms {
            self.sites.learn_delay(QueueKey::of(&outcome.context), delay);
        }
        if let Some(score) = score(outcome) {
            self.sites.learn_score(QueueKey::of(&outcome.context), score);
        }
        let fingerprint = outcome.context.fingerprint;
        let (leased, is_outdated) = match self.active.get(&fingerprint) {
            Some(Active { entry, busy: ActiveState::Leased(id, waiting) }) => {
                let of_another_visit = waiting.context.visit != outcome.context.visit;
                (Some(*id), entry.depth < outcome.context.depth || of_another_visit)
            }
            _ => (None, false),
        };
        // Also for an outcome of an earlier dispatch.
        if leased.is_some() && is_a_fetchers(outcome) {
            self.leases.answer(outcome.id, fingerprint);
        }
        // docs/protocol.md#attempts: a terminal outcome of the visit counts regardless of its id, any other only if its
        // attempt is current. A terminal outcome of a greater depth must be current too, since the lease may be for the
        // lesser depth.
        if leased != Some(outcome.id) && (!outcome.kind.is_terminal() || is_outdated) {
            turn.out.push(Decision::Complete(origin));
            return Ok(());
        }
        match self.active.remove(&fingerprint) {
            Some(Active { entry, busy: ActiveState::Leased(_, mut waiting) }) => {
                let requested = outcome.requested_at_ms.is_some();
                let round_trip_ms = outcome.ended_at_ms.saturating_sub(outcome.dispatched_at_ms);
                let is_answered = self.end_lease((&entry, &waiting), requested.then_some(round_trip_ms), turn);
                let resets = is_answered && waiting.lost > 0;
                if resets {
                    waiting.lost = 0;
                }
                let waiting = self.as_found(&entry, waiting)?;
                self.ended(origin, (entry, waiting, resets), outcome, turn);
            }
            Some(mut active) => {
                match &mut active.busy {
                    // The new record is being written; the tombstone, or the record of the next visit, must follow it.
                    ActiveState::Rewriting(rewriting) if rewriting.visit == outcome.context.visit => {
                        let ending = Ending::of(outcome);
                        self.count_page(&outcome.context, &ending, origin);
                        rewriting.ended.push((origin, ending));
                    }
                    _ => turn.out.push(Decision::Complete(origin)),
                }
                self.active.insert(fingerprint, active);
            }
            None => {
                if !self.end_queued(fingerprint, &Ending::of(outcome), Some(origin), turn)? {
                    turn.out.push(Decision::Complete(origin));
                }
            }
        }
        Ok(())
    }

    /// Ends an idle URL; `outcome` completes with it. Returns `false` if there is none, or if the URL was discovered
    /// again at a lesser depth since the dispatch that has ended.
    fn end_queued(
        &mut self,
        fingerprint: Fingerprint,
        ending: &Ending,
        outcome: Option<Origin>,
        turn: &mut DecisionContext<'_>,
    ) -> Result<bool, IndexError> {
        let entry = self.index.entry(fingerprint)?.filter(|entry| entry.depth >= ending.depth);
        let Some(entry) = entry else { return Ok(false) };
        let waiting = self.index.waiting(entry.offset)?;
        if waiting.context.visit != ending.visit.number {
            return Ok(false);
        }
        self.end_idle(&entry);
        if let Some(origin) = outcome {
            self.count_page(&waiting.context, ending, origin);
        }
        self.end_visit(outcome.into_iter().collect(), ending, (entry, &waiting), turn);
        Ok(true)
    }

    /// Applies an outcome to a URL whose lease it has ended. `resets`: its record has a count of lost dispatches, which
    /// begins again.
    fn ended(
        &mut self,
        origin: Origin,
        (entry, mut waiting, resets): (IndexEntry, Box<FrontierUrl>, bool),
        outcome: &Outcome,
        turn: &mut DecisionContext<'_>,
    ) {
        // docs/protocol.md#attempts: only a request that was made counts.
        let made = u8::from(outcome.requested_at_ms.is_some());
        // The URLs of a stopped crawl end when they are dispatched next: nothing delays that.
        let is_stopped = turn.scopes.is_stopped(&outcome.context.crawl);
        let delayed = |until_ms: Option<Millis>| until_ms.filter(|_| !is_stopped).unwrap_or(turn.now);
        match outcome.kind {
            OutcomeKind::Deferred => {
                let retry_at_ms = delayed(outcome.retry_at_ms);
                // If the rate-limiter's clock is behind the local one, that time has passed already, and the deferral
                // would be repeated immediately.
                let rest_ms = retry_at_ms.saturating_sub(outcome.ended_at_ms).clamp(0, DEFERRED_AT_LEAST_MS);
                self.sites.defer(&entry, retry_at_ms.max(turn.now.saturating_add(rest_ms)));
                if resets {
                    self.rewrite(entry, waiting, vec![origin], turn);
                } else {
                    self.make_idle(&entry, turn.now);
                    turn.out.push(Decision::Complete(origin));
                }
            }
            OutcomeKind::Retry => {
                waiting.failures = waiting.failures.saturating_add(made);
                waiting.not_before_ms = delayed(outcome.retry_at_ms);
                self.rewrite(entry, waiting, vec![origin], turn);
            }
            OutcomeKind::Blocked => {
                waiting.blocks = waiting.blocks.saturating_add(made);
                waiting.not_before_ms = delayed(outcome.blocked_until_ms);
                self.sites.pause(entry.site, waiting.not_before_ms);
                self.rewrite(entry, waiting, vec![origin], turn);
            }
            // The URL was discovered again at a lesser depth, where its links may count: it is requested again, with
            // all of its attempts. The new record keeps the time of its row, which a fast clock may have set ahead of
            // the next one (docs/protocol.md#event-times).
            _ if entry.depth < outcome.context.depth => {
                (waiting.failures, waiting.blocks, waiting.lost) = (0, 0, 0);
                waiting.written_at_ms = waiting.written_at_ms.max(outcome.event_ms());
                self.rewrite(entry, waiting, vec![origin], turn);
            }
            OutcomeKind::Fetched
            | OutcomeKind::Unchanged
            | OutcomeKind::Redirected
            | OutcomeKind::Refused
            | OutcomeKind::Gone => {
                let ending = Ending::of(outcome);
                self.count_page(&waiting.context, &ending, origin);
                self.end_visit(vec![origin], &ending, (entry, &waiting), turn);
            }
        }
    }

    /// Ends the copies of URLs that have ended, found at the opening.
    pub(super) fn end_copies(&mut self, turn: &mut DecisionContext<'_>) -> Result<(), IndexError> {
        for (fingerprint, ending) in std::mem::take(&mut self.copies) {
            if !self.active.contains_key(&fingerprint) {
                self.end_queued(fingerprint, &ending, None, turn)?;
            }
        }
        Ok(())
    }

    /// Ends the visit to a URL, with this entry and record; `completes` complete with it. In a crawl with revisits, a URL
    /// that is a page sleeps until the next one; otherwise it has ended, and leaves the index when its tombstone is read
    /// back.
    pub(super) fn end_visit(
        &mut self,
        mut completes: Vec<Origin>,
        ending: &Ending,
        (entry, waiting): (IndexEntry, &FrontierUrl),
        turn: &mut DecisionContext<'_>,
    ) {
        let Ending { depth, event_ms, visit, .. } = ending;
        let fingerprint = waiting.context.fingerprint;
        let written_at_ms = waiting.written_at_ms.max(*event_ms);
        turn.out.extend(self.page_count(&waiting.context, ending).map(Decision::CountPages));
        completes.push(self.owner.origin(entry.offset));
        let scopes = turn.scopes;
        let policy = scopes.revisit(&waiting.context.crawl).filter(|_| waiting.context.sighting.is_page());
        if policy.is_some() || waiting.visits.is_some() {
            let change = Change::of(waiting, visit);
            if change.is_listed(waiting) {
                self.listed_updates.learn(SiteKey::of(&waiting.context.site), change.is_new_text());
            }
            turn.out.extend(change.page_change(waiting).map(|change| Decision::Change(Box::new(change))));
            if let Some(policy) = policy {
                let waiting = Box::new(FrontierUrl { written_at_ms, ..change.next_visit(policy, waiting, turn.now) });
                let busy = ActiveState::Rewriting(Rewriting::of(&waiting));
                self.active.insert(fingerprint, Active { entry, busy });
                turn.out.push(Decision::Rewrite { waiting, completes });
                return;
            }
        }
        let busy = ActiveState::Ended(entry.offset, *depth, written_at_ms);
        self.active.insert(fingerprint, Active { entry, busy });
        self.recount(Some(&entry), None, turn.now);
        turn.out.push(Decision::End { fingerprint, depth: *depth, ends: entry.offset, completes });
    }

    /// Handles an expired lease: its URL is queued with the same number of attempts (docs/protocol.md#attempts), unless
    /// it is stuck. A lost dispatch is counted in the record of the URL, which survives this process.
    pub(super) fn expire(&mut self, lease: &Lease, turn: &mut DecisionContext<'_>) -> Result<(), IndexError> {
        let Some(Active { entry, busy }) = self.active.remove(&lease.fingerprint) else { return Ok(()) };
        let ActiveState::Leased(_, waiting) = busy else {
            self.active.insert(lease.fingerprint, Active { entry, busy });
            return Ok(());
        };
        let is_answered = self.end_lease((&entry, &waiting), None, turn);
        let is_lost = self.leases.is_lost(lease);
        let before = if is_answered { 0 } else { waiting.lost };
        let lost = before.saturating_add(u8::from(is_lost));
        if lost == waiting.lost {
            self.make_idle(&entry, turn.now);
            return Ok(());
        }
        let mut waiting = self.as_found(&entry, waiting)?;
        waiting.lost = lost;
        if is_lost && lost >= LOST_DISPATCHES {
            self.abandon(entry, waiting, turn);
        } else {
            self.rewrite(entry, waiting, vec![], turn);
        }
        Ok(())
    }

    /// Ends a stuck URL, whose dispatches never have an outcome. If it stayed parked, it would hold the commit point,
    /// and with it completion, indefinitely. It therefore ends with the outcome `gone: stuck`, and its record is kept
    /// for a replay.
    fn abandon(&mut self, entry: IndexEntry, mut waiting: Box<FrontierUrl>, turn: &mut DecisionContext<'_>) {
        // A replayed URL begins with no lost dispatches.
        waiting.lost = 0;
        let fingerprint = waiting.context.fingerprint;
        let dispatch = Dispatch::of(&waiting, self.owner.next_id(), false, turn.now);
        let outcome = Box::new(Outcome::of(&dispatch, OutcomeKind::Gone, Some(STUCK), turn.now));
        let reason = format!(
            "{STUCK}: {LOST_DISPATCHES} dispatches had no outcome, while later dispatches of other URLs had one"
        );
        tracing::error!(
            partition = self.owner.partition,
            url = waiting.context.url,
            reason,
            "stuck URL abandoned and sent to the dead letters"
        );
        let busy = ActiveState::Ended(entry.offset, waiting.context.depth, waiting.written_at_ms);
        self.active.insert(fingerprint, Active { entry, busy });
        self.sites.remove_url(entry.site, turn.now);
        let origin = self.owner.origin(entry.offset);
        turn.out.push(Decision::Abandon { outcome, waiting, origin, reason });
    }

    /// Releases the lease on a URL, `round_trip_ms` after the dispatch was made, if known. Returns `true` if a fetcher
    /// answered this dispatch of the URL or an earlier one meanwhile.
    pub(super) fn end_lease(
        &mut self,
        (entry, waiting): (&IndexEntry, &FrontierUrl),
        round_trip_ms: Option<Millis>,
        turn: &mut DecisionContext<'_>,
    ) -> bool {
        // The URL may have been discovered again since, for another queue.
        let leased = IndexEntry { site: QueueKey::of(&waiting.context), ..*entry };
        self.sites.end(&leased, round_trip_ms, turn.now);
        turn.pages.remove_lease(self.owner.partition, &waiting.context.crawl);
        self.leases.end(waiting.context.fingerprint)
    }
}

/// Returns `true` if a fetcher wrote this outcome: those of rate-limiters and frontiers do not prove that dispatches
/// reach the fetchers. A deferral without a request proves nothing, even if a fetcher wrote it: one that returns from a
/// crash within a minute defers the dispatch of the crash as late (docs/adr/0022-what-costs-an-attempt.md).
pub(super) fn is_a_fetchers(outcome: &Outcome) -> bool {
    outcome.requested_at_ms.is_some() || outcome.kind == OutcomeKind::Refused
}
