//! Course of a dispatch: admission, request, conclusion.

use std::sync::Arc;

use orbweaver_messages::{Millis, Outcome, OutcomeKind};
use orbweaver_politeness::robots::AgentRules;
use orbweaver_scope::Hold;
use orbweaver_stage::Step;
use orbweaver_store::Write;
use orbweaver_url::{CrawlName, SiteName};
use url::Position;

use crate::{
    active_dispatch::ActiveDispatch,
    address, archive,
    archive_lag::RETRY_MS,
    body::PackedBody,
    classify::{Verdict, classify, retry_at, transient_failure},
    client::{Attempt, Body, FetchError, HttpResponse, Purpose},
    gates::QueuedRequest,
    purposes::PurposeRefusal,
    reason::Reason,
    records::{
        add_answer, add_times, attempted, discovered_record, found_record, found_version, is_known, of_own_site,
        outcome, outcome_record, page_record, page_row, redirect_row,
    },
    robots::{Block, Report},
    robots_cache::CachedRobots,
    stage::{At, FetchTarget, FetcherStage},
};

/// Time for which a site pauses whose request had no place at its address in time, in milliseconds: its dispatches would
/// otherwise take the place of those of other addresses in the frontier.
const ADDRESS_RETRY_MS: Millis = 10_000;

impl FetcherStage {
    /// Decides the next step of a dispatch before its next request.
    pub(crate) fn admit(&mut self, active: Box<ActiveDispatch>, at: &mut At<'_>) {
        if !self.ownership.is_open(active.partition()) {
            return self.leave(&active);
        }
        if at.now > active.not_after_ms() {
            return self.late(&active, at);
        }
        if let Some(hold) = self.hold(&active) {
            return self.defer(&active, Reason::Held(hold), hold.retry_at_ms(at.now), at);
        }
        if self.archive_lag.is_over() && self.profile(&active).archive {
            return self.defer(&active, Reason::ArchiveLag, at.now.saturating_add(RETRY_MS), at);
        }
        if let Some(until_ms) = self.gates.blocked_until(&active.site, at.now) {
            return self.defer(&active, Reason::Blocked, until_ms, at);
        }
        if self.config.refuses(&active.url) {
            return self.refuse(&active, Reason::Failed(FetchError::Private), at);
        }
        if address::has_bad_port(&active.url) {
            return self.refuse(&active, Reason::Port, at);
        }
        // The client would send the request, and then withhold the response.
        if orbweaver_url::is_unmapped(&active.url) {
            return self.refuse(&active, Reason::Host, at);
        }
        let profile = self.profile(&active);
        if profile.ignores_robots {
            return self.queue(active, at);
        }
        let key = profile.robots_key(&active.url);
        let (known, until_ms) = match self.robots.get(&key, at.now) {
            None | Some((CachedRobots::Redirected(..), _)) => return self.look_up(key, active, at),
            Some(known) => known,
        };
        self.metrics.robots_found("memory");
        match known {
            // The last request failed, and its retry is not due yet.
            CachedRobots::Failing(_) => self.defer(&active, Reason::RobotsUnreachable, until_ms, at),
            known => self.obey(active, &known, at),
        }
    }

    /// Applies the state of the robots.txt.
    pub(crate) fn obey(&mut self, mut active: Box<ActiveDispatch>, known: &CachedRobots, at: &mut At<'_>) {
        match known {
            CachedRobots::Rules(rules) => self.obey_rules(active, rules, at),
            CachedRobots::Private => self.refuse(&active, Reason::Failed(FetchError::Private), at),
            CachedRobots::UnknownHost => self.end_unknown_host(&active, at),
            CachedRobots::Unreachable | CachedRobots::Failing(_) | CachedRobots::Redirected(..) => {
                active.set_crawl_delay(None);
                self.refuse(&active, Reason::RobotsUnreachable, at);
            }
        }
    }

