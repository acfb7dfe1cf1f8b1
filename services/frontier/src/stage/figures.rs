//! Figures of the frontier: those of the display, and gauges.

use orbweaver_messages::Millis;

use super::{BUSIEST_EVERY_MS, BUSIEST_SITES, FrontierStage};
use crate::{
    CrawlState, crawl_events::EVENTS_PARTITION, index::IndexError, metrics::seconds, partition::PartitionFrontier,
};

/// Number of sites with the most queued URLs in the figures.
const BUSIEST: usize = 20;
/// Time between two updates of the states of crawls, in milliseconds.
const CRAWLS_EVERY_MS: Millis = 1_000;

impl FrontierStage {
    /// Shows the states of all crawls every second while the partition of their events is open here.
    pub(super) fn show_crawls(&mut self, now: Millis) {
        if (0..CRAWLS_EVERY_MS).contains(&now.saturating_sub(self.crawls_at_ms))
            || !self.open.contains_key(&EVENTS_PARTITION)
        {
            return;
        }
        self.crawls_at_ms = now;
        // Those that were deleted, too.
        let definitions = self.scopes.definitions();
        let applied = self.names.values().filter_map(|crawl| Some((crawl, definitions.applied(crawl)?)));
        let states = applied.map(|(crawl, applied)| CrawlState {
            is_at_cap: self.pages.is_at_cap(crawl),
            changes: self.pages.changes(crawl),
            counts: self.pages.counts(crawl),
            ..CrawlState::of(applied.version, &applied.definition)
        });
        *self.view.lock_crawls() = Some(states.collect());
    }

    pub(super) fn show(&mut self, now: Millis) -> Result<(), IndexError> {
        let loads = self.open.values().map(PartitionFrontier::load);
        let (waiting, leased, sites) =
            loads.fold((0, 0, 0), |sum, load| (sum.0 + load.0, sum.1 + load.1, sum.2 + load.2));
        let similar = self.open.values_mut().map(PartitionFrontier::similar);
        let similar = similar.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let mut figures = self.view.lock();
        (figures.waiting, figures.sites, figures.over_budget) = (waiting as u64, sites as u64, similar.0 as u64);
        (figures.pages, figures.partitions) = (self.pages.all(), self.open.len() as u64);
        figures.is_capped = self.pages.is_any_at_cap();
        figures.asleep = self.open.values().map(PartitionFrontier::asleep).sum();
        figures.next_due_ms = self.open.values().filter_map(PartitionFrontier::next_due_ms).min();
        figures.read = self.open.values().map(PartitionFrontier::read).sum();
        drop(figures);
        self.metrics.demote.inc_by(similar.1);
        self.metrics.expired.inc_by(self.open.values_mut().map(PartitionFrontier::take_expired).sum());
        self.open.values_mut().for_each(|open| self.metrics.count_updates(open.take_updates()));
        for (gauge, value) in [
            (&self.metrics.waiting, waiting),
            (&self.metrics.leased, leased),
            (&self.metrics.sites, sites),
            (&self.metrics.over_budget, similar.0),
        ] {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        }
        let times = i64::try_from(1 + sites / BUSIEST_SITES).unwrap_or(i64::MAX);
        if now >= self.busiest_at_ms + BUSIEST_EVERY_MS * times {
            self.busiest_at_ms = now;
            let ready_since_ms = self.open.values().filter_map(PartitionFrontier::ready_since_ms).min();
            self.metrics.oldest_ready.set(ready_since_ms.map_or(0.0, |since| seconds(now.saturating_sub(since))));
            let held = self.open.values().map(PartitionFrontier::capped_urls).sum();
            self.metrics.show_pages(held, self.pages.capped());
            let live = |key| self.open.values().map(move |open| open.live(key).0);
            let counts = |key| live(key).fold((0, 0), |sum, live| (sum.0 + live.urls, sum.1 + live.asleep));
            self.metrics.show_urls(self.names.iter().map(|(key, name)| (name, counts(*key))));
            let mut busiest = vec![];
            for partition in self.open.values_mut() {
                busiest.extend(partition.busiest(BUSIEST)?);
            }
            busiest.sort_by_key(|load| std::cmp::Reverse(load.waiting));
            busiest.truncate(BUSIEST);
            self.view.lock().busiest = busiest;
        }
        Ok(())
    }
}
