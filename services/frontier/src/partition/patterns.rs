//! Similar URLs: their demotion, and the refusal of traps.
//!
//! The state of patterns is an index that may be lost: a demoted URL may be in its old place after a restart, until it
//! is ready and is judged again. Nothing else depends on that state.

use orbweaver_messages::{Dispatch, FrontierUrl, Outcome, OutcomeKind, Trail, Traps};
use orbweaver_patterns::Verdict;

use super::{Active, ActiveState, PartitionFrontier, site_cap::SiteSlack};
use crate::{
    decision::{Decision, DecisionContext},
    index::{IndexEntry, IndexError},
    site_pages::SITE_CAP,
};

/// Memory limit for the patterns of a partition, in bytes.
pub(super) const PATTERN_BYTES: usize = 4 << 20;

/// Reason of an outcome: the URL's pattern is beyond its hard limit and has led to the URL.
pub(crate) const TRAP: &str = "trap";

impl PartitionFrontier {
    /// Returns the number of patterns that are over their budget, and the number of URLs demoted since the last call.
    pub fn similar(&mut self) -> (usize, u64) {
        (self.patterns.over_budget(), std::mem::take(&mut self.demote))
    }

    /// Returns the entry of a newly queued URL, and learns the content of the page on which it was found.
    pub(super) fn placed(&mut self, entry: IndexEntry, waiting: &FrontierUrl) -> IndexEntry {
        if !waiting.context.may_be_new_page() {
            return entry;
        }
        self.patterns.learn(waiting);
        if self.patterns.is_behind(waiting) { self.demote(entry) } else { entry }
    }

    /// Returns the trail of a URL that is dispatched now. `None` if it is demoted instead, refused as a trap, as out
    /// of scope or at the page cap of its site, or if it stays queued since those in flight may reach that cap.
    pub(super) fn admit_dispatch(
        &mut self,
        entry: &IndexEntry,
        waiting: &FrontierUrl,
        turn: &mut DecisionContext<'_>,
    ) -> Result<Option<Trail>, IndexError> {
        if let Some(outside) = turn.scopes.outside(waiting) {
            self.refuse(entry, waiting, outside.name(), turn);
            return Ok(None);
        }
        match self.site_slack(entry, waiting) {
            SiteSlack::Page => {}
            SiteSlack::InFlight => {
                self.sites.await_outcome(entry, turn.now);
                return Ok(None);
            }
            SiteSlack::None => {
                self.refuse(entry, waiting, SITE_CAP, turn);
                return Ok(None);
            }
        }
        if waiting.traps == Traps::Off {
            return Ok(Some(Trail::default()));
        }
        // A revisit is not a further URL of its pattern, and other URLs lead to no page.
        if !waiting.context.may_be_new_page() {
            return Ok(Some(waiting.context.trail.clone()));
        }
        let (pattern, verdict) = self.patterns.judge(waiting);
        match verdict {
            Verdict::Demote | Verdict::Refuse if !entry.demoted => {
                let demoted = self.demote(*entry);
                // The index may have more information on the URL than its record.
                let known = self.index.entry(waiting.context.fingerprint)?.unwrap_or(*entry);
                self.index.replace(waiting.context.fingerprint, Some(known), Some((demoted, waiting)));
                self.sites.pass_over(entry, Some(demoted.rank()), turn.now);
                Ok(None)
            }
            Verdict::Refuse => {
                self.refuse(entry, waiting, TRAP, turn);
                Ok(None)
            }
            Verdict::Normal | Verdict::Demote => Ok(Some(waiting.context.trail.through(pattern))),
        }
    }

    fn demote(&mut self, entry: IndexEntry) -> IndexEntry {
        self.demote += 1;
        IndexEntry { demoted: true, ..entry }
    }

    /// Ends a URL without a request. Its outcome is written before its tombstone; read back, it finds nothing to end.
    fn refuse(&mut self, entry: &IndexEntry, waiting: &FrontierUrl, reason: &str, turn: &mut DecisionContext<'_>) {
        let dispatch = Dispatch::of(waiting, self.owner.next_id(), false, turn.now);
        let outcome = Box::new(Outcome::of(&dispatch, OutcomeKind::Refused, Some(reason), turn.now));
        let completes = vec![self.owner.origin(entry.offset)];
        turn.out.push(Decision::Refuse { outcome, ends: entry.offset, completes });
        self.idle.remove(entry.offset);
        let busy = ActiveState::Ended(entry.offset, waiting.context.depth, waiting.written_at_ms);
        self.active.insert(waiting.context.fingerprint, Active { entry: *entry, busy });
        self.sites.pass_over(entry, None, turn.now);
    }
}
