//! Work in flight: the actions of this loop iteration, and the batches of plans and rejects that were submitted.

use std::{collections::BTreeSet, sync::Arc};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use orbweaver_log::{ConsumerRecord, Record};
use orbweaver_messages::Millis;

use crate::{
    Actions, Origin, StageError,
    dead_letter::DeadLetterBatch,
    plan_batch::{DurablePlan, Effects, PlanBatch, RoundResult},
};

/// Batches per loop iteration: one of plans, one of rejects.
const BATCHES_PER_TURN: u64 = 2;

type Round<E> = Result<RoundResult<E>, StageError>;

pub(crate) struct InFlight<J, E> {
    service: &'static str,
    effects: Arc<Effects<E>>,
    /// Plans and rejects wait here for the end of the loop iteration.
    actions: Actions<J, E>,
    rounds: FuturesUnordered<BoxFuture<'static, Round<E>>>,
    /// Numbers of the batches in flight.
    numbers: BTreeSet<u64>,
    last: u64,
}

impl<J, E: Send + 'static> InFlight<J, E> {
    pub(crate) fn new(service: &'static str, effects: Effects<E>) -> Self {
        let (actions, rounds, numbers) = (Actions::default(), FuturesUnordered::new(), BTreeSet::new());
        Self { service, effects: Arc::new(effects), actions, rounds, numbers, last: 0 }
    }

    /// Takes the collector of actions for a call of the stage; to be returned with [`Self::gather`].
    pub(crate) fn actions(&mut self) -> Actions<J, E> {
        std::mem::take(&mut self.actions)
    }

    /// Keeps the plans and rejects of a call until [`Self::submit`].
    pub(crate) fn gather(&mut self, actions: Actions<J, E>) {
        self.actions = actions;
    }

    pub(crate) fn reject(&mut self, origin: Origin, reason: String) {
        self.actions.rejects.push((origin, reason));
    }

    /// Submits the plans and rejects of this loop iteration. Returns the size of the records of the plans in bytes.
    pub(crate) fn submit(&mut self, now: Millis, ends: fn(&ConsumerRecord, Millis) -> Vec<Record>) -> usize {
        let mut bytes = 0;
        if !self.actions.plans.is_empty() {
            let batch = PlanBatch::new(self.next_number(), std::mem::take(&mut self.actions.plans));
            bytes = batch.bytes();
            self.rounds.push(batch.run_round(self.effects.clone()));
        }
        if !self.actions.rejects.is_empty() {
            let number = self.next_number();
            let rejects = std::mem::take(&mut self.actions.rejects);
            self.effects.metrics.rejected.inc_by(rejects.len() as u64);
            let (rejection, log) =
                (DeadLetterBatch { service: self.service, rejects, now, ends }, self.effects.log.clone());
            self.rounds.push(Box::pin(async move {
                let completes = rejection.send(&log).await?;
                Ok(RoundResult { number, landings: vec![DurablePlan::new(completes, None, 0)], rest: None })
            }));
        }
        bytes
    }

    /// Waits for the end of a round; `None` if no batch is in flight. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Round<E>> {
        self.rounds.next().await
    }

    /// Returns the result of a round that has ended.
    pub(crate) fn try_next(&mut self) -> Option<Round<E>> {
        self.rounds.next().now_or_never().flatten()
    }

    /// Starts the next round of a batch, and returns its plans that have ended.
    pub(crate) fn advance(&mut self, round: RoundResult<E>) -> Vec<DurablePlan> {
        match round.rest {
            Some(rest) => self.rounds.push(rest.run_round(self.effects.clone())),
            None => drop(self.numbers.remove(&round.number)),
        }
        round.landings
    }

    /// Returns `true` if no batch is in flight; work of this loop iteration does not count.
    pub(crate) fn has_landed(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Returns `true` if nothing is in flight or waits to be submitted.
    pub(crate) fn is_empty(&self) -> bool {
        self.has_landed() && self.actions.plans.is_empty() && self.actions.rejects.is_empty()
    }

    /// Returns the number below which all batches are that were started by the end of this loop iteration.
    pub(crate) fn barrier(&self) -> u64 {
        self.last + BATCHES_PER_TURN + 1
    }

    /// Returns `true` if no batch below `barrier` is in flight.
    pub(crate) fn is_past(&self, barrier: u64) -> bool {
        self.numbers.first().is_none_or(|oldest| *oldest >= barrier)
    }

    fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.numbers.insert(self.last);
        self.last
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use orbweaver_log::{Cleanup, MemoryLog, TopicPartition, TopicSpec};
    use orbweaver_messages::topic;
    use prometheus::Registry;

    use super::*;
    use crate::{NoEffects, Plan, Step, metrics::Metrics};

    const SEEDS: TopicPartition = TopicPartition { topic: topic::SEEDS, partition: 0 };

    fn in_flight() -> InFlight<Infallible, Infallible> {
        let specs = [topic::SEEDS, topic::DEAD_LETTERS].map(|topic| TopicSpec::new(topic, 1, Cleanup::Delete));
        let metrics = Metrics::register(&Registry::new()).unwrap().service("tested");
        let effects = Effects { log: Arc::new(MemoryLog::new(&specs)), perform: Arc::new(NoEffects), metrics };
        InFlight::new("tested", effects)
    }

    fn origin(offset: u64) -> Origin {
        Origin { tp: SEEDS, offset, assignment_epoch: 1 }
    }

    /// Adds a plan of `steps` steps, which completes the record at offset `completes`.
    fn plan(in_flight: &mut InFlight<Infallible, Infallible>, steps: usize, completes: u64) {
        let record = Record { tp: SEEDS, key: None, value: None, headers: vec![], timestamp_ms: 1 };
        let steps = (0..steps).map(|_| Step::Produce(vec![record.clone()])).collect();
        let mut actions = in_flight.actions();
        actions.plans.push(Plan { steps, completes: vec![origin(completes)], token: None });
        in_flight.gather(actions);
    }

    async fn round(in_flight: &mut InFlight<Infallible, Infallible>) -> Vec<Origin> {
        let round = in_flight.next().await.unwrap().unwrap();
        in_flight.advance(round).into_iter().flat_map(|plan| plan.completes).collect()
    }

    #[tokio::test]
    async fn a_drain_waits_for_the_batches_of_its_own_iteration_and_for_no_later_ones() {
        let mut in_flight = in_flight();
        plan(&mut in_flight, 9, 6);
        in_flight.submit(1, |_, _| vec![]);
        while round(&mut in_flight).await.is_empty() {}
        let barrier = in_flight.barrier();
        plan(&mut in_flight, 1, 7);
        in_flight.reject(origin(8), "unreadable".to_owned());
        in_flight.submit(1, |_, _| vec![]);
        assert!(!in_flight.is_past(barrier));
        plan(&mut in_flight, 9, 9);
        in_flight.submit(1, |_, _| vec![]);
        let mut completed = vec![];
        while completed.len() < 2 {
            completed.append(&mut round(&mut in_flight).await);
        }
        completed.sort_unstable();
        assert_eq!(completed, [origin(7), origin(8)]);
        assert!(in_flight.is_past(barrier) && !in_flight.has_landed());
    }
}
