//! One site: when it may be asked, and what an outcome teaches.

use orbweaver_messages::{CLOCK_MARGIN_MS, Millis};
use orbweaver_politeness::{
    Pace,
    backoff::{MAX_RETRY_AFTER_MS, block_ms},
    next_moment,
    robots::MAX_CRAWL_DELAY_MS,
};

use crate::wire::Heard;

/// A crawl-delay is not replaced by a shorter one (of another host of the site, say) for so long after it was last heard, in
/// milliseconds: as long as a robots.txt is believed.
const CRAWL_DELAY_KEPT_MS: Millis = 24 * 3_600_000;
/// Refusals so long ago are not in a row with the next one, in milliseconds.
const STREAK_KEPT_MS: Millis = 24 * 3_600_000;
/// A site that taught something is kept for so long after its last request, in milliseconds.
const LESSONS_KEPT_MS: Millis = 3_600_000;
/// Any site is kept for so long after its next moment has come, in milliseconds; its usual answer time is all that is lost.
const IDLE_KEPT_MS: Millis = 10_000;

/// What must survive a restart: the content of a record in `crawl.sites`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Until when the site asked to be left alone; 0: not.
    pub blocked_until_ms: Millis,
    /// Refusals in a row.
    pub blocks: u32,
    /// The crawl-delay, where it is longer than the interval that is asked for.
    pub crawl_delay_ms: Option<u64>,
    /// The time of the last refusal, or of the success that ended a row of them.
    pub event_ms: Millis,
}

/// How a site is asked by settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// The interval that is asked for, in milliseconds; 0: unlimited.
    pub base_ms: u64,
    /// How far ahead moments are planned, in milliseconds.
    pub horizon_ms: u64,
}

/// What is known of a site.
#[derive(Debug, Default)]
pub struct Site {
    /// The latest moment that was given.
    planned_ms: Option<Millis>,
    /// The latest answer.
    answered_ms: Option<Millis>,
    pace: Pace,
    remembered: Remembered,
    crawl_delay_heard_ms: Millis,
}

/// Why a dispatch goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deferral {
    /// The site's next moment is too far ahead.
    Interval,
    /// The site asked to be left alone.
    Blocked,
    /// The dispatch took too long to get here.
    Late,
}

impl Deferral {
    /// The reason of the outcome.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interval => "interval",
            Self::Blocked => "blocked",
            Self::Late => "late",
        }
    }
}

/// What becomes of a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It passes on.
    Pass {
        /// Its moment.
        not_before_ms: Millis,
        /// The site's interval, in milliseconds.
        interval_ms: u64,
    },
    /// It goes back.
    Defer {
        /// Why.
        reason: Deferral,
        /// When it may be dispatched again.
        retry_at_ms: Millis,
    },
    /// Its lease is over.
    Drop,
}

impl Site {
    /// A site that counts as asked at `last_ms`; `None`: never.
    #[must_use]
    pub fn asked_at(last_ms: Option<Millis>) -> Self {
        Self { planned_ms: last_ms, ..Self::default() }
    }

    /// Takes what was remembered of the site before a restart.
    pub fn recall(&mut self, remembered: Remembered, terms: Terms, now: Millis) {
        self.remembered = remembered;
        if self.remembered.event_ms.saturating_add(STREAK_KEPT_MS) > now {
            self.pace = Pace::recalled(self.remembered.blocks, self.asked_ms(terms));
        } else {
            self.remembered.blocks = 0;
        }
        self.crawl_delay_heard_ms = now;
    }

    /// What must survive a restart.
    #[must_use]
    pub fn remembered(&self) -> &Remembered {
        &self.remembered
    }

    /// Until when the site is blocked, if it is.
    #[must_use]
    pub fn blocked_until_ms(&self, now: Millis) -> Option<Millis> {
        Some(self.remembered.blocked_until_ms).filter(|until| *until > now)
    }

    /// Gives a dispatch that may be asked until `not_after_ms` its moment, or a time to come back.
    pub fn decide(&mut self, not_after_ms: Millis, terms: Terms, now: Millis) -> Decision {
        if let Some(retry_at_ms) = self.blocked_until_ms(now) {
            return Decision::Defer { reason: Deferral::Blocked, retry_at_ms };
        }
        let moment_ms = self.next_ms(terms, now);
        let horizon_ms = Millis::try_from(terms.horizon_ms).unwrap_or(Millis::MAX);
        if moment_ms > now.saturating_add(horizon_ms) || moment_ms > not_after_ms {
            // Back half a horizon early, so that the site's next request is planned before its moment comes.
            let retry_at_ms = moment_ms.saturating_sub(horizon_ms / 2).max(now);
            return Decision::Defer { reason: Deferral::Interval, retry_at_ms };
        }
        self.planned_ms = Some(moment_ms);
        Decision::Pass { not_before_ms: moment_ms, interval_ms: self.pace.interval_ms(self.asked_ms(terms)) }
    }

