//! Poison records among restored and tailed ones (docs/protocol.md#quarantine): those that are known, and the record of
//! the current call, to which a crash is attributed.

use std::collections::BTreeMap;

use orbweaver_log::{ConsumerRecord, Offset, Partition, TopicPartition};

use crate::commit_metadata::{CommitMetadata, Crasher, is_condemned};

/// A record in a call of the stage, and the partition under which its crash is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InCall {
    pub(crate) partition: Partition,
    pub(crate) tp: TopicPartition,
    pub(crate) offset: Offset,
}

#[derive(Debug, Default)]
pub(crate) struct PoisonRecords {
    in_call: Option<InCall>,
    /// Condemned records, by the partition under which they are recorded.
    known: BTreeMap<Partition, Vec<Crasher>>,
}

impl PoisonRecords {
    /// Takes the poison records from the commit metadata of a partition.
    pub(crate) fn learn(&mut self, partition: Partition, metadata: &CommitMetadata) {
        let condemned = metadata.crashers.iter().filter(|crasher| crasher.is_condemned());
        self.known.insert(partition, condemned.cloned().collect());
    }

    /// Returns the poison records that are recorded under a partition.
    pub(crate) fn of(&self, partition: Partition) -> Vec<Crasher> {
        self.known.get(&partition).cloned().unwrap_or_default()
    }

    pub(crate) fn all(&self) -> Vec<Crasher> {
        self.known.values().flatten().cloned().collect()
    }

    /// Prepares the call for a record that is restored for `partition`.
    pub(crate) fn enter_restore(&mut self, partition: Partition, record: &ConsumerRecord) {
        self.in_call = Some(InCall { partition, tp: record.tp, offset: record.offset });
    }

    /// Prepares the call for a tailed record; returns `false` for a poison record. A crash is recorded under the
    /// record's own partition if that is open, otherwise under the lowest one that is open or `restoring`.
    pub(crate) fn enter_tailed(
        &mut self,
        record: &ConsumerRecord,
        mut open: impl Iterator<Item = Partition> + Clone,
        restoring: impl Iterator<Item = Partition>,
    ) -> bool {
        let ConsumerRecord { tp, offset, .. } = *record;
        if self.known.values().any(|crashers| is_condemned(crashers, tp, offset)) {
            return false;
        }
        let any = open.clone().chain(restoring).min();
        let own = open.find(|number| *number == tp.partition);
        self.in_call = own.or(any).map(|partition| InCall { partition, tp, offset });
        true
    }

    /// Ends the calls for restored or tailed records.
    pub(crate) fn leave(&mut self) {
        self.in_call = None;
    }

    /// Takes the record in whose call the stage panicked.
    pub(crate) fn take_call(&mut self) -> Option<InCall> {
        self.in_call.take()
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::topic;

    use super::*;

    fn record(partition: Partition, offset: Offset) -> ConsumerRecord {
        let tp = TopicPartition::new(topic::SITES, partition);
        ConsumerRecord { tp, offset, timestamp_ms: 0, key: None, value: None, headers: vec![] }
    }

    fn metadata(crashes: u32) -> CommitMetadata {
        let crasher = Crasher { topic: "crawl.sites".to_owned(), partition: 2, offset: 5, crashes };
        CommitMetadata { crashers: vec![crasher], ..CommitMetadata::default() }
    }

    #[test]
    fn a_crash_at_a_tailed_record_is_recorded_under_its_own_partition_or_the_lowest_held() {
        let mut poison = PoisonRecords::default();
        let mut recorded = |partition, open: &[Partition], restoring: &[Partition]| {
            assert!(poison.enter_tailed(&record(partition, 9), open.iter().copied(), restoring.iter().copied()));
            poison.take_call().map(|call| call.partition)
        };
        assert_eq!(recorded(3, &[1, 3], &[0]), Some(3));
        assert_eq!(recorded(2, &[1, 3], &[0]), Some(0));
        assert_eq!(recorded(2, &[], &[]), None);
    }

    #[test]
    fn a_record_is_passed_over_once_it_is_condemned_and_until_its_partition_forgets_it() {
        let mut poison = PoisonRecords::default();
        let passes = |poison: &mut PoisonRecords| poison.enter_tailed(&record(2, 5), [1].into_iter(), [].into_iter());
        poison.learn(1, &metadata(2));
        assert!(passes(&mut poison) && poison.all().is_empty());
        poison.learn(1, &metadata(3));
        assert!(!passes(&mut poison));
        assert_eq!((poison.of(1), poison.of(2)), (metadata(3).crashers, vec![]));
        poison.learn(1, &CommitMetadata::default());
        assert!(passes(&mut poison));
    }
}
