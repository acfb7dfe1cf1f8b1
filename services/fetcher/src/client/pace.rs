//! Least mean rate of a body.
//!
//! The deadline of a request bounds its body, too; a server that sends a byte every few seconds would take a slot until then.

use std::time::Duration;

/// Least mean rate at which bodies have to arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeastRate {
    /// Bytes per second; 0: any rate is enough.
    pub(super) bytes_per_second: u64,
    /// Time from the first byte of a body on, for which any rate is enough.
    pub(super) grace: Duration,
}

/// Bytes of a body, and the time that its server took for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Pace {
    bytes: u64,
    /// Time of waiting for the server since the first byte. Time in which the body was not read, for lack of memory or in
    /// order to decode it, is not part of it.
    waited: Duration,
}

impl Pace {
    /// Adds bytes that arrived after this time of waiting for them.
    pub(super) fn add(&mut self, bytes: usize, waited: Duration) {
        if self.bytes > 0 {
            self.waited += waited;
        }
        self.bytes += bytes as u64;
    }

    /// Returns the time within which more bytes have to arrive, which is zero if the body is too slow already; `None` if
    /// only the deadline of the request counts, as before the first byte, for which a server may compute.
    pub(super) fn patience(self, least: LeastRate) -> Option<Duration> {
        let millis = self.bytes.saturating_mul(1000).checked_div(least.bytes_per_second)?;
        let due = Duration::from_millis(millis).max(least.grace);
        (self.bytes > 0).then(|| due.saturating_sub(self.waited))
    }
}

/// The body arrives more slowly than is permitted.
#[derive(Debug, thiserror::Error)]
#[error("the body arrives too slowly")]
pub(super) struct TooSlow;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEAST: LeastRate = LeastRate { bytes_per_second: 50, grace: Duration::from_secs(10) };

    /// Returns the time of waiting after which a body is too slow that arrives in these pieces, each with the milliseconds
    /// of waiting for it, and then stops; `None` if only the deadline of the request ends it.
    fn ends_after(least: LeastRate, pieces: &[(usize, u64)]) -> Option<Duration> {
        let (mut pace, mut elapsed) = (Pace::default(), Duration::ZERO);
        for (bytes, waited) in pieces {
            let waited = Duration::from_millis(*waited);
            if let Some(patience) = pace.patience(least).filter(|patience| *patience < waited) {
                return Some(elapsed + patience);
            }
            pace.add(*bytes, waited);
            elapsed += waited;
        }
        pace.patience(least).map(|patience| elapsed + patience)
    }

    #[test]
    fn a_body_is_too_slow_once_its_mean_rate_is_below_the_least_one_after_the_grace_period() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (pieces, expected) in [
            // Before the first byte, and without any, only the deadline counts.
            (&[][..], None),
            (&[(1, 15_000)][..], seconds(25)),
            // One byte every two seconds, from the first one on.
            (&[(1, 0), (1, 2000), (1, 2000), (1, 2000), (1, 2000), (1, 2000), (1, 2000)][..], seconds(10)),
            // Just fast enough for the grace period, and a byte less.
            (&[(1, 0), (499, 9999)][..], seconds(10)),
            (&[(1, 0), (500, 9999)][..], Some(Duration::from_millis(10_020))),
            // Early bytes count for later: 5,000 bytes suffice for 100 seconds.
            (&[(5000, 0), (1, 60_000)][..], Some(Duration::from_millis(100_020))),
            (&[(5000, 0), (1, 100_001)][..], seconds(100)),
            // Fifty bytes every second.
            (&[(50, 0), (450, 9000), (50, 1000), (50, 1000)][..], seconds(12)),
        ] {
            assert_eq!(ends_after(LEAST, pieces), expected, "{pieces:?}");
        }
    }

    #[test]
    fn without_a_least_rate_no_body_is_too_slow() {
        let any = LeastRate { bytes_per_second: 0, ..LEAST };
        assert_eq!(ends_after(any, &[(1, 0), (1, 1_000_000)]), None);
    }

    #[test]
    fn the_longest_bodies_and_times_do_not_overflow() {
        let fast = LeastRate { bytes_per_second: u64::MAX, grace: Duration::ZERO };
        for bytes in [1 << 61, u64::MAX] {
            let mut pace = Pace { bytes: bytes - 1, waited: Duration::ZERO };
            pace.add(1, Duration::from_secs(u64::from(u32::MAX)));
            assert!(pace.patience(LEAST).is_some_and(|patience| !patience.is_zero()));
            assert_eq!(pace.patience(fast), Some(Duration::ZERO));
        }
    }

    proptest! {
        #[test]
        fn no_body_that_keeps_the_least_rate_is_too_slow(
            pieces in prop::collection::vec((1_usize..10_000, 0_u64..100), 1..50),
            grace_ms in 0_u64..20_000,
        ) {
            let least = LeastRate { bytes_per_second: 50, grace: Duration::from_millis(grace_ms) };
            // Each piece brings the bytes of the time of waiting for it, and those of the longest time of waiting for the next.
            let bytes_of = |ms: u64| usize::try_from(50 * (ms + 100) / 1000).unwrap();
            let pieces: Vec<_> = pieces.iter().map(|(bytes, ms)| (bytes + bytes_of(*ms), *ms)).collect();
            let total = pieces.iter().map(|(_, ms)| ms).sum();
            prop_assert!(ends_after(least, &pieces).is_some_and(|end| end >= Duration::from_millis(total)));
        }
    }
}
