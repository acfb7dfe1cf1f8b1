//! Order of the URLs of a crawl: the weight of a URL as a rank that is fixed at its admission.
//!
//! The weight is a product, and its logarithm a sum. A term that decays with time falls equally fast for all URLs, so
//! that the time of the admission determines their order permanently ("forward decay", Cormode, Shkapenyuk, Srivastava and
//! Xu, 2009): nothing needs to be sorted again.

use orbweaver_messages::{CrawlOrder, Millis, Priority};

use crate::setting_error::SettingError;

/// Rank of a weight of 1 without decay. All ranks are below twice this value.
const WEIGHT_ONE: u32 = 1 << 30;
/// Highest rank.
const LAST_RANK: u32 = 2 * WEIGHT_ONE - 1;
/// Number of ranks in which the weight halves. With the shortest half-life, the ranks last until the year 2089.
const HALVING: f64 = 1024.0;
/// Shortest half-life, in milliseconds.
const SHORTEST_HALF_LIFE_MS: Millis = 3_600_000;
/// Largest factor of the depth, and of the answers of a site, in percent.
const MAX_DEPTH_PERCENT: u16 = 10_000;
const MAX_ANSWERS_PERCENT: u16 = 1_000;
/// Largest share.
const MAX_SHARE: u32 = 10_000;

/// Checks the order and the share of a definition.
pub(crate) fn check(order: &CrawlOrder, share: u32) -> Result<(), SettingError> {
    if !(1..=MAX_DEPTH_PERCENT).contains(&order.depth_percent) {
        return Err(SettingError::new("depth_percent", format!("1 to {MAX_DEPTH_PERCENT}")));
    }
    if order.half_life_ms.is_some_and(|half_life| half_life < SHORTEST_HALF_LIFE_MS) {
        return Err(SettingError::new("half_life_ms", format!("at least {SHORTEST_HALF_LIFE_MS} milliseconds")));
    }
    if order.answers_percent > MAX_ANSWERS_PERCENT {
        return Err(SettingError::new("answers_percent", format!("at most {MAX_ANSWERS_PERCENT}")));
    }
    if !(1..=MAX_SHARE).contains(&share) {
        return Err(SettingError::new("share", format!("1 to {MAX_SHARE}")));
    }
    Ok(())
}

/// Returns the rank of a URL that is admitted at this time: the lower, the heavier. `None` if it is
/// [`rank_of_depth`].
#[must_use]
pub fn rank(order: &CrawlOrder, priority: Priority, depth: u16, admitted_at_ms: Millis) -> Option<u32> {
    let is_by_depth = order.depth_percent == CrawlOrder::BREADTH_FIRST.depth_percent && order.half_life_ms.is_none();
    if is_by_depth && priority == Priority::default() {
        return None;
    }
    let doublings =
        f64::from(priority.doublings()) + depth_doublings(order, depth) + time_doublings(order, admitted_at_ms);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the range of ranks")]
    let rank = (f64::from(WEIGHT_ONE) - HALVING * doublings).round().clamp(0.0, f64::from(LAST_RANK)) as u32;
    Some(rank)
}

/// Returns the rank of a URL without priority in the order breadth first.
#[must_use]
pub fn rank_of_depth(depth: u16) -> u32 {
    WEIGHT_ONE + u32::from(depth) * 1024
}

/// Returns the weight of a URL of this rank at a time.
#[must_use]
pub fn weight(order: &CrawlOrder, rank: u32, now: Millis) -> f64 {
    ((f64::from(WEIGHT_ONE) - f64::from(rank)) / HALVING - time_doublings(order, now)).exp2()
}

/// Each link from the seed multiplies the weight by the factor of the depth.
fn depth_doublings(order: &CrawlOrder, depth: u16) -> f64 {
    f64::from(depth) * (f64::from(order.depth_percent) / 100.0).log2()
}

