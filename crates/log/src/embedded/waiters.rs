//! Waiters for records of a topic.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::Notify;

use crate::Partition;

/// Waiters for records of a topic. A [`Notify`] stores one wake-up while its owner is not waiting, so that none is lost
/// and none accumulate.
#[derive(Default)]
pub(super) struct Waiters {
    next: AtomicU64,
    waiting: Mutex<Vec<Waiter>>,
}

struct Waiter {
    id: u64,
    /// Restricts wake-ups to this partition.
    only: Option<Partition>,
    wake: Arc<Notify>,
}

impl Waiters {
    fn waiting(&self) -> MutexGuard<'_, Vec<Waiter>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers `wake` for appends; the returned ID ends the registration.
    pub(super) fn join(&self, only: Option<Partition>, wake: &Arc<Notify>) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.waiting().push(Waiter { id, only, wake: Arc::clone(wake) });
        id
    }

    pub(super) fn leave(&self, id: u64) {
        self.waiting().retain(|waiter| waiter.id != id);
    }

    /// Wakes each waiter for one of these partitions, once.
    pub(super) fn wake(&self, touched: &[Partition]) {
        for waiter in self.waiting().iter() {
            if waiter.only.is_none_or(|only| touched.contains(&only)) {
                waiter.wake.notify_one();
            }
        }
    }
}
