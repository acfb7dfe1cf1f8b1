//! Bodies of answers, from rows. Pure.

use jiff::Timestamp;
use orbweaver_messages::Millis;
use orbweaver_store::{CaptureRow, FetchEvent, LinksOut, PageRow};
use orbweaver_url::Fingerprint;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    cursor::{Cursor, PagesCursor},
    identity::Identity,
    listing::Listing,
    lookup::Located,
    parameters::Subject,
    problem::{Kind, Problem},
    resolution::{Ending, Hop, Ignored, Resolved},
    selection::Selection,
};

/// Redirects and canonical URLs that were followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Resolution {
    pub ending: Ending,
    /// Last URL, which the answer is about.
    #[serde(flatten)]
    pub identity: Identity,
    /// Redirects from the first URL on, of a loop also the one that closes it; then canonical URLs.
    pub chain: Vec<Hop>,
    /// Canonical URL that the last page declares, and that is not followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignored_canonical: Option<Ignored>,
}

/// The URL of a request, and the one that the answer is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct About {
    /// URL as given.
    pub requested: String,
    /// Name of the crawl.
    pub crawl: String,
    #[serde(flatten)]
    pub identity: Identity,
    /// Absent with `resolve=no`: the answer is about the URL itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
}

/// Last known state of a URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct State {
    /// URL that was requested.
    pub url: String,
    /// Registrable domain, host or IP address.
    pub site: String,
    /// Time of the last fetch (RFC 3339).
    pub fetched_at: String,
    /// HTTP status; `null` without a response.
    pub status: Option<u16>,
    /// Kind of the outcome: `fetched`, `unchanged`, `redirected`, `refused`, `blocked` or `gone`.
    pub outcome: String,
    /// Reason of the outcome.
    pub reason: Option<String>,
    /// Content type, as given by the server.
    pub content_type: Option<String>,
    pub etag: Option<String>,
    pub last_modified: Option<String>,
    /// Size of the decoded body, in bytes.
    pub bytes: u64,
    /// xxh3-128 of the decoded body.
    pub content_hash: Option<String>,
    /// Link depth from the seed.
    pub depth: u16,
    /// Page that led here.
    pub via: Option<String>,
}

/// Answer of `/v1/url`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct UrlAnswer {
    #[serde(flatten)]
    pub about: About,
    /// Last known state of the last URL; `null` if that was not fetched.
    pub state: Option<State>,
}

/// A fetch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Event {
    /// Time of the fetch (RFC 3339).
    pub at: String,
    /// HTTP status; `null` without a response.
    pub status: Option<u16>,
    /// Kind of the outcome.
    pub outcome: String,
    /// Reason of the outcome.
    pub reason: Option<String>,
    /// Size of the decoded body, in bytes.
    pub bytes: u64,
    /// xxh3-128 of the decoded body.
    pub content_hash: Option<String>,
}

/// Answer of `/v1/history`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct HistoryAnswer {
    #[serde(flatten)]
    pub about: About,
    /// Fetches, newest first.
    pub events: Vec<Event>,
    /// Whether there are older ones.
    pub more: bool,
}

/// A link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Link {
    /// Target, absolute, without fragment.
    pub url: String,
    pub nofollow: bool,
}

/// Answer of `/v1/links`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct LinksAnswer {
    #[serde(flatten)]
    pub about: About,
    /// Time of the fetch with these links (RFC 3339); `null` if the URL was never a page with links.
    pub fetched_at: Option<String>,
    /// Number of all links.
    pub total: usize,
    /// Links, in the order of the page.
    pub links: Vec<Link>,
    /// Parameter `cursor` of the request for the next ones; `null` at the end.
    pub next: Option<String>,
}

/// Location of an archived response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Capture {
    /// Time of the fetch (RFC 3339), as in the history.
    pub at: String,
    /// Path within the archive.
    pub file: String,
    /// Offset of the gzip member of the record, in bytes.
    pub offset: u64,
    /// Length of the gzip member, in bytes.
    pub length: u64,
    /// HTTP status.
    pub status: u16,
    /// Whether the record is a revisit, which has no content.
    pub is_revisit: bool,
    /// xxh3-128 of the content, if the record has all of it.
    pub content_hash: Option<String>,
}

/// Answer of `/v1/captures`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct CapturesAnswer {
    #[serde(flatten)]
    pub about: About,
    /// Locations, newest first.
    pub captures: Vec<Capture>,
    /// Whether there are older ones.
    pub more: bool,
}

