//! Index checkpoint: the last applied record, with its hash to verify that the index belongs to this log.

use orbweaver_messages::Millis;
use xxhash_rust::xxh3::xxh3_64;

/// The last record that an index has applied: its offset, and the values that identify it when it is read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexCheckpoint {
    pub offset: u64,
    pub timestamp_ms: Millis,
    /// Hash of the value (xxh3-64).
    pub hash: u64,
}

impl IndexCheckpoint {
    /// Returns the checkpoint at a record.
    #[must_use]
    pub fn of(offset: u64, timestamp_ms: Millis, value: &[u8]) -> Self {
        Self { offset, timestamp_ms, hash: xxh3_64(value) }
    }

    /// Encodes the checkpoint as three numbers, little endian.
    pub(crate) fn to_bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.timestamp_ms.to_le_bytes());
        bytes[16..].copy_from_slice(&self.hash.to_le_bytes());
        bytes
    }

    /// Decodes a stored checkpoint; returns `None` if it is damaged.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; 24] = bytes.try_into().ok()?;
        let number = |at: usize| bytes[at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        Some(Self { offset: number(0)?, timestamp_ms: number(8)?.cast_signed(), hash: number(16)? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_position_reads_back_and_a_torn_one_does_not(offset: u64, timestamp_ms: i64, hash: u64, cut in 0usize..24) {
            let position = IndexCheckpoint { offset, timestamp_ms, hash };
            prop_assert_eq!(IndexCheckpoint::from_bytes(&position.to_bytes()), Some(position));
            prop_assert_eq!(IndexCheckpoint::from_bytes(&position.to_bytes()[..cut]), None);
        }
    }
}
