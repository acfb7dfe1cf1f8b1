//! One site: its next request time, and the effect of an outcome.

use orbweaver_messages::{CLOCK_MARGIN_MS, Millis};
use orbweaver_politeness::{
    AdaptiveInterval,
    backoff::{FORGIVEN_AFTER_MS, MAX_BLOCK_MS, block_ms, staggered_ms},
    robots::MAX_CRAWL_DELAY_MS,
};
use orbweaver_scope::Hold;
use orbweaver_url::slot_of;

use crate::{
    clocks::{Clock, OwnClocks},
    config::FASTEST_MS,
    crawl_shares::{Claim, CrawlShares, NextTime},
    partial_messages::OutcomeFields,
};

/// Time after its last report during which a crawl-delay is not replaced by a shorter one (for example of another host
/// of the site), in milliseconds: as long as a robots.txt is valid.
const CRAWL_DELAY_KEPT_MS: Millis = 24 * 3_600_000;
/// Age at which a streak of refusals is no longer restored and no longer keeps its site in memory, in milliseconds:
/// beyond the longest block, so that the block after it is as long again.
const STREAK_KEPT_MS: Millis = 48 * 3_600_000;
/// Time for which a site with a crawl-delay or a learned interval stays in memory after its next request time, in
/// milliseconds.
const LEARNED_KEPT_MS: Millis = 3_600_000;
/// Time for which any site stays in memory after its next request time, in milliseconds; eviction loses only its
/// smoothed response time.
const IDLE_KEPT_MS: Millis = 10_000;

/// State of a site that survives a restart: the content of a record in `crawl.sites`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Remembered {
    /// End of the site's block; 0: none.
    pub(crate) blocked_until_ms: Millis,
    /// Number of consecutive refusals.
    pub(crate) blocks: u32,
    /// Crawl-delay in milliseconds, if it is longer than the configured interval.
    pub(crate) crawl_delay_ms: Option<u64>,
    /// Time of the last refusal, or of the response that ended a streak of refusals.
    pub(crate) event_ms: Millis,
}

/// Settings that apply to a crawl at a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Interval set for the site, in milliseconds, if there is one; 0: unlimited.
    pub(crate) site_ms: Option<u64>,
    /// Interval of the configured rate, in milliseconds; 0: unlimited.
    pub(crate) rate_ms: u64,
    /// The crawl's own interval at a site, in milliseconds; 0: none.
    pub(crate) own_ms: u64,
    /// Planning horizon, in milliseconds.
    pub(crate) horizon_ms: u64,
    /// Share of the crawl.
    pub(crate) share: u32,
}

impl Terms {
    /// Returns the base interval at the site of a crawl whose own is `own_ms`; 0: unlimited.
    pub(crate) fn base_ms(self, own_ms: u64) -> u64 {
        self.site_ms.unwrap_or(if own_ms > 0 { own_ms } else { self.rate_ms })
    }

    /// Returns the terms for what the site demands of all crawls, which must not depend on the interval of a slow one: a
    /// crawl's own interval counts only if it is shorter than that of others.
    fn shared(self) -> Self {
        Self { own_ms: if self.own_ms < self.rate_ms { self.own_ms } else { 0 }, ..self }
    }

    /// Returns `true` if the crawl may be requested at any rate.
    pub(crate) fn is_unlimited(self) -> bool {
        self.own_ms == 0 && self.base_ms(0) == 0
    }
}

/// State of a site.
#[derive(Debug, Default)]
pub(crate) struct Site {
    /// Clock that all crawls share.
    clock: Clock,
    own_clocks: OwnClocks,
    crawl_shares: CrawlShares,
    /// Own interval of the crawl that was scheduled last, in milliseconds (0: none); `None` if this owner of the partition
    /// has scheduled none.
    last_own_ms: Option<u64>,
    pace: AdaptiveInterval,
    /// State that must survive a restart.
    pub(crate) remembered: Remembered,
    crawl_delay_learned_ms: Millis,
    /// Time of the first good response since the last refusal; a new owner starts again.
    good_since_ms: Option<Millis>,
}

