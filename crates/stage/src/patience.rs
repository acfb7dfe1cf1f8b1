//! Time without progress, in which a suspension of the process counts as [`LONGEST_STEP`]. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// Longest time between two checks that counts. A process that is not suspended checks more often.
const LONGEST_STEP: Duration = Duration::from_secs(10);

/// Sum of the times between checks since the last progress.
#[derive(Debug)]
pub(crate) struct Patience {
    waited: Duration,
    checked_at: Instant,
}

impl Patience {
    pub(crate) fn new(now: Instant) -> Self {
        Self { waited: Duration::ZERO, checked_at: now }
    }

    /// Records progress.
    pub(crate) fn moved(&mut self, now: Instant) {
        *self = Self::new(now);
    }

    /// Returns `true` if the time without progress exceeds `limit`; to be called every few seconds.
    pub(crate) fn exceeds(&mut self, limit: Duration, now: Instant) -> bool {
        self.waited += now.duration_since(self.checked_at).min(LONGEST_STEP);
        self.checked_at = now;
        self.waited > limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspension_is_not_time_without_progress() {
        let limit = Duration::from_secs(60);
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut patience = Patience::new(begun);
        assert!(!patience.exceeds(limit, at(5)));
        assert!(!patience.exceeds(limit, at(3600)), "a suspension of an hour counts as ten seconds");
        assert!(!(3601..=3645).any(|second| patience.exceeds(limit, at(second))));
        assert!(patience.exceeds(limit, at(3646)));
        patience.moved(at(3646));
        assert!(!(3647..=3706).any(|second| patience.exceeds(limit, at(second))));
        assert!(patience.exceeds(limit, at(3707)));
    }
}
