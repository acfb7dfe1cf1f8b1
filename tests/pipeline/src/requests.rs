//! Evaluation of a web's request log.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use orbweaver_toyweb::Entry;

/// A request log, evaluated by URL and by site.
#[derive(Debug)]
pub struct Requests {
    entries: Vec<Entry>,
}

impl Requests {
    /// Creates a request log from its entries.
    #[must_use]
    pub fn new(entries: Vec<Entry>) -> Self {
        Self { entries }
    }

    /// Returns the number of requests for each URL, excluding robots.txt and the place to which it moved.
    #[must_use]
    pub fn pages(&self) -> BTreeMap<String, u32> {
        let mut counts = BTreeMap::new();
        for entry in self.entries.iter().filter(|entry| !is_robots(entry)) {
            *counts.entry(normalized(&entry.host, &entry.target)).or_insert(0) += 1;
        }
        counts
    }

    /// Returns the number of requests for each robots.txt.
    #[must_use]
    pub fn robots(&self) -> BTreeMap<String, u32> {
        let mut counts = BTreeMap::new();
        for entry in self.entries.iter().filter(|entry| is_robots(entry)) {
            *counts.entry(normalized(&entry.host, &entry.target)).or_insert(0) += 1;
        }
        counts
    }

    /// Checks that no two requests to one site were less than `gap_us` microseconds apart. Returns the number of
    /// checked gaps.
    ///
    /// # Errors
    /// Names the two requests that were too close.
    pub fn spaced(&self, gap_us: u64) -> Result<usize> {
        let mut last: BTreeMap<&str, &Entry> = BTreeMap::new();
        let mut gaps = 0;
        for entry in &self.entries {
            if let Some(before) = last.insert(site_of_host(&entry.host), entry) {
                let gap = entry.at_us - before.at_us;
                let (a, b) = ((&before.host, &before.target), (&entry.host, &entry.target));
                ensure!(gap >= gap_us, "only {gap} us between {a:?} and {b:?}, {} us after the start", before.at_us);
                gaps += 1;
            }
        }
        Ok(gaps)
    }

    /// Checks that after each 429 its site received no request for `retry_after_us` microseconds. Returns the number of
    /// 429s.
    ///
    /// # Errors
    /// Names the request that came too early, or reports that there was no 429.
    pub fn left_alone(&self, retry_after_us: u64) -> Result<usize> {
        let busy: Vec<_> = self.entries.iter().filter(|entry| entry.status == 429).collect();
        busy.first().context("no request was answered 429")?;
        for refused in &busy {
            let site = site_of_host(&refused.host);
            let early = self.entries.iter().find(|entry| {
                site_of_host(&entry.host) == site
                    && entry.at_us > refused.at_us
                    && entry.at_us < refused.at_us + retry_after_us
            });
            ensure!(early.is_none(), "requested too early after the 429 at {} us: {early:?}", refused.at_us);
        }
        Ok(busy.len())
    }
}

fn is_robots(entry: &Entry) -> bool {
    matches!(entry.target.as_str(), "/robots.txt" | "/robots-moved.txt")
}

/// Returns the normalized URL of a request: the host in lower case, escapes of unreserved characters decoded (RFC 3986
/// section 6.2.2.2).
#[must_use]
pub fn normalized(host: &str, target: &str) -> String {
    let mut url = format!("http://{}", host.to_ascii_lowercase());
    let mut rest = target;
    while let Some(at) = rest.find('%') {
        url.push_str(&rest[..at]);
        let digits = rest.get(at + 1..at + 3);
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).map(char::from);
        let is_unreserved = |letter: &char| letter.is_ascii_alphanumeric() || "-._~".contains(*letter);
        let (letter, length) = escaped.filter(is_unreserved).map_or(('%', 1), |letter| (letter, 3));
        url.push(letter);
        rest = &rest[at + length..];
    }
    url + rest
}

/// Returns the site of a toy web's Host header: an address, or the last two labels of a name.
#[must_use]
pub fn site_of_host(host: &str) -> &str {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    if name.parse::<std::net::IpAddr>().is_ok() {
        return name;
    }
    name.rmatch_indices('.').nth(1).map_or(name, |(at, _)| &name[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(at_us: u64, host: &str, status: u16) -> Entry {
        let (host, target, agent) = (host.to_owned(), "/".to_owned(), String::new());
        Entry { at_us, epoch_us: at_us, host, target, status, agent, version: None }
    }

    #[test]
    fn the_site_of_a_name_is_its_registrable_domain() {
        assert_eq!(site_of_host("h1.toyweb0.localhost:80"), "toyweb0.localhost");
        assert_eq!(site_of_host("toyweb0.localhost"), "toyweb0.localhost");
        assert_eq!(site_of_host("127.0.1.7:80"), "127.0.1.7");
    }

    #[test]
    fn requests_that_are_too_close_are_found_also_when_others_lie_between() {
        let entries = vec![entry(0, "127.0.1.1:1", 200), entry(5, "127.0.1.2:1", 200), entry(9, "127.0.1.1:1", 200)];
        assert_eq!(Requests::new(entries.clone()).spaced(9).unwrap(), 1);
        assert!(Requests::new(entries).spaced(10).is_err());
    }

    #[test]
    fn a_request_before_retry_after_is_over_is_found() {
        let entries = vec![entry(1, "127.0.1.1:1", 429), entry(9, "127.0.1.1:1", 200)];
        assert_eq!(Requests::new(entries.clone()).left_alone(8).unwrap(), 1);
        assert!(Requests::new(entries).left_alone(9).is_err());
        assert!(Requests::new(Vec::new()).left_alone(1).is_err());
    }

    #[test]
    fn spellings_of_one_url_count_as_one() {
        assert_eq!(normalized("H:1", "/%7Ea?b=2&a=1"), "http://h:1/~a?b=2&a=1");
        assert_eq!(normalized("h", "/%61%2d%2Fb%"), "http://h/a-%2Fb%");
    }
}
