//! Handling of the records of `crawl.frontier`: queued URLs and tombstones.

use std::borrow::Cow;

use orbweaver_messages::FrontierUrl;
use orbweaver_stage::Origin;
use orbweaver_url::Fingerprint;

use super::{Active, ActiveState, PartitionFrontier, at_the_depth_of, at_the_time_of};
use crate::{
    decision::{Decision, DecisionContext, Tombstone},
    index::{IndexEntry, IndexError},
};

impl PartitionFrontier {
    /// Handles a record of `crawl.frontier` that queues a URL, for the first time or again.
    pub fn waiting(
        &mut self,
        origin: Origin,
        waiting: &FrontierUrl,
        turn: &mut DecisionContext<'_>,
    ) -> Result<(), IndexError> {
        self.end = self.end.max(origin.offset + 1);
        let fingerprint = waiting.context.fingerprint;
        let was = self.active.remove(&fingerprint);
        let old = match &was {
            Some(active) => Some(active.entry),
            None => self.index.entry(fingerprint)?,
        };
        // docs/protocol.md#event-times: the record of a URL that is discovered again has no time of a previous write.
        let known_ms = match (&was, old) {
            (Some(active), _) => active.written_at_ms(),
            (None, Some(old)) => self.index.waiting(old.offset)?.written_at_ms,
            (None, None) => 0,
        };
        let timed = at_the_time_of(waiting, known_ms);
        let lacks_time = matches!(timed, Cow::Owned(_));
        self.queue(origin, (&*timed, lacks_time), (was, old), turn)?;
        // Otherwise the queued record is still being appended, or will be when a tombstone in flight is read.
        let is_last = !lacks_time && self.index.entry(fingerprint)?.is_some_and(|entry| entry.offset == origin.offset);
        self.index.mark(fingerprint, old.filter(|_| !is_last).map(|old| old.offset));
        Ok(())
    }

    /// Queues a URL by a record, in which the time of a previous write has been filled in if it lacked that. `was` and
    /// `old` are the state and the entry of the URL so far.
    fn queue(
        &mut self,
        origin: Origin,
        (waiting, lacks_time): (&FrontierUrl, bool),
        (was, old): (Option<Active>, Option<IndexEntry>),
        turn: &mut DecisionContext<'_>,
    ) -> Result<(), IndexError> {
        let fingerprint = waiting.context.fingerprint;
        let mut entry = IndexEntry::of(waiting, origin.offset, turn.now);
        if turn.scopes.is_stopped(&waiting.context.crawl) {
            entry = entry.queued();
        }
        match was {
            Some(active) if active.precedes(waiting) => {
                self.active.insert(fingerprint, active);
                turn.out.push(Decision::Complete(origin));
                return Ok(());
            }
            Some(Active { entry: known, busy: ActiveState::Ended(ended, depth, _) }) => {
                // The tombstone follows this record and ends it too, unless the record has a lesser depth.
                if known.offset != ended {
                    // A copy, which has a newer record by now; the record that ended is complete already.
                    turn.out.push(Decision::Complete(self.owner.origin(known.offset)));
                }
                let busy = ActiveState::Ended(ended, depth, waiting.written_at_ms);
                self.active.insert(fingerprint, Active { entry, busy });
            }
            Some(Active { entry: leased, busy: ActiveState::Leased(id, known) })
                if leased.depth < waiting.context.depth =>
            {
                // The last record in the log has to be the one with the lesser depth.
                let mut lesser = self.as_found(&leased, known.clone())?;
                lesser.written_at_ms = lesser.written_at_ms.max(waiting.written_at_ms);
                turn.out.push(Decision::Rewrite { waiting: lesser, completes: vec![origin] });
                self.active.insert(fingerprint, Active { entry: leased, busy: ActiveState::Leased(id, known) });
                return Ok(());
            }
            Some(Active { entry: leased, busy: ActiveState::Leased(id, mut known) }) => {
                // The URL is already dispatched: the newer record only takes over the offset.
                let replaced = self.owner.origin(leased.offset);
                turn.out.push(if lacks_time {
                    Decision::Rewrite { waiting: Box::new(waiting.clone()), completes: vec![replaced] }
                } else {
                    Decision::Complete(replaced)
                });
                known.written_at_ms = waiting.written_at_ms;
                entry = IndexEntry { demoted: leased.demoted, ..entry.queued() };
                self.active.insert(fingerprint, Active { entry, busy: ActiveState::Leased(id, known) });
            }
            // The partition's own record, read back. The plan that appended it completed the old one. A record without
            // that time is a different one, which this partition's own record will follow.
            Some(Active { entry: rewritten, busy: ActiveState::Rewriting(outcomes, _) }) => {
                let depth = outcomes.iter().map(|(_, depth)| *depth).min().filter(|depth| entry.depth >= *depth);
                let mut completes: Vec<Origin> = outcomes.into_iter().map(|(outcome, _)| outcome).collect();
                if let Some(depth) = depth {
                    self.sites.remove_url(rewritten.site, turn.now);
                    completes.push(origin);
                    turn.out.push(Decision::End { fingerprint, depth, ends: entry.offset, completes });
                    let busy = ActiveState::Ended(entry.offset, depth, waiting.written_at_ms);
                    self.active.insert(fingerprint, Active { entry, busy });
                    self.replace(fingerprint, old, Some((entry, waiting)));
                    return Ok(());
                }
                turn.out.extend(completes.into_iter().map(Decision::Complete));
                self.sites.admit(&entry);
                entry = self.placed(entry, waiting);
                self.make_idle(&entry, turn.now);
                self.sites.remove_url(rewritten.site, turn.now);
            }
            None if old.is_some_and(|old| old.depth < waiting.context.depth) => {
                // As for a leased URL. The queued URL stays unchanged until that record is read back.
                if let Some(old) = old {
                    self.end_idle(&old);
                    let lesser = at_the_depth_of(self.index.waiting(old.offset)?, waiting);
                    self.rewrite(old, Box::new(lesser), vec![origin], turn);
                }
                return Ok(());
            }
            None => {
                self.sites.admit(&entry);
                entry = self.placed(entry, waiting);
                if let Some(old) = old.filter(|_| lacks_time) {
                    // The old record completes when the new one is in the log with its time.
                    self.end_idle(&old);
                    self.sites.remove_url(old.site, turn.now);
                    self.replace(fingerprint, Some(old), Some((entry, waiting)));
                    turn.out.push(Decision::Park(origin));
                    let completes = vec![self.owner.origin(old.offset)];
                    self.rewrite(entry, Box::new(waiting.clone()), completes, turn);
                    return Ok(());
                }
                self.make_idle(&entry, turn.now);
                if let Some(old) = old {
                    turn.out.push(Decision::Complete(self.owner.origin(old.offset)));
                    self.end_idle(&old);
                    self.sites.remove_url(old.site, turn.now);
                }
            }
        }
        self.replace(fingerprint, old, Some((entry, waiting)));
        turn.out.push(Decision::Park(origin));
        Ok(())
    }

