//! Continuous polling for completion.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::{Context as _, Result};
use orbweaver_log::Log;
use orbweaver_messages::{Millis, topic};
use orbweaver_stage::completion::{GroupTopic, OffsetSnapshot};
use orbweaver_stage::{Clock as _, SystemClock};
use serde_json::json;
use tokio::time::{interval, timeout};

use crate::journal::Journal;

/// Polling interval.
const EVERY: Duration = Duration::from_millis(400);
/// Timeout per offset snapshot: brokers may be unavailable.
const READS_WITHIN: Duration = Duration::from_secs(30);

/// Reports of completion.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    completions_ms: Mutex<Vec<Millis>>,
}

impl Watch {
    /// Returns the times of all reports, each the end of its second snapshot.
    pub(crate) fn completions_ms(&self) -> Vec<Millis> {
        self.completions_ms.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Polls until it is cancelled. A failed snapshot is skipped; the next one is compared with the last successful
    /// one.
    pub(crate) async fn run(&self, log: &dyn Log, journal: &Journal) -> Result<()> {
        let mut last: Option<OffsetSnapshot> = None;
        let mut lag = u64::MAX;
        let mut ticks = interval(EVERY);
        loop {
            ticks.tick().await;
            match read(log).await {
                Ok(reading) => {
                    let now = reading.lags().map(|(_, lag)| lag).sum();
                    if now != lag {
                        journal.note("lag", lags(&reading));
                        lag = now;
                    }
                    if last.as_ref().is_some_and(|first| reading.confirms_completion(first)) {
                        journal.note("complete", json!(null));
                        self.completions_ms.lock().unwrap_or_else(PoisonError::into_inner).push(SystemClock.now());
                    }
                    last = Some(reading);
                }
                Err(error) => journal.note("no reading", json!(format!("{error:#}"))),
            }
        }
    }
}

/// Takes an offset snapshot of all groups and topics that the pipeline declares.
pub(crate) async fn read(log: &dyn Log) -> Result<OffsetSnapshot> {
    let groups = topic::groups().iter();
    let pairs = groups.flat_map(|(group, topics)| topics.iter().map(|topic| ((*group).to_owned(), *topic)));
    let declared: Vec<_> = pairs.map(|(group, topic)| GroupTopic { group, topic }).collect();
    Ok(timeout(READS_WITHIN, OffsetSnapshot::take(log, &declared)).await.context("the reading took too long")??)
}

/// Returns the lag of each group and topic that has one.
pub(crate) fn lags(reading: &OffsetSnapshot) -> serde_json::Value {
    reading.lags().filter(|(_, lag)| *lag > 0).map(|(of, lag)| (format!("{} of {}", of.group, of.topic), lag)).collect()
}
