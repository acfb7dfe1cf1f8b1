//! Metadata stored with a commit, as one small JSON object, and the decisions based on it
//! (docs/protocol.md#quarantine).
//!
//! A poison record is found as follows: every opening commits a start count with the unchanged commit point; progress
//! or an orderly end resets it. After three starts without either, the whole stage delivers records one at a time, and
//! commits the offset of each as `trying` beforehand. A process that panics records this in a last commit: three such
//! crashes in a row condemn the record. A record found as `trying` without that mark may have ended its process in
//! another way (by exhausting the stack or the memory), or may just have been in flight when the process was killed
//! from outside: it is retried after growing pauses, and condemned after ten such ends in a row. A stage that ends with
//! an error has reported its reason and withdraws the mark.
//!
//! A restored or tailed record has no commit of its own. A panic in its call identifies it exactly: it is counted in
//! the commit of the partition, condemned by the third crash in a row, and skipped from then on.

use std::time::Duration;

use orbweaver_log::{Commit, LogError, Offset, Partition, TopicPartition};
use orbweaver_messages::is_default;
use serde::{Deserialize, Serialize};

/// Number of starts without progress after which records are delivered one at a time.
pub(crate) const STARTS_BEFORE_ONE_AT_A_TIME: u32 = 3;
/// Number of reported crashes in a row that condemn the record that was in flight alone.
pub(crate) const CRASHES: u32 = 3;
/// Number of unexplained ends in a row that condemn it.
const UNEXPLAINED_ENDS: u32 = 10;
/// Pause before a record is retried after its first unexplained end; doubled with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Maximum number of recorded poison candidates per partition outside the group's topics. No condemned record is
/// forgotten for another: it would be passed to the stage again. An opening forgets those that are no longer read.
pub(crate) const CRASHERS: usize = 32;
/// Maximum size of commit metadata in a log, in bytes.
const METADATA_MAX: usize = 4096;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CommitMetadata {
    /// Starts since the commit point last advanced or the stage last ended in order.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) starts: u32,
    /// Record that was delivered alone and had not completed.
    #[serde(flatten)]
    pub(crate) suspect: Option<Suspect>,
    /// Set by a crashing process while the suspect is in flight.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) crashed: bool,
    /// The end of the process counts nothing against the suspect: the stage has not received it since its last end was
    /// counted, or it is not alone in the process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) untried: bool,
    /// Records that were being restored or tailed when the process crashed. Stored with the first topic of the group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) crashers: Vec<Crasher>,
}

/// A record outside the group's topics during whose call the process crashed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Crasher {
    pub(crate) topic: String,
    pub(crate) partition: Partition,
    pub(crate) offset: Offset,
    /// Number of crashes in a row.
    pub(crate) crashes: u32,
}

impl Crasher {
    /// Returns `true` if the record must not be passed to the stage again.
    pub(crate) fn is_condemned(&self) -> bool {
        self.crashes >= CRASHES
    }

    /// Returns `true` if the record is in the log `tp`, below `offset`.
    pub(crate) fn is_below(&self, tp: TopicPartition, offset: Offset) -> bool {
        (&*self.topic, self.partition) == (tp.topic.0, tp.partition) && self.offset < offset
    }

    fn is_at(&self, tp: TopicPartition, offset: Offset) -> bool {
        (&*self.topic, self.partition, self.offset) == (tp.topic.0, tp.partition, offset)
    }
}

/// Returns `true` if a record must not be passed to the stage again.
pub(crate) fn is_condemned(crashers: &[Crasher], tp: TopicPartition, offset: Offset) -> bool {
    crashers.iter().any(|crasher| crasher.is_condemned() && crasher.is_at(tp, offset))
}

/// Counts a crash at a record. Returns the number of its crashes in a row; `None` if too many records are condemned to
/// record another.
pub(crate) fn count_crash(crashers: &mut Vec<Crasher>, tp: TopicPartition, offset: Offset) -> Option<u32> {
    let known = crashers.iter().position(|crasher| crasher.is_at(tp, offset)).map(|index| crashers.remove(index));
    let crashes = known.map_or(0, |crasher| crasher.crashes).saturating_add(1);
    // A crash at a different record ends the row of every other.
    crashers.retain(Crasher::is_condemned);
    if crashers.len() >= CRASHERS {
        return None;
    }
    crashers.push(Crasher { topic: tp.topic.0.to_owned(), partition: tp.partition, offset, crashes });
    Some(crashes)
}

