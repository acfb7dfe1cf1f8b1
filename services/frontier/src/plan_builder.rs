//! Conversion of decisions to records, and decoding of records of the frontier's own log.

use bytes::Bytes;
use orbweaver_log::{ConsumerRecord, Offset, Partition, Record, TopicPartition};
use orbweaver_messages::{
    DeadLetter, FrontierUrl, MessageError, Millis, Outcome, Topic, decode, encode,
    topic::{CHANGES, DEAD_LETTERS, FRONTIER, OUTCOMES, SCHEDULED, SITE_PAGES},
};
use orbweaver_stage::{DEAD_LETTER_HEADER, Origin, Plan, Step, Token};
use orbweaver_url::Fingerprint;

use crate::{
    decision::{Decision, Tombstone},
    index::QueueKey,
    stage::{FrontierActions, SERVICE},
};

/// Header of the records that the frontier writes into its own log: the owner epoch (docs/protocol.md#claims).
const EPOCH: &str = "epoch";
/// Headers of a tombstone; see [`Tombstone`].
const DEPTH: &str = "depth";
const ENDS: &str = "ends";

/// Collects the records to be appended, grouped by what must complete together.
#[derive(Debug, Default)]
pub(crate) struct PlanBuilder {
    pub(crate) partition: Partition,
    pub(crate) epoch: u64,
    now: Millis,
    emitted: Vec<Record>,
    /// Changes of pages, and counts of pages, which precede the records of their URLs.
    preceding: Vec<Record>,
    own: Vec<Record>,
    completes: Vec<Origin>,
    /// URLs that the frontier itself ends: dead letters of stuck URLs, then outcomes, then tombstones.
    letters: Vec<Record>,
    outcomes: Vec<Record>,
    tombstones: Vec<Record>,
    /// Origins that complete with those tombstones.
    unasked: Vec<Origin>,
}

impl PlanBuilder {
    /// Creates an empty collection for the time `now`.
    pub(crate) fn at(now: Millis) -> Self {
        Self { now, ..Self::default() }
    }

    pub(crate) fn add(&mut self, decision: Decision, actions: &mut FrontierActions) {
        match decision {
            Decision::Complete(origin) => actions.completes.push(origin),
            Decision::Park(origin) => actions.parked.push(origin),
            Decision::Dispatch { dispatch, .. } => {
                let record = self.record(SCHEDULED, &dispatch.context.site, Some(encode(&*dispatch)));
                self.emitted.push(record);
            }
            Decision::Rewrite { waiting, completes } => {
                self.own.push(self.write(waiting.context.fingerprint, Some(encode(&*waiting))));
                self.completes.extend(completes);
            }
            Decision::Change(change) => {
                self.preceding.push(self.record(CHANGES, &change.context.site, Some(encode(&*change))));
            }
            Decision::CountPages(count) => {
                let queue = QueueKey::of_first_visits(&count.crawl, &count.site);
                self.preceding.push(self.record(SITE_PAGES, &queue.to_string(), Some(encode(&*count))));
            }
            Decision::ForgetPages(queue) => self.preceding.push(self.record(SITE_PAGES, &queue.to_string(), None)),
            Decision::End { fingerprint, depth, ends, completes } => {
                self.own.push(self.tombstone(fingerprint, depth, ends));
                self.completes.extend(completes);
            }
            Decision::Refuse { outcome, ends, completes } => self.end_unasked(&outcome, ends, completes),
            Decision::Abandon { outcome, waiting, origin, reason } => {
                let letter = self.letter(&waiting, origin, reason);
                self.letters.push(letter);
                self.end_unasked(&outcome, origin.offset, vec![origin]);
            }
        }
    }

    fn end_unasked(&mut self, outcome: &Outcome, ends: Offset, completes: Vec<Origin>) {
        let record = self.record(OUTCOMES, &outcome.context.site, Some(encode(outcome)));
        let tombstone = self.tombstone(outcome.context.fingerprint, outcome.context.depth, ends);
        self.outcomes.push(record);
        self.tombstones.push(tombstone);
        self.unasked.extend(completes);
    }

    /// Returns the dead letter of a URL: its record, which queues it again when replayed.
    fn letter(&self, waiting: &FrontierUrl, origin: Origin, reason: String) -> Record {
        let letter = DeadLetter {
            service: SERVICE.to_owned(),
            reason,
            topic: FRONTIER.0.to_owned(),
            partition: self.partition,
            offset: origin.offset,
            rejected_at_ms: self.now,
        };
        let mut record = self.record(FRONTIER, &waiting.context.fingerprint.to_string(), Some(encode(waiting)));
        record.tp.topic = DEAD_LETTERS;
        record.headers.insert(0, (DEAD_LETTER_HEADER, encode(&letter)));
        record
    }

    /// Converts everything to plans; `dispatches` returns the token of a plan with dispatches.
    pub(crate) fn finish(self, dispatches: impl FnOnce() -> Token, actions: &mut FrontierActions) {
        if !self.own.is_empty() || !self.preceding.is_empty() {
            let steps = [self.preceding, self.own].into_iter().filter(|records| !records.is_empty());
            let steps: Vec<_> = steps.map(Step::Produce).collect();
            actions.plans.push(Plan { steps, completes: self.completes, token: None });
        }
        if !self.emitted.is_empty() {
            let steps = vec![Step::Produce(self.emitted)];
            actions.plans.push(Plan { steps, completes: vec![], token: Some(dispatches()) });
        }
        let steps = [self.letters, self.outcomes, self.tombstones].into_iter().filter(|records| !records.is_empty());
        let steps: Vec<_> = steps.map(Step::Produce).collect();
        if !steps.is_empty() {
            actions.plans.push(Plan { steps, completes: self.unasked, token: None });
        }
    }

