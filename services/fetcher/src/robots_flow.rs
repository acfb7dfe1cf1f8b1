//! Lookups of robots.txt files: in the store, else from the site, at the site's rate.

use std::{collections::VecDeque, sync::Arc};

use orbweaver_messages::{CLOCK_MARGIN_MS, Millis, OutcomeKind};
use orbweaver_politeness::robots::UNREACHABLE_MS;
use orbweaver_scope::Hold;
use orbweaver_stage::Step;
use orbweaver_store::RobotsRow;
use orbweaver_url::{SiteName, Url};

use crate::{
    active_dispatch::ActiveDispatch,
    archive,
    classify::{OWN_RETRY_MS, Verdict},
    client::{Attempt, FetchError, Purpose},
    config::millis,
    fetch_flow::row_of_end,
    gates::QueuedRequest,
    reason::Reason,
    records::outcome,
    robots::{Report, RobotsRequest, RobotsResult, judge, serves_stale},
    robots_cache::CachedRobots,
    robots_lookups::read,
    stage::{At, FetchTarget, FetcherStage},
    worker::Job,
};

impl FetcherStage {
    /// Adds a dispatch to the lookup of a robots.txt, which starts if there is none.
    pub(crate) fn look_up(&mut self, key: Arc<str>, active: Box<ActiveDispatch>, at: &mut At<'_>) {
        let profile = self.profile(&active).clone();
        if self.lookups.add(&key, active, &profile) {
            // Before each retry too: the next row is later than the one in the store (docs/protocol.md#event-times).
            at.acts.jobs.push(Job::Load { key });
        }
    }

    /// Handles the result of reading the store.
    pub(crate) fn robots_loaded(&mut self, key: &Arc<str>, row: Option<RobotsRow>, at: &mut At<'_>) {
        if let Some(row) = &row {
            // A row written by a clock that was ahead would apply for longer than its lifetime.
            if row.expires_ms > at.now && row.fetched_at_ms <= at.now.saturating_add(CLOCK_MARGIN_MS) {
                self.metrics.robots_found("store");
                return self.apply(key, row, row.expires_ms, at);
            }
        }
        self.metrics.robots_found("site");
        let Some(lookup) = self.lookups.get_mut(key) else { return };
        if let Some(row) = row {
            lookup.stored_ms = row.fetched_at_ms;
            lookup.stale = Some(row).filter(|row| serves_stale(row, at.now));
        }
        let mut url = lookup.url.clone();
        if let Some((target, redirects)) = self.robots.redirect(key, at.now) {
            (url, lookup.redirects) = (target, redirects);
        }
        self.ask_robots_at(key, url, at);
    }

    /// Applies a robots.txt until `until_ms`.
    pub(crate) fn apply(&mut self, key: &Arc<str>, row: &RobotsRow, until_ms: Millis, at: &mut At<'_>) {
        let known = read(row);
        self.robots.insert(key, known.clone(), until_ms, row.body.len());
        for active in self.lookups.end(key) {
            self.admit_with(active, (key, &known), at);
        }
    }

    /// Applies an expired robots.txt until the next request for it.
    fn apply_stale(&mut self, key: &Arc<str>, row: &RobotsRow, at: &mut At<'_>) {
        self.metrics.robots("stale");
        self.apply(key, row, at.now.saturating_add(UNREACHABLE_MS), at);
    }

    /// Admits a dispatch that waited for a robots.txt: everything but the robots.txt is checked again, since time has
    /// passed.
    fn admit_with(&mut self, active: Box<ActiveDispatch>, (key, known): (&Arc<str>, &CachedRobots), at: &mut At<'_>) {
        if !self.ownership.is_open(active.partition()) {
            self.leave(&active);
        } else if at.now > active.not_after_ms() {
            self.late(&active, at);
        } else if let Some(hold) = self.hold(&active) {
            self.defer(&active, Reason::Held(hold), hold.retry_at_ms(at.now), at);
        } else if self.profile(&active).robots_key(&active.url) != *key {
            // The profile of its crawl has changed since.
            self.admit(active, at);
        } else {
            self.obey(active, known, at);
        }
    }

