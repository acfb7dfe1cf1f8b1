//! What is decided, as records; and records of the frontier's own log, read.

use bytes::Bytes;
use orbweaver_log::{Delivered, Partition, Record, TopicPartition};
use orbweaver_messages::{
    MessageError, Millis, Topic, Waiting, decode, encode,
    topic::{FRONTIER, OUTCOMES, SCHEDULED},
};
use orbweaver_stage::{Origin, Plan, Step};
use orbweaver_url::Fingerprint;

use crate::{decision::Decision, stage::FrontierActions};

/// Header of what the frontier writes into its own log: the owner's epoch (rule 3).
const EPOCH: &str = "epoch";
/// Header of a tombstone: the depth of what ended. A URL that was found again at a lesser depth has not.
const DEPTH: &str = "depth";

/// Collects what is to be appended, by what must complete together.
#[derive(Debug, Default)]
pub(crate) struct Appends {
    pub(crate) partition: Partition,
    pub(crate) epoch: u64,
    now: Millis,
    emitted: Vec<Record>,
    own: Vec<Record>,
    completes: Vec<Origin>,
    refused: Refused,
}

/// What the frontier refuses: outcomes, then tombstones.
#[derive(Debug, Default)]
struct Refused {
    outcomes: Vec<Record>,
    tombstones: Vec<Record>,
    completes: Vec<Origin>,
}

impl Appends {
    /// Nothing yet, at this moment.
    pub(crate) fn at(now: Millis) -> Self {
        Self { now, ..Self::default() }
    }

    pub(crate) fn add(&mut self, decision: Decision, actions: &mut FrontierActions) {
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
                self.own.push(self.write(waiting.fingerprint, Some(encode(&*waiting)), None));
                self.completes.extend(completes);
            }
            Decision::End { fingerprint, depth, completes } => {
                self.own.push(self.write(fingerprint, None, Some(depth)));
                self.completes.extend(completes);
            }
            Decision::Refuse { outcome, completes } => {
                let record = self.record(OUTCOMES, outcome.site.clone(), encode(&*outcome));
                self.refused.outcomes.push(record);
                self.refused.tombstones.push(self.write(outcome.fingerprint, None, Some(outcome.depth)));
                self.refused.completes.extend(completes);
            }
        }
    }

    pub(crate) fn finish(self, actions: &mut FrontierActions) {
        if !self.own.is_empty() {
            actions.produce(self.own, self.completes);
        }
        if !self.emitted.is_empty() {
            actions.produce(self.emitted, vec![]);
        }
        let Refused { outcomes, tombstones, completes } = self.refused;
        if !outcomes.is_empty() {
            let steps = vec![Step::Produce(outcomes), Step::Produce(tombstones)];
            actions.plans.push(Plan { steps, completes, token: None });
        }
    }

    fn record(&self, topic: Topic, key: String, value: Bytes) -> Record {
        let place = TopicPartition::new(topic, self.partition);
        Record { place, key: Some(Bytes::from(key)), value: Some(value), headers: vec![], timestamp_ms: self.now }
    }

    /// A record of the frontier's own log, which carries its epoch.
    fn write(&self, fingerprint: Fingerprint, value: Option<Bytes>, ended_depth: Option<u16>) -> Record {
        let place = TopicPartition::new(FRONTIER, self.partition);
        let key = Some(Bytes::from(fingerprint.to_string()));
        let mut headers = vec![(EPOCH, Bytes::from(self.epoch.to_string()))];
        headers.extend(ended_depth.map(|depth| (DEPTH, Bytes::from(depth.to_string()))));
        Record { place, key, value, headers, timestamp_ms: self.now }
    }
}

/// A record of `crawl.frontier`: a URL that waits, or a tombstone.
pub(crate) fn frontier_record(record: &Delivered) -> Result<(Fingerprint, Option<Waiting>), MessageError> {
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

/// The epoch of its writer, where that was a frontier.
pub(crate) fn epoch_of(record: &Delivered) -> Option<u64> {
    std::str::from_utf8(record.header(EPOCH)?).ok()?.parse().ok()
}

/// The depth of what a tombstone ends; one that names none was made by hand, and ends whatever waits.
pub(crate) fn depth_of(record: &Delivered) -> u16 {
    let depth = record.header(DEPTH).and_then(|depth| std::str::from_utf8(depth).ok()?.parse().ok());
    depth.unwrap_or(0)
}
