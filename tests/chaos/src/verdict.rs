//! Comparison of a run with the truth and the promises: pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use orbweaver_cluster_tests::Content;
use orbweaver_messages::Millis;
use orbweaver_pipeline_tests::{normalized, site_of_host};
use orbweaver_toyweb::{Entry, Expected, Fate, Kind};

use crate::kept::Keepsakes;
use crate::stored::Stored;

mod differences;
mod revisits;

/// Maximum number of listed findings per kind.
const LISTED: usize = 20;
/// Exit code of a process that ended with unfinished work.
const UNFINISHED: i32 = 75;
/// Exit codes after which a supervisor restarts a process: a server failed for too long; halted or stalled.
const RESTARTED: [i32; 2] = [74, UNFINISHED];
/// Maximum rounding difference between two clocks of one machine, in milliseconds.
const ROUNDING_MS: Millis = 2;

/// Limits of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Minimum time from a site's response to its next request, in microseconds.
    pub interval_us: u64,
    /// `Retry-After` of a 429, in microseconds.
    pub retry_after_us: u64,
    /// Response time of slow pages, in microseconds.
    pub slow_us: u64,
    /// Maximum number of requests beyond those of an undisturbed crawl: those in flight at the faults.
    pub twice_at_most: u64,
    /// Time allowed for the end of a process after SIGTERM, in milliseconds.
    pub ends_within_ms: u64,
}

/// Exit of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// Name of the process.
    pub who: String,
    /// Exit code; `None` if a signal ended the process, or if it did not end.
    pub code: Option<i32>,
    /// Time from SIGTERM to the exit, in milliseconds; `None` without SIGTERM.
    pub took_ms: Option<u64>,
    /// Whether a server was unavailable in the meantime, so that nothing could be committed.
    pub servers_away: bool,
}

/// Input of a verdict on a crawl.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// Truth of the web.
    pub truth: Vec<Expected>,
    /// Requests of the crawl that the web received, in order.
    pub requests: Vec<Entry>,
    /// Requests of other crawls, which share the sites, in order.
    pub others: Vec<Entry>,
    /// Times during which the crawl was certainly paused, in milliseconds since the epoch.
    pub paused_ms: Vec<(Millis, Millis)>,
    /// Number of documents of each URL.
    pub documents: BTreeMap<String, u32>,
    /// Last document of each URL.
    pub contents: BTreeMap<String, Content>,
    /// Expected stored data.
    pub kept: Keepsakes,
    /// Content of the CQL server.
    pub stored: Stored,
    /// Findings about a crawl that was deleted, and about the one with its name.
    pub deleted: Vec<String>,
    /// Number of records that could not be processed.
    pub dead_letters: u64,
    /// Times at which completion was reported, in milliseconds since the epoch: the ends of the second snapshots.
    pub completions_ms: Vec<Millis>,
    /// Whether completion was reported after the last fault, by the snapshots and by `orbweaver status --wait`.
    pub complete_at_the_end: bool,
    /// Start and end of each fault, in milliseconds since the epoch.
    pub faults_ms: Vec<(Millis, Millis)>,
    /// Start and end of each time in which all instances restarted by clocks that were set, in milliseconds since the
    /// epoch: a `Retry-After` then ends earlier or later (docs/adr/0026-fencing-of-requests.md).
    pub clocks_ms: Vec<(Millis, Millis)>,
    /// Exits of processes, after SIGTERM or by themselves.
    pub exits: Vec<Exit>,
    /// Other problems: a process that did not start, a server that did not come back.
    pub troubles: Vec<String>,
}

impl Evidence {
    /// Returns the requests of all crawls, in order.
    fn in_order(&self) -> impl Iterator<Item = &Entry> {
        let mut all: Vec<_> = self.requests.iter().chain(&self.others).collect();
        all.sort_by_key(|entry| entry.at_us);
        all.into_iter()
    }
}

/// Verdict on a run.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// Number of URLs that a crawl must request.
    pub reachable: usize,
    /// Number of those that were requested and have their document, where one is expected.
    pub fetched: usize,
    /// The remaining URLs, each with the missing part.
    pub lost: Vec<String>,
    /// Number of requests beyond those of an undisturbed crawl.
    pub twice: u64,
    /// Number of such requests that the faults explain.
    pub twice_at_most: u64,
    /// Requests that came too early for their site, and visits that came too early for their page.
    pub impolite: Vec<String>,
    /// Requests and documents of URLs that no crawl may request.
    pub strayed: Vec<String>,
    /// Missing, wrong or surplus documents and rows.
    pub differing: Vec<String>,
    /// Number of records that could not be processed.
    pub dead_letters: u64,
    /// Reports of completion before everything was fetched.
    pub early_complete: Vec<String>,
    /// Whether completion was reported at the end.
    pub complete_at_the_end: bool,
    /// Number of requests that the web received during a fault, as evidence that the crawl was working.
    pub during_faults: usize,
    /// Number of processes that ended by themselves in a way that a supervisor repairs.
    pub restarted: usize,
    /// Processes with another unexpected end, and other problems.
    pub troubles: Vec<String>,
}

