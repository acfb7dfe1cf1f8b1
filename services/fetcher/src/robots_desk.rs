//! Lookups of robots.txt files: in the store, else from the site, at the site's rate.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use orbweaver_log::Partition;
use orbweaver_messages::{CLOCK_MARGIN_MS, Millis, OutcomeKind};
use orbweaver_politeness::robots::UNREACHABLE_MS;
use orbweaver_store::RobotsRow;
use orbweaver_url::Url;

use crate::{
    classify::{MEMORY_RETRY_MS, Verdict, block_ends},
    client::{Attempt, Failure},
    gates::Wish,
    records::{add_times, outcome},
    robots::{Finding, Sought, judge, read, serves_stale},
    robots_cache::Known,
    stage::{At, FetcherStage, Wanted},
    visit::Visit,
    worker::Job,
};

/// A lookup of a robots.txt, and the dispatches that wait for it.
#[derive(Debug)]
pub(crate) struct Lookup {
    waiting: VecDeque<Box<Visit>>,
    /// Site of the authority.
    site: Arc<str>,
    partition: Partition,
    interval_ms: u64,
    /// URL of the first request.
    url: Url,
    redirects: u8,
    /// Expired row of the store, which applies while the authority is unreachable.
    stale: Option<RobotsRow>,
    /// Event time of the row in the store, in milliseconds since the Unix epoch; 0 if none is known.
    stored_ms: Millis,
}

const UNREACHABLE: &str = "robots_unreachable";

impl FetcherStage {
    /// Adds a dispatch to the lookup of a robots.txt, which starts if there is none.
    pub(crate) fn look_up(&mut self, authority: Arc<str>, visit: Box<Visit>, at: &mut At<'_>) {
        if let Some(lookup) = self.lookups.get_mut(&authority) {
            return lookup.waiting.push_back(visit);
        }
        let mut url = visit.url.clone();
        url.set_path("/robots.txt");
        url.set_query(None);
        url.set_fragment(None);
        let lookup = Lookup {
            site: visit.site.clone(),
            partition: visit.origin.place.partition,
            interval_ms: visit.ready.interval_ms,
            url,
            redirects: 0,
            stale: None,
            stored_ms: 0,
            waiting: VecDeque::from([visit]),
        };
        self.lookups.insert(authority.clone(), lookup);
        if self.robots.failures(&authority) > 0 {
            // Then the store has none.
            self.ask_robots(&authority, at);
        } else {
            at.acts.jobs.push(Job::Load { authority });
        }
    }

    /// Handles the result of reading the store.
    pub(crate) fn robots_loaded(&mut self, authority: &Arc<str>, row: Option<RobotsRow>, at: &mut At<'_>) {
        let Some(row) = row else { return self.ask_robots(authority, at) };
        // A row written by a clock that was ahead would apply for longer than its lifetime.
        if row.expires_ms > at.now && row.fetched_at_ms <= at.now.saturating_add(CLOCK_MARGIN_MS) {
            return self.robots_stored(authority, &row, at);
        }
        if let Some(lookup) = self.lookups.get_mut(authority) {
            lookup.stored_ms = row.fetched_at_ms;
            lookup.stale = Some(row).filter(|row| serves_stale(row, at.now));
        }
        self.ask_robots(authority, at);
    }

    /// Applies a robots.txt that is in the store.
    pub(crate) fn robots_stored(&mut self, authority: &Arc<str>, row: &RobotsRow, at: &mut At<'_>) {
        self.apply(authority, row, row.expires_ms, at);
    }

    /// Applies a robots.txt until `until_ms`.
    fn apply(&mut self, authority: &Arc<str>, row: &RobotsRow, until_ms: Millis, at: &mut At<'_>) {
        let known = read(row, &self.agent);
        self.know(authority, &known, until_ms, row.body.len());
        for visit in self.end_lookup(authority) {
            self.admit_with(visit, &known, at);
        }
    }

