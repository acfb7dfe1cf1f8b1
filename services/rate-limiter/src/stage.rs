//! The stage: decodes records, applies them to the sites of their partition, and groups the results into plans.

use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
    sync::Arc,
};

use bytes::Bytes;
use orbweaver_log::{ConsumerRecord, Offset, Partition, Record, TopicPartition};
use orbweaver_messages::{
    Dispatch, MessageError, Millis, Outcome, OutcomeKind, SiteState, Topic, decode, encode,
    topic::{CONTROL, OUTCOMES, READY, SCHEDULED, SITES},
};
use orbweaver_scope::{ControlChange, ControlRecord};
use orbweaver_stage::{
    Actions, Origin, PartitionContext, Plan, RestoreFrom, RestoreSpec, Stage, StageError, Step, Token,
};
use orbweaver_url::SiteName;

use crate::{
    config::RateLimiterConfig,
    metrics::RateLimiterMetrics,
    partial_messages::{self, DispatchFields, OutcomeFields},
    site::Decision,
    site_terms::SiteTerms,
    sites::{OutcomeEffect, Restored, SiteRecord, Sites},
    view::{SHOWN, SiteView},
};

/// Header of a tombstone: the epoch of its writer, which other records carry in their value (docs/protocol.md#claims).
const EPOCH: &str = "epoch";
/// Time between two ticks, in milliseconds.
const TICK_MS: Millis = 1000;
/// Number of ticks between two sweeps of a partition.
const SWEEP_TICKS: u32 = 60;

/// Actions without jobs and without effects outside the log.
type Wanted = Actions<Infallible, Infallible>;

#[derive(Debug)]
pub struct RateLimiterStage {
    terms: SiteTerms,
    metrics: RateLimiterMetrics,
    view: Arc<SiteView>,
    restored: HashMap<Partition, Restored>,
    partitions: BTreeMap<Partition, Sites>,
    /// Site whose record a plan writes, by the plan's token.
    writing: HashMap<Token, (Partition, SiteName)>,
    next_token: Token,
    next_tick_ms: Millis,
    ticks: u32,
}

/// Records and completed origins of one partition in one batch.
#[derive(Default)]
struct Batch {
    records: Vec<Record>,
    completes: Vec<Origin>,
}

impl RateLimiterStage {
    #[must_use]
    pub fn new(config: RateLimiterConfig, metrics: RateLimiterMetrics) -> Self {
        Self {
            terms: SiteTerms::new(config),
            metrics,
            view: Arc::default(),
            restored: HashMap::new(),
            partitions: BTreeMap::new(),
            writing: HashMap::new(),
            next_token: 0,
            next_tick_ms: 0,
            ticks: 0,
        }
    }

    /// Returns the figures for progress displays.
    #[must_use]
    pub fn view(&self) -> Arc<SiteView> {
        Arc::clone(&self.view)
    }

    /// Handles a dispatch: schedules or defers it.
    fn dispatch(&mut self, record: &ConsumerRecord, batch: &mut Batch, now: Millis) -> Result<(), MessageError> {
        let partition = record.tp.partition;
        let scheduled: DispatchFields<'_> = partial_messages::read("dispatch", record.value.as_ref())?;
        let Some(sites) = self.partitions.get_mut(&partition) else { return Ok(()) };
        let (topic, value) = match sites.decide(&self.terms, &scheduled, now) {
            Decision::Pass { not_before_ms, interval_ms, own_ms } => {
                self.metrics.passed.inc();
                #[allow(clippy::cast_precision_loss, reason = "intervals are at most a day, far below 2^52 ms")]
                self.metrics.interval.observe(interval_ms as f64 / 1000.0);
                let dispatch = record.value.as_deref().unwrap_or_default();
                (READY, partial_messages::ready(not_before_ms, (interval_ms, own_ms), dispatch))
            }
            Decision::Defer { reason, retry_at_ms } => {
                let dispatch: Dispatch = decode("dispatch", record.value.as_ref())?;
                self.metrics.deferred[reason as usize].inc();
                let deferred = Outcome::of(&dispatch, OutcomeKind::Deferred, Some(reason.as_str()), now);
                (OUTCOMES, encode(&Outcome { retry_at_ms: Some(retry_at_ms), ..deferred }))
            }
        };
        let site = scheduled.context.site.as_bytes();
        // The key of the record, if it is the site, avoids a copy.
        let key = record.key.clone().filter(|key| *key == site).unwrap_or_else(|| Bytes::copy_from_slice(site));
        batch.records.push(Record::new(TopicPartition::new(topic, partition), Some(key), Some(value), now));
        Ok(())
    }

