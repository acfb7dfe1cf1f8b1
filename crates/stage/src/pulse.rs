//! What the process around a runner may look at: whether it turns, and what it serves.

use std::sync::{Mutex, MutexGuard, PoisonError};

use orbweaver_log::Partition;
use tokio::time::Instant;

/// Signs of life of a running stage. Shared between the runner, which writes it at each tick, and whoever watches it.
#[derive(Debug, Default)]
pub struct Pulse(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    turned_at: Option<Instant>,
    open: Vec<Partition>,
    restoring: usize,
}

impl Pulse {
    /// When the loop last ticked; `None` before it began.
    #[must_use]
    pub fn turned_at(&self) -> Option<Instant> {
        self.state().turned_at
    }

    /// The partitions that are served.
    #[must_use]
    pub fn open(&self) -> Vec<Partition> {
        self.state().open.clone()
    }

    /// How many partitions are served, and how many are being restored.
    #[must_use]
    pub fn partitions(&self) -> (usize, usize) {
        let state = self.state();
        (state.open.len(), state.restoring)
    }

    /// The loop ticks.
    pub(crate) fn beat(&self, now: Instant, open: impl Iterator<Item = Partition>, restoring: usize) {
        let mut state = self.state();
        state.turned_at = Some(now);
        state.open.clear();
        state.open.extend(open);
        state.restoring = restoring;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
