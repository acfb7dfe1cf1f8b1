//! Whether the files contain all results.

use std::time::Duration;

use orbweaver_log::{Log, LogError};
use tokio::time::{Instant, sleep};

use super::topic_partitions;

/// Interval between two looks at the commits.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Waits until `group` has committed all records that the log holds now: the files contain them. Returns `false` after
/// `limit`.
///
/// # Errors
/// Fails if the log fails.
pub async fn caught_up(log: &dyn Log, group: &str, limit: Duration) -> Result<bool, LogError> {
    let tps = topic_partitions(log)?;
    let bounds = log.all_bounds(&tps).await?;
    let deadline = Instant::now().checked_add(limit);
    loop {
        let commits = log.committed(group, &tps).await?;
        let mut commits = commits.iter().zip(&bounds);
        if commits.all(|(commit, bounds)| commit.as_ref().is_some_and(|commit| commit.offset >= bounds.end)) {
            return Ok(true);
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(false);
        }
        sleep(LOOK_EVERY).await;
    }
}
