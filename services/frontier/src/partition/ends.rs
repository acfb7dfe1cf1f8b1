//! How dispatches end: by an outcome, or without one.

use orbweaver_messages::{DispatchId, Millis, Outcome, OutcomeKind, Waiting};
use orbweaver_stage::Origin;
use orbweaver_url::Fingerprint;

use super::{Active, Busy, PartitionFrontier, dispatched};
use crate::{
    decision::{Decision, Turn, gave_up},
    index::{IndexError, Place, SiteId},
    leases::Lease,
};

/// A deferred dispatch is made again no sooner than the rate-limiter meant to wait, of which so much counts, in milliseconds.
const DEFERRED_AT_LEAST_MS: Millis = 1_000;

impl PartitionFrontier {
    /// How a dispatch ended.
    ///
    /// # Errors
    /// When the index fails.
    pub fn outcome(&mut self, origin: Origin, outcome: &Outcome, turn: &mut Turn<'_>) -> Result<(), IndexError> {
        self.outcomes_since_tick += 1;
        let page_of = (outcome.kind == OutcomeKind::Fetched).then_some(&*outcome.crawl);
        turn.pages.outcome(self.partition, origin.offset, page_of);
        if let Some(delay) = outcome.crawl_delay_ms {
            self.sites.learn_delay(SiteId::of(&outcome.crawl, &outcome.site), delay);
        }
        let fingerprint = outcome.fingerprint;
        let (leased, has_lesser) = match self.active.get(&fingerprint) {
            Some(Active { place, busy: Busy::Leased(id, _) }) => (Some(*id), place.depth < outcome.depth),
            _ => (None, false),
        };
        // Rule 16: a terminal outcome counts whatever its id, another only if its attempt is current; so does one of a greater
        // depth, since the lease may be for the lesser.
        if leased != Some(outcome.id) && (!outcome.kind.is_terminal() || has_lesser) {
            turn.out.push(Decision::Complete(origin));
            return Ok(());
        }
        match self.active.remove(&fingerprint) {
            Some(Active { place, busy: Busy::Leased(id, waiting) }) => {
                self.answered(id, &place, outcome, turn);
                let waiting = self.as_found(&place, waiting)?;
                self.ended(origin, (place, waiting), outcome, turn);
            }
            Some(mut active) => {
                match &mut active.busy {
                    // Its new record is on its way; the tombstone must come behind it.
                    Busy::Rewriting(outcomes) => outcomes.push((origin, outcome.depth)),
                    Busy::Ended(..) | Busy::Leased(..) => turn.out.push(Decision::Complete(origin)),
                }
                self.active.insert(fingerprint, active);
            }
            None => match self.index.place(fingerprint)? {
                Some(place) if place.depth >= outcome.depth => {
                    self.lift(&place);
                    self.end((fingerprint, outcome.depth), place, origin, turn);
                }
                // Of a dispatch at a greater depth: it was found again since.
                Some(_) | None => turn.out.push(Decision::Complete(origin)),
            },
        }
        Ok(())
    }

    /// The lease on a URL ended with an outcome.
    fn answered(&mut self, id: DispatchId, place: &Place, outcome: &Outcome, turn: &mut Turn<'_>) {
        self.leases.end(id, true);
        let asked = outcome.requested_at_ms.is_some();
        self.sites.end(place.site, asked.then_some(outcome.ended_at_ms - outcome.dispatched_at_ms), turn.now);
        turn.pages.release(self.partition, &outcome.crawl);
    }

    fn ended(
        &mut self,
        origin: Origin,
        (place, mut waiting): (Place, Box<Waiting>),
        outcome: &Outcome,
        turn: &mut Turn<'_>,
    ) {
        match outcome.kind {
            OutcomeKind::Deferred => {
                let retry_at_ms = outcome.retry_at_ms.unwrap_or(turn.now);
                // By a clock behind ours that moment is over already, and the same would come back again and again.
                let rest_ms = retry_at_ms.saturating_sub(outcome.ended_at_ms).clamp(0, DEFERRED_AT_LEAST_MS);
                self.sites.pause(place.site, retry_at_ms.max(turn.now.saturating_add(rest_ms)));
                self.lay(&place, turn.now);
                turn.out.push(Decision::Complete(origin));
            }
            OutcomeKind::Retry => {
                waiting.failures = waiting.failures.saturating_add(1);
                waiting.not_before_ms = outcome.retry_at_ms.unwrap_or(turn.now);
                self.rewrite(place, waiting, vec![origin], turn);
            }
            OutcomeKind::Blocked => {
                waiting.blocks = waiting.blocks.saturating_add(1);
                waiting.not_before_ms = outcome.blocked_until_ms.unwrap_or(turn.now);
                self.sites.pause(place.site, waiting.not_before_ms);
                self.rewrite(place, waiting, vec![origin], turn);
            }
            // It was found again at a lesser depth, where its links may count: it is asked for again.
            _ if place.depth < outcome.depth => {
                self.lay(&place, turn.now);
                turn.out.push(Decision::Complete(origin));
            }
            OutcomeKind::Fetched
            | OutcomeKind::Unchanged
            | OutcomeKind::Redirected
            | OutcomeKind::Refused
            | OutcomeKind::Gone => self.end((outcome.fingerprint, outcome.depth), place, origin, turn),
        }
    }

    /// A URL has ended. It leaves the index when its tombstone is read back.
    fn end(&mut self, (fingerprint, depth): (Fingerprint, u16), place: Place, outcome: Origin, turn: &mut Turn<'_>) {
        self.active.insert(fingerprint, Active { place, busy: Busy::Ended(place.offset, depth) });
        self.sites.dismiss(place.site, turn.now);
        turn.out.push(Decision::End { fingerprint, depth, completes: vec![outcome, self.origin(place.offset)] });
    }

    /// A lease ended without an outcome. It counts as an attempt only if the way was open (rule 16).
    pub(super) fn expire(&mut self, lease: Lease, turn: &mut Turn<'_>) -> Result<(), IndexError> {
        let overtaken = self.leases.overtaken(lease.id);
        let Some(Active { place, busy }) = self.active.remove(&lease.fingerprint) else { return Ok(()) };
        let Busy::Leased(id, waiting) = busy else {
            self.active.insert(lease.fingerprint, Active { place, busy });
            return Ok(());
        };
        if overtaken && waiting.failures.saturating_add(1) >= self.config.max_attempts {
            let dispatch = dispatched(&waiting, lease.id, true, lease.dispatched_at_ms);
            turn.out.push(Decision::GiveUp(Box::new(gave_up(dispatch, turn.now))));
            // It comes back as a terminal outcome; until then the lease stays.
            self.active.insert(lease.fingerprint, Active { place, busy: Busy::Leased(id, waiting) });
            self.leases.renew(Lease { dispatched_at_ms: turn.now, ..lease });
            return Ok(());
        }
        self.release(id, (&place, &waiting.crawl), turn);
        if overtaken {
            let mut waiting = self.as_found(&place, waiting)?;
            waiting.failures += 1;
            self.rewrite(place, waiting, vec![], turn);
        } else {
            self.lay(&place, turn.now);
        }
        Ok(())
    }

    /// Takes the lease off a URL without an outcome.
    pub(super) fn release(&mut self, id: DispatchId, (place, crawl): (&Place, &str), turn: &mut Turn<'_>) {
        self.leases.end(id, false);
        self.sites.end(place.site, None, turn.now);
        turn.pages.release(self.partition, crawl);
    }
}
