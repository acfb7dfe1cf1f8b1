//! Counters of link outcomes, by reason.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use orbweaver_scope::{CrawlLabels, Definitions, LABELLED_CRAWLS, RuleRejection, Version};
use orbweaver_seen::{IndexStats, RecentCounts};
use orbweaver_url::{CrawlName, UrlError};

/// Outcome of a link. A link is counted each time it is seen, so these are numbers of links, not of URLs: a link in the
/// footer of a thousand pages counts a thousand times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkOutcome {
    /// Admitted for the first time.
    New,
    /// Admitted again at a lesser depth.
    Shallower,
    /// Admitted again because a user requested it.
    Recrawled,
    /// Passed on again because a sitemap or feed lists it as modified.
    Updated,
    /// Already known, or pending admission.
    Duplicate,
    /// Outside of the crawl's scope.
    OutOfScope,
    /// Of a crawl that has been stopped.
    Stopped,
    /// Matches an exclude pattern.
    Excluded,
    /// Matches no include pattern.
    NotIncluded,
    /// Too many links away from a seed.
    TooDeep,
    /// Not a URL.
    Malformed,
    /// Neither http nor https.
    Scheme,
    /// Exceeds the maximum length of a URL.
    TooLong,
    /// Reached by more than 20 redirects.
    TooManyRedirects,
    /// Not of the site named in its record.
    Misplaced,
}

impl LinkOutcome {
    /// All outcomes, in numerical order.
    pub const ALL: [Self; 15] = [
        Self::New,
        Self::Shallower,
        Self::Recrawled,
        Self::Updated,
        Self::Duplicate,
        Self::OutOfScope,
        Self::Stopped,
        Self::Excluded,
        Self::NotIncluded,
        Self::TooDeep,
        Self::Malformed,
        Self::Scheme,
        Self::TooLong,
        Self::TooManyRedirects,
        Self::Misplaced,
    ];

    /// Returns the name used in metrics and summaries.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Shallower => "shallower",
            Self::Recrawled => "recrawled",
            Self::Updated => "updated",
            Self::Duplicate => "duplicate",
            Self::OutOfScope => "out_of_scope",
            Self::Stopped => "stopped",
            Self::Excluded => "excluded",
            Self::NotIncluded => "not_included",
            Self::TooDeep => "too_deep",
            Self::Malformed => "malformed",
            Self::Scheme => "scheme",
            Self::TooLong => "too_long",
            Self::TooManyRedirects => "too_many_redirects",
            Self::Misplaced => "misplaced",
        }
    }
}

impl From<RuleRejection> for LinkOutcome {
    fn from(outside: RuleRejection) -> Self {
        match outside {
            RuleRejection::Stopped => Self::Stopped,
            RuleRejection::Excluded => Self::Excluded,
            RuleRejection::NotIncluded => Self::NotIncluded,
            RuleRejection::TooDeep => Self::TooDeep,
        }
    }
}

impl From<&UrlError> for LinkOutcome {
    fn from(error: &UrlError) -> Self {
        match error {
            UrlError::Scheme(_) => Self::Scheme,
            UrlError::TooLong(_) => Self::TooLong,
            _ => Self::Malformed,
        }
    }
}

/// Counters since the service was started. Cheap to share and to read at any time.
#[derive(Debug, Default)]
pub struct DedupStats {
    links: [AtomicU64; LinkOutcome::ALL.len()],
    pub(crate) seeds: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) damaged_seen: AtomicU64,
    tiers: Mutex<(RecentCounts, IndexStats)>,
    /// Admitted and repeated links, by crawl.
    crawls: Mutex<LinksByCrawl>,
    /// Version of the applicable definition of the first [`LABELLED_CRAWLS`] crawls by name, so that all instances show
    /// the same ones.
    versions: Mutex<Vec<(String, Version)>>,
    pub(crate) refused_definitions: AtomicU64,
    pub(crate) plans: AtomicU64,
    pub(crate) held: AtomicU64,
}