/// The weight doubles with each half-life that a URL is admitted later.
fn time_doublings(order: &CrawlOrder, time: Millis) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "milliseconds of thousands of years are exact")]
    order.half_life_ms.map_or(0.0, |half_life| time as f64 / half_life.max(SHORTEST_HALF_LIFE_MS) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = 1_790_000_000_000;
    const HOUR: Millis = 3_600_000;

    fn priority(value: i64) -> Priority {
        value.try_into().unwrap()
    }

    fn of(order: CrawlOrder, value: i64, depth: u16, at_ms: Millis) -> u32 {
        rank(&order, priority(value), depth, at_ms).unwrap_or_else(|| rank_of_depth(depth))
    }

    #[test]
    fn breadth_first_ranks_by_depth_and_one_step_of_priority_is_worth_one_link() {
        let breadth = CrawlOrder::BREADTH_FIRST;
        for depth in [0, 1, 7, 40_000] {
            assert_eq!(rank(&breadth, priority(0), depth, NOW), None);
            let almost = CrawlOrder { answers_percent: 30, ..breadth };
            assert_eq!(rank(&almost, priority(0), depth, NOW), None, "answers are no term of a single URL");
            assert_eq!(of(breadth, 3, depth + 3, NOW), rank_of_depth(depth));
            assert_eq!(of(breadth, 1, depth, 0), of(breadth, 1, depth, NOW), "the time does not matter");
        }
        assert!(of(breadth, -10, 0, NOW) > of(breadth, 0, 9, NOW));
    }

    #[test]
    fn depth_first_ranks_the_deepest_first() {
        let ranks: Vec<u32> = [65_535, 300, 2, 1, 0].map(|depth| of(CrawlOrder::DEPTH_FIRST, 0, depth, NOW)).into();
        assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
    }

    #[test]
    fn best_first_prefers_new_urls_and_one_half_life_is_worth_one_step_of_priority() {
        let best = CrawlOrder { half_life_ms: Some(2 * HOUR), ..CrawlOrder::BEST_FIRST };
        assert!(of(best, 0, 1, NOW + HOUR) < of(best, 0, 1, NOW));
        assert_eq!(of(best, 0, 1, NOW + 2 * HOUR), of(best, 1, 1, NOW));
        assert!(of(best, 0, 0, NOW) < of(best, 0, 1, NOW));
        let seen = weight(&best, of(best, 2, 0, NOW), NOW + 6 * HOUR);
        assert!((seen - 0.5).abs() < 0.001, "4 halved three times: {seen}");
    }

    #[test]
    fn ranks_of_the_shortest_half_life_differ_until_2089_and_stay_in_range_with_any_term() {
        let fast = CrawlOrder { half_life_ms: Some(HOUR), ..CrawlOrder::BREADTH_FIRST };
        let in_2089 = 3_755_000_000_000;
        assert!(of(fast, 10, 0, in_2089) > of(fast, 10, 0, in_2089 + HOUR));
        for (depth_percent, value, at_ms) in [(1, -10, Millis::MIN), (10_000, 10, Millis::MAX)] {
            let order = CrawlOrder { depth_percent, ..fast };
            assert!(of(order, value, u16::MAX, at_ms) <= LAST_RANK);
        }
    }

    #[test]
    fn an_order_that_cannot_be_used_is_named_with_what_is_allowed() {
        let order = CrawlOrder::default();
        for (order, share, setting) in [
            (CrawlOrder { depth_percent: 0, ..order }, 100, "depth_percent"),
            (CrawlOrder { depth_percent: 10_001, ..order }, 100, "depth_percent"),
            (CrawlOrder { half_life_ms: Some(HOUR - 1), ..order }, 100, "half_life_ms"),
            (CrawlOrder { answers_percent: 1001, ..order }, 100, "answers_percent"),
            (order, 0, "share"),
            (order, 10_001, "share"),
        ] {
            let error = check(&order, share).unwrap_err();
            assert_eq!(error.setting, setting, "{error}");
        }
        for order in [CrawlOrder::BREADTH_FIRST, CrawlOrder::DEPTH_FIRST, CrawlOrder::BEST_FIRST] {
            assert_eq!(check(&order, 1), Ok(()));
        }
    }
}