impl Verdict {
    /// Judges a run.
    #[must_use]
    pub fn on(evidence: &Evidence, rules: &Rules) -> Self {
        let counts = requests_by_url(&evidence.requests);
        let reachable: Vec<_> = evidence.truth.iter().filter(|expected| expected.least > 0).collect();
        let lost: Vec<_> = reachable.iter().filter_map(|expected| missing(expected, &counts, evidence)).collect();
        let mut troubles = evidence.troubles.clone();
        troubles.extend(evidence.exits.iter().filter_map(|exit| wrong_exit(exit, rules)));
        let restarted = evidence.exits.iter().filter(|exit| exit.took_ms.is_none() && is_restarted(exit)).count();
        Self {
            reachable: reachable.len(),
            fetched: reachable.len() - lost.len(),
            lost,
            twice: repeated(&evidence.truth, &counts),
            twice_at_most: rules.twice_at_most,
            impolite: impolite(evidence, rules),
            strayed: strayed(evidence, &counts),
            differing: [
                differences::differences(&evidence.kept, &evidence.stored, &evidence.contents),
                evidence.deleted.clone(),
            ]
            .concat(),
            dead_letters: evidence.dead_letters,
            early_complete: early(&reachable, evidence),
            complete_at_the_end: evidence.complete_at_the_end,
            during_faults: evidence.in_order().filter(|entry| is_during(entry, &evidence.faults_ms)).count(),
            restarted,
            troubles,
        }
    }

    /// Adds the verdict on another crawl of the same run; its findings are marked with its name.
    #[must_use]
    pub fn and(mut self, crawl: &str, other: Self) -> Self {
        self.reachable += other.reachable;
        self.fetched += other.fetched;
        self.twice += other.twice;
        let lists = [
            (&mut self.lost, other.lost),
            (&mut self.impolite, other.impolite),
            (&mut self.strayed, other.strayed),
            (&mut self.differing, other.differing),
            (&mut self.early_complete, other.early_complete),
            (&mut self.troubles, other.troubles),
        ];
        for (list, more) in lists {
            list.extend(more.into_iter().map(|finding| format!("{crawl}: {finding}")));
        }
        self
    }

    /// Returns `true` if all promises were kept.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.lost.is_empty()
            && self.twice <= self.twice_at_most
            && self.impolite.is_empty()
            && self.strayed.is_empty()
            && self.differing.is_empty()
            && self.dead_letters == 0
            && self.early_complete.is_empty()
            && self.complete_at_the_end
            && self.troubles.is_empty()
    }

    /// Returns the findings, one per line: the first of each kind, and the number of further ones.
    pub fn findings(&self) -> impl Iterator<Item = String> {
        let kinds = [
            ("lost", &self.lost),
            ("impolite", &self.impolite),
            ("strayed", &self.strayed),
            ("kept wrong", &self.differing),
            ("complete too early", &self.early_complete),
            ("trouble", &self.troubles),
        ];
        kinds.into_iter().flat_map(|(kind, found)| {
            let more = found.len().saturating_sub(LISTED);
            let listed = found.iter().take(LISTED).map(move |what| format!("{kind}: {what}"));
            listed.chain((more > 0).then(|| format!("{kind}: and {more} more")))
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reachable={} fetched={} lost={} ", self.reachable, self.fetched, self.lost.len())?;
        write!(f, "twice={}/{} impolite={} ", self.twice, self.twice_at_most, self.impolite.len())?;
        write!(f, "strayed={} differing={} ", self.strayed.len(), self.differing.len())?;
        write!(f, "dead_letters={} ", self.dead_letters)?;
        write!(f, "early_complete={} complete_at_end={} ", self.early_complete.len(), self.complete_at_the_end)?;
        write!(f, "during_faults={} restarted={} ", self.during_faults, self.restarted)?;
        write!(f, "troubles={}", self.troubles.len())?;
        write!(f, ": {}", if self.is_ok() { "OK" } else { "FAILED" })
    }
}

fn is_during(entry: &Entry, spans_ms: &[(Millis, Millis)]) -> bool {
    let lasted = |at_ms: Millis| spans_ms.iter().any(|(since, until)| (*since..*until).contains(&at_ms));
    Millis::try_from(entry.epoch_us / 1_000).is_ok_and(lasted)
}

/// Returns `true` for robots.txt and the place to which the web moves it.
fn is_robots(entry: &Entry) -> bool {
    matches!(entry.target.as_str(), "/robots.txt" | "/robots-moved.txt")
}

fn requests_by_url(requests: &[Entry]) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for entry in requests.iter().filter(|entry| !is_robots(entry)) {
        *counts.entry(normalized(&entry.host, &entry.target)).or_insert(0) += 1;
    }
    counts
}

