//! Execution of a job: from records of `crawl.pages` to the resulting records and writes. Pure, except for its
//! duration.

use bytes::Bytes;
use orbweaver_log::{Partition, Record, TopicPartition};
use orbweaver_messages::topic::{DISCOVERED, DOCUMENTS};
use orbweaver_messages::{
    CRAWL_HEADER, Discovered, FINGERPRINT_HEADER, Millis, NEEDS_RENDER_HEADER, Page, PageKind, TextSignature,
    Truncated, UrlContext, VISIT_HEADER, decode, depth_of_requisites, encode,
};
use orbweaver_stage::{Origin, Reservation, panics};
use orbweaver_store::LinksOut;
use orbweaver_url::{CrawlName, Fingerprint, SiteName, parse, partition_of, slot_of};

use crate::body::BodyReader;
use crate::charset::CharsetSource;
use crate::extract::{Extracted, PageInput, extract_after};
use crate::pass::{PagePass, Pass, Progress};
use crate::updates::BetweenReadings;
use crate::{ExtractorConfig, cut, document, near_duplicates, requisites, sitemap};

/// Header of a page record that holds its JSON.
pub const PAGE_HEADER: &str = "page";

/// A batch of pages to extract.
#[derive(Debug)]
pub struct ExtractJob {
    /// Pages with their passes, and the origins of their records.
    pub pages: Vec<(Origin, PagePass)>,
    /// Number of partitions.
    pub partitions: Partition,
    /// Time at which the pages were received.
    pub now: Millis,
}

/// Result of a job: one verdict per page, in the order of the job.
pub type ExtractDone = Vec<(Origin, PageVerdict)>;

/// Result of a pass over one page.
#[derive(Debug)]
pub enum PageVerdict {
    /// The page was extracted; the records of earlier passes are durable.
    Extracted(Box<PageResult>),
    /// A further pass follows when the records of this one are durable.
    Discovered(Box<PassResult>),
    /// The page is neither HTML nor a readable sitemap: it has no document.
    PassedOver {
        /// No links in place of those of an earlier version; `None` for a response that is for the archive alone, which says
        /// nothing of the links of the page.
        links: Option<LinksOut>,
        /// Discovered requisites of a style sheet, and their number.
        records: Vec<Record>,
        discovered: usize,
    },
    /// The record cannot be processed.
    Rejected(String),
}

/// Records and writes that result from one page.
#[derive(Debug)]
pub struct PageResult {
    /// Write for the store.
    pub links: LinksOut,
    /// The document first, unless it is a sitemap; then the discovered URLs, unless earlier passes produced them.
    pub records: Vec<Record>,
    /// Counts for the metrics.
    pub counts: PageCounts,
    /// The page for the comparison with others, if its document is to be marked as a near duplicate.
    pub compared: Option<Box<ComparedPage>>,
}

/// A page that is compared with the earlier ones of its site.
#[derive(Debug)]
pub struct ComparedPage {
    pub crawl: CrawlName,
    pub site: SiteName,
    pub page: Fingerprint,
    /// Signature of its main text; `None` if that is too short.
    pub signature: Option<TextSignature>,
    /// Memory of the result, until the document is complete.
    pub memory: Option<Reservation>,
}

/// Records that result from a pass over a page that continues.
#[derive(Debug, PartialEq)]
pub struct PassResult {
    /// The discovered URLs.
    pub records: Vec<Record>,
    /// Number of these URLs.
    pub discovered: usize,
    pub next: PagePass,
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
    /// URLs for `crawl.discovered` that are among the records of this pass.
    pub discovered: usize,
    /// Links that are not followed, because resolution made the links of the page grow too much.
    pub unfollowed: usize,
    /// Whether any part was cut.
    pub truncated: bool,
    /// Whether the page asks robots not to follow its links.
    pub nofollow_page: bool,
    /// Whether scripts have to make its content.
    pub needs_render: bool,
    /// Source of the encoding.
    pub charset_source: CharsetSource,
    /// HTML or a sitemap.
    pub kind: PageKind,
}

