//! Comparison of the visits and changes of a crawl with the requests that its web received.

use std::collections::BTreeMap;

use orbweaver_messages::{ChangeKind, PageChange};
use orbweaver_pipeline_tests::normalized;
use orbweaver_toyweb::Entry;

use super::{Verdict, is_robots};
use crate::revisits::Revisits;

impl Verdict {
    /// Judges the visits and changes of a crawl with revisits. Requests, documents and rows are judged by [`Verdict::on`].
    #[must_use]
    pub fn on_revisits(requests: &[Entry], revisits: &Revisits) -> Self {
        let mut verdict = Self::default();
        let mut asked: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for entry in requests.iter().filter(|entry| !is_robots(entry)) {
            asked.entry(normalized(&entry.host, &entry.target)).or_default().push(entry.at_us);
        }
        for url in revisits.visits.keys().chain(revisits.changes.keys()) {
            asked.entry(url.clone()).or_default();
        }
        for (url, times) in asked {
            let page = Visited::of(&url, times, revisits);
            verdict.twice += page.repeated() as u64;
            verdict.impolite.extend(page.early().into_iter().map(|what| format!("{url}: {what}")));
            verdict.differing.extend(page.differences().into_iter().map(|what| format!("{url}: {what}")));
        }
        verdict
    }
}

/// Requests, visits and changes of one page.
struct Visited<'a> {
    /// Times of the requests, in microseconds.
    times: Vec<u64>,
    shortest_us: u64,
    excused: usize,
    sent: &'a [String],
    visits: usize,
    changes: &'a [PageChange],
}

impl<'a> Visited<'a> {
    fn of(url: &str, times: Vec<u64>, revisits: &'a Revisits) -> Self {
        Self {
            times,
            shortest_us: revisits.shortest_us,
            excused: revisits.excused,
            sent: revisits.sent.get(url).map_or(&[], Vec::as_slice),
            visits: revisits.visits.get(url).map_or(0, |visits| *visits as usize),
            changes: revisits.changes.get(url).map_or(&[], Vec::as_slice),
        }
    }

    /// Returns the number of requests without a visit of their own: the response was lost, or a copy of the dispatch was
    /// answered as well.
    fn repeated(&self) -> usize {
        self.times.len().saturating_sub(self.visits)
    }

    /// Returns the finding if there were more visits than the shortest interval allows. A repeated request may come at any
    /// time; therefore the largest number of requests at that distance is compared.
    fn early(&self) -> Option<String> {
        let mut apart: Vec<u64> = vec![];
        for at_us in &self.times {
            if apart.last().is_none_or(|last| last + self.shortest_us <= *at_us) {
                apart.push(*at_us);
            }
        }
        let (visits, apart) = (self.visits, apart.len());
        (visits > apart + self.excused)
            .then(|| format!("{visits} visits, and the shortest interval allows {apart}: {:?}", self.times))
    }

