//! What can go wrong with a log.

use orbweaver_messages::Topic;

use crate::{Offset, TopicPartition, refused::Refused};

/// What can go wrong with a log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The topic was never created.
    #[error("there is no topic `{0}`")]
    UnknownTopic(Topic),
    /// The topic has fewer partitions.
    #[error("there is no partition {0}")]
    UnknownPartition(TopicPartition),
    /// The log does not (or no longer) hold this offset.
    #[error("{place}: offset {offset} is outside of the log, which holds {start} to {end}")]
    OutOfRange {
        /// The partition.
        place: TopicPartition,
        /// What was asked for.
        offset: Offset,
        /// The first offset that is held.
        start: Offset,
        /// The offset that the next record gets.
        end: Offset,
    },
    /// A live group has a member already, and this log allows one.
    #[error("the group `{0}` has a live consumer already")]
    GroupTaken(String),
    /// Records of an append were refused, each by itself. All others of it are appended and acknowledged.
    #[error(transparent)]
    Refused(Refused),
    /// The metadata of a commit is longer than a log takes.
    #[error("{place}: a commit with {bytes} bytes of metadata; allowed are {max}")]
    MetadataTooLarge {
        /// The partition.
        place: TopicPartition,
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// What was stored is damaged.
    #[error("{file}: damaged at byte {position}: {reason}")]
    Corrupt {
        /// The file.
        file: String,
        /// Where in the file.
        position: u64,
        /// What is wrong.
        reason: String,
    },
    /// The partition was taken away; its commit is refused.
    #[error("{0} is no longer assigned here")]
    NotAssigned(TopicPartition),
    /// Reading or writing failed.
    #[error("{path}: {source}")]
    Io {
        /// What was read or written.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// What was asked for cannot be: a bad spec, a bad option, a folder that is not a log or is in use.
    #[error("not possible: {0}")]
    Invalid(String),
    /// The log does not answer now, and may later: a broker is away or busy. Nothing is known to be lost.
    #[error("the log does not answer: {0}")]
    Unavailable(String),
    /// The log cannot be used any more.
    #[error("the log failed: {0}")]
    Fatal(String),
}
