//! Rows as the columns of their tables.
//!
//! **The write time** is the event time in microseconds, so that the server keeps the newest write regardless of the
//! order (docs/protocol.md#event-times). The server compares column by column: of two writes with equal times, each
//! column could come from a different one. The thousandths of a millisecond are therefore derived from the row's
//! content: one of the two rows wins as a whole, the same at every replica (in one of a thousand such cases the
//! thousandths are equal, too), and a repetition has the same time.
//!
//! **Absent values** are written as null, which deletes the value of an older write. Each leaves a tombstone in its
//! column, which the server removes after `gc_grace_seconds`; reads by key are not affected.

use orbweaver_messages::Millis;
use orbweaver_url::{CrawlName, Fingerprint};
use scylla::value::CqlTimestamp;
use scylla::{DeserializeRow, SerializeRow};
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

use crate::{CaptureRow, ContentRow, FetchEvent, PageRow, RedirectRow, RobotsRow, SitePage, StoreError};

/// Returns the time of a write, in microseconds.
pub(super) fn write_time(at_ms: Millis, content: &impl Serialize) -> Result<i64, StoreError> {
    let refused = |reason: String| StoreError::Refused(format!("a row of time {at_ms} cannot be written: {reason}"));
    let content = postcard::to_stdvec(content).map_err(|error| refused(error.to_string()))?;
    let place = i64::try_from(xxh3_64(&content) % 1000).unwrap_or_default();
    let micros = at_ms.checked_mul(1000).and_then(|micros| micros.checked_add(place));
    micros.ok_or_else(|| refused("the time in microseconds is too large".to_owned()))
}

/// Returns the last of the write times of events at `at_ms`.
pub(super) fn last_write_time(at_ms: Millis) -> Result<i64, StoreError> {
    let micros = at_ms.checked_mul(1000).and_then(|micros| micros.checked_add(999));
    micros.ok_or_else(|| StoreError::Refused(format!("nothing can be deleted up to {at_ms}: the time is too large")))
}

#[derive(SerializeRow)]
pub(super) struct PageValues<'a> {
    fingerprint: &'a [u8],
    key: &'a str,
    url: &'a str,
    site: &'a str,
    fetched_at: CqlTimestamp,
    status: Option<i32>,
    outcome: &'a str,
    reason: Option<&'a str>,
    content_type: Option<&'a str>,
    etag: Option<&'a str>,
    last_modified: Option<&'a str>,
    bytes: i64,
    content_hash: Option<&'a str>,
    depth: i32,
    via: Option<&'a str>,
    /// In microseconds.
    written_at: i64,
}

#[derive(SerializeRow)]
pub(super) struct FetchValues<'a> {
    fingerprint: &'a [u8],
    at: CqlTimestamp,
    status: Option<i32>,
    outcome: &'a str,
    reason: Option<&'a str>,
    bytes: i64,
    content_hash: Option<&'a str>,
    /// In microseconds.
    written_at: i64,
}

#[derive(SerializeRow)]
pub(super) struct RedirectValues<'a> {
    fingerprint: &'a [u8],
    source: &'a str,
    target: &'a str,
    status: i32,
    at: CqlTimestamp,
    /// In microseconds.
    written_at: i64,
}

#[derive(SerializeRow)]
pub(super) struct RobotsValues<'a> {
    authority: &'a str,
    fetched_at: CqlTimestamp,
    status: Option<i32>,
    body: &'a str,
    expires_at: CqlTimestamp,
    /// In microseconds.
    written_at: i64,
}

#[derive(SerializeRow)]
pub(super) struct CaptureValues<'a> {
    fingerprint: &'a [u8],
    at: CqlTimestamp,
    epoch: i64,
    file: &'a str,
    record_offset: i64,
    record_length: i64,
    status: i32,
    revisit: bool,
    content_hash: Option<&'a str>,
    /// In microseconds.
    written_at: i64,
}

#[derive(SerializeRow)]
pub(super) struct ContentValues<'a> {
    content_hash: &'a str,
    fingerprint: &'a [u8],
    at: CqlTimestamp,
    /// In microseconds.
    written_at: i64,
}

/// Page in the list of its site.
#[derive(SerializeRow)]
pub(super) struct SitePageValues<'a> {
    crawl: &'a str,
    site: &'a str,
    bucket: i8,
    fingerprint: &'a [u8],
    /// 0 without a response: null would leave a tombstone per entry in the partition.
    status: i32,
    /// In microseconds.
    written_at: i64,
}

/// Key of a page in the list of its site, which is deleted.
#[derive(SerializeRow)]
pub(super) struct SitePageKey<'a> {
    pub(super) crawl: &'a str,
    pub(super) site: &'a str,
    pub(super) bucket: i8,
    pub(super) fingerprint: &'a [u8],
    pub(super) erased_at: i64,
}

