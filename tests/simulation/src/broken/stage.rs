//! Wrapper of a stage: alters the calls between runtime and stage where a rule is disabled, and panics at a poison
//! record.

use std::{sync::Arc, time::Duration};

use orbweaver_log::{ConsumerRecord, Offset, Partition, Record, TopicPartition};
use orbweaver_messages::{Millis, Topic, topic};
use orbweaver_stage::{
    Actions, Incomplete, Origin, PartitionContext, Plan, RestoreFrom, RestoreSpec, Stage, StageError, Token,
};
use serde_json::Value;

use super::{Broken, Rule, records};

/// Age of a newly opened partition with `Rule::Delays` disabled, in milliseconds.
const LONG_AGO_MS: Millis = 24 * 3_600_000;

/// A stage without the disabled rules.
pub(crate) struct BrokenStage<S> {
    stage: S,
    broken: Broken,
    /// The page whose record is poison: an extractor that receives it panics.
    poison: Option<Arc<str>>,
    /// Maximum age of an index over a compacted log: half of the simulated log's delete retention.
    index_within: Duration,
}

impl<S: Stage> BrokenStage<S> {
    pub(crate) fn new(stage: S, broken: Broken, poison: Option<Arc<str>>, index_within: Duration) -> Self {
        Self { stage, broken, poison, index_within }
    }

    fn call(
        &mut self,
        actions: &mut Actions<S::Job, S::Effect>,
        call: impl FnOnce(&mut S, &mut Actions<S::Job, S::Effect>) -> Result<(), StageError>,
    ) -> Result<(), StageError> {
        call(&mut self.stage, actions)?;
        let reverse = |plans: &mut Vec<Plan<_>>| plans.iter_mut().for_each(|plan| plan.steps.reverse());
        match self.stage.service() {
            "fetcher" if self.broken.is_off(Rule::Order) => reverse(&mut actions.plans),
            "normalizer-dedup" if self.broken.is_off(Rule::SeenLast) => reverse(&mut actions.plans),
            "frontier" if self.broken.is_off(Rule::Parking) => actions.parked.clear(),
            _ => {}
        }
        Ok(())
    }
}

/// Returns the URL of the page that a record is about.
fn page_of(record: &ConsumerRecord) -> Option<String> {
    let page: Value = serde_json::from_slice(record.header("page")?).ok()?;
    Some(page["context"]["url"].as_str()?.to_owned())
}

impl<S: Stage> Stage for BrokenStage<S> {
    type Job = S::Job;
    type Done = S::Done;
    type Effect = S::Effect;

