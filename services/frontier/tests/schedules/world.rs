//! The logs and the environment of one frontier.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use orbweaver_frontier::{
    FrontierConfig,
    decision::{Decision, DecisionContext, Tombstone},
    index::{FrontierIndex, Index, MemoryIndex},
    pages::{Counted, PageCaps},
    partition::PartitionFrontier,
};
use orbweaver_log::TopicPartition;
use orbweaver_messages::{
    DiscoveryKind, Dispatch, EXTERNAL_DEPTH, FrontierUrl, LEASE_MS, Millis, Outcome, OutcomeKind, RevisitPolicy,
    SitePages, Traps, UrlContext, topic,
};
use orbweaver_patterns::Patterns;
use orbweaver_stage::{IndexCheckpoint, Origin, PartitionContext};
use orbweaver_url::Fingerprint;
use tempfile::TempDir;

use crate::{
    definitions::{CRAWL, Control},
    revisits::Visited,
};

const EPOCH: u32 = 1;

/// The logs and the environment of one frontier.
pub(crate) struct World {
    pub(crate) now: Millis,
    pub(crate) config: FrontierConfig,
    pub(crate) frontier: PartitionFrontier,
    pub(crate) pages: PageCaps,
    /// `crawl.frontier`: queued URLs and tombstones.
    pub(crate) records: Vec<(Fingerprint, Result<FrontierUrl, Tombstone>)>,
    /// Least depth at which each URL was discovered.
    pub(crate) found: BTreeMap<Fingerprint, u16>,
    /// Least depth at which each URL had a terminal outcome.
    pub(crate) asked: BTreeMap<Fingerprint, u16>,
    /// Offset below which records have been compacted away.
    pub(crate) compacted: usize,
    pub(crate) scheduled: Vec<Dispatch>,
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) read: [usize; 2],
    pub(crate) incomplete: [BTreeSet<u64>; 2],
    pub(crate) in_flight: Vec<Dispatch>,
    pub(crate) leased: HashMap<Fingerprint, Millis>,
    pub(crate) ended: BTreeMap<Fingerprint, u32>,
    pub(crate) admitted: u32,
    /// Number of URLs that the frontier refused as traps.
    pub(crate) refused: u32,
    /// URLs that ended as stuck.
    pub(crate) given_up: Vec<String>,
    pub(crate) claims: u64,
    pub(crate) control: Control,
    /// Ended visits, in a crawl with revisits.
    pub(crate) visited: Visited,
    /// `crawl.site-pages`.
    pub(crate) site_pages: Vec<SitePages>,
    /// Index on disk, if there is one.
    disk: Option<(FrontierIndex, TempDir)>,
    pub(crate) decided: Vec<Decision>,
}

pub(crate) fn config() -> FrontierConfig {
    FrontierConfig { default_interval_ms: 0, reappend_above: 8, ..FrontierConfig::default() }
}

fn disk() -> (FrontierIndex, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let index = FrontierIndex::open(&directory.path().join("frontier")).unwrap();
    (index, directory)
}

fn index(disk: Option<&(FrontierIndex, TempDir)>) -> Box<dyn Index> {
    match disk {
        Some((index, _)) => Box::new(index.partition(0).unwrap()),
        None => Box::<MemoryIndex>::default(),
    }
}

/// Returns the checkpoint at a record of this world's log.
pub(crate) fn position(offset: u64) -> IndexCheckpoint {
    IndexCheckpoint { offset, timestamp_ms: 0, hash: offset }
}

impl World {
    pub(crate) fn new(max_pages: Option<u64>) -> Self {
        Self::with_index(max_pages, (config(), Control::new(None, None)), None)
    }

    /// Creates a world whose crawl has a page cap per site.
    pub(crate) fn with_site_cap(max_pages: u64, on_disk: bool) -> Self {
        Self::with_index(None, (config(), Control::new(None, Some(max_pages))), on_disk.then(disk))
    }

    /// Creates a world whose crawl has revisits.
    pub(crate) fn with_revisits(policy: RevisitPolicy, on_disk: bool) -> Self {
        Self::with_index(None, (config(), Control::new(Some(policy), None)), on_disk.then(disk))
    }

    pub(crate) fn on_disk(max_pages: Option<u64>) -> Self {
        Self::configured(max_pages, config())
    }

    /// Creates a world whose index is on disk.
    pub(crate) fn configured(max_pages: Option<u64>, config: FrontierConfig) -> Self {
        Self::with_index(max_pages, (config, Control::new(None, None)), Some(disk()))
    }