    /// Handles a tombstone of `crawl.frontier`.
    pub fn tombstone(
        &mut self,
        origin: Origin,
        fingerprint: Fingerprint,
        Tombstone { epoch, .. }: Tombstone,
        turn: &mut DecisionContext<'_>,
    ) -> Result<(), IndexError> {
        self.end = self.end.max(origin.offset + 1);
        turn.out.push(Decision::Complete(origin));
        self.apply_tombstone(fingerprint, epoch, turn)?;
        // A URL that is still queued is being appended again, or another tombstone is.
        let queued = self.index.entry(fingerprint)?;
        self.index.mark(fingerprint, queued.map(|entry| entry.offset));
        Ok(())
    }

    fn apply_tombstone(
        &mut self,
        fingerprint: Fingerprint,
        epoch: u64,
        turn: &mut DecisionContext<'_>,
    ) -> Result<(), IndexError> {
        match self.active.remove(&fingerprint) {
            // From a former owner; the present owner's tombstone is still being written.
            Some(active @ Active { busy: ActiveState::Ended(..), .. }) if epoch < self.owner.epoch => {
                self.active.insert(fingerprint, active);
            }
            Some(Active { entry, busy: ActiveState::Ended(ended, ..) }) if entry.offset == ended => {
                self.replace(fingerprint, Some(entry), None);
            }
            Some(Active { entry, busy: ActiveState::Ended(_, depth, _) }) if entry.depth < depth => {
                // The URL was discovered at a lesser depth before the tombstone was appended, which has ended it only in
                // the log.
                let waiting = Box::new(self.index.waiting(entry.offset)?);
                self.sites.admit(&entry);
                self.rewrite(entry, waiting, vec![], turn);
            }
            Some(Active { entry, busy: ActiveState::Ended(_, depth, written_at_ms) }) => {
                // A copy that was appended before the tombstone, which does not name it, has ended too.
                let (ends, completes) = (entry.offset, vec![self.owner.origin(entry.offset)]);
                turn.out.push(Decision::End { fingerprint, depth, ends, completes });
                let busy = ActiveState::Ended(ends, depth, written_at_ms);
                self.active.insert(fingerprint, Active { entry, busy });
            }
            // The URL's new record follows this tombstone.
            Some(active @ Active { busy: ActiveState::Rewriting(..), .. }) => {
                self.active.insert(fingerprint, active);
            }
            Some(Active { entry, busy: ActiveState::Leased(_, waiting) }) => {
                self.end_lease((&entry, &waiting), None, turn);
                let waiting = self.as_found(&entry, waiting)?;
                self.remove_or_rewrite(entry, waiting, epoch, turn);
            }
            None => {
                let Some(entry) = self.index.entry(fingerprint)? else { return Ok(()) };
                self.end_idle(&entry);
                let waiting = Box::new(self.index.waiting(entry.offset)?);
                self.remove_or_rewrite(entry, waiting, epoch, turn);
            }
        }
        Ok(())
    }

    /// Applies a tombstone to a URL that is queued here.
    fn remove_or_rewrite(
        &mut self,
        entry: IndexEntry,
        waiting: Box<FrontierUrl>,
        epoch: u64,
        turn: &mut DecisionContext<'_>,
    ) {
        if epoch < self.owner.epoch {
            // docs/protocol.md#claims: a former owner resumed, and its tombstone came after the claim. A URL that is
            // still queued is appended again.
            self.rewrite(entry, waiting, vec![], turn);
            return;
        }
        // The log takes precedence: a second copy of a URL was admitted after the one that ended.
        self.replace(waiting.context.fingerprint, Some(entry), None);
        self.sites.remove_url(entry.site, turn.now);
        turn.out.push(Decision::Complete(self.owner.origin(entry.offset)));
    }

    /// Re-appends the record of a URL; `completes` and its old record complete with it.
    pub(super) fn rewrite(
        &mut self,
        entry: IndexEntry,
        mut waiting: Box<FrontierUrl>,
        mut completes: Vec<Origin>,
        turn: &mut DecisionContext<'_>,
    ) {
        // The content was learned when the record was first read.
        waiting.content = None;
        completes.push(self.owner.origin(entry.offset));
        let busy = ActiveState::Rewriting(vec![], waiting.written_at_ms);
        self.active.insert(waiting.context.fingerprint, Active { entry, busy });
        turn.out.push(Decision::Rewrite { waiting, completes });
    }
}
