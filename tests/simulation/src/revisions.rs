//! Changes of the crawl's definition during the run.

use std::collections::{BTreeMap, BTreeSet};

use orbweaver_messages::{CrawlDefinition, CrawlOrder, FetchProfile, Millis, Pins, RevisitPolicy, Scope};
use orbweaver_url::{Policy, SUFFIX_LIST_VERSION};

use crate::{crawls::CrawlPlan, random::Random, settings::Settings, web::Web};

/// A new definition and its time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Revision {
    /// Time of the write, in milliseconds from the start.
    pub at_ms: u64,
    /// Pages excluded from then on.
    pub excluded: BTreeSet<usize>,
    /// Page cap from then on.
    pub max_pages: Option<u64>,
    /// Page cap per site from then on.
    pub max_pages_per_site: Option<u64>,
    /// Whether the crawl is paused from then on.
    pub paused: bool,
    /// Whether the crawl is stopped from then on.
    pub stopped: bool,
    /// Fetch profile from then on.
    pub profile: FetchProfile,
    /// Order of the pages that are admitted from then on.
    pub order: CrawlOrder,
    /// Revisits from then on.
    pub revisit: Option<RevisitPolicy>,
    /// Versions that it replaces; if empty, it applies in any case.
    pub replaces: Vec<u64>,
}

impl Revision {
    /// Draws revisions. In 70 of 100 schedules none; otherwise one to three, each excluding up to three pages.
    #[must_use]
    pub fn draw(random: &mut Random, web: &Web) -> Vec<Self> {
        if !random.chance(30) {
            return vec![];
        }
        let mut at_ms = 0;
        let mut revision = |random: &mut Random, pages: u64| {
            at_ms += random.between(500, 15_000);
            let excluded = (0..pages).map(|_| random.index(web.pages.len())).collect();
            Self { at_ms, excluded, ..Self::default() }
        };
        let times = random.between(1, 3);
        (0..times)
            .map(|_| random.below(4))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|pages| revision(random, pages))
            .collect()
    }
}

/// Sets a page cap in three of ten schedules from the start; the cap is changed once and finally removed.
pub(crate) fn cap(random: &mut Random, web: &Web, mut revisions: Vec<Revision>) -> (Option<u64>, Vec<Revision>) {
    if !random.chance(30) {
        return (None, revisions);
    }
    let pages = web.pages.len() as u64;
    let first = random.between(1, pages);
    let mut at_ms = 0;
    let mut caps = vec![(0, Some(first))];
    for last in [false, true] {
        at_ms += random.between(1_000, 60_000);
        caps.push((at_ms, if last { None } else { Some(random.between(1, 2 * pages)) }));
    }
    let at = |ms: u64| caps.iter().rev().find(|(from, _)| *from <= ms).and_then(|(_, max)| *max);
    revisions.iter_mut().for_each(|revision| revision.max_pages = at(revision.at_ms));
    for (at_ms, max_pages) in &caps[1..] {
        let excluded = revisions.iter().rev().find(|revision| revision.at_ms <= *at_ms);
        let excluded = excluded.map(|revision| revision.excluded.clone()).unwrap_or_default();
        let index = revisions.partition_point(|revision| revision.at_ms <= *at_ms);
        revisions.insert(index, Revision { at_ms: *at_ms, excluded, max_pages: *max_pages, ..Revision::default() });
    }
    (Some(first), revisions)
}

/// Pauses the crawl in one of five schedules, for up to a minute.
pub(crate) fn pause(random: &mut Random, first: &Revision, mut revisions: Vec<Revision>) -> Vec<Revision> {
    if !random.chance(20) {
        return revisions;
    }
    let begin_ms = random.between(1_000, 30_000);
    let end_ms = begin_ms + random.between(1_000, 60_000);
    for (at_ms, paused) in [(begin_ms, true), (end_ms, false)] {
        let index = revisions.partition_point(|revision| revision.at_ms <= at_ms);
        let before = index.checked_sub(1).and_then(|index| revisions.get(index)).unwrap_or(first);
        revisions.insert(index, Revision { at_ms, paused, ..before.clone() });
    }
    for revision in revisions.iter_mut().filter(|revision| (begin_ms..end_ms).contains(&revision.at_ms)) {
        revision.paused = true;
    }
    revisions
}

