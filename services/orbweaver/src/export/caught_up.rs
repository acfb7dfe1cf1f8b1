//! Whether the files contain all results.

use std::time::Duration;

use orbweaver_log::{Log, LogError, topic_partitions};
use tokio::time::{sleep, timeout};

use super::TOPICS;

/// Interval between two looks at the commits.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Waits until `group` has committed all records that the log holds now: the files contain them. Returns `false` after
/// `limit`.
///
/// # Errors
/// Fails if the log fails.
pub async fn caught_up(log: &dyn Log, group: &str, limit: Duration) -> Result<bool, LogError> {
    let tps = topic_partitions(log, TOPICS)?;
    let wait = async {
        let bounds = log.all_bounds(&tps).await?;
        loop {
            let commits = log.committed(group, &tps).await?;
            let mut commits = commits.iter().zip(&bounds);
            if commits.all(|(commit, bounds)| commit.as_ref().is_some_and(|commit| commit.offset >= bounds.end)) {
                return Ok(true);
            }
            sleep(LOOK_EVERY).await;
        }
    };
    // Queries are retried for minutes while brokers are unavailable.
    timeout(limit, wait).await.unwrap_or(Ok(false))
}