/// Number of partitions per crawl and site.
pub(super) const BUCKETS: i8 = 16;

/// Returns the bucket of a page in the list of its site. Buckets are in the order of the fingerprints.
pub(super) fn bucket_of(fingerprint: Fingerprint) -> i8 {
    (fingerprint.0[0] >> 4).cast_signed()
}

/// Returns the values of a page, of the event that it adds to the history, and of its row in the list of its site.
pub(super) fn of_page<'a>(
    crawl: &'a CrawlName,
    row: &'a PageRow,
) -> Result<(PageValues<'a>, FetchValues<'a>, SitePageValues<'a>), StoreError> {
    let too_large = |_| StoreError::Refused(format!("a page of {} bytes cannot be written", row.bytes));
    let (written_at, bytes) = (write_time(row.fetched_at_ms, row)?, i64::try_from(row.bytes).map_err(too_large)?);
    let (fetched_at, status) = (CqlTimestamp(row.fetched_at_ms), row.status.map(i32::from));
    let event = FetchValues {
        fingerprint: &row.fingerprint.0,
        at: fetched_at,
        status,
        outcome: &row.outcome,
        reason: row.reason.as_deref(),
        bytes,
        content_hash: row.content_hash.as_deref(),
        written_at,
    };
    let page = PageValues {
        fingerprint: &row.fingerprint.0,
        key: &row.key,
        url: &row.url,
        site: &row.site,
        fetched_at,
        status,
        outcome: &row.outcome,
        reason: row.reason.as_deref(),
        content_type: row.content_type.as_deref(),
        etag: row.etag.as_deref(),
        last_modified: row.last_modified.as_deref(),
        bytes,
        content_hash: row.content_hash.as_deref(),
        depth: row.depth.into(),
        via: row.via.as_deref(),
        written_at,
    };
    let listed = SitePageValues {
        crawl,
        site: &row.site,
        bucket: bucket_of(row.fingerprint),
        fingerprint: &row.fingerprint.0,
        status: status.unwrap_or_default(),
        written_at,
    };
    Ok((page, event, listed))
}

pub(super) fn of_redirect(row: &RedirectRow) -> Result<RedirectValues<'_>, StoreError> {
    Ok(RedirectValues {
        fingerprint: &row.fingerprint.0,
        source: &row.from,
        target: &row.to,
        status: row.status.into(),
        at: CqlTimestamp(row.at_ms),
        written_at: write_time(row.at_ms, row)?,
    })
}

pub(super) fn of_robots(row: &RobotsRow) -> Result<RobotsValues<'_>, StoreError> {
    Ok(RobotsValues {
        authority: &row.authority,
        fetched_at: CqlTimestamp(row.fetched_at_ms),
        status: row.status.map(i32::from),
        body: &row.body,
        expires_at: CqlTimestamp(row.expires_ms),
        written_at: write_time(row.fetched_at_ms, row)?,
    })
}

pub(super) fn of_capture(row: &CaptureRow) -> Result<CaptureValues<'_>, StoreError> {
    let narrow = |column: &str, number: u64| {
        let refused = |_| StoreError::Refused(format!("a capture with the {column} {number} cannot be written"));
        i64::try_from(number).map_err(refused)
    };
    Ok(CaptureValues {
        fingerprint: &row.fingerprint.0,
        at: CqlTimestamp(row.at_ms),
        epoch: narrow("epoch", row.epoch)?,
        file: &row.file,
        record_offset: narrow("offset", row.offset)?,
        record_length: narrow("length", row.length)?,
        status: row.status.into(),
        revisit: row.is_revisit,
        content_hash: row.content_hash.as_deref(),
        written_at: write_time(row.at_ms, row)?,
    })
}

pub(super) fn of_content(row: &ContentRow) -> Result<ContentValues<'_>, StoreError> {
    Ok(ContentValues {
        content_hash: &row.content_hash,
        fingerprint: &row.fingerprint.0,
        at: CqlTimestamp(row.at_ms),
        written_at: write_time(row.at_ms, row)?,
    })
}

fn narrow<T: TryFrom<N>, N: Copy + std::fmt::Display>(column: &str, number: N) -> Result<T, String> {
    T::try_from(number).map_err(|_| format!("`{column}` is {number}"))
}

fn status(number: Option<i32>) -> Result<Option<u16>, String> {
    number.map(|number| narrow("status", number)).transpose()
}

fn fingerprint(bytes: &[u8]) -> Result<Fingerprint, String> {
    let bytes = bytes.try_into().map_err(|_| format!("the fingerprint has {} bytes instead of 16", bytes.len()))?;
    Ok(Fingerprint(bytes))
}

