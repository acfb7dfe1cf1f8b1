//! Visits and changes of the crawl with revisits, as the pipeline recorded them.

use std::collections::BTreeMap;

use anyhow::Result;
use orbweaver_cluster_tests::content_hash;
use orbweaver_log::{ConsumerRecord, Log, read_up_to, topic_partitions};
use orbweaver_messages::{FrontierUrl, PageChange, Topic, decode, topic};
use orbweaver_pipeline_tests::sent_versions;
use orbweaver_stage::is_claim;
use orbweaver_toyweb::{Asked, Entry, Web};
use url::{Position, Url};

use crate::crawls::NEWS;
use crate::news::{PAGES, lifetime_ms};

/// Observations of a crawl with revisits, by URL.
#[derive(Debug, Clone, Default)]
pub struct Revisits {
    /// Shortest time between two visits to a page, in microseconds.
    pub shortest_us: u64,
    /// Hash of each version that the web sent, in order of the versions.
    pub sent: BTreeMap<String, Vec<String>>,
    /// Number of visits to a page that may be early: two for each time at which all clocks were set.
    pub excused: usize,
    /// Number of visits.
    pub visits: BTreeMap<String, u32>,
    /// Records of changes, in order, including repeated ones.
    pub changes: BTreeMap<String, Vec<PageChange>>,
}

impl Revisits {
    /// Reads the visits and changes of the crawl, and derives the content of each version that the web sent.
    pub(crate) async fn read(log: &dyn Log, web: &Web, (shortest_us, requests): (u64, &[Entry])) -> Result<Self> {
        let mut found = Self { shortest_us, sent: sent(web, requests), ..Self::default() };
        let is_url = |record: &ConsumerRecord| record.value.is_some() && !is_claim(record);
        for record in records(log, topic::FRONTIER).await?.into_iter().filter(is_url) {
            let waiting: FrontierUrl = decode("frontier-url", record.value.as_ref())?;
            if *waiting.context.crawl == *NEWS.name {
                // That of the last record ends with a tombstone.
                let visits = found.visits.entry(waiting.context.url).or_default();
                *visits = (*visits).max(waiting.context.visit + 1);
            }
        }
        for record in records(log, topic::CHANGES).await? {
            let change: PageChange = decode("page-change", record.value.as_ref())?;
            if *change.context.crawl == *NEWS.name {
                found.changes.entry(change.context.url.clone()).or_default().push(change);
            }
        }
        Ok(found)
    }
}

/// Reads all records of a topic.
async fn records(log: &dyn Log, topic: Topic) -> Result<Vec<ConsumerRecord>> {
    let mut found = vec![];
    for tp in topic_partitions(log, &[topic])? {
        let bounds = log.bounds(tp).await?;
        read_up_to(log, tp, 0, bounds, |record| found.push(record)).await?;
    }
    Ok(found)
}

/// Returns the hash of each version that the web sent, by URL.
fn sent(web: &Web, requests: &[Entry]) -> BTreeMap<String, Vec<String>> {
    let versions = sent_versions(requests);
    let hashes = (0..PAGES).filter_map(|page| {
        let url = web.page_url(page);
        let versions = versions.get(&url)?;
        let hashes = versions.iter().map(|version| body_hash(web, &url, version * lifetime_ms(page)));
        Some((url.clone(), hashes.collect()))
    });
    hashes.collect()
}

/// Returns the hash of a page at this time after the start of its web, in milliseconds.
fn body_hash(web: &Web, url: &str, elapsed_ms: u64) -> String {
    let Ok(url) = Url::parse(url) else { return String::new() };
    let host = &url[Position::BeforeHost..Position::AfterPort];
    let target = &url[Position::BeforePath..Position::AfterQuery];
    content_hash(&web.answer(&Asked { host, target, elapsed_ms, ..Asked::default() }).body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_of_a_page_has_a_hash_of_its_own_as_long_as_it_lasts() {
        let web = Web::new(crate::news::web(1, 8), 8080).unwrap();
        for page in 0..PAGES {
            let (url, lifetime) = (web.page_url(page), lifetime_ms(page));
            let at = |ms| body_hash(&web, &url, ms);
            assert_eq!(at(0), at(lifetime - 1), "{url}");
            assert_ne!(at(0), at(lifetime), "{url}");
            assert_ne!(at(lifetime), at(2 * lifetime), "{url}");
        }
    }
}
