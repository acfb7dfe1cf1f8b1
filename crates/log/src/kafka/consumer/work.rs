//! Blocking operations of a member, one at a time: assignment, seeks, probes for rejected positions.

use std::time::Duration;

use futures::future::FutureExt;
use tokio::{
    task::{JoinError, spawn_blocking},
    time::Instant,
};

use super::{KafkaConsumer, LOSS_IS_TOLD_WITHIN};
use crate::{
    Event, LogError, TopicPartition,
    kafka::{
        asked::{Refused, Through, Work, broken, probe, seek, take_at_ends},
        held::Seek,
    },
};

/// Retry delays after a failed seek and an unanswered query.
const SEEK_PAUSE: Duration = Duration::from_millis(20);
const ASK_PAUSE: Duration = Duration::from_millis(200);

impl KafkaConsumer {
    /// Starts the next blocking operation unless one is running.
    pub(super) fn begin_work(&mut self) -> Result<(), LogError> {
        if self.work.is_some() || self.work_after.is_some_and(|after| Instant::now() < after) {
            return Ok(());
        }
        let (client, timeout, ready) = (self.client()?.clone(), self.timeout, self.ready.clone());
        if !self.given.places.is_empty() {
            let given = self.given.clone();
            self.work = Some(Work::Take(spawn_blocking(move || {
                let taken = take_at_ends(&client, &given, timeout);
                ready.notify_one();
                taken
            })));
            return Ok(());
        }
        if let Some(refused) = self.refused.take_if(|refused| refused.look_at <= Instant::now()) {
            let positions = self.held.positions();
            let named = self.topics.named(&positions.iter().map(|(at, _)| *at).collect::<Vec<_>>());
            self.work = Some(Work::Probe(spawn_blocking(move || probe(&client, &positions, &named, timeout)), refused));
            return Ok(());
        }
        let named = |seek: Seek| Some((seek, self.topics.name(seek.place.topic)?.clone()));
        let seeks: Vec<_> = self.held.seeks().into_iter().filter_map(named).collect();
        if !seeks.is_empty() {
            self.work = Some(Work::Seeks(spawn_blocking(move || {
                let sought = seek(&client, seeks, timeout);
                ready.notify_one();
                sought
            })));
        }
        Ok(())
    }

    /// Handles an assignment result: accepted, already lost, or to be retried.
    pub(super) fn taken(&mut self, taken: Result<Result<bool, LogError>, JoinError>) -> Result<(), LogError> {
        self.work = None;
        match taken.map_err(|error| broken(&error))? {
            Ok(ours) => {
                let places: Vec<_> =
                    std::mem::take(&mut self.given.places).into_iter().map(|(place, _)| place).collect();
                if ours {
                    self.held.assigned(&places);
                    self.events.push_back(Event::Assigned(places));
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

    /// Awaits a pending assignment, so that a loss is known before the next commit.
    pub(super) async fn end_taking(&mut self) -> Result<(), LogError> {
        loop {
            self.take_signals()?;
            if self.given.places.is_empty() {
                return Ok(());
            }
            self.begin_work()?;
            let Some(Work::Take(take)) = &mut self.work else {
                return Err(LogError::Unavailable(format!("an assignment of the group `{}` is pending", self.group)));
            };
            let taken = take.await;
            self.taken(taken)?;
        }
    }

    /// Collects the result of a finished operation.
    pub(super) fn end_work(&mut self) -> Result<(), LogError> {
        match &mut self.work {
            None => return Ok(()),
            Some(Work::Take(take)) => {
                let Some(taken) = (&mut *take).now_or_never() else { return Ok(()) };
                return self.taken(taken);
            }
            Some(Work::Seeks(seeks)) => {
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
            Some(Work::Probe(probe, _)) => {
                let Some(answer) = (&mut *probe).now_or_never() else { return Ok(()) };
                let Some(Work::Probe(_, refused)) = self.work.take() else { return Ok(()) };
                return self.probed(answer.map_err(|error| broken(&error))?, refused);
            }
        }
        Ok(())
    }

    /// Handles a position that is not in the log: an error, unless the partition is lost meanwhile.
    pub(super) fn position_refused(&mut self, abandoned: bool) {
        let look_at = Instant::now() + LOSS_IS_TOLD_WITHIN;
        self.refused.get_or_insert(Refused { look_at, stood: None, abandoned: false }).abandoned |= abandoned;
    }

    /// Decides whether a rejected position may recover or is fatal.
    fn probed(&mut self, answer: Result<Vec<TopicPartition>, LogError>, refused: Refused) -> Result<(), LogError> {
        let (now, group) = (Instant::now(), &self.group);
        let Refused { stood, abandoned, .. } = refused;
        match (answer, stood) {
            (Ok(readable), None) => {
                let stood = self.held.positions().into_iter().filter(|(place, _)| readable.contains(place)).collect();
                self.refused = Some(Refused { look_at: now + LOSS_IS_TOLD_WITHIN, stood: Some(stood), abandoned });
            }
            (Ok(readable), Some(stood)) => {
                let positions = self.held.positions();
                let stuck = stood.iter().find(|at| readable.contains(&at.0) && positions.contains(at));
                if let Some((place, offset)) = stuck {
                    let reason = format!("{place} is stalled at offset {offset}: its position was rejected");
                    return Err(LogError::Fatal(format!("the group `{group}`: {reason}")));
                }
            }
            (Err(LogError::Unavailable(reason)), stood) => {
                tracing::warn!(group, reason, "a position is not in the log; log bounds unavailable, retrying");
                self.refused = Some(Refused { look_at: now, stood, abandoned });
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
