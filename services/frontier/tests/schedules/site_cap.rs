//! Crawls with a page cap per site.

use std::collections::{BTreeMap, BTreeSet};

use orbweaver_messages::{Dispatch, LEASE_MS, Outcome, OutcomeKind, SitePages};
use orbweaver_url::SiteName;
use proptest::prelude::*;

use crate::{
    ops::{Op, op},
    world::World,
};

impl World {
    /// Returns the number of pages of a site in `crawl.site-pages`.
    fn pages_of(&self, site: &SiteName) -> u64 {
        self.site_pages.iter().rfind(|record| record.site == *site).map_or(0, |record| record.pages)
    }

    /// Asserts that the pages of a site and its dispatches in flight, together with this one, do not exceed the cap.
    pub(crate) fn assert_below_site_cap(&self, dispatch: &Dispatch) {
        let is_counted = dispatch.context.may_be_new_page();
        let Some(max) = self.control.max_pages_per_site.filter(|_| is_counted) else { return };
        let site = &dispatch.context.site;
        let in_flight: BTreeSet<_> = self
            .in_flight
            .iter()
            .filter(|other| other.context.may_be_new_page() && other.context.site == *site)
            .filter(|other| self.now < other.dispatched_at_ms + LEASE_MS)
            .map(|other| other.context.fingerprint)
            // An earlier dispatch may have ended the URL.
            .filter(|fingerprint| !self.ended.contains_key(fingerprint))
            .chain([dispatch.context.fingerprint])
            .collect();
        let pages = self.pages_of(site);
        assert!(pages + in_flight.len() as u64 <= max, "{site}: {pages} pages and {} in flight", in_flight.len());
    }

    /// Returns the number of URLs of each site that ended as fetched, and of those that were refused at the cap.
    fn fetched_and_refused(&self) -> BTreeMap<SiteName, (u64, u64)> {
        let mut ended = BTreeSet::new();
        let mut by_site = BTreeMap::<SiteName, (u64, u64)>::new();
        let of_pages = self.outcomes.iter().filter(|outcome| outcome.context.may_be_new_page());
        for outcome in of_pages.filter(|outcome| outcome.kind.is_terminal()) {
            let sum = by_site.entry(outcome.context.site.clone()).or_default();
            let is_first = ended.insert(outcome.context.fingerprint);
            match outcome.kind {
                OutcomeKind::Fetched if is_first => sum.0 += 1,
                OutcomeKind::Refused if outcome.reason.as_deref() == Some("site_cap") => sum.1 += 1,
                _ => {}
            }
        }
        by_site
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_site_has_more_pages_than_the_cap_and_none_is_refused_below_it_whatever_happens(
        max in 1..12u64, ops in prop::collection::vec(op(), 1..120), on_disk in prop::bool::weighted(0.25),
    ) {
        let mut world = World::with_site_cap(max, on_disk);
        ops.iter().filter(|op| !matches!(op, Op::Again(_) | Op::Cut(..))).for_each(|op| world.play(op));
        world.finish();
        world.assert_complete("");
        // Dispatches whose lease had expired may bring pages beyond the cap.
        let late = |outcome: &&Outcome| {
            outcome.kind == OutcomeKind::Fetched && outcome.ended_at_ms >= outcome.dispatched_at_ms + LEASE_MS
        };
        let late = world.outcomes.iter().filter(late).count() as u64;
        for (site, (fetched, refused)) in world.fetched_and_refused() {
            let counted = world.pages_of(&site);
            prop_assert_eq!(fetched, counted, "{}", &site);
            prop_assert!(counted <= max + late, "{site}: {counted}, {late} late");
            prop_assert!(refused == 0 || counted >= max, "{site}: {refused} refused at {counted}");
        }
    }

    #[test]
    fn with_urls_that_are_admitted_again_every_url_ends_as_well(
        max in 1..6u64, ops in prop::collection::vec(op(), 1..120),
    ) {
        let mut world = World::with_site_cap(max, false);
        ops.iter().for_each(|op| world.play(op));
        world.finish();
        world.assert_complete("");
    }
}

#[test]
fn a_site_gets_as_many_pages_as_its_crawl_allows_and_its_other_urls_are_refused() {
    for on_disk in [false, true] {
        let mut world = World::with_site_cap(3, on_disk);
        (0..10).for_each(|_| world.admit(0));
        (0..2).for_each(|_| world.admit(1));
        world.settle();
        assert_eq!(world.in_flight.len(), 5, "three of the first site and both of the second");
        // A page that is missing leaves the place to another one.
        world.end(OutcomeKind::Gone);
        assert_eq!(world.in_flight.len(), 5);
        world.crash(on_disk);
        world.finish();
        world.assert_complete("");
        let of_sites: Vec<_> = world.fetched_and_refused().into_values().collect();
        assert_eq!(of_sites, [(3, 6), (2, 0)]);
        assert_eq!(world.pages_of(&"0.example".into()), 3);
    }
}

#[test]
fn a_page_is_counted_once_when_its_outcome_is_received_again_after_a_crash() {
    let mut world = World::with_site_cap(2, false);
    (0..4).for_each(|_| world.admit(0));
    world.settle();
    world.answer(OutcomeKind::Fetched, 1);
    // The count is appended, and the process is killed before anything else is.
    let count = world.decide().unwrap().into_iter().find_map(|decision| match decision {
        orbweaver_frontier::decision::Decision::CountPages(count) => Some(*count),
        _ => None,
    });
    world.site_pages.extend(count);
    world.crash(false);
    world.settle();
    assert_eq!(world.pages_of(&"0.example".into()), 1);
    world.finish();
    assert_eq!(world.fetched_and_refused().into_values().collect::<Vec<_>>(), [(2, 2)]);
}

#[test]
fn a_record_of_a_former_owner_that_came_later_does_not_lower_a_count() {
    let mut world = World::with_site_cap(2, false);
    (0..4).for_each(|_| world.admit(0));
    world.settle();
    world.end(OutcomeKind::Fetched);
    world.end(OutcomeKind::Fetched);
    let former = SitePages { pages: 1, upto: 1, epoch: 0, ..world.site_pages[1].clone() };
    world.site_pages.push(former);
    world.admit(0);
    world.crash(false);
    world.finish();
    assert_eq!(world.fetched_and_refused().into_values().collect::<Vec<_>>(), [(2, 3)]);
}
