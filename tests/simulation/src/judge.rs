//! Invariants of a schedule, checked against the web's request log and the final content of the log.

use std::collections::{BTreeMap, BTreeSet};

use futures::FutureExt;
use orbweaver_log::{ConsumerRecord, MemoryLog};
use orbweaver_messages::{FetchProfile, Millis, topic};
use orbweaver_store::{MemoryStore, Store};
use orbweaver_url::Fingerprint;

use crate::{
    crawls::{Crawl, token},
    observer::{documents, tps},
    revisions::Revision,
    time::shown,
    web::{Asked, Expectation, Kind, Served},
};

/// Times at which the knowledge of a process was lost to the others: it was killed, ended by itself, or was expelled.
pub(crate) type Losses = Vec<(usize, Millis)>;

/// Requests for pages beyond the necessary ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repeats {
    /// Total.
    pub all: usize,
    /// Maximum per URL and crawl, and the URL.
    pub most: Option<(usize, String)>,
}

/// Checks the documents and the requests of a crawl.
pub(crate) fn judge_pages(log: &MemoryLog, expected: &Expectation) -> Vec<String> {
    let (truth, crawl) = (expected.truth(), &expected.crawl);
    let documents = documents(log, crawl);
    let missing = truth.documents.iter().filter(|url| !documents.contains(*url));
    let missing = missing.map(|url| format!("{url} was lost by the crawl `{crawl}`"));
    let invented = documents.iter().filter(|url| !truth.possible.contains(*url));
    let invented = invented.map(|url| format!("{url} came out of the crawl `{crawl}`, but must not"));
    let forbidden = expected.asked().filter(|asked| !asked.is_robots && !truth.allowed.contains(&asked.url));
    let forbidden = forbidden.map(|Asked { url, arrived_ms, .. }| {
        format!("{url} was requested by the crawl `{crawl}` at {}, but must not be", shown(arrived_ms))
    });
    let asked: BTreeSet<String> = expected.asked().map(|asked| asked.url).collect();
    let unchecked = truth.checked.iter().filter(|url| !asked.contains(*url));
    let unchecked = unchecked.map(|url| format!("{url} was not checked by the crawl `{crawl}`"));
    missing.chain(invented).chain(forbidden).chain(unchecked).collect()
}

/// Checks the dead letters: the records of `rejected` pages, and no others.
pub(crate) fn judge_dead_letters(log: &MemoryLog, served: &Served, rejected: &BTreeSet<usize>) -> Vec<String> {
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
    kept.chain(dead).collect()
}

/// Checks that each request was permitted by a definition of its crawl that was in force within the last `within_ms`: the
/// crawl was neither paused nor stopped, and the request has the agent of its profile.
pub(crate) fn judge_revisions(served: &Served, crawls: &[Crawl], within_ms: Millis) -> Vec<String> {
    let violation = |asked: Asked| {
        let at = asked.arrived_ms;
        let crawl = crawls.iter().find(|crawl| crawl.expected.agents.contains(&asked.agent));
        let revised = crawl.map_or(&[][..], |crawl| &crawl.revised);
        let is_past = |index: usize| revised.get(index + 1).is_some_and(|(next, _)| at > next + within_ms);
        let in_force = revised.iter().enumerate().filter(|(index, (from, _))| *from <= at && !is_past(*index));
        let is_permitted =
            |revision: &Revision| !revision.paused && !revision.stopped && token(&revision.profile) == asked.agent;
        let is_permitted = in_force.map(|(_, (_, revision))| revision).any(is_permitted);
        let Asked { url, by, agent, .. } = asked;
        (!is_permitted).then(|| format!("{url} was requested by process {by} as `{agent}` at {}", shown(at)))
    };
    served.asked().into_iter().filter_map(violation).collect()
}

/// Checks the times of the requests to each site, by all crawls together.
pub(crate) fn judge_politeness(served: &Served, losses: &Losses, crawls: &[Crawl]) -> Vec<String> {
    let interval = |profile: &FetchProfile| profile.interval_ms.unwrap_or(served.web.interval_ms);
    let revised = crawls.iter().flat_map(|crawl| &crawl.revised);
    let intervals = revised.map(|(_, Revision { profile, .. })| (token(profile), interval(profile))).collect();
    let mut sites: BTreeMap<String, Vec<Asked>> = BTreeMap::new();
    for asked in served.asked() {
        sites.entry(asked.site.clone()).or_default().push(asked);
    }
    let mut violations = vec![];
    for requests in sites.values() {
        for (index, asked) in requests.iter().enumerate() {
            for before in &requests[..index] {
                violations.extend(judge_pair((served, &intervals), before, asked, losses));
            }
        }
    }
    violations
}

/// Checks a request against an earlier one to the same site.
fn judge_pair(
    (served, intervals): (&Served, &BTreeMap<String, u64>),
    before: &Asked,
    asked: &Asked,
    losses: &Losses,
) -> Option<String> {
    let at = asked.arrived_ms;
    let what = || {
        let Asked { site, url, by, agent, .. } = asked;
        format!("{site} was requested ({url}) by process {by} as `{agent}` at {}", shown(at))
    };
    let Some(ended) = before.ended_ms.filter(|ended| *ended <= at) else {
        return Some(format!(
            "{} while the request of process {} of {} was in flight",
            what(),
            before.by,
            shown(before.arrived_ms)
        ));
    };
    let gap = at - ended;
    let of_agent = |asked: &Asked| *intervals.get(&asked.agent).unwrap_or(&served.web.interval_ms);
    // Of two crawls, or of two profiles of one, the faster interval.
    let interval = Millis::try_from(of_agent(before).min(of_agent(asked))).unwrap_or(Millis::MAX);
    if gap < interval {
        let (by, agent) = (before.by, &before.agent);
        return Some(format!("{} {gap} ms after its answer to process {by} as `{agent}`, not {interval} ms", what()));
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

/// Returns the rows of the store that do not match the last response for their page to this crawl.
pub(crate) fn outdated_rows(store: &MemoryStore, expected: &Expectation) -> Vec<String> {
    let mut answers: BTreeMap<String, (Millis, u16)> = BTreeMap::new();
    for asked in expected.asked().filter(|asked| !asked.is_robots) {
        let Some(answer) = asked.ended_ms.zip(asked.status) else { continue };
        let last = answers.entry(asked.url).or_insert(answer);
        *last = answer.max(*last);
    }
    let outdated = |(url, (at_ms, status)): (String, (Millis, u16))| {
        // The in-memory store responds immediately; in these webs the URL of a page is its canonical form.
        let row = store.page(Fingerprint::of(&expected.crawl, &url)).now_or_never()?.ok()??;
        let stored = row.status?;
        (stored != status).then(|| {
            format!("{url} has the status {stored} in the store; the last answer, at {}, was {status}", shown(at_ms))
        })
    };
    answers.into_iter().filter_map(outdated).collect()
}

/// Adds the requests of a crawl for pages beyond the necessary ones.
pub(crate) fn count_repeats(repeats: &mut Repeats, expected: &Expectation) {
    if expected.has_revisits {
        return;
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for asked in expected.asked().filter(|asked| !asked.is_robots) {
        *counts.entry(asked.url).or_default() += 1;
    }
    for page in &expected.web.pages {
        let needed = 1 + page.troubles.len() + usize::from(page.kind == Kind::CookieWall);
        let excess = counts.get(&page.url).copied().unwrap_or(0).saturating_sub(needed);
        repeats.all += excess;
        if excess > repeats.most.as_ref().map_or(0, |(most, _)| *most) {
            repeats.most = Some((excess, page.url.clone()));
        }
    }
}
