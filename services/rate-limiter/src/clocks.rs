//! Clocks at a site: that of the site, which all crawls share, and one of each crawl with an interval of its own.

use orbweaver_messages::Millis;
use orbweaver_politeness::{AdaptiveInterval, next_request_ms};

/// Times of the last request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Clock {
    /// Latest scheduled time.
    pub(crate) planned_ms: Option<Millis>,
    /// Time of the latest response.
    pub(crate) answered_ms: Option<Millis>,
}

impl Clock {
    /// Returns the earliest time of the next request: the interval after the last response, and the interval plus the
    /// usual response time after the last scheduled time.
    pub(crate) fn next_ms(self, pace: &AdaptiveInterval, asked_ms: u64, horizon_ms: u64, now: Millis) -> Millis {
        let interval_ms = pace.interval_ms(asked_ms);
        if interval_ms == 0 {
            return now;
        }
        let spacing_ms = pace.spacing_ms(asked_ms);
        let after_planned = self.planned_ms.map(|last| next_request_ms(last, spacing_ms, horizon_ms, now));
        after_planned.max(self.after_answer_ms(pace, asked_ms, now)).unwrap_or(now)
    }

    /// Returns the interval after the last response, if there was one.
    fn after_answer_ms(self, pace: &AdaptiveInterval, asked_ms: u64, now: Millis) -> Option<Millis> {
        self.answered_ms.map(|last| next_request_ms(last, pace.interval_ms(asked_ms), 0, now))
    }
}

#[derive(Debug)]
struct OwnClock {
    crawl: Box<str>,
    interval_ms: u64,
    clock: Clock,
}

/// Clocks of the crawls with an interval of their own. A crawl without one here may be requested at once, unless the
/// partition has a new owner.
#[derive(Debug, Default)]
pub(crate) struct OwnClocks {
    clocks: Vec<OwnClock>,
    /// Time at which a crawl without a clock counts as requested; `None`: never.
    asked_ms: Option<Millis>,
}

impl OwnClocks {
    pub(crate) fn asked_at(asked_ms: Option<Millis>) -> Self {
        Self { clocks: vec![], asked_ms }
    }

    /// Returns the clock of a crawl.
    pub(crate) fn of(&self, crawl: &str) -> Clock {
        let own = self.clocks.iter().find(|own| *own.crawl == *crawl);
        own.map_or(Clock { planned_ms: self.asked_ms, answered_ms: None }, |own| own.clock)
    }

    /// Sets the clock of a crawl with this interval.
    pub(crate) fn set(&mut self, crawl: &str, interval_ms: u64, clock: Clock) {
        match self.clocks.iter_mut().find(|own| *own.crawl == *crawl) {
            Some(own) => (own.interval_ms, own.clock) = (interval_ms, clock),
            None => self.clocks.push(OwnClock { crawl: crawl.into(), interval_ms, clock }),
        }
    }

    /// Removes the clocks that delay no request any longer.
    pub(crate) fn prune(&mut self, pace: &AdaptiveInterval, horizon_ms: u64, now: Millis) {
        self.clocks.retain(|own| own.clock.next_ms(pace, own.interval_ms, horizon_ms, now) > now);
        self.clocks.shrink_to_fit();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.clocks.is_empty()
    }
}