    /// Compares the changes with the versions that the web sent: each leads from one of them to a later one. Only the
    /// version of a repeated request may be missing.
    fn differences(&self) -> Vec<String> {
        let mut found = vec![];
        let mut by_visit = BTreeMap::new();
        for change in self.changes {
            let (visit, version) = (change.context.visit, change.version.content_hash.as_deref());
            let is = (change.kind, version, change.previous_hash.as_deref());
            let known = *by_visit.entry(visit).or_insert(is);
            if known != is {
                found.push(format!("visit {visit} has two changes: {known:?} and {is:?}"));
            }
        }
        let (mut rest, mut missing, mut previous) = (self.sent.iter(), self.sent.len(), None);
        for (visit, change) in by_visit {
            let kind = if previous.is_none() { ChangeKind::New } else { ChangeKind::Changed };
            let (_, version, _) = change;
            if change != (kind, version, previous) || visit as usize >= self.visits {
                found.push(format!("visit {visit} of {}: {change:?} follows {previous:?}", self.visits));
            }
            if rest.any(|sent| Some(sent.as_str()) == version) {
                missing -= 1;
            } else {
                found.push(format!("visit {visit}: version {version:?} was not sent after {previous:?}"));
            }
            previous = version;
        }
        let repeated = self.repeated();
        if missing > repeated {
            found.push(format!("{missing} versions are in no change, and {repeated} requests were repeated"));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::{PageVersion, UrlContext};
    use orbweaver_url::{CrawlName, SiteName};

    use super::*;

    const URL: &str = "http://10.0.0.1/";

    fn entry(at_us: u64) -> Entry {
        let (host, target, agent) = ("10.0.0.1".to_owned(), "/".to_owned(), String::new());
        Entry { at_us, epoch_us: at_us, host, target, status: 200, agent, version: None }
    }

    fn change(visit: u32, previous: Option<&str>, hash: &str) -> PageChange {
        let context = UrlContext::of_seed(CrawlName::default(), URL.to_owned(), SiteName::from("10.0.0.1"));
        PageChange {
            kind: if previous.is_none() { ChangeKind::New } else { ChangeKind::Changed },
            context: UrlContext { visit, ..context },
            status: Some(200),
            at_ms: 1,
            version: PageVersion { content_hash: Some(hash.to_owned()), ..PageVersion::default() },
            previous_hash: previous.map(str::to_owned),
            text_changed: None,
            previous_at_ms: None,
        }
    }

    /// Returns four visits to a page, at the shortest interval: the second one found it unchanged.
    fn good() -> (Vec<Entry>, Revisits) {
        // The change that the first visit found is repeated by the successor of a frontier.
        let changes =
            vec![change(0, None, "a"), change(0, None, "a"), change(2, Some("a"), "b"), change(3, Some("b"), "c")];
        let revisits = Revisits {
            shortest_us: 100,
            excused: 0,
            sent: [(URL.to_owned(), ["a", "b", "c"].map(str::to_owned).to_vec())].into(),
            visits: [(URL.to_owned(), 4)].into(),
            changes: [(URL.to_owned(), changes)].into(),
        };
        ([5, 105, 205, 305].map(entry).to_vec(), revisits)
    }

    fn verdict(spoil: impl FnOnce(&mut Vec<Entry>, &mut Revisits)) -> Verdict {
        let (mut requests, mut revisits) = good();
        spoil(&mut requests, &mut revisits);
        Verdict::on_revisits(&requests, &revisits)
    }

    fn changes(revisits: &mut Revisits) -> &mut Vec<PageChange> {
        revisits.changes.get_mut(URL).unwrap()
    }

    fn fails(found: &Verdict, said: &str) {
        let findings: Vec<_> = found.findings().collect();
        assert!(!found.is_ok() && findings.iter().any(|line| line.contains(said)), "{said}: {findings:?}");
    }

    #[test]
    fn visits_at_the_shortest_interval_pass() {
        let found = verdict(|_, _| {});
        assert_eq!((found.findings().count(), found.twice), (0, 0));
    }

    #[test]
    fn a_visit_before_the_shortest_interval_is_over_is_found() {
        let found = verdict(|requests, _| requests[2].at_us = 204);
        fails(&found, "4 visits, and the shortest interval allows 3");
        assert_eq!(found.impolite.len(), 1);
    }

    #[test]
    fn visits_before_their_time_are_excused_as_often_as_clocks_were_set() {
        let spoil = |requests: &mut Vec<Entry>, excused, revisits: &mut Revisits| {
            requests[2].at_us = 204;
            revisits.excused = excused;
        };
        assert_eq!(verdict(|requests, revisits| spoil(requests, 1, revisits)).findings().count(), 0);
        let two = verdict(|requests, revisits| {
            spoil(requests, 1, revisits);
            requests[1].at_us = 104;
            requests[3].at_us = 206;
        });
        fails(&two, "and the shortest interval allows");
    }

    #[test]
    fn a_repeated_request_is_no_early_visit_and_counts_as_one_beyond_those_of_an_undisturbed_crawl() {
        let found = verdict(|requests, _| requests.insert(1, entry(50)));
        assert_eq!((found.findings().count(), found.twice), (0, 1));
        // It hides no visit that was early.
        fails(
            &verdict(|requests, _| {
                requests.insert(1, entry(50));
                requests[3].at_us = 204;
            }),
            "4 visits, and the shortest interval allows 3",
        );
    }

    #[test]
    fn a_change_that_is_missing_is_found() {
        fails(&verdict(|_, revisits| drop(changes(revisits).pop())), "1 versions are in no change, and 0 requests");
        fails(&verdict(|_, revisits| drop(changes(revisits).remove(2))), "1 versions are in no change, and 0 requests");
        fails(&verdict(|_, revisits| changes(revisits).clear()), "3 versions are in no change, and 0 requests");
    }

    #[test]
    fn a_version_whose_request_was_repeated_may_be_missing() {
        let unseen = |revisits: &mut Revisits| revisits.sent.get_mut(URL).unwrap().insert(1, "ab".to_owned());
        fails(&verdict(|_, revisits| unseen(revisits)), "1 versions are in no change, and 0 requests were repeated");
        let repeated = verdict(|requests, revisits| {
            unseen(revisits);
            requests.insert(1, entry(50));
        });
        assert_eq!(repeated.findings().count(), 0);
    }

    #[test]
    fn a_change_that_is_invented_is_found() {
        let insert = |at, invented| verdict(move |_, revisits| changes(revisits).insert(at, invented));
        fails(&insert(2, change(1, Some("a"), "a")), "visit 1: version Some(\"a\") was not sent after Some(\"a\")");
        fails(&insert(2, change(1, Some("a"), "x")), "visit 1: version Some(\"x\") was not sent after Some(\"a\")");
        fails(&insert(4, change(4, Some("c"), "d")), "visit 4 of 4");
        let back = verdict(|_, revisits| changes(revisits)[3] = change(3, Some("b"), "a"));
        fails(&back, "visit 3: version Some(\"a\") was not sent after Some(\"b\")");
        fails(&verdict(|_, revisits| changes(revisits)[3].kind = ChangeKind::Gone), "visit 3 of 4: (Gone");
    }

    #[test]
    fn a_change_with_another_previous_version_or_two_of_one_visit_are_found() {
        let other = verdict(|_, revisits| changes(revisits)[3].previous_hash = Some("a".to_owned()));
        fails(&other, "visit 3 of 4: (Changed, Some(\"c\"), Some(\"a\")) follows Some(\"b\")");
        let two = verdict(|_, revisits| changes(revisits)[1] = change(0, None, "b"));
        fails(&two, "visit 0 has two changes");
    }

    #[test]
    fn a_visit_without_a_request_is_found() {
        fails(&verdict(|requests, _| drop(requests.pop())), "4 visits, and the shortest interval allows 3");
        fails(&verdict(|requests, _| requests.clear()), "4 visits, and the shortest interval allows 0");
    }
}
