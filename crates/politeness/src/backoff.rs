//! Retry delays of URLs after transient failures, and block durations of sites after refusals.

use orbweaver_messages::Millis;
use orbweaver_url::{SLOTS, Slot};

/// Maximum number of attempts per URL with transient failures (DNS, connection, timeout, 5xx).
pub const MAX_ATTEMPTS: u8 = 3;
/// Number of refusals (429, 503) that ends a URL.
pub const MAX_BLOCKS: u8 = 5;
/// Maximum duration of a block, in milliseconds, whatever the site requests: one day.
pub const MAX_RETRY_AFTER_MS: u64 = 24 * 3_600_000;
/// First block without `Retry-After`, in milliseconds; doubled for each further one in a row.
const FIRST_BLOCK_MS: u64 = 60_000;
/// Part of a block by which [`staggered_ms`] lengthens it at most.
const MAX_STAGGER: u64 = 10;
/// Maximum duration of a staggered block, in milliseconds.
pub const MAX_BLOCK_MS: u64 = MAX_RETRY_AFTER_MS + MAX_RETRY_AFTER_MS / MAX_STAGGER;
/// Time of good responses, without a refusal between them, after which earlier refusals no longer lengthen a block, in
/// milliseconds.
pub const FORGIVEN_AFTER_MS: Millis = 30 * 60_000;

/// Returns the delay after the transient failure of attempt `attempt` (from 1), in milliseconds: 1, 10, 60 seconds.
#[must_use]
pub fn retry_delay_ms(attempt: u8) -> u64 {
    match attempt {
        0 | 1 => 1_000,
        2 => 10_000,
        _ => 60_000,
    }
}

/// Returns the pause that a `Retry-After` header (RFC 9110 section 10.2.3: seconds or an HTTP date) requests from
/// `now` on, in milliseconds, at most [`MAX_RETRY_AFTER_MS`]. `None` for an invalid value, zero or a date in the past.
#[must_use]
pub fn retry_after_ms(value: &str, now: Millis) -> Option<u64> {
    let value = value.trim();
    let asked_ms = if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // Too many digits for the type: a very long time.
        value.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(1000)
    } else {
        let date = httpdate::parse_http_date(value).ok()?;
        let since_epoch = date.duration_since(std::time::UNIX_EPOCH).ok()?;
        let date_ms = Millis::try_from(since_epoch.as_millis()).unwrap_or(Millis::MAX);
        u64::try_from(date_ms.saturating_sub(now)).ok()?
    };
    (asked_ms > 0).then_some(asked_ms.min(MAX_RETRY_AFTER_MS))
}

/// Returns the duration of a block for which the site named no time, in milliseconds: one minute, doubled for each of
/// the `blocks_before` preceding refusals in a row, one day at most.
#[must_use]
pub fn block_ms(blocks_before: u32) -> u64 {
    // Eleven doublings of a minute exceed the limit.
    (FIRST_BLOCK_MS << blocks_before.min(11)).min(MAX_RETRY_AFTER_MS)
}

/// Lengthens a block by up to a tenth, by the slot of its site, so that sites that a common cause blocked at the same
/// moment do not all come back at the same moment. A replay lengthens it by the same amount.
#[must_use]
pub fn staggered_ms(block_ms: u64, slot: Slot) -> u64 {
    let block_ms = block_ms.min(MAX_RETRY_AFTER_MS);
    block_ms + block_ms / MAX_STAGGER * u64::from(slot) / u64::from(SLOTS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sat, 21 Nov 2026 12:00:00 GMT.
    const NOON: Millis = 1_795_262_400_000;

    #[test]
    fn retries_wait_one_ten_and_sixty_seconds() {
        assert_eq!([1, 2, 3, 4].map(retry_delay_ms), [1_000, 10_000, 60_000, 60_000]);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_up_to_a_day_and_ignored_if_it_asks_for_nothing() {
        for (value, asked_ms) in [
            (" 120 ", Some(120_000)),
            ("Sat, 21 Nov 2026 12:00:30 GMT", Some(30_000)),
            ("Saturday, 21-Nov-26 12:00:30 GMT", Some(30_000)),
            ("Sat Nov 21 12:00:30 2026", Some(30_000)),
            ("86401", Some(MAX_RETRY_AFTER_MS)),
            ("99999999999999999999999999", Some(MAX_RETRY_AFTER_MS)),
            ("Thu, 31 Dec 2099 23:59:59 GMT", Some(MAX_RETRY_AFTER_MS)),
            ("", None),
            ("0", None),
            ("-5", None),
            ("1.5", None),
            ("soon", None),
            ("12 s", None),
            ("Sat, 21 Nov 2026 11:59:59 GMT", None),
            ("Fri, 01 Jan 1900 00:00:00 GMT", None),
        ] {
            assert_eq!(retry_after_ms(value, NOON), asked_ms, "{value}");
        }
    }

    #[test]
    fn blocks_in_a_row_double_up_to_a_day() {
        let minutes = [0, 1, 2, 5, 10, 11, u32::MAX].map(|before| block_ms(before) / 60_000);
        assert_eq!(minutes, [1, 2, 4, 32, 1024, 1440, 1440]);
    }

    #[test]
    fn blocks_of_one_duration_end_spread_over_a_tenth_of_it() {
        let ends = [0, SLOTS / 2, SLOTS - 1].map(|slot| staggered_ms(60_000, slot));
        assert_eq!(ends, [60_000, 63_000, 65_999]);
        assert!(staggered_ms(u64::MAX, SLOTS - 1) <= MAX_BLOCK_MS);
    }

    proptest! {
        #[test]
        fn retry_after_never_panics_nor_exceeds_a_day(value in "\\PC{0,40}", now in any::<Millis>()) {
            prop_assert!(retry_after_ms(&value, now).is_none_or(|ms| ms > 0 && ms <= MAX_RETRY_AFTER_MS));
        }
    }
}