    /// When the site may be asked next: the interval after its last answer, and the interval and the usual answer time
    /// after the last moment that was given.
    fn next_ms(&self, terms: Terms, now: Millis) -> Millis {
        let asked_ms = self.asked_ms(terms);
        let interval_ms = self.pace.interval_ms(asked_ms);
        if interval_ms == 0 {
            return now;
        }
        let spacing_ms = self.pace.spacing_ms(asked_ms);
        let after_planned = self.planned_ms.map(|last| next_moment(last, spacing_ms, terms.horizon_ms, now));
        let after_answer = self.answered_ms.map(|last| next_moment(last, interval_ms, 0, now));
        after_planned.max(after_answer).unwrap_or(now)
    }

    /// The interval without what answers taught.
    fn asked_ms(&self, terms: Terms) -> u64 {
        terms.base_ms.max(self.remembered.crawl_delay_ms.unwrap_or(0))
    }

    /// Learns from an outcome. Whether something changed that must survive a restart.
    ///
    /// Blocks count from the outcome's time, and only refusals of requests that were sent after the last one was known
    /// are in a row: so neither a replay nor the rest of a burst makes a block longer.
    pub fn learn(&mut self, heard: &Heard<'_>, terms: Terms, now: Millis) -> bool {
        let before = self.remembered.clone();
        self.answered_ms = self.answered_ms.max(heard.answered_at_ms.map(|at| at.min(now)));
        self.hear_crawl_delay(heard, terms);
        let asked_ms = self.asked_ms(terms);
        let sent_ms = heard.requested_at_ms.unwrap_or(heard.ended_at_ms);
        let is_news = sent_ms > self.remembered.event_ms;
        if heard.is_refusal() {
            let blocks_before = self.remembered.blocks;
            if is_news {
                self.pace.refused(asked_ms);
                self.remembered.blocks = blocks_before.saturating_add(1);
                self.remembered.event_ms = heard.ended_at_ms.min(now);
            }
            let unsaid = is_news.then(|| plus(heard.ended_at_ms.min(now), block_ms(blocks_before)));
            // The clock of who was told may be behind ours: news count from now, as far as clocks may be apart. A millisecond
            // more, since moments are whole ones.
            let told = heard.blocked_until_ms.map(|until| {
                let ours = now.saturating_add(until.saturating_sub(heard.ended_at_ms)).saturating_add(1);
                if heard.ended_at_ms.saturating_sub(now) > CLOCK_MARGIN_MS {
                    // A clock that is further ahead than clocks may be apart: only the time that was asked for counts.
                    return ours.min(until);
                }
                if is_news { ours.clamp(until, until.saturating_add(CLOCK_MARGIN_MS)) } else { until }
            });
            let until = told.or(unsaid).unwrap_or(0).min(plus(now, MAX_RETRY_AFTER_MS));
            // A block that is over already is none, also when its outcome is read again.
            if until > now {
                self.remembered.blocked_until_ms = self.remembered.blocked_until_ms.max(until);
            }
        } else if let (Some(requested), Some(answered)) = (heard.requested_at_ms, heard.answered_at_ms) {
            self.pace.answered(u64::try_from(answered - requested).unwrap_or(0), asked_ms);
            if heard.status.is_some_and(|status| status < 500) && self.remembered.blocks > 0 && is_news {
                self.remembered.blocks = 0;
                self.remembered.event_ms = heard.ended_at_ms.min(now);
            }
        }
        self.remembered != before
    }

    fn hear_crawl_delay(&mut self, heard: &Heard<'_>, terms: Terms) {
        let Some(delay_ms) = heard.crawl_delay_ms.map(|ms| ms.min(MAX_CRAWL_DELAY_MS)) else { return };
        let known = self.remembered.crawl_delay_ms;
        let longer = delay_ms > known.unwrap_or(terms.base_ms);
        let outdated = self.crawl_delay_heard_ms.saturating_add(CRAWL_DELAY_KEPT_MS) < heard.ended_at_ms;
        if longer || (known.is_some() && outdated) {
            self.remembered.crawl_delay_ms = Some(delay_ms).filter(|ms| *ms > terms.base_ms);
        }
        if self.remembered.crawl_delay_ms == Some(delay_ms) {
            self.crawl_delay_heard_ms = heard.ended_at_ms;
        }
    }

    /// Whether forgetting the site would change no decision that matters.
    #[must_use]
    pub fn is_idle(&self, terms: Terms, now: Millis) -> bool {
        let in_row = self.remembered.blocks > 0 && self.remembered.event_ms.saturating_add(STREAK_KEPT_MS) > now;
        if in_row || self.blocked_until_ms(now).is_some() {
            return false;
        }
        let lessons = self.remembered.crawl_delay_ms.is_some() || self.pace.is_slowed();
        let kept_ms = if lessons { LESSONS_KEPT_MS } else { IDLE_KEPT_MS };
        let asked_ms = self.asked_ms(terms);
        let last_ms = self.planned_ms.max(self.answered_ms).unwrap_or(0);
        plus(last_ms, self.pace.spacing_ms(asked_ms)).saturating_add(kept_ms) < now
    }
}

fn plus(at_ms: Millis, span_ms: u64) -> Millis {
    at_ms.saturating_add(Millis::try_from(span_ms).unwrap_or(Millis::MAX))
}

#[cfg(test)]
mod tests;
