//! The work of a job: records of `crawl.pages` become the records and writes that they cause. Pure, but for its duration.

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

/// The header of a page record that holds its JSON.
pub const PAGE_HEADER: &str = "page";

/// Pages to be extracted together.
#[derive(Debug)]
pub struct ExtractJob {
    /// The records, and where they came from.
    pub pages: Vec<(Origin, Delivered)>,
    /// How many partitions there are.
    pub partitions: Partition,
    /// When the pages were received.
    pub now: Millis,
}

/// What became of the pages of a job.
#[derive(Debug)]
pub struct ExtractDone {
    /// One verdict a page, in the order of the job.
    pub pages: Vec<(Origin, PageVerdict)>,
}

/// What became of one page.
#[derive(Debug)]
pub enum PageVerdict {
    /// It was extracted.
    Extracted(Box<PageResult>),
    /// Its record cannot be processed.
    Rejected(String),
}

/// What one page causes.
#[derive(Debug, PartialEq)]
pub struct PageResult {
    /// The write for the store.
    pub links: LinksOut,
    /// The document first, then what was discovered.
    pub records: Vec<Record>,
    /// What is counted of it.
    pub counts: PageCounts,
}

/// What is counted of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageCounts {
    /// Bytes of its decoded body.
    pub body_bytes: usize,
    /// Its links, duplicates included.
    pub links: usize,
    /// Those with `rel=nofollow`.
    pub nofollow: usize,
    /// URLs for `crawl.discovered`.
    pub discovered: usize,
    /// Something was cut.
    pub truncated: bool,
    /// The page asks for its links not to be followed.
    pub nofollow_page: bool,
    /// How its encoding was chosen.
    pub charset_source: CharsetSource,
}

/// Extracts one page. A panic, which would be a defect, costs this page only.
pub fn process(
    record: &Delivered,
    job: (Partition, Millis),
    bodies: &mut BodyReader,
    config: &ExtractorConfig,
) -> PageVerdict {
    // The reader of bodies is reset by every use, so that a panic leaves nothing half-done in it.
    match panics::catch(|| page_result(record, job, bodies, config)) {
        Ok(Ok(result)) => PageVerdict::Extracted(Box::new(result)),
        Ok(Err(reason)) => PageVerdict::Rejected(reason),
        Err(_) => PageVerdict::Rejected("extraction panicked on this page".to_owned()),
    }
}

fn page_result(
    record: &Delivered,
    (partitions, now): (Partition, Millis),
    bodies: &mut BodyReader,
    config: &ExtractorConfig,
) -> Result<PageResult, String> {
    let header = record.header(PAGE_HEADER).ok_or("a page record without the header `page`")?;
    let page: Page = decode("page", Some(header)).map_err(|error| error.to_string())?;
    let url = parse(&page.url).map_err(|error| format!("the page's url: {error}"))?;
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
