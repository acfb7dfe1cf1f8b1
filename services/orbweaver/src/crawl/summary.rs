//! Results of a crawl: `summary.json`, and the same in words.

use std::{collections::BTreeMap, path::Path, time::Duration};

use serde::{Deserialize, Serialize};

use super::progress::{bytes, duration, number, outcomes};
use crate::{durable::write_whole, exit::Failure, export::Tally};

/// Reason why a crawl stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// Nothing is left to do.
    Complete,
    /// All URLs sleep until their next visit; the crawl can be resumed then.
    Asleep,
    /// The maximum number of pages was fetched.
    MaxPages,
    /// The maximum number of bytes was read, or the time of its end has come.
    Capped,
    /// The time is up; the crawl can be resumed.
    MaxTime,
    /// The user stopped it; the crawl can be resumed.
    Interrupted,
    /// The log or the store failed; the crawl can be resumed when the cause is fixed.
    Failed,
}

/// Results of a crawl.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Summary {
    /// Reason why it stopped.
    pub ended_by: EndedBy,
    /// Pages fetched, over all runs.
    pub pages: u64,
    /// Results of the URLs, over all runs.
    pub urls: Tally,
    /// URLs that are still queued.
    pub waiting: u64,
    /// URLs that sleep until their next visit.
    #[serde(default)]
    pub asleep: u64,
    /// Time at which the first of them is due, RFC 3339 in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_visit: Option<String>,
    /// Number of URL patterns, at the end, that lead to more and more URLs and brought nothing new.
    #[serde(default)]
    pub patterns_over_budget: u64,
    /// Results of this run's links, by kind; a link that is on many pages counts once per page.
    pub links: BTreeMap<String, u64>,
    /// Records that could not be processed, among them bad lines of a seeds file.
    pub dead_letters: u64,
    /// Duration of this run, in seconds.
    pub seconds: f64,
    /// CPU time of this run, in seconds.
    pub cpu_seconds: f64,
    /// CPU time of this run by service, in seconds.
    pub cpu_seconds_by_service: BTreeMap<String, f64>,
    /// Peak resident memory of this run, in bytes.
    pub peak_rss_bytes: u64,
}

impl Summary {
    /// Writes `summary.json`.
    pub fn write(&self, out: &Path) -> Result<(), Failure> {
        write_whole(&out.join("summary.json"), self)
    }

    /// Describes the summary in words.
    #[must_use]
    pub fn text(&self, out: &Path) -> String {
        let end = match self.ended_by {
            EndedBy::Complete => "complete",
            EndedBy::Asleep => "all visits made",
            EndedBy::MaxPages => "ended at --max-pages",
            EndedBy::Capped => "ended at --max-bytes or --until",
            EndedBy::MaxTime => "stopped at --max-time",
            EndedBy::Interrupted => "stopped",
            EndedBy::Failed => "failed",
        };
        let time = Duration::from_secs_f64(self.seconds.max(0.0));
        #[allow(clippy::cast_precision_loss, reason = "a human-readable speed")]
        let speed = self.pages as f64 / self.seconds.max(0.001);
        let mut lines = vec![format!(
            "{end}: {} pages ({}) in {}{}",
            number(self.pages),
            bytes(self.urls.bytes),
            if time.as_secs() == 0 { format!("{} ms", time.as_millis()) } else { duration(time) },
            if self.ended_by == EndedBy::Complete && time.as_secs() > 0 {
                format!(", {speed:.0}/s")
            } else {
                String::new()
            },
        )];
        let other = outcomes(&self.urls);
        if !other.is_empty() {
            lines.push(format!("urls: {}", other.join(" · ")));
        }
        if !self.urls.changes.is_empty() {
            let changes: Vec<_> =
                self.urls.changes.iter().map(|(kind, count)| format!("{} {kind}", number(*count))).collect();
            lines.push(format!("changes: {}", changes.join(" · ")));
        }
        let links: Vec<_> = self
            .links
            .iter()
            .filter(|(_, n)| **n > 0)
            .map(|(what, n)| format!("{} {}", number(*n), what.replace('_', " ")))
            .collect();
        if !links.is_empty() {
            lines.push(format!("links: {}", links.join(" · ")));
        }
        if self.dead_letters > 0 {
            lines.push(format!("{} records could not be processed; see orbweaver.log", number(self.dead_letters)));
        }
        if self.waiting > 0 {
            lines.push(format!("{} URLs are still queued", number(self.waiting)));
        }
        if let Some(at) = &self.next_visit {
            lines.push(format!("{} URLs will be visited again, the first at {at}", number(self.asleep)));
        }
        if self.patterns_over_budget > 0 && !self.urls.refused.contains_key("trap") {
            let patterns = number(self.patterns_over_budget);
            lines.push(format!(
                "URL patterns without new content (possible traps): {patterns}; --traps strict refuses them"
            ));
        }
        lines.push(format!("results: {}", out.display()));
        lines.join("\n")
    }
}
