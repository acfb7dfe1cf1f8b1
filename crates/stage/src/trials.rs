//! Trials of quarantined records: one at a time per process, and only while all its stages are quiet, since a crash of
//! the process counts against the record (docs/protocol.md#quarantine).

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Maximum time for which a trial waits for records in flight in other stages. Then it runs, and does not count. Longer
/// than a lease: every dispatch that a fetcher holds has ended by then.
const QUIET_WITHIN: Duration = Duration::from_secs(150);
/// Time for which a stage tries one record after another before it releases its permit: each hand-over pauses all
/// stages, which takes a few of their ticks.
const TRIAL_TIME: Duration = Duration::from_millis(500);

/// The stages of a process, which try one record at a time between them. Cheap to clone; clones share the state.
#[derive(Debug, Clone, Default)]
pub struct Trials {
    arbiter: Arc<Mutex<Arbiter>>,
    panicked: CancellationToken,
}

impl Trials {
    /// Reports a panic outside of the loops of the stages: each stage ends with
    /// [`StageError::Panicked`](crate::StageError::Panicked), and the one that is trying a record commits that the
    /// process crashed.
    pub fn report_panic(&self) {
        self.panicked.cancel();
    }

    fn arbiter(&self) -> MutexGuard<'_, Arbiter> {
        self.arbiter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Work in flight in a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Activity {
    /// None. Parked records do not count.
    Quiet,
    /// Records or plans are in flight, or new records are accepted.
    Working,
    /// Partitions are being opened. That ends: a restore fails after a time without progress.
    Opening,
}

/// Work that a stage starts without a polled record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// The opening of a partition.
    Opening,
    /// Tailed records, or records that leave the quarantine.
    Records,
}

/// Permission to try a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permit {
    /// Nothing else is in flight in the process.
    Counts,
    /// Another stage did not become quiet: the end of the process says nothing about the record.
    Uncounted,
}

/// Membership of one stage.
#[derive(Debug)]
pub(crate) struct Trial {
    trials: Trials,
    id: u64,
    /// Whether a trial was wanted or running at the end of the last loop iteration; the topic-partitions are then
    /// paused.
    held: bool,
    /// The permit, and the time since which this stage has it.
    running: Option<(Permit, Instant)>,
    /// Whether the stage has requested a refresh during its trial.
    reads_tails: bool,
}

impl Trial {
    pub(crate) fn new(trials: &Trials) -> Self {
        let id = trials.arbiter().join();
        Self { trials: trials.clone(), id, held: false, running: None, reads_tails: false }
    }

    /// Returns the permit to try a record if this stage has it, or if no other stage does and all are quiet. Otherwise
    /// this stage is queued, all stages hold back new work, and the next call checks again.
    pub(crate) fn begin(&mut self, now: Instant) -> Option<Permit> {
        if self.running.is_none() {
            self.running = self.trials.arbiter().begin(self.id, now).map(|permit| (permit, now));
        }
        self.running.map(|(permit, _)| permit)
    }

    /// Ends the trial of one record. The permit is kept for the next one until the turn of this stage is over.
    pub(crate) fn complete(&mut self, now: Instant) {
        self.reads_tails = false;
        if self.running.is_some_and(|(_, since)| now >= since + TRIAL_TIME) {
            self.end();
        }
    }

    /// Releases the permit.
    pub(crate) fn end(&mut self) {
        if self.running.take().is_some() {
            self.reads_tails = false;
            self.trials.arbiter().end(self.id);
        }
    }

    /// Releases the permit and leaves the queue: there is no record to try.
    pub(crate) fn withdraw(&mut self) {
        self.end();
        if self.held {
            self.trials.arbiter().withdraw(self.id);
        }
    }

    /// Returns `true` if the stage may start this work now: no trial is wanted or running.
    pub(crate) fn enter(&self, work: Work) -> bool {
        // The record that is being tried may complete only after the refresh that was requested for it.
        (work == Work::Records && self.reads_tails) || self.trials.arbiter().enter(self.id, work)
    }

    /// Notes that the stage has requested a refresh of its tails.
    pub(crate) fn needs_tails(&mut self) {
        self.reads_tails = self.running.is_some();
    }