impl CommitMetadata {
    /// Parses committed metadata. A foreign text (from an operator who moved a commit) counts as empty.
    pub(crate) fn read(text: &str) -> Self {
        if text.is_empty() { Self::default() } else { serde_json::from_str(text).unwrap_or_default() }
    }

    /// Returns the metadata for the orderly end of a partition: a suspect with crashes or ends against it is kept, as
    /// not tried, for the next owner.
    pub(crate) fn at_the_end(mut self) -> Self {
        self.suspect.take_if(|suspect| suspect.unexplained_ends + suspect.crashes == 0);
        self.untried = self.suspect.is_some();
        self
    }

    /// Returns the commit of `offset` with this metadata; empty metadata becomes an empty text.
    pub(crate) fn commit(&self, tp: TopicPartition, offset: Offset) -> Result<Commit, LogError> {
        if *self == Self::default() {
            return Ok(Commit { offset, metadata: String::new() });
        }
        let metadata = serde_json::to_string(self).unwrap_or_default();
        if metadata.len() > METADATA_MAX {
            let bytes = metadata.len();
            let reason = format!("{tp}: commit metadata of {bytes} bytes; allowed: {METADATA_MAX}");
            return Err(LogError::Fatal(reason));
        }
        Ok(Commit { offset, metadata })
    }
}

/// Start of a partition, derived from its last commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    /// Start count to be committed now.
    pub(crate) starts: u32,
    /// Whether records are delivered one at a time at first.
    pub(crate) one_at_a_time: bool,
    /// Record that was the only one in flight when its process ended.
    pub(crate) suspect: Option<Suspect>,
}

/// A record that was the only one in flight when its process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Suspect {
    #[serde(rename = "trying")]
    pub(crate) offset: Offset,
    /// Number of unexplained ends in a row.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) unexplained_ends: u32,
    /// Number of reported crashes in a row.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) crashes: u32,
}

impl Suspect {
    /// Returns the reason why it must not be passed to the stage again, if so.
    pub(crate) fn condemned(self) -> Option<String> {
        let Self { unexplained_ends, crashes, .. } = self;
        (crashes >= CRASHES || unexplained_ends >= UNEXPLAINED_ENDS).then(|| {
            format!(
                "the process ended while only this record was in flight: {crashes} crashes, {unexplained_ends} unexplained ends"
            )
        })
    }

    /// Returns the wait before it is passed to the stage again, during which a problem of the machine may pass.
    pub(crate) fn pause(self) -> Duration {
        match self.unexplained_ends {
            0 => Duration::ZERO,
            unexplained_ends => FIRST_PAUSE.saturating_mul(1 << (unexplained_ends - 1).min(16)).min(LONGEST_PAUSE),
        }
    }
}

