//! Comparison of the clock with those of the active processes, before this one joins its group.
//!
//! A dispatch carries times by the clock of its frontier. To a process whose clock is ahead, it looks late or expired.
//! The dispatches of a frontier whose clock is behind look so to all other processes, and a frontier whose clock is
//! ahead treats the leases that it restores as expired. Receivers correct only times that are ahead of their own.
//!
//! The brokers do not report their time. A record that is appended during an observation, however, was created then, so
//! its timestamp shows the clock of its writer. If none is appended, no dispatch is being processed.

use std::time::Duration;

use orbweaver_log::{Bounds, Log, LogError, Offset, TopicPartition, topic_partitions};
use orbweaver_messages::{
    CLOCK_MARGIN_MS, Millis, SEND_WINDOW_MS, Topic,
    topic::{OUTCOMES, READY, SCHEDULED},
};
use orbweaver_stage::Clock;
use tokio::time::{Instant, sleep};

use crate::ServiceError;

/// Topics whose records carry the time at which they were made, by the services that act on such times.
const COMPARED: [Topic; 3] = [SCHEDULED, READY, OUTCOMES];
const LOOK: Duration = Duration::from_secs(1);
/// Maximum number of partitions per topic from which a record is read.
const PARTITIONS: usize = 2;
/// Timeout per read of a record that is known to exist. The first read connects to the brokers; without a record, no
/// difference is detected.
const READ_WAIT: Duration = Duration::from_secs(5);
/// Maximum wait for the clocks to agree. After the clocks of all machines were set, processes that still use the former
/// time end within half of this: `clock` waits 30 s, and `runtime.shutdown_budget` is 20 s by default.
const PATIENCE: Duration = Duration::from_secs(120);
/// Largest tolerated difference, in milliseconds. A process that is further ahead defers every dispatch unsent; those
/// of a frontier that is further behind are deferred by every other process.
const TOLERATED_MS: Millis = SEND_WINDOW_MS;

/// Result of an observation. A difference is in milliseconds, positive if this clock is ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// No difference was found.
    Agrees,
    /// The difference exceeds the margin.
    Tolerated(Millis),
    /// The difference from all active processes exceeds [`TOLERATED_MS`].
    Refused(Millis),
}

/// Times found by an observation of the log.
#[derive(Debug, Default)]
struct Look {
    /// Time by this clock at the start.
    from_ms: Millis,
    /// Time by this clock at the end.
    to_ms: Millis,
    /// Timestamps of records that were appended during the observation.
    appended: Vec<Millis>,
    /// Timestamps of last records, if none was appended during the observation.
    earlier: Vec<Millis>,
}

impl Look {
    /// Returns the difference from all writers; 0 if this clock is between them. Pure.
    fn difference_ms(&self) -> Millis {
        let times = self.appended.iter();
        let (Some(&oldest), Some(&newest)) = (times.clone().min(), times.max()) else { return 0 };
        if newest < self.from_ms {
            self.from_ms.saturating_sub(newest)
        } else {
            self.to_ms.saturating_sub(oldest).min(0)
        }
    }

    /// Classifies the difference. Pure.
    fn verdict(&self) -> Verdict {
        let difference_ms = self.difference_ms();
        if difference_ms.saturating_abs() > TOLERATED_MS {
            return Verdict::Refused(difference_ms);
        }
        // A single writer, or one that has ended, may have been ahead of the others: not a reason to refuse.
        let newest = self.appended.iter().chain(&self.earlier).max();
        let behind_ms = newest.map_or(0, |newest| newest.saturating_sub(self.to_ms));
        if behind_ms > CLOCK_MARGIN_MS {
            Verdict::Tolerated(behind_ms.saturating_neg())
        } else if difference_ms > CLOCK_MARGIN_MS {
            Verdict::Tolerated(difference_ms)
        } else {
            Verdict::Agrees
        }
    }
}