    fn with_index(
        max_pages: Option<u64>,
        (config, control): (FrontierConfig, Control),
        disk: Option<(FrontierIndex, TempDir)>,
    ) -> Self {
        let mut world = Self {
            now: 1_000_000,
            frontier: PartitionFrontier::new(0, config.clone(), index(disk.as_ref())),
            config,
            disk,
            decided: vec![],
            pages: PageCaps::default(),
            records: vec![],
            found: BTreeMap::new(),
            asked: BTreeMap::new(),
            compacted: 0,
            scheduled: vec![],
            outcomes: vec![],
            read: [0, 0],
            incomplete: [BTreeSet::new(), BTreeSet::new()],
            in_flight: vec![],
            leased: HashMap::new(),
            ended: BTreeMap::new(),
            admitted: 0,
            refused: 0,
            given_up: vec![],
            claims: 0,
            control,
            site_pages: vec![],
            visited: Visited::default(),
        };
        world.pages.limit(&CRAWL.parse().unwrap(), max_pages);
        world.pages.serve(0, 0, 1);
        world.control.set_terms(&mut world.frontier, world.now);
        world.frontier.open(opening(0, [0, 0]), world.now, &mut world.pages).unwrap();
        world
    }

    pub(crate) fn origin(topic: usize, offset: u64) -> Origin {
        let topic = [topic::FRONTIER, topic::OUTCOMES][topic];
        Origin { tp: TopicPartition::new(topic, 0), offset, assignment_epoch: EPOCH }
    }

    /// Reads the appended records, decides, and carries out the decisions, until nothing is left.
    pub(crate) fn settle(&mut self) {
        while self.step() {}
    }

    /// Decides on one record, or dispatches, and carries out the decisions. Returns `false` if nothing is left.
    pub(crate) fn step(&mut self) -> bool {
        let Some(decisions) = self.decide() else { return false };
        decisions.into_iter().for_each(|decision| self.carry_out(decision));
        true
    }

    /// Lets the frontier handle the next record or outcome, and loses its decisions, as if the process were killed.
    pub(crate) fn lose_decisions(&mut self) {
        drop(self.decide().unwrap());
    }

    /// Reads one appended record, or dispatches if there is none. Returns the decisions, or `None` if nothing is left.
    pub(crate) fn decide(&mut self) -> Option<Vec<Decision>> {
        let mut out = vec![];
        if let Some((_, Ok(waiting))) = self.records.get(self.read[0]) {
            self.control.scopes.note(waiting);
        }
        let mut turn =
            DecisionContext { now: self.now, pages: &mut self.pages, scopes: &self.control.scopes, out: &mut out };
        if let Some((fingerprint, waiting)) = self.records.get(self.read[0]).cloned() {
            let origin = Self::origin(0, self.read[0] as u64);
            self.incomplete[0].insert(origin.offset);
            self.read[0] += 1;
            match waiting {
                Ok(waiting) => self.frontier.waiting(origin, &waiting, &mut turn).unwrap(),
                Err(tombstone) => self.frontier.tombstone(origin, fingerprint, tombstone, &mut turn).unwrap(),
            }
            self.frontier.applied(position(origin.offset)).unwrap();
        } else if let Some(outcome) = self.outcomes.get(self.read[1]).cloned() {
            let origin = Self::origin(1, self.read[1] as u64);
            self.incomplete[1].insert(origin.offset);
            self.read[1] += 1;
            self.frontier.outcome(origin, &outcome, &mut turn).unwrap();
        } else {
            self.frontier.tick(&mut turn).unwrap();
            self.frontier.dispatch(&mut turn).unwrap();
            // 0 means immediately: the call reached a batch limit, and another one is needed.
            if out.is_empty() && self.frontier.next_moment_ms() != Some(0) {
                return None;
            }
        }
        self.decided.extend(out.iter().cloned());
        Some(out)
    }

    pub(crate) fn complete(&mut self, origin: Origin) {
        let topic = usize::from(origin.tp.topic == topic::OUTCOMES);
        assert!(self.incomplete[topic].remove(&origin.offset), "{origin:?} completed twice, or was never read");
    }

