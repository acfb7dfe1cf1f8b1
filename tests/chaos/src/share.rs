//! Share of the throughput that the intervals of the sites permit.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};
use orbweaver_pipeline_tests::{normalized, site_of_host};
use orbweaver_toyweb::{Entry, Expected, Web, WebConfig, truth};
use url::Url;

use crate::kept::{ask, links};
use crate::run::{REQUESTS, read_requests};

/// Use of the time that a site had.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SiteTime {
    /// Number of requests.
    pub requests: u64,
    /// Time between the moment at which a request would have been permitted, and the request, in microseconds.
    pub late_us: u64,
}

impl SiteTime {
    /// Returns the share of the permitted throughput in percent; `None` without requests.
    #[must_use]
    pub fn percent(self, interval_us: u64) -> Option<f64> {
        let permitted_us = self.requests as f64 * interval_us as f64;
        (self.requests > 0).then(|| 100.0 * permitted_us / (permitted_us + self.late_us as f64))
    }
}

/// Returns the share of the permitted throughput, in percent, in the run of a directory, which need not have ended.
///
/// # Errors
/// Fails if its request log cannot be read, or has no request that counts.
pub fn share_of(dir: &Path, config: WebConfig, interval_us: u64) -> Result<f64> {
    let requests = read_requests(&dir.join(REQUESTS))?;
    let port = requests.first().and_then(|entry| entry.host.rsplit_once(':')?.1.parse().ok());
    let web = Web::new(config, port.context("no request with a port")?)?;
    let truth: Vec<_> = truth(&web).collect();
    let time = site_time(&links_of(&web, &truth), &truth, &requests, interval_us);
    time.percent(interval_us).context("no request to a site with ordinary pages only")
}

/// Returns the links of every page of the web that answers any request at once and alike.
pub(crate) fn links_of(web: &Web, truth: &[Expected]) -> BTreeMap<String, Vec<String>> {
    let ordinary = truth.iter().filter(|expected| expected.kind.is_none());
    let pages = ordinary.filter_map(|expected| Some((expected, Url::parse(&expected.url).ok()?)));
    pages
        .map(|(page, url)| (page.url.clone(), links(&url, &ask(web, &url)).into_iter().map(String::from).collect()))
        .collect()
}

/// Returns the use of the time at those sites that have only ordinary pages. A request is permitted when the interval
/// after the previous one is over, and one of the URLs that are requested from then on is known to its crawl: a page
/// with a link to it was sent.
#[must_use]
pub fn site_time(
    links: &BTreeMap<String, Vec<String>>,
    truth: &[Expected],
    requests: &[Entry],
    interval_us: u64,
) -> SiteTime {
    let host = |url: &str| Url::parse(url).ok().and_then(|url| Some(url.host_str()?.to_owned()));
    let special = truth.iter().filter(|expected| expected.kind.is_some()).filter_map(|expected| host(&expected.url));
    let special: BTreeSet<String> = special.map(|host| site_of_host(&host).to_owned()).collect();
    let mut known_us: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut sites: BTreeMap<&str, Vec<(u64, Option<u64>)>> = BTreeMap::new();
    for entry in requests {
        let url = normalized(&entry.host, &entry.target);
        let found = links.get(&url);
        for target in found.into_iter().flatten() {
            known_us.entry((&entry.agent, target)).or_insert(entry.at_us);
        }
        let site = site_of_host(&entry.host);
        if !special.contains(site) {
            let known = known_us.get(&(&*entry.agent, &*url)).copied();
            sites.entry(site).or_default().push((entry.at_us, known));
        }
    }
    let times = sites.into_values().map(|requests| of_site(&requests, interval_us));
    times.fold(SiteTime::default(), |sum, one| SiteTime {
        requests: sum.requests + one.requests,
        late_us: sum.late_us + one.late_us,
    })
}

/// Returns the use of the time of one site, from the times of its requests and those from which their URLs were known.
/// Requests of other URLs (seeds, robots.txt) only begin an interval.
fn of_site(requests: &[(u64, Option<u64>)], interval_us: u64) -> SiteTime {
    let mut found = SiteTime::default();
    let mut first_known = vec![None; requests.len()];
    let mut least: Option<u64> = None;
    for (at, (_, known)) in requests.iter().enumerate().rev() {
        least = least.into_iter().chain(*known).min();
        first_known[at] = least;
    }
    let mut free_us = 0;
    for ((at_us, known), first) in requests.iter().zip(first_known) {
        if let (Some(_), Some(first)) = (known, first) {
            found.requests += 1;
            found.late_us += at_us.saturating_sub(free_us.max(first));
        }
        free_us = at_us + interval_us;
    }
    found
}

#[cfg(test)]
mod tests {
    use orbweaver_toyweb::{Fate, Kind};

    use super::*;

    fn entry(at_us: u64, url: &str) -> Entry {
        let (host, target) = url.split_once('/').unwrap();
        Entry {
            at_us,
            epoch_us: at_us,
            host: host.to_owned(),
            target: format!("/{target}"),
            status: 200,
            agent: "bot".to_owned(),
            version: None,
        }
    }

    #[test]
    fn a_request_is_late_by_the_time_since_the_interval_was_over_and_its_url_was_known() {
        let all = |urls: &[&str]| urls.iter().map(|url| (*url).to_owned()).collect::<Vec<_>>();
        let links = [
            ("http://a.test/".to_owned(), all(&["http://a.test/1", "http://a.test/2", "http://b.test/1"])),
            ("http://a.test/1".to_owned(), all(&["http://a.test/3"])),
        ];
        let requests = [
            entry(1_000, "a.test/robots.txt"),
            entry(2_000, "a.test/"),
            // On time, 500 late, and 200 late; of another site: known at 2000, late by 300.
            entry(2_300, "b.test/1"),
            entry(3_000, "a.test/2"),
            entry(4_500, "a.test/1"),
            entry(5_700, "a.test/3"),
        ];
        let links = links.into();
        let found = site_time(&links, &[], &requests, 1_000);
        assert_eq!(found, SiteTime { requests: 4, late_us: 1_000 });
        assert_eq!(found.percent(1_000), Some(80.0));
        assert_eq!(SiteTime::default().percent(1_000), None);
        let special = Expected {
            url: "http://a.test/x".to_owned(),
            fate: Fate::Fetched,
            least: 1,
            most: 1,
            kind: Some(Kind::Slow),
        };
        assert_eq!(site_time(&links, &[special], &requests, 1_000), SiteTime { requests: 1, late_us: 300 });
    }

    #[test]
    fn a_site_is_idle_while_another_of_its_known_urls_could_be_requested() {
        // The URL that is requested first was known last.
        assert_eq!(of_site(&[(500, Some(400)), (1_500, Some(100))], 1_000), SiteTime { requests: 2, late_us: 400 });
    }
}
