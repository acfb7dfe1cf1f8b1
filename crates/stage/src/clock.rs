//! The clock, an effect: deciding code gets `now` as a value.

use std::sync::atomic::{AtomicI64, Ordering};

use orbweaver_messages::Millis;

/// Tells the time.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch.
    fn now(&self) -> Millis;
}

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the edge where the clock is read")]
    fn now(&self) -> Millis {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
    }
}

/// A clock that stands where it was set.
#[derive(Debug, Default)]
pub struct ScriptedClock(AtomicI64);

impl ScriptedClock {
    /// A clock that stands at `now`.
    #[must_use]
    pub fn at(now: Millis) -> Self {
        Self(AtomicI64::new(now))
    }

    /// Moves the clock by `by` milliseconds, back too.
    pub fn advance(&self, by: Millis) {
        self.0.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for ScriptedClock {
    fn now(&self) -> Millis {
        self.0.load(Ordering::SeqCst)
    }
}
