//! Check of the revisit policy of a crawl.

use orbweaver_messages::RevisitPolicy;

use crate::setting_error::SettingError;

/// Settings of the policy, as errors name them.
pub const SHORTEST_REVISIT: &str = "shortest interval between visits";
pub const LONGEST_REVISIT: &str = "longest interval between visits";

/// Bounds of intervals, in milliseconds: a second, and ten years.
const SHORTEST_MS: u64 = 1_000;
const LONGEST_MS: u64 = 3650 * 86_400_000;

pub(crate) fn check(policy: Option<RevisitPolicy>) -> Result<(), SettingError> {
    let Some(RevisitPolicy { interval_ms, max_interval_ms }) = policy else { return Ok(()) };
    if !(SHORTEST_MS..=LONGEST_MS).contains(&max_interval_ms) {
        return Err(SettingError::new(LONGEST_REVISIT, format!("{SHORTEST_MS} to {LONGEST_MS} milliseconds")));
    }
    if !(SHORTEST_MS..=max_interval_ms).contains(&interval_ms) {
        let allowed = format!("{SHORTEST_MS} to {max_interval_ms} milliseconds, the longest interval of the crawl");
        return Err(SettingError::new(SHORTEST_REVISIT, allowed));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]

    use super::*;

    #[test]
    fn intervals_between_visits_have_bounds() {
        let refusal = |interval_ms, max_interval_ms| {
            check(Some(RevisitPolicy { interval_ms, max_interval_ms })).err().map(|error| error.to_string())
        };
        assert_eq!((check(None).is_ok(), refusal(1_000, 1_000), refusal(1_000, LONGEST_MS)), (true, None, None));
        for (interval_ms, max_interval_ms, setting) in [
            (999, 5_000, "shortest"),
            (5_001, 5_000, "shortest"),
            (0, 999, "longest"),
            (1_000, LONGEST_MS + 1, "longest"),
        ] {
            assert!(
                refusal(interval_ms, max_interval_ms).unwrap().contains(setting),
                "{interval_ms} {max_interval_ms}"
            );
        }
    }
}