    /// Reports the activity at the end of a loop iteration, and whether work waits for [`Self::enter`].
    pub(crate) fn settle(&mut self, activity: Activity, waits: bool) {
        // Only a stage that has paused its topic-partitions stays quiet.
        let activity = if self.held { activity } else { activity.max(Activity::Working) };
        self.held = self.trials.arbiter().settle(self.id, activity, waits);
    }

    /// Returns `true` if the stage accepts no new records, because a trial is wanted or running in the process.
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    /// Returns the token that [`Trials::report_panic`] cancels.
    pub(crate) fn panicked(&self) -> CancellationToken {
        self.trials.panicked.clone()
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        self.trials.arbiter().leave(self.id);
    }
}

#[derive(Debug)]
struct Member {
    activity: Activity,
    /// Whether work was held back at the end of its last loop iteration.
    waits: bool,
    /// Whether the next trial waits for the work that was held back during the last one.
    owed: bool,
}

/// The state of all stages. Pure.
///
/// A trial begins while every other stage is quiet. New work waits from the time at which a trial is wanted until it
/// has ended; then it precedes the next trial, so that neither starves.
#[derive(Debug, Default)]
struct Arbiter {
    joined: u64,
    stages: BTreeMap<u64, Member>,
    /// Stages that have a record to try, in order.
    queue: VecDeque<u64>,
    running: Option<(u64, Permit)>,
    /// Time since which the first of the queue waits for records in flight in other stages.
    since: Option<Instant>,
}

impl Arbiter {
    fn join(&mut self) -> u64 {
        self.joined += 1;
        self.stages.insert(self.joined, Member { activity: Activity::Quiet, waits: false, owed: false });
        self.joined
    }

    fn leave(&mut self, id: u64) {
        self.end(id);
        self.withdraw(id);
        self.stages.remove(&id);
    }

    fn is_wanted(&self) -> bool {
        self.running.is_some() || !self.queue.is_empty()
    }

    fn begin(&mut self, id: u64, now: Instant) -> Option<Permit> {
        if !self.queue.contains(&id) {
            self.queue.push_back(id);
        }
        let is_next = self.running.is_none() && self.queue.front() == Some(&id);
        if !is_next || self.stages.values().any(|stage| stage.owed) {
            return None;
        }
        let others = self.stages.iter().filter(|(other, _)| **other != id).map(|(_, stage)| stage.activity);
        let others = others.max().unwrap_or(Activity::Quiet);
        let permit = match others {
            Activity::Quiet => {
                self.since = None;
                Permit::Counts
            }
            Activity::Working if now >= *self.since.get_or_insert(now) + QUIET_WITHIN => Permit::Uncounted,
            Activity::Working => return None,
            Activity::Opening => {
                self.since = None;
                return None;
            }
        };
        self.queue.pop_front();
        self.running = Some((id, permit));
        Some(permit)
    }

    fn end(&mut self, id: u64) {
        if self.running.take_if(|(tried, _)| *tried == id).is_some() {
            self.stages.values_mut().for_each(|stage| stage.owed = stage.waits);
        }
    }

    fn withdraw(&mut self, id: u64) {
        self.queue.retain(|queued| *queued != id);
        if !self.is_wanted() {
            self.since = None;
        }
    }

    fn enter(&mut self, id: u64, work: Work) -> bool {
        let (running, is_wanted) = (self.running, self.is_wanted());
        let Some(stage) = self.stages.get_mut(&id) else { return true };
        // A stage with work in flight may wait for its tails.
        let is_working = work == Work::Records && stage.activity != Activity::Quiet;
        let may = match running {
            Some((tried, permit)) => permit == Permit::Uncounted && tried != id,
            None => !is_wanted || stage.owed || is_working,
        };
        if may {
            (stage.activity, stage.owed) = (stage.activity.max(Activity::Working), false);
        }
        may
    }

    /// Returns `true` if the stage is to hold back new work.
    fn settle(&mut self, id: u64, activity: Activity, waits: bool) -> bool {
        let is_wanted = self.is_wanted();
        if let Some(stage) = self.stages.get_mut(&id) {
            stage.activity = if is_wanted { activity } else { activity.max(Activity::Working) };
            (stage.waits, stage.owed) = (waits, stage.owed && waits);
        }
        is_wanted
    }
}

#[cfg(test)]
mod tests;