    fn obey_rules(&mut self, mut active: Box<ActiveDispatch>, rules: &Arc<AgentRules>, at: &mut At<'_>) {
        let delay_ms = self.obeyed_delay(rules);
        active.set_crawl_delay(delay_ms);
        let is_page = active.dispatch().context.sighting.is_page();
        if self.profile(&active).sitemaps && is_page && !active.is_elsewhere() {
            let found = self.announced.sitemaps(&active, rules, &self.config.wide_domains, at.now);
            active.records.extend(found.iter().map(|found| found_record(found, self.ownership.partitions)));
        }
        if !rules.verdict(&active.url[Position::BeforePath..Position::AfterQuery]).allowed {
            return self.refuse(&active, Reason::Robots, at);
        }
        if let Some(refusal) = self.refusal_by_robots(&active, rules) {
            self.metrics.refusal(refusal);
            return self.refuse(&active, Reason::Purpose, at);
        }
        if delay_ms != rules.crawl_delay_ms() {
            return self.refuse(&active, Reason::CrawlDelay, at);
        }
        if let Some(delay_ms) = delay_ms {
            let asked_ms = self.site_asked_ms(&active);
            self.gates.learn_delay(&active.site, delay_ms, asked_ms, at.now);
        }
        self.queue(active, at);
    }

    /// Returns the refusal of the next request by the statements of a robots.txt on the use of its pages. A URL that is
    /// named as a sitemap is no page, and nothing is kept of an external one.
    fn refusal_by_robots(&self, active: &ActiveDispatch, rules: &AgentRules) -> Option<PurposeRefusal> {
        let profile = self.profile(active);
        let is_kept = !matches!(active.purpose(), Purpose::Sitemap | Purpose::External);
        if profile.purposes.is_empty() || !is_kept {
            return None;
        }
        PurposeRefusal::by_robots(profile, rules.refused(&active.url[Position::BeforePath..Position::AfterQuery]))
    }

    /// Returns the crawl-delay of a robots.txt in milliseconds, unless it is longer than `max_crawl_delay`: then its URLs
    /// are refused, and other hosts of the site are not slowed down.
    pub(crate) fn obeyed_delay(&self, rules: &AgentRules) -> Option<u64> {
        let max_ms = self.config.max_crawl_delay.as_millis();
        rules.crawl_delay_ms().filter(|delay_ms| u128::from(*delay_ms) <= max_ms)
    }

    /// Returns the time at which the site of a dispatch's next request counts as requested if the site is unknown.
    fn site_asked_ms(&self, active: &ActiveDispatch) -> Millis {
        self.ownership.asked_ms((!active.is_elsewhere()).then_some(active.partition()))
    }

    /// Returns the interval of the site of a dispatch's next request, in milliseconds: that of the dispatch holds for
    /// its own site.
    fn interval_ms(&self, active: &ActiveDispatch) -> u64 {
        if active.is_elsewhere() {
            self.gates.interval_of(&active.site).unwrap_or(self.config.default_interval_ms)
        } else {
            active.ready.interval_ms
        }
    }

    /// Returns the interval of the crawl of a dispatch at each site, in milliseconds; 0: none.
    fn own_ms(&self, active: &ActiveDispatch) -> u64 {
        match self.profile(active).interval_ms {
            0 => active.ready.crawl_interval_ms,
            interval_ms => interval_ms,
        }
    }

    fn queue(&mut self, active: Box<ActiveDispatch>, at: &mut At<'_>) {
        let asked_ms = self.site_asked_ms(&active);
        let site = active.site.clone();
        let queued_request = QueuedRequest {
            not_before_ms: active.ready.not_before_ms,
            not_after_ms: active.not_after_ms(),
            interval_ms: self.interval_ms(&active),
            crawl: active.dispatch().context.crawl.clone(),
            share: self.controls.share(&active.dispatch().context.crawl),
            own_ms: self.own_ms(&active),
            is_first: !active.before.is_empty(),
            payload: FetchTarget::Page(active),
        };
        if let Err((QueuedRequest { payload: FetchTarget::Page(active), .. }, until_ms)) =
            self.gates.push(&site, queued_request, asked_ms, at.now)
        {
            self.defer(&active, Reason::Blocked, until_ms, at);
        }
    }