/// Reason for deferring a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deferral {
    /// The site's next request time is beyond the horizon or the dispatch's `not_after_ms`.
    Interval,
    /// The site is blocked.
    Blocked,
    /// The dispatch arrived after its `not_after_ms`.
    Late,
    /// The site is frozen.
    Frozen,
    /// The crawl is paused.
    Paused,
    /// The crawl has been stopped.
    Stopped,
    /// The crawl's definition was not read yet.
    Definition,
}

impl Deferral {
    pub(crate) const ALL: [Self; 7] =
        [Self::Interval, Self::Blocked, Self::Late, Self::Frozen, Self::Paused, Self::Stopped, Self::Definition];

    /// Returns the reason as it is written to the outcome.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Interval => "interval",
            Self::Blocked => "blocked",
            Self::Late => "late",
            Self::Frozen => Hold::Frozen.name(),
            Self::Paused => Hold::Paused.name(),
            Self::Stopped => Hold::Stopped.name(),
            Self::Definition => Hold::Unread.name(),
        }
    }
}

impl From<Hold> for Deferral {
    fn from(hold: Hold) -> Self {
        match hold {
            Hold::Frozen => Self::Frozen,
            Hold::Paused => Self::Paused,
            Hold::Stopped => Self::Stopped,
            Hold::Unread => Self::Definition,
        }
    }
}

/// Decision about a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Schedule it for fetching.
    Pass {
        /// Scheduled time.
        not_before_ms: Millis,
        /// Interval of the site, in milliseconds.
        interval_ms: u64,
        /// Interval of the crawl alone, in milliseconds; 0: none.
        own_ms: u64,
    },
    Defer {
        reason: Deferral,
        /// Time from which it may be dispatched again.
        retry_at_ms: Millis,
    },
}

impl Site {
    /// Creates a site that counts as requested by all crawls at `last_ms`; `None`: never requested.
    pub(crate) fn asked_at(last_ms: Option<Millis>) -> Self {
        let clock = Clock { planned_ms: last_ms, answered_ms: None };
        Self { clock, own_clocks: OwnClocks::asked_at(last_ms), ..Self::default() }
    }

    /// Restores the state that was persisted before a restart.
    pub(crate) fn recall(&mut self, remembered: Remembered, terms: Terms, now: Millis) {
        self.remembered = remembered;
        if self.remembered.event_ms.saturating_add(STREAK_KEPT_MS) > now {
            self.pace = AdaptiveInterval::recalled(self.remembered.blocks, self.asked_ms(terms));
        } else {
            self.remembered.blocks = 0;
        }
        self.crawl_delay_learned_ms = now;
    }

    /// Returns the end of the site's block, or `None` if the site is not blocked.
    pub(crate) fn blocked_until_ms(&self, now: Millis) -> Option<Millis> {
        Some(self.remembered.blocked_until_ms).filter(|until| *until > now)
    }

    /// Schedules a dispatch of a crawl that may be sent until `not_after_ms`, or defers it.
    pub(crate) fn decide(&mut self, crawl: &str, not_after_ms: Millis, terms: Terms, now: Millis) -> Decision {
        if let Some(retry_at_ms) = self.blocked_until_ms(now) {
            return Decision::Defer { reason: Deferral::Blocked, retry_at_ms };
        }
        let asked_ms = self.asked_ms(terms);
        let mut own = self.own_clocks.of(crawl);
        let own_at_ms = match terms.own_ms {
            0 => Millis::MIN,
            interval_ms => own.next_ms(&self.pace, interval_ms, terms.horizon_ms, now),
        };
        let at_ms = self.clock.next_ms(&self.pace, asked_ms, terms.horizon_ms, now);
        let moment_ms = at_ms.max(own_at_ms);
        let horizon_ms = millis(terms.horizon_ms);
        let is_beyond = moment_ms > now.saturating_add(horizon_ms) || moment_ms > not_after_ms;
        // Half a horizon early, so that the next request is scheduled before the site is ready for it.
        let later_ms = is_beyond.then(|| moment_ms.saturating_sub(horizon_ms / 2).max(now));
        let claim = Claim { crawl, share: terms.share, own_ms: millis(terms.own_ms), own_at_ms };
        let next = NextTime { at_ms, spacing_ms: millis(self.pace.spacing_ms(asked_ms)), horizon_ms };
        if let Some(retry_at_ms) = self.crawl_shares.defer(claim, next, later_ms, now) {
            return Decision::Defer { reason: Deferral::Interval, retry_at_ms };
        }
        self.clock.planned_ms = Some(moment_ms);
        self.last_own_ms = Some(terms.own_ms);
        if terms.own_ms > 0 {
            own.planned_ms = Some(moment_ms);
            self.own_clocks.set(crawl, terms.own_ms, own);
        }
        // Of two crawls with intervals of their own, the fetcher compares those of the two that it requests one after the other: the
        // plan may have another order.
        let site_ms = if terms.own_ms > 0 { terms.site_ms.unwrap_or(FASTEST_MS) } else { terms.base_ms(0) };
        let interval_ms = self.pace.interval_ms(site_ms.max(self.remembered.crawl_delay_ms.unwrap_or(0)));
        Decision::Pass { not_before_ms: moment_ms, interval_ms, own_ms: terms.own_ms }
    }

