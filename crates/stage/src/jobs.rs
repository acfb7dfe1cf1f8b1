//! Jobs of the stage, and their results.

use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::Worker;

/// Maximum number of results handled per loop iteration.
const RESULTS_PER_TURN: usize = 1024;

pub(crate) struct Jobs<J, D> {
    worker: Arc<dyn Worker<J, D>>,
    to: UnboundedSender<D>,
    from: UnboundedReceiver<D>,
    done: Vec<D>,
}

impl<J: 'static, D: 'static> Jobs<J, D> {
    pub(crate) fn new(worker: Arc<dyn Worker<J, D>>) -> Self {
        let (to, from) = unbounded_channel();
        Self { worker, to, from, done: vec![] }
    }

    pub(crate) fn start(&self, job: J) {
        self.worker.start(job, &self.to);
    }

    /// Waits for results. Cancel-safe.
    pub(crate) async fn arrive(&mut self) {
        self.from.recv_many(&mut self.done, RESULTS_PER_TURN).await;
    }

    /// Takes the results that have arrived, in order, up to the limit; to be returned with [`Self::reuse`].
    pub(crate) fn take(&mut self) -> Vec<D> {
        while self.done.len() < RESULTS_PER_TURN {
            let Ok(done) = self.from.try_recv() else { break };
            self.done.push(done);
        }
        std::mem::take(&mut self.done)
    }

    /// Keeps the memory of the empty `buffer` for the next results.
    pub(crate) fn reuse(&mut self, buffer: Vec<D>) {
        self.done = buffer;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Echo;

    impl Worker<u32, u32> for Echo {
        fn start(&self, job: u32, results: &UnboundedSender<u32>) {
            results.send(job).unwrap();
        }
    }

    #[tokio::test]
    async fn results_are_taken_in_order_and_in_bounded_portions() {
        let mut jobs = Jobs::new(Arc::new(Echo));
        (0..1500).for_each(|job| jobs.start(job));
        jobs.arrive().await;
        assert_eq!(jobs.take(), (0..1024).collect::<Vec<_>>());
        assert_eq!(jobs.take(), (1024..1500).collect::<Vec<_>>());
        assert!(jobs.take().is_empty());
    }
}