    /// Queues a request for a robots.txt at `url`, at the rate of that URL's site. Ends the lookup if no dispatch can
    /// still use it: then no record of its site keeps the partition here, and another fetcher may send requests.
    pub(crate) fn ask_robots_at(&mut self, key: &Arc<str>, url: Url, at: &mut At<'_>) {
        self.defer_held(key, at);
        let Some(lookup) = self.lookups.get(key) else { return };
        let waits_until = lookup.waiting.iter().map(|active| active.not_after_ms()).max();
        let Some(not_after_ms) = waits_until.filter(|until| at.now <= *until) else {
            for active in self.lookups.end(key) {
                self.late(&active, at);
            }
            return;
        };
        let site: SiteName = self.config.wide_domains.site_of(&url).into();
        if self.controls.is_frozen(&site) {
            return self.defer_lookup(key, Reason::Held(Hold::Frozen), Hold::Frozen.retry_at_ms(at.now), at);
        }
        let own = lookup.dispatch_of(&site).map(|active| (active.ready.interval_ms, active.partition()));
        let known = own.map(|(interval_ms, _)| interval_ms).or_else(|| self.gates.interval_of(&site));
        let interval_ms = known.unwrap_or(self.config.default_interval_ms);
        let asked_ms = self.ownership.asked_ms(own.map(|(_, partition)| partition));
        let payload = FetchTarget::Robots(key.clone(), url);
        let queued_request = QueuedRequest {
            payload,
            not_before_ms: Millis::MIN,
            not_after_ms,
            interval_ms,
            crawl: lookup.crawl.clone(),
            share: self.controls.share(&lookup.crawl),
            own_ms: lookup.own_ms(),
            is_first: true,
        };
        let Err((_, until_ms)) = self.gates.push(&site, queued_request, asked_ms, at.now) else { return };
        match self.lookups.get_mut(key).and_then(|lookup| lookup.stale.take()) {
            Some(stale) => self.apply_stale(key, &stale, at),
            None => self.defer_lookup(key, Reason::Blocked, until_ms, at),
        }
    }

    /// Defers the dispatches that wait for a robots.txt and for which no request may be sent.
    fn defer_held(&mut self, key: &Arc<str>, at: &mut At<'_>) {
        let Some(lookup) = self.lookups.get_mut(key) else { return };
        let waiting = std::mem::take(&mut lookup.waiting);
        let (mut held, mut left) = (vec![], VecDeque::new());
        for active in waiting {
            match self.hold(&active) {
                Some(hold) => held.push((active, hold)),
                None => left.push_back(active),
            }
        }
        if let Some(lookup) = self.lookups.get_mut(key) {
            lookup.waiting = left;
        }
        for (active, hold) in held {
            self.defer(&active, Reason::Held(hold), hold.retry_at_ms(at.now), at);
        }
    }

    /// Handles the result of a request for a robots.txt.
    pub(crate) fn robots_answered(&mut self, key: &Arc<str>, url: &Url, attempt: &Attempt, at: &mut At<'_>) {
        if let Err(failure @ (FetchError::Memory | FetchError::Proxy)) = attempt.result {
            let retry_at_ms = attempt.ended_at_ms.saturating_add(OWN_RETRY_MS);
            return self.defer_lookup(key, Reason::Failed(failure), retry_at_ms, at);
        }
        let Some(lookup) = self.lookups.get(key) else { return };
        let sought = RobotsRequest { key, url, attempt, lookup, tries: self.robots.tries(key) };
        let finding = judge(sought, &self.config);
        let (own_site, stale) = (lookup.site.clone(), lookup.stale.clone());
        let site = self.config.wide_domains.site_of(url).into();
        let report = Report { site: &site, url, attempt, block: None };
        let is_stored = match (&finding, &stale) {
            (RobotsResult::Store(_, block), stale) => block.is_none() || stale.is_none(),
            _ => false,
        };
        self.archive_robots((key, is_stored), url, attempt, at);
        match (finding, stale) {
            (RobotsResult::Failing { block: None, .. }, Some(stale)) => self.apply_stale(key, &stale, at),
            (RobotsResult::Failing { block: Some(block), .. } | RobotsResult::Store(_, Some(block)), Some(stale)) => {
                // The block of another site, the target of redirects, holds up no page of this one.
                let retry_at_ms = if site == *own_site { block.until_ms } else { at.now };
                self.report(key, Report { block: Some(block), ..report }, Some(retry_at_ms), at);
                self.apply_stale(key, &stale, at);
            }
            (finding, _) => self.apply_finding(key, finding, report, at),
        }
    }

    /// Writes the response to a request for a robots.txt for the archive; if the file is stored, before that.
    fn archive_robots(&mut self, (key, is_stored): (&str, bool), url: &Url, attempt: &Attempt, at: &mut At<'_>) {
        let Some(lookup) = self.lookups.get_mut(key) else { return };
        let is_archived = |active: &ActiveDispatch| {
            active.dispatch().context.crawl == lookup.crawl && active.purpose() != Purpose::External
        };
        let of_crawl = lookup.waiting.iter().find(|active| is_archived(active));
        let Some(record) = of_crawl.and_then(|active| {
            archive::robots_record((active, &lookup.profile), url, attempt, self.config.record_limit)
        }) else {
            return;
        };
        if is_stored {
            lookup.archived = Some(record);
        } else {
            at.acts.produce(vec![record], vec![]);
        }
    }

