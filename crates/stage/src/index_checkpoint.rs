//! Index checkpoint: the last applied record, with its hash to verify that the index belongs to this log
//! (docs/protocol.md#proven-checkpoints).

use orbweaver_log::{ConsumerRecord, Offset};
use orbweaver_messages::Millis;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The last record that an index has applied: its offset, and the values that identify it when it is read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexCheckpoint {
    pub offset: Offset,
    pub timestamp_ms: Millis,
    /// Hash of key and value (xxh3-64).
    pub hash: u64,
}

impl IndexCheckpoint {
    /// Returns the checkpoint at a record.
    #[must_use]
    pub fn of(record: &ConsumerRecord) -> Self {
        // Hashed in one call each: setting up a streaming hash takes longer than hashing a short text.
        let key = record.key.as_deref().map_or(0, xxh3_64);
        let hash = record.value.as_deref().map_or(key, |value| xxh3_64_with_seed(value, key));
        Self { offset: record.offset, timestamp_ms: record.timestamp_ms, hash }
    }

    /// Encodes the checkpoint as three numbers, little endian.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.timestamp_ms.to_le_bytes());
        bytes[16..].copy_from_slice(&self.hash.to_le_bytes());
        bytes
    }

    /// Decodes a stored checkpoint; returns `None` if it is damaged.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; 24] = bytes.try_into().ok()?;
        let number = |at: usize| bytes[at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        Some(Self { offset: number(0)?, timestamp_ms: number(8)?.cast_signed(), hash: number(16)? })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use orbweaver_log::TopicPartition;
    use orbweaver_messages::topic;
    use proptest::prelude::*;

    use super::*;

    fn record(key: Option<&[u8]>, value: Option<&[u8]>) -> ConsumerRecord {
        ConsumerRecord {
            tp: TopicPartition::new(topic::FRONTIER, 0),
            offset: 7,
            timestamp_ms: 1,
            key: key.map(Bytes::copy_from_slice),
            value: value.map(Bytes::copy_from_slice),
            headers: vec![],
        }
    }

    #[test]
    fn another_key_or_value_is_another_record_and_a_tombstone_is_not_an_empty_one() {
        let records = [(b"a", Some("b")), (b"a", Some("")), (b"a", None), (b"b", None)];
        let of = |(key, value): &(&[u8; 1], Option<&str>)| {
            IndexCheckpoint::of(&record(Some(*key), value.map(str::as_bytes))).hash
        };
        let hashes: std::collections::BTreeSet<u64> = records.iter().map(of).collect();
        assert_eq!(hashes.len(), records.len());
        assert_ne!(
            IndexCheckpoint::of(&record(Some(b"ab"), Some(b"c"))),
            IndexCheckpoint::of(&record(Some(b"a"), Some(b"bc")))
        );
    }

    proptest! {
        #[test]
        fn a_position_reads_back_and_a_torn_one_does_not(offset: u64, timestamp_ms: i64, hash: u64, cut in 0usize..24) {
            let position = IndexCheckpoint { offset, timestamp_ms, hash };
            prop_assert_eq!(IndexCheckpoint::from_bytes(&position.to_bytes()), Some(position));
            prop_assert_eq!(IndexCheckpoint::from_bytes(&position.to_bytes()[..cut]), None);
        }
    }
}