    pub(crate) fn carry_out(&mut self, decision: Decision) {
        match decision {
            Decision::Complete(origin) => self.complete(origin),
            Decision::Park(origin) => assert!(self.incomplete[0].contains(&origin.offset)),
            Decision::Dispatch { dispatch, .. } => {
                let leased = self.leased.insert(dispatch.context.fingerprint, self.now);
                assert!(leased.is_none_or(|at| self.now >= at + LEASE_MS), "{} leased twice", dispatch.context.url);
                let ((said, latest), of) = (self.control.latest(), dispatch.context.fingerprint);
                let mut found = self.records.iter().filter_map(|(_, found)| found.as_ref().ok());
                // An instance that has not read the definition under which a URL was admitted refuses nothing.
                let is_newer =
                    found.any(|found| found.definition >= latest + u64::from(found.context.fingerprint != of));
                let UrlContext { url, depth, .. } = &dispatch.context;
                assert!(is_newer || said.is_inside(url, *depth), "{url} is outside");
                self.assert_below_site_cap(&dispatch);
                self.scheduled.push(Dispatch::clone(&dispatch));
                self.in_flight.push(*dispatch);
            }
            Decision::Rewrite { waiting, completes } => {
                assert!(waiting.context.visit == 0 || waiting.context.sighting.is_page(), "{waiting:?} has no visits");
                self.visited.rewrite(&waiting);
                self.records.push((waiting.context.fingerprint, Ok(*waiting)));
                completes.into_iter().for_each(|origin| self.complete(origin));
            }
            Decision::Change(change) => self.visited.change(*change),
            Decision::CountPages(count) => self.site_pages.push(*count),
            Decision::ForgetPages(_) => panic!("the crawl is not deleted"),
            Decision::End { fingerprint, depth, ends, completes } => {
                *self.ended.entry(fingerprint).or_default() += 1;
                self.visited.forget(fingerprint);
                self.records.push((fingerprint, Err(Tombstone { epoch: self.claims, ends, depth })));
                completes.into_iter().for_each(|origin| self.complete(origin));
            }
            Decision::Refuse { outcome, ends, completes } => {
                assert!(outcome.requested_at_ms.is_none());
                let outside = !self.control.latest().0.is_inside(&outcome.context.url, outcome.context.depth);
                let reason = outcome.reason.as_deref();
                assert!(outside || matches!(reason, Some("trap" | "site_cap")), "{} is inside", outcome.context.url);
                self.refused += u32::from(reason == Some("trap"));
                self.end_unasked(*outcome, ends, completes);
            }
            Decision::Abandon { outcome, waiting, origin, .. } => {
                assert_eq!(
                    (waiting.context.fingerprint, waiting.context.depth),
                    (outcome.context.fingerprint, outcome.context.depth)
                );
                assert_eq!(waiting.lost, 0, "a replayed URL begins with no lost dispatches");
                self.given_up.push(waiting.context.url);
                self.end_unasked(*outcome, origin.offset, vec![origin]);
            }
        }
    }

    /// Carries out the end of a URL by the frontier itself.
    fn end_unasked(&mut self, outcome: Outcome, ends: u64, completes: Vec<Origin>) {
        let UrlContext { fingerprint, depth, .. } = outcome.context;
        self.ask(fingerprint, depth);
        self.outcomes.push(outcome);
        self.carry_out(Decision::End { fingerprint, depth, ends, completes });
    }

    /// Discovers a URL again, at the same depth, or at one less or more.
    pub(crate) fn admit_again(&mut self, demoted: u8) {
        let Some(mut again) = self.known(demoted) else { return };
        let is_page = !(demoted / 8).is_multiple_of(3) || demoted >= 192;
        if !again.context.sighting.is_page() && is_page {
            (again.context.sighting, again.context.depth) = (DiscoveryKind::Link, 2);
        }
        again.context.depth = match demoted / 8 % 3 {
            _ if again.context.sighting == DiscoveryKind::External => EXTERNAL_DEPTH,
            0 => again.context.depth,
            1 => again.context.depth.saturating_sub(1),
            _ => again.context.depth + 1,
        };
        if self.control.revisit.is_some() && demoted >= 192 {
            self.request_again(again);
        } else {
            self.find(again);
        }
    }

