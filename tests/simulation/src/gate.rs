//! What may happen to a process as a whole: frozen, cut off from the log, killed.

use std::{
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

/// What happens to a process.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    frozen: bool,
    cut_off: bool,
    log_away: bool,
    dead: bool,
    /// Since when the coordinator of its group has not heard of it.
    silent_since: Option<Instant>,
}

impl State {
    fn reaches_the_log(&self) -> bool {
        !self.frozen && !self.cut_off && !self.log_away
    }

    fn hush(&mut self) {
        if self.frozen || self.cut_off || self.dead {
            self.silent_since.get_or_insert_with(Instant::now);
        } else {
            self.silent_since = None;
        }
    }
}

/// The gate through which everything passes that a process does or hears of.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<State>,
    wakers: Mutex<Vec<Waker>>,
    changed: Notify,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        {
            let mut state = self.state();
            change(&mut state);
            state.hush();
        }
        for waker in self.wakers.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            waker.wake();
        }
        self.changed.notify_waiters();
    }

    /// Nothing of it runs any more, until it is thawed (SIGSTOP and SIGCONT).
    pub fn freeze(&self, frozen: bool) {
        self.change(|state| state.frozen = frozen);
    }

    /// Nothing of it runs for so long. It wakes between two looks of its group's coordinator.
    pub fn freeze_for(self: &Arc<Self>, time: Duration) {
        self.freeze(true);
        let gate = self.clone();
        tokio::spawn(async move {
            sleep(time).await;
            gate.freeze(false);
        });
    }

    /// It runs, and reaches the web and the store, but not the log.
    pub fn cut_off(&self, cut_off: bool) {
        self.change(|state| state.cut_off = cut_off);
    }

    /// The log is away, for all: no session ends meanwhile.
    pub fn lose_log(&self, away: bool) {
        self.change(|state| state.log_away = away);
    }

    /// It never runs again (SIGKILL).
    pub fn kill(&self) {
        self.change(|state| state.dead = true);
    }

    /// Whether it was killed.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// Whether nothing hinders it.
    #[must_use]
    pub fn is_well(&self) -> bool {
        let state = *self.state();
        state.reaches_the_log() && !state.dead
    }

    /// Since when its group has not heard of it.
    #[must_use]
    pub fn silent_since(&self) -> Option<Instant> {
        self.state().silent_since
    }

    /// A coordinator that was away begins to count anew.
    pub(crate) fn count_silence_anew(&self) {
        let mut state = self.state();
        if state.silent_since.is_some() {
            state.silent_since = Some(Instant::now());
        }
    }

    /// Waits until it runs; for ever when it was killed.
    pub async fn runs(&self) {
        self.until(|state| !state.frozen && !state.dead).await;
    }

    /// Waits until it runs and reaches the log; for ever when it was killed.
    pub async fn reaches_the_log(&self) {
        self.until(|state| state.reaches_the_log() && !state.dead).await;
    }

    /// Waits until it reaches the log, or was killed: what is on its way in the network does not care who sent it. Whether it
    /// lives.
    pub async fn sends(&self) -> bool {
        self.until(|state| state.dead || state.reaches_the_log()).await;
        !self.is_dead()
    }

    /// Waits until it was killed.
    pub async fn died(&self) {
        self.until(|state| state.dead).await;
    }

    async fn until(&self, holds: impl Fn(State) -> bool) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if holds(*self.state()) {
                return;
            }
            changed.await;
        }
    }
}

/// A future that is polled only while its process runs.
pub struct Gated<F> {
    future: Pin<Box<F>>,
    gate: Arc<Gate>,
}

impl<F: Future> Gated<F> {
    /// `future`, as a part of the process behind `gate`.
    pub fn new(future: F, gate: Arc<Gate>) -> Self {
        Self { future: Box::pin(future), gate }
    }
}

impl<F: Future> Future for Gated<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let state = *self.gate.state();
        if state.frozen || state.dead {
            let mut wakers = self.gate.wakers.lock().unwrap_or_else(PoisonError::into_inner);
            wakers.push(context.waker().clone());
            return Poll::Pending;
        }
        self.future.as_mut().poll(context)
    }
}
