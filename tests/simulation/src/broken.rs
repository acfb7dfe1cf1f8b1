//! Rules that are switched off, so that a case can be shown to fail without its rule. The services stay as they are: what is
//! broken is what the log tells them.

use std::collections::BTreeSet;

use bytes::Bytes;
use orbweaver_log::{Delivered, Event, Record, TopicPartition};
use orbweaver_messages::topic;
use serde_json::Value;

/// A rule of the protocol that can be switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// An owner's records carry its epoch.
    Claims,
    /// What was let through is marked when what it caused is acknowledged.
    Acknowledged,
    /// Outcomes go where their dispatch came from.
    Partition,
    /// A dispatch is not used past its time.
    Expiry,
    /// Completion is proved by two readings.
    TwoReadings,
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

    /// What is read in place of `records`.
    pub(crate) fn read(&self, _: TopicPartition, records: Vec<Delivered>) -> Vec<Delivered> {
        records
    }

    /// What is told in place of `event`.
    pub(crate) fn poll(&self, event: Event) -> Event {
        event
    }
}

/// A dispatch that may be used for ever.
fn without_end(dispatch: &Bytes) -> Bytes {
    let Ok(mut dispatch) = serde_json::from_slice::<Value>(dispatch) else { return dispatch.clone() };
    for field in ["not_after_ms", "expires_ms"] {
        dispatch[field] = Value::from(i64::from(u32::MAX) * 1_000);
    }
    dispatch.to_string().into()
}
