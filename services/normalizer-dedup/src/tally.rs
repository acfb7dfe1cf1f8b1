//! Counters of link outcomes, by reason.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use orbweaver_scope::{Definitions, RuleRejection, Version};
use orbweaver_seen::{Lookups, RecentCounts, SeenPartition};
use orbweaver_url::UrlError;
use serde::Serialize;

/// Outcome of a link. A link is counted each time it is seen, so these are numbers of links, not of URLs: a link in the
/// footer of a thousand pages counts a thousand times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkOutcome {
    /// Admitted for the first time.
    New,
    /// Admitted again at a lesser depth.
    Shallower,
    /// Already known, or pending admission.
    Duplicate,
    /// Outside of the crawl's scope.
    OutOfScope,
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
    pub const ALL: [Self; 12] = [
        Self::New,
        Self::Shallower,
        Self::Duplicate,
        Self::OutOfScope,
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
            Self::Duplicate => "duplicate",
            Self::OutOfScope => "out_of_scope",
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

    /// Returns `true` if the link was dropped for a reason other than repetition.
    #[must_use]
    pub fn is_refused(self) -> bool {
        !matches!(self, Self::New | Self::Shallower | Self::Duplicate)
    }
}

impl From<RuleRejection> for LinkOutcome {
    fn from(outside: RuleRejection) -> Self {
        match outside {
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
    pub(crate) tiers: Tiers,
    pub(crate) crawls: CrawlRates,
    pub(crate) versions: Versions,
    pub(crate) refused_definitions: AtomicU64,
    pub(crate) plans: AtomicU64,
    pub(crate) held: AtomicU64,
}

/// Size and hit counts of the tiers, as of the last tick.
#[derive(Debug, Default)]
pub(crate) struct Tiers {
    pub(crate) recent_hits: AtomicU64,
    pub(crate) recent_misses: AtomicU64,
    pub(crate) recent_filled: AtomicU64,
    pub(crate) recent_places: AtomicU64,
    pub(crate) index_hits: AtomicU64,
    pub(crate) index_misses: AtomicU64,
    pub(crate) disk_lookups: AtomicU64,
    pub(crate) filter_false_positives: AtomicU64,
    pub(crate) unverified: AtomicU64,
    pub(crate) known: AtomicU64,
    pub(crate) unfiltered: AtomicU64,
    pub(crate) filter_bytes: AtomicU64,
    pub(crate) runs: AtomicU64,
}

impl Tiers {
    /// Publishes these values.
    pub(crate) fn show(&self, recent: RecentCounts, lookups: Lookups, sizes: Sizes) {
        for (shown, value) in [
            (&self.recent_hits, recent.hits),
            (&self.recent_misses, recent.misses),
            (&self.recent_filled, recent.filled),
            (&self.recent_places, recent.places),
            (&self.index_hits, lookups.hits),
            (&self.index_misses, lookups.misses),
            (&self.disk_lookups, lookups.disk),
            (&self.filter_false_positives, lookups.false_positives),
            (&self.unverified, lookups.unverified),
            (&self.known, sizes.known),
            (&self.unfiltered, sizes.unfiltered),
            (&self.filter_bytes, sizes.filter_bytes),
            (&self.runs, sizes.runs),
        ] {
            shown.store(value, Relaxed);
        }
    }
}

/// Total size of the indexes of all open partitions.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sizes {
    pub(crate) known: u64,
    pub(crate) unfiltered: u64,
    pub(crate) filter_bytes: u64,
    pub(crate) runs: u64,
}

impl Sizes {
    /// Returns the total of these partitions.
    pub(crate) fn of<'a>(partitions: impl Iterator<Item = &'a SeenPartition>) -> Self {
        partitions.fold(Self::default(), |sum, seen| Self {
            known: sum.known + seen.len() as u64,
            unfiltered: sum.unfiltered + seen.in_memory() as u64,
            filter_bytes: sum.filter_bytes + seen.filter_bytes(),
            runs: sum.runs + seen.run_count() as u64,
        })
    }
}

/// Number of crawls shown by name; all others are combined as [`OTHER_CRAWLS`], since the values of a label must be
/// bounded.
const NAMED_CRAWLS: usize = 32;
/// Name for all other crawls; no crawl can have it.
const OTHER_CRAWLS: &str = "(others)";

/// Admitted and repeated links per crawl.
#[derive(Debug, Default)]
pub(crate) struct CrawlRates(Mutex<BTreeMap<String, (u64, u64)>>);

impl CrawlRates {
    /// Adds links of a crawl.
    pub(crate) fn add(&self, crawl: &str, passed: u64, repeated: u64) {
        let mut rates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = if rates.contains_key(crawl) || rates.len() < NAMED_CRAWLS { crawl } else { OTHER_CRAWLS };
        let sums = match rates.get_mut(name) {
            Some(sums) => sums,
            None => rates.entry(name.to_owned()).or_default(),
        };
        *sums = (sums.0 + passed, sums.1 + repeated);
    }

