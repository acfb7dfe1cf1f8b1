//! Limit on outstanding dispatches: a few seconds of measured outcomes (docs/protocol.md#outstanding-dispatches). Pure.

use orbweaver_messages::Millis;

use crate::FrontierConfig;

/// Minimum time between two measurements, in milliseconds.
const MEASURED_MS: Millis = 250;

#[derive(Debug)]
pub(crate) struct DispatchLimit {
    limit: usize,
    outcomes: u32,
    per_second: f64,
    measured_at_ms: Millis,
}

impl DispatchLimit {
    pub(crate) fn new(config: &FrontierConfig) -> Self {
        Self { limit: config.min_outstanding, outcomes: 0, per_second: 0.0, measured_at_ms: 0 }
    }

    /// Starts to measure.
    pub(crate) fn start(&mut self, now: Millis) {
        self.measured_at_ms = now;
    }

    /// Counts an outcome.
    pub(crate) fn count(&mut self) {
        self.outcomes += 1;
    }

    /// Returns the largest number of outstanding dispatches.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Adapts the limit to the outcomes since the last measurement.
    pub(crate) fn measure(&mut self, now: Millis, config: &FrontierConfig) {
        let elapsed = now - self.measured_at_ms;
        if elapsed < MEASURED_MS {
            return;
        }
        #[allow(clippy::cast_precision_loss, reason = "elapsed milliseconds are far below 2^52")]
        let rate = f64::from(self.outcomes) * 1000.0 / elapsed as f64;
        self.per_second += 0.3 * (rate - self.per_second);
        (self.outcomes, self.measured_at_ms) = (0, now);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped right after")]
        let two_seconds = (2.0 * self.per_second) as usize;
        self.limit = two_seconds.clamp(config.min_outstanding, config.max_outstanding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_follows_two_seconds_of_outcomes_within_its_bounds() {
        let config = FrontierConfig { min_outstanding: 10, max_outstanding: 500, ..FrontierConfig::default() };
        let mut limit = DispatchLimit::new(&config);
        limit.start(0);
        (0..100).for_each(|_| limit.count());
        limit.measure(249, &config);
        assert_eq!(limit.limit(), 10, "outcomes are kept until the next measurement");
        limit.measure(1_000, &config);
        assert_eq!(limit.limit(), 60);
        let mut measured = |per_second: u32, seconds: Millis, from: Millis| {
            for second in 1..=seconds {
                (0..per_second).for_each(|_| limit.count());
                limit.measure(from + second * 1_000, &config);
            }
            limit.limit()
        };
        assert_eq!(measured(0, 10, 1_000), 10);
        assert!((190..=200).contains(&measured(100, 20, 11_000)));
        assert_eq!(measured(10_000, 20, 31_000), 500);
        assert_eq!(measured(0, 60, 51_000), 10);
    }
}