    /// Appends the tombstone of a former owner for a record that is not the last of its URL.
    pub(crate) fn bury_late(&mut self, demoted: u8) {
        let waits = |(offset, (fingerprint, record)): (usize, &(Fingerprint, Result<FrontierUrl, Tombstone>))| {
            record.is_ok().then_some((offset, *fingerprint))
        };
        let records: Vec<_> = self.records.iter().enumerate().filter_map(waits).collect();
        let replaced =
            |&&(offset, of): &&(usize, Fingerprint)| records.iter().any(|(at, url)| *at > offset && *url == of);
        let Some(&(ended, fingerprint)) = records.iter().rev().filter(replaced).nth(usize::from(demoted % 4)) else {
            return;
        };
        let Ok(waiting) = &self.records[ended].1 else { return };
        if self.claims > 0 {
            let stale = Tombstone { epoch: self.claims - 1, ends: ended as u64, depth: waiting.context.depth };
            self.records.push((fingerprint, Err(stale)));
        }
    }

    /// Notes the depth of a terminal outcome of a URL.
    pub(crate) fn ask(&mut self, fingerprint: Fingerprint, depth: u16) {
        let least = self.asked.entry(fingerprint).or_insert(depth);
        *least = depth.min(*least);
    }

    /// Adds a discovered URL. Returns `true` if it was admitted.
    pub(crate) fn find(&mut self, waiting: FrontierUrl) -> bool {
        let Some(waiting) = self.control.let_through(waiting) else { return false };
        let least = self.found.entry(waiting.context.fingerprint).or_insert(waiting.context.depth);
        *least = waiting.context.depth.min(*least);
        self.records.push((waiting.context.fingerprint, Ok(waiting)));
        true
    }

    pub(crate) fn admit(&mut self, site: u8) {
        let waiting = self.new_url(site, "");
        self.admitted += u32::from(self.find(waiting));
    }

    /// Admits a URL of a pattern that its trail has passed, found on a page with the same content as all pages of the
    /// pattern.
    pub(crate) fn admit_trap(&mut self, site: u8) {
        let mut waiting = self.new_url(site, "trap/");
        waiting.traps = if site.is_multiple_of(2) { Traps::Strict } else { Traps::Learn };
        let (pattern, _) = Patterns::new(1 << 10).judge(&waiting);
        waiting.context.trail = [(pattern, u16::from(site / 64))].into_iter().collect();
        waiting.content = Some(7);
        waiting.context.via = Some(format!("{}/from", waiting.context.url));
        self.admitted += u32::from(self.find(waiting));
    }

    pub(crate) fn new_url(&self, site: u8, directory: &str) -> FrontierUrl {
        let url = format!("http://{}.example/{directory}{}", site % 4, self.admitted + 1);
        let context = UrlContext {
            depth: u16::from(site / 64),
            sighting: DiscoveryKind::Link,
            ..UrlContext::of_seed(CRAWL.parse().unwrap(), url, format!("{}.example", site % 4).into())
        };
        FrontierUrl::admitted(context, self.now)
    }

    /// Returns this world when a URL has been admitted and dispatched.
    pub(crate) fn with_leased(mut self, site: u8) -> Self {
        self.admit_and_settle(site);
        self
    }

    pub(crate) fn pass(&mut self, millis: Millis) {
        self.now += millis;
        self.settle();
    }

    pub(crate) fn admit_and_settle(&mut self, site: u8) {
        self.admit(site);
        self.settle();
    }

    /// Ends the oldest dispatch with this outcome, which the frontier then handles.
    pub(crate) fn end(&mut self, kind: OutcomeKind) {
        self.answer(kind, 1);
        self.settle();
    }

    pub(crate) fn answer(&mut self, kind: OutcomeKind, times: usize) {
        if self.in_flight.is_empty() {
            return;
        }
        let dispatch = self.in_flight.remove(0);
        // The fetcher ends a URL that fails at its last attempt, and one that is blocked for the fifth time.
        let last = (kind == OutcomeKind::Retry && dispatch.last_attempt)
            || (kind == OutcomeKind::Blocked && dispatch.blocks >= 4);
        let kind = if last { OutcomeKind::Gone } else { kind };
        self.leased.remove(&dispatch.context.fingerprint);
        if kind.is_terminal() {
            self.ask(dispatch.context.fingerprint, dispatch.context.depth);
        }
        let later = Some(self.now + 1000);
        let asked_ms = (kind != OutcomeKind::Deferred).then_some(self.now);
        let outcome = Outcome {
            requested_at_ms: asked_ms,
            answered_at_ms: asked_ms,
            retry_at_ms: later,
            blocked_until_ms: later,
            ..Outcome::of(&dispatch, kind, None, self.now)
        };
        let outcome = self.with_version(outcome, &dispatch);
        self.outcomes.extend(std::iter::repeat_n(outcome, times));
    }

