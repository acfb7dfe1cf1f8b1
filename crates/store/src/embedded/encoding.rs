//! Encoding of rows: keys, and values as one version byte, the event time and postcard.
//!
//! The time is in front, so that comparing it with a stored row reads nine bytes and decodes nothing. postcard instead
//! of JSON: a page row takes 257 bytes instead of 406, and is written and read in a third of the time.

use orbweaver_messages::Millis;
use orbweaver_url::{CrawlName, Fingerprint};
use serde::{Deserialize, Serialize};

use crate::packed::{exact, pack_canonical, pack_links, unpack_canonical, unpack_links};
use crate::{
    CaptureRow, ContentRow, DeclaredCanonical, FetchEvent, LinksOut, PageRow, RedirectRow, RobotsRow, SitePage,
};

/// Version of this encoding, the first byte of every value.
const VERSION: u8 = 1;
/// Size of version and time, in bytes.
const HEAD: usize = 9;

/// Returns a history key: fingerprint and time, newest first. A range over the fingerprint is the history.
pub(super) fn history_key(fingerprint: Fingerprint, at_ms: Millis) -> [u8; 24] {
    let mut key = [0; 24];
    key[..16].copy_from_slice(&fingerprint.0);
    // With the sign flipped, negative times sort before positive ones; with all bits flipped, later ones sort first.
    let newest_first = !(at_ms.cast_unsigned() ^ (1 << 63));
    key[16..].copy_from_slice(&newest_first.to_be_bytes());
    key
}

fn history_time(key: &[u8]) -> Result<Millis, String> {
    let Some(Ok(tail)) = key.get(16..).map(<[u8; 8]>::try_from) else {
        return Err(format!("a history key has {} bytes instead of 24", key.len()));
    };
    Ok((!u64::from_be_bytes(tail) ^ (1 << 63)).cast_signed())
}

/// Returns a capture key: fingerprint, time and owner epoch, newest first. A range over the fingerprint has all captures
/// of a page.
pub(super) fn capture_key(row: &CaptureRow) -> [u8; 32] {
    let mut key = [0; 32];
    key[..24].copy_from_slice(&history_key(row.fingerprint, row.at_ms));
    key[24..].copy_from_slice(&(!row.epoch).to_be_bytes());
    key
}

/// Returns the key of a page in the list of its site: crawl and site, each with a zero byte, and fingerprint. The name of a
/// crawl has no zero byte. A range over crawl and site is the list.
pub(super) fn site_page_key(crawl: &CrawlName, site: &str, fingerprint: Fingerprint) -> Vec<u8> {
    [crawl.as_bytes(), &[0], site.as_bytes(), &[0], &fingerprint.0].concat()
}

/// Returns the fingerprint of a key in the list of a site, whose key of any page is `like`; `None`: the key belongs to another
/// site, whose name has a zero byte.
pub(super) fn site_page_of(like: &[u8], key: &[u8]) -> Option<Fingerprint> {
    let list = &like[..like.len().saturating_sub(16)];
    key.strip_prefix(list)?.try_into().ok().map(Fingerprint)
}

/// Returns the value of a page in the list of its site. It has no time: that of the page counts for both.
pub(super) fn write_site_page(status: Option<u16>) -> Vec<u8> {
    let [high, low] = status.unwrap_or_default().to_be_bytes();
    vec![VERSION, high, low]
}

pub(super) fn read_site_page(fingerprint: Fingerprint, value: &[u8]) -> Result<SitePage, String> {
    match *value {
        [VERSION, high, low] => {
            let status = Some(u16::from_be_bytes([high, low])).filter(|status| *status != 0);
            Ok(SitePage { fingerprint, status })
        }
        [VERSION, ..] | [] => Err(format!("the value has {} bytes instead of 3", value.len())),
        [other, ..] => Err(unknown_version(other)),
    }
}

fn unknown_version(other: u8) -> String {
    format!("version {other} of the value is unknown; this program knows {VERSION}")
}

