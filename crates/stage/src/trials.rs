//! Trials of quarantined records, one at a time per process, regardless of the number of stages
//! (docs/protocol.md#quarantine): with several, a crash of the process would count against each of them.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

/// Queue of a process's stages for the permit to try a record. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Trials(Arc<Semaphore>);

impl Default for Trials {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

/// The permit of one stage, or its queue entry.
#[derive(Debug)]
pub(crate) struct Trial {
    queue: PollSemaphore,
    permit: Option<OwnedSemaphorePermit>,
    /// Whether the queue may have an entry of this stage.
    queued: bool,
}

impl Trial {
    pub(crate) fn new(trials: &Trials) -> Self {
        Self { queue: PollSemaphore::new(trials.0.clone()), permit: None, queued: false }
    }

    /// Returns `true` if this stage may try a record now. If not, it is queued, and the next call checks again.
    pub(crate) fn begin(&mut self) -> bool {
        if self.permit.is_none() {
            // The loop of a stage ticks, so no waker is needed.
            match self.queue.poll_acquire(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(permit) => (self.permit, self.queued) = (permit, false),
                Poll::Pending => self.queued = true,
            }
        }
        self.permit.is_some()
    }

    /// Releases the permit: the trial is over, or did not start.
    pub(crate) fn end(&mut self) {
        self.permit = None;
    }

    /// Releases the permit and leaves the queue: there is no record to try.
    pub(crate) fn leave(&mut self) {
        self.permit = None;
        if std::mem::take(&mut self.queued) {
            self.queue = PollSemaphore::new(self.queue.clone_inner());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_have_the_permit_in_the_order_of_the_queue_and_one_that_leaves_blocks_no_other() {
        let trials = Trials::default();
        let [mut first, mut second, mut third] = [0; 3].map(|_| Trial::new(&trials));
        assert!(first.begin() && first.begin());
        assert!(!second.begin() && !third.begin());
        first.end();
        assert!(!first.begin(), "the others were there before");
        second.leave();
        assert!(third.begin());
        third.leave();
        assert!(first.begin());
        drop(first);
        assert!(second.begin());
    }
}
