//! `crawl.dead-letters`: a record that could not be processed, untouched; this JSON is the header `dead-letter`.

use serde::{Deserialize, Serialize};

use crate::Millis;

/// Why and whence a record came to the dead letters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The service that gave up on it.
    pub service: String,
    /// What is wrong with it.
    pub reason: String,
    /// Where it stands.
    pub topic: String,
    /// Where it stands.
    pub partition: u32,
    /// Where it stands.
    pub offset: u64,
    /// When it was given up, in milliseconds since the Unix epoch.
    pub rejected_at_ms: Millis,
}

/// The reason of a URL whose dispatches were lost again and again, as the first word of a dead letter's reason and as that of
/// the outcome.
pub const STUCK: &str = "stuck";

impl DeadLetter {
    /// Whether this is a URL that the frontier gave up because its dispatches were lost again and again.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.topic == crate::topic::FRONTIER.0
            && self.reason.strip_prefix(STUCK).is_some_and(|rest| rest.starts_with(": "))
    }
}
