//! Number of fetched pages of each crawl, compared with the frontiers' counts.

use std::collections::BTreeMap;

use orbweaver_frontier::{
    page_count,
    pages::{Counted, PageCaps},
};
use orbweaver_log::{ConsumerRecord, MemoryLog, Offset};
use orbweaver_messages::{Outcome, decode, topic};
use orbweaver_url::CrawlName;

use crate::observer::tps;

/// Fetched pages of a schedule by crawl, counted while their outcomes are in the log.
#[derive(Debug, Default)]
pub(crate) struct PageTruth {
    /// Offset in each partition below which outcomes are counted.
    next: BTreeMap<u32, Offset>,
    pages: BTreeMap<CrawlName, u64>,
    /// The cap of the first crawl in force.
    max: Option<u64>,
    /// Allowed number of pages; `over` is the largest excess so far.
    allowed: u64,
    pub(crate) over: u64,
}

impl PageTruth {
    /// Applies a cap of the first crawl from now on; pages fetched already may exceed it.
    pub(crate) fn limit(&mut self, log: &MemoryLog, max: Option<u64>) {
        self.look(log);
        (self.max, self.allowed) = (max, max.unwrap_or(u64::MAX).max(self.of_first()));
    }

    fn of_first(&self) -> u64 {
        self.pages.get(&CrawlName::default()).copied().unwrap_or_default()
    }

    /// Counts new outcomes. Must run before any deletion, so that no outcome is missed.
    pub(crate) fn look(&mut self, log: &MemoryLog) {
        for tp in tps(log, topic::OUTCOMES) {
            let next = self.next.entry(tp.partition).or_default();
            for record in log.records(tp).into_iter().filter(|record| record.offset >= *next).collect::<Vec<_>>() {
                *next = record.offset + 1;
                if let Some(Counted { crawl, pages, .. }) = outcome_of(&record).as_ref().and_then(Counted::of) {
                    *self.pages.entry(crawl.clone()).or_default() += pages;
                }
            }
        }
        if self.max.is_some() {
            self.over = self.over.max(self.of_first().saturating_sub(self.allowed));
        }
    }

    /// Returns a violation if a frontier that opened all partitions now would count differently.
    pub(crate) fn judge(&mut self, log: &MemoryLog) -> Option<String> {
        self.look(log);
        let mut pages = PageCaps::default();
        for record in tps(log, topic::CONTROL).into_iter().flat_map(|tp| log.records(tp)) {
            if let Some(count) = page_count(&record) {
                pages.apply(record.offset, &count);
            }
        }
        for tp in tps(log, topic::OUTCOMES) {
            let from = pages.counted_upto(tp.partition);
            for record in log.records(tp).into_iter().filter(|record| record.offset >= from) {
                pages.outcome(tp.partition, record.offset, outcome_of(&record).as_ref().and_then(Counted::of));
            }
        }
        let truth = self.pages.values().sum::<u64>();
        (pages.all() != truth).then(|| format!("{truth} pages were fetched, and {} are counted", pages.all()))
    }
}

fn outcome_of(record: &ConsumerRecord) -> Option<Outcome> {
    decode::<Outcome>("outcome", record.value.as_ref()).ok()
}