/// Admitted and repeated links by the label of their crawl.
#[derive(Debug, Default)]
struct LinksByCrawl {
    labels: CrawlLabels,
    links: BTreeMap<String, (u64, u64)>,
}

impl DedupStats {
    /// Returns the number of links with this outcome.
    #[must_use]
    pub fn get(&self, end: LinkOutcome) -> u64 {
        self.links[end as usize].load(Relaxed)
    }

    /// Returns the number of records sent to the dead letters.
    #[must_use]
    pub fn rejected(&self) -> u64 {
        self.rejected.load(Relaxed)
    }

    /// Returns the counts of the recent cache and of the indexes of all open partitions, as of the last tick.
    #[must_use]
    pub fn tiers(&self) -> (RecentCounts, IndexStats) {
        *lock(&self.tiers)
    }

    /// Publishes these counts.
    pub(crate) fn show_tiers(&self, recent: RecentCounts, index: IndexStats) {
        *lock(&self.tiers) = (recent, index);
    }

    /// Adds admitted and repeated links of a crawl.
    pub(crate) fn add_links(&self, crawl: &CrawlName, passed: u64, repeated: u64) {
        let LinksByCrawl { labels, links: rates } = &mut *lock(&self.crawls);
        let name = labels.of(crawl);
        let sums = match rates.get_mut(name) {
            Some(sums) => sums,
            None => rates.entry(name.to_owned()).or_default(),
        };
        *sums = (sums.0 + passed, sums.1 + repeated);
    }

    /// Returns the admitted and repeated links of each crawl.
    pub(crate) fn crawls(&self) -> BTreeMap<String, (u64, u64)> {
        lock(&self.crawls).links.clone()
    }

    /// Publishes the applicable versions.
    pub(crate) fn show_versions(&self, definitions: &Definitions) {
        let all = definitions.all().take(LABELLED_CRAWLS).map(|(crawl, applied)| (crawl.to_string(), applied.version));
        *lock(&self.versions) = all.collect();
    }

    pub(crate) fn versions(&self) -> Vec<(String, Version)> {
        lock(&self.versions).clone()
    }

    /// Adds the counts and resets them.
    pub(crate) fn take(&self, counts: &mut Counts) {
        for (total, count) in self.links.iter().zip(&mut counts.0) {
            if *count > 0 {
                total.fetch_add(std::mem::take(count), Relaxed);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Link counts of one call, without atomics.
#[derive(Debug, Default)]
pub(crate) struct Counts([u64; LinkOutcome::ALL.len()]);

impl Counts {
    pub(crate) fn add(&mut self, end: LinkOutcome, links: usize) {
        self.0[end as usize] += links as u64;
    }

    /// Returns the numbers of admitted and repeated links.
    pub(crate) fn passed_and_repeated(&self) -> (u64, u64) {
        let of = |end: LinkOutcome| self.0[end as usize];
        (of(LinkOutcome::New) + of(LinkOutcome::Shallower), of(LinkOutcome::Duplicate))
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_scope::OTHER_CRAWLS;

    use super::*;

    #[test]
    fn crawls_beyond_the_named_ones_are_counted_together() {
        let tally = DedupStats::default();
        (0..LABELLED_CRAWLS + 10).for_each(|number| tally.add_links(&format!("crawl-{number}").parse().unwrap(), 1, 2));
        tally.add_links(&"crawl-3".parse().unwrap(), 5, 5);
        let all = tally.crawls();
        assert_eq!((all.len(), all[OTHER_CRAWLS], all["crawl-3"]), (LABELLED_CRAWLS + 1, (10, 20), (6, 7)));
    }

    #[test]
    fn every_end_has_its_own_count() {
        let tally = DedupStats::default();
        for (number, end) in LinkOutcome::ALL.into_iter().enumerate() {
            assert_eq!(end as usize, number);
            let mut counts = Counts::default();
            counts.add(end, number + 1);
            (0..2).for_each(|_| tally.take(&mut counts));
            assert_eq!(tally.get(end), number as u64 + 1);
        }
    }
}