/// Returns the event time of a stored value.
pub(super) fn time_of(value: &[u8]) -> Result<Millis, String> {
    let cut_off = || format!("the value is cut off after {} bytes", value.len());
    match value {
        [VERSION, rest @ ..] => rest.first_chunk().map(|time| Millis::from_be_bytes(*time)).ok_or_else(cut_off),
        [other, ..] => Err(unknown_version(*other)),
        [] => Err("the value is empty".to_owned()),
    }
}

fn head(at_ms: Millis) -> Vec<u8> {
    let mut out = Vec::with_capacity(320);
    out.push(VERSION);
    out.extend_from_slice(&at_ms.to_be_bytes());
    out
}

fn write<T: Serialize>(at_ms: Millis, value: &T) -> Result<Vec<u8>, String> {
    postcard::to_extend(value, head(at_ms)).map_err(|error| error.to_string())
}

fn read<'a, T: Deserialize<'a>>(value: &'a [u8]) -> Result<(Millis, T), String> {
    let at_ms = time_of(value)?;
    Ok((at_ms, exact(value.get(HEAD..).unwrap_or_default())?))
}

#[derive(Serialize, Deserialize)]
struct StoredPage<'a> {
    key: &'a str,
    /// Absent if equal to the key.
    url: Option<&'a str>,
    site: &'a str,
    status: Option<u16>,
    outcome: &'a str,
    reason: Option<&'a str>,
    content_type: Option<&'a str>,
    etag: Option<&'a str>,
    last_modified: Option<&'a str>,
    bytes: u64,
    content_hash: Option<&'a str>,
    depth: u16,
    via: Option<&'a str>,
}

pub(super) fn write_page(row: &PageRow) -> Result<Vec<u8>, String> {
    let stored = StoredPage {
        key: &row.key,
        url: (row.url != row.key).then_some(&row.url),
        site: &row.site,
        status: row.status,
        outcome: &row.outcome,
        reason: row.reason.as_deref(),
        content_type: row.content_type.as_deref(),
        etag: row.etag.as_deref(),
        last_modified: row.last_modified.as_deref(),
        bytes: row.bytes,
        content_hash: row.content_hash.as_deref(),
        depth: row.depth,
        via: row.via.as_deref(),
    };
    write(row.fetched_at_ms, &stored)
}

pub(super) fn read_page(fingerprint: Fingerprint, value: &[u8]) -> Result<PageRow, String> {
    let (fetched_at_ms, stored) = read::<StoredPage<'_>>(value)?;
    Ok(PageRow {
        fingerprint,
        key: stored.key.to_owned(),
        url: stored.url.unwrap_or(stored.key).to_owned(),
        site: stored.site.into(),
        fetched_at_ms,
        status: stored.status,
        outcome: stored.outcome.to_owned(),
        reason: stored.reason.map(str::to_owned),
        content_type: stored.content_type.map(str::to_owned),
        etag: stored.etag.map(str::to_owned),
        last_modified: stored.last_modified.map(str::to_owned),
        bytes: stored.bytes,
        content_hash: stored.content_hash.map(str::to_owned),
        depth: stored.depth,
        via: stored.via.map(str::to_owned),
    })
}

#[derive(Serialize, Deserialize)]
struct StoredEvent<'a> {
    status: Option<u16>,
    outcome: &'a str,
    reason: Option<&'a str>,
    bytes: u64,
    content_hash: Option<&'a str>,
}

/// Returns key and value of the history event of a page that is no longer the newest, from its stored value.
pub(super) fn event_of(fingerprint: &[u8], page: &[u8]) -> Result<([u8; 24], Vec<u8>), String> {
    let (at_ms, page) = read::<StoredPage<'_>>(page)?;
    let fingerprint = fingerprint.try_into().map_err(|_| "the key is not a fingerprint".to_owned())?;
    let event = StoredEvent {
        status: page.status,
        outcome: page.outcome,
        reason: page.reason,
        bytes: page.bytes,
        content_hash: page.content_hash,
    };
    Ok((history_key(Fingerprint(fingerprint), at_ms), write(at_ms, &event)?))
}

