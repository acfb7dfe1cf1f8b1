//! Check of the revisit policy of a crawl.

use orbweaver_messages::{RevisitBounds, RevisitPolicy};

use crate::{media_range::is_media_range, setting_error::SettingError};

/// Settings of the policy, as errors name them.
pub const SHORTEST_REVISIT: &str = "shortest interval between visits";
pub const LONGEST_REVISIT: &str = "longest interval between visits";
pub const REVISIT_TYPES: &str = "types with intervals between visits of their own";

/// Bounds of intervals, in milliseconds: a second, and ten years.
const SHORTEST_MS: u64 = 1_000;
const LONGEST_MS: u64 = 3650 * 86_400_000;
/// Maximum number of types with intervals of their own: the policy is part of a record that every service keeps in memory.
const MAX_TYPES: usize = 32;

pub(crate) fn check(policy: Option<&RevisitPolicy>) -> Result<(), SettingError> {
    let Some(RevisitPolicy { interval_ms, max_interval_ms, types }) = policy else { return Ok(()) };
    if types.len() > MAX_TYPES {
        return Err(SettingError::new(REVISIT_TYPES, format!("at most {MAX_TYPES}")));
    }
    if let Some(range) = types.keys().find(|range| !is_media_range(range)) {
        let allowed = format!("`type/subtype`, `type/*` or `*/*`, without parameters; {range:?} is not");
        return Err(SettingError::new(REVISIT_TYPES, allowed));
    }
    let bounds = RevisitBounds { interval_ms: *interval_ms, max_interval_ms: *max_interval_ms };
    std::iter::once(&bounds).chain(types.values()).try_for_each(check_bounds)
}

fn check_bounds(RevisitBounds { interval_ms, max_interval_ms }: &RevisitBounds) -> Result<(), SettingError> {
    if !(SHORTEST_MS..=LONGEST_MS).contains(max_interval_ms) {
        return Err(SettingError::new(LONGEST_REVISIT, format!("{SHORTEST_MS} to {LONGEST_MS} milliseconds")));
    }
    if !(SHORTEST_MS..=*max_interval_ms).contains(interval_ms) {
        let allowed = format!("{SHORTEST_MS} to {max_interval_ms} milliseconds, the longest interval of the crawl");
        return Err(SettingError::new(SHORTEST_REVISIT, allowed));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]

    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn intervals_between_visits_have_bounds() {
        let refusal = |interval_ms, max_interval_ms| {
            let bounds = RevisitBounds { interval_ms, max_interval_ms };
            let policy = RevisitPolicy { interval_ms, max_interval_ms, types: BTreeMap::new() };
            let of_type = RevisitPolicy {
                interval_ms: 1_000,
                max_interval_ms: 1_000,
                types: [("image/*".to_owned(), bounds)].into(),
            };
            let refused = [policy, of_type].map(|policy| check(Some(&policy)).err().map(|error| error.to_string()));
            assert_eq!(refused[0], refused[1]);
            refused[0].clone()
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

    #[test]
    fn types_with_intervals_of_their_own_are_media_ranges_and_few() {
        let bounds = RevisitBounds { interval_ms: 1_000, max_interval_ms: 1_000 };
        let policy = |types: &[&str]| RevisitPolicy {
            interval_ms: 1_000,
            max_interval_ms: 1_000,
            types: types.iter().map(|range| ((*range).to_owned(), bounds)).collect(),
        };
        let many: Vec<_> = (0..33).map(|number| format!("image/{number}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert_eq!(check(Some(&policy(&many[..32]))), Ok(()));
        for types in [&many[..], &["pdf"]] {
            assert_eq!(check(Some(&policy(types))).unwrap_err().setting, REVISIT_TYPES);
        }
    }
}