/// Page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ListedPage {
    /// Canonical form under the policy of the crawl: the key of the page.
    pub canonical: String,
    /// Fingerprint of crawl and canonical form: 32 hexadecimal digits.
    #[schema(value_type = String)]
    pub fingerprint: Fingerprint,
    #[serde(flatten)]
    pub state: State,
}

/// Answer of `/v1/pages`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PagesAnswer {
    /// Registrable domain, host or IP address.
    pub site: String,
    /// Name of the crawl.
    pub crawl: String,
    /// Pages, in the order of their fingerprints. There may be fewer than requested, or none, although more follow.
    pub pages: Vec<ListedPage>,
    /// Parameter `cursor` of the request for the next ones; `null` at the end.
    pub next: Option<String>,
}

/// Formats a time.
pub(crate) fn rfc3339(millis: Millis) -> String {
    let time = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH);
    time.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

impl From<Located> for About {
    fn from(located: Located) -> Self {
        let Located { subject: Subject { requested, keying, identity }, resolved } = located;
        let resolution = resolved.map(|Resolved { ending, end, chain, ignored, .. }| Resolution {
            ending,
            identity: end,
            chain,
            ignored_canonical: ignored,
        });
        Self { requested, crawl: keying.crawl.to_string(), identity, resolution }
    }
}

impl From<PageRow> for State {
    fn from(row: PageRow) -> Self {
        Self {
            url: row.url,
            site: row.site.to_string(),
            fetched_at: rfc3339(row.fetched_at_ms),
            status: row.status,
            outcome: row.outcome,
            reason: row.reason,
            content_type: row.content_type,
            etag: row.etag,
            last_modified: row.last_modified,
            bytes: row.bytes,
            content_hash: row.content_hash,
            depth: row.depth,
            via: row.via,
        }
    }
}

impl UrlAnswer {
    /// Returns the answer for a URL, unless the store knows nothing of it.
    pub(crate) fn of(subject: Subject, mut resolved: Resolved, follows: bool) -> Result<Self, Problem> {
        let state = resolved.state.take();
        if state.is_none() && resolved.chain.is_empty() {
            return Err(unknown(&subject, None));
        }
        let resolved = follows.then_some(resolved);
        Ok(Self { about: Located { subject, resolved }.into(), state: state.map(State::from) })
    }
}

impl HistoryAnswer {
    /// Returns the first `limit` events; one more shows that there are older ones.
    pub(crate) fn of(located: Located, events: Vec<FetchEvent>, limit: usize) -> Self {
        let more = events.len() > limit;
        let events = events.into_iter().take(limit).map(|event| Event {
            at: rfc3339(event.at_ms),
            status: event.status,
            outcome: event.outcome,
            reason: event.reason,
            bytes: event.bytes,
            content_hash: event.content_hash,
        });
        Self { events: events.collect(), more, about: located.into() }
    }
}