pub(super) fn read_event(key: &[u8], value: &[u8]) -> Result<FetchEvent, String> {
    let (at_ms, stored) = read::<StoredEvent<'_>>(value)?;
    if history_time(key)? != at_ms {
        return Err(format!("the time is {} in the key and {at_ms} in the value", history_time(key)?));
    }
    Ok(FetchEvent {
        at_ms,
        status: stored.status,
        outcome: stored.outcome.to_owned(),
        reason: stored.reason.map(str::to_owned),
        bytes: stored.bytes,
        content_hash: stored.content_hash.map(str::to_owned),
    })
}

pub(super) fn write_links(row: &LinksOut) -> Result<Vec<u8>, String> {
    pack_links(&row.links, pack_canonical(row.canonical.as_ref(), head(row.at_ms))?)
}

pub(super) fn read_links(fingerprint: Fingerprint, value: &[u8]) -> Result<LinksOut, String> {
    let at_ms = time_of(value)?;
    let (canonical, links) = unpack_canonical(value.get(HEAD..).unwrap_or_default())?;
    Ok(LinksOut { fingerprint, at_ms, links: unpack_links(links)?, canonical })
}

pub(super) fn read_canonical(value: &[u8]) -> Result<Option<DeclaredCanonical>, String> {
    unpack_canonical(value.get(HEAD..).unwrap_or_default()).map(|(canonical, _)| canonical)
}

pub(super) fn write_redirect(row: &RedirectRow) -> Result<Vec<u8>, String> {
    write(row.at_ms, &(&row.from, &row.to, row.status))
}

pub(super) fn read_redirect(fingerprint: Fingerprint, value: &[u8]) -> Result<RedirectRow, String> {
    let (at_ms, (from, to, status)) = read(value)?;
    Ok(RedirectRow { fingerprint, from, to, status, at_ms })
}

pub(super) fn write_robots(row: &RobotsRow) -> Result<Vec<u8>, String> {
    write(row.fetched_at_ms, &(row.status, &row.body, row.expires_ms))
}

pub(super) fn read_robots(authority: &str, value: &[u8]) -> Result<RobotsRow, String> {
    let (fetched_at_ms, (status, body, expires_ms)) = read(value)?;
    Ok(RobotsRow { authority: authority.to_owned(), fetched_at_ms, status, body, expires_ms })
}

pub(super) fn write_capture(row: &CaptureRow) -> Result<Vec<u8>, String> {
    let content_hash = row.content_hash.as_deref();
    write(row.at_ms, &(&row.file, row.offset, row.length, row.status, row.is_revisit, content_hash))
}

pub(super) fn read_capture(key: &[u8], value: &[u8]) -> Result<CaptureRow, String> {
    let (at_ms, (file, offset, length, status, is_revisit, content_hash)) = read(value)?;
    let (fingerprint, epoch) = match (key.first_chunk(), key.get(24..).map(<[u8; 8]>::try_from)) {
        (Some(fingerprint), Some(Ok(epoch))) => (Fingerprint(*fingerprint), !u64::from_be_bytes(epoch)),
        _ => return Err(format!("a capture key has {} bytes instead of 32", key.len())),
    };
    let row = CaptureRow { fingerprint, at_ms, epoch, file, offset, length, status, is_revisit, content_hash };
    if capture_key(&row)[..] != *key {
        return Err(format!("the time differs between the key and the value: {at_ms}"));
    }
    Ok(row)
}

pub(super) fn write_content(row: &ContentRow) -> Result<Vec<u8>, String> {
    write(row.at_ms, &row.fingerprint.0)
}

