//! Trust in the modification times of sitemaps and feeds, learned by site. Pure.
//!
//! A sleeping URL is visited at once if a sitemap or feed lists it as modified since its last visit, unless the site has
//! shown that this is not worth a visit: many sites list the time at which the file was generated. Up to [`TRIALS`] such
//! visits are made at a site before their results are known. Later all are made if at least half of the recent ones found
//! another text, otherwise one of [`ONE_OF`], so that a site can regain the trust.
//!
//! The memory is bounded: of more than [`SITES`] sites, those that list nothing new are forgotten first. It is not durable.

use foldhash::HashMap;

use crate::site_slots::SiteKey;

/// Number of visits that are made before a site is judged.
const TRIALS: u32 = 10;
/// Of the updates of a site that is not trusted, one of this number leads to a visit.
const ONE_OF: u32 = 100;
/// Number of results at which their weight is halved.
const RECENT: u32 = 40;
/// Number of sites per generation; there are two.
const SITES: usize = 50_000;

/// Results of the visits to URLs of a site that were listed as modified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Results {
    confirmed: u32,
    refuted: u32,
    /// Visits without a result yet.
    open: u32,
    /// Updates without a visit since the last one that led to one.
    ignored: u32,
}

impl Results {
    fn trusts(&mut self) -> bool {
        let known = self.confirmed + self.refuted;
        let is_judged = known >= TRIALS;
        let is_visited = if is_judged { self.confirmed >= self.refuted } else { known + self.open < TRIALS };
        if is_visited || self.ignored + 1 >= ONE_OF {
            self.ignored = 0;
            self.open = self.open.saturating_add(1);
            return true;
        }
        self.ignored += 1;
        false
    }

    fn learn(&mut self, is_confirmed: Option<bool>) {
        self.open = self.open.saturating_sub(1);
        let Some(is_confirmed) = is_confirmed else { return };
        if self.confirmed + self.refuted >= RECENT {
            (self.confirmed, self.refuted) = (self.confirmed / 2, self.refuted / 2);
        }
        *(if is_confirmed { &mut self.confirmed } else { &mut self.refuted }) += 1;
    }
}

/// Numbers of updates since they were last taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UpdateCounts {
    /// Updates that led to a visit.
    pub visited: u64,
    /// Updates of sites that are not trusted.
    pub distrusted: u64,
    /// Visits that found another text.
    pub confirmed: u64,
    /// Visits that found the known text.
    pub refuted: u64,
}

/// Results of the updates by site.
#[derive(Debug, Default)]
pub(crate) struct ListedUpdates {
    young: HashMap<SiteKey, Results>,
    old: HashMap<SiteKey, Results>,
    counts: UpdateCounts,
}

impl ListedUpdates {
    /// Returns `true` if an update of this site leads to a visit.
    pub(crate) fn trusts(&mut self, site: SiteKey) -> bool {
        let is_trusted = self.of(site).trusts();
        *(if is_trusted { &mut self.counts.visited } else { &mut self.counts.distrusted }) += 1;
        is_trusted
    }

    /// Learns whether the visit that followed an update found another text; `None`: nothing is known.
    pub(crate) fn learn(&mut self, site: SiteKey, is_confirmed: Option<bool>) {
        self.of(site).learn(is_confirmed);
        match is_confirmed {
            Some(true) => self.counts.confirmed += 1,
            Some(false) => self.counts.refuted += 1,
            None => {}
        }
    }

    /// Returns the numbers since the last call.
    pub(crate) fn take_counts(&mut self) -> UpdateCounts {
        std::mem::take(&mut self.counts)
    }

    fn of(&mut self, site: SiteKey) -> &mut Results {
        let is_known = self.young.contains_key(&site);
        if !is_known && self.young.len() >= SITES {
            self.old = std::mem::take(&mut self.young);
        }
        let before = if is_known { None } else { self.old.remove(&site) };
        self.young.entry(site).or_insert_with(|| before.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(number: usize) -> SiteKey {
        SiteKey::of(&format!("{number}.example").as_str().into())
    }

    /// Returns the number of visits among this number of updates, each with its result before the next one.
    fn visits(updates: &mut ListedUpdates, number: u32, is_confirmed: bool) -> u32 {
        let mut visits = 0;
        for _ in 0..number {
            if updates.trusts(site(0)) {
                visits += 1;
                updates.learn(site(0), Some(is_confirmed));
            }
        }
        visits
    }

    #[test]
    fn a_few_updates_of_an_unknown_site_are_tried_and_the_others_wait_for_their_results() {
        let mut updates = ListedUpdates::default();
        let tried = (0..99).filter(|_| updates.trusts(site(0))).count();
        assert_eq!(tried, 10);
        assert!(updates.trusts(site(1)), "another site has its own trials");
        (0..10).for_each(|_| updates.learn(site(0), Some(true)));
        assert_eq!(visits(&mut updates, 1000, true), 1000);
        let UpdateCounts { visited, distrusted, confirmed, refuted } = updates.take_counts();
        assert_eq!((visited, distrusted, confirmed, refuted), (1011, 89, 1010, 0));
        assert_eq!(updates.take_counts(), UpdateCounts::default());
    }

    #[test]
    fn a_site_whose_updates_are_no_changes_is_hardly_believed_and_may_regain_the_trust() {
        let mut updates = ListedUpdates::default();
        assert_eq!(visits(&mut updates, 1000, false), 10 + 9);
        assert_eq!(visits(&mut updates, 1810, true), 19, "until as many are confirmed as were refuted");
        assert_eq!(visits(&mut updates, 1000, true), 1000);
        assert!((20..=40).contains(&visits(&mut updates, 1000, false)), "the last results count");
    }

    #[test]
    fn a_visit_without_a_result_makes_room_for_another_trial() {
        let mut updates = ListedUpdates::default();
        (0..20).for_each(|_| {
            assert!(updates.trusts(site(0)));
            updates.learn(site(0), None);
        });
    }

    #[test]
    fn memory_is_bounded_and_keeps_the_sites_that_list_updates() {
        let mut updates = ListedUpdates::default();
        assert_eq!(visits(&mut updates, 10, false), 10);
        for number in 1..4 * SITES {
            updates.learn(site(number), None);
            if number % 10_000 == 0 {
                assert_eq!(updates.of(site(0)).refuted, 10, "after {number} others");
            }
        }
        assert!(updates.young.len() <= SITES && updates.old.len() <= SITES);
        assert_eq!(updates.of(site(1)), &Results::default(), "forgotten");
    }
}
