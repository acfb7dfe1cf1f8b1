//! Topic specifications.

use orbweaver_messages::Topic;
pub use orbweaver_messages::topic::Cleanup;

use crate::{LogError, Partition};

/// Maximum number of partitions: one per slot, of which there are 16,384.
pub const MAX_PARTITIONS: Partition = 16_384;

/// Specification of a topic to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicSpec {
    pub topic: Topic,
    /// Number of partitions, 1 to [`MAX_PARTITIONS`]. A pipeline uses the same number for all topics.
    pub partitions: Partition,
    pub cleanup: Cleanup,
}

impl TopicSpec {
    /// Creates a specification.
    #[must_use]
    pub fn new(topic: Topic, partitions: Partition, cleanup: Cleanup) -> Self {
        Self { topic, partitions, cleanup }
    }

    /// Validates specifications before anything is created: names (Kafka's rule, which also makes them safe directory
    /// names), partition counts, and that no topic occurs twice.
    ///
    /// # Errors
    /// [`LogError::Invalid`] with the topic, the problem and the allowed values.
    pub fn check(specs: &[Self]) -> Result<(), LogError> {
        for (index, spec) in specs.iter().enumerate() {
            let name = spec.topic.0;
            let legal = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
            if name.is_empty() || name.len() > 249 || name == "." || name == ".." || !legal {
                return Err(LogError::Invalid(format!(
                    "the topic name `{name}`; allowed: 1 to 249 letters, digits, `.`, `_` and `-`, but not `.` and `..`"
                )));
            }
            if !(1..=MAX_PARTITIONS).contains(&spec.partitions) {
                return Err(LogError::Invalid(format!(
                    "{} partitions of the topic `{name}`; allowed: 1 to {MAX_PARTITIONS}",
                    spec.partitions
                )));
            }
            if specs.iter().take(index).any(|earlier| earlier.topic == spec.topic) {
                return Err(LogError::Invalid(format!("the topic `{name}` is listed twice; list each topic once")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(specs: &[TopicSpec], part: &str) {
        let error = TopicSpec::check(specs).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn a_spec_that_cannot_be_made_is_refused_with_what_is_allowed() {
        let good = TopicSpec::new(Topic("crawl.pages"), 16, Cleanup::Delete);
        TopicSpec::check(&[good]).unwrap();
        refused(&[good, good], "twice");
        refused(&[TopicSpec { partitions: 0, ..good }], "1 to 16384");
        refused(&[TopicSpec { partitions: MAX_PARTITIONS + 1, ..good }], "1 to 16384");
        for name in ["", ".", "..", "../x", "a/b", "a\0b"] {
            refused(&[TopicSpec { topic: Topic(name), ..good }], "allowed:");
        }
    }
}
