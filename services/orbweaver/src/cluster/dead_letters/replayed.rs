//! Dead letters that were replayed, recorded in the commits of [`REPLAY_GROUP`].

use orbweaver_log::{Commit, Log, LogError, Offset, TopicPartition};

use super::{REPLAY_GROUP, Span};

/// Maximum size of the metadata of a commit, in bytes: the brokers' default.
const METADATA_BYTES: usize = 4096;

/// Dead letters of a partition that were replayed, as stored in the commit of [`REPLAY_GROUP`].
#[derive(Debug)]
pub(super) struct Replayed {
    pub(super) tp: TopicPartition,
    /// Lowest offset that was not replayed: the commit point.
    next: Offset,
    /// Replayed ranges above `next`, each with its end excluded; ascending, and with gaps between them.
    above: Vec<(Offset, Offset)>,
}

impl Replayed {
    /// Parses a commit. A foreign text in its metadata counts as empty.
    fn read(tp: TopicPartition, commit: Option<Commit>, start: Offset) -> Self {
        let Commit { offset, metadata } = commit.unwrap_or_default();
        let mut replayed = Self { tp, next: offset.max(start), above: vec![] };
        replayed.add(metadata.split(',').filter_map(range));
        replayed
    }

    /// Adds ranges; the commit point moves over those that adjoin it.
    pub(super) fn add(&mut self, ranges: impl IntoIterator<Item = (Offset, Offset)>) {
        let mut all = std::mem::take(&mut self.above);
        all.extend(ranges);
        all.sort_unstable();
        for (from, end) in all {
            if from <= self.next {
                self.next = self.next.max(end);
            } else if let Some((_, last)) = self.above.last_mut().filter(|(_, last)| from <= *last) {
                *last = end.max(*last);
            } else {
                self.above.push((from, end));
            }
        }
    }

    /// Returns the spans below `end` that were not replayed; none is empty.
    pub(super) fn left(&self, end: Offset) -> Vec<Span> {
        let begins = std::iter::once(self.next).chain(self.above.iter().map(|(_, end)| *end));
        let ends = self.above.iter().map(|(from, _)| (*from).min(end)).chain([end]);
        begins.zip(ends).filter(|(from, end)| from < end).map(|(from, end)| (self.tp, from, end)).collect()
    }

    /// Returns the commit, and the number of replayed dead letters for which its metadata has no room.
    pub(super) fn commit(&self) -> (Commit, u64) {
        let (mut metadata, mut missing) = (String::new(), 0);
        for (from, end) in &self.above {
            let comma = if metadata.is_empty() { "" } else { "," };
            let range = format!("{comma}{from}-{end}");
            if metadata.len() + range.len() > METADATA_BYTES {
                missing += end - from;
            } else {
                metadata.push_str(&range);
            }
        }
        (Commit { offset: self.next, metadata }, missing)
    }
}

/// Parses a range of replayed dead letters, `FROM-END`.
fn range(text: &str) -> Option<(Offset, Offset)> {
    let (from, end) = text.split_once('-')?;
    let (from, end): (Offset, Offset) = (from.parse().ok()?, end.parse().ok()?);
    (from < end).then_some((from, end))
}

/// Returns the replayed dead letters of these partitions, each with the log end.
pub(super) async fn replayed(log: &dyn Log, tps: &[TopicPartition]) -> Result<Vec<(Replayed, Offset)>, LogError> {
    let commits = log.committed(REPLAY_GROUP, tps).await?;
    let bounds = log.all_bounds(tps).await?;
    let standings = tps.iter().zip(commits).zip(bounds);
    Ok(standings.map(|((tp, commit), at)| (Replayed::read(*tp, commit, at.start), at.end)).collect())
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::topic::DEAD_LETTERS;

    use super::*;

    #[test]
    fn what_the_metadata_of_a_commit_has_no_room_for_is_counted_and_not_stored() {
        let read = |commit| Replayed::read(TopicPartition::new(DEAD_LETTERS, 0), Some(commit), 7);
        let mut replayed = read(Commit { offset: 3, metadata: "moved by hand,20-9".to_owned() });
        replayed.add((0..2000).map(|n| (1000 + 2 * n, 1001 + 2 * n)));
        let (commit, missing) = replayed.commit();
        assert!(commit.offset == 7 && (METADATA_BYTES - 10..=METADATA_BYTES).contains(&commit.metadata.len()));
        let stored = read(commit);
        assert_eq!((stored.next, stored.above.len() as u64 + missing), (7, 2000));
        assert!(replayed.above.starts_with(&stored.above));
    }
}