    /// Admits a dispatch that waited for a robots.txt: everything but the robots.txt is checked again, since time has
    /// passed.
    fn admit_with(&mut self, visit: Box<Visit>, known: &Known, at: &mut At<'_>) {
        if !self.is_open(visit.origin.place.partition) {
            self.leave(&visit);
        } else if at.now > visit.not_after_ms() {
            self.late(&visit, at);
        } else {
            self.obey(visit, known, at);
        }
    }

    fn know(&mut self, authority: &Arc<str>, known: &Known, until_ms: Millis, bytes: usize) {
        self.robots.insert(authority, known.clone(), until_ms, bytes);
    }

    fn end_lookup(&mut self, authority: &str) -> VecDeque<Box<Visit>> {
        self.lookups.remove(authority).map(|lookup| lookup.waiting).unwrap_or_default()
    }

    /// Requests a robots.txt at its first URL.
    fn ask_robots(&mut self, authority: &Arc<str>, at: &mut At<'_>) {
        let Some(lookup) = self.lookups.get(authority) else { return };
        let url = lookup.url.clone();
        self.ask_robots_at(authority, url, at);
    }

    /// Queues a request for a robots.txt at `url`, at the rate of that URL's site. Ends the lookup if no dispatch can
    /// still use it: then no record of its site keeps the partition here, and another fetcher may send requests.
    pub(crate) fn ask_robots_at(&mut self, authority: &Arc<str>, url: Url, at: &mut At<'_>) {
        let Some(lookup) = self.lookups.get(authority) else { return };
        let waits_until = lookup.waiting.iter().map(|visit| visit.not_after_ms()).max();
        let Some(not_after_ms) = waits_until.filter(|until| at.now <= *until) else {
            for visit in self.end_lookup(authority) {
                self.late(&visit, at);
            }
            return;
        };
        let site = self.config.wide_domains.site_of(&url).into_owned();
        let own = (*site == *lookup.site).then_some((lookup.interval_ms, lookup.partition));
        let known = own.map(|(interval_ms, _)| interval_ms).or_else(|| self.gates.interval_of(&site));
        let interval_ms = known.unwrap_or(self.config.default_interval_ms);
        let asked_ms = self.asked_ms(own.map(|(_, partition)| partition));
        let payload = Wanted::Robots(authority.clone(), url);
        let wish = Wish { payload, not_before_ms: Millis::MIN, not_after_ms, interval_ms, is_first: true };
        if let Err(blocked) = self.gates.push(&site, wish, asked_ms, at.now) {
            self.defer_lookup(authority, "blocked", blocked.until_ms, at);
        }
    }

    /// Handles the result of a request for a robots.txt.
    pub(crate) fn robots_answered(&mut self, authority: &Arc<str>, url: &Url, attempt: &Attempt, at: &mut At<'_>) {
        if attempt.result == Err(Failure::Memory) {
            let retry_at_ms = attempt.ended_at_ms.saturating_add(MEMORY_RETRY_MS);
            return self.defer_lookup(authority, Failure::Memory.reason(), retry_at_ms, at);
        }
        let Some(lookup) = self.lookups.get(authority) else { return };
        let (site, redirects, stored_ms) = (lookup.site.clone(), lookup.redirects, lookup.stored_ms);
        let stale = lookup.stale.clone();
        let on_own_site = self.config.wide_domains.site_of(url) == *site;
        if !on_own_site {
            self.block_elsewhere(url, attempt, at);
        }
        let failures = self.robots.failures(authority);
        let sought = Sought { authority, url, redirects, on_own_site, failures, stored_ms };
        match (judge(sought, attempt, &self.config, attempt.ended_at_ms), stale) {
            (Finding::Failing { .. }, Some(stale)) => {
                self.metrics.robots("stale");
                self.apply(authority, &stale, at.now.saturating_add(UNREACHABLE_MS), at);
            }
            (Finding::Blocked { until_ms, .. }, Some(stale)) => {
                self.metrics.robots("stale");
                self.block(&site, until_ms, at);
                self.apply(authority, &stale, at.now.saturating_add(UNREACHABLE_MS), at);
            }
            (finding, _) => self.apply_finding(authority, finding, attempt, at),
        }
    }

