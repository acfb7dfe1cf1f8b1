//! `crawl.dead-letters`: records that could not be processed, unchanged. This JSON is the header `dead-letter`.

use serde::{Deserialize, Serialize};

use crate::Millis;

/// Reason and source of a dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Service that rejected the record.
    pub service: String,
    /// Reason for the rejection.
    pub reason: String,
    /// Topic of the rejected record.
    pub topic: String,
    /// Partition of the rejected record.
    pub partition: u32,
    /// Offset of the rejected record.
    pub offset: u64,
    /// Time of the rejection, in milliseconds since the Unix epoch.
    pub rejected_at_ms: Millis,
}

/// Reason of a URL whose dispatches were lost repeatedly: the first word of its dead letter's reason, and of its
/// outcome's.
pub const STUCK: &str = "stuck";

impl DeadLetter {
    /// Returns `true` for a URL that the frontier abandoned because its dispatches were lost repeatedly.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.topic == crate::topic::FRONTIER.0
            && self.reason.strip_prefix(STUCK).is_some_and(|rest| rest.starts_with(": "))
    }
}
