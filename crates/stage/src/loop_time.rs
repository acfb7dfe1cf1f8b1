//! Time of the loop: what the stage receives as `now`, and when it is called next.

use std::{sync::Arc, time::Duration};

use orbweaver_messages::Millis;
use tokio::time::Instant;

use crate::Clock;

/// Minimum time between two ticks, whatever the stage requests, so that the first arms cannot starve the last.
const TICK_GAP: Duration = Duration::from_millis(1);

pub(crate) struct LoopTime {
    clock: Arc<dyn Clock>,
    now: Millis,
    /// Time of the last check whether the process was suspended.
    checked_ms: Millis,
    ticked_at: Instant,
}

impl LoopTime {
    pub(crate) fn new(clock: Arc<dyn Clock>, now: Instant) -> Self {
        let now_ms = clock.now();
        Self { clock, now: now_ms, checked_ms: now_ms, ticked_at: now }
    }

    /// Returns the time that was read last.
    pub(crate) fn now(&self) -> Millis {
        self.now
    }

    /// Reads the clock, after something that may have taken long.
    pub(crate) fn read(&mut self) -> Millis {
        self.now = self.clock.now();
        self.now
    }

    /// Reads the clock. Returns the time since the last check in milliseconds if it reaches `limit`: the process was
    /// suspended.
    pub(crate) fn check(&mut self, limit: Duration) -> Option<u64> {
        let gap = u64::try_from(self.read().saturating_sub(self.checked_ms)).unwrap_or(0);
        self.checked_ms = self.now;
        (u128::from(gap) >= limit.as_millis()).then_some(gap)
    }

    /// Records a tick.
    pub(crate) fn ticked(&mut self, now: Instant) {
        self.ticked_at = now;
    }

    /// Returns the time of the next tick: the one that the stage requests, or after `interval`.
    pub(crate) fn next_tick(&self, wanted: Option<Millis>, interval: Duration) -> Instant {
        let latest = self.ticked_at + interval;
        let Some(wanted) = wanted else { return latest };
        let wait = u64::try_from(wanted.saturating_sub(self.clock.now())).unwrap_or(0);
        latest.min((Instant::now() + Duration::from_millis(wait)).max(self.ticked_at + TICK_GAP))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScriptedClock;

    const LIMIT: Duration = Duration::from_secs(20);

    #[tokio::test(start_paused = true)]
    async fn a_gap_between_two_checks_is_a_suspension_and_is_reported_once() {
        let clock = Arc::new(ScriptedClock::at(1_000_000));
        let mut time = LoopTime::new(clock.clone(), Instant::now());
        clock.advance(19_999);
        assert_eq!(time.check(LIMIT), None);
        clock.advance(20_000);
        assert_eq!(time.check(LIMIT), Some(20_000));
        assert_eq!((time.check(LIMIT), time.now()), (None, 1_039_999));
        clock.advance(-60_000);
        assert_eq!(time.check(LIMIT), None, "a clock that goes back");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stage_that_wants_a_tick_at_once_gets_it_a_millisecond_after_the_last() {
        let begun = Instant::now();
        let time = LoopTime::new(Arc::new(ScriptedClock::at(1_000_000)), begun);
        let after = |wanted| time.next_tick(wanted, Duration::from_millis(100)) - begun;
        let wanted = [None, Some(0), Some(1_000_040), Some(1_009_000)];
        assert_eq!(wanted.map(after), [100, 1, 40, 100].map(Duration::from_millis));
    }
}
