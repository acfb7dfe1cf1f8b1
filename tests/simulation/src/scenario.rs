//! Parameters of a schedule, drawn from its seed.

use std::collections::BTreeSet;

use orbweaver_log::RECORD_LIMIT;
use orbweaver_messages::Millis;
use orbweaver_url::CrawlName;

use crate::{
    broken::Broken,
    crawls::{CrawlPlan, second},
    faults::{Fault, Planned},
    network::Weather,
    random::Random,
    revisions::{Revision, cap, order, pause, profile, stop},
    settings::Settings,
    web::Web,
};

/// Virtual time within which a schedule must be complete, in milliseconds.
const WITHIN_MS: u64 = 4 * 3_600_000;
/// Time within which a definition applies at every process, whatever the faults: a process that does not read `crawl.control`
/// owns its partitions for a session at most, and sends for half of it.
const REVISED_WITHIN_MS: Millis = 45_000;
/// Default `min.compaction.lag.ms`; longer than any failover.
const COMPACTION_LAG_MS: Millis = 120_000;
/// `delete.retention.ms`, shorter than by default (a day), so that tombstones go within a schedule.
const TOMBSTONES_KEPT_MS: Millis = 3_600_000;

/// Parameters of a schedule. Tests change those that matter to them.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Seed of all randomness.
    pub seed: u64,
    pub web: Web,
    /// Settings of the services.
    pub settings: Settings,
    /// Latency of messages.
    pub weather: Weather,
    /// Whether a group's free topic-partitions are assigned to a member in one event, not one by one.
    pub assigned_at_once: bool,
    /// Faults, with their times.
    pub faults: Vec<Planned>,
    /// Changes of the first crawl's definition during the run.
    pub revisions: Vec<Revision>,
    /// Time within which a definition applies at every process, in milliseconds.
    pub revised_within_ms: Millis,
    /// Definition of the first crawl at the start.
    pub first: Revision,
    /// A second crawl of the same web.
    pub second: Option<CrawlPlan>,
    /// Largest record that the log accepts, in bytes.
    pub record_limit: usize,
    /// Time during which a new reader returns nothing, because its leader lags, in milliseconds.
    pub readers_lag_ms: u64,
    /// The page whose record crashes the extractor that receives it.
    pub poison: Option<usize>,
    /// Pages whose records become dead letters; they, and pages reachable only through them, may be missing.
    pub rejected: BTreeSet<usize>,
    /// Whether the seeds are deleted before any process reads them.
    pub seeds_expired: bool,
    /// Virtual time within which the schedule must be complete, in milliseconds.
    pub within_ms: u64,
    /// Disabled rules.
    pub broken: Broken,
    /// Age up to which records of a compacted topic are kept (`min.compaction.lag.ms`), in milliseconds.
    pub compaction_lag_ms: Millis,
    /// Age up to which tombstones are kept (`delete.retention.ms`), in milliseconds. An index is used up to half of it.
    pub tombstones_kept_ms: Millis,
}

impl Scenario {
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let random = Random::new(seed);
        let mut web = Web::make(&mut random.split("web"));
        let mut settings = Settings::draw(&mut random.split("settings"), web.interval_ms);
        web.doom(&mut random.split("doomed"), settings.max_attempts);
        let faults = Fault::plan(&mut random.split("faults"));
        let revisions = Revision::draw(&mut random.split("revisions"), &web);
        let record_limit = limit(&mut random.split("record limit"), &mut web);
        settings.record_limit = record_limit;
        settings.pass_links = random.split("pass links").pick(&[1, 3, settings.pass_links, settings.pass_links]);
        let (max_pages, revisions) = cap(&mut random.split("cap"), &web, revisions);
        let mut first = Revision { max_pages, ..Revision::default() };
        let revisions = pause(&mut random.split("pause"), &first, revisions);
        let revisions = stop(&mut random.split("stop"), &first, revisions);
        let revisions = profile(&mut random.split("profile"), web.interval_ms, &mut first, revisions);
        let revisions = order(&mut random.split("order"), &mut first, revisions);
        let second = second(&mut random.split("second crawl"), &web);
        let has_revisits = second.as_ref().is_some_and(|second| second.first.revisit.is_some());
        web.version_ms = has_revisits.then(|| random.split("versions").between(30_000, 300_000));
        let has_depth = web.max_depth.or(second.as_ref().and_then(|second| second.max_depth)).is_some();
        let mut sitemaps = random.split("sitemaps");
        if !has_depth && !has_revisits && sitemaps.chance(40) {
            web.add_sitemaps(&mut sitemaps);
        }
        let weather = random.split("weather").pick(&[Weather::Fair, Weather::Rough]);
        Self {
            seed,
            web,
            settings,
            weather,
            assigned_at_once: random.split("assigned at once").chance(30),
            faults,
            revisions,
            revised_within_ms: REVISED_WITHIN_MS,
            first,
            second,
            record_limit,
            readers_lag_ms: 0,
            poison: None,
            rejected: BTreeSet::new(),
            seeds_expired: false,
            within_ms: WITHIN_MS,
            broken: Broken::default(),
            compaction_lag_ms: COMPACTION_LAG_MS,
            tombstones_kept_ms: TOMBSTONES_KEPT_MS,
        }
    }

    /// Returns the crawls, the first one first.
    pub(crate) fn crawls(&self) -> Vec<CrawlPlan> {
        let first = CrawlPlan {
            seeds: self.web.seeds.clone(),
            max_depth: self.web.max_depth,
            first: self.first.clone(),
            revisions: self.revisions.clone(),
            ..CrawlPlan::new(CrawlName::default())
        };
        std::iter::once(first).chain(self.second.clone()).collect()
    }
}

/// Returns the sum by which clocks are set back, in milliseconds: URLs that were deferred before are due by the earlier
/// time (docs/runbook.md, "A machine's clock was set").
pub(crate) fn set_back_ms(faults: &[Planned]) -> u64 {
    let set_back = |planned: &Planned| if let Fault::SetClocks(by_ms) = planned.fault { by_ms.min(0) } else { 0 };
    faults.iter().map(set_back).sum::<i64>().unsigned_abs()
}

/// Draws a record limit, in bytes. In one of seven schedules it is small, and many pages are larger.
fn limit(random: &mut Random, web: &mut Web) -> usize {
    if !random.chance(15) {
        return RECORD_LIMIT;
    }
    let limit = random.pick(&[4, 8, 16]) << 10;
    for page in &mut web.pages {
        page.text_bytes = if random.chance(50) { random.index(6 * limit) } else { 0 };
    }
    limit
}
