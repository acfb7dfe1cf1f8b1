//! Records, places and offsets.

use bytes::Bytes;
use orbweaver_messages::{Millis, Topic};

/// The number of a partition.
pub type Partition = u32;

/// The place of a record in its partition, from 0.
pub type Offset = u64;

/// A partition of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    /// The topic.
    pub topic: Topic,
    /// The partition.
    pub partition: Partition,
}

impl TopicPartition {
    /// Partition `partition` of `topic`.
    #[must_use]
    pub fn new(topic: Topic, partition: Partition) -> Self {
        Self { topic, partition }
    }
}

impl std::fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}

/// A record to be appended. Its partition is always explicit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Where it goes.
    pub place: TopicPartition,
    /// Its key; compaction keeps the last record of a key.
    pub key: Option<Bytes>,
    /// Its value; `None` is a tombstone.
    pub value: Option<Bytes>,
    /// Its headers.
    pub headers: Vec<(&'static str, Bytes)>,
    /// When it was made, in milliseconds since the Unix epoch.
    pub timestamp_ms: Millis,
}

impl Record {
    /// Its size as the record limit counts it: key, value and headers, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.key.as_ref().map_or(0, Bytes::len) + self.value.as_ref().map_or(0, Bytes::len) + headers
    }
}

/// A record as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// Where it stands.
    pub place: TopicPartition,
    /// Its offset.
    pub offset: Offset,
    /// When it was made, in milliseconds since the Unix epoch.
    pub timestamp_ms: Millis,
    /// Its key.
    pub key: Option<Bytes>,
    /// Its value; `None` is a tombstone.
    pub value: Option<Bytes>,
    /// Its headers.
    pub headers: Vec<(String, Bytes)>,
}

impl Delivered {
    /// The bytes that it charges to a budget: key, value and headers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.key.as_ref().map_or(0, Bytes::len) + self.value.as_ref().map_or(0, Bytes::len) + headers
    }

    /// The value of its header `name`.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&Bytes> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

/// What a group has committed for a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commit {
    /// The lowest offset that is not complete: where a successor starts.
    pub offset: Offset,
    /// A short text that travels with it, 4096 bytes at most; may be empty.
    pub metadata: String,
}
