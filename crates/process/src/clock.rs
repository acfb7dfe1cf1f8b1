//! Detection of wall-clock steps while the process runs.
//!
//! The process keeps counting from the time at its start, so a step neither hurries nor delays its own work. Processes
//! that start later use the stepped clock and would interpret exchanged timestamps differently. If the step persists,
//! the process therefore shuts down in order, to be restarted with the new clock.

use std::time::Duration;

use orbweaver_messages::{CLOCK_MARGIN_MS, Millis};
use orbweaver_stage::{Clock, SystemClock};
use tokio::time::{Instant, MissedTickBehavior, interval};

/// Interval at which the clocks are compared.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// A step that is reverted within this time is ignored.
const PATIENCE: Duration = Duration::from_secs(30);

/// Tracks the step of the wall clock. Pure.
#[derive(Debug, Default)]
struct Watch {
    /// Time since which the step exceeds [`CLOCK_MARGIN_MS`], the allowed clock difference.
    since: Option<Instant>,
}

impl Watch {
    /// Returns `true` if the step `step_ms` has exceeded the margin for too long.
    fn is_over(&mut self, step_ms: Millis, now: Instant) -> bool {
        if step_ms.abs() <= CLOCK_MARGIN_MS {
            self.since = None;
            return false;
        }
        now.duration_since(*self.since.get_or_insert(now)) >= PATIENCE
    }
}

/// Resolves with the step in milliseconds once a step of the wall clock has persisted.
pub(crate) async fn stays_set() -> Millis {
    let (mut watch, mut looks) = (Watch::default(), interval(CHECK_INTERVAL));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let step_ms = SystemClock.step_ms();
        let was_well = watch.since.is_none();
        if watch.is_over(step_ms, Instant::now()) {
            return step_ms;
        }
        if was_well && watch.since.is_some() {
            tracing::warn!(
                step_ms,
                "the system clock was changed; the process continues with the time that it started with"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_and_set_back_ends_nothing_and_one_that_stays_set_does() {
        let (mut watch, start) = (Watch::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(!watch.is_over(CLOCK_MARGIN_MS, at(0)));
        assert!(!watch.is_over(3_600_000, at(1)));
        assert!(!watch.is_over(0, at(20)));
        assert!(!watch.is_over(-3_600_000, at(29)));
        assert!(!watch.is_over(-3_600_000, at(58)));
        assert!(watch.is_over(-3_600_000, at(59)));
    }
}
