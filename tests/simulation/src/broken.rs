//! Rules that are switched off, so that a case can be shown to fail without its rule. The services stay as they are: what is
//! broken is what the log tells them.

use std::collections::BTreeSet;

use bytes::Bytes;
use orbweaver_log::{Delivered, Event, Offset, Record, TopicPartition};
use orbweaver_messages::topic;
use orbweaver_stage::CLAIM_HEADER;
use serde_json::Value;

/// A rule of the protocol that can be switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// 2: an index moves by records read back, in order. Off: what was acknowledged moves it past what others wrote below.
    Positions,
    /// 3: an owner's records carry its epoch. Off: they carry none.
    Claims,
    /// 9: what was let through is marked when what it caused is acknowledged. Off: nobody waits for the log.
    Acknowledged,
    /// 12: outcomes go where their dispatch came from. Off: they go elsewhere.
    Partition,
    /// 14: a dispatch is not used past its time. Off: dispatches live for ever.
    Expiry,
    /// 25: completion is proved by two readings. Off: one is enough.
    TwoReadings,
    /// After a restore, reading goes on at its end while the commit stays at the commit point. Off: the commit moves along.
    CommitPoint,
}

/// The rules that are switched off.
#[derive(Debug, Clone, Default)]
pub struct Broken(BTreeSet<Rule>);

impl Broken {
    /// Without this rule.
    #[must_use]
    pub fn without(rule: Rule) -> Self {
        Self(BTreeSet::from([rule]))
    }

    /// Whether a rule is switched off.
    #[must_use]
    pub fn is_off(&self, rule: Rule) -> bool {
        self.0.contains(&rule)
    }

    /// What is appended in place of `records`.
    pub(crate) fn append(&self, mut records: Vec<Record>, partitions: u32) -> Vec<Record> {
        if self.0.is_empty() {
            return records;
        }
        for record in &mut records {
            if self.is_off(Rule::Claims) && record.place.topic == topic::FRONTIER {
                record.headers.retain(|(name, _)| *name != "epoch");
            }
            if self.is_off(Rule::Partition) && record.place.topic == topic::OUTCOMES {
                record.place.partition = (record.place.partition + 1) % partitions;
            }
            if self.is_off(Rule::Expiry) && record.place.topic == topic::SCHEDULED {
                record.value = record.value.take().map(|value| without_end(&value));
            }
        }
        records
    }

    /// Whether an append is acknowledged before it has landed.
    pub(crate) fn acknowledges_early(&self, records: &[Record]) -> bool {
        self.is_off(Rule::Acknowledged)
            && records.iter().any(|record| record.place.topic == topic::FRONTIER && record.headers.is_empty())
    }

    /// What is told in place of `event`; `written` is the end of what was acknowledged here of a place.
    pub(crate) fn poll(&self, event: Event, written: impl Fn(TopicPartition) -> Option<Offset>) -> Event {
        match event {
            Event::Records(mut records) if self.is_off(Rule::Positions) => {
                records.retain(|record| {
                    let passed = written(record.place).is_some_and(|end| record.offset < end);
                    record.place.topic != topic::FRONTIER || !passed || is_owners(record)
                });
                Event::Records(records)
            }
            event => event,
        }
    }
}

/// Whether a record of `crawl.frontier` was written by an owner of it.
fn is_owners(record: &Delivered) -> bool {
    record.value.is_none() || record.header("epoch").is_some() || record.header(CLAIM_HEADER).is_some()
}

/// A dispatch that may be used for ever.
fn without_end(dispatch: &Bytes) -> Bytes {
    let Ok(mut dispatch) = serde_json::from_slice::<Value>(dispatch) else { return dispatch.clone() };
    for field in ["not_after_ms", "expires_ms"] {
        dispatch[field] = Value::from(i64::from(u32::MAX) * 1_000);
    }
    dispatch.to_string().into()
}
