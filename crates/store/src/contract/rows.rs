//! Rows for the suite of stores, whose values follow from their key and time.

use orbweaver_messages::Millis;
use orbweaver_url::{CrawlName, Fingerprint};

use crate::{CaptureRow, DeclaredCanonical, LinksOut, PageRow, RedirectRow, RobotsRow, Write};

pub(super) fn fingerprint(run: &str, name: &str) -> Fingerprint {
    Fingerprint::of(&CrawlName::new(run).unwrap_or_default(), name)
}

/// Returns a page with every optional field set.
#[must_use]
pub fn page(fingerprint: Fingerprint, fetched_at_ms: Millis) -> PageRow {
    PageRow {
        fingerprint,
        key: "https://example.org/?a=1&b=2".into(),
        url: "https://example.org/?b=2&a=1".into(),
        site: "example.org".into(),
        fetched_at_ms,
        status: Some(200),
        outcome: "fetched".into(),
        reason: Some("why — ö".into()),
        content_type: Some("text/html; charset=utf-8".into()),
        etag: Some("W/\"1\"".into()),
        last_modified: Some("Thu, 17 Oct 2024 07:18:26 GMT".into()),
        bytes: 1 << 40,
        content_hash: Some("0123456789abcdef0123456789abcdef".into()),
        depth: 65_535,
        via: Some("https://example.org/".into()),
    }
}

/// Returns `count` links of a page.
#[must_use]
pub fn links(fingerprint: Fingerprint, at_ms: Millis, count: usize) -> LinksOut {
    let links = (0..count).map(|i| (format!("https://example.org/{at_ms}/{i}"), i % 3 == 0)).collect();
    LinksOut { fingerprint, at_ms, links, canonical: canonical(at_ms) }
}

/// Returns a canonical URL that follows from the time.
pub(super) fn canonical(at_ms: Millis) -> Option<DeclaredCanonical> {
    match at_ms % 3 {
        0 => None,
        1 => Some(DeclaredCanonical::Own),
        _ => Some(DeclaredCanonical::Other(format!("https://example.org/{at_ms}"))),
    }
}

pub(super) fn redirect(fingerprint: Fingerprint, at_ms: Millis) -> RedirectRow {
    let (from, to) = ("https://example.org/a".to_owned(), format!("https://example.org/{at_ms}"));
    RedirectRow { fingerprint, from, to, status: 301, at_ms }
}

pub(super) fn robots(authority: &str, fetched_at_ms: Millis) -> RobotsRow {
    let body = format!("User-agent: *\nDisallow: /{fetched_at_ms}\n");
    RobotsRow {
        authority: authority.to_owned(),
        fetched_at_ms,
        status: Some(200),
        body,
        expires_ms: fetched_at_ms + 604_800_000,
    }
}

/// Returns the location of a response with the [`content_hash`] of its page.
#[must_use]
pub fn capture(fingerprint: Fingerprint, at_ms: Millis) -> CaptureRow {
    CaptureRow {
        fingerprint,
        at_ms,
        epoch: 3,
        file: "crawl/crawl-20241017071826-0-12-3.warc.gz".into(),
        offset: 1 << 40,
        length: 4096,
        status: 200,
        is_revisit: false,
        content_hash: Some(content_hash(fingerprint)),
    }
}

/// Returns a content hash for a page.
pub(super) fn content_hash(fingerprint: Fingerprint) -> String {
    Fingerprint::of(&CrawlName::default(), &fingerprint.to_string()).to_string()
}

/// Returns the write of a page of the default crawl.
#[must_use]
pub fn page_write(page: &PageRow) -> Write {
    write_in(&CrawlName::default(), page)
}

pub(super) fn write_in(crawl: &CrawlName, page: &PageRow) -> Write {
    Write::Page { crawl: crawl.clone(), row: Box::new(page.clone()) }
}

/// Returns links of 4 KiB each that do not compress.
#[must_use]
pub fn long_links(fingerprint: Fingerprint, at_ms: Millis, count: u64) -> LinksOut {
    let digits = |n: u64| Fingerprint::of(&CrawlName::default(), &n.to_string()).to_string();
    let url = |i: u64| (0..128).map(|n| digits(i * 128 + n)).collect();
    let links = (0..count).map(|i| (url(i), i.is_multiple_of(3))).collect();
    LinksOut { fingerprint, at_ms, links, canonical: canonical(at_ms) }
}
