//! Change feed and visits of a crawl with revisits, checked against the request log of the web.

use std::collections::BTreeMap;

use orbweaver_log::MemoryLog;
use orbweaver_messages::{ChangeKind, FrontierUrl, LEASE_MS, Millis, PageChange, decode, topic};

use crate::{
    crawls::Crawl,
    observer::tps,
    time::shown,
    web::{Expectation, Truth, version_of},
};

/// Versions served, and the times at which they were requested, in order.
type Answers = Vec<(Millis, u64)>;

/// Checks the changes of a crawl: none is missing while it has revisits, and none is invented.
pub(crate) fn judge_changes(log: &MemoryLog, crawl: &Crawl) -> Vec<String> {
    let (expected, mut violations) = (&crawl.expected, vec![]);
    let once = crawl.revised.iter().find(|(_, revision)| revision.revisit.is_none() || revision.stopped);
    let until = once.map_or(Millis::MAX, |(at, _)| at - LEASE_MS);
    let mut served: BTreeMap<String, Answers> = BTreeMap::new();
    // URLs out of scope have no visits.
    let checked = Truth::of(&expected.web).checked;
    for asked in expected.asked().filter(|asked| !checked.contains(&asked.url)) {
        if let (Some(version), Some(_)) = (asked.version, asked.status) {
            served.entry(asked.url).or_default().push((asked.arrived_ms, version));
        }
    }
    for (url, visits) in changes(log, expected, &mut violations) {
        let answers = served.remove(&url).unwrap_or_default();
        let mut known = None;
        for (visit, change) in visits {
            let version = change.version.etag.as_deref().and_then(version_of);
            let is_expected = match change.kind {
                ChangeKind::New => known.is_none(),
                ChangeKind::Changed => known.is_some() && version != known,
                // No page of these webs is ever gone.
                ChangeKind::Gone => false,
            };
            let is_served = answers.iter().any(|(_, served)| Some(*served) == version);
            if !is_expected || !is_served {
                violations.push(format!("visit {visit} of {url}: {:?} from {known:?} to {version:?}", change.kind));
            }
            known = version;
        }
        let in_time = answers.iter().filter(|(at, _)| *at < until);
        let latest = in_time.map(|(_, version)| *version).max();
        // The second of two responses to one dispatch counts for nothing.
        let is_doubled = matches!(answers[..], [.., (first, _), (second, _)] if second - first < LEASE_MS);
        if latest > known && !is_doubled {
            let at = answers.last().map_or_else(String::new, |(at, _)| shown(*at));
            violations.push(format!("{url}: version {latest:?} was served, at {at}, and the last change is {known:?}"));
        }
    }
    let in_time = |(_, answers): &(&String, &Answers)| answers.iter().any(|(at, _)| *at < until);
    let missing = served.iter().filter(in_time).map(|(url, _)| format!("{url} was served, and has no change"));
    violations.extend(missing);
    violations
}

/// Returns the changes of a crawl, by URL and visit. Repeated records must be equal.
fn changes(
    log: &MemoryLog,
    expected: &Expectation,
    violations: &mut Vec<String>,
) -> BTreeMap<String, BTreeMap<u32, PageChange>> {
    let mut changes: BTreeMap<String, BTreeMap<u32, PageChange>> = BTreeMap::new();
    for record in tps(log, topic::CHANGES).into_iter().flat_map(|tp| log.records(tp)) {
        let change: PageChange = match decode("page-change", record.value.as_ref()) {
            Ok(change) => change,
            Err(error) => {
                violations.push(format!("a change cannot be read: {error}"));
                continue;
            }
        };
        if change.context.crawl != expected.crawl {
            continue;
        }
        let (url, visit) = (change.context.url.clone(), change.context.visit);
        let known = changes.entry(url.clone()).or_default().entry(visit).or_insert_with(|| change.clone());
        if known.kind != change.kind || known.version != change.version {
            violations.push(format!("visit {visit} of {url} has two changes: {known:?} and {change:?}"));
        }
    }
    changes
}

/// Checks that no page is visited more often than the shortest interval allows, but for this number of visits to each: a frontier
/// that starts with the time of a clock that was set wakes URLs before their time.
pub(crate) fn judge_visits(log: &MemoryLog, crawl: &Crawl, excused: usize) -> Vec<String> {
    let Some(policy) = crawl.revisit() else { return vec![] };
    let mut requests: BTreeMap<String, Vec<Millis>> = BTreeMap::new();
    for request in crawl.expected.asked() {
        requests.entry(request.url).or_default().push(request.arrived_ms);
    }
    let mut visits: BTreeMap<String, usize> = BTreeMap::new();
    for record in tps(log, topic::FRONTIER).into_iter().flat_map(|tp| log.records(tp)) {
        let Ok(waiting) = decode::<FrontierUrl>("waiting", record.value.as_ref()) else { continue };
        if waiting.context.crawl == crawl.expected.crawl {
            let ended = visits.entry(waiting.context.url).or_default();
            *ended = (*ended).max(waiting.context.visit as usize);
        }
    }
    let judge = |(url, times): (String, Vec<Millis>)| {
        // A visit may also end without a request, as when robots.txt is unreachable.
        let visits = visits.get(&url).copied().unwrap_or_default().min(times.len());
        let mut apart: Vec<Millis> = vec![];
        for at in times {
            if apart.last().is_none_or(|last| last.saturating_add_unsigned(policy.interval_ms) <= at) {
                apart.push(at);
            }
        }
        let apart = apart.len();
        (visits > apart + excused).then(|| format!("{url}: {visits} visits, and the shortest interval allows {apart}"))
    };
    requests.into_iter().filter_map(judge).collect()
}