/// Carries out a pass over one page. A panic, which would be a defect, rejects only this page.
pub fn process(
    page: &PagePass,
    job: (Partition, Millis),
    bodies: &mut BodyReader,
    config: &ExtractorConfig,
) -> PageVerdict {
    // The reader of bodies is reset by every use, so a panic leaves no partial state in it.
    match panics::catch(|| verdict(page, job, bodies, config)) {
        Ok(Ok(verdict)) => verdict,
        Ok(Err(reason)) => PageVerdict::Rejected(reason),
        Err(_) => PageVerdict::Rejected("extraction panicked on this page; the log has the panic".to_owned()),
    }
}

fn verdict(
    PagePass { record, pass }: &PagePass,
    (partitions, now): (Partition, Millis),
    bodies: &mut BodyReader,
    config: &ExtractorConfig,
) -> Result<PageVerdict, String> {
    let header = record.header(PAGE_HEADER).ok_or("the page record has no header `page`")?;
    let page: Page = decode("page", Some(header)).map_err(|error| error.to_string())?;
    let (fingerprint, at_ms) = (page.context.fingerprint, page.event_ms());
    let no_links = LinksOut { fingerprint, at_ms, links: vec![], canonical: None };
    let (is_read, is_page) = match page.kind {
        PageKind::Html | PageKind::Sitemap => (true, true),
        PageKind::Other => (is_style_sheet(&page), true),
        PageKind::Response => (is_style_sheet(&page), false),
        PageKind::Robots => (false, false),
    };
    if !is_read {
        return Ok(PageVerdict::PassedOver { links: is_page.then_some(no_links), records: vec![], discovered: 0 });
    }
    let config = &*config.of_page(&page);
    let url = parse(&page.context.url).map_err(|error| format!("the page's url cannot be crawled: {error}"))?;
    let (body, cut) = bodies
        .open(record.value.as_deref(), page.encoding, config.max_body_bytes)
        .map_err(|error| error.to_string())?;
    let input = PageInput {
        url: &url,
        site: Some(&page.context.site),
        content_type: page.content_type.as_deref(),
        headers: &page.headers,
        body: &body,
    };
    if matches!(page.kind, PageKind::Other | PageKind::Response) {
        let (found, sites) = requisites::of_style_sheet(&input, config);
        let found = document::requisites(&page, (&found, &sites), now, config);
        let (records, discovered) = discovered_records(found, partitions, now);
        return Ok(PageVerdict::PassedOver { links: is_page.then_some(no_links), records, discovered });
    }
    let (from, has_document) = match pass {
        Pass::First | Pass::Document(_) => (0, true),
        Pass::Links(progress) => (progress.read, false),
    };
    let (mut extracted, bytes) = match page.kind {
        PageKind::Sitemap => match sitemap::extract_after(&input, config, from, BetweenReadings::of(&page)) {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(topic_partition = %record.tp, offset = record.offset, %error, "sitemap passed over");
                return Ok(PageVerdict::PassedOver { links: Some(no_links), records: vec![], discovered: 0 });
            }
        },
        _ if has_document => (extract_after(&input, config, from), body.len()),
        _ => (extract_after(&input, &config.without_document(), from), body.len()),
    };
    extracted.truncated |= Truncated { body: cut, ..Truncated::default() };
    let progress = match pass {
        Pass::First => Progress::of_content(document::content(&page, &extracted)).after(&extracted),
        Pass::Links(progress) => progress.after(&extracted),
        Pass::Document(progress) => *progress,
    };
    let is_followed = extracted.is_followed(config.follow_nofollow);
    let continues = is_followed && progress.continues(bytes);
    let mut found = match pass {
        Pass::Document(_) => vec![],
        Pass::First | Pass::Links(_) => document::discovered(&page, &extracted, progress.content, now, config),
    };
    if matches!(pass, Pass::First) {
        // After the links: a URL that is both is admitted as a page.
        found.extend(document::requisites(&page, (&extracted.requisites, &extracted.sites), now, config));
    }
    let (found, discovered) = discovered_records(found, partitions, now);
    if continues || matches!(pass, Pass::Links(_)) {
        let pass = if continues { Pass::Links(progress) } else { Pass::Document(progress) };
        let next = PagePass { record: record.clone(), pass };
        return Ok(PageVerdict::Discovered(Box::new(PassResult { records: found, discovered, next })));
    }

    let mut counts = PageCounts {
        body_bytes: body.len(),
        links: progress.links,
        nofollow: progress.nofollow,
        discovered,
        unfollowed: if is_followed { progress.left } else { 0 },
        truncated: false,
        nofollow_page: extracted.robots.nofollow,
        needs_render: extracted.needs_render,
        charset_source: extracted.charset_source,
        kind: page.kind,
    };
    let extracted = extracted.with_counts(&progress);
    let links = document::links_out(&page, &extracted);
    if page.kind == PageKind::Sitemap {
        counts.truncated = !extracted.truncated.is_empty();
        return Ok(PageVerdict::Extracted(Box::new(PageResult { links, records: found, counts, compared: None })));
    }
    let compared = config.near_duplicates.then(|| {
        let UrlContext { crawl, site, fingerprint, .. } = &page.context;
        let (crawl, site, signature) = (crawl.clone(), site.clone(), extracted.signature);
        Box::new(ComparedPage { crawl, site, page: *fingerprint, signature, memory: None })
    });
    let (document, truncated) = document_record(page, extracted, (record.tp.partition, now), config);
    counts.truncated = truncated;
    let records = std::iter::once(document).chain(found).collect();
    Ok(PageVerdict::Extracted(Box::new(PageResult { links, records, counts, compared })))
}

