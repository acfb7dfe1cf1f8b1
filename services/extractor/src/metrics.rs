//! Names of the metrics, and their alert conditions.

use prometheus::{
    Histogram, IntCounter, IntCounterVec, IntGauge, Registry, register_histogram_with_registry as histogram,
    register_int_counter_vec_with_registry as counters, register_int_counter_with_registry as counter,
    register_int_gauge_with_registry as gauge,
};

use crate::charset::CharsetSource;

/// Pages by result: `extracted`, `sitemap` (or feed), `passed_over` (any other type), `rejected`. Alert: any steady rate
/// of `rejected`, since each is a page lost to the dead letters.
pub const PAGES: &str = "orbweaver_extractor_pages_total";
/// Pages received and not yet extracted. Alert: above the budget's records for minutes while seconds stay flat.
pub const PENDING: &str = "orbweaver_extractor_pending_pages";
/// Bytes of pages being extracted and of their results that are not durable. Alert: at `extractor.memory` for minutes
/// while log and store are available: pages wait for memory, not for threads.
pub const MEMORY: &str = "orbweaver_extractor_memory_bytes";
/// CPU-bound time per pass over a page (almost all take one), from its record to the resulting records. Alert: a 99th
/// percentile above one second.
pub const SECONDS: &str = "orbweaver_extractor_page_seconds";
/// Bytes of decoded bodies. Alert: none; with the seconds it gives the throughput.
pub const BODY_BYTES: &str = "orbweaver_extractor_body_bytes_total";
/// Links found, including duplicates. Alert: none.
pub const LINKS: &str = "orbweaver_extractor_links_total";
/// Links with `rel=nofollow`. Alert: none.
pub const NOFOLLOW: &str = "orbweaver_extractor_nofollow_links_total";
/// URLs put into `crawl.discovered`. Alert: no increase for minutes while pages are extracted: the crawl finds
/// nothing.
pub const DISCOVERED: &str = "orbweaver_extractor_discovered_urls_total";
/// Links that are not followed, since resolution makes the links of their page exceed sixteen times its body; a log
/// line names the page. Alert: none; pages with a long `base` and thousands of links are traps.
pub const UNFOLLOWED: &str = "orbweaver_extractor_unfollowed_links_total";
/// Pages of which a part was cut at a limit. Alert: more than one page in a hundred.
pub const TRUNCATED: &str = "orbweaver_extractor_truncated_pages_total";
/// Pages by source of their encoding: `bom`, `header`, `declared`, `detected`. Alert: `detected` above half of the
/// pages.
pub const CHARSETS: &str = "orbweaver_extractor_charset_pages_total";
/// Pages that ask robots not to follow their links. Alert: none.
pub const NOFOLLOW_PAGES: &str = "orbweaver_extractor_nofollow_pages_total";
/// Pages without content, since only a browser's scripts would make it: their documents have `needs_render`. Alert: above
/// a tenth of the pages, if the crawl is for text: its sites have to be read in another way.
pub const UNRENDERED_PAGES: &str = "orbweaver_extractor_unrendered_pages_total";
/// Documents marked as near duplicates of an earlier page. Alert: above half of the documents for hours: a site has the same
/// page at many URLs, which `exclude` of the crawl can keep out.
pub const NEAR_DUPLICATES: &str = "orbweaver_extractor_near_duplicates_total";
/// Pages with which others are compared, in the open partitions. Alert: at `extractor.near_duplicate_pages` times the partitions:
/// near duplicates of pages that were dropped are not marked.
pub const ORIGINALS: &str = "orbweaver_extractor_original_pages";

/// Label values of [`CHARSETS`].
const SOURCES: [CharsetSource; 4] =
    [CharsetSource::ByteOrderMark, CharsetSource::Header, CharsetSource::Declared, CharsetSource::Detected];

#[derive(Debug, Clone)]
pub struct ExtractorMetrics {
    pub(crate) pages: IntCounterVec,
    pub(crate) pending: IntGauge,
    pub(crate) memory: IntGauge,
    pub(crate) seconds: Histogram,
    pub(crate) body_bytes: IntCounter,
    pub(crate) links: IntCounter,
    pub(crate) nofollow: IntCounter,
    pub(crate) discovered: IntCounter,
    pub(crate) unfollowed: IntCounter,
    pub(crate) truncated: IntCounter,
    pub(crate) charsets: IntCounterVec,
    pub(crate) nofollow_pages: IntCounter,
    pub(crate) unrendered_pages: IntCounter,
    pub(crate) near_duplicates: IntCounter,
    pub(crate) originals: IntGauge,
}

impl ExtractorMetrics {
    /// Creates the metrics and registers them.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        // 16 µs to about a minute.
        let buckets = prometheus::exponential_buckets(16e-6, 4.0, 12)?;
        let metrics = Self {
            pages: counters!(PAGES, "Pages by result", &["result"], registry)?,
            pending: gauge!(PENDING, "Pages received and not yet extracted", registry)?,
            memory: gauge!(MEMORY, "Bytes of pages being extracted and of results not yet durable", registry)?,
            seconds: histogram!(SECONDS, "CPU-bound time per page", buckets, registry)?,
            body_bytes: counter!(BODY_BYTES, "Bytes of decoded bodies", registry)?,
            links: counter!(LINKS, "Links found, including duplicates", registry)?,
            nofollow: counter!(NOFOLLOW, "Links with rel=nofollow", registry)?,
            discovered: counter!(DISCOVERED, "URLs written to crawl.discovered", registry)?,
            unfollowed: counter!(UNFOLLOWED, "Links beyond sixteen times the body of their page", registry)?,
            truncated: counter!(TRUNCATED, "Pages of which a part was cut at a limit", registry)?,
            charsets: counters!(CHARSETS, "Pages by source of their encoding", &["source"], registry)?,
            nofollow_pages: counter!(NOFOLLOW_PAGES, "Pages that ask robots not to follow their links", registry)?,
            unrendered_pages: counter!(UNRENDERED_PAGES, "Pages whose content only scripts would make", registry)?,
            near_duplicates: counter!(NEAR_DUPLICATES, "Documents marked as near duplicates", registry)?,
            originals: gauge!(ORIGINALS, "Pages with which others are compared", registry)?,
        };
        // A sum over results that have not yet occurred should be 0, not absent.
        ["extracted", "sitemap", "passed_over", "rejected"]
            .iter()
            .for_each(|result| drop(metrics.pages.with_label_values(&[result])));
        SOURCES.iter().for_each(|source| drop(metrics.charsets.with_label_values(&[source.as_str()])));
        Ok(metrics)
    }
}
