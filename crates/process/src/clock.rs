//! A wall clock that is set while the process runs.
//!
//! The process goes on by the time that it began with, so nothing of its own is hurried or held up. Others begin with the clock
//! as it is now, and then moments that one names mean something else to the other: so when the clock stays set, the process
//! ends in order, and is started again with it.

use std::time::Duration;

use orbweaver_messages::{CLOCK_MARGIN_MS, Millis};
use orbweaver_stage::{Clock, SystemClock};
use tokio::time::{Instant, MissedTickBehavior, interval};

/// How often the clocks are compared.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A clock that is set back again within this time disturbs nobody.
const PATIENCE: Duration = Duration::from_secs(30);

/// Watches by how much the wall clock was set. Pure.
#[derive(Debug, Default)]
struct Watch {
    /// Since when it is further off than clocks may be apart.
    since: Option<Instant>,
}

impl Watch {
    /// Whether the clock has been `step_ms` off for too long.
    fn is_over(&mut self, step_ms: Millis, now: Instant) -> bool {
        if step_ms.abs() <= CLOCK_MARGIN_MS {
            self.since = None;
            return false;
        }
        now.duration_since(*self.since.get_or_insert(now)) >= PATIENCE
    }
}

/// Resolves when the wall clock was set and stays so, with the step in milliseconds.
pub(crate) async fn stays_set() -> Millis {
    let (mut watch, mut looks) = (Watch::default(), interval(LOOK_EVERY));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let step_ms = SystemClock.step_ms();
        let was_well = watch.since.is_none();
        if watch.is_over(step_ms, Instant::now()) {
            return step_ms;
        }
        if was_well && watch.since.is_some() {
            tracing::warn!(step_ms, "the machine's clock was set; the process goes on by the time that it began with");
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
