//! Whether the files contain all results.

use std::time::Duration;

use orbweaver_log::{Log, LogError, Offset, TopicPartition, topic_partitions};
use tokio::time::{sleep, timeout};

use super::TOPICS;

/// Interval between two looks at the commits.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Ends of the topics with results at some time.
#[derive(Debug)]
pub struct ResultEnds(Vec<(TopicPartition, Offset)>);

impl ResultEnds {
    /// Reads the ends.
    ///
    /// # Errors
    /// Fails if the log fails.
    pub async fn take(log: &dyn Log) -> Result<Self, LogError> {
        let tps = topic_partitions(log, TOPICS)?;
        let bounds = log.all_bounds(&tps).await?;
        Ok(Self(tps.into_iter().zip(bounds.iter().map(|bounds| bounds.end)).collect()))
    }

    /// Returns `true` if `group` has committed everything below the ends: the files contain it.
    ///
    /// # Errors
    /// Fails if the log fails.
    pub async fn are_collected(&self, log: &dyn Log, group: &str) -> Result<bool, LogError> {
        let tps: Vec<_> = self.0.iter().map(|(tp, _)| *tp).collect();
        let commits = log.committed(group, &tps).await?;
        let mut commits = commits.iter().zip(&self.0);
        Ok(commits.all(|(commit, (_, end))| commit.as_ref().is_some_and(|commit| commit.offset >= *end)))
    }
}

/// Waits until `group` has committed all records that the log holds now: the files contain them. Returns `false` after
/// `limit`.
///
/// # Errors
/// Fails if the log fails.
pub async fn caught_up(log: &dyn Log, group: &str, limit: Duration) -> Result<bool, LogError> {
    let wait = async {
        let ends = ResultEnds::take(log).await?;
        while !ends.are_collected(log, group).await? {
            sleep(LOOK_EVERY).await;
        }
        Ok(true)
    };
    // Queries are retried for minutes while brokers are unavailable.
    timeout(limit, wait).await.unwrap_or(Ok(false))
}