    /// Handles an outcome: writes changed state before the outcome completes.
    fn outcome(
        &mut self,
        origin: Origin,
        record: &ConsumerRecord,
        now: Millis,
        actions: &mut Wanted,
    ) -> Result<(), MessageError> {
        let outcome: OutcomeFields<'_> = partial_messages::read("outcome", record.value.as_ref())?;
        let partition = record.tp.partition;
        // A deferral has no effect on the site unless its robots.txt was requested; most are the rate-limiter's own,
        // read back.
        let says_nothing = outcome.kind == OutcomeKind::Deferred && outcome.requested_at_ms.is_none();
        let sites = self.partitions.get_mut(&partition).filter(|_| !says_nothing);
        let Some(sites) = sites else {
            actions.completes.push(origin);
            return Ok(());
        };
        if outcome.is_refusal() {
            self.metrics.refusals.inc();
        }
        match sites.learn(&self.terms, &outcome, origin, now) {
            OutcomeEffect::Complete => actions.completes.push(origin),
            OutcomeEffect::Write(site) => self.write(partition, site, now, actions),
            OutcomeEffect::Held => {}
        }
        Ok(())
    }

    /// Applies a record of `crawl.control`.
    fn control(&mut self, record: &ConsumerRecord) {
        let (partition, offset) = (record.tp.partition, record.offset);
        let (key, value) = (record.key.as_deref(), record.value.as_ref());
        match self.terms.apply(ControlRecord { partition, offset, key, value }) {
            ControlChange::Site(site) => tracing::info!(%site, version = offset, "settings of a site apply"),
            ControlChange::Crawl(_) | ControlChange::Nothing => {}
            ControlChange::RefusedSite(site) => {
                tracing::error!(%site, partition, offset, "settings of a site cannot be used: ignored");
            }
        }
    }

    fn write(&mut self, partition: Partition, site: SiteRecord, now: Millis, actions: &mut Wanted) {
        self.metrics.records.inc();
        let token = self.next_token;
        self.next_token += 1;
        let key = Bytes::copy_from_slice(site.memory.site.as_bytes());
        let record = Record::new(TopicPartition::new(SITES, partition), Some(key), Some(encode(&site.memory)), now);
        self.writing.insert(token, (partition, site.memory.site));
        let steps = vec![Step::Produce(vec![record])];
        actions.plans.push(Plan { steps, completes: site.completes, token: Some(token) });
    }

    fn show(&mut self, now: Millis) {
        for sites in self.partitions.values_mut() {
            sites.unblock(now);
        }
        let blocked = self.view.set(self.partitions.values().map(|sites| sites.blocked(SHOWN)));
        self.metrics.blocked.set(i64::try_from(blocked).unwrap_or(i64::MAX));
        let known: usize = self.partitions.values().map(Sites::len).sum();
        self.metrics.sites.set(i64::try_from(known).unwrap_or(i64::MAX));
    }
}

impl Stage for RateLimiterStage {
    type Job = Infallible;
    type Done = Infallible;
    type Effect = Infallible;

