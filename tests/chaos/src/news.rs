//! Web of the crawl with revisits: its pages change. It is on sites of the other web, at a port of its own.

use std::path::PathBuf;

use anyhow::Result;
use orbweaver_log::Log;
use orbweaver_pipeline_tests::Requests;
use orbweaver_toyweb::{Entry, Expected, Logging, Serving, ToyWeb, Web, WebConfig};

use crate::kept::{Kept, keepsakes};
use crate::revisits::Revisits;
use crate::run::read_requests;
use crate::verdict::Evidence;

/// Number of pages.
pub(crate) const PAGES: u64 = 32;
/// Maximum number of sites.
const SITES: u32 = 8;
/// Shortest and longest interval between two visits to a page, in seconds.
const INTERVALS_S: (u64, u64) = (5, 20);
/// Time after which every fourth page changes, in milliseconds: more often than it is visited. The others change after 4,
/// 16 and 64 times as long.
const VERSION_MS: u64 = 4_000;

/// Returns the value of `--revisit` for the crawl.
pub(crate) fn policy() -> String {
    format!("{}s..{}s", INTERVALS_S.0, INTERVALS_S.1)
}

/// Returns the time after which a page changes, in milliseconds.
pub(crate) fn lifetime_ms(page: u64) -> u64 {
    VERSION_MS << (2 * (page % 4))
}

/// Returns the web, on the sites of a web with this many.
pub(crate) fn web(seed: u64, sites: u32) -> WebConfig {
    WebConfig {
        seed,
        pages: PAGES,
        links: 4,
        bytes: 1_000,
        address_hosts: sites.min(SITES),
        version_ms: VERSION_MS,
        ..WebConfig::default()
    }
}

/// The web, served.
pub(crate) struct News {
    web: ToyWeb,
    config: WebConfig,
    truth: Vec<Expected>,
    log: PathBuf,
}

impl News {
    /// Serves the web with its request log in a file.
    pub(crate) fn start((seed, sites): (u64, u32), log: PathBuf) -> Result<Self> {
        let config = web(seed, sites);
        let web = ToyWeb::start(config.clone(), &Serving { port: 0, logging: Logging::File(log.clone()) })?;
        // Any number of visits is right.
        let truth = web.truth().into_iter().map(|expected| Expected { most: u32::MAX, ..expected }).collect();
        Ok(Self { web, config, truth, log })
    }

    /// Returns the URLs of all pages.
    pub(crate) fn urls(&self) -> Vec<&str> {
        self.truth.iter().map(|expected| expected.url.as_str()).collect()
    }

    /// Returns `true` if each page was requested twice. Without revisits, a page that was never visited has no changes.
    pub(crate) fn is_visited_twice(&self) -> bool {
        // The last line may be incomplete.
        let counts = read_requests(&self.log).map(|entries| Requests::new(entries).pages()).unwrap_or_default();
        self.truth.iter().all(|page| counts.get(&page.url).is_some_and(|count| *count > 1))
    }

    /// Returns the number of requests that could not be logged.
    pub(crate) fn failures(&self) -> u64 {
        self.web.log().failures()
    }

    /// Stops serving. Returns the evidence of the crawl, without its completions, documents and rows, and its visits and
    /// changes. `others` are the requests that the other web received: all times are those of its log.
    pub(crate) async fn observed(self, log: &dyn Log, others: &[Entry]) -> Result<(Evidence, Revisits)> {
        let content = Web::new(self.config, self.web.address().port())?;
        self.web.stop();
        let mut requests = read_requests(&self.log)?;
        let started_us = others.first().map_or(0, |entry| entry.epoch_us - entry.at_us);
        requests.iter_mut().for_each(|entry| entry.at_us = entry.epoch_us.saturating_sub(started_us));
        let revisits = Revisits::read(log, &content, (INTERVALS_S.0 * 1_000_000, &requests)).await?;
        let mut kept = keepsakes(&content, &self.truth);
        // The last version depends on the time of the last visit; the changes are compared instead.
        kept.urls.values_mut().for_each(|kept| *kept = Kept::Anything);
        Ok((Evidence { truth: self.truth, requests, kept, complete_at_the_end: true, ..Evidence::default() }, revisits))
    }
}
