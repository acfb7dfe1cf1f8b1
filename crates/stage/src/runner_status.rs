//! State of a runner for its process: its last tick, and its partitions.

use std::sync::{Mutex, MutexGuard, PoisonError};

use orbweaver_log::Partition;
use tokio::time::Instant;

/// Status of a running stage. Shared between the runner, which updates it at each tick, and its observers.
#[derive(Debug, Default)]
pub struct RunnerStatus(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    turned_at: Option<Instant>,
    open: Vec<Partition>,
    restoring: usize,
}

impl RunnerStatus {
    /// Returns the time of the last tick; `None` before the first.
    #[must_use]
    pub fn turned_at(&self) -> Option<Instant> {
        self.state().turned_at
    }

    #[must_use]
    pub fn open(&self) -> Vec<Partition> {
        self.state().open.clone()
    }

    /// Returns the numbers of open partitions and of partitions being restored.
    #[must_use]
    pub fn partitions(&self) -> (usize, usize) {
        let state = self.state();
        (state.open.len(), state.restoring)
    }

    /// Updates the status at a tick.
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
