//! Crawls with revisits: every visit ends once, and the changes are those of the pages.

use std::collections::BTreeMap;

use orbweaver_frontier::{decision::Decision, index::CrawlKey};
use orbweaver_messages::{
    ChangeKind, DiscoveryKind, Dispatch, FrontierUrl, Millis, Outcome, OutcomeKind, PageChange, PageVersion,
    RevisitPolicy,
};
use orbweaver_url::Fingerprint;
use proptest::prelude::*;

use crate::{
    definitions::CRAWL,
    ops::{Op, op},
    world::World,
};

const POLICY: RevisitPolicy = RevisitPolicy { interval_ms: 5_000, max_interval_ms: 40_000, types: BTreeMap::new() };
/// Time after which the pages change, in milliseconds.
const VERSION_MS: Millis = 7_000;

/// Ended visits and the changes that they found.
#[derive(Debug, Default)]
pub(crate) struct Visited {
    /// Version and time after each visit.
    visits: BTreeMap<(Fingerprint, u32), (PageVersion, Millis)>,
    changes: BTreeMap<(Fingerprint, u32), PageChange>,
    /// Number of visits that have ended.
    all: u64,
    /// Time at which users last requested each URL again.
    requested: BTreeMap<Fingerprint, Millis>,
}

impl Visited {
    /// Notes a change. Its visit has not ended before.
    pub(crate) fn change(&mut self, change: PageChange) {
        let id = (change.context.fingerprint, change.context.visit);
        assert!(!self.visits.contains_key(&id), "visit {} of {} ended twice", id.1, change.context.url);
        self.changes.insert(id, change);
    }

    /// Notes a new record of a URL: the first one of the next visit ends the last one.
    pub(crate) fn rewrite(&mut self, waiting: &FrontierUrl) {
        let Some((number, visits)) = waiting.context.visit.checked_sub(1).zip(waiting.visits.as_ref()) else { return };
        let id = (waiting.context.fingerprint, number);
        let now = (visits.version.clone(), visits.visited_at_ms);
        match self.visits.get(&id) {
            Some(known) => assert_eq!(known, &now, "visit {number} of {} ended twice", waiting.context.url),
            None => {
                self.all += 1;
                self.visits.insert(id, now);
            }
        }
    }

    /// Forgets a URL that has ended, by a definition that excludes it: if it is admitted again, its visits begin again.
    pub(crate) fn forget(&mut self, fingerprint: Fingerprint) {
        self.visits.retain(|(of, _), _| *of != fingerprint);
        self.changes.retain(|(of, _), _| *of != fingerprint);
    }

    /// Asserts that the changes are those between the versions of each page.
    fn assert_changes(&self) {
        for ((fingerprint, number), (now, _)) in &self.visits {
            let before = number.checked_sub(1).map(|previous| &self.visits[&(*fingerprint, previous)].0);
            let before = before.cloned().unwrap_or_default();
            let expected = match (before.is_unknown(), now.is_unknown()) {
                (true, false) => Some(ChangeKind::New),
                (false, true) => Some(ChangeKind::Gone),
                _ => (before.content_hash != now.content_hash).then_some(ChangeKind::Changed),
            };
            let change = self.changes.get(&(*fingerprint, *number));
            assert_eq!(change.map(|change| change.kind), expected, "visit {number}");
        }
        assert!(self.changes.keys().all(|id| self.visits.contains_key(id)));
    }
}

impl World {
    /// Admits a record by which a user requests its URL again, unless it is out of scope.
    pub(crate) fn request_again(&mut self, mut again: FrontierUrl) {
        again.context.sighting = DiscoveryKind::Recrawl;
        again.admitted_at_ms = self.now;
        let fingerprint = again.context.fingerprint;
        if self.find(again) {
            self.visited.requested.insert(fingerprint, self.now);
        }
    }

