//! Records that a log refuses individually.

use std::fmt;

use crate::{LogError, Offset, Record, TopicPartition, limit::limit_of};

/// Reason why a log refuses a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The record is larger than [`Log::record_limit`](crate::Log::record_limit).
    #[error("{tp}: a record of {bytes} bytes; allowed: {max}")]
    TooLarge {
        tp: TopicPartition,
        /// Size of the record, in bytes.
        bytes: usize,
        /// Maximum size, in bytes.
        max: usize,
    },
    /// The record cannot be stored as it is.
    #[error("{tp}: {reason}")]
    Invalid {
        tp: TopicPartition,
        /// Description of the problem.
        reason: String,
    },
}

impl Refusal {
    pub(crate) fn check_size(record: &Record, limit: usize) -> Result<(), Self> {
        let (tp, bytes, max) = (record.tp, record.bytes(), limit_of(record.tp.topic, limit));
        if bytes > max { Err(Self::TooLarge { tp, bytes, max }) } else { Ok(()) }
    }
}

/// Result of an append with refused records. All others are appended and acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Offsets in the order of the records; `None` for refused ones.
    pub offsets: Vec<Option<Offset>>,
    /// Refused records by index, in ascending order; at least one.
    pub refusals: Vec<(usize, Refusal)>,
}

impl Refused {
    /// Returns the offsets of an append, or [`LogError::Refused`] if any record was refused.
    pub(crate) fn unless_all(
        offsets: Vec<Offset>,
        mut refusals: Vec<(usize, Refusal)>,
    ) -> Result<Vec<Offset>, LogError> {
        if refusals.is_empty() {
            return Ok(offsets);
        }
        refusals.sort_unstable_by_key(|(index, _)| *index);
        let mut offsets: Vec<Option<Offset>> = offsets.into_iter().map(Some).collect();
        for (index, _) in &refusals {
            if let Some(offset) = offsets.get_mut(*index) {
                *offset = None;
            }
        }
        Err(LogError::Refused(Self { offsets, refusals }))
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((index, refusal)) = self.refusals.first() else { return f.write_str("no record was refused") };
        write!(f, "record {index} of an append of {} was refused: {refusal}", self.offsets.len())?;
        match self.refusals.len() {
            0 | 1 => Ok(()),
            more => write!(f, " (and {} more)", more - 1),
        }
    }
}

impl std::error::Error for Refused {}

#[cfg(test)]
mod tests {
    use orbweaver_messages::topic;

    use super::*;

    #[test]
    fn the_message_names_the_first_refused_record_its_size_and_what_is_allowed() {
        let tp = TopicPartition::new(topic::PAGES, 3);
        let refusal = |bytes| Refusal::TooLarge { tp, bytes, max: 10 };
        let error = Refused::unless_all(vec![7, 0, 8, 0], vec![(3, refusal(11)), (1, refusal(12))]).unwrap_err();
        assert!(matches!(&error, LogError::Refused(refused) if refused.offsets == [Some(7), None, Some(8), None]));
        let wanted =
            "record 1 of an append of 4 was refused: crawl.pages/3: a record of 12 bytes; allowed: 10 (and 1 more)";
        assert_eq!(error.to_string(), wanted);
        assert_eq!(Refused::unless_all(vec![7, 8], vec![]).unwrap(), [7, 8]);
    }
}
