//! Invariants of a schedule, checked against the web's request log and the final content of the log.

use std::collections::{BTreeMap, BTreeSet};

use futures::FutureExt;
use orbweaver_log::{ConsumerRecord, MemoryLog};
use orbweaver_messages::{Millis, topic};
use orbweaver_store::{MemoryStore, Store};
use orbweaver_url::{CrawlName, Fingerprint};

use crate::{
    observer::{documents, tps},
    time::shown,
    web::{Asked, Kind, Served, Truth},
};

/// Times at which the knowledge of a process was lost to the others: it was killed, ended by itself, or was expelled.
pub(crate) type Losses = Vec<(usize, Millis)>;

/// Requests for pages beyond the necessary ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repeats {
    /// Total.
    pub all: usize,
    /// Maximum per URL, and the URL.
    pub most: Option<(usize, String)>,
}

/// Checks the documents and dead letters. Records of `rejected` pages must be dead letters.
pub(crate) fn judge_pages(log: &MemoryLog, truth: &Truth, served: &Served, rejected: &BTreeSet<usize>) -> Vec<String> {
    let documents = documents(log);
    let missing = truth.documents.iter().filter(|url| !documents.contains(*url)).map(|url| format!("{url} was lost"));
    let invented = documents
        .iter()
        .filter(|url| !truth.possible.contains(*url))
        .map(|url| format!("{url} came out, but must not"));
    let asked = served.asked();
    let forbidden = asked.iter().filter(|asked| !asked.is_robots && !truth.allowed.contains(&asked.url));
    let forbidden =
        forbidden.map(|asked| format!("{} was requested at {}, but must not be", asked.url, shown(asked.arrived_ms)));
    let letters = || tps(log, topic::DEAD_LETTERS).into_iter().flat_map(|tp| log.records(tp));
    let is_of = |letter: &ConsumerRecord, page: &usize| {
        let url = format!("\"{}\"", served.web.pages[*page].url);
        let mut texts = letter.headers.iter().map(|(_, value)| value).chain(&letter.value);
        texts.any(|text| String::from_utf8_lossy(text).contains(&url))
    };
    let kept = rejected.iter().filter(|page| !letters().any(|letter| is_of(&letter, page)));
    let kept = kept.map(|page| format!("{} is not among the dead letters", served.web.pages[*page].url));
    let dead = letters().filter(|letter| !rejected.iter().any(|page| is_of(letter, page))).map(|record| {
        let reason = record.header("reason").map(|reason| String::from_utf8_lossy(reason).into_owned());
        format!("a dead letter: {} {:?}", reason.unwrap_or_default(), record.value)
    });
    missing.chain(invented).chain(forbidden).chain(kept).chain(dead).collect()
}

/// Checks that no request was received while the crawl was paused, except those that were sent before every process had
/// learned of the pause.
pub(crate) fn judge_pauses(served: &Served, pauses: &[(Millis, Option<Millis>)], within_ms: Millis) -> Vec<String> {
    let paused =
        |at: Millis| pauses.iter().find(|(begin, end)| at > begin + within_ms && end.is_none_or(|end| at < end));
    let violation = |asked: Asked| {
        let (begin, _) = paused(asked.arrived_ms)?;
        let late = asked.arrived_ms - begin;
        Some(format!("{} was requested by process {} {late} ms after the crawl was paused", asked.url, asked.by))
    };
    served.asked().into_iter().filter_map(violation).collect()
}

/// Checks the times of the requests to each site.
pub(crate) fn judge_politeness(served: &Served, losses: &Losses) -> Vec<String> {
    let mut sites: BTreeMap<String, Vec<Asked>> = BTreeMap::new();
    for asked in served.asked() {
        sites.entry(asked.site.clone()).or_default().push(asked);
    }
    let mut violations = vec![];
    for requests in sites.values() {
        for (index, asked) in requests.iter().enumerate() {
            for before in &requests[..index] {
                violations.extend(judge_pair(served, before, asked, losses));
            }
        }
    }
    violations
}

/// Checks a request against an earlier one to the same site.
fn judge_pair(served: &Served, before: &Asked, asked: &Asked, losses: &Losses) -> Option<String> {
    let at = asked.arrived_ms;
    let what = || format!("{} was requested ({}) by process {} at {}", asked.site, asked.url, asked.by, shown(at));
    let Some(ended) = before.ended_ms.filter(|ended| *ended <= at) else {
        return Some(format!(
            "{} while the request of process {} of {} was in flight",
            what(),
            before.by,
            shown(before.arrived_ms)
        ));
    };
    let gap = at - ended;
    let interval = Millis::try_from(served.web.interval_ms).unwrap_or(Millis::MAX);
    if gap < interval {
        return Some(format!("{} {gap} ms after its answer to process {}, not {interval} ms", what(), before.by));
    }
    let host = &served.web.hosts[asked.host];
    if let Some(delay) = host.crawl_delay_s.filter(|_| !asked.is_robots && asked.host == before.host) {
        let delay = Millis::try_from(delay * 1000).unwrap_or(Millis::MAX);
        // Known since the response of robots.txt, which preceded any page of this host.
        if gap < delay {
            return Some(format!(
                "{} {gap} ms after its answer to process {}, not its crawl-delay of {delay} ms",
                what(),
                before.by
            ));
        }
    }
    // Without Retry-After, a minute.
    let refused = matches!(before.status, Some(429 | 503));
    let block_ms = before.retry_after_ms.or(refused.then(|| orbweaver_politeness::block_ms(0)))?;
    let asked_for = Millis::try_from(block_ms).unwrap_or(Millis::MAX);
    // A process that was killed or isolated could not pass on the delay.
    let reported = !losses.iter().any(|(process, lost)| *process == before.by && (ended..=at).contains(lost));
    (gap < asked_for && reported)
        .then(|| format!("{} {gap} ms after it blocked process {} for {asked_for} ms", what(), before.by))
}

/// Returns the rows of the store that do not match the last response for their page.
pub(crate) fn outdated_rows(store: &MemoryStore, served: &Served) -> Vec<String> {
    let mut answers: BTreeMap<String, (Millis, u16)> = BTreeMap::new();
    for asked in served.asked().into_iter().filter(|asked| !asked.is_robots) {
        let Some(answer) = asked.ended_ms.zip(asked.status) else { continue };
        let last = answers.entry(asked.url).or_insert(answer);
        *last = answer.max(*last);
    }
    let outdated = |(url, (at_ms, status)): (String, (Millis, u16))| {
        // The in-memory store responds immediately; in these webs the URL of a page is its canonical form.
        let row = store.page(Fingerprint::of(&CrawlName::default(), &url)).now_or_never()?.ok()??;
        let stored = row.status?;
        (stored != status).then(|| {
            format!("{url} has the status {stored} in the store; the last answer, at {}, was {status}", shown(at_ms))
        })
    };
    answers.into_iter().filter_map(outdated).collect()
}

/// Counts the requests for pages beyond the necessary ones.
pub(crate) fn repeats(served: &Served) -> Repeats {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for asked in served.asked().into_iter().filter(|asked| !asked.is_robots) {
        *counts.entry(asked.url).or_default() += 1;
    }
    let mut repeats = Repeats::default();
    for page in &served.web.pages {
        let needed = 1 + page.troubles.len() + usize::from(page.kind == Kind::CookieWall);
        let excess = counts.get(&page.url).copied().unwrap_or(0).saturating_sub(needed);
        repeats.all += excess;
        if excess > repeats.most.as_ref().map_or(0, |(most, _)| *most) {
            repeats.most = Some((excess, page.url.clone()));
        }
    }
    repeats
}