    /// Ends a dispatch that was not requested in time (docs/protocol.md#dispatch-expiry).
    pub(crate) fn late(&mut self, active: &ActiveDispatch, at: &mut At<'_>) {
        if !active.before.is_empty() {
            // The gate of the site may have been forgotten just now.
            let crawl_delay_ms = self.gates.crawl_delay_of(&active.site).or(active.crawl_delay_ms).unwrap_or(0);
            let own_ms = self.own_ms(active);
            if !active.fits_lease(crawl_delay_ms.max(self.interval_ms(active)).max(own_ms)) {
                // The next lease would be too short again: without an attempt counted, the URL would never end.
                let verdict = transient_failure(active.dispatch(), Reason::RedirectDelay, at.now);
                return self.end_passing(active, &verdict, None, at);
            }
        }
        if self.addresses.is_waiting(&active.site) {
            self.metrics.address_deferrals.inc();
            return self.defer(active, Reason::Address, at.now.saturating_add(ADDRESS_RETRY_MS), at);
        }
        self.defer(active, Reason::Late, at.now, at);
    }

    /// Defers a dispatch whose request was not made, or not read for lack of memory.
    pub(crate) fn defer(&mut self, active: &ActiveDispatch, reason: Reason, retry_at_ms: Millis, at: &mut At<'_>) {
        let mut outcome = outcome(active, OutcomeKind::Deferred, Some(reason), at.now);
        outcome.retry_at_ms = Some(retry_at_ms);
        self.end(active, &outcome, vec![], at);
    }

    /// Refuses a dispatch without a request.
    pub(crate) fn refuse(&mut self, active: &ActiveDispatch, reason: Reason, at: &mut At<'_>) {
        let outcome = outcome(active, OutcomeKind::Refused, Some(reason), at.now);
        self.end(active, &outcome, row_of_end(&outcome, None), at);
    }

    /// Ends a dispatch without a page: with a retry, as refused or as gone.
    pub(crate) fn end_passing(
        &mut self,
        active: &ActiveDispatch,
        verdict: &Verdict,
        attempt: Option<&Attempt>,
        at: &mut At<'_>,
    ) {
        let (kind, reason, retry_at_ms) = match *verdict {
            Verdict::Retry(reason, at_ms) => (OutcomeKind::Retry, reason, Some(at_ms)),
            Verdict::Refused(reason) => (OutcomeKind::Refused, reason, None),
            Verdict::Gone(reason) => (OutcomeKind::Gone, reason, None),
            _ => return,
        };
        let mut outcome = match attempt {
            Some(attempt) => attempted(active, kind, Some(reason), attempt),
            None => outcome(active, kind, Some(reason), at.now),
        };
        outcome.retry_at_ms = retry_at_ms;
        if let (None, Some((requested_ms, answered_ms))) = (attempt, active.asked_ms) {
            (outcome.requested_at_ms, outcome.answered_at_ms) = (Some(requested_ms), Some(answered_ms));
        }
        let steps = row_of_end(&outcome, attempt.and_then(|attempt| attempt.result.as_ref().ok()));
        self.end(active, &outcome, steps, at);
    }

    /// Ends a dispatch: the outcome comes last, when all else is durable (docs/protocol.md#effect-order).
    pub(crate) fn end(
        &mut self,
        active: &ActiveDispatch,
        outcome: &Outcome,
        mut steps: Vec<Step<Write>>,
        at: &mut At<'_>,
    ) {
        let elsewhere = active.is_elsewhere().then(|| of_own_site(active, outcome));
        let outcome = elsewhere.as_ref().unwrap_or(outcome);
        self.metrics.outcome(outcome.kind);
        if !active.records.is_empty() {
            steps.insert(0, Step::Produce(active.records.clone()));
        }
        steps.push(Step::Produce(vec![outcome_record(outcome, active.partition())]));
        self.settle(active, steps, at);
    }