/// Waits until the clock agrees with those of the active processes.
pub(crate) async fn agrees(log: &dyn Log, clock: &dyn Clock) -> Result<(), ServiceError> {
    let (begun, mut waits) = (Instant::now(), false);
    loop {
        let look = look(log, clock).await.map_err(ServiceError::start)?;
        // Where nothing is appended, a process that keeps the former time would join with it.
        if clock.step_ms().saturating_abs() > CLOCK_MARGIN_MS {
            return Err(ServiceError::Clock(
                "the system clock was changed before the process joined its group".to_owned(),
            ));
        }
        match look.verdict() {
            Verdict::Agrees => return Ok(()),
            Verdict::Tolerated(ahead_ms) => {
                tracing::warn!(
                    ahead_ms,
                    "the clock differs from that of a process that wrote to the log; check the clocks of the machines"
                );
                return Ok(());
            }
            Verdict::Refused(ahead_ms) if begun.elapsed() >= PATIENCE => return Err(refusal(ahead_ms)),
            Verdict::Refused(ahead_ms) => {
                if !std::mem::replace(&mut waits, true) {
                    tracing::warn!(
                        ahead_ms,
                        "the clock differs from those of all running processes; joining the group once they agree"
                    );
                }
            }
        }
    }
}

fn refusal(ahead_ms: Millis) -> ServiceError {
    let by = Duration::from_millis(ahead_ms.unsigned_abs());
    let (by, side) = (humantime::format_duration(by), if ahead_ms > 0 { "ahead of" } else { "behind" });
    ServiceError::Clock(format!(
        "the clock is {by} {side} those of all running processes; synchronize the clocks of the machines"
    ))
}

/// Observes the log for [`LOOK`].
async fn look(log: &dyn Log, clock: &dyn Clock) -> Result<Look, LogError> {
    let tps = topic_partitions(log, &COMPARED)?;
    // The clock first: records above these log ends were made later.
    let from_ms = clock.now();
    let before = log.all_bounds(&tps).await?;
    sleep(LOOK).await;
    let after = log.all_bounds(&tps).await?;
    let mut look = Look { from_ms, ..Look::default() };
    for (tp, end) in chosen(&tps, &before, &after, true) {
        look.appended.extend(last_timestamp(log, tp, end).await?);
    }
    if look.appended.is_empty() {
        for (tp, end) in chosen(&tps, &before, &after, false) {
            look.earlier.extend(last_timestamp(log, tp, end).await?);
        }
    }
    look.to_ms = clock.now();
    Ok(look)
}

/// Returns some partitions of each topic that grew during the observation, or that did not, with their log ends. Pure.
fn chosen(tps: &[TopicPartition], before: &[Bounds], after: &[Bounds], grew: bool) -> Vec<(TopicPartition, Offset)> {
    let mut chosen = vec![];
    for topic in COMPARED {
        let found = tps.iter().zip(before).zip(after).filter(|((tp, before), after)| {
            tp.topic == topic && after.start < after.end && (before.end < after.end) == grew
        });
        chosen.extend(found.take(PARTITIONS).map(|((tp, _), after)| (*tp, after.end)));
    }
    chosen
}

