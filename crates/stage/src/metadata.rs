//! What travels with a commit: the runtime's part and the stage's, as one small JSON object; and rule 17, which reads it.
//!
//! A record that kills its reader is found like this: every opening commits a start count beside the unchanged commit
//! point; progress or an orderly end resets it. After three starts without either, records are taken one at a time, and
//! before each its offset is committed as `trying`. A record that is found so at three openings in a row is the culprit:
//! once may be a process that was killed from outside, just then.

use orbweaver_log::{Commit, LogError, Offset, TopicPartition};
use serde::{Deserialize, Serialize};

/// After so many starts without progress, records are taken one at a time.
pub(crate) const STARTS_BEFORE_ONE_AT_A_TIME: u32 = 3;
/// A record that ended its reader so often in a row, alone, is the culprit. A process that is killed from outside hits the
/// same record so often only if the record holds its reader up for long.
const DEATHS_OF_A_CULPRIT: u32 = 3;
/// What a log takes as metadata, in bytes.
const METADATA_MAX: usize = 4096;

/// The metadata of a commit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Metadata {
    /// Starts since the commit point last moved or the stage last ended in order.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) starts: u32,
    /// The record that was given to the stage alone, and had not completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trying: Option<Offset>,
    /// How often the process had ended while that record was the only one in work.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) deaths: u32,
    /// `Stage::commit_metadata`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) stage: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Metadata {
    /// Reads what was committed. A text of someone else (an operator who moved a commit) counts as none.
    pub(crate) fn read(text: &str) -> Self {
        if text.is_empty() { Self::default() } else { serde_json::from_str(text).unwrap_or_default() }
    }

    /// The commit of `offset` with this metadata; empty metadata is an empty text.
    pub(crate) fn commit(&self, place: TopicPartition, offset: Offset) -> Result<Commit, LogError> {
        if *self == Self::default() {
            return Ok(Commit { offset, metadata: String::new() });
        }
        let metadata = serde_json::to_string(self).unwrap_or_default();
        if metadata.len() > METADATA_MAX {
            let bytes = metadata.len();
            let reason = format!("{place}: commit metadata of {bytes} bytes; allowed are {METADATA_MAX}");
            return Err(LogError::Fatal(reason));
        }
        Ok(Commit { offset, metadata })
    }
}

/// How a partition is begun, from what its last owner committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    /// The start count to be committed now.
    pub(crate) starts: u32,
    /// Whether records are taken one at a time at first.
    pub(crate) one_at_a_time: bool,
    /// The record that was the only one in work when its reader ended.
    pub(crate) suspect: Option<Suspect>,
}

/// A record that was the only one in work when its reader ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Suspect {
    pub(crate) offset: Offset,
    /// How often in a row.
    pub(crate) deaths: u32,
}

impl Suspect {
    /// Whether it must not be given to the stage again.
    pub(crate) fn is_culprit(self) -> bool {
        self.deaths >= DEATHS_OF_A_CULPRIT
    }
}

impl Start {
    /// The start after `last`.
    pub(crate) fn after(last: &Metadata) -> Self {
        Self {
            starts: last.starts.saturating_add(1),
            one_at_a_time: last.starts >= STARTS_BEFORE_ONE_AT_A_TIME || last.trying.is_some(),
            suspect: last.trying.map(|offset| Suspect { offset, deaths: last.deaths.saturating_add(1) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::topic;

    use super::*;

    #[test]
    fn metadata_comes_back_as_it_was_committed_and_nothing_is_an_empty_text() {
        let place = TopicPartition::new(topic::SEEDS, 0);
        let metadata = Metadata { starts: 2, trying: Some(7), deaths: 1, stage: "{\"x\":1}".to_owned() };
        let commit = metadata.commit(place, 5).unwrap();
        assert_eq!((commit.offset, Metadata::read(&commit.metadata)), (5, metadata));
        assert_eq!(Metadata::default().commit(place, 5).unwrap().metadata, "");
        assert_eq!(Metadata::read("moved by hand"), Metadata::default());
    }

    #[test]
    fn metadata_that_a_log_would_refuse_is_refused_with_its_size() {
        let metadata = Metadata { stage: "x".repeat(5000), ..Metadata::default() };
        let error = metadata.commit(TopicPartition::new(topic::SEEDS, 3), 5).unwrap_err().to_string();
        assert!(error.contains("crawl.seeds/3: commit metadata of 5012 bytes; allowed are 4096"), "{error}");
    }

    #[test]
    fn the_fourth_start_without_progress_takes_one_record_at_a_time() {
        let mut metadata = Metadata::default();
        for starts in 1..=3 {
            let start = Start::after(&metadata);
            assert_eq!(start, Start { starts, one_at_a_time: false, suspect: None });
            metadata.starts = start.starts;
        }
        assert!(Start::after(&metadata).one_at_a_time);
    }

    #[test]
    fn a_record_that_was_in_work_alone_at_three_deaths_in_a_row_is_the_culprit() {
        let mut metadata = Metadata { trying: Some(9), ..Metadata::default() };
        for deaths in 1..=3 {
            let start = Start::after(&metadata);
            let suspect = Suspect { offset: 9, deaths };
            assert_eq!(start, Start { starts: 1, one_at_a_time: true, suspect: Some(suspect) });
            assert_eq!(suspect.is_culprit(), deaths == 3);
            metadata.deaths = deaths;
        }
    }
}
