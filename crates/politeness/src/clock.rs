//! Clock of a site: its interval, adapted to its responses, and the time of its next request.
//!
//! The interval is the longest of the configured interval (a default, or an override for the site), the site's
//! crawl-delay, twice the usual response time, and the learned interval: a refusal (429, 503) doubles the interval, a
//! response that takes far longer than usual lengthens it by half, and each ordinary response shortens the learned
//! interval a little (slow recovery and quick slow-down: the shape of TCP's congestion control, RFC 5681, which settles
//! below the load that overloads the peer). A recovery step is at least a fixed one and at least a 32nd of the interval,
//! so that at most 22 responses undo a refusal, and the longest learned interval is undone within about half an hour.
//! The longer of configured interval and crawl-delay is the requested interval (`asked_ms`).
//!
//! The multiple of the response time is Heritrix' delay factor (there 5, from 3 to 30 s): a site that takes long for a
//! page spends at most a third of its time on the crawler.
//!
//! The interval counts from the *first byte of the previous response* (or its failure), so that the gap in the
//! server's own log is never shorter, however long a connection took. A planner of future requests does not know that
//! time yet and adds the usual response time: [`AdaptiveInterval::spacing_ms`].

use orbweaver_messages::Millis;

/// Maximum learned interval, in milliseconds. A crawl-delay may be longer.
pub const MAX_LEARNED_MS: u64 = 60_000;
/// Lower bound of the interval that a refusal doubles, in milliseconds.
const REFUSED_MS: u64 = 500;
/// Response time up to which a response is never slow, in milliseconds.
const QUICK_MS: u64 = 500;
/// Multiple of the usual response time that an interval has at least, and the longest interval due to it, in
/// milliseconds.
const RESPONSE_FACTOR: u64 = 2;
const MAX_BY_RESPONSE_MS: u64 = 10_000;
/// Cap on response times, in milliseconds, so that one timeout does not distort the average.
const MAX_RESPONSE_MS: u64 = 10_000;
/// Smoothing divisor: a new response time has a weight of 1/5.
const SMOOTHING: u64 = 5;
/// Minimum recovery step, in milliseconds.
const RECOVERY_MS: u64 = 50;
/// Divisor of the learned interval: its minimum recovery step.
const RECOVERY_SHARE: u64 = 32;

/// Interval learned from a site's responses. The default is that of a site without responses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AdaptiveInterval {
    learned_ms: u64,
    /// Smoothed time from a request to the first byte of its response.
    response_ms: Option<u64>,
}

impl AdaptiveInterval {
    /// Restores the interval of a site that refused `blocks` times in a row; `asked_ms` is its requested interval.
    #[must_use]
    pub fn recalled(blocks: u32, asked_ms: u64) -> Self {
        let mut pace = Self::default();
        // More doublings reach the limit from any interval.
        for _ in 0..blocks.min(8) {
            pace.refused(asked_ms);
        }
        pace
    }

    /// Returns the minimum time from a response of the site to its next request, in milliseconds; 0 is unlimited.
    #[must_use]
    pub fn interval_ms(&self, asked_ms: u64) -> u64 {
        // With several requests in flight the crawler itself is the load.
        let usual_ms = self.response_ms.filter(|_| one_in_flight(asked_ms)).unwrap_or(0);
        asked_ms.max(self.learned_ms).max((usual_ms * RESPONSE_FACTOR).min(MAX_BY_RESPONSE_MS))
    }

    /// Returns the time between two planned requests, in milliseconds: the interval, plus the usual response time
    /// if a request waits for the previous response.
    #[must_use]
    pub fn spacing_ms(&self, asked_ms: u64) -> u64 {
        let interval_ms = self.interval_ms(asked_ms);
        let waits_for_answer = one_in_flight(interval_ms);
        interval_ms + if waits_for_answer { self.response_ms.unwrap_or(0) } else { 0 }
    }

    /// Records a response, or a failed attempt, `took_ms` after its request.
    pub fn answered(&mut self, took_ms: u64, asked_ms: u64) {
        let took_ms = took_ms.min(MAX_RESPONSE_MS);
        let usual_ms = self.response_ms.unwrap_or(took_ms);
        self.response_ms = Some((usual_ms * (SMOOTHING - 1) + took_ms) / SMOOTHING);
        // At an unlimited rate the crawler itself is the load: response times do not indicate an interval.
        let slow = asked_ms > 0 && took_ms > QUICK_MS.max(2 * usual_ms);
        if slow {
            self.slow_down(self.interval_ms(asked_ms) * 3 / 2, asked_ms);
        } else {
            let step_ms = RECOVERY_MS.max(asked_ms / 10).max(self.learned_ms / RECOVERY_SHARE);
            self.learned_ms = self.learned_ms.saturating_sub(step_ms);
            if self.learned_ms <= asked_ms {
                self.learned_ms = 0;
            }
        }
    }

    /// Records a refusal (429, 503).
    pub fn refused(&mut self, asked_ms: u64) {
        self.slow_down(self.interval_ms(asked_ms).max(REFUSED_MS) * 2, asked_ms);
    }

    /// Returns `true` if the interval is longer than requested.
    #[must_use]
    pub fn is_slowed(&self) -> bool {
        self.learned_ms > 0
    }

    fn slow_down(&mut self, to_ms: u64, asked_ms: u64) {
        let learned_ms = to_ms.min(MAX_LEARNED_MS);
        self.learned_ms = if learned_ms > asked_ms { learned_ms } else { 0 };
    }
}

/// Returns `true` if a site with this interval has at most one request in flight: unless it is unlimited or above ten
/// requests per second.
#[must_use]
pub fn one_in_flight(interval_ms: u64) -> bool {
    interval_ms >= 100
}