#[derive(DeserializeRow)]
pub(super) struct PageColumns {
    fingerprint: Vec<u8>,
    key: String,
    url: String,
    site: String,
    fetched_at: CqlTimestamp,
    status: Option<i32>,
    outcome: String,
    reason: Option<String>,
    content_type: Option<String>,
    etag: Option<String>,
    last_modified: Option<String>,
    bytes: i64,
    content_hash: Option<String>,
    depth: i32,
    via: Option<String>,
}

impl TryFrom<PageColumns> for PageRow {
    type Error = String;

    fn try_from(columns: PageColumns) -> Result<Self, String> {
        Ok(Self {
            fingerprint: fingerprint(&columns.fingerprint)?,
            key: columns.key,
            url: columns.url,
            site: columns.site.into(),
            fetched_at_ms: columns.fetched_at.0,
            status: status(columns.status)?,
            outcome: columns.outcome,
            reason: columns.reason,
            content_type: columns.content_type,
            etag: columns.etag,
            last_modified: columns.last_modified,
            bytes: narrow("bytes", columns.bytes)?,
            content_hash: columns.content_hash,
            depth: narrow("depth", columns.depth)?,
            via: columns.via,
        })
    }
}

#[derive(DeserializeRow)]
pub(super) struct FetchColumns {
    at: CqlTimestamp,
    status: Option<i32>,
    outcome: String,
    reason: Option<String>,
    bytes: i64,
    content_hash: Option<String>,
}

impl TryFrom<FetchColumns> for FetchEvent {
    type Error = String;

    fn try_from(columns: FetchColumns) -> Result<Self, String> {
        Ok(Self {
            at_ms: columns.at.0,
            status: status(columns.status)?,
            outcome: columns.outcome,
            reason: columns.reason,
            bytes: narrow("bytes", columns.bytes)?,
            content_hash: columns.content_hash,
        })
    }
}

#[derive(DeserializeRow)]
pub(super) struct RedirectColumns {
    fingerprint: Vec<u8>,
    source: String,
    target: String,
    status: i32,
    at: CqlTimestamp,
}

impl TryFrom<RedirectColumns> for RedirectRow {
    type Error = String;

    fn try_from(columns: RedirectColumns) -> Result<Self, String> {
        Ok(Self {
            fingerprint: fingerprint(&columns.fingerprint)?,
            from: columns.source,
            to: columns.target,
            status: narrow("status", columns.status)?,
            at_ms: columns.at.0,
        })
    }
}

#[derive(DeserializeRow)]
pub(super) struct RobotsColumns {
    authority: String,
    fetched_at: CqlTimestamp,
    status: Option<i32>,
    body: String,
    expires_at: CqlTimestamp,
}

impl TryFrom<RobotsColumns> for RobotsRow {
    type Error = String;

    fn try_from(columns: RobotsColumns) -> Result<Self, String> {
        Ok(Self {
            authority: columns.authority,
            fetched_at_ms: columns.fetched_at.0,
            status: status(columns.status)?,
            body: columns.body,
            expires_ms: columns.expires_at.0,
        })
    }
}

#[derive(DeserializeRow)]
pub(super) struct CaptureColumns {
    fingerprint: Vec<u8>,
    at: CqlTimestamp,
    epoch: i64,
    file: String,
    record_offset: i64,
    record_length: i64,
    status: i32,
    revisit: bool,
    content_hash: Option<String>,
}

impl TryFrom<CaptureColumns> for CaptureRow {
    type Error = String;

    fn try_from(columns: CaptureColumns) -> Result<Self, String> {
        Ok(Self {
            fingerprint: fingerprint(&columns.fingerprint)?,
            at_ms: columns.at.0,
            epoch: narrow("epoch", columns.epoch)?,
            file: columns.file,
            offset: narrow("record_offset", columns.record_offset)?,
            length: narrow("record_length", columns.record_length)?,
            status: narrow("status", columns.status)?,
            is_revisit: columns.revisit,
            content_hash: columns.content_hash,
        })
    }
}

#[derive(DeserializeRow)]
pub(super) struct ContentColumns {
    content_hash: String,
    fingerprint: Vec<u8>,
    at: CqlTimestamp,
}

impl TryFrom<ContentColumns> for ContentRow {
    type Error = String;

    fn try_from(columns: ContentColumns) -> Result<Self, String> {
        let fingerprint = fingerprint(&columns.fingerprint)?;
        Ok(Self { content_hash: columns.content_hash, fingerprint, at_ms: columns.at.0 })
    }
}

#[derive(DeserializeRow)]
pub(super) struct SitePageColumns {
    fingerprint: Vec<u8>,
    status: Option<i32>,
}

impl TryFrom<SitePageColumns> for SitePage {
    type Error = String;

    fn try_from(columns: SitePageColumns) -> Result<Self, String> {
        let status = status(columns.status.filter(|status| *status != 0))?;
        Ok(Self { fingerprint: fingerprint(&columns.fingerprint)?, status })
    }
}
