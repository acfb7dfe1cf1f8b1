//! What a record of `crawl.frontier` changes.

use orbweaver_messages::Waiting;
use orbweaver_stage::Origin;
use orbweaver_url::Fingerprint;

use super::{Active, Busy, PartitionFrontier};
use crate::{
    decision::{Decision, Turn},
    index::{IndexError, Place},
};

impl PartitionFrontier {
    /// A record of `crawl.frontier`: a URL waits (again).
    ///
    /// # Errors
    /// When the index fails.
    pub fn waiting(&mut self, origin: Origin, waiting: &Waiting, turn: &mut Turn<'_>) -> Result<(), IndexError> {
        self.end = self.end.max(origin.offset + 1);
        let fingerprint = waiting.fingerprint;
        let old = self.index.place(fingerprint)?;
        let mut place = Place::of(waiting, origin.offset, turn.now);
        let was = self.active.remove(&fingerprint);
        match was {
            Some(Active { place: ended, busy: Busy::Ended }) => {
                // The tombstone comes behind this record, and ends it, too.
                self.complete_copy(old, &ended, turn);
                self.active.insert(fingerprint, Active { place: ended, busy: Busy::Ended });
            }
            Some(Active { place: leased, busy: Busy::Leased(id, known) }) => {
                // The way there is travelled already: the newer record only takes over the offset.
                turn.out.push(Decision::Complete(self.origin(leased.offset)));
                place = place.queued();
                self.active.insert(fingerprint, Active { place, busy: Busy::Leased(id, known) });
            }
            // Our own record, read back. The plan that appended it completed the old one.
            Some(Active { place: rewritten, busy: Busy::Rewriting(mut outcomes) }) => {
                if outcomes.is_empty() {
                    self.sites.admit(place.site);
                    self.lay(&place, turn.now);
                }
                self.sites.dismiss(rewritten.site, turn.now);
                if !outcomes.is_empty() {
                    outcomes.push(origin);
                    turn.out.push(Decision::End { fingerprint, completes: outcomes });
                    self.active.insert(fingerprint, Active { place, busy: Busy::Ended });
                    self.index.replace(fingerprint, old, Some((place, waiting)));
                    return Ok(());
                }
            }
            None => {
                self.sites.admit(place.site);
                self.lay(&place, turn.now);
                if let Some(old) = old {
                    turn.out.push(Decision::Complete(self.origin(old.offset)));
                    self.lift(&old);
                    self.sites.dismiss(old.site, turn.now);
                }
            }
        }
        self.index.replace(fingerprint, old, Some((place, waiting)));
        turn.out.push(Decision::Park(origin));
        Ok(())
    }

    /// A tombstone of `crawl.frontier`; `epoch` is that of its writer.
    ///
    /// # Errors
    /// When the index fails.
    pub fn tombstone(
        &mut self,
        origin: Origin,
        fingerprint: Fingerprint,
        epoch: u64,
        turn: &mut Turn<'_>,
    ) -> Result<(), IndexError> {
        self.end = self.end.max(origin.offset + 1);
        turn.out.push(Decision::Complete(origin));
        let Some(place) = self.index.place(fingerprint)? else {
            self.forget_ended(fingerprint);
            return Ok(());
        };
        match self.active.remove(&fingerprint) {
            Some(Active { place: ended, busy: Busy::Ended }) => {
                if epoch < self.epoch {
                    // Not ours, which is still on its way.
                    self.active.insert(fingerprint, Active { place: ended, busy: Busy::Ended });
                    return Ok(());
                }
                self.complete_copy(Some(place), &ended, turn);
                self.index.replace(fingerprint, Some(place), None);
                return Ok(());
            }
            // Its new record comes behind this one.
            Some(active @ Active { busy: Busy::Rewriting(_), .. }) => {
                self.active.insert(fingerprint, active);
                return Ok(());
            }
            Some(Active { busy: Busy::Leased(id, waiting), .. }) => {
                self.release(id, &place, turn);
                self.bury(place, waiting, epoch, turn);
            }
            None => {
                self.lift(&place);
                let waiting = Box::new(self.index.waiting(place.offset)?);
                self.bury(place, waiting, epoch, turn);
            }
        }
        Ok(())
    }

    /// A tombstone for a URL that waits here.
    fn bury(&mut self, place: Place, waiting: Box<Waiting>, epoch: u64, turn: &mut Turn<'_>) {
        if epoch < self.epoch {
            // Rule 3: a former owner woke up and its tombstone came behind our claim. What still waits is appended again.
            self.rewrite(place, waiting, vec![], turn);
            return;
        }
        // The log has the last word: a second copy of a URL was admitted behind the one that ended.
        self.index.replace(waiting.fingerprint, Some(place), None);
        self.sites.dismiss(place.site, turn.now);
        turn.out.push(Decision::Complete(self.origin(place.offset)));
    }

    /// A copy of a URL that has ended completes when the log has a newer record of it; the one that ended completed then.
    fn complete_copy(&self, copy: Option<Place>, ended: &Place, turn: &mut Turn<'_>) {
        if let Some(copy) = copy.filter(|copy| copy.offset != ended.offset) {
            turn.out.push(Decision::Complete(self.origin(copy.offset)));
        }
    }

    fn forget_ended(&mut self, fingerprint: Fingerprint) {
        if matches!(self.active.get(&fingerprint), Some(Active { busy: Busy::Ended, .. })) {
            self.active.remove(&fingerprint);
        }
    }

    /// Appends the record of a URL anew; `completes` and its old record complete with it.
    pub(super) fn rewrite(
        &mut self,
        place: Place,
        waiting: Box<Waiting>,
        mut completes: Vec<Origin>,
        turn: &mut Turn<'_>,
    ) {
        completes.push(self.origin(place.offset));
        self.active.insert(waiting.fingerprint, Active { place, busy: Busy::Rewriting(vec![]) });
        turn.out.push(Decision::Rewrite { waiting, completes });
    }
}
