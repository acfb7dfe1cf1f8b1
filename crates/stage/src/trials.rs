//! One record at a time is tried alone in a process, whatever stages it runs (rule 17): the end of the process would count
//! against each of several.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

/// What the stages of one process share, so that they try records in turns. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Trials(Arc<Semaphore>);

impl Default for Trials {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

/// One stage's part in the trials of its process.
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

    /// Whether this stage may try a record now. If not, it is in the queue, and asks again at its next turn.
    pub(crate) fn begin(&mut self) -> bool {
        if self.permit.is_none() {
            // The loop turns by itself, so it needs no waking.
            match self.queue.poll_acquire(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(permit) => (self.permit, self.queued) = (permit, false),
                Poll::Pending => self.queued = true,
            }
        }
        self.permit.is_some()
    }

    /// The record that was tried has left, or was not tried after all: other stages are next.
    pub(crate) fn end(&mut self) {
        self.permit = None;
    }

    /// There is nothing to be tried: gives up the permit and the place in the queue.
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
    fn stages_have_their_turns_one_after_the_other_and_one_that_leaves_holds_up_nobody() {
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
