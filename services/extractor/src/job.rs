//! Execution of a job: from records of `crawl.pages` to the resulting records and writes. Pure, except for its
//! duration.

use bytes::Bytes;
use orbweaver_log::{Delivered, Partition, Record, TopicPartition};
use orbweaver_messages::topic::{DISCOVERED, DOCUMENTS};
use orbweaver_messages::{CRAWL_HEADER, FINGERPRINT_HEADER, Millis, Page, Truncated, decode, encode};
use orbweaver_stage::{Origin, panics};
use orbweaver_store::LinksOut;
use orbweaver_url::{parse, partition_of, slot_of};

use crate::body::BodyReader;
use crate::charset::CharsetSource;
use crate::extract::{PageInput, extract};
use crate::{ExtractorConfig, cut, document};

/// Header of a page record that holds its JSON.
pub const PAGE_HEADER: &str = "page";

/// A batch of pages to extract.
#[derive(Debug)]
pub struct ExtractJob {
    /// Records, and their origins.
    pub pages: Vec<(Origin, Delivered)>,
    /// Number of partitions.
    pub partitions: Partition,
    /// Time at which the pages were received.
    pub now: Millis,
}

/// Result of a job.
#[derive(Debug)]
pub struct ExtractDone {
    /// One verdict per page, in the order of the job.
    pub pages: Vec<(Origin, PageVerdict)>,
}

/// Result of one page.
#[derive(Debug)]
pub enum PageVerdict {
    /// The page was extracted.
    Extracted(Box<PageResult>),
    /// The record cannot be processed.
    Rejected(String),
}

/// Records and writes that result from one page.
#[derive(Debug, PartialEq)]
pub struct PageResult {
    /// Write for the store.
    pub links: LinksOut,
    /// The document first, then the discovered URLs.
    pub records: Vec<Record>,
    /// Counts for the metrics.
    pub counts: PageCounts,
}

/// Counts of one page for the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageCounts {
    /// Bytes of the decoded body.
    pub body_bytes: usize,
    /// Links, including duplicates.
    pub links: usize,
    /// Links with `rel=nofollow`.
    pub nofollow: usize,
    /// URLs for `crawl.discovered`.
    pub discovered: usize,
    /// Whether any part was cut.
    pub truncated: bool,
    /// Whether the page asks robots not to follow its links.
    pub nofollow_page: bool,
    /// Source of the encoding.
    pub charset_source: CharsetSource,
}

/// Extracts one page. A panic, which would be a defect, rejects only this page.
pub fn process(
    record: &Delivered,
    job: (Partition, Millis),
    bodies: &mut BodyReader,
    config: &ExtractorConfig,
) -> PageVerdict {
    // The reader of bodies is reset by every use, so a panic leaves no partial state in it.
    match panics::catch(|| page_result(record, job, bodies, config)) {
        Ok(Ok(result)) => PageVerdict::Extracted(Box::new(result)),
        Ok(Err(reason)) => PageVerdict::Rejected(reason),
        Err(_) => PageVerdict::Rejected("extraction panicked on this page; the log has the panic".to_owned()),
    }
}

fn page_result(
    record: &Delivered,
    (partitions, now): (Partition, Millis),
    bodies: &mut BodyReader,
    config: &ExtractorConfig,
) -> Result<PageResult, String> {
    let header = record.header(PAGE_HEADER).ok_or("the page record has no header `page`")?;
    let page: Page = decode("page", Some(header)).map_err(|error| error.to_string())?;
    let url = parse(&page.url).map_err(|error| format!("the page's url cannot be crawled: {error}"))?;
    let (body, cut) = bodies
        .open(record.value.as_deref(), page.encoding, config.options.max_body_bytes)
        .map_err(|error| error.to_string())?;
    let input = PageInput {
        url: &url,
        site: Some(&page.site),
        content_type: page.content_type.as_deref(),
        headers: &page.headers,
        body: &body,
    };
    let mut extracted = extract(&input, &config.options);
    extracted.truncated |= Truncated { body: cut, ..Truncated::default() };

    let found = document::discovered(&page, &extracted, now, config);
    let mut counts = PageCounts {
        body_bytes: body.len(),
        links: extracted.links.len(),
        nofollow: extracted.links.iter().filter(|link| link.nofollow).count(),
        discovered: found.iter().map(|record| record.urls.len()).sum(),
        truncated: false,
        nofollow_page: extracted.robots.nofollow,
        charset_source: extracted.charset_source,
    };
    let links = document::links_out(&page, &extracted);
    let to = |place, site: &str, value| Record {
        place,
        key: Some(Bytes::copy_from_slice(site.as_bytes())),
        value: Some(value),
        headers: Vec::new(),
        timestamp_ms: now,
    };
    let mut document = document::document(page, extracted);
    let mut records = Vec::with_capacity(1 + found.len());
    let place = TopicPartition::new(DOCUMENTS, record.place.partition);
    let headers = vec![
        (FINGERPRINT_HEADER, Bytes::from(document.fingerprint.to_string())),
        (CRAWL_HEADER, Bytes::copy_from_slice(document.crawl.as_bytes())),
    ];
    let mut made = Record { headers, ..to(place, &document.site, Bytes::new()) };
    made.value = Some(cut::encode_within(&mut document, config.record_limit.saturating_sub(made.bytes())));
    counts.truncated = !document.truncated.is_empty();
    records.push(made);
    for found in found {
        let partition = partition_of(slot_of(&found.site), partitions);
        records.push(to(TopicPartition::new(DISCOVERED, partition), &found.site, encode(&found)));
    }
    Ok(PageResult { links, records, counts })
}
