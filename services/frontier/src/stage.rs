//! The glue to the runtime: decodes records, opens partitions, groups decisions into plans.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc};

use bytes::Bytes;
use orbweaver_log::{Delivered, Offset, Partition, Record, TopicPartition};
use orbweaver_messages::{
    Dispatch, LEASE_MS, MessageError, Millis, Outcome, OutcomeKind, Topic, Waiting, decode, encode,
    topic::{FRONTIER, OUTCOMES, SCHEDULED},
};
use orbweaver_stage::{Actions, Opening, Origin, RestoreFrom, RestoreSpec, Stage, StageError};
use orbweaver_url::Fingerprint;

use crate::{
    FrontierConfig, FrontierView,
    cap::PageCap,
    decision::{Decision, Turn},
    metrics::FrontierMetrics,
    partition::PartitionFrontier,
};

/// Header of what the frontier writes into its own log: the owner's epoch (rule 3).
const EPOCH: &str = "epoch";

/// How often the sites with the most waiting URLs are looked for, in milliseconds: it reads all sites.
const BUSIEST_EVERY_MS: Millis = 1000;

type FrontierActions = Actions<Infallible, Infallible>;

/// Decisions by partition.
type Decisions = BTreeMap<Partition, Vec<Decision>>;

/// The frontier as a stage.
pub struct FrontierStage {
    config: FrontierConfig,
    metrics: FrontierMetrics,
    view: Arc<FrontierView>,
    cap: PageCap,
    restoring: BTreeMap<Partition, PartitionFrontier>,
    open: BTreeMap<Partition, PartitionFrontier>,
    /// The offset of our claim, by partition.
    epochs: BTreeMap<Partition, u64>,
    draining: Vec<Partition>,
    busiest_at_ms: Millis,
}

impl FrontierStage {
    /// A frontier without partitions.
    #[must_use]
    pub fn new(config: FrontierConfig, metrics: FrontierMetrics, view: Arc<FrontierView>) -> Self {
        let cap = PageCap::new(config.max_pages);
        Self {
            config,
            metrics,
            view,
            cap,
            restoring: BTreeMap::new(),
            open: BTreeMap::new(),
            epochs: BTreeMap::new(),
            draining: vec![],
            busiest_at_ms: 0,
        }
    }

    fn receive_one(
        &mut self,
        origin: Origin,
        record: &Delivered,
        now: Millis,
        out: &mut Decisions,
    ) -> Result<(), String> {
        let number = origin.place.partition;
        let Some(partition) = self.open.get_mut(&number) else {
            return Err(format!("partition {number} is not open"));
        };
        let turn = &mut Turn { now, cap: &mut self.cap, out: out.entry(number).or_default() };
        if origin.place.topic == OUTCOMES {
            let outcome: Outcome = decode("outcome", record.value.as_ref()).map_err(|e| e.to_string())?;
            self.metrics.outcomes.with_label_values(&[kind_name(outcome.kind)]).inc();
            partition.outcome(origin, &outcome, turn);
            return Ok(());
        }
        match frontier_record(record).map_err(|e| e.to_string())? {
            (fingerprint, None) => {
                // Only the frontier writes tombstones; one without an epoch was made by hand and is meant.
                let epoch = epoch_of(record).unwrap_or(u64::MAX);
                partition.tombstone(origin, fingerprint, epoch, turn);
            }
            (_, Some(waiting)) => partition.waiting(origin, waiting, turn),
        }
        Ok(())
    }

    /// Lets every open partition dispatch, and turns all decisions into plans: one append a kind, whatever their number.
    fn carry_out(&mut self, mut decisions: Decisions, now: Millis, actions: &mut FrontierActions) {
        for (number, partition) in &mut self.open {
            if !self.draining.contains(number) {
                let out = decisions.entry(*number).or_default();
                partition.dispatch(&mut Turn { now, cap: &mut self.cap, out });
            }
        }
        let mut appends = Appends { now, ..Appends::default() };
        for (number, decisions) in decisions {
            appends.partition = number;
            appends.epoch = self.epochs.get(&number).copied().unwrap_or_default();
            for decision in decisions {
                self.count(&decision);
                appends.add(decision, actions);
            }
        }
        appends.finish(actions);
        self.show(now);
    }

