//! Updates: entries of a sitemap or feed that were modified since it was last read. Pure.
//!
//! A date without a time of day counts for the whole day, since the page may have been modified later on that day. A time
//! counts for an hour more: many sites generate their sitemaps once per hour.

use orbweaver_messages::{Millis, Page};

/// Maximum number of updates per file. Dates of more pages do not say which to visit first: often they are the time at which
/// the file was generated.
pub(crate) const MAX_UPDATES: usize = 1000;

const HOUR_MS: Millis = 3_600_000;
const DAY_MS: Millis = 24 * HOUR_MS;

/// Time between two readings of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BetweenReadings {
    previous_ms: Millis,
    present_ms: Millis,
}

impl BetweenReadings {
    /// Returns the time between the present reading and the previous one, if there was one.
    pub(crate) fn of(page: &Page) -> Option<Self> {
        Some(Self { previous_ms: page.visited_at_ms?, present_ms: page.fetched_at_ms })
    }

    /// Returns `true` for the date of an entry that was modified in this time. Dates in the future say nothing.
    pub(crate) fn has(&self, modified_ms: Millis) -> bool {
        let margin_ms = if modified_ms % DAY_MS == 0 { DAY_MS } else { HOUR_MS };
        modified_ms > self.previous_ms.saturating_sub(margin_ms) && modified_ms <= self.present_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_is_newer_than_the_last_reading_by_the_precision_of_its_date_and_not_in_the_future() {
        let readings =
            BetweenReadings { previous_ms: 10 * DAY_MS + 7 * HOUR_MS, present_ms: 11 * DAY_MS + 7 * HOUR_MS };
        let is_update = |days: Millis, ms: Millis| readings.has(days * DAY_MS + ms);
        assert!(is_update(10, 0) && is_update(11, 0), "without a time of day");
        assert!(!is_update(9, 0) && !is_update(12, 0));
        assert!(is_update(10, 6 * HOUR_MS + 1) && !is_update(10, 6 * HOUR_MS));
        assert!(is_update(11, 7 * HOUR_MS) && !is_update(11, 7 * HOUR_MS + 1));
    }
}