    /// Returns a URL that was admitted before, as normalizer-dedup admits it again.
    pub(crate) fn known(&self, demoted: u8) -> Option<FrontierUrl> {
        let admitted = self.records.iter().filter_map(|(_, waiting)| waiting.as_ref().ok());
        let mut again = admitted.rev().nth(usize::from(demoted % 8))?.clone();
        (again.failures, again.blocks, again.lost, again.not_before_ms, again.written_at_ms) = (0, 0, 0, 0, 0);
        (again.context.visit, again.visits, again.context.listed_modified_ms) = (0, None, None);
        Some(again)
    }

    /// Admits an update of a URL, in a crawl with revisits: a sitemap lists it as modified now, or a second ago.
    pub(crate) fn list(&mut self, which: u8) {
        let Some(mut update) = self.known(which).filter(|known| known.context.sighting.is_page()) else { return };
        if self.control.revisit.is_some() {
            update.context.sighting = DiscoveryKind::Update;
            update.context.depth = self.found[&update.context.fingerprint];
            update.context.listed_modified_ms = Some(self.now - 1000 * Millis::from(which / 8 % 2));
            update.admitted_at_ms = self.now;
            self.find(update);
        }
    }

    /// Adds the version of the page to an outcome, as a fetcher does: the page may not have changed.
    pub(crate) fn with_version(&self, outcome: Outcome, dispatch: &Dispatch) -> Outcome {
        let Some(known) = &dispatch.known else { return outcome };
        let content_hash = Some(format!("{} {}", dispatch.context.url, self.now / VERSION_MS));
        let (kind, status, version) = match outcome.kind {
            OutcomeKind::Fetched if known.content_hash == content_hash => (OutcomeKind::Unchanged, Some(304), None),
            OutcomeKind::Fetched => (OutcomeKind::Fetched, Some(200), Some(content_hash)),
            kind => (kind, (kind == OutcomeKind::Gone).then_some(404), None),
        };
        let version = version.map(|content_hash| PageVersion { content_hash, ..PageVersion::default() });
        Outcome { kind, status, version, ..outcome }
    }

    /// Returns the number of URLs that sleep.
    fn asleep(&self) -> u64 {
        self.frontier.live(CrawlKey::of(&CRAWL.parse().unwrap())).0.asleep
    }

