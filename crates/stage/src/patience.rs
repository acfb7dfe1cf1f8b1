//! Time without progress, in which a suspension of the process counts as [`LONGEST_STEP`]: of a restore, a tail, or work
//! that is due (docs/protocol.md#parked-records, docs/protocol.md#due-work). Pure.

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

    /// Returns the time without progress; to be called every few seconds.
    pub(crate) fn waited(&mut self, now: Instant) -> Duration {
        self.waited += now.duration_since(self.checked_at).min(LONGEST_STEP);
        self.checked_at = now;
        self.waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspension_is_not_time_without_progress() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut patience = Patience::new(begun);
        let mut waited = |second| patience.waited(at(second)).as_secs();
        assert_eq!([5, 3600, 3605].map(&mut waited), [5, 15, 20], "a suspension of an hour counts as ten seconds");
        patience.moved(at(3606));
        assert_eq!(patience.waited(at(3610)), Duration::from_secs(4));
    }
}