fn missing(expected: &Expected, counts: &BTreeMap<String, u32>, evidence: &Evidence) -> Option<String> {
    let url = &expected.url;
    if !counts.contains_key(url) {
        return Some(format!("{url}: never requested"));
    }
    let lacks = expected.fate == Fate::Fetched && !evidence.documents.contains_key(url);
    lacks.then(|| format!("{url}: requested, but there is no document"))
}

fn repeated(truth: &[Expected], counts: &BTreeMap<String, u32>) -> u64 {
    let beyond = |expected: &Expected| {
        // A URL that takes several requests starts over if its site demands a back-off in between.
        let most = if expected.least > 1 { expected.most * 2 } else { expected.most };
        u64::from(counts.get(&expected.url).copied().unwrap_or(0).saturating_sub(most))
    };
    truth.iter().filter(|expected| expected.most > 0).map(beyond).sum()
}

fn impolite(evidence: &Evidence, rules: &Rules) -> Vec<String> {
    let slow = evidence.truth.iter().filter(|expected| expected.kind == Some(Kind::Slow));
    let slow: BTreeSet<&str> = slow.map(|expected| expected.url.as_str()).collect();
    // Earliest time of the next request to each site, and the reason; the end of its last Retry-After.
    let mut free: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
    let mut blocked: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
    let mut found = vec![];
    for entry in evidence.in_order() {
        let site = site_of_host(&entry.host);
        let before = free.get(site).copied();
        let block = blocked.get(site).copied().filter(|_| !is_during(entry, &evidence.clocks_ms));
        if let Some((free_us, why)) = before.max(block).filter(|(free_us, _)| entry.at_us < *free_us) {
            let early = free_us - entry.at_us;
            found
                .push(format!("{}{} at {} us came {early} us too early: {why}", entry.host, entry.target, entry.at_us));
        }
        let next = if slow.contains(normalized(&entry.host, &entry.target).as_str()) {
            (entry.at_us + rules.slow_us + rules.interval_us, "an answer was on its way")
        } else {
            (entry.at_us + rules.interval_us, "the interval")
        };
        free.insert(site, before.map_or(next, |before| before.max(next)));
        if entry.status == 429 {
            // It stays in force even if a request violated it.
            blocked.insert(site, (entry.at_us + rules.retry_after_us, "Retry-After"));
        }
    }
    found
}

fn strayed(evidence: &Evidence, counts: &BTreeMap<String, u32>) -> Vec<String> {
    let known: BTreeMap<_, _> = evidence.truth.iter().map(|expected| (expected.url.as_str(), expected)).collect();
    let requested = counts.keys().filter(|url| known.get(url.as_str()).is_none_or(|expected| expected.most == 0));
    let has_none = |url: &&String| {
        known.get(url.as_str()).is_none_or(|expected| !matches!(expected.fate, Fate::Fetched | Fate::Cut))
    };
    let documents = evidence.documents.keys().filter(has_none);
    let requested = requested.map(|url| format!("{url}: requested, and must not be"));
    let paused = evidence.requests.iter().filter(|entry| is_during(entry, &evidence.paused_ms));
    let paused = paused.map(|entry| format!("{}{}: requested while its crawl was paused", entry.host, entry.target));
    requested.chain(paused).chain(documents.map(|url| format!("{url}: has a document, and must not"))).collect()
}

/// Checks reports of completion: everything was fetched by then, and nothing is requested afterwards.
fn early(reachable: &[&Expected], evidence: &Evidence) -> Vec<String> {
    let Some(first) = evidence.completions_ms.iter().min() else { return vec![] };
    let until = first + ROUNDING_MS;
    let is_later = |entry: &&Entry| i64::try_from(entry.epoch_us / 1_000).unwrap_or(i64::MAX) > until;
    let by_then: Vec<_> = evidence.requests.iter().filter(|entry| !is_later(entry)).cloned().collect();
    let by_then = requests_by_url(&by_then);
    let waiting = reachable.iter().filter(|expected| !by_then.contains_key(&expected.url)).count();
    let later = evidence.requests.iter().filter(is_later);
    let mut found: Vec<_> = later
        .map(|entry| format!("{}{} was requested after complete was reported at {first}", entry.host, entry.target))
        .collect();
    if waiting > 0 {
        found.push(format!("{waiting} URLs had not been requested when complete was reported at {first}"));
    }
    found
}

fn is_restarted(exit: &Exit) -> bool {
    exit.code.is_some_and(|code| RESTARTED.contains(&code))
}

fn wrong_exit(exit: &Exit, rules: &Rules) -> Option<String> {
    let who = &exit.who;
    let Some(took_ms) = exit.took_ms else {
        return (!is_restarted(exit)).then(|| format!("{who} ended by itself with {:?}", exit.code));
    };
    let right = exit.code == Some(0) || (exit.code == Some(UNFINISHED) && exit.servers_away);
    if !right {
        return Some(format!("{who} ended with {:?} after SIGTERM, not with 0", exit.code));
    }
    (took_ms > rules.ends_within_ms).then(|| format!("{who} took {took_ms} ms to end after SIGTERM"))
}

#[cfg(test)]
mod tests;
