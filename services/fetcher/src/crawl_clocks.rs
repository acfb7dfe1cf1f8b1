//! Clocks of crawls with a politeness delay of their own, at one site. Pure.

use orbweaver_messages::Millis;
use orbweaver_url::CrawlName;

#[derive(Debug)]
struct CrawlClock {
    crawl: CrawlName,
    /// Minimum time since the site's previous response for this crawl, in milliseconds.
    interval_ms: u64,
    in_flight: bool,
    /// Time of the last request, or of the first byte of its response.
    last_ms: Millis,
}

impl CrawlClock {
    /// Returns the time at which the delay has certainly passed. A last time in the future counts as now
    /// (docs/protocol.md#delays-restart).
    fn free_ms(&self, now: Millis) -> Millis {
        let interval_ms = Millis::try_from(self.interval_ms).unwrap_or(Millis::MAX);
        // One more, since both times are truncated to whole milliseconds.
        self.last_ms.min(now).saturating_add(interval_ms).saturating_add(1)
    }
}

/// Clocks of crawls at one site; few, since one that no longer binds is removed.
#[derive(Debug, Default)]
pub(crate) struct CrawlClocks(Vec<CrawlClock>);

impl CrawlClocks {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes a request to be queued; its crawl counts as requested no earlier than `asked_ms`. `own_ms` is the delay of the
    /// crawl; 0: none.
    pub(crate) fn queue(&mut self, crawl: &CrawlName, own_ms: u64, asked_ms: Millis, now: Millis) {
        self.0.retain(|clock| clock.in_flight || clock.free_ms(now) > now);
        if own_ms > 0 {
            let clock = self.of(crawl, own_ms);
            clock.last_ms = clock.last_ms.max(asked_ms);
        }
    }

    /// Returns the earliest time of a request, as far as its crawl determines it; `None` if a response in flight must
    /// arrive first.
    pub(crate) fn free_ms(&self, crawl: &CrawlName, now: Millis) -> Option<Millis> {
        let clock = self.0.iter().find(|clock| clock.crawl == *crawl);
        clock.map_or(Some(Millis::MIN), |clock| (!clock.in_flight).then(|| clock.free_ms(now)))
    }

    /// Notes that a request is sent now.
    pub(crate) fn start(&mut self, crawl: &CrawlName, own_ms: u64, now: Millis) {
        if own_ms > 0 {
            let clock = self.of(crawl, own_ms);
            (clock.in_flight, clock.last_ms) = (true, now);
        }
    }

    /// Notes the first byte of a response, or the failure.
    pub(crate) fn answered(&mut self, crawl: &CrawlName, answered_ms: Millis) {
        if let Some(clock) = self.0.iter_mut().find(|clock| clock.crawl == *crawl) {
            clock.in_flight = false;
            clock.last_ms = clock.last_ms.max(answered_ms);
        }
    }

    /// Returns the time from which no clock binds any more.
    pub(crate) fn idle_ms(&self, now: Millis) -> Millis {
        self.0.iter().map(|clock| clock.free_ms(now)).max().unwrap_or(Millis::MIN)
    }

    /// Counts each crawl as requested now.
    pub(crate) fn reset(&mut self, now: Millis) {
        self.0.iter_mut().for_each(|clock| clock.last_ms = now);
    }

    fn of(&mut self, crawl: &CrawlName, interval_ms: u64) -> &mut CrawlClock {
        let index = self.0.iter().position(|clock| clock.crawl == *crawl).unwrap_or_else(|| {
            self.0.push(CrawlClock { crawl: crawl.clone(), interval_ms, in_flight: false, last_ms: Millis::MIN });
            self.0.len() - 1
        });
        let clock = &mut self.0[index];
        clock.interval_ms = interval_ms;
        clock
    }
}
