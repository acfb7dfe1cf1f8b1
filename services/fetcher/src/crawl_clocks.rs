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
pub(crate) struct CrawlClocks {
    clocks: Vec<CrawlClock>,
    /// Last crawl that needed no clock, and the time of its last request, or of the first byte of its response. It may need one
    /// for the next.
    without: Option<(CrawlName, Millis)>,
    /// Delay of the crawl of the last request, in milliseconds; 0: none.
    last_own_ms: u64,
}

impl CrawlClocks {
    pub(crate) fn is_empty(&self) -> bool {
        self.clocks.is_empty()
    }

    /// Notes a request to be queued; its crawl counts as requested no earlier than `asked_ms`. `own_ms` is the delay of the
    /// crawl; 0: none.
    pub(crate) fn queue(&mut self, crawl: &CrawlName, own_ms: u64, asked_ms: Millis, now: Millis) {
        self.clocks.retain(|clock| clock.in_flight || clock.free_ms(now) > now);
        if own_ms > 0 {
            let clock = self.of(crawl, own_ms);
            clock.last_ms = clock.last_ms.max(asked_ms);
        }
    }

    /// Returns the earliest time of a request, as far as its crawl determines it; `None` if a response in flight must
    /// arrive first.
    pub(crate) fn free_ms(&self, crawl: &CrawlName, now: Millis) -> Option<Millis> {
        let clock = self.clocks.iter().find(|clock| clock.crawl == *crawl);
        clock.map_or(Some(Millis::MIN), |clock| (!clock.in_flight).then(|| clock.free_ms(now)))
    }

    /// Returns the time between the last request and one of a crawl with this delay, in milliseconds: the shorter delay of
    /// the two crawls; 0: as the site demands.
    pub(crate) fn between_ms(&self, own_ms: u64) -> u64 {
        self.last_own_ms.min(own_ms)
    }

    /// Notes that a request is sent now.
    pub(crate) fn start(&mut self, crawl: &CrawlName, own_ms: u64, now: Millis) {
        self.last_own_ms = own_ms;
        if own_ms > 0 {
            let clock = self.of(crawl, own_ms);
            (clock.in_flight, clock.last_ms) = (true, now);
        } else {
            match &mut self.without {
                Some((last, at_ms)) if last == crawl => *at_ms = now,
                without => *without = Some((crawl.clone(), now)),
            }
        }
    }

    /// Notes the first byte of a response, or the failure.
    pub(crate) fn answered(&mut self, crawl: &CrawlName, answered_ms: Millis) {
        match self.clocks.iter_mut().find(|clock| clock.crawl == *crawl) {
            Some(clock) => {
                clock.in_flight = false;
                clock.last_ms = clock.last_ms.max(answered_ms);
            }
            None => match &mut self.without {
                Some((last, at_ms)) if last == crawl => *at_ms = answered_ms.max(*at_ms),
                _ => {}
            },
        }
    }

    /// Returns the time from which no clock binds any more.
    pub(crate) fn idle_ms(&self, now: Millis) -> Millis {
        self.clocks.iter().map(|clock| clock.free_ms(now)).max().unwrap_or(Millis::MIN)
    }

    /// Counts each crawl as requested now.
    pub(crate) fn reset(&mut self, now: Millis) {
        self.clocks.iter_mut().for_each(|clock| clock.last_ms = now);
        self.without.iter_mut().for_each(|(_, at_ms)| *at_ms = now);
    }

    fn of(&mut self, crawl: &CrawlName, interval_ms: u64) -> &mut CrawlClock {
        let index = self.clocks.iter().position(|clock| clock.crawl == *crawl).unwrap_or_else(|| {
            let without = self.without.as_ref().filter(|(last, _)| last == crawl);
            let last_ms = without.map_or(Millis::MIN, |(_, at_ms)| *at_ms);
            self.clocks.push(CrawlClock { crawl: crawl.clone(), interval_ms, in_flight: false, last_ms });
            self.clocks.len() - 1
        });
        let clock = &mut self.clocks[index];
        clock.interval_ms = interval_ms;
        clock
    }
}