impl Start {
    pub(crate) fn after(last: &CommitMetadata) -> Self {
        Self {
            starts: last.starts.saturating_add(1),
            one_at_a_time: last.starts >= STARTS_BEFORE_ONE_AT_A_TIME || last.suspect.is_some(),
            suspect: last.suspect.map(|Suspect { offset, unexplained_ends, crashes }| Suspect {
                offset,
                unexplained_ends: unexplained_ends.saturating_add(u32::from(!last.untried && !last.crashed)),
                crashes: crashes.saturating_add(u32::from(!last.untried && last.crashed)),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::topic;

    use super::*;

    #[test]
    fn metadata_comes_back_as_it_was_committed_and_nothing_is_an_empty_text() {
        let tp = TopicPartition::new(topic::SEEDS, 0);
        let metadata = CommitMetadata {
            starts: 2,
            suspect: Some(Suspect { offset: 7, unexplained_ends: 1, crashes: 2 }),
            crashed: true,
            untried: false,
            crashers: vec![Crasher { topic: "crawl.sites".to_owned(), partition: 3, offset: 9, crashes: 3 }],
        };
        let commit = metadata.commit(tp, 5).unwrap();
        let text = r#"{"starts":2,"trying":7,"unexplained_ends":1,"crashes":2,"crashed":true,"crashers":[{"topic":"crawl.sites","partition":3,"offset":9,"crashes":3}]}"#;
        assert_eq!(commit.metadata, text);
        assert_eq!((commit.offset, CommitMetadata::read(&commit.metadata)), (5, metadata));
        assert_eq!(CommitMetadata::default().commit(tp, 5).unwrap().metadata, "");
        assert_eq!(CommitMetadata::read("moved by hand"), CommitMetadata::default());
    }

    #[test]
    fn metadata_that_a_log_would_refuse_is_refused_with_its_size() {
        let crasher = Crasher { topic: "x".repeat(5000), partition: 3, offset: 9, crashes: 3 };
        let metadata = CommitMetadata { crashers: vec![crasher], ..CommitMetadata::default() };
        let error = metadata.commit(TopicPartition::new(topic::SEEDS, 3), 5).unwrap_err().to_string();
        assert!(error.contains("crawl.seeds/3: commit metadata of 5064 bytes; allowed: 4096"), "{error}");
    }

    #[test]
    fn the_fourth_start_without_progress_takes_one_record_at_a_time() {
        let mut metadata = CommitMetadata::default();
        for starts in 1..=3 {
            let start = Start::after(&metadata);
            assert_eq!(start, Start { starts, one_at_a_time: false, suspect: None });
            metadata.starts = start.starts;
        }
        assert!(Start::after(&metadata).one_at_a_time);
    }

    /// Simulates another end of the process while the suspect is in flight alone.
    fn end(suspect: &mut Suspect, crashed: bool) -> Suspect {
        let last = CommitMetadata { suspect: Some(*suspect), crashed, ..CommitMetadata::default() };
        *suspect = Start::after(&last).suspect.unwrap();
        *suspect
    }

    #[test]
    fn three_crashes_in_a_row_condemn_a_record_and_of_unexplained_ends_ten_after_growing_pauses() {
        let new = Suspect { offset: 9, unexplained_ends: 0, crashes: 0 };
        let (mut crashing, mut slow) = (new, new);
        assert_eq!([(); 2].map(|()| end(&mut crashing, true).condemned()), [None, None]);
        assert!(end(&mut crashing, true).condemned().unwrap().contains("3 crashes, 0 unexplained ends"));
        let mut last = Duration::ZERO;
        for _ in 1..10 {
            let suspect = end(&mut slow, false);
            assert_eq!(suspect.condemned(), None);
            assert!(suspect.pause() > last && suspect.pause() <= LONGEST_PAUSE);
            last = suspect.pause();
        }
        assert!(end(&mut slow, false).condemned().is_some());
        assert_eq!(Suspect { unexplained_ends: u32::MAX, ..new }.pause(), LONGEST_PAUSE);
    }

    #[test]
    fn a_restored_record_is_condemned_by_three_crashes_in_a_row() {
        let tp = |partition| TopicPartition::new(topic::SITES, partition);
        let mut crashers = vec![];
        assert_eq!([(); 2].map(|()| count_crash(&mut crashers, tp(1), 5)), [1, 2].map(Some));
        assert_eq!(count_crash(&mut crashers, tp(1), 6), Some(1), "another");
        assert_eq!([(); 3].map(|()| count_crash(&mut crashers, tp(1), 5)), [1, 2, 3].map(Some));
        assert!(is_condemned(&crashers, tp(1), 5) && !is_condemned(&crashers, tp(2), 5));
    }

    #[test]
    fn no_condemned_record_is_forgotten_for_another_and_a_log_takes_the_whole_list() {
        let tp = TopicPartition::new(topic::DEAD_LETTERS, Partition::MAX);
        let (mut crashers, most) = (vec![], CRASHERS as u64);
        for number in 0..3 * most {
            for crash in 1..=3 {
                let counted = count_crash(&mut crashers, tp, Offset::MAX - number);
                assert_eq!(counted, (number < most).then_some(crash), "record {number}");
            }
        }
        assert!((0..most).all(|number| is_condemned(&crashers, tp, Offset::MAX - number)));
        let suspect = Some(Suspect { offset: Offset::MAX, unexplained_ends: u32::MAX, crashes: u32::MAX });
        let metadata = CommitMetadata { starts: u32::MAX, suspect, crashed: true, untried: true, crashers };
        metadata.commit(tp, 5).unwrap();
    }
}
