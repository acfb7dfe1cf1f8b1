//! Errors of a log.

use orbweaver_messages::Topic;

use crate::{Offset, TopicPartition, refused::Refused};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The topic does not exist.
    #[error("there is no topic `{0}`")]
    UnknownTopic(Topic),
    /// The topic has fewer partitions.
    #[error("there is no partition {0}")]
    UnknownPartition(TopicPartition),
    /// The offset is not in the log, or no longer.
    #[error("{tp}: offset {offset} is out of range; the log starts at {start} and ends at {end}")]
    OutOfRange {
        tp: TopicPartition,
        /// The requested offset.
        offset: Offset,
        start: Offset,
        end: Offset,
    },
    /// The group already has a live member, and this log allows only one.
    #[error("the group `{0}` already has a live member; this log allows only one")]
    GroupTaken(String),
    /// Some records of an append were refused, individually. All others are appended and acknowledged.
    #[error(transparent)]
    Refused(Refused),
    /// The metadata of a commit exceeds the maximum.
    #[error("{tp}: commit metadata of {bytes} bytes; allowed: {max}")]
    MetadataTooLarge {
        tp: TopicPartition,
        /// Size of the metadata, in bytes.
        bytes: usize,
        /// Maximum size, in bytes.
        max: usize,
    },
    /// A record has another version of its schema than this release reads.
    #[error("{tp}@{offset}: {reason}")]
    Unreadable {
        tp: TopicPartition,
        offset: Offset,
        /// Schema of the record, its version, the known one, and what to do.
        reason: String,
    },
    /// Stored data is damaged.
    #[error("{file}: damaged at byte {position}: {reason}")]
    Corrupt {
        file: String,
        /// Byte position in the file.
        position: u64,
        /// Description of the damage.
        reason: String,
    },
    /// The partition is no longer assigned; its commit is refused.
    #[error("{0} is no longer assigned to this member")]
    NotAssigned(TopicPartition),
    /// A read or write failed.
    #[error("{path}: {source}")]
    Io {
        /// The path that was read or written.
        path: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// Invalid argument: a bad spec, a bad option, a directory that holds no log or is in use.
    #[error("not possible: {0}")]
    Invalid(String),
    /// The log is not answering and may recover: a broker is unavailable or busy. No data is known to be lost.
    #[error("the log is unavailable: {0}")]
    Unavailable(String),
    /// The log can no longer be used.
    #[error("the log failed: {0}")]
    Fatal(String),
}