    /// Handles a response or a failure.
    pub(crate) fn conclude(
        &mut self,
        mut active: Box<ActiveDispatch>,
        mut attempt: Attempt,
        body: Option<PackedBody>,
        at: &mut At<'_>,
    ) {
        let verdict = classify(&active, &attempt);
        let profile = Arc::clone(self.profile(&active));
        if let (true, Ok(answer)) = (verdict != Verdict::Fetched && profile.archive, &attempt.result) {
            let answer = HttpResponse { body: Body::Unread, ..answer.clone() };
            let is_unchanged = verdict == Verdict::Unchanged;
            let response = (answer, body.clone());
            let record = archive::record((&active, &profile), attempt.ended_at_ms, response, is_unchanged);
            active.records.extend(record);
        }
        if let (Verdict::Refused(_), Ok(HttpResponse { refusal: Some(refusal), .. })) = (&verdict, &attempt.result) {
            self.metrics.refusal(*refusal);
        }
        match verdict {
            Verdict::Again(target) => {
                // A dispatch holds no slot between its requests: if waiting dispatches held all slots, no request would
                // ever be sent.
                self.requests.free(usize::from(std::mem::take(&mut active.has_slot)));
                active.add_times(attempt.requested_at_ms, attempt.answered_at_ms);
                let set_cookie = attempt.result.map(|answer| answer.set_cookie).unwrap_or_default();
                active.follow_redirect(target, &set_cookie, &self.config.wide_domains);
                self.admit(active, at);
            }
            Verdict::Fetched => {
                let (Ok(answer), Some(body)) = (&mut attempt.result, body) else {
                    // A worker returns the body of a page; without it there is no page.
                    let verdict =
                        transient_failure(active.dispatch(), Reason::Failed(FetchError::Internal), attempt.ended_at_ms);
                    return self.end_passing(&active, &verdict, Some(&attempt), at);
                };
                let answer = std::mem::take(answer);
                let is_unchanged = is_known(&active, &body);
                let kind = if is_unchanged { OutcomeKind::Unchanged } else { OutcomeKind::Fetched };
                let mut outcome = outcome(&active, kind, None, attempt.ended_at_ms);
                add_times(&mut outcome, &attempt);
                add_answer(&mut outcome, &answer, Some(&body));
                outcome.version = found_version(&active, &answer, Some(&body));
                let row = page_write(&outcome, Some(&answer), Some(&body));
                if is_unchanged {
                    let record = archive::record((&active, &profile), attempt.ended_at_ms, (answer, Some(body)), true);
                    active.records.extend(record);
                    return self.end(&active, &outcome, vec![Step::Perform(vec![row])], at);
                }
                let record = page_record((&active, &profile), attempt.ended_at_ms, answer, body);
                self.end(&active, &outcome, vec![Step::Perform(vec![row]), Step::Produce(vec![record])], at);
            }
            Verdict::Unchanged => {
                let mut outcome = attempted(&active, OutcomeKind::Unchanged, None, &attempt);
                outcome.version = attempt.result.as_ref().ok().and_then(|answer| found_version(&active, answer, None));
                self.end(&active, &outcome, row_of_end(&outcome, attempt.result.as_ref().ok()), at);
            }
            Verdict::Exists => {
                let outcome = attempted(&active, OutcomeKind::Fetched, None, &attempt);
                self.end(&active, &outcome, row_of_end(&outcome, attempt.result.as_ref().ok()), at);
            }
            Verdict::Redirected(target) => {
                let mut outcome = attempted(&active, OutcomeKind::Redirected, None, &attempt);
                outcome.location = Some(target.to_string());
                let rows = vec![
                    Write::Redirect(redirect_row(&outcome, &target)),
                    page_write(&outcome, attempt.result.as_ref().ok(), None),
                ];
                let found = discovered_record(
                    &active,
                    &target,
                    &self.config.wide_domains,
                    self.ownership.partitions,
                    attempt.ended_at_ms,
                );
                self.end(&active, &outcome, vec![Step::Perform(rows), Step::Produce(vec![found])], at);
            }
            Verdict::Blocked { until_ms, announced, reason, .. } if active.is_elsewhere() => {
                self.refused_elsewhere(&active, (&attempt, Block { until_ms, announced }), reason, at);
            }
            Verdict::Blocked { until_ms, announced, reason, ends } => {
                let kind = if ends { OutcomeKind::Gone } else { OutcomeKind::Blocked };
                let mut outcome = attempted(&active, kind, Some(reason), &attempt);
                // If the site named no time, the rate-limiter decides: it counts the refusals of the whole site.
                outcome.blocked_until_ms = announced.then_some(until_ms);
                self.end(&active, &outcome, row_of_end(&outcome, attempt.result.as_ref().ok()), at);
                self.block(&active.site.clone(), until_ms, at);
            }
            Verdict::Deferred(reason, retry_at_ms) => self.defer(&active, reason, retry_at_ms, at),
            ended @ (Verdict::Refused(_) | Verdict::Retry(..) | Verdict::Gone(_)) => {
                self.end_passing(&active, &ended, Some(&attempt), at);
            }
        }
    }

