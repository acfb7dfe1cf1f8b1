//! What may be deleted (rule 6): records below the lowest commit point of all declared groups of their topic, save those
//! that are young enough to be read back. No topic of the pipeline has a retention time of its own.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use orbweaver_log::{Bounds, Log, LogError, Offset, Partition, TopicPartition};
use orbweaver_messages::{LEASE_MS, Millis, Topic, topic};

/// A topic whose records go when everyone has worked them off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expiring {
    /// The topic.
    pub topic: Topic,
    /// All groups that read it. Without any, nothing is ever deleted.
    pub groups: Vec<String>,
    /// Groups that count from their first commit on.
    pub collectors: Vec<String>,
    /// Younger records stay, since a restore reads them back: a lease for `crawl.scheduled` and `crawl.outcomes`.
    pub keep_back: Duration,
}

impl Expiring {
    /// What expires where all services run in one process: the topics with consumers or collectors. `crawl.frontier` among
    /// them: what lies below its commit point has ended, and a restore begins there.
    #[must_use]
    pub fn in_one_process() -> Vec<Self> {
        let read = |described: &&topic::TopicDescription| {
            let read = !described.consumers.is_empty() || !described.collectors.is_empty();
            read && (described.cleanup == topic::Cleanup::Delete || described.topic == topic::FRONTIER)
        };
        topic::topics().iter().filter(read).map(Self::described).collect()
    }

    /// What expires in a cluster: the topics with consumers. `crawl.documents` belongs to users, and of a compacted topic
    /// Kafka deletes nothing on request.
    #[must_use]
    pub fn in_a_cluster() -> Vec<Self> {
        let read = |described: &&topic::TopicDescription| {
            !described.consumers.is_empty() && described.cleanup == topic::Cleanup::Delete
        };
        topic::topics().iter().filter(read).map(Self::described).collect()
    }

    fn described(described: &topic::TopicDescription) -> Self {
        // Without a consumer the collectors alone decide.
        let (groups, collectors) = match described.consumers.is_empty() {
            true => (described.collectors.clone(), vec![]),
            false => (described.consumers.clone(), described.collectors.clone()),
        };
        let lease = Duration::from_millis(LEASE_MS.unsigned_abs());
        Self {
            topic: described.topic,
            groups,
            collectors,
            keep_back: described.read_back.map_or(Duration::ZERO, |_| lease),
        }
    }
}

/// Deletes what nobody will read again. [`Retention::sweep`] wants to be called every few seconds, by one process.
pub struct Retention {
    log: Arc<dyn Log>,
    topics: Vec<Expiring>,
    /// What was asked for, so that a log that deletes by whole segments is not asked again and again.
    asked: BTreeMap<TopicPartition, Offset>,
}

impl Retention {
    /// Retention of `topics` on `log`.
    #[must_use]
    pub fn new(log: Arc<dyn Log>, topics: Vec<Expiring>) -> Self {
        Self { log, topics, asked: BTreeMap::new() }
    }

    /// Looks at all partitions once and deletes what may go; the number of partitions in which something did.
    ///
    /// # Errors
    /// When the log fails; the next call goes on.
    pub async fn sweep(&mut self, now: Millis) -> Result<usize, LogError> {
        let mut partitions = 0;
        for expiring in &self.topics {
            partitions = partitions.max(self.log.partitions(expiring.topic)?);
        }
        self.sweep_of(&(0..partitions).collect::<Vec<_>>(), now).await
    }

    /// The same for these partitions of each topic alone. Several processes may sweep side by side, also the same partition:
    /// what one deletes another would have deleted, and nothing is deleted twice.
    ///
    /// # Errors
    /// When the log fails; the next call goes on.
    pub async fn sweep_of(&mut self, partitions: &[Partition], now: Millis) -> Result<usize, LogError> {
        let mut swept = 0;
        for expiring in &self.topics {
            let end = self.log.partitions(expiring.topic)?;
            let existing = partitions.iter().filter(|&&partition| partition < end);
            let places: Vec<_> = existing.map(|&partition| TopicPartition::new(expiring.topic, partition)).collect();
            let mut commits: Vec<Vec<Option<Offset>>> = vec![vec![]; places.len()];
            for group in &expiring.groups {
                let committed = self.log.committed(group, &places).await?;
                for (of_place, commit) in commits.iter_mut().zip(committed) {
                    of_place.push(commit.map(|commit| commit.offset));
                }
            }
            for collector in &expiring.collectors {
                let committed = self.log.committed(collector, &places).await?;
                for (of_place, commit) in commits.iter_mut().zip(committed) {
                    of_place.extend(commit.map(|commit| Some(commit.offset)));
                }
            }
            let keep_back = Millis::try_from(expiring.keep_back.as_millis()).unwrap_or(Millis::MAX);
            for (place, commits) in places.into_iter().zip(commits) {
                let bounds = self.log.bounds(place).await?;
                let asked = self.asked.get(&place).copied().unwrap_or(bounds.start);
                let Some(worked_off) = worked_off(&commits, bounds).filter(|&offset| offset > asked) else { continue };
                let kept = match keep_back {
                    0 => bounds.end,
                    back => self.log.offset_at(place, now.saturating_sub(back)).await?,
                };
                let before = worked_off.min(kept);
                if before > asked {
                    self.log.delete_below(place, before).await?;
                    self.asked.insert(place, before);
                    swept += 1;
                }
            }
        }
        Ok(swept)
    }
}

/// Below which offset all groups are done. `None` without groups, or while one has not committed or stands outside of the
/// log: that is for its owner to halt on, not for us to delete under. Pure.
fn worked_off(commits: &[Option<Offset>], bounds: Bounds) -> Option<Offset> {
    let lowest = commits.iter().copied().collect::<Option<Vec<Offset>>>()?.into_iter().min()?;
    (bounds.start..=bounds.end).contains(&lowest).then_some(lowest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_deleted_above_the_lowest_commit_point_of_all_groups() {
        let bounds = Bounds { start: 10, end: 100 };
        assert_eq!(worked_off(&[Some(50), Some(40), Some(90)], bounds), Some(40));
        assert_eq!(worked_off(&[Some(50), None], bounds), None, "one group has not begun");
        assert_eq!(worked_off(&[], bounds), None, "nobody is known to read it");
        assert_eq!(worked_off(&[Some(101)], bounds), None, "a commit of another log");
        assert_eq!(worked_off(&[Some(9)], bounds), None);
    }

    #[test]
    fn a_cluster_keeps_documents_for_users_and_one_process_does_not() {
        let topics = |expiring: Vec<Expiring>| expiring.into_iter().map(|expiring| expiring.topic).collect::<Vec<_>>();
        let (one, many) = (topics(Expiring::in_one_process()), topics(Expiring::in_a_cluster()));
        assert!(one.contains(&topic::DOCUMENTS) && one.contains(&topic::FRONTIER));
        assert!(!many.contains(&topic::DOCUMENTS) && !many.contains(&topic::FRONTIER));
        for kept in [topic::SEEN, topic::SITES, topic::CONTROL, topic::DEAD_LETTERS] {
            assert!(!one.contains(&kept) && !many.contains(&kept), "{kept}");
        }
    }
}
