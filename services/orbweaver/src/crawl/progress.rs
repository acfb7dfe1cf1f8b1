//! Progress display on stderr during a crawl.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    io::IsTerminal as _,
    time::{Duration, Instant},
};

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use orbweaver_frontier::{Figures, SiteLoad};
use orbweaver_rate_limiter::BlockedSites;

use crate::export::Tally;

/// Time over which the speed is averaged.
const SPEED_OVER: Duration = Duration::from_secs(5);
/// Interval between two plain lines if stderr is not a terminal.
const PLAIN_EVERY: Duration = Duration::from_secs(10);

/// Number of busiest sites in the display.
const BUSIEST: usize = 5;

/// Figures at one time.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Time since the start of this run.
    pub elapsed: Duration,
    /// Results of the URLs, over all runs.
    pub tally: Tally,
    /// Figures of the frontier.
    pub frontier: Figures,
    /// Requests in flight.
    pub in_flight: u64,
    /// Sites that get no request for some time after 429, 503 or a challenge.
    pub blocked: BlockedSites,
    /// Reason why the crawl is not faster, if there is one that the user should know.
    pub why: Option<String>,
}

/// Display on stderr: redrawn on a terminal, otherwise a line every `PLAIN_EVERY`.
pub(crate) struct Display {
    bar: Option<ProgressBar>,
    printed: Option<Instant>,
}

impl Display {
    pub(crate) fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
            if let Ok(style) = ProgressStyle::with_template("{spinner:.green} {msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self { bar, printed: None }
    }

    /// Shows a text on a terminal, or a line elsewhere.
    pub(crate) fn show(&mut self, text: impl FnOnce() -> String, line: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar {
            bar.set_message(text());
        } else if self.printed.is_none_or(|printed| printed.elapsed() >= PLAIN_EVERY) {
            self.printed = Some(Instant::now());
            notice!("{}", line());
        }
    }

    /// Removes the display.
    pub(crate) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Shows snapshots of a crawl.
pub struct Progress {
    display: Display,
    name: String,
    speed: Speed,
}

/// Mean speed of the last seconds.
#[derive(Debug, Default)]
pub(crate) struct Speed(VecDeque<(Duration, u64)>);

impl Speed {
    /// Returns the speed in pages per second; `elapsed` is the time since the start.
    #[allow(clippy::cast_precision_loss, reason = "a human-readable number of pages")]
    pub(crate) fn of(&mut self, elapsed: Duration, pages: u64) -> f64 {
        self.0.push_back((elapsed, pages));
        while self.0.len() > 2 && self.0.front().is_some_and(|(at, _)| elapsed.saturating_sub(*at) > SPEED_OVER) {
            self.0.pop_front();
        }
        match self.0.front() {
            Some((at, before)) if elapsed > *at => {
                pages.saturating_sub(*before) as f64 / elapsed.saturating_sub(*at).as_secs_f64()
            }
            _ => 0.0,
        }
    }
}

impl Progress {
    /// Creates a display for the crawl `name`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { display: Display::new(), name: name.to_owned(), speed: Speed::default() }
    }

    /// Shows the current figures.
    pub fn show(&mut self, snapshot: &Snapshot) {
        let speed = self.speed.of(snapshot.elapsed, snapshot.tally.fetched);
        self.display.show(|| display(&self.name, snapshot, speed), || plain(snapshot, speed));
    }

    /// Removes the display.
    pub fn finish(&self) {
        self.display.end();
    }
}

