//! Fixtures of several test modules: pages, an open stage, its memory.

use bytes::Bytes;
use orbweaver_extractor::job::PAGE_HEADER;
use orbweaver_extractor::{BlockingWorker, ExtractorConfig, ExtractorMetrics, ExtractorStage};
use orbweaver_log::{ConsumerRecord, TopicPartition};
use orbweaver_messages::{BodyEncoding, DiscoveryKind, Page, PageKind, Truncated, UrlContext, encode, topic};
use orbweaver_stage::{Origin, PartitionContext, Stage};
use prometheus::Registry;

pub(crate) const PARTITIONS: u32 = 64;
pub(crate) const NOW: i64 = 1_700_000_123_456;
/// Topic-partition of the pages, which [`open_stage`] opens.
pub(crate) const PAGES: TopicPartition = TopicPartition { topic: topic::PAGES, partition: 3 };

/// Makes a page of the site `a.test`, found on another one.
pub(crate) fn page(url: &str, body: &[u8], encoding: BodyEncoding) -> Page {
    Page {
        context: UrlContext {
            depth: 2,
            priority: 4.try_into().unwrap(),
            sighting: DiscoveryKind::Link,
            chain: vec!["http://a.test/old".into()],
            ..UrlContext::of_seed("main".parse().unwrap(), url.into(), "a.test".into())
        },
        kind: PageKind::Html,
        status: 200,
        content_type: Some("text/html".into()),
        headers: vec![],
        fetched_at_ms: 1_700_000_000_000,
        written_at_ms: None,
        visited_at_ms: None,
        encoding,
        body_bytes: body.len() as u64,
        content_encoding: None,
        encoded_bytes: None,
        truncated: Truncated::default(),
        content_hash: "0".repeat(32),
        attempt: 1,
        agent: None,
        html: None,
        main_text: None,
        markdown: None,
        facts: None,
        other_links: None,
        near_duplicates: None,
        feeds: false,
        requisites: None,
        capture: None,
    }
}

/// Makes a record of `crawl.pages`, with its origin.
pub(crate) fn delivered(offset: u64, page: Option<&Page>, value: Option<&[u8]>) -> (Origin, ConsumerRecord) {
    let record = ConsumerRecord {
        tp: PAGES,
        offset,
        timestamp_ms: NOW,
        key: None,
        value: value.map(Bytes::copy_from_slice),
        headers: page.map(|page| (PAGE_HEADER.into(), encode(page))).into_iter().collect(),
    };
    (Origin { tp: PAGES, offset, assignment_epoch: 1 }, record)
}

/// Makes links to `/0` and so on.
pub(crate) fn links(count: usize) -> String {
    (0..count).map(|number| format!("<a href=/{number}></a>")).collect()
}

pub(crate) fn metrics() -> ExtractorMetrics {
    ExtractorMetrics::register(&Registry::new()).unwrap()
}

pub(crate) fn open_stage(config: ExtractorConfig) -> ExtractorStage {
    let mut stage = ExtractorStage::new(config, metrics());
    open(&mut stage, 1);
    stage
}

/// Opens the partition under an assignment epoch.
pub(crate) fn open(stage: &mut ExtractorStage, assignment_epoch: u32) {
    let partition = PAGES.partition;
    stage.open(
        PartitionContext { partition, partitions: PARTITIONS, assignment_epoch, owner_epoch: 0, commits: [0; 3] },
        NOW,
    );
}

/// Returns a worker, and a function that returns the memory in use.
pub(crate) fn worker(config: ExtractorConfig) -> (BlockingWorker, impl Fn() -> usize) {
    let registry = Registry::new();
    let worker = BlockingWorker::new(config, ExtractorMetrics::register(&registry).unwrap());
    let in_use = move || {
        let families = registry.gather();
        let family = families.iter().find(|family| family.name() == "orbweaver_extractor_memory_bytes").unwrap();
        family.get_metric()[0].get_gauge().get_value() as usize
    };
    (worker, in_use)
}