    fn count(&self, decision: &Decision) {
        match decision {
            Decision::Dispatch(_) => self.metrics.dispatched.inc(),
            Decision::GiveUp(_) => self.metrics.expired.inc(),
            Decision::Rewrite { .. } => self.metrics.reappended.inc(),
            Decision::Complete(_) | Decision::Park(_) | Decision::End { .. } => {}
        }
    }

    fn show(&mut self, now: Millis) {
        let loads = self.open.values().map(PartitionFrontier::load);
        let (waiting, leased, sites) =
            loads.fold((0, 0, 0), |sum, load| (sum.0 + load.0, sum.1 + load.1, sum.2 + load.2));
        self.view.set(waiting, leased, sites);
        for (gauge, value) in
            [(&self.metrics.waiting, waiting), (&self.metrics.leased, leased), (&self.metrics.sites, sites)]
        {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        }
        if now >= self.busiest_at_ms + BUSIEST_EVERY_MS {
            self.busiest_at_ms = now;
            let mut busiest: Vec<_> = self.open.values().flat_map(|partition| partition.busiest(5)).collect();
            busiest.sort_by_key(|load| std::cmp::Reverse(load.waiting));
            busiest.truncate(5);
            self.view.set_busiest(busiest);
        }
    }
}

impl Stage for FrontierStage {
    type Job = Infallible;
    type Done = Infallible;
    type Effect = Infallible;

    fn service(&self) -> &'static str {
        "frontier"
    }

    fn topics(&self) -> &'static [Topic] {
        &[FRONTIER, OUTCOMES]
    }

    fn claims(&self) -> &'static [Topic] {
        &[FRONTIER]
    }

    fn restores(&self, _: Partition) -> Vec<RestoreSpec> {
        let back = RestoreFrom::Back(std::time::Duration::from_millis(LEASE_MS.unsigned_abs()));
        // In this order: dispatches are matched with what waits, deferrals with dispatches.
        [(FRONTIER, RestoreFrom::CommitPoint), (SCHEDULED, back), (OUTCOMES, back)]
            .map(|(topic, from)| RestoreSpec { topic, from, whole: false, follow: false })
            .to_vec()
    }

    fn restore(&mut self, partition: Partition, record: &Delivered) -> Result<(), StageError> {
        let config = &self.config;
        let index =
            self.restoring.entry(partition).or_insert_with(|| PartitionFrontier::new(partition, config.clone()));
        // What cannot be read here went, or will go, to the dead letters when it is received.
        match record.place.topic {
            FRONTIER => {
                if let Ok((fingerprint, waiting)) = frontier_record(record) {
                    index.restore_record(record.offset, fingerprint, waiting);
                }
            }
            SCHEDULED => {
                if let Ok(dispatch) = decode::<Dispatch>("dispatch", record.value.as_ref()) {
                    index.restore_dispatch(dispatch);
                }
            }
            _ => {
                if let Ok(outcome) = decode::<Outcome>("outcome", record.value.as_ref()) {
                    index.restore_outcome(outcome.fingerprint, outcome.id, outcome.kind);
                }
            }
        }
        Ok(())
    }

    fn open(&mut self, opening: Opening, now: Millis) -> Vec<(Topic, Offset)> {
        let number = opening.partition;
        let fresh = || PartitionFrontier::new(number, self.config.clone());
        let mut partition = self.restoring.remove(&number).unwrap_or_else(fresh);
        let waiting = partition.open(opening.claim, opening.assignment, now, &mut self.cap);
        self.epochs.insert(number, opening.claim);
        self.draining.retain(|draining| *draining != number);
        self.open.insert(number, partition);
        waiting.into_iter().map(|offset| (FRONTIER, offset)).collect()
    }

    fn receive(&mut self, batch: Vec<(Origin, Delivered)>, now: Millis, actions: &mut FrontierActions) {
        let mut decisions = Decisions::new();
        for (origin, record) in batch {
            if let Err(reason) = self.receive_one(origin, &record, now, &mut decisions) {
                actions.rejects.push((origin, reason));
            }
        }
        self.carry_out(decisions, now, actions);
    }

    fn tick(&mut self, now: Millis, actions: &mut FrontierActions) {
        let mut decisions = Decisions::new();
        for (number, partition) in &mut self.open {
            let out = decisions.entry(*number).or_default();
            partition.tick(&mut Turn { now, cap: &mut self.cap, out });
        }
        self.carry_out(decisions, now, actions);
    }

    fn next_tick(&self) -> Option<Millis> {
        self.open.values().filter_map(PartitionFrontier::next_moment_ms).min()
    }

    fn drain(&mut self, partition: Partition) {
        self.draining.push(partition);
    }

    fn close(&mut self, partition: Partition) {
        self.open.remove(&partition);
        self.restoring.remove(&partition);
        self.epochs.remove(&partition);
        self.draining.retain(|draining| *draining != partition);
    }

    fn due(&self, _: Millis) -> usize {
        if self.cap.is_exhausted() { 0 } else { self.open.values().filter(|partition| partition.is_due()).count() }
    }
}

