//! Weight of a site among the sites of its crawl that may be requested. Pure.
//!
//! The weight of the next URL, times that of the site, plus a part of the mean score of the site's answers. It decides
//! how often the site's turn comes while there are more sites than free dispatches; see [`orbweaver_stage::FairQueue`].

use foldhash::HashMap;
use orbweaver_messages::{CrawlDefinition, CrawlOrder, Millis, Outcome, OutcomeKind};
use orbweaver_scope::weight;

use crate::index::CrawlKey;

/// Scores of answers: a page; a page that is missing; a failure of the server, or none of the answers at all.
const PAGE: f32 = 1.0;
const MISSING: f32 = -0.8;
const FAILED: f32 = -1.2;

/// Unit of weights: a weight of 1.
const ONE: f64 = 100.0;
/// Lowest and highest weight: 0.01, so that every site is served, and 100.
const LOWEST: f64 = 1.0;
const HIGHEST: f64 = 10_000.0;

/// Settings of a crawl that apply to its queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CrawlTerms {
    /// Interval between requests of the crawl to a site, in milliseconds, if it has one of its own; 0: unlimited.
    pub(crate) interval_ms: Option<u64>,
    pub(crate) order: CrawlOrder,
    pub(crate) share: u32,
    pub(crate) max_pages_per_site: Option<u64>,
}

impl Default for CrawlTerms {
    fn default() -> Self {
        let (order, share) = (CrawlOrder::default(), CrawlDefinition::EQUAL_SHARE);
        Self { interval_ms: None, order, share, max_pages_per_site: None }
    }
}

impl CrawlTerms {
    pub(crate) fn of(definition: &CrawlDefinition) -> Self {
        let CrawlDefinition { profile, order, share, max_pages_per_site, .. } = definition;
        let (interval_ms, max_pages_per_site) = (profile.interval_ms, *max_pages_per_site);
        Self { interval_ms, order: *order, share: *share, max_pages_per_site }
    }
}

/// Terms of all crawls.
#[derive(Debug, Default)]
pub(crate) struct Terms {
    /// Interval of crawls without one of their own, in milliseconds; 0: unlimited.
    pub(crate) default_interval_ms: u64,
    /// Crawls that are defined.
    pub(crate) crawls: HashMap<CrawlKey, CrawlTerms>,
}

impl Terms {
    pub(crate) fn of(&self, crawl: CrawlKey) -> CrawlTerms {
        self.crawls.get(&crawl).copied().unwrap_or_default()
    }

    pub(crate) fn interval_ms(&self, crawl: CrawlKey) -> u64 {
        self.of(crawl).interval_ms.unwrap_or(self.default_interval_ms)
    }
}

/// Terms of the weight of a site.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SiteWeight {
    /// Factor of the site's settings, in percent, if it has one.
    pub(crate) percent: Option<u32>,
    /// Smoothed score of its answers.
    score: f32,
}

impl SiteWeight {
    /// Learns the score of an answer.
    pub(crate) fn learn(&mut self, score: f32, smoothing: f32) {
        self.score += smoothing * (score - self.score);
    }

    /// Returns the weight, in units of 0.01. `rank` is that of the next URL by weight, if it is known.
    pub(crate) fn of(&self, order: &CrawlOrder, rank: Option<u32>, now: Millis) -> u32 {
        let url = rank.map_or(1.0, |rank| weight(order, rank, now));
        let site = f64::from(self.percent.unwrap_or(100)) / 100.0;
        let answers = f64::from(order.answers_percent) / 100.0 * f64::from(self.score);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the range of weights")]
        let weight = ((url * site + answers) * ONE).clamp(LOWEST, HIGHEST) as u32;
        weight
    }
}

/// Returns the score of an outcome; `None` if it says nothing about the site.
pub(crate) fn score(outcome: &Outcome) -> Option<f32> {
    outcome.requested_at_ms?;
    match (outcome.kind, outcome.status) {
        (OutcomeKind::Fetched | OutcomeKind::Unchanged, _) => Some(PAGE),
        (OutcomeKind::Redirected | OutcomeKind::Refused | OutcomeKind::Deferred, _) => None,
        (OutcomeKind::Gone, Some(400..500)) => Some(MISSING),
        (OutcomeKind::Gone | OutcomeKind::Retry | OutcomeKind::Blocked, _) => Some(FAILED),
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::Priority;
    use orbweaver_scope::rank;

    use super::*;

    #[test]
    fn a_site_weighs_more_the_heavier_its_next_url_the_site_and_the_better_its_answers() {
        let best = CrawlOrder::BEST_FIRST;
        let rank_of = |priority: i64| rank(&best, Priority::try_from(priority).unwrap(), 0, 0);
        let of = |weight: &SiteWeight, priority| weight.of(&best, rank_of(priority), 0);
        let mut site = SiteWeight::default();
        assert_eq!((of(&site, 0), of(&site, 1), of(&site, 10), site.of(&best, None, 0)), (100, 200, 10_000, 100));
        for _ in 0..100 {
            site.learn(PAGE, 0.2);
        }
        assert_eq!(of(&site, 0), 129, "a third more, which is never quite reached");
        for _ in 0..100 {
            site.learn(FAILED, 0.2);
        }
        assert_eq!((of(&site, 0), of(&site, -10)), (64, 1), "and never below 0.01");
        let heavy = SiteWeight { percent: Some(250), ..SiteWeight::default() };
        assert_eq!((of(&heavy, 0), of(&heavy, 2)), (250, 1000));
        assert_eq!(
            site.of(&CrawlOrder::BREADTH_FIRST, None, 0),
            100,
            "answers count only if the order has a factor for them"
        );
    }
}