/// Returns `true` for a style sheet whose requisites are requested and not too deep.
fn is_style_sheet(page: &Page) -> bool {
    let is_within = page.requisites.is_some() && depth_of_requisites(page.context.depth).is_some();
    is_within && page.status == 200 && requisites::is_css(page.content_type.as_deref())
}

/// Returns the records of discovered URLs, and the number of these URLs.
fn discovered_records(found: Vec<Discovered>, partitions: Partition, now: Millis) -> (Vec<Record>, usize) {
    let discovered = found.iter().map(|record| record.urls.len()).sum();
    let record = |found: Discovered| {
        let partition = partition_of(slot_of(&found.site), partitions);
        produced(TopicPartition::new(DISCOVERED, partition), &found.site, encode(&found), now)
    };
    (found.into_iter().map(record).collect(), discovered)
}

/// Returns the record of a page's document, and whether any part of it is cut.
fn document_record(
    page: Page,
    extracted: Extracted,
    (partition, now): (Partition, Millis),
    config: &ExtractorConfig,
) -> (Record, bool) {
    let mut document = document::document(page, extracted);
    let mut made = produced(TopicPartition::new(DOCUMENTS, partition), &document.site, Bytes::new(), now);
    made.headers.extend([
        (FINGERPRINT_HEADER, Bytes::from(document.fingerprint.to_string())),
        (CRAWL_HEADER, Bytes::copy_from_slice(document.crawl.as_bytes())),
    ]);
    if document.visit > 0 {
        made.headers.push((VISIT_HEADER, Bytes::from(document.visit.to_string())));
    }
    if document.needs_render {
        made.headers.push((NEEDS_RENDER_HEADER, Bytes::from_static(b"true")));
    }
    let mark = document.signature.map_or(0, |_| near_duplicates::MARK_BYTES);
    let room = config.record_limit.saturating_sub(made.bytes() + mark);
    made.value = Some(cut::encode_within(&mut document, room));
    (made, !document.truncated.is_empty())
}

pub(crate) fn produced(tp: TopicPartition, site: &str, value: Bytes, now: Millis) -> Record {
    let key = Some(Bytes::copy_from_slice(site.as_bytes()));
    Record::new(tp, key, Some(value), now)
}