    /// Applies a block by another site, the target of redirects. No outcome names that site, so no other process
    /// learns of the block.
    fn block_elsewhere(&mut self, url: &Url, attempt: &Attempt, at: &mut At<'_>) {
        if let Ok(answer) = &attempt.result
            && matches!(answer.status, 429 | 503)
        {
            let (until_ms, _) = block_ends(answer.retry_after.as_deref(), 0, attempt.ended_at_ms);
            let site = self.config.wide_domains.site_of(url).into_owned();
            self.block(&site, until_ms, at);
        }
    }

    fn apply_finding(&mut self, authority: &Arc<str>, finding: Finding, attempt: &Attempt, at: &mut At<'_>) {
        let Some(lookup) = self.lookups.get_mut(authority) else { return };
        match finding {
            Finding::Store(row) => {
                self.metrics.robots("stored");
                // The file applies once it is durable, but its crawl-delay from this response on, for all dispatches
                // of its site.
                if let Known::Rules(rules) = read(&row, &self.agent)
                    && let Some(delay_ms) = rules.crawl_delay_ms()
                {
                    let (site, partition) = (lookup.site.clone(), lookup.partition);
                    let asked_ms = self.asked_ms(Some(partition));
                    self.gates.learn_delay(&site, delay_ms, asked_ms, at.now);
                }
                self.store_robots(authority.clone(), row, at);
            }
            Finding::Follow(_) if !self.opened.contains_key(&lookup.partition) => {
                for visit in self.end_lookup(authority) {
                    self.leave(&visit);
                }
            }
            Finding::Follow(target) => {
                self.metrics.robots("redirected");
                lookup.redirects += 1;
                self.ask_robots_at(authority, target, at);
            }
            Finding::Failing { failures, retry_at_ms } => {
                self.metrics.robots("failing");
                self.know(authority, &Known::Failing(failures), retry_at_ms, 0);
                self.robots_failed(authority, attempt, retry_at_ms, at);
            }
            Finding::Blocked { failures, until_ms, told, unreachable } => {
                self.metrics.robots("blocked");
                let site = lookup.site.clone();
                match unreachable {
                    Some(row) => self.store_robots(authority.clone(), row, at),
                    None => {
                        self.know(authority, &Known::Failing(failures), until_ms, 0);
                        self.robots_blocked(authority, attempt, (until_ms, told), at);
                    }
                }
                self.block(&site, until_ms, at);
            }
            Finding::Private => {
                self.metrics.robots("private");
                self.know(authority, &Known::Private, self.none_until_ms(at.now), 0);
                for visit in self.end_lookup(authority) {
                    self.refuse(&visit, "private_address", at);
                }
            }
            Finding::UnknownHost => {
                self.metrics.robots("unknown_host");
                self.know(authority, &Known::UnknownHost, self.none_until_ms(at.now), 0);
                for visit in self.end_lookup(authority) {
                    self.end_unknown_host(&visit, at);
                }
            }
        }
    }

    /// Returns the expiry time of a cached private address or unknown host.
    fn none_until_ms(&self, now: Millis) -> Millis {
        let lifetime = self.config.robots_error_lifetime.as_millis();
        now.saturating_add(Millis::try_from(lifetime).unwrap_or(Millis::MAX))
    }

    /// Ends a dispatch whose host does not exist, without a request.
    pub(crate) fn end_unknown_host(&mut self, visit: &Visit, at: &mut At<'_>) {
        self.end_passing(visit, Verdict::Gone(Failure::UnknownHost.reason().into()), None, at);
    }