    /// Handles the refusal of a request by another site than the dispatch's: for the URL a failure, to be retried after
    /// the block. The services of that site learn of the block from a record of their own.
    fn refused_elsewhere(
        &mut self,
        active: &ActiveDispatch,
        (attempt, block): (&Attempt, Block),
        reason: Reason,
        at: &mut At<'_>,
    ) {
        let dispatch = active.dispatch();
        let kind = if dispatch.last_attempt { OutcomeKind::Gone } else { OutcomeKind::Retry };
        let mut outcome = attempted(active, kind, Some(reason), attempt);
        outcome.retry_at_ms = (!kind.is_terminal()).then(|| retry_at(dispatch.attempt, block.until_ms));
        let mut steps = row_of_end(&outcome, attempt.result.as_ref().ok());
        let report = Report { site: &active.site, url: &active.url, attempt, block: Some(block) };
        steps.push(Step::Produce(vec![report.record(&outcome, self.ownership.partitions)]));
        self.end(active, &outcome, steps, at);
        self.block(&active.site, block.until_ms, at);
    }

    /// Applies a block at once to the queued requests of the site (docs/protocol.md#fenced-requests).
    pub(crate) fn block(&mut self, site: &SiteName, until_ms: Millis, at: &mut At<'_>) {
        self.end_queued(site, Reason::Blocked, until_ms, at);
    }

    /// Returns why no request may be sent for a dispatch, if that is so.
    pub(crate) fn hold(&self, active: &ActiveDispatch) -> Option<Hold> {
        let dispatch = active.dispatch();
        self.controls.hold(&dispatch.context.crawl, &active.site, dispatch.definition)
    }

    /// Ends the queued requests of a site that is frozen now; none are queued while [`FetcherStage::hold`] returns a
    /// reason.
    pub(crate) fn freeze(&mut self, site: &SiteName, at: &mut At<'_>) {
        // A block that has ended: the thawed site resumes at once.
        self.end_queued(site, Reason::Held(Hold::Frozen), at.now, at);
    }

    /// Ends the queued requests of a crawl that is paused or stopped now. A lookup of a robots.txt continues if another
    /// crawl waits for it.
    pub(crate) fn hold_back(&mut self, crawl: &CrawlName, hold: Hold, at: &mut At<'_>) {
        let asked = self.requests.robots_keys();
        for active in self.take_queued(|active| active.dispatch().context.crawl == *crawl, &asked) {
            self.defer(&active, Reason::Held(hold), hold.retry_at_ms(at.now), at);
        }
    }

    /// Admits the queued dispatches of a crawl again, whose profile is another one now: its agent may be refused by a
    /// robots.txt that admitted them. A lookup of a robots.txt continues if another crawl waits for it.
    pub(crate) fn admit_again(&mut self, crawl: &CrawlName, at: &mut At<'_>) {
        let asked = self.requests.robots_keys();
        for active in self.take_queued(|active| active.dispatch().context.crawl == *crawl, &asked) {
            self.admit(active, at);
        }
    }

    fn end_queued(&mut self, site: &SiteName, reason: Reason, until_ms: Millis, at: &mut At<'_>) {
        let asked_ms = self.ownership.asked_ms(None);
        for queued_request in self.gates.block(site, until_ms, asked_ms, at.now) {
            match queued_request.payload {
                FetchTarget::Page(active) => self.defer(&active, reason, until_ms, at),
                FetchTarget::Robots(key, _) => self.defer_lookup(&key, reason, until_ms, at),
            }
        }
    }
}

/// Returns the step that writes the row of a URL that has ended without a page; none if it has not ended.
pub(crate) fn row_of_end(outcome: &Outcome, answer: Option<&HttpResponse>) -> Vec<Step<Write>> {
    let row = outcome.kind.is_terminal().then(|| Step::Perform(vec![page_write(outcome, answer, None)]));
    row.into_iter().collect()
}

fn page_write(outcome: &Outcome, answer: Option<&HttpResponse>, body: Option<&PackedBody>) -> Write {
    Write::Page { crawl: outcome.context.crawl.clone(), row: Box::new(page_row(outcome, answer, body)) }
}