    /// Returns the interval before learned slow-downs: the longer of base interval and crawl-delay. The base interval of a
    /// dispatch is the shorter one of its crawl and of the crawl scheduled last, so that a slow crawl does not slow down
    /// others.
    fn asked_ms(&self, terms: Terms) -> u64 {
        let base_ms = terms.base_ms(terms.own_ms);
        let base_ms = self.last_own_ms.map_or(base_ms, |last_ms| base_ms.min(terms.base_ms(last_ms)));
        base_ms.max(self.remembered.crawl_delay_ms.unwrap_or(0))
    }

    /// Applies an outcome. Returns `true` if state changed that must survive a restart.
    ///
    /// A block counts from the outcome's time, and a refusal counts as consecutive only if its request was sent after
    /// the previous refusal was known. So neither a replay nor the rest of a burst extends a block.
    pub(crate) fn learn(&mut self, outcome: &OutcomeFields<'_>, terms: Terms, now: Millis) -> bool {
        let before = self.remembered.clone();
        self.note_answer(outcome, terms, now);
        let terms = terms.shared();
        self.learn_crawl_delay(outcome, terms);
        let asked_ms = self.asked_ms(terms);
        let sent_ms = outcome.requested_at_ms.unwrap_or(outcome.ended_at_ms);
        let is_news = sent_ms > self.remembered.event_ms;
        if outcome.is_refusal() {
            let blocks_before = self.remembered.blocks;
            if is_news {
                self.pace.refused(asked_ms);
                self.remembered.blocks = blocks_before.saturating_add(1);
                self.remembered.event_ms = outcome.ended_at_ms.min(now);
                self.good_since_ms = None;
            }
            let staggered_ms = |span_ms| staggered_ms(span_ms, slot_of(&outcome.context.site));
            let implied = is_news.then(|| plus(outcome.ended_at_ms.min(now), staggered_ms(block_ms(blocks_before))));
            // The fetcher's clock may be behind: a new block counts from `now`, at most `CLOCK_MARGIN_MS` longer. One
            // millisecond more, since times are rounded to milliseconds.
            let explicit = outcome.blocked_until_ms.map(|until| {
                let span_ms = u64::try_from(until.saturating_sub(outcome.ended_at_ms)).unwrap_or(0);
                let until = plus(outcome.ended_at_ms, staggered_ms(span_ms));
                let by_own_clock = now.saturating_add(until.saturating_sub(outcome.ended_at_ms)).saturating_add(1);
                if outcome.ended_at_ms.saturating_sub(now) > CLOCK_MARGIN_MS {
                    // The fetcher's clock is ahead by more than `CLOCK_MARGIN_MS`: only the requested duration counts.
                    return by_own_clock.min(until);
                }
                if is_news { by_own_clock.clamp(until, until.saturating_add(CLOCK_MARGIN_MS)) } else { until }
            });
            let until = explicit.or(implied).unwrap_or(0).min(plus(now, MAX_BLOCK_MS));
            // A block that has already ended is ignored, also when its outcome is replayed.
            if until > now {
                self.remembered.blocked_until_ms = self.remembered.blocked_until_ms.max(until);
            }
        } else if let (Some(requested), Some(answered)) = (outcome.requested_at_ms, outcome.answered_at_ms) {
            self.pace.answered(u64::try_from(answered.saturating_sub(requested)).unwrap_or(0), asked_ms);
            if outcome.status.is_some_and(|status| status < 500) && self.remembered.blocks > 0 && is_news {
                let good_at_ms = outcome.ended_at_ms.min(now);
                let good_since_ms = *self.good_since_ms.get_or_insert(good_at_ms);
                if good_at_ms.saturating_sub(good_since_ms) >= FORGIVEN_AFTER_MS {
                    self.remembered.blocks = 0;
                    self.remembered.event_ms = good_at_ms;
                }
            }
        }
        self.remembered != before
    }