fn display(name: &str, snapshot: &Snapshot, speed: f64) -> String {
    let Snapshot { tally, frontier, .. } = snapshot;
    let mut text = format!("{name} · {}", duration(snapshot.elapsed));
    let _ = write!(
        text,
        "\n  {} pages · {speed:.1}/s · {} queued · {} in flight · {}",
        number(tally.fetched),
        number(frontier.waiting),
        snapshot.in_flight,
        bytes(tally.bytes),
    );
    let other = outcomes(tally);
    if !other.is_empty() {
        let _ = write!(text, "\n  {}", other.join(" · "));
    }
    if frontier.sites > 1 {
        let busiest = frontier.busiest.iter().take(BUSIEST);
        let busiest = busiest.map(|SiteLoad { site, waiting }| format!("{site} {}", number(*waiting)));
        let busiest: Vec<_> = busiest.collect();
        let _ = write!(text, "\n  {} sites, busiest: {}", number(frontier.sites), busiest.join(", "));
    }
    if let Some(why) = &snapshot.why {
        let _ = write!(text, "\n  {why}");
    }
    text
}

fn plain(snapshot: &Snapshot, speed: f64) -> String {
    let mut parts = vec![
        format!("{} pages", snapshot.tally.fetched),
        format!("{speed:.1}/s"),
        format!("{} queued", snapshot.frontier.waiting),
        format!("{} in flight", snapshot.in_flight),
    ];
    parts.extend(outcomes(&snapshot.tally));
    parts.extend(snapshot.why.clone());
    format!("[{}] {}", duration(snapshot.elapsed), parts.join(", "))
}

/// Describes the URLs that did not become pages, by result.
#[must_use]
pub fn outcomes(tally: &Tally) -> Vec<String> {
    let mut parts = vec![];
    let mut add = |count: u64, what: &str, reasons: Option<&std::collections::BTreeMap<String, u64>>| {
        if count > 0 {
            let mut reasons: Vec<_> = reasons.into_iter().flatten().collect();
            reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            let reasons: Vec<_> =
                reasons.iter().take(4).map(|(reason, count)| format!("{reason} {}", number(**count))).collect();
            let detail = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
            parts.push(format!("{} {what}{detail}", number(count)));
        }
    };
    add(tally.requisites, "requisites", None);
    add(tally.external, "external", None);
    add(tally.needs_render, "need a browser", None);
    add(tally.near_duplicates, "near duplicates", None);
    add(tally.unchanged, "unchanged", None);
    add(tally.redirected, "redirected", None);
    add(tally.refused.values().sum(), "refused", Some(&tally.refused));
    add(tally.gone.values().sum(), "gone", Some(&tally.gone));
    add(tally.retries.values().sum(), "retried", Some(&tally.retries));
    add(tally.blocked, "blocked", None);
    parts
}

/// Formats a number with thousands separators.
#[must_use]
pub fn number(number: u64) -> String {
    HumanCount(number).to_string()
}

/// Formats a size for display, in decimal units.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "one digit behind the point")]
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// Formats a duration for display, in whole seconds.
#[must_use]
pub fn duration(duration: Duration) -> String {
    humantime::format_duration(Duration::from_secs(duration.as_secs())).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_sizes_are_written_for_people() {
        assert_eq!(["0", "999", "1,000", "1,234,567"].map(str::to_owned), [0, 999, 1000, 1_234_567].map(number));
        assert_eq!(["999 B", "1.0 KB", "16.4 MB"].map(str::to_owned), [999, 1000, 16_400_000].map(bytes));
    }

    #[test]
    fn a_plain_line_says_what_happens_and_why_it_waits() {
        let mut tally = Tally { fetched: 12, ..Tally::default() };
        tally.gone.insert("http_404".into(), 3);
        tally.needs_render = 2;
        tally.near_duplicates = 4;
        let why = Some("limited to 1 request per second per site; --rate changes it".to_owned());
        let snapshot = Snapshot {
            elapsed: Duration::from_secs(75),
            tally,
            frontier: Figures { waiting: 7, ..Figures::default() },
            why,
            ..Snapshot::default()
        };
        let line = plain(&snapshot, 1.0);
        assert_eq!(
            line,
            "[1m 15s] 12 pages, 1.0/s, 7 queued, 0 in flight, 2 need a browser, 4 near duplicates, 3 gone (http_404 3), \
             limited to 1 request per second per site; --rate changes it"
        );
    }
}
