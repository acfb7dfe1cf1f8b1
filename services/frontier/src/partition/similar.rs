//! Similar URLs: their demotion, and the refusal of traps.
//!
//! The state of patterns is an index that may be lost: a demoted URL may be in its old place after a restart, until it
//! is ready and is judged again. Nothing else depends on that state.

use orbweaver_messages::{Outcome, OutcomeKind, Trail, Traps, Waiting};
use orbweaver_patterns::Verdict;

use super::{Active, Busy, PartitionFrontier, dispatched};
use crate::{
    decision::{Decision, Turn},
    index::{IndexError, Place},
};

/// Memory limit for the patterns of a partition, in bytes.
pub(super) const PATTERN_BYTES: usize = 4 << 20;

/// Reason of an outcome: the URL's pattern is beyond its hard limit and has led to the URL.
const TRAP: &str = "trap";

impl PartitionFrontier {
    /// Returns the number of patterns that are over their budget, and the number of URLs demoted since the last call.
    pub fn similar(&mut self) -> (usize, u64) {
        (self.patterns.over_budget(), std::mem::take(&mut self.put_back))
    }

    /// Returns the place of a newly queued URL, and learns the content of the page on which it was found.
    pub(super) fn placed(&mut self, place: Place, waiting: &Waiting) -> Place {
        self.patterns.learn(waiting);
        if self.patterns.is_behind(waiting) { self.put_back(place) } else { place }
    }

    /// Returns the trail of a URL that is dispatched now. `None` if it is demoted instead, or refused as a trap or as
    /// out of scope.
    pub(super) fn in_its_turn(
        &mut self,
        place: &Place,
        waiting: &Waiting,
        turn: &mut Turn<'_>,
    ) -> Result<Option<Trail>, IndexError> {
        if let Some(outside) = turn.scopes.outside(waiting) {
            self.refuse(place, waiting, outside.name(), turn);
            return Ok(None);
        }
        if waiting.traps == Traps::Off {
            return Ok(Some(Trail::default()));
        }
        let (pattern, verdict) = self.patterns.judge(waiting);
        match verdict {
            Verdict::Back | Verdict::Refuse if !place.back => {
                let back = self.put_back(*place);
                // The index may have more information on the URL than its record.
                let known = self.index.place(waiting.fingerprint)?.unwrap_or(*place);
                self.index.replace(waiting.fingerprint, Some(known), Some((back, waiting)));
                self.sites.pass_over(place, Some(back.rank()), turn.now);
                Ok(None)
            }
            Verdict::Refuse => {
                self.refuse(place, waiting, TRAP, turn);
                Ok(None)
            }
            Verdict::Onward | Verdict::Back => Ok(Some(waiting.trail.through(pattern))),
        }
    }

    fn put_back(&mut self, place: Place) -> Place {
        self.put_back += 1;
        place.at_back()
    }

    /// Ends a URL without a request. Its outcome is written before its tombstone; read back, it finds nothing to end.
    fn refuse(&mut self, place: &Place, waiting: &Waiting, reason: &str, turn: &mut Turn<'_>) {
        let dispatch = dispatched(waiting, self.next_id(), false, turn.now);
        let outcome = Box::new(Outcome::unasked(dispatch, OutcomeKind::Refused, reason, turn.now));
        let completes = vec![self.origin(place.offset)];
        turn.out.push(Decision::Refuse { outcome, ends: place.offset, completes });
        self.idle.remove(place.offset);
        let busy = Busy::Ended(place.offset, waiting.depth, waiting.written_at_ms);
        self.active.insert(waiting.fingerprint, Active { place: *place, busy });
        self.sites.pass_over(place, None, turn.now);
    }
}
