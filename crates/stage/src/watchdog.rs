//! Ends a stage that has due work and makes no progress (docs/protocol.md#parked-records and due-work). Pure.

use std::time::Duration;

use tokio::time::Instant;

/// Watchdog over work that is due, not over parked work or lag.
#[derive(Debug)]
pub(crate) struct Watchdog {
    stall_after: Duration,
    moved_at: Instant,
}

impl Watchdog {
    pub(crate) fn new(stall_after: Duration, now: Instant) -> Self {
        Self { stall_after, moved_at: now }
    }

    /// Records progress: a completion, a durable plan or a finished job.
    pub(crate) fn moved(&mut self, now: Instant) {
        self.moved_at = now;
    }

    /// Returns the time without progress; 0 while no work is due.
    pub(crate) fn stalled_for(&self, now: Instant) -> Duration {
        now.duration_since(self.moved_at)
    }

    /// Returns the time without progress if it has reached the limit; `due` is the amount of work that could progress.
    pub(crate) fn stalled(&mut self, due: usize, now: Instant) -> Option<Duration> {
        if due == 0 {
            self.moved_at = now;
        }
        let still = self.stalled_for(now);
        (still >= self.stall_after).then_some(still)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_stalled_only_when_work_is_due_and_nothing_moves() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut watchdog = Watchdog::new(Duration::from_secs(120), start);
        assert_eq!(watchdog.stalled(0, at(500)), None, "a site that is blocked for a day is not due");
        assert_eq!(watchdog.stalled(3, at(600)), None);
        watchdog.moved(at(610));
        assert_eq!(watchdog.stalled(3, at(729)), None);
        assert_eq!(watchdog.stalled_for(at(729)), Duration::from_secs(119));
        assert_eq!(watchdog.stalled(3, at(730)), Some(Duration::from_secs(120)));
    }
}