    /// Defers all waiting dispatches until the retry: the failure concerns the authority, and costs no URL an attempt.
    fn robots_failed(&mut self, authority: &str, attempt: &Attempt, retry_at_ms: Millis, at: &mut At<'_>) {
        let mut waiting = self.end_lookup(authority);
        if let Some(first) = waiting.pop_front() {
            let mut outcome = outcome(&first, OutcomeKind::Deferred, Some(UNREACHABLE), attempt.ended_at_ms);
            outcome.retry_at_ms = Some(retry_at_ms);
            add_times(&mut outcome, attempt);
            self.end(&first, &outcome, vec![], at);
        }
        for visit in waiting {
            self.defer(&visit, UNREACHABLE, retry_at_ms, at);
        }
    }

    /// Defers all waiting dispatches until the end of a block, like a refusal of a page; `told`: the site named that
    /// end itself.
    fn robots_blocked(
        &mut self,
        authority: &str,
        attempt: &Attempt,
        (until_ms, told): (Millis, bool),
        at: &mut At<'_>,
    ) {
        let mut waiting = self.end_lookup(authority);
        if let Some(first) = waiting.pop_front() {
            // From this outcome the rate-limiter learns of the block, and of its duration.
            let mut outcome = outcome(&first, OutcomeKind::Deferred, Some(UNREACHABLE), attempt.ended_at_ms);
            outcome.retry_at_ms = Some(until_ms);
            outcome.blocked_until_ms = told.then_some(until_ms);
            outcome.status = attempt.result.as_ref().ok().map(|answer| answer.status);
            add_times(&mut outcome, attempt);
            self.end(&first, &outcome, vec![], at);
        }
        for visit in waiting {
            self.defer(&visit, "blocked", until_ms, at);
        }
    }

    /// Defers all dispatches that wait for a robots.txt; their next delivery starts a new lookup.
    pub(crate) fn defer_lookup(&mut self, authority: &str, reason: &str, retry_at_ms: Millis, at: &mut At<'_>) {
        for visit in self.end_lookup(authority) {
            self.defer(&visit, reason, retry_at_ms, at);
        }
    }

    /// Ends dispatches that have waited too long for a robots.txt. The lookup continues, for those that are in time.
    /// While its request is in flight, one dispatch stays: its record keeps the partition here until the response has
    /// arrived.
    pub(crate) fn expire_lookups(&mut self, at: &mut At<'_>) {
        let mut late = vec![];
        let asked = self.robots_in_flight();
        for (authority, lookup) in &mut self.lookups {
            let kept = usize::from(asked.contains(authority));
            while lookup.waiting.len() > kept
                && lookup.waiting.front().is_some_and(|visit| at.now > visit.not_after_ms())
            {
                late.extend(lookup.waiting.pop_front());
            }
        }
        for visit in late {
            self.late(&visit, at);
        }
    }

    /// Removes and returns the waiting dispatches of a partition, and ends lookups without other dispatches. Of those
    /// that wait for a request in flight (`asked`), one stays until the response has arrived: its record keeps the
    /// partition here.
    pub(crate) fn leave_lookups(&mut self, partition: Partition, asked: &HashSet<Arc<str>>) -> VecDeque<Box<Visit>> {
        let mut left = VecDeque::new();
        self.lookups.retain(|authority, lookup| {
            let waiting = std::mem::take(&mut lookup.waiting).into_iter();
            let (mut leaving, mut staying): (VecDeque<_>, VecDeque<_>) =
                waiting.partition(|visit| visit.origin.place.partition == partition);
            if asked.contains(authority) {
                staying.extend(leaving.pop_front());
            }
            lookup.waiting = staying;
            let orphaned = lookup.waiting.is_empty() && (lookup.partition == partition || !leaving.is_empty());
            left.append(&mut leaving);
            !orphaned
        });
        left
    }
}