    /// Returns all crawls, as (crawl, admitted, repeated).
    pub(crate) fn all(&self) -> Vec<(String, u64, u64)> {
        let rates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rates.iter().map(|(crawl, (passed, repeated))| (crawl.clone(), *passed, *repeated)).collect()
    }
}

/// Version of the applicable definition per crawl; of the first [`NAMED_CRAWLS`] by name, so that all instances show
/// the same ones.
#[derive(Debug, Default)]
pub(crate) struct Versions(Mutex<Vec<(String, Version)>>);

impl Versions {
    /// Publishes the applicable versions.
    pub(crate) fn show(&self, definitions: &Definitions) {
        let all = definitions.all().take(NAMED_CRAWLS).map(|(crawl, applied)| (crawl.to_owned(), applied.version));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = all.collect();
    }

    pub(crate) fn all(&self) -> Vec<(String, Version)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Snapshot of a tally. Fields named after a [`LinkOutcome`] count links, each time they are seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TallySnapshot {
    pub new: u64,
    pub shallower: u64,
    pub duplicate: u64,
    pub out_of_scope: u64,
    pub excluded: u64,
    pub not_included: u64,
    pub too_deep: u64,
    pub malformed: u64,
    pub scheme: u64,
    pub too_long: u64,
    pub too_many_redirects: u64,
    pub misplaced: u64,
    /// Seeds forwarded to the partition of their site.
    pub seeds: u64,
    /// Records sent to the dead letters.
    pub rejected: u64,
}

impl TallySnapshot {
    /// Returns the number of links seen.
    #[must_use]
    pub fn links(&self) -> u64 {
        self.new + self.shallower + self.duplicate + self.refused()
    }

    /// Returns the number of links dropped for a reason other than repetition.
    #[must_use]
    pub fn refused(&self) -> u64 {
        let scope = self.out_of_scope + self.excluded + self.not_included + self.too_deep;
        scope + self.malformed + self.scheme + self.too_long + self.too_many_redirects + self.misplaced
    }
}

impl DedupStats {
    /// Returns the number of links with this outcome.
    #[must_use]
    pub fn get(&self, end: LinkOutcome) -> u64 {
        self.links[end as usize].load(Relaxed)
    }

    /// Returns the number of lookups of the exact index on disk.
    #[must_use]
    pub fn disk_lookups(&self) -> u64 {
        self.tiers.disk_lookups.load(Relaxed)
    }

    /// Returns the memory used by the filters, in bytes, as of the last tick.
    #[must_use]
    pub fn filter_bytes(&self) -> u64 {
        self.tiers.filter_bytes.load(Relaxed)
    }

    /// Takes a snapshot. Counters are read one after another and may change meanwhile.
    #[must_use]
    pub fn snapshot(&self) -> TallySnapshot {
        TallySnapshot {
            new: self.get(LinkOutcome::New),
            shallower: self.get(LinkOutcome::Shallower),
            duplicate: self.get(LinkOutcome::Duplicate),
            out_of_scope: self.get(LinkOutcome::OutOfScope),
            excluded: self.get(LinkOutcome::Excluded),
            not_included: self.get(LinkOutcome::NotIncluded),
            too_deep: self.get(LinkOutcome::TooDeep),
            malformed: self.get(LinkOutcome::Malformed),
            scheme: self.get(LinkOutcome::Scheme),
            too_long: self.get(LinkOutcome::TooLong),
            too_many_redirects: self.get(LinkOutcome::TooManyRedirects),
            misplaced: self.get(LinkOutcome::Misplaced),
            seeds: self.seeds.load(Relaxed),
            rejected: self.rejected.load(Relaxed),
        }
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
    use super::*;

    #[test]
    fn crawls_beyond_the_named_ones_are_counted_together() {
        let rates = CrawlRates::default();
        (0..NAMED_CRAWLS + 10).for_each(|number| rates.add(&format!("crawl-{number}"), 1, 2));
        rates.add("crawl-3", 5, 5);
        let all = rates.all();
        assert_eq!(all.len(), NAMED_CRAWLS + 1);
        assert!(all.contains(&(OTHER_CRAWLS.to_owned(), 10, 20)) && all.contains(&("crawl-3".to_owned(), 6, 7)));
    }

    #[test]
    fn every_end_has_its_own_count_and_its_name_in_the_snapshot() {
        let tally = DedupStats::default();
        for (number, end) in LinkOutcome::ALL.into_iter().enumerate() {
            assert_eq!(end as usize, number);
            let mut counts = Counts::default();
            counts.add(end, number + 1);
            tally.take(&mut counts);
            tally.take(&mut counts);
        }
        let json = serde_json::to_value(tally.snapshot()).unwrap();
        for end in LinkOutcome::ALL {
            assert_eq!(json[end.name()], end as u64 + 1, "{end:?}");
        }
        let refused: u64 = LinkOutcome::ALL.into_iter().filter(|end| end.is_refused()).map(|end| tally.get(end)).sum();
        assert_eq!(tally.snapshot().refused(), refused);
        assert_eq!(tally.snapshot().links(), (1..=12).sum::<u64>());
    }
}
