//! State of a process as a whole: suspended, isolated from the log, killed.

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

/// State of a process.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    frozen: bool,
    cut_off: bool,
    log_away: bool,
    dead: bool,
    /// Time since which its group's coordinator has received nothing from it.
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

/// Gate through which all work and all messages of a process pass.
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

    /// Suspends the process (SIGSTOP) or resumes it (SIGCONT).
    pub fn freeze(&self, frozen: bool) {
        self.change(|state| state.frozen = frozen);
    }

    /// Suspends the process for this time. It resumes on its own, possibly between two steps of its group's
    /// coordinator.
    pub fn freeze_for(self: &Arc<Self>, time: Duration) {
        self.freeze(true);
        let gate = self.clone();
        tokio::spawn(async move {
            sleep(time).await;
            gate.freeze(false);
        });
    }

    /// Isolates the process from the log, not from the web and the store, or ends the isolation.
    pub fn cut_off(&self, cut_off: bool) {
        self.change(|state| state.cut_off = cut_off);
    }

    /// Makes the log unavailable, or available again. No session expires in the meantime.
    pub fn lose_log(&self, away: bool) {
        self.change(|state| state.log_away = away);
    }

    /// Kills the process (SIGKILL).
    pub fn kill(&self) {
        self.change(|state| state.dead = true);
    }

    /// Returns `true` if the process was killed.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// Returns `true` if the process is alive, not suspended, and reaches the log.
    #[must_use]
    pub fn is_well(&self) -> bool {
        let state = *self.state();
        state.reaches_the_log() && !state.dead
    }

    /// Returns the time since which its group has received nothing from it.
    #[must_use]
    pub fn silent_since(&self) -> Option<Instant> {
        self.state().silent_since
    }

    /// Restarts the count of silence, after the coordinator was unavailable.
    pub(crate) fn count_silence_anew(&self) {
        let mut state = self.state();
        if state.silent_since.is_some() {
            state.silent_since = Some(Instant::now());
        }
    }

    /// Waits until the process runs; indefinitely if it was killed.
    pub async fn runs(&self) {
        self.until(|state| !state.frozen && !state.dead).await;
    }

    /// Waits until the process runs and reaches the log; indefinitely if it was killed.
    pub async fn reaches_the_log(&self) {
        self.until(|state| state.reaches_the_log() && !state.dead).await;
    }

    /// Waits until the process reaches the log or was killed: a message in transit does not depend on its sender.
    /// Returns `true` if the process is alive.
    pub async fn sends(&self) -> bool {
        self.until(|state| state.dead || state.reaches_the_log()).await;
        !self.is_dead()
    }

    /// Waits until the process is killed.
    pub async fn ended(&self) {
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
    /// Makes `future` a part of the process behind `gate`.
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
