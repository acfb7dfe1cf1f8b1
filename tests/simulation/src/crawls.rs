//! The crawls of a schedule: each has definitions, seeds, agents and a truth of its own, on one web.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use orbweaver_messages::{CrawlDefinition, FetchProfile, Millis, RevisitPolicy};
use orbweaver_politeness::{UserAgent, agent_token};
use orbweaver_url::CrawlName;

use crate::{
    random::Random,
    revisions::{Revision, definition, pause, revisit, stop},
    scenario::Scenario,
    web::{Expectation, Served, Web},
};

/// A crawl and the changes of its definition. No two crawls of a schedule have an agent in common.
#[derive(Debug, Clone)]
pub struct CrawlPlan {
    pub name: CrawlName,
    /// Numbers of the seed pages.
    pub seeds: Vec<usize>,
    /// Maximum link depth from a seed.
    pub max_depth: Option<u16>,
    /// Definition at the start.
    pub first: Revision,
    /// Changes during the run.
    pub revisions: Vec<Revision>,
    /// Numbers of the pages that are out of scope; if there are any, links to them are checked.
    pub external: BTreeSet<usize>,
    /// Include patterns of the others.
    pub included: Vec<String>,
}

impl CrawlPlan {
    /// Returns a crawl without seeds and limits.
    #[must_use]
    pub fn new(name: CrawlName) -> Self {
        Self {
            name,
            seeds: vec![],
            max_depth: None,
            first: Revision::default(),
            revisions: vec![],
            external: BTreeSet::new(),
            included: vec![],
        }
    }

    /// Puts a quarter of the pages out of scope in three of ten crawls, with what they redirect to.
    fn checking(self, random: &mut Random, web: &Web) -> Self {
        if !random.chance(30) {
            return self;
        }
        // Seeds, and what they redirect to, are in scope.
        let inside: BTreeSet<usize> = self.seeds.iter().flat_map(|seed| web.redirects_from(*seed)).collect();
        let mut external = BTreeSet::new();
        for page in 0..web.pages.len() {
            let pages = web.redirects_from(page);
            if random.chance(25) && inside.is_disjoint(&pages) {
                external.extend(pages);
            }
        }
        let included = (0..web.pages.len()).filter(|page| !external.contains(page)).map(|page| format!("/p{page}$"));
        let included = included.chain(["/sitemap".to_owned()]).collect();
        Self { external, included, ..self }
    }
}

/// Draws a second crawl in four of ten schedules, with an interval from half to twice that of the services; it is paused and
/// stopped as often as the first. In half of these schedules it has revisits, in three of ten a page cap per site.
pub(crate) fn second(random: &mut Random, web: &Web) -> Option<CrawlPlan> {
    if !random.chance(40) {
        return None;
    }
    let profile = FetchProfile {
        user_agent: Some("other/1.0".to_owned()),
        interval_ms: Some((web.interval_ms * random.between(2, 8) / 4).max(100)),
        ..FetchProfile::default()
    };
    let mut first = Revision { profile, ..Revision::default() };
    let once = revisit(&mut random.split("revisits"), &mut first);
    let mut site_cap = random.split("site cap");
    first.max_pages_per_site = site_cap.chance(30).then(|| site_cap.between(1, 6));
    let revisions = pause(random, &first, vec![]);
    let mut revisions = stop(random, &first, revisions);
    let last = revisions.last().unwrap_or(&first).clone();
    revisions.extend(once.filter(|_| !last.stopped).map(|once| Revision { at_ms: once.at_ms, revisit: None, ..last }));
    let seeds = (0..random.between(1, 3)).map(|_| random.index(web.pages.len())).collect();
    let max_depth = random.chance(30).then(|| random.pick(&[1, 2, 3]));
    let plan = CrawlPlan {
        seeds,
        max_depth,
        first,
        revisions,
        ..CrawlPlan::new(CrawlName::new("second").unwrap_or_default())
    };
    Some(plan.checking(&mut random.split("external"), web))
}

/// Returns the product token of the user agent that a profile demands.
pub(crate) fn token(profile: &FetchProfile) -> String {
    agent_token(profile.user_agent.as_deref().unwrap_or(&UserAgent::default()))
}

/// A crawl of a running schedule.
pub(crate) struct Crawl {
    plan: CrawlPlan,
    pub(crate) expected: Arc<Expectation>,
    pending: VecDeque<Revision>,
    /// Definitions that were written, each with its time.
    pub(crate) revised: Vec<(Millis, Revision)>,
}

impl Crawl {
    pub(crate) fn of(plan: CrawlPlan, scenario: &Scenario, served: &Arc<Served>) -> Self {
        let (seeds, external) = (plan.seeds.clone(), plan.external.clone());
        let web = Web { seeds, external, max_depth: plan.max_depth, ..scenario.web.clone() };
        // Any page may be missing.
        let is_cut = plan.first.max_pages_per_site.is_some() || plan.revisions.iter().any(|revision| revision.stopped);
        let cut = 0..if is_cut { web.pages.len() } else { 0 };
        let excluded = plan.revisions.iter().flat_map(|revision| revision.excluded.iter());
        let revisions = std::iter::once(&plan.first).chain(&plan.revisions);
        let expected = Expectation {
            crawl: plan.name.clone(),
            agents: revisions.map(|revision| token(&revision.profile)).collect(),
            excluded: excluded.chain(&scenario.rejected).copied().chain(cut).collect(),
            max_attempts: scenario.settings.max_attempts,
            served: served.clone(),
            has_revisits: plan.first.revisit.is_some(),
            web,
        };
        Self { expected: Arc::new(expected), pending: plan.revisions.clone().into(), revised: vec![], plan }
    }

    pub(crate) fn name(&self) -> &CrawlName {
        &self.plan.name
    }

    /// Returns its revisit policy at the start.
    pub(crate) fn revisit(&self) -> Option<&RevisitPolicy> {
        self.plan.first.revisit.as_ref()
    }

    /// Returns the page cap per site.
    pub(crate) fn max_pages_per_site(&self) -> Option<u64> {
        self.plan.first.max_pages_per_site
    }

    /// Returns the URLs of its seeds, each with the number of its page.
    pub(crate) fn seeds(&self) -> impl Iterator<Item = (usize, &str)> {
        let pages = &self.expected.web.pages;
        self.plan.seeds.iter().map(|&seed| (seed, pages[seed].url.as_str()))
    }

    /// Returns `true` if no change is left to be written.
    pub(crate) fn is_settled(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns the definition at the start.
    pub(crate) fn define(&mut self, scenario: &Scenario, now: Millis) -> CrawlDefinition {
        self.write(self.plan.first.clone(), scenario, now)
    }

    /// Returns the next definition that is due.
    pub(crate) fn revise(&mut self, scenario: &Scenario, now_ms: u64, now: Millis) -> Option<CrawlDefinition> {
        let revision = self.pending.pop_front_if(|revision| revision.at_ms <= now_ms)?;
        Some(self.write(revision, scenario, now))
    }

    fn write(&mut self, revision: Revision, scenario: &Scenario, now: Millis) -> CrawlDefinition {
        let definition = definition(&self.plan, &scenario.settings, &revision, now);
        self.revised.push((now, revision));
        definition
    }
}