pub(super) fn read_content(content_hash: &str, value: &[u8]) -> Result<ContentRow, String> {
    let (at_ms, fingerprint) = read(value)?;
    Ok(ContentRow { content_hash: content_hash.to_owned(), fingerprint: Fingerprint(fingerprint), at_ms })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::contract::{capture, page};

    proptest! {
        #[test]
        fn a_page_and_its_event_are_read_as_they_were_written(
            url: String, at: i64, status: Option<u16>, text: Option<String>,
        ) {
            let row = PageRow { url, status, reason: text.clone(), via: text, ..page(Fingerprint([7; 16]), at) };
            let value = write_page(&row).unwrap();
            prop_assert_eq!(time_of(&value), Ok(at));
            prop_assert_eq!(read_page(row.fingerprint, &value), Ok(row.clone()));
            let (key, event) = event_of(&row.fingerprint.0, &value).unwrap();
            prop_assert_eq!(key, history_key(row.fingerprint, at));
            prop_assert_eq!(read_event(&key, &event), Ok(row.event()));
        }

        #[test]
        fn damaged_values_are_refused_without_a_panic(bytes: Vec<u8>) {
            let mut value = head(1);
            value.extend_from_slice(&bytes);
            for value in [bytes, value] {
                let fingerprint = Fingerprint([7; 16]);
                let _ = read_page(fingerprint, &value);
                let _ = read_links(fingerprint, &value);
                let _ = read_redirect(fingerprint, &value);
                let _ = read_robots("https://example.org", &value);
                let _ = read_event(&value, &value);
                let _ = read_capture(&value, &value);
                let _ = read_content("00", &value);
                let _ = read_site_page(fingerprint, &value);
            }
        }

        #[test]
        fn a_capture_is_read_as_it_was_written_and_later_ones_are_first(
            at_ms: i64, epoch: u64, offset: u64, status: u16, is_revisit: bool, content_hash: Option<String>,
        ) {
            let row = CaptureRow { epoch, offset, status, is_revisit, content_hash, ..capture(Fingerprint([7; 16]), at_ms) };
            let key = capture_key(&row);
            prop_assert_eq!(read_capture(&key, &write_capture(&row).unwrap()), Ok(row.clone()));
            let later = |at_ms, epoch| capture_key(&CaptureRow { at_ms, epoch, ..row.clone() });
            prop_assert!(epoch == u64::MAX || later(at_ms, epoch + 1) < key);
            prop_assert!(at_ms == i64::MAX || later(at_ms + 1, 0) < key);
            prop_assert!(read_capture(&later(at_ms ^ 1, epoch), &write_capture(&row).unwrap()).is_err());
        }

        #[test]
        fn pages_of_a_site_are_a_range_in_the_order_of_their_fingerprints(
            crawls in prop::array::uniform2("[a-b]{1,2}"), site in "[a-c.]{0,3}", other in "[a-c.\u{0}]{0,5}",
            one: [u8; 16], two: [u8; 16],
        ) {
            let (one, two) = (Fingerprint(one), Fingerprint(two));
            let [crawl, of_other] = crawls.map(|name| name.parse::<CrawlName>().unwrap());
            let key = site_page_key(&crawl, &site, one);
            prop_assert_eq!(site_page_of(&key, &key), Some(one));
            prop_assert_eq!(key.cmp(&site_page_key(&crawl, &site, two)), one.cmp(&two));
            let foreign = site_page_key(&of_other, &other, two);
            let is_same = crawl == of_other && site == other;
            prop_assert_eq!(site_page_of(&key, &foreign), is_same.then_some(two));
        }

        #[test]
        fn an_entry_of_a_list_is_read_as_it_was_written(status: Option<u16>) {
            let (fingerprint, status) = (Fingerprint([7; 16]), status.filter(|status| *status != 0));
            let read = read_site_page(fingerprint, &write_site_page(status));
            prop_assert_eq!(read, Ok(SitePage { fingerprint, status }));
        }

        #[test]
        fn later_events_stand_first(earlier: i64, later: i64) {
            prop_assume!(earlier < later);
            let fingerprint = Fingerprint([7; 16]);
            prop_assert!(history_key(fingerprint, later) < history_key(fingerprint, earlier));
            prop_assert_eq!(history_time(&history_key(fingerprint, later)), Ok(later));
        }
    }

    #[test]
    fn a_cut_or_foreign_value_says_what_is_wrong() {
        let value = write_page(&page(Fingerprint([7; 16]), 5)).unwrap();
        for cut in 0..value.len() {
            assert!(read_page(Fingerprint([7; 16]), &value[..cut]).is_err(), "cut to {cut} bytes");
        }
        let foreign = [&[2], &value[1..]].concat();
        assert!(time_of(&foreign).unwrap_err().contains("version 2"));
        let longer = [&value[..], &[0]].concat();
        assert_eq!(read_page(Fingerprint([7; 16]), &longer), Err("1 bytes too many".to_owned()));
    }
}
