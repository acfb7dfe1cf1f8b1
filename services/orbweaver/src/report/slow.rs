//! Slow pages: those whose last fetch took long, slowest first.

use orbweaver_messages::OutcomeKind;
use serde::{Deserialize, Serialize};

use super::{
    error::ReportError,
    input::UrlLine,
    interest::{Interest, Role},
    sorted::{Filling, Table, Temporary, key, parts},
};

/// Last fetch of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Fetch {
    /// Milliseconds from the request to the end of the body.
    pub(super) fetch_ms: u64,
    pub(super) status: Option<u16>,
    /// Decoded bytes of the body.
    pub(super) bytes: u64,
}

/// Collector of the last fetches of pages of which one was slow.
pub(super) struct SlowFetches {
    /// Least time of a slow fetch, in milliseconds.
    least_ms: u64,
    last: Filling,
}

impl SlowFetches {
    pub(super) fn new(least_ms: u64, temporary: &Temporary) -> Result<Self, ReportError> {
        Ok(Self { least_ms, last: temporary.table("fetches")? })
    }

    /// Notes the URL of a slow fetch.
    pub(super) fn note(&self, line: &UrlLine<'_>, interest: &mut Interest) {
        if fetch(line).is_some_and(|fetch| fetch.fetch_ms >= self.least_ms) {
            interest.add(Role::Slow, &line.url);
        }
    }

    /// Keeps the fetch of a noted URL, in place of its earlier one.
    pub(super) fn keep(&mut self, line: &UrlLine<'_>, interest: &Interest) -> Result<(), ReportError> {
        match key([line.url.as_bytes()]).filter(|_| interest.may_have(Role::Slow, &line.url)) {
            // A URL that has gone since is not slow.
            Some(key) => self.last.insert(key, &fetch(line)),
            None => Ok(()),
        }
    }

    /// Sorts the slow ones among the last fetches.
    pub(super) fn finish(self, temporary: &Temporary) -> Result<Table, ReportError> {
        let mut slow = temporary.table("slow")?;
        for entry in self.last.finish()?.prefix::<Option<Fetch>>(b"") {
            let (url, fetch) = entry?;
            if let Some(fetch) = fetch.filter(|fetch| fetch.fetch_ms >= self.least_ms) {
                let order = format!("{:020}", u64::MAX - fetch.fetch_ms);
                if let Some(key) = key([order.as_bytes(), &url]) {
                    slow.insert(key, &fetch)?;
                }
            }
        }
        slow.finish()
    }
}

/// Returns the fetch of a page; `None` if there was none, or of an external URL, whose body is not read.
fn fetch(line: &UrlLine<'_>) -> Option<Fetch> {
    let is_fetched = matches!(line.outcome, OutcomeKind::Fetched | OutcomeKind::Unchanged) && !line.external;
    let fetch_ms = line.fetch_ms.filter(|_| is_fetched)?;
    Some(Fetch { fetch_ms, status: line.status, bytes: line.bytes })
}

/// Returns the slow pages in their order.
pub(super) fn slow_pages(slow: &Table) -> impl Iterator<Item = Result<(String, Fetch), ReportError>> {
    slow.prefix::<Fetch>(b"").map(|entry| {
        let (key, fetch) = entry?;
        let [_, url] = parts(&key);
        Ok((url, fetch))
    })
}