/// Stops the crawl in one of twelve schedules; a stopped crawl does not change any more.
pub(crate) fn stop(random: &mut Random, first: &Revision, mut revisions: Vec<Revision>) -> Vec<Revision> {
    if !random.chance(8) {
        return revisions;
    }
    let at_ms = random.between(1_000, 60_000);
    revisions.retain(|revision| revision.at_ms <= at_ms);
    let before = revisions.last().unwrap_or(first).clone();
    revisions.push(Revision { at_ms, stopped: true, paused: false, ..before });
    revisions
}

/// Gives the crawl revisits in half of the schedules, which end after some minutes: each URL then ends with its next visit.
pub(crate) fn revisit(random: &mut Random, first: &mut Revision) -> Option<Revision> {
    if !random.chance(50) {
        return None;
    }
    let interval_ms = random.between(20_000, 120_000);
    let max_interval_ms = interval_ms * random.between(1, 4);
    first.revisit = Some(RevisitPolicy { interval_ms, max_interval_ms, types: BTreeMap::new() });
    Some(Revision { at_ms: random.between(180_000, 720_000), ..Revision::default() })
}

/// Gives the crawl a fetch profile in one of four schedules, and another one later in half of these: with a user agent
/// of its own, and an interval from half to twice that of the services.
pub(crate) fn profile(
    random: &mut Random,
    interval_ms: u64,
    first: &mut Revision,
    mut revisions: Vec<Revision>,
) -> Vec<Revision> {
    if !random.chance(25) {
        return revisions;
    }
    let profiles = ["first", "second"].map(|agent| FetchProfile {
        user_agent: Some(format!("{agent}/1.0")),
        interval_ms: Some((interval_ms * random.between(2, 8) / 4).max(100)),
        ..FetchProfile::default()
    });
    let [initial, later] = profiles;
    first.profile = initial;
    let change_ms = if random.chance(50) { random.between(1_000, 30_000) } else { u64::MAX };
    if change_ms < u64::MAX {
        let index = revisions.partition_point(|revision| revision.at_ms <= change_ms);
        let before = index.checked_sub(1).and_then(|index| revisions.get(index)).unwrap_or(first);
        revisions.insert(index, Revision { at_ms: change_ms, ..before.clone() });
    }
    for revision in &mut revisions {
        revision.profile = if revision.at_ms < change_ms { first.profile.clone() } else { later.clone() };
    }
    revisions
}

/// Gives the crawl another order than breadth first in one of four schedules; each revision changes it.
pub(crate) fn order(random: &mut Random, first: &mut Revision, mut revisions: Vec<Revision>) -> Vec<Revision> {
    if random.chance(25) {
        let orders = [CrawlOrder::BREADTH_FIRST, CrawlOrder::DEPTH_FIRST, CrawlOrder::BEST_FIRST];
        for revision in std::iter::once(first).chain(&mut revisions) {
            revision.order = orders[random.index(orders.len())];
        }
    }
    revisions
}

/// Builds the definition of a crawl as of this revision.
pub(crate) fn definition(crawl: &CrawlPlan, settings: &Settings, revision: &Revision, now: Millis) -> CrawlDefinition {
    CrawlDefinition {
        name: crawl.name.clone(),
        scope: Scope::Any,
        include: crawl.included.clone(),
        // A page's URL ends in its number, and no other page's does.
        exclude: revision.excluded.iter().map(|page| format!("/p{page}$")).collect(),
        max_depth: crawl.max_depth,
        check_external: !crawl.external.is_empty(),
        max_pages: revision.max_pages,
        max_pages_per_site: revision.max_pages_per_site,
        max_bytes: None,
        ends_at_ms: None,
        traps: orbweaver_messages::Traps::default(),
        paused: revision.paused,
        stopped: revision.stopped,
        deleted: false,
        profile: revision.profile.clone(),
        order: revision.order,
        share: CrawlDefinition::EQUAL_SHARE,
        revisit: revision.revisit.clone(),
        pins: Pins {
            partitions: settings.partitions,
            suffix_list: SUFFIX_LIST_VERSION.to_owned(),
            canonical_policy: Policy::STANDARD.to_string(),
            wide_domains: vec![],
        },
        created_at_ms: now,
        replaces: revision.replaces.clone(),
    }
}
