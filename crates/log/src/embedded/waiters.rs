//! Who waits for records of a topic.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::Notify;

use crate::Partition;

/// Who waits for records of a topic. A [`Notify`] keeps one wake-up for who is not waiting just now, so that none is lost
/// and none piles up.
#[derive(Default)]
pub(super) struct Waiters {
    next: AtomicU64,
    waiting: Mutex<Vec<Waiter>>,
}

struct Waiter {
    id: u64,
    /// Only this partition is of interest.
    only: Option<Partition>,
    wake: Arc<Notify>,
}

impl Waiters {
    fn waiting(&self) -> MutexGuard<'_, Vec<Waiter>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on `wake` is woken by appends; the number ends that.
    pub(super) fn join(&self, only: Option<Partition>, wake: &Arc<Notify>) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.waiting().push(Waiter { id, only, wake: Arc::clone(wake) });
        id
    }

    pub(super) fn leave(&self, id: u64) {
        self.waiting().retain(|waiter| waiter.id != id);
    }

    /// Wakes everyone who waits for one of these partitions, once.
    pub(super) fn wake(&self, touched: &[Partition]) {
        for waiter in self.waiting().iter() {
            if waiter.only.is_none_or(|only| touched.contains(&only)) {
                waiter.wake.notify_one();
            }
        }
    }
}
