//! Waiters for records of a topic.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Notify;

use crate::Partition;

/// Waiters for records of one partition of a topic, or of any. A [`Notify`] stores one wake-up while its owner is not
/// waiting, so that none is lost and none accumulate.
#[derive(Default)]
pub(super) struct Waiters(Mutex<Vec<(Option<Partition>, Weak<Notify>)>>);

impl Waiters {
    /// Registers `wake` for appends to `only`, or to all partitions, until it is dropped.
    pub(super) fn join(&self, only: Option<Partition>, wake: &Arc<Notify>) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|(_, wake)| wake.strong_count() > 0);
        waiting.push((only, Arc::downgrade(wake)));
    }

    /// Wakes each waiter for one of these partitions, once.
    pub(super) fn wake(&self, touched: &[Partition]) {
        for (only, wake) in &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            if only.is_none_or(|only| touched.contains(&only))
                && let Some(wake) = wake.upgrade()
            {
                wake.notify_one();
            }
        }
    }
}