impl LinksAnswer {
    /// Returns at most `limit` links, from the cursor on.
    pub(crate) fn of(
        located: Located,
        links: Option<LinksOut>,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<Self, Problem> {
        let at_ms = links.as_ref().map(|links| links.at_ms);
        if let Some(cursor) = cursor.filter(|cursor| Some(cursor.at_ms) != at_ms) {
            let detail = format!("the cursor is of the links of {}; begin again", rfc3339(cursor.at_ms));
            return Err(Problem::new(Kind::CursorExpired, detail));
        }
        let all = links.map_or_else(Vec::new, |links| links.links);
        let (total, offset) = (all.len(), cursor.map_or(0, |cursor| cursor.offset));
        let end = offset.saturating_add(limit);
        let next = at_ms.filter(|_| end < total).map(|at_ms| Cursor { at_ms, offset: end }.encode());
        let links = all.into_iter().skip(offset).take(limit).map(|(url, nofollow)| Link { url, nofollow });
        Ok(Self { fetched_at: at_ms.map(rfc3339), total, links: links.collect(), next, about: located.into() })
    }
}

impl PagesAnswer {
    /// Returns the listed pages.
    pub(crate) fn of(listing: Listing) -> Self {
        let (selection, pages, next) = listing.into_parts();
        let next = next.map(|after| PagesCursor(after).encode(&selection.to_string()));
        let pages = pages.into_iter().map(|row| {
            let (canonical, fingerprint) = (row.key.clone(), row.fingerprint);
            ListedPage { canonical, fingerprint, state: row.into() }
        });
        let Selection { site, crawl, .. } = selection;
        Self { site: site.to_string(), crawl: crawl.to_string(), pages: pages.collect(), next }
    }
}

impl CapturesAnswer {
    /// Returns the first `limit` locations; one more shows that there are older ones.
    pub(crate) fn of(located: Located, rows: Vec<CaptureRow>, limit: usize) -> Self {
        let more = rows.len() > limit;
        let captures = rows.into_iter().take(limit).map(|row| Capture {
            at: rfc3339(row.at_ms),
            file: row.file,
            offset: row.offset,
            length: row.length,
            status: row.status,
            is_revisit: row.is_revisit,
            content_hash: row.content_hash,
        });
        Self { captures: captures.collect(), more, about: located.into() }
    }
}

/// Returns the problem of a URL of which the store knows nothing.
pub(crate) fn unknown(subject: &Subject, resolved: Option<&Resolved>) -> Problem {
    let (given, crawl) = (&subject.identity, &subject.keying.crawl);
    let end = resolved.map(|resolved| &resolved.end).filter(|end| end.fingerprint != given.fingerprint);
    let led = end.map_or(String::new(), |_| format!(", to which {} leads", given.canonical));
    let canonical = &end.unwrap_or(given).canonical;
    Problem::new(Kind::UnknownUrl, format!("nothing is stored of {canonical} in the crawl `{crawl}`{led}"))
}

#[cfg(test)]
mod tests {
    use orbweaver_url::Keying;
    use proptest::prelude::*;

    use super::*;
    use crate::parameters::subject;

    fn links(count: usize, at_ms: Millis) -> LinksOut {
        let links = (0..count).map(|number| (format!("https://{number}.example/"), number % 2 == 0)).collect();
        LinksOut { fingerprint: Fingerprint([0; 16]), at_ms, links, canonical: None }
    }

    fn part(links: LinksOut, cursor: Option<Cursor>, limit: usize) -> Result<LinksAnswer, Problem> {
        let subject = subject("a.example", Keying::default()).unwrap();
        LinksAnswer::of(Located { subject, resolved: None }, Some(links), cursor, limit)
    }

    #[test]
    fn times_have_milliseconds_and_the_farthest_ones_do_not_panic() {
        assert_eq!(rfc3339(1_767_225_600_007), "2026-01-01T00:00:00.007Z");
        assert_eq!(rfc3339(-1), "1969-12-31T23:59:59.999Z");
        assert_eq!([rfc3339(Millis::MAX), rfc3339(Millis::MIN)], ["1970-01-01T00:00:00.000Z"; 2]);
    }

    #[test]
    fn a_cursor_of_replaced_links_has_expired() {
        let next = part(links(3, 10), None, 1).unwrap().next;
        let cursor = Cursor::decode(&next.unwrap());
        assert_eq!(part(links(3, 10), cursor, 1).unwrap().links[0].url, "https://1.example/");
        assert_eq!(part(links(3, 11), cursor, 1).unwrap_err().kind, Kind::CursorExpired);
        let subject = subject("a.example", Keying::default()).unwrap();
        let absent = LinksAnswer::of(Located { subject, resolved: None }, None, cursor, 1);
        assert_eq!(absent.unwrap_err().kind, Kind::CursorExpired);
    }

    #[test]
    fn a_cursor_beyond_the_end_finds_nothing() {
        let answer = part(links(3, 10), Some(Cursor { at_ms: 10, offset: usize::MAX }), 5).unwrap();
        assert_eq!((answer.links, answer.next, answer.total), (vec![], None, 3));
    }

    proptest! {
        #[test]
        fn all_links_are_in_the_pages_once_and_in_order(count in 0_usize..40, limit in 1_usize..12) {
            let (mut found, mut cursor) = (vec![], None);
            for requests in 1.. {
                let answer = part(links(count, 10), cursor, limit).unwrap();
                prop_assert!(answer.links.len() <= limit && answer.total == count);
                found.extend(answer.links);
                let Some(next) = answer.next else {
                    prop_assert_eq!(requests, count.div_ceil(limit).max(1));
                    break;
                };
                cursor = Some(Cursor::decode(&next).unwrap());
            }
            let urls: Vec<_> = found.into_iter().map(|link| (link.url, link.nofollow)).collect();
            prop_assert_eq!(urls, links(count, 10).links);
        }
    }
}
