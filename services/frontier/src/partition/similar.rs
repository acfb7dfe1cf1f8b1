//! Similar URLs: which of them wait at the back of their site, and which are refused.
//!
//! What is learnt of them is an index that may be lost: a URL that was put at the back may stand in its old place after a restart,
//! until it has its turn and is looked at again. Nothing else depends on it.

use orbweaver_messages::{Outcome, OutcomeKind, Trail, Traps, Waiting};
use orbweaver_patterns::Verdict;

use super::{Active, Busy, PartitionFrontier, dispatched};
use crate::{
    decision::{Decision, Turn},
    index::{IndexError, Place},
};

/// The memory for what is known of similar URLs, in a partition.
pub(super) const PATTERN_BYTES: usize = 4 << 20;

/// The reason of an outcome: the URL is of a pattern beyond its hard limit, which led to it.
const TRAP: &str = "trap";

impl PartitionFrontier {
    /// Patterns that are over their budget now, and how many URLs were put at the back of their site since this was asked last.
    pub fn similar(&mut self) -> (usize, u64) {
        (self.patterns.over_budget(), std::mem::take(&mut self.put_back))
    }

    /// Where a URL that waits anew stands. Also learns what the page that led to it says.
    pub(super) fn placed(&mut self, place: Place, waiting: &Waiting) -> Place {
        self.patterns.learn(waiting);
        if self.patterns.is_behind(waiting) { self.put_back(place) } else { place }
    }

    /// The trail of a URL that is dispatched now. `None`: it is put at the back of its site, or refused, since it is
    /// a trap or outside of its crawl by now.
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
                // The index may know more of it than its record says.
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

    /// A URL ends without a request. Its outcome is written before its tombstone; read back, it finds nothing to end.
    fn refuse(&mut self, place: &Place, waiting: &Waiting, reason: &str, turn: &mut Turn<'_>) {
        let dispatch = dispatched(waiting, self.next_id(), false, turn.now);
        let outcome = Box::new(Outcome::unasked(dispatch, OutcomeKind::Refused, reason, turn.now));
        let completes = vec![self.origin(place.offset)];
        turn.out.push(Decision::Refuse { outcome, ends: place.offset, completes });
        self.idle.remove(place.offset);
        let busy = Busy::Ended(place.offset, waiting.depth);
        self.active.insert(waiting.fingerprint, Active { place: *place, busy });
        self.sites.pass_over(place, None, turn.now);
    }
}
