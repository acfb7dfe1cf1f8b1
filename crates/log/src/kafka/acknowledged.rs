//! Offsets of acknowledged records (pure).

use std::collections::HashMap;

use crate::{Offset, TopicPartition};

/// The acknowledgements of one producer. Decides which of the reported numbers are offsets.
///
/// A retry that the brokers refuse as a duplicate counts as acknowledged, but without a base offset. librdkafka numbers
/// the records of a batch upwards nevertheless (`rd_kafka_msgq_set_metadata`): -1, 0, 1, … Only the first number shows
/// by itself that it is not an offset.
#[derive(Debug, Default)]
pub(super) struct Acknowledged(HashMap<TopicPartition, Last>);

/// The last acknowledgement of a partition.
#[derive(Debug, Clone, Copy, Default)]
struct Last {
    /// Highest offset so far; the offsets of one producer increase within a partition.
    offset: Option<Offset>,
    /// Next number of a batch without a base offset. The next batch cannot begin there: its offset is at least the
    /// number of records in this one, and this one was numbered from below zero.
    unknown: Option<i64>,
}

impl Acknowledged {
    /// Returns the offset of the next acknowledged record of a partition; `None` if the reported number is not an
    /// offset.
    pub(super) fn offset(&mut self, tp: TopicPartition, reported: i64) -> Option<Offset> {
        let last = self.0.entry(tp).or_default();
        if reported < 0 || last.unknown == Some(reported) {
            last.unknown = Some(reported.saturating_add(1));
            return None;
        }
        last.unknown = None;
        let offset = Offset::try_from(reported).ok()?;
        if last.offset.is_some_and(|highest| offset <= highest) {
            return None;
        }
        last.offset = Some(offset);
        Some(offset)
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::topic;

    use super::*;

    fn at(partition: u32) -> TopicPartition {
        TopicPartition::new(topic::FRONTIER, partition)
    }

    fn offsets(acknowledged: &mut Acknowledged, reported: impl IntoIterator<Item = i64>) -> Vec<Option<Offset>> {
        reported.into_iter().map(|reported| acknowledged.offset(at(0), reported)).collect()
    }

    #[test]
    fn no_record_of_a_duplicate_has_an_offset_although_they_are_numbered() {
        // The first batches of a partition, then batches after known offsets.
        for base in [-1, -1001] {
            let mut acknowledged = Acknowledged::default();
            for _ in 0..2 {
                let numbered = base..base + 1_500;
                assert_eq!(offsets(&mut acknowledged, numbered), vec![None; 1_500], "numbered from {base}");
            }
            assert_eq!(offsets(&mut acknowledged, [3_000, 3_001]), [Some(3_000), Some(3_001)]);
            assert_eq!(offsets(&mut acknowledged, base..base + 5_000), vec![None; 5_000], "numbered from {base}");
            assert_eq!(offsets(&mut acknowledged, [8_002]), [Some(8_002)]);
        }
    }

    #[test]
    fn offsets_increase_within_each_partition() {
        let mut acknowledged = Acknowledged::default();
        assert_eq!(offsets(&mut acknowledged, [7, 8, 12]), [Some(7), Some(8), Some(12)], "others append too");
        assert_eq!(acknowledged.offset(at(1), 0), Some(0), "another partition");
        assert_eq!(offsets(&mut acknowledged, [12, 0, 11, 13]), [None, None, None, Some(13)]);
    }
}