/// Collects what is to be appended, by what must complete together.
#[derive(Default)]
struct Appends {
    partition: Partition,
    epoch: u64,
    now: Millis,
    emitted: Vec<Record>,
    own: Vec<Record>,
    completes: Vec<Origin>,
}

impl Appends {
    fn add(&mut self, decision: Decision, actions: &mut FrontierActions) {
        match decision {
            Decision::Complete(origin) => actions.completes.push(origin),
            Decision::Park(origin) => actions.parked.push(origin),
            Decision::Dispatch(dispatch) => {
                let record = self.record(SCHEDULED, dispatch.site.clone(), encode(&*dispatch));
                self.emitted.push(record);
            }
            Decision::GiveUp(outcome) => {
                let record = self.record(OUTCOMES, outcome.site.clone(), encode(&*outcome));
                self.emitted.push(record);
            }
            Decision::Rewrite { waiting, completes } => {
                self.write(waiting.fingerprint, Some(encode(&*waiting)));
                self.completes.extend(completes);
            }
            Decision::End { fingerprint, completes } => {
                self.write(fingerprint, None);
                self.completes.extend(completes);
            }
        }
    }

    fn finish(self, actions: &mut FrontierActions) {
        if !self.own.is_empty() {
            actions.produce(self.own, self.completes);
        }
        if !self.emitted.is_empty() {
            actions.produce(self.emitted, vec![]);
        }
    }

    fn record(&self, topic: Topic, key: String, value: Bytes) -> Record {
        let place = TopicPartition::new(topic, self.partition);
        Record { place, key: Some(Bytes::from(key)), value: Some(value), headers: vec![], timestamp_ms: self.now }
    }

    /// A record of the frontier's own log, which carries its epoch.
    fn write(&mut self, fingerprint: Fingerprint, value: Option<Bytes>) {
        let place = TopicPartition::new(FRONTIER, self.partition);
        let key = Some(Bytes::from(fingerprint.to_string()));
        let headers = vec![(EPOCH, Bytes::from(self.epoch.to_string()))];
        self.own.push(Record { place, key, value, headers, timestamp_ms: self.now });
    }
}

fn frontier_record(record: &Delivered) -> Result<(Fingerprint, Option<Waiting>), MessageError> {
    if record.value.is_some() {
        let waiting: Waiting = decode("waiting", record.value.as_ref())?;
        return Ok((waiting.fingerprint, Some(waiting)));
    }
    let key = record.key.as_deref().and_then(|key| std::str::from_utf8(key).ok());
    let fingerprint = key.unwrap_or_default().parse::<Fingerprint>();
    let invalid = |error: orbweaver_url::FingerprintError| MessageError::Invalid {
        message: "waiting",
        reason: format!("the key of a tombstone: {error}"),
    };
    Ok((fingerprint.map_err(invalid)?, None))
}

fn epoch_of(record: &Delivered) -> Option<u64> {
    std::str::from_utf8(record.header(EPOCH)?).ok()?.parse().ok()
}

pub(crate) fn kind_name(kind: OutcomeKind) -> &'static str {
    match kind {
        OutcomeKind::Fetched => "fetched",
        OutcomeKind::Unchanged => "unchanged",
        OutcomeKind::Redirected => "redirected",
        OutcomeKind::Refused => "refused",
        OutcomeKind::Blocked => "blocked",
        OutcomeKind::Retry => "retry",
        OutcomeKind::Deferred => "deferred",
        OutcomeKind::Gone => "gone",
    }
}
