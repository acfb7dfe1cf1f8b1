//! Page caps of crawls and their page counts, read from `crawl.control` with the frontier's code.

use orbweaver_frontier::{
    CrawlScopes, page_count,
    pages::{CrawlCounts, PageCaps},
    scope::ControlChange,
};
use orbweaver_log::{ConsumerRecord, Log, Offset, read_up_to, topic_partitions};
use orbweaver_messages::topic::{CONTROL, FRONTIER};
use orbweaver_scope::Definitions;
use orbweaver_stage::{
    Clock as _, SystemClock,
    completion::{OffsetSnapshot, PartitionOffsets},
};
use orbweaver_url::CrawlName;
use serde::Serialize;

use crate::{
    crawl::progress::number,
    exit::{Failure, failed},
};

/// A crawl with a page cap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CappedCrawl {
    pub crawl: CrawlName,
    /// Fetched pages, as far as the frontiers have recorded them.
    pub pages: u64,
    pub max_pages: u64,
    /// Whether the cap is reached and no dispatch is outstanding.
    pub at_cap: bool,
}

impl CappedCrawl {
    /// Describes the crawl in words. After `crawls set` no results are kept for a collector that ended at the cap.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { crawl, pages, max_pages, at_cap } = self;
        let (pages, max) = (number(*pages), number(*max_pages));
        match at_cap {
            true => format!(
                "crawl `{crawl}` is at its cap: {pages} of {max} pages; to continue, raise --max-pages in the command \
                 that collects its results (`orbweaver crawl --brokers … --out`), or with \
                 `orbweaver crawls set {crawl}` if none does"
            ),
            false => format!("crawl `{crawl}`: {pages} of at most {max} pages"),
        }
    }
}

/// State read from `crawl.control` so far.
#[derive(Debug, Default)]
pub struct Caps {
    scopes: CrawlScopes,
    pages: PageCaps,
    /// Next offset to read, by partition.
    read: Vec<Offset>,
}

impl Caps {
    /// Reads up to the log end; passes each record to `also`.
    pub async fn update(&mut self, log: &dyn Log, mut also: impl FnMut(&ConsumerRecord)) -> Result<(), Failure> {
        let tps = topic_partitions(log, &[CONTROL]).map_err(failed)?;
        let bounds = log.all_bounds(&tps).await.map_err(failed)?;
        self.read.resize(tps.len(), 0);
        for ((tp, bounds), read) in tps.into_iter().zip(bounds).zip(&mut self.read) {
            let apply = |record: ConsumerRecord| {
                also(&record);
                if let Some(count) = page_count(&record) {
                    self.pages.apply(record.offset, &count);
                } else if let ControlChange::Definition(crawl) = self.scopes.apply(&record) {
                    self.scopes.cap(&crawl, &mut self.pages);
                }
            };
            *read = read_up_to(log, tp, *read, bounds, apply).await.map_err(failed)?;
        }
        self.pages.pass(SystemClock.now());
        Ok(())
    }

    /// Returns the definitions of all crawls.
    #[must_use]
    pub fn definitions(&self) -> &Definitions {
        self.scopes.definitions()
    }

    /// Returns the counts of a crawl, as far as the frontiers have recorded them.
    #[must_use]
    pub fn counts(&self, crawl: &CrawlName) -> CrawlCounts {
        self.pages.counts(crawl)
    }

    /// Returns `true` if a crawl has reached one of its caps.
    #[must_use]
    pub fn is_at_cap(&self, crawl: &CrawlName) -> bool {
        self.pages.is_at_cap(crawl)
    }

    /// Returns the names of the paused crawls.
    #[must_use]
    pub fn paused(&self) -> Vec<CrawlName> {
        let paused = self.definitions().all().filter(|(_, applied)| applied.definition.paused);
        paused.map(|(crawl, _)| crawl.clone()).collect()
    }

    /// Returns the crawls that have a cap, by name.
    #[must_use]
    pub fn crawls(&self) -> Vec<CappedCrawl> {
        let capped = self.pages.capped().map(|(crawl, standing)| CappedCrawl {
            crawl: crawl.clone(),
            pages: standing.pages,
            max_pages: standing.max,
            at_cap: standing.pages >= standing.max && standing.leased == 0,
        });
        capped.collect()
    }

    /// Returns `true` if two offset snapshots prove that only URLs that are capped are left; never while a crawl is paused,
    /// whose URLs may be among them.
    #[must_use]
    pub fn is_all_that_is_left(&self, first: &OffsetSnapshot, second: &OffsetSnapshot) -> bool {
        let held = |standing: &PartitionOffsets| {
            standing.tp.topic == FRONTIER && self.pages.capped_at(standing.tp.partition) == Some(standing.end)
        };
        self.paused().is_empty() && self.pages.is_any_at_cap() && second.confirms_quiescence(first, held)
    }
}
