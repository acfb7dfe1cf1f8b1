//! What happened to everything: `summary.json`, and the same for people.

use std::{collections::BTreeMap, path::Path, time::Duration};

use serde::{Deserialize, Serialize};

use super::progress::{bytes, duration, number, outcomes};
use crate::{durable::write_whole, exit::Failure, export::Tally};

/// Why a crawl stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// Nothing is left to do.
    Complete,
    /// As many pages were fetched as were asked for.
    MaxPages,
    /// The time is up; it can go on.
    MaxTime,
    /// The user stopped it; it can go on.
    Interrupted,
    /// The log or the store failed; it can go on when the cause is mended.
    Failed,
}

/// What happened to everything.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Summary {
    /// Why it stopped.
    pub ended_by: EndedBy,
    /// Pages fetched, over all runs.
    pub pages: u64,
    /// What became of the URLs, over all runs.
    pub urls: Tally,
    /// URLs that still wait.
    pub waiting: u64,
    /// Patterns of similar URLs that lead on and brought nothing new, at the end.
    #[serde(default)]
    pub patterns_over_budget: u64,
    /// What became of the links of this run, by what was decided: a link that stands on many pages counts as often.
    pub links: BTreeMap<String, u64>,
    /// Records that could not be processed, among them bad lines of a seeds file.
    pub dead_letters: u64,
    /// Length of this run, in seconds.
    pub seconds: f64,
    /// CPU time of this run, in seconds.
    pub cpu_seconds: f64,
    /// CPU time of this run by service, in seconds.
    pub cpu_seconds_by_service: BTreeMap<String, f64>,
    /// The most memory that was resident in this run, in bytes.
    pub peak_rss_bytes: u64,
}

impl Summary {
    /// Writes `summary.json`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, out: &Path) -> Result<(), Failure> {
        write_whole(&out.join("summary.json"), self)
    }

    /// The summary in words.
    #[must_use]
    pub fn text(&self, out: &Path) -> String {
        let end = match self.ended_by {
            EndedBy::Complete => "complete",
            EndedBy::MaxPages => "ended at --max-pages",
            EndedBy::MaxTime => "stopped at --max-time",
            EndedBy::Interrupted => "stopped",
            EndedBy::Failed => "failed",
        };
        let time = Duration::from_secs_f64(self.seconds.max(0.0));
        #[allow(clippy::cast_precision_loss, reason = "a speed for people")]
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
            lines.push(format!("{} URLs still wait", number(self.waiting)));
        }
        if self.patterns_over_budget > 0 && !self.urls.refused.contains_key("trap") {
            let patterns = number(self.patterns_over_budget);
            lines.push(format!(
                "patterns of URLs that lead on and bring nothing new: {patterns}; --traps strict refuses them"
            ));
        }
        lines.push(format!("results: {}", out.display()));
        lines.join("\n")
    }
}
