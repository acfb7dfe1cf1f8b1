//! Handling of the records of `crawl.frontier`: queued URLs and tombstones.

use std::borrow::Cow;

use orbweaver_messages::{FrontierUrl, UrlContext};
use orbweaver_stage::Origin;
use orbweaver_url::Fingerprint;

use super::{
    Active, ActiveState, Ending, PartitionFrontier, Rewriting,
    merge::{at_the_time_of, is_newer_update, is_update, merged, still_applies, unknown, with_older, with_update},
};
use crate::{
    decision::{Decision, DecisionContext, Tombstone},
    index::{IndexEntry, IndexError},
    site_slots::SiteKey,
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
        let queued = match (&was, old) {
            (Some(active), _) => at_the_time_of(waiting, active.written_at_ms()),
            (None, Some(old)) => {
                let known = self.index.waiting(old.offset)?;
                if still_applies(&known, waiting) {
                    // The URL stays in its present state until the record that applies is read back.
                    self.end_idle(&old);
                    let waiting = self.believed(waiting, &known);
                    self.rewrite(old, Box::new(merged(&known, &waiting).into_owned()), vec![origin], turn);
                    self.index.mark(fingerprint, Some(old.offset));
                    return Ok(());
                }
                merged(&known, waiting)
            }
            (None, None) => unknown(waiting),
        };
        let is_changed = matches!(queued, Cow::Owned(_));
        self.queue(origin, (&*queued, is_changed), (was, old), turn)?;
        // Otherwise the queued record is still being appended, or will be when a tombstone in flight is read.
        let is_last = !is_changed && self.index.offset(fingerprint)? == Some(origin.offset);
        self.index.mark(fingerprint, old.filter(|_| !is_last).map(|old| old.offset));
        Ok(())
    }

    /// Returns a record without its modification time if that would cause a visit and the site's are not trusted.
    fn believed<'a>(&mut self, waiting: &'a FrontierUrl, known: &FrontierUrl) -> Cow<'a, FrontierUrl> {
        let site = SiteKey::of(&waiting.context.site);
        if !is_newer_update(waiting, known) || self.listed_updates.trusts(site) {
            return Cow::Borrowed(waiting);
        }
        let context = UrlContext { listed_modified_ms: None, ..waiting.context.clone() };
        Cow::Owned(FrontierUrl { context, ..waiting.clone() })
    }

    /// Queues a URL by a record, which is not the one in the log if it `is_changed`: at least the time of a previous write
    /// has been filled in. `was` and `old` are the state and the entry of the URL so far.
    fn queue(
        &mut self,
        origin: Origin,
        (waiting, is_changed): (&FrontierUrl, bool),
        (was, old): (Option<Active>, Option<IndexEntry>),
        turn: &mut DecisionContext<'_>,
    ) -> Result<(), IndexError> {
        let fingerprint = waiting.context.fingerprint;
        let mut entry = IndexEntry::of(waiting, origin.offset, turn.now);
        if turn.scopes.is_stopped(&waiting.context.crawl) {
            entry = entry.queued();
        }
        match was {
            Some(mut active) if active.precedes(waiting) => {
                let dropped = active.keep(origin, waiting);
                if dropped != Some(origin) {
                    turn.out.push(Decision::Park(origin));
                }
                turn.out.extend(dropped.map(Decision::Complete));
                self.active.insert(fingerprint, active);
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
                if known.context.visit > waiting.context.visit
                    || known.context.visit == waiting.context.visit
                        && (leased.depth < waiting.context.depth || is_update(waiting)) =>
            {
                // The last record in the log has to be that of the later visit, and the one with the lesser depth, and no
                // update.
                let mut lesser = self.as_found(&leased, known.clone())?;
                lesser.written_at_ms = lesser.written_at_ms.max(waiting.written_at_ms);
                if known.context.visit > waiting.context.visit {
                    *lesser = with_older(&lesser, waiting);
                } else if is_update(waiting) {
                    *lesser = with_update(&lesser, waiting);
                }
                turn.out.push(Decision::Rewrite { waiting: lesser, completes: vec![origin] });
                self.active.insert(fingerprint, Active { entry: leased, busy: ActiveState::Leased(id, known) });
                return Ok(());
            }
            // A former owner has ended the visit.
            Some(Active { entry: leased, busy: ActiveState::Leased(_, known) })
                if known.context.visit < waiting.context.visit =>
            {
                self.end_lease((&leased, &known), None, turn);
                self.recount(Some(&leased), Some(&entry), turn.now);
                self.make_idle(&entry, turn.now);
                turn.out.push(Decision::Complete(self.owner.origin(leased.offset)));
            }
            Some(Active { entry: leased, busy: ActiveState::Leased(id, mut known) }) => {
                // The URL is already dispatched: the newer record only takes over the offset.
                let replaced = self.owner.origin(leased.offset);
                turn.out.push(if is_changed {
                    Decision::Rewrite { waiting: Box::new(waiting.clone()), completes: vec![replaced] }
                } else {
                    Decision::Complete(replaced)
                });
                known.written_at_ms = waiting.written_at_ms;
                entry = IndexEntry { demoted: leased.demoted, ..entry.queued() };
                if entry.site != leased.site {
                    // A requisite that was discovered as a page. Its lease ends in the queue from which it was leased.
                    self.recount(Some(&leased), Some(&entry), turn.now);
                }
                self.active.insert(fingerprint, Active { entry, busy: ActiveState::Leased(id, known) });
            }
            // The partition's own record, read back. The plan that appended it completed the old one. A record without
            // that time is a different one, which this partition's own record will follow.
            Some(Active { entry: rewritten, busy: ActiveState::Rewriting(rewriting) }) => {
                self.recount(None, Some(&entry), turn.now);
                entry = self.placed(entry, waiting);
                self.recount(Some(&rewritten), None, turn.now);
                return self.read_back(origin, (entry, waiting), (rewriting, old), turn);
            }
            None => {
                self.recount(None, Some(&entry), turn.now);
                entry = self.placed(entry, waiting);
                if let Some(old) = old.filter(|_| is_changed) {
                    // The old record completes when the new one is in the log as it is here.
                    self.end_idle(&old);
                    self.recount(Some(&old), None, turn.now);
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
                    self.recount(Some(&old), None, turn.now);
                }
            }
        }
        self.replace(fingerprint, old, Some((entry, waiting)));
        turn.out.push(Decision::Park(origin));
        Ok(())
    }

    /// Handles the new record of a URL, read back.
    fn read_back(
        &mut self,
        origin: Origin,
        (entry, waiting): (IndexEntry, &FrontierUrl),
        (Rewriting { ended, again, .. }, old): (Rewriting, Option<IndexEntry>),
        turn: &mut DecisionContext<'_>,
    ) -> Result<(), IndexError> {
        self.replace(waiting.context.fingerprint, old, Some((entry, waiting)));
        turn.out.push(Decision::Park(origin));
        let (outcomes, endings): (Vec<Origin>, Vec<Ending>) = ended.into_iter().unzip();
        let ending = endings.into_iter().min_by_key(|ending| ending.depth);
        if let Some(ending) = ending.filter(|ending| entry.depth >= ending.depth) {
            self.end_visit(outcomes, &ending, (entry, waiting), turn);
            match self.active.get_mut(&waiting.context.fingerprint).map(|active| &mut active.busy) {
                Some(ActiveState::Rewriting(rewriting)) => rewriting.again = again,
                // The URL has ended.
                _ => turn.out.extend(again.map(|(origin, _)| Decision::Complete(origin))),
            }
            return Ok(());
        }
        turn.out.extend(outcomes.into_iter().map(Decision::Complete));
        match again {
            Some((older, demanded)) => {
                let merged = Box::new(with_older(waiting, &demanded));
                self.rewrite(entry, merged, vec![older], turn);
            }
            None => self.make_idle(&entry, turn.now),
        }
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
        let queued = self.index.offset(fingerprint)?;
        self.index.mark(fingerprint, queued);
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
                let waiting = self.index.waiting(entry.offset)?;
                self.recount(None, Some(&entry), turn.now);
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
                let waiting = self.index.waiting(entry.offset)?;
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
        self.recount(Some(&entry), None, turn.now);
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
        let busy = ActiveState::Rewriting(Rewriting::of(&waiting));
        self.active.insert(waiting.context.fingerprint, Active { entry, busy });
        turn.out.push(Decision::Rewrite { waiting, completes });
    }
}