/// Returns the earliest time of a site's next request: `spacing_ms` after `last_ms`, but not before `now`.
///
/// `ahead_ms` is how far `last_ms` may be in the future: 0 for responses, the planning horizon for planned requests. A
/// later `last_ms` comes from a clock that was stepped back since, and counts as the latest possible time.
#[must_use]
pub fn next_request_ms(last_ms: Millis, spacing_ms: u64, ahead_ms: u64, now: Millis) -> Millis {
    let millis = |span: u64| Millis::try_from(span).unwrap_or(Millis::MAX);
    let last_ms = last_ms.min(now.saturating_add(millis(ahead_ms)));
    last_ms.saturating_add(millis(spacing_ms)).max(now)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_refusal_doubles_the_interval_and_ordinary_answers_bring_it_back_in_steps() {
        let mut pace = AdaptiveInterval::default();
        pace.refused(1000);
        assert_eq!(pace.interval_ms(1000), 2000);
        pace.refused(1000);
        assert_eq!(pace.interval_ms(1000), 4000);
        pace.answered(100, 1000);
        assert_eq!(pace.interval_ms(1000), 3875);
        for _ in 0..29 {
            pace.answered(100, 1000);
        }
        assert!(!pace.is_slowed());
        assert_eq!(pace.interval_ms(1000), 1000);
    }

    #[test]
    fn the_longest_learned_interval_is_undone_within_an_hour_but_a_refusal_not_by_a_few_answers() {
        for asked_ms in [100, 250, 1000, 5000] {
            let mut pace = AdaptiveInterval::recalled(u32::MAX, asked_ms);
            let (mut answers, mut elapsed_ms) = (0, 0);
            let mut to_half = None;
            while pace.is_slowed() {
                elapsed_ms += pace.interval_ms(asked_ms);
                answers += 1;
                pace.answered(100, asked_ms);
                to_half = to_half.or((pace.interval_ms(asked_ms) <= MAX_LEARNED_MS / 2).then_some(answers));
            }
            assert!(elapsed_ms < 3_600_000, "{elapsed_ms} ms at {asked_ms} ms");
            assert!(to_half.is_some_and(|answers| answers > 20), "{to_half:?} answers at {asked_ms} ms");
        }
    }

    #[test]
    fn a_site_that_is_always_slow_has_twice_its_answer_time_and_a_far_slower_answer_slows_it_down() {
        let mut pace = AdaptiveInterval::default();
        for _ in 0..20 {
            pace.answered(600, 1000);
        }
        assert_eq!((pace.interval_ms(1000), pace.interval_ms(2000), pace.is_slowed()), (1200, 2000, false));
        pace.answered(1300, 1000);
        assert_eq!(pace.interval_ms(1000), 2220, "half as long again as twice the new average of 740 ms");
        for _ in 0..300 {
            pace.answered(u64::MAX, 1000);
        }
        assert!(!pace.is_slowed() && pace.interval_ms(1000) == MAX_BY_RESPONSE_MS);
    }

    #[test]
    fn the_usual_answer_time_widens_the_plan_only_where_requests_wait_for_answers() {
        let mut pace = AdaptiveInterval::default();
        pace.answered(300, 1000);
        assert_eq!(pace.spacing_ms(1000), 1300);
        assert_eq!(pace.spacing_ms(50), 50);
        assert_eq!(pace.spacing_ms(0), 0);
    }

    #[test]
    fn an_unlimited_site_is_slowed_by_refusals_alone() {
        let mut pace = AdaptiveInterval::default();
        pace.answered(10, 0);
        pace.answered(9000, 0);
        assert_eq!(pace.interval_ms(0), 0);
        pace.refused(0);
        assert_eq!(pace.interval_ms(0), 1000);
    }

    #[test]
    fn refusals_are_recalled_after_a_restart() {
        let mut lived = AdaptiveInterval::default();
        (0..3).for_each(|_| lived.refused(1000));
        assert_eq!(AdaptiveInterval::recalled(3, 1000).interval_ms(1000), lived.interval_ms(1000));
        assert_eq!(AdaptiveInterval::recalled(u32::MAX, 1000).interval_ms(1000), MAX_LEARNED_MS);
        assert_eq!(AdaptiveInterval::recalled(5, 300_000).interval_ms(300_000), 300_000);
    }

    #[test]
    fn a_last_time_in_the_future_counts_as_now() {
        assert_eq!(next_request_ms(5_000_000, 1000, 0, 10_000), 11_000);
        assert_eq!(next_request_ms(5_000_000, 1000, 2000, 10_000), 13_000);
        assert_eq!(next_request_ms(9_500, 1000, 0, 10_000), 10_500);
        assert_eq!(next_request_ms(1, 1000, 0, 10_000), 10_000);
        assert_eq!(next_request_ms(Millis::MAX, u64::MAX, u64::MAX, 10_000), Millis::MAX);
    }

    proptest! {
        #[test]
        fn the_interval_is_never_shorter_than_asked_nor_learned_beyond_its_limit(
            asked in 0u64..400_000,
            events in prop::collection::vec(prop::option::of(0u64..100_000), 0..60),
        ) {
            let mut pace = AdaptiveInterval::default();
            for event in events {
                match event {
                    Some(took) => pace.answered(took, asked),
                    None => pace.refused(asked),
                }
                let interval = pace.interval_ms(asked);
                prop_assert!(interval >= asked && interval <= asked.max(MAX_LEARNED_MS));
                prop_assert!(pace.spacing_ms(asked) <= interval + MAX_RESPONSE_MS);
            }
        }
    }
}