    fn apply_finding(&mut self, key: &Arc<str>, finding: RobotsResult, report: Report<'_>, at: &mut At<'_>) {
        match finding {
            RobotsResult::Store(row, block) => {
                self.metrics.robots(if block.is_some() { "blocked" } else { "stored" });
                if block.is_some() {
                    self.report(key, Report { block, ..report }, None, at);
                }
                // The file applies once it is durable, but its crawl-delay from this response on, for all dispatches
                // of its site.
                if let CachedRobots::Rules(rules) = read(&row)
                    && let Some(delay_ms) = self.obeyed_delay(&rules)
                    && let Some(lookup) = self.lookups.get(key)
                {
                    let site = lookup.site.clone();
                    let partition = lookup.dispatch_of(&site).map(ActiveDispatch::partition);
                    let asked_ms = self.ownership.asked_ms(partition);
                    self.gates.learn_delay(&site, delay_ms, asked_ms, at.now);
                }
                self.store_robots(key.clone(), row, at);
            }
            RobotsResult::Follow(target) => {
                self.metrics.robots("redirected");
                let until_ms = self.none_until_ms(at.now);
                let Some(lookup) = self.lookups.get_mut(key) else { return };
                lookup.redirects += 1;
                let redirected = CachedRobots::Redirected(target.clone(), lookup.redirects, self.robots.tries(key));
                self.robots.insert(key, redirected, until_ms, target.as_str().len());
                // The dispatches of a partition that is being released wait for no further request.
                let waiting = std::mem::take(&mut lookup.waiting).into_iter();
                let (open, closed): (VecDeque<_>, VecDeque<_>) =
                    waiting.partition(|active| self.ownership.is_open(active.partition()));
                lookup.waiting = open;
                for active in closed {
                    self.leave(&active);
                }
                self.ask_robots_at(key, target, at);
            }
            RobotsResult::Failing { tries, retry_at_ms, block } => {
                let (finding, reason) =
                    if block.is_some() { ("blocked", Reason::Blocked) } else { ("failing", Reason::RobotsUnreachable) };
                self.metrics.robots(finding);
                self.robots.insert(key, CachedRobots::Failing(tries), retry_at_ms, 0);
                self.report(key, Report { block, ..report }, Some(retry_at_ms), at);
                self.defer_lookup(key, reason, retry_at_ms, at);
            }
            RobotsResult::Private => {
                self.metrics.robots("private");
                self.robots.insert(key, CachedRobots::Private, self.none_until_ms(at.now), 0);
                for active in self.lookups.end(key) {
                    self.refuse(&active, Reason::Failed(FetchError::Private), at);
                }
            }
            RobotsResult::UnknownHost => {
                self.metrics.robots("unknown_host");
                self.robots.insert(key, CachedRobots::UnknownHost, self.none_until_ms(at.now), 0);
                for active in self.lookups.end(key) {
                    self.end_unknown_host(&active, at);
                }
            }
        }
    }

    /// Returns the expiry time of a cached private address or unknown host.
    fn none_until_ms(&self, now: Millis) -> Millis {
        now.saturating_add(millis(self.config.robots_error_lifetime))
    }

    /// Ends a dispatch whose host does not exist, without a request.
    pub(crate) fn end_unknown_host(&mut self, active: &ActiveDispatch, at: &mut At<'_>) {
        self.end_passing(active, &Verdict::Gone(Reason::Failed(FetchError::UnknownHost)), None, at);
    }

    /// Ends one of the waiting dispatches with the report of an unsuccessful request, and applies a block. The report
    /// is the outcome of that dispatch or, if that is of another site or terminal, a record that is durable before it:
    /// the block is published once the dispatch has ended. It is deferred until `retry_at_ms`, since the failure
    /// concerns the authority and costs no URL an attempt; without `retry_at_ms` it is refused.
    fn report(&mut self, key: &str, report: Report<'_>, retry_at_ms: Option<Millis>, at: &mut At<'_>) {
        if let Some(active) = self.take_reporter(key, report.site) {
            let kind = if retry_at_ms.is_some() { OutcomeKind::Deferred } else { OutcomeKind::Refused };
            let mut outcome = outcome(&active, kind, Some(Reason::RobotsUnreachable), report.attempt.ended_at_ms);
            outcome.retry_at_ms = retry_at_ms;
            let mut steps = row_of_end(&outcome, None);
            if kind == OutcomeKind::Deferred && active.is_of(report.site) {
                report.add_to(&mut outcome);
            } else {
                steps.push(Step::Produce(vec![report.record(&outcome, self.ownership.partitions)]));
            }
            self.end(&active, &outcome, steps, at);
        }
        if let Some(block) = report.block {
            self.block(report.site, block.until_ms, at);
        }
    }

    /// Removes and returns a waiting dispatch: one whose outcome reports requests to the site, if there is one.
    fn take_reporter(&mut self, key: &str, site: &SiteName) -> Option<Box<ActiveDispatch>> {
        let waiting = &mut self.lookups.get_mut(key)?.waiting;
        let index = waiting.iter().position(|active| active.is_of(site)).unwrap_or(0);
        waiting.remove(index)
    }

    /// Defers all dispatches that wait for a robots.txt; their next delivery starts a new lookup.
    pub(crate) fn defer_lookup(&mut self, key: &str, reason: Reason, retry_at_ms: Millis, at: &mut At<'_>) {
        for active in self.lookups.end(key) {
            self.defer(&active, reason, retry_at_ms, at);
        }
    }

    /// Ends dispatches that have waited too long for a robots.txt. The lookup continues, for those that are in time.
    pub(crate) fn expire_lookups(&mut self, at: &mut At<'_>) {
        for active in self.lookups.expire(&self.requests.robots_keys(), at.now) {
            self.late(&active, at);
        }
    }
}
