//! Records, topic-partitions and offsets.

use std::borrow::Cow;

use bytes::Bytes;
use orbweaver_messages::{Millis, SCHEMA_HEADER, SCHEMA_VERSION_HEADER, Topic, schema_of};

use crate::LogError;

/// Partition number.
pub type Partition = u32;

/// Position of a record in its partition, from 0.
pub type Offset = u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    pub topic: Topic,
    pub partition: Partition,
}

impl TopicPartition {
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

/// A record to append. Its partition is always explicit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The target topic-partition.
    pub tp: TopicPartition,
    /// The key; compaction keeps the last record of a key.
    pub key: Option<Bytes>,
    /// The value; `None` is a tombstone.
    pub value: Option<Bytes>,
    pub headers: Vec<(&'static str, Bytes)>,
    /// Creation time, in milliseconds since the Unix epoch.
    pub timestamp_ms: Millis,
}

impl Record {
    /// Creates a record with the headers that name its schema. A tombstone has none.
    #[must_use]
    pub fn new(tp: TopicPartition, key: Option<Bytes>, value: Option<Bytes>, timestamp_ms: Millis) -> Self {
        let schema = value.as_ref().and_then(|_| schema_of(tp.topic, key.as_deref()));
        let headers = schema.map(|schema| schema.headers().into()).unwrap_or_default();
        Self { tp, key, value, headers, timestamp_ms }
    }

    /// Returns the size that counts against the record limit: key, value and headers, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.key.as_ref().map_or(0, Bytes::len) + self.value.as_ref().map_or(0, Bytes::len) + headers
    }
}

/// A record read from the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerRecord {
    pub tp: TopicPartition,
    pub offset: Offset,
    /// Creation time, in milliseconds since the Unix epoch.
    pub timestamp_ms: Millis,
    pub key: Option<Bytes>,
    /// The value; `None` is a tombstone.
    pub value: Option<Bytes>,
    pub headers: Vec<(Cow<'static, str>, Bytes)>,
}

impl ConsumerRecord {
    /// Returns the number of bytes charged to a budget: key, value and headers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.key.as_ref().map_or(0, Bytes::len) + self.value.as_ref().map_or(0, Bytes::len) + headers
    }

    /// Returns why this release cannot read the record, according to its headers: its schema has an unknown version.
    #[must_use]
    pub fn unreadable(&self) -> Option<String> {
        let version = self.header(SCHEMA_VERSION_HEADER)?;
        let schema = schema_of(self.tp.topic, self.key.as_deref())?;
        schema.unreadable(self.header(SCHEMA_HEADER).map(|name| &**name), Some(version))
    }

    /// Fails if this release cannot read the record, for readers whose result would be wrong without it.
    pub fn check_readable(&self) -> Result<(), LogError> {
        let unreadable = |reason| LogError::Unreadable { tp: self.tp, offset: self.offset, reason };
        self.unreadable().map_or(Ok(()), |reason| Err(unreadable(reason)))
    }

    /// Returns the value of the first header called `name`.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&Bytes> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

/// A group's commit for a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commit {
    /// Commit point: the lowest incomplete offset, at which a successor starts.
    pub offset: Offset,
    /// Short text stored with the commit, at most 4,096 bytes; may be empty.
    pub metadata: String,
}

/// Maximum size of commit metadata, in bytes: the default of Kafka's brokers.
const MAX_METADATA: usize = 4_096;

impl Commit {
    /// Fails if the metadata is too large for a commit of `tp`.
    pub(crate) fn check_size(&self, tp: TopicPartition) -> Result<(), LogError> {
        let bytes = self.metadata.len();
        if bytes > MAX_METADATA { Err(LogError::MetadataTooLarge { tp, bytes, max: MAX_METADATA }) } else { Ok(()) }
    }
}