    /// Asserts that every URL has ended or sleeps, and that only the records of those that sleep are incomplete.
    fn assert_asleep(&self) {
        assert_eq!(self.waiting(), 0);
        assert_eq!((self.incomplete[0].len() as u64, self.incomplete[1].len()), (self.asleep(), 0));
        self.visited.assert_changes();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_visit_ends_once_and_its_change_is_that_of_the_page_whatever_happens(
        ops in prop::collection::vec(op(), 1..120), on_disk in prop::bool::weighted(0.25),
    ) {
        let mut world = World::with_revisits(POLICY, on_disk);
        ops.iter().for_each(|op| world.play(op));
        world.finish();
        world.assert_asleep();
        let (all, asleep) = (world.visited.all, world.asleep());
        for (fingerprint, requested_ms) in &world.visited.requested {
            let last = world.visited.visits.range((*fingerprint, 0)..=(*fingerprint, u32::MAX)).last();
            let visited_ms = last.map(|(_, (_, visited_ms))| *visited_ms);
            let is_answered = visited_ms.is_some_and(|visited_ms| visited_ms >= *requested_ms);
            prop_assert!(is_answered || world.ended.contains_key(fingerprint), "requested at {requested_ms}: {last:?}");
        }
        // All of them wake, and sleep again.
        world.now += 40_000;
        world.settle();
        world.finish();
        world.assert_asleep();
        prop_assert!(world.visited.all - all >= world.asleep() && world.asleep() <= asleep);
    }

    #[test]
    fn an_index_on_disk_decides_on_revisits_as_one_in_memory_does(ops in prop::collection::vec(op(), 1..80)) {
        let mut worlds = [false, true].map(|on_disk| World::with_revisits(POLICY, on_disk));
        let of_both = |op: &&Op| !matches!(op, Op::Flood(_) | Op::Crash | Op::CrashWithoutIndex | Op::Stale(_) | Op::Cut(..));
        for op in ops.iter().filter(of_both) {
            worlds.iter_mut().for_each(|world| world.play(op));
            let [memory, disk] = &worlds;
            prop_assert_eq!(&disk.decided, &memory.decided, "after {:?}", op);
            prop_assert_eq!(disk.asleep(), memory.asleep());
        }
    }
}

/// Returns a world with a URL whose second visit has failed; the frontier is writing the record of the retry.
fn retried() -> (World, Vec<Decision>) {
    let mut world = World::with_revisits(POLICY, false).with_leased(128);
    world.end(OutcomeKind::Fetched);
    world.pass(5_000);
    assert_eq!(world.in_flight[0].context.visit, 1);
    world.answer(OutcomeKind::Retry, 1);
    let being_written = world.decide().unwrap();
    (world, being_written)
}

#[test]
fn demands_for_a_visit_that_arrive_while_the_next_record_is_written_are_answered() {
    for (demands, depth) in [(&[192][..], 2), (&[8], 1), (&[192, 8], 1), (&[8, 192], 1)] {
        for ends_meanwhile in [false, true] {
            let (mut world, being_written) = retried();
            if ends_meanwhile {
                // A second answer to the dispatch.
                let (outcome, dispatch) = (world.outcomes[1].clone(), world.scheduled[1].clone());
                let fetched = world.with_version(Outcome { kind: OutcomeKind::Fetched, ..outcome }, &dispatch);
                world.outcomes.push(fetched);
            }
            world.now += 1;
            demands.iter().for_each(|demand| world.admit_again(*demand));
            world.settle();
            being_written.into_iter().for_each(|decision| world.carry_out(decision));
            world.settle();
            let visit = 1 + u32::from(ends_meanwhile);
            let dispatched: Vec<_> =
                world.in_flight.iter().map(|next| (next.context.visit, next.context.depth)).collect();
            assert_eq!(dispatched, [(visit, depth)], "{demands:?}, ends: {ends_meanwhile}");
            world.end(OutcomeKind::Fetched);
            world.assert_asleep();
        }
    }
}

#[test]
fn a_visit_that_ended_an_hour_ago_by_the_fetchers_clock_is_not_repeated_at_once() {
    let mut world = World::with_revisits(POLICY, false).with_leased(0);
    world.answer(OutcomeKind::Fetched, 1);
    world.outcomes[0].ended_at_ms -= 3_600_000;
    world.settle();
    world.now += i64::try_from(POLICY.interval_ms).unwrap() - 1;
    world.settle();
    assert_eq!((world.in_flight.len(), world.asleep()), (0, 1));
    world.pass(1);
    assert_eq!((world.in_flight.len(), world.asleep()), (1, 0));
}

#[test]
fn urls_that_sleep_for_longer_than_the_longest_interval_wake_at_once() {
    const HOUR_MS: i64 = 3_600_000;
    for on_disk in [false, true] {
        let mut world = World::with_revisits(POLICY, on_disk).with_leased(0);
        world.now += HOUR_MS;
        world.end(OutcomeKind::Fetched);
        // The clock is set right, and another frontier takes over.
        world.now -= HOUR_MS;
        world.crash(on_disk);
        world.admit_and_settle(0);
        assert_eq!((world.in_flight.len(), world.asleep()), (1, 1));
        world.end(OutcomeKind::Fetched);
        assert_eq!((world.in_flight.len(), world.asleep()), (0, 2));
        world.frontier.wake_beyond(&CRAWL.parse().unwrap(), &POLICY, world.now);
        world.settle();
        assert_eq!((world.in_flight.len(), world.asleep()), (1, 1), "the other one is not woken");
    }
}