    fn service(&self) -> &'static str {
        "rate-limiter"
    }

    fn topics(&self) -> &'static [Topic] {
        &[SCHEDULED, OUTCOMES]
    }

    fn claimed_topics(&self) -> &'static [Topic] {
        &[SITES]
    }

    fn tails(&self) -> &'static [Topic] {
        &[CONTROL]
    }

    fn restore_specs(&self, _partition: Partition) -> Vec<RestoreSpec> {
        vec![RestoreSpec { topic: SITES, from: RestoreFrom::Start, follow: true }]
    }

    fn restore(&mut self, partition: Partition, record: &ConsumerRecord) -> Result<(), StageError> {
        let restored = self.restored.entry(partition).or_default();
        match decode::<SiteState>("site", record.value.as_ref()) {
            Ok(memory) => restored.take(memory),
            Err(MessageError::Empty(_)) => {
                if let Some(site) = record.key.as_deref().and_then(|key| std::str::from_utf8(key).ok()) {
                    let epoch = record.header(EPOCH).and_then(|epoch| std::str::from_utf8(epoch).ok()?.parse().ok());
                    restored.forget(site, epoch);
                }
            }
            // One undecodable record must not stop the partition indefinitely; the state of its site is learned again.
            Err(error) => tracing::error!(
                topic_partition = %record.tp, offset = record.offset, %error,
                "site record cannot be decoded: ignored; the state of its site is learned again"
            ),
        }
        Ok(())
    }

    fn open(&mut self, opening: PartitionContext, now: Millis) {
        let restored = self.restored.remove(&opening.partition).unwrap_or_default();
        let sites = Sites::open(&self.terms, restored, opening.owner_epoch, now);
        self.partitions.insert(opening.partition, sites);
        self.show(now);
    }

    fn receive_tailed(&mut self, record: &ConsumerRecord, now: Millis, actions: &mut Wanted) -> Result<(), StageError> {
        let partition = record.tp.partition;
        if record.tp.topic == CONTROL {
            self.control(record);
            return Ok(());
        }
        let Some(sites) = self.partitions.get_mut(&partition) else { return Ok(()) };
        let Ok(theirs) = decode::<SiteState>("site", record.value.as_ref()) else { return Ok(()) };
        if theirs.epoch >= sites.epoch {
            return Ok(());
        }
        let answer = sites.restate(&self.terms, &theirs.site, now);
        self.metrics.stale_records.inc();
        tracing::warn!(
            site = %theirs.site,
            epoch = theirs.epoch,
            "site record of a stale owner; the current state follows it"
        );
        if let Some(site) = answer {
            self.write(partition, site, now, actions);
        }
        Ok(())
    }

    fn receive(
        &mut self,
        batch: Vec<(Origin, ConsumerRecord)>,
        now: Millis,
        actions: &mut Wanted,
    ) -> Result<(), StageError> {
        let mut batches: BTreeMap<Partition, Batch> = BTreeMap::new();
        for (origin, record) in batch {
            if record.tp.topic == SCHEDULED {
                let batch = batches.entry(record.tp.partition).or_default();
                match self.dispatch(&record, batch, now) {
                    Ok(()) => batch.completes.push(origin),
                    Err(error) => actions.rejects.push((origin, error.to_string())),
                }
            } else if let Err(error) = self.outcome(origin, &record, now, actions) {
                actions.rejects.push((origin, error.to_string()));
            }
        }
        for batch in batches.into_values() {
            if batch.records.is_empty() {
                actions.completes.extend(batch.completes);
            } else {
                actions.produce(batch.records, batch.completes);
            }
        }
        Ok(())
    }

    /// Treats the record as written: the changed state applies here all the same, and the next record of the site
    /// carries it.
    fn refused(&mut self, token: Token, _reason: &str, now: Millis, actions: &mut Wanted) -> Result<(), StageError> {
        self.plan_durable(token, &[], now, actions)
    }

    fn plan_durable(
        &mut self,
        token: Token,
        _offsets: &[Offset],
        now: Millis,
        actions: &mut Wanted,
    ) -> Result<(), StageError> {
        let Some((partition, name)) = self.writing.remove(&token) else { return Ok(()) };
        let next = self.partitions.get_mut(&partition).and_then(|sites| sites.settled(&name, now));
        if let Some(site) = next {
            self.write(partition, site, now, actions);
        }
        Ok(())
    }

    fn tick(&mut self, now: Millis, actions: &mut Wanted) -> Result<(), StageError> {
        if now < self.next_tick_ms && self.next_tick_ms - now <= TICK_MS {
            return Ok(());
        }
        self.next_tick_ms = now.saturating_add(TICK_MS);
        self.ticks = (self.ticks + 1) % SWEEP_TICKS;
        let mut overtaken = vec![];
        for (number, sites) in &mut self.partitions {
            overtaken.extend(std::iter::from_fn(|| sites.next_overtaken(&self.terms, now)).map(|site| (*number, site)));
            if *number % SWEEP_TICKS == self.ticks {
                sites.sweep(&self.terms, now);
            }
        }
        overtaken.into_iter().for_each(|(partition, site)| self.write(partition, site, now, actions));
        self.show(now);
        Ok(())
    }

    fn next_tick(&self) -> Option<Millis> {
        Some(self.next_tick_ms)
    }

    fn close(&mut self, partition: Partition) {
        self.restored.remove(&partition);
        self.partitions.remove(&partition);
        self.writing.retain(|_, (of, _)| *of != partition);
    }

    fn ends_of_rejected(record: &ConsumerRecord, now: Millis) -> Vec<Record> {
        let dispatch = record.value.as_deref().filter(|_| record.tp.topic == SCHEDULED);
        let outcome = dispatch.and_then(|dispatch| Outcome::of_rejected(dispatch, now));
        let tp = TopicPartition::new(OUTCOMES, record.tp.partition);
        let key = |outcome: &Outcome| Some(Bytes::copy_from_slice(outcome.context.site.as_bytes()));
        let record = outcome.map(|outcome| Record::new(tp, key(&outcome), Some(encode(&outcome)), now));
        record.into_iter().collect()
    }

    fn due(&self, _now: Millis) -> usize {
        // Everything else is decided in the call that delivers it.
        self.partitions.values().map(|sites| sites.held).sum()
    }
}

#[cfg(test)]
mod tests;