    fn service(&self) -> &'static str {
        self.stage.service()
    }

    fn topics(&self) -> &'static [Topic] {
        self.stage.topics()
    }

    fn claimed_topics(&self) -> &'static [Topic] {
        self.stage.claimed_topics()
    }

    fn tails(&self) -> &'static [Topic] {
        self.stage.tails()
    }

    fn assigned(&mut self, partition: Partition) {
        if !self.broken.is_off(Rule::SharesLast) {
            self.stage.assigned(partition);
        }
    }

    fn restore_specs(&self, partition: Partition) -> Vec<RestoreSpec> {
        let mut specs = self.stage.restore_specs(partition);
        specs.retain(|spec| match (self.stage.service(), spec.topic) {
            ("frontier", topic::SCHEDULED) => !self.broken.is_off(Rule::Leases),
            ("frontier", topic::SITE_PAGES) => !self.broken.is_off(Rule::SitePages),
            ("rate-limiter", topic::SITES) => !self.broken.is_off(Rule::Blocks),
            _ => true,
        });
        for spec in &mut specs {
            if let RestoreFrom::FromCheckpoint { within, .. } = &mut spec.from
                && within.is_some()
            {
                *within = (!self.broken.is_off(Rule::IndexAge)).then_some(self.index_within);
            }
        }
        specs
    }

    fn look_back_offset(&self, partition: Partition, topic: Topic) -> Option<Offset> {
        self.stage.look_back_offset(partition, topic)
    }

    fn discard_index(&mut self, partition: Partition, topic: Topic) -> Result<(), StageError> {
        self.stage.discard_index(partition, topic)
    }

    fn restore(&mut self, partition: Partition, record: &ConsumerRecord) -> Result<(), StageError> {
        self.stage.restore(partition, record)
    }

    fn restore_claim(&mut self, partition: Partition, claim: TopicPartition, owner_epoch: Offset) {
        self.stage.restore_claim(partition, claim, owner_epoch);
    }

    fn is_drained(&self, partition: Partition) -> bool {
        self.stage.is_drained(partition)
    }

    fn refreshed(
        &mut self,
        token: Token,
        now: Millis,
        actions: &mut Actions<Self::Job, Self::Effect>,
    ) -> Result<(), StageError> {
        self.call(actions, |stage, actions| stage.refreshed(token, now, actions))
    }

    fn receive_tailed(
        &mut self,
        record: &ConsumerRecord,
        now: Millis,
        actions: &mut Actions<Self::Job, Self::Effect>,
    ) -> Result<(), StageError> {
        self.call(actions, |stage, actions| stage.receive_tailed(record, now, actions))
    }

    fn prepare(&mut self, opening: PartitionContext, now: Millis) -> Result<(), StageError> {
        self.stage.prepare(opening, now)
    }

    fn open(&mut self, opening: PartitionContext, now: Millis) {
        let opened_ms = if self.broken.is_off(Rule::Delays) { now - LONG_AGO_MS } else { now };
        self.stage.open(opening, opened_ms);
    }

    fn incomplete(&self, partition: Partition) -> Incomplete<'_> {
        self.stage.incomplete(partition)
    }

    fn receive(
        &mut self,
        mut batch: Vec<(Origin, ConsumerRecord)>,
        now: Millis,
        actions: &mut Actions<Self::Job, Self::Effect>,
    ) -> Result<(), StageError> {
        if let Some(poison) = self.poison.as_deref()
            && self.stage.service() == "extractor"
            && batch.iter().any(|(_, record)| page_of(record).as_deref() == Some(poison))
        {
            std::panic::panic_any(format!("poison: {poison}"));
        }
        if self.broken.is_off(Rule::BlockTime) && self.stage.service() == "rate-limiter" {
            batch.iter_mut().for_each(|(_, record)| records::as_of(now, record));
        }
        self.call(actions, |stage, actions| stage.receive(batch, now, actions))
    }

    fn plan_durable(
        &mut self,
        token: Token,
        offsets: &[Offset],
        now: Millis,
        actions: &mut Actions<Self::Job, Self::Effect>,
    ) -> Result<(), StageError> {
        self.call(actions, |stage, actions| stage.plan_durable(token, offsets, now, actions))
    }

    fn refused(
        &mut self,
        token: Token,
        reason: &str,
        now: Millis,
        actions: &mut Actions<Self::Job, Self::Effect>,
    ) -> Result<(), StageError> {
        self.call(actions, |stage, actions| stage.refused(token, reason, now, actions))
    }

    fn job_done(
        &mut self,
        done: Self::Done,
        now: Millis,
        actions: &mut Actions<Self::Job, Self::Effect>,
    ) -> Result<(), StageError> {
        self.call(actions, |stage, actions| stage.job_done(done, now, actions))
    }

    fn tick(&mut self, now: Millis, actions: &mut Actions<Self::Job, Self::Effect>) -> Result<(), StageError> {
        self.call(actions, |stage, actions| stage.tick(now, actions))
    }

    fn next_tick(&self) -> Option<Millis> {
        self.stage.next_tick()
    }

    fn needs_proof(&self) -> bool {
        self.stage.needs_proof()
    }

    fn owns_until(&mut self, until_ms: Millis) {
        self.stage.owns_until(until_ms);
    }

    fn passed_over(&mut self, origin: Origin) {
        self.stage.passed_over(origin);
    }

    fn drain(&mut self, partition: Partition) {
        self.stage.drain(partition);
    }

    fn close(&mut self, partition: Partition) {
        self.stage.close(partition);
    }

    fn due(&self, now: Millis) -> usize {
        self.stage.due(now)
    }

    fn ends_of_rejected(record: &ConsumerRecord, now: Millis) -> Vec<Record> {
        S::ends_of_rejected(record, now)
    }
}