    fn note_answer(&mut self, outcome: &OutcomeFields<'_>, terms: Terms, now: Millis) {
        let Some(answered_ms) = outcome.answered_at_ms.map(|at| at.min(now)) else { return };
        self.clock.answered_ms = self.clock.answered_ms.max(Some(answered_ms));
        if terms.own_ms > 0 {
            let mut own = self.own_clocks.of(&outcome.context.crawl);
            own.answered_ms = own.answered_ms.max(Some(answered_ms));
            self.own_clocks.set(&outcome.context.crawl, terms.own_ms, own);
        }
    }

    fn learn_crawl_delay(&mut self, outcome: &OutcomeFields<'_>, terms: Terms) {
        let Some(delay_ms) = outcome.crawl_delay_ms.map(|ms| ms.min(MAX_CRAWL_DELAY_MS)) else { return };
        let (known, base_ms) = (self.remembered.crawl_delay_ms, terms.base_ms(terms.own_ms));
        let longer = delay_ms > known.unwrap_or(base_ms);
        let outdated = self.crawl_delay_learned_ms.saturating_add(CRAWL_DELAY_KEPT_MS) < outcome.ended_at_ms;
        if longer || (known.is_some_and(|known| known != delay_ms) && outdated) {
            self.remembered.crawl_delay_ms = Some(delay_ms).filter(|ms| *ms > base_ms);
        }
        if self.remembered.crawl_delay_ms == Some(delay_ms) {
            self.crawl_delay_learned_ms = outcome.ended_at_ms;
        }
    }

    /// Removes the clocks of crawls that delay no request any longer, and the crawls that compete no longer.
    pub(crate) fn prune_crawls(&mut self, terms: Terms, now: Millis) {
        self.own_clocks.prune(&self.pace, terms.horizon_ms, now);
        self.crawl_shares.prune(millis(self.pace.spacing_ms(self.asked_ms(terms))), now);
    }

    /// Returns `true` if evicting the site would change no decision that matters.
    pub(crate) fn is_idle(&self, terms: Terms, now: Millis) -> bool {
        let in_row = self.remembered.blocks > 0 && self.remembered.event_ms.saturating_add(STREAK_KEPT_MS) > now;
        if in_row || self.blocked_until_ms(now).is_some() || !self.own_clocks.is_empty() {
            return false;
        }
        let lessons = self.remembered.crawl_delay_ms.is_some() || self.pace.is_slowed();
        let kept_ms = if lessons { LEARNED_KEPT_MS } else { IDLE_KEPT_MS };
        let asked_ms = self.asked_ms(terms);
        let last_ms = self.clock.planned_ms.max(self.clock.answered_ms).unwrap_or(0);
        plus(last_ms, self.pace.spacing_ms(asked_ms)).saturating_add(kept_ms) < now
    }
}

fn millis(span_ms: u64) -> Millis {
    Millis::try_from(span_ms).unwrap_or(Millis::MAX)
}

fn plus(at_ms: Millis, span_ms: u64) -> Millis {
    at_ms.saturating_add(millis(span_ms))
}

#[cfg(test)]
pub(crate) mod tests;