/// Returns the timestamp of the last record; `None` if it was deleted, or did not arrive in time.
async fn last_timestamp(log: &dyn Log, tp: TopicPartition, end: Offset) -> Result<Option<Millis>, LogError> {
    let read = async {
        let mut reader = log.reader(tp, end.saturating_sub(1)).await?;
        reader.read(READ_WAIT).await
    };
    match read.await {
        Ok(records) => Ok(records.last().map(|record| record.timestamp_ms)),
        Err(LogError::OutOfRange { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use orbweaver_log::{Cleanup, MemoryLog, Record, TopicSpec};
    use orbweaver_stage::ScriptedClock;
    use tokio::{join, time::interval};

    use super::*;

    const NOW: Millis = 1_700_000_000_000;
    const HOUR_MS: Millis = 3_600_000;

    fn log() -> MemoryLog {
        MemoryLog::new(&COMPARED.map(|topic| TopicSpec::new(topic, 2, Cleanup::Delete)))
    }

    async fn append(log: &MemoryLog, topic: Topic, timestamp_ms: Millis) {
        let tp = TopicPartition::new(topic, 1);
        log.append(vec![Record::new(tp, None, Some("{}".into()), timestamp_ms)]).await.unwrap();
    }

    /// Appends records with this timestamp without end.
    async fn work(log: &MemoryLog, timestamp_ms: Millis) -> Infallible {
        let mut ticks = interval(LOOK / 4);
        loop {
            ticks.tick().await;
            append(log, SCHEDULED, timestamp_ms).await;
        }
    }

    #[test]
    fn only_a_clock_outside_of_all_that_are_working_is_refused() {
        let verdict = |appended: &[Millis], earlier: &[Millis]| {
            let times = |ages: &[Millis]| ages.iter().map(|age| NOW - age).collect::<Vec<_>>();
            Look { from_ms: NOW, to_ms: NOW + 1000, appended: times(appended), earlier: times(earlier) }.verdict()
        };
        assert_eq!(verdict(&[], &[]), Verdict::Agrees);
        assert_eq!(verdict(&[], &[HOUR_MS]), Verdict::Agrees, "nothing was done for an hour");
        assert_eq!(verdict(&[], &[-HOUR_MS]), Verdict::Tolerated(1000 - HOUR_MS), "its writer may have been ahead");
        assert_eq!(verdict(&[CLOCK_MARGIN_MS, 8000], &[]), Verdict::Agrees);
        assert_eq!(verdict(&[CLOCK_MARGIN_MS + 1], &[]), Verdict::Tolerated(CLOCK_MARGIN_MS + 1));
        assert_eq!(verdict(&[TOLERATED_MS], &[]), Verdict::Tolerated(TOLERATED_MS));
        assert_eq!(verdict(&[TOLERATED_MS + 1, HOUR_MS], &[]), Verdict::Refused(TOLERATED_MS + 1));
        assert_eq!(verdict(&[-HOUR_MS, -2 * HOUR_MS], &[]), Verdict::Refused(1000 - HOUR_MS));
        assert_eq!(verdict(&[HOUR_MS, 0], &[]), Verdict::Agrees, "appended late, after an outage of the brokers");
        assert_eq!(verdict(&[-HOUR_MS, 0], &[]), Verdict::Tolerated(1000 - HOUR_MS), "the other is wrong");
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_whose_clock_differs_from_all_that_are_working_does_not_join() {
        for (step_ms, text) in [(HOUR_MS, "1h ahead of those"), (-HOUR_MS, "1h behind those")] {
            let (log, clock) = (log(), ScriptedClock::at(NOW + step_ms));
            let refused = tokio::select! {
                refused = agrees(&log, &clock) => refused.unwrap_err(),
                never = work(&log, NOW) => match never {},
            };
            assert!(matches!(refused, ServiceError::Clock(_)));
            assert!(refused.to_string().contains(text), "{refused}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_whose_clock_was_set_before_it_joins_ends_to_start_again_with_the_new_time() {
        let (log, clock) = (log(), ScriptedClock::at(NOW - HOUR_MS));
        append(&log, OUTCOMES, NOW).await;
        clock.step(HOUR_MS);
        assert!(matches!(agrees(&log, &clock).await.unwrap_err(), ServiceError::Clock(_)));
        clock.step(-HOUR_MS);
        agrees(&log, &clock).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_joins_once_those_that_use_another_time_have_ended() {
        let (log, clock, begun) = (log(), ScriptedClock::at(NOW), Instant::now());
        let (agreed, ()) = join!(agrees(&log, &clock), append(&log, OUTCOMES, NOW - HOUR_MS));
        agreed.unwrap();
        assert!(begun.elapsed() >= 2 * LOOK, "one look found a difference");
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_joins_at_once_where_nothing_was_done_for_long_or_the_clocks_agree() {
        let (log, clock, begun) = (log(), ScriptedClock::at(NOW), Instant::now());
        append(&log, READY, NOW - HOUR_MS).await;
        agrees(&log, &clock).await.unwrap();
        let (agreed, ()) = join!(agrees(&log, &clock), append(&log, SCHEDULED, NOW));
        agreed.unwrap();
        assert!(begun.elapsed() < 3 * LOOK);
    }
}