    /// Discards everything in memory. Commit points, logs and, if it is trusted, an index on disk remain. Dispatches in
    /// flight continue, because they are in logs.
    pub(crate) fn crash(&mut self, trust: bool) {
        let commit = [0, 1].map(|topic| {
            self.incomplete[topic].first().map_or(self.read[topic], |o| usize::try_from(*o).unwrap_or(usize::MAX))
        });
        let checkpoint = self.disk.as_ref().and_then(|(index, _)| index.position(0).unwrap());
        let checkpoint = checkpoint.map(|at| at.offset as usize + 1).filter(|from| trust && *from >= commit[0]);
        if let (Some((index, _)), None) = (&self.disk, checkpoint) {
            index.discard(0).unwrap();
        }
        self.frontier = PartitionFrontier::new(0, self.config.clone(), index(self.disk.as_ref()));
        for (offset, (fingerprint, waiting)) in self.records.iter().enumerate().skip(checkpoint.unwrap_or(commit[0])) {
            match waiting {
                _ if offset < self.compacted => {}
                Ok(waiting) => {
                    self.control.scopes.note(waiting);
                    self.frontier.restore_record(offset as u64, waiting).unwrap();
                }
                Err(tombstone) => self.frontier.restore_tombstone(offset as u64, *fingerprint, *tombstone).unwrap(),
            }
            self.frontier.applied(position(offset as u64)).unwrap();
        }
        self.site_pages.iter().for_each(|record| self.frontier.restore_pages(record));
        for dispatch in self.scheduled.iter().filter(|dispatch| dispatch.dispatched_at_ms + LEASE_MS >= self.now) {
            self.frontier.restore_dispatch(dispatch).unwrap();
        }
        self.pages = PageCaps::default();
        for (offset, outcome) in self.outcomes.iter().enumerate() {
            self.pages.outcome(0, offset as u64, Counted::of(outcome));
            self.frontier.restore_outcome(offset as u64, outcome).unwrap();
        }
        self.control.crash();
        self.claims += 1;
        self.pages.serve(0, self.claims, 1);
        self.control.set_terms(&mut self.frontier, self.now);
        self.frontier
            .open(opening(self.claims, commit.map(|commit| commit as u64)), self.now, &mut self.pages)
            .unwrap();
        self.read = [self.records.len(), commit[1]];
        assert!(self.frontier.incomplete().is_sorted_by(|one, next| one < next));
        self.incomplete = [self.frontier.incomplete().collect(), BTreeSet::new()];
    }

    /// Restarts the process, from its index or without it, when it has written what that index keeps in memory.
    pub(crate) fn restart(&mut self, trust: bool) {
        self.frontier.write().unwrap();
        self.crash(trust);
    }

    pub(crate) fn waiting(&self) -> usize {
        self.frontier.load().0
    }

    /// Asserts that no URL is queued, and that no offset is incomplete.
    pub(crate) fn assert_complete(&self, what: &str) {
        assert_eq!(self.waiting(), 0, "{what}");
        assert!(self.incomplete.iter().all(BTreeSet::is_empty), "{what}: {:?}", self.incomplete);
    }

    /// Returns the depth and the time of the previous write of each dispatch in flight.
    pub(crate) fn carried(&self) -> Vec<(u16, Millis)> {
        self.in_flight.iter().map(|next| (next.context.depth, next.written_at_ms)).collect()
    }

    /// Lets the frontier decide on the next outcome, admits a URL again before the decisions are carried out, and lets
    /// the frontier handle `steps` more records.
    pub(crate) fn cut(&mut self, demoted: u8, steps: usize) {
        let decisions = self.decide().unwrap_or_default();
        self.admit_again(demoted);
        decisions.into_iter().for_each(|decision| self.carry_out(decision));
        for _ in 0..steps {
            self.step();
        }
    }

    /// From now on everything is answered: all URLs must end.
    pub(crate) fn finish(&mut self) {
        for _ in 0..10_000 {
            if self.waiting() == 0 {
                break;
            }
            if self.in_flight.is_empty() {
                self.now += if self.control.revisit.is_some() { 1_000 } else { 10_000 };
            }
            self.end(OutcomeKind::Fetched);
        }
    }
}

/// Returns the opening of the only partition, with this claim and these commit points.
fn opening(claim: u64, [records, outcomes]: [u64; 2]) -> PartitionContext {
    let commits = [records, outcomes, 0];
    PartitionContext { partition: 0, partitions: 1, assignment_epoch: EPOCH, owner_epoch: claim, commits }
}