    fn record(&self, topic: Topic, key: &str, value: Option<Bytes>) -> Record {
        let tp = TopicPartition::new(topic, self.partition);
        Record::new(tp, Some(Bytes::copy_from_slice(key.as_bytes())), value, self.now)
    }

    /// Returns a record for the frontier's own log, with the owner epoch.
    fn write(&self, fingerprint: Fingerprint, value: Option<Bytes>) -> Record {
        let mut record = self.record(FRONTIER, &fingerprint.to_string(), value);
        record.headers.push((EPOCH, Bytes::from(self.epoch.to_string())));
        record
    }

    fn tombstone(&self, fingerprint: Fingerprint, depth: u16, ends: Offset) -> Record {
        let mut record = self.write(fingerprint, None);
        record.headers.push((DEPTH, Bytes::from(depth.to_string())));
        record.headers.push((ENDS, Bytes::from(ends.to_string())));
        record
    }
}

/// Returns the queue of the tombstone of a number of pages.
pub(crate) fn forgotten(record: &ConsumerRecord) -> Option<QueueKey> {
    std::str::from_utf8(record.key.as_deref()?).ok()?.parse().ok()
}

/// Decodes a record of `crawl.frontier`: a queued URL, or a tombstone.
pub(crate) fn frontier_record(record: &ConsumerRecord) -> Result<(Fingerprint, Option<FrontierUrl>), MessageError> {
    if record.value.is_some() {
        let waiting: FrontierUrl = decode("waiting", record.value.as_ref())?;
        return Ok((waiting.context.fingerprint, Some(waiting)));
    }
    let key = record.key.as_deref().and_then(|key| std::str::from_utf8(key).ok());
    let fingerprint = key.unwrap_or_default().parse::<Fingerprint>();
    let invalid = |error: orbweaver_url::FingerprintError| MessageError::Invalid {
        message: "waiting",
        reason: format!("invalid key of a tombstone: {error}"),
    };
    Ok((fingerprint.map_err(invalid)?, None))
}

/// Returns the content of a tombstone. Only the frontier writes tombstones; one without headers was written manually
/// and ends any queued record of its URL.
pub(crate) fn tombstone_of(record: &ConsumerRecord) -> Tombstone {
    let text = |name| std::str::from_utf8(record.header(name)?).ok();
    Tombstone {
        epoch: text(EPOCH).and_then(|epoch| epoch.parse().ok()).unwrap_or(u64::MAX),
        ends: text(ENDS).and_then(|offset| offset.parse().ok()).unwrap_or(Offset::MAX),
        depth: text(DEPTH).and_then(|depth| depth.parse().ok()).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]

    use orbweaver_messages::{Dispatch, DispatchId, OutcomeKind, UrlContext};
    use orbweaver_stage::Actions;

    use super::*;

    #[test]
    fn a_url_is_given_up_by_its_dead_letter_then_its_outcome_then_its_tombstone() {
        let context =
            UrlContext::of_seed("docs".parse().unwrap(), "https://example.org/".to_owned(), "example.org".into());
        let waiting = FrontierUrl::admitted(context, 5);
        let dispatch = Dispatch::of(&waiting, DispatchId { epoch: 0, sequence: 0 }, false, 5);
        let outcome = Outcome::of(&dispatch, OutcomeKind::Gone, Some("stuck"), 5);
        let origin = Origin { tp: TopicPartition::new(FRONTIER, 3), offset: 17, assignment_epoch: 1 };
        let (mut appends, mut actions) = (PlanBuilder::at(5), Actions::default());
        appends.partition = 3;
        let (outcome, reason) = (outcome.into(), "stuck: for a test".to_owned());
        let given_up = Decision::Abandon { outcome, waiting: waiting.clone().into(), origin, reason };
        appends.add(given_up, &mut actions);
        appends.finish(|| 0, &mut actions);
        let [Plan { steps, completes, .. }] = &actions.plans[..] else { panic!("{:?}", actions.plans) };
        assert_eq!(completes, &[origin]);
        let first = |step: &Step<_>| if let Step::Produce(records) = step { records.first().cloned() } else { None };
        let records: Vec<Record> = steps.iter().filter_map(first).collect();
        assert_eq!([0, 1, 2].map(|index| records[index].tp.topic), [DEAD_LETTERS, OUTCOMES, FRONTIER]);
        let (name, letter) = &records[0].headers[0];
        let letter: DeadLetter = serde_json::from_slice(letter).unwrap();
        assert_eq!((*name, letter.is_stuck(), letter.offset), (DEAD_LETTER_HEADER, true, 17));
        // Replayed, the record queues the URL again.
        assert_eq!(decode::<FrontierUrl>("waiting", records[0].value.as_ref()).unwrap(), waiting);
        assert_eq!(records[0].key.as_deref(), Some(waiting.context.fingerprint.to_string().as_bytes()));
        assert_eq!(records[2].value, None);
    }
}
