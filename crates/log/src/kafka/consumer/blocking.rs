//! Blocking operations of a member, one at a time: assignment, seeks, probes for rejected positions.

use std::time::Duration;

use futures::future::FutureExt;
use tokio::{
    task::{JoinError, spawn_blocking},
    time::Instant,
};

use super::{KafkaConsumer, LOSS_REPORTED_WITHIN};
use crate::{
    Event, LogError, TopicPartition,
    kafka::{
        blocking_ops::{BlockingTask, RejectedPosition, Through, broken, probe, seek, take_at_ends},
        member_partitions::Seek,
    },
};

/// Retry delays after a failed seek and an unanswered query.
const SEEK_PAUSE: Duration = Duration::from_millis(20);
const ASK_PAUSE: Duration = Duration::from_millis(200);

impl KafkaConsumer {
    /// Starts the next blocking operation unless one is running.
    pub(super) fn start_blocking_task(&mut self) -> Result<(), LogError> {
        if self.work.is_some() || self.work_after.is_some_and(|after| Instant::now() < after) {
            return Ok(());
        }
        let (client, timeout, ready) = (self.client()?.clone(), self.timeout, self.ready.clone());
        if !self.given.tps.is_empty() {
            let given = self.given.clone();
            self.work = Some(BlockingTask::Take(spawn_blocking(move || {
                let taken = take_at_ends(&client, &given, timeout);
                ready.notify_one();
                taken
            })));
            return Ok(());
        }
        if let Some(refused) = self.refused.take_if(|refused| refused.look_at <= Instant::now()) {
            let positions = self.held.positions();
            let named = self.topics.named(&positions.iter().map(|(at, _)| *at).collect::<Vec<_>>());
            self.work =
                Some(BlockingTask::Probe(spawn_blocking(move || probe(&client, &positions, &named, timeout)), refused));
            return Ok(());
        }
        let named = |seek: Seek| Some((seek, self.topics.name(seek.tp.topic)?.clone()));
        let seeks: Vec<_> = self.held.seeks().into_iter().filter_map(named).collect();
        if !seeks.is_empty() {
            self.work = Some(BlockingTask::Seeks(spawn_blocking(move || {
                let sought = seek(&client, seeks, timeout);
                ready.notify_one();
                sought
            })));
        }
        Ok(())
    }

    /// Handles an assignment result: accepted, already lost, or to be retried.
    pub(super) fn on_assigned(&mut self, taken: Result<Result<bool, LogError>, JoinError>) -> Result<(), LogError> {
        self.work = None;
        match taken.map_err(|error| broken(&error))? {
            Ok(is_owned) => {
                let tps: Vec<_> = std::mem::take(&mut self.given.tps).into_iter().map(|(tp, _)| tp).collect();
                if is_owned {
                    self.held.assigned(&tps);
                    self.events.push_back(Event::Assigned(tps));
                }
            }
            Err(LogError::Unavailable(reason)) => {
                let group = &self.group;
                tracing::warn!(group, reason, "assignment is pending: log ends unavailable; retrying");
                self.work_after = Some(Instant::now() + ASK_PAUSE);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Collects the result of a finished operation.
    pub(super) fn finish_blocking_task(&mut self) -> Result<(), LogError> {
        match &mut self.work {
            None => return Ok(()),
            Some(BlockingTask::Take(take)) => {
                let Some(taken) = (&mut *take).now_or_never() else { return Ok(()) };
                return self.on_assigned(taken);
            }
            Some(BlockingTask::Seeks(seeks)) => {
                let Some(sought) = (&mut *seeks).now_or_never() else { return Ok(()) };
                self.work = None;
                for (seek, through) in sought.map_err(|error| broken(&error))? {
                    match through {
                        Through::Yes => self.held.sought(seek),
                        Through::NotYet => self.work_after = Some(Instant::now() + SEEK_PAUSE),
                        Through::OutOfRange => {
                            self.work_after = Some(Instant::now() + ASK_PAUSE);
                            self.position_refused(false);
                        }
                    }
                }
            }
            Some(BlockingTask::Probe(probe, _)) => {
                let Some(answer) = (&mut *probe).now_or_never() else { return Ok(()) };
                let Some(BlockingTask::Probe(_, refused)) = self.work.take() else { return Ok(()) };
                return self.on_probe_result(answer.map_err(|error| broken(&error))?, refused);
            }
        }
        Ok(())
    }

    /// Handles a position that is not in the log: an error, unless the partition is lost meanwhile.
    pub(super) fn position_refused(&mut self, abandoned: bool) {
        let look_at = Instant::now() + LOSS_REPORTED_WITHIN;
        self.refused.get_or_insert(RejectedPosition { look_at, rejected_at: None, abandoned: false }).abandoned |=
            abandoned;
    }

    /// Decides whether a rejected position may recover or is fatal.
    fn on_probe_result(
        &mut self,
        answer: Result<Vec<TopicPartition>, LogError>,
        refused: RejectedPosition,
    ) -> Result<(), LogError> {
        let (now, group) = (Instant::now(), &self.group);
        let RejectedPosition { rejected_at, abandoned, .. } = refused;
        match (answer, rejected_at) {
            (Ok(readable), None) => {
                let rejected_at = self.held.positions().into_iter().filter(|(tp, _)| readable.contains(tp)).collect();
                self.refused = Some(RejectedPosition {
                    look_at: now + LOSS_REPORTED_WITHIN,
                    rejected_at: Some(rejected_at),
                    abandoned,
                });
            }
            (Ok(readable), Some(rejected_at)) => {
                let positions = self.held.positions();
                let stuck = rejected_at.iter().find(|at| readable.contains(&at.0) && positions.contains(at));
                if let Some((tp, offset)) = stuck {
                    let reason = format!("{tp} is stalled at offset {offset}: its position was rejected");
                    return Err(LogError::Fatal(format!("the group `{group}`: {reason}")));
                }
            }
            (Err(LogError::Unavailable(reason)), rejected_at) => {
                tracing::warn!(group, reason, "a position is not in the log; log bounds unavailable, retrying");
                self.refused = Some(RejectedPosition { look_at: now, rejected_at, abandoned });
            }
            // A caller may start a partition elsewhere after `OutOfRange`, but not one that was abandoned.
            (Err(error @ LogError::OutOfRange { .. }), _) if abandoned => {
                return Err(LogError::Fatal(format!("the group `{group}`: {error}")));
            }
            (Err(error), _) => return Err(error),
        }
        Ok(())
    }
}
