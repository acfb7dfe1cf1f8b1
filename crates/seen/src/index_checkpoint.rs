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
}
