//! Course of a dispatch: admission, request, conclusion.

use std::sync::Arc;

use orbweaver_messages::{Millis, Outcome, OutcomeKind};
use orbweaver_politeness::robots::AgentRules;
use orbweaver_stage::Step;
use orbweaver_store::Write;
use url::Position;

use crate::{
    active_dispatch::ActiveDispatch,
    address,
    body::PackedBody,
    classify::{Verdict, classify, retry_at, transient_failure},
    client::{Attempt, FetchError, HttpResponse},
    gates::QueuedRequest,
    records::{
        add_answer, add_times, attempted, discovered_record, of_own_site, outcome, outcome_record, page_record,
        page_row, redirect_row,
    },
    robots::{Block, Report, authority_of},
    robots_cache::CachedRobots,
    stage::{At, FetchTarget, FetcherStage},
};

/// Outcome reason of a redirect to itself whose next request is later than the lease, because of the site's delay.
const REDIRECT_DELAY: &str = "redirect_delay";

impl FetcherStage {
    /// Decides the next step of a dispatch before its next request.
    pub(crate) fn admit(&mut self, visit: Box<ActiveDispatch>, at: &mut At<'_>) {
        if !self.ownership.is_open(visit.partition()) {
            return self.leave(&visit);
        }
        if at.now > visit.not_after_ms() {
            return self.late(&visit, at);
        }
        if let Some(until_ms) = self.gates.blocked_until(&visit.site, at.now) {
            return self.defer(&visit, "blocked", until_ms, at);
        }
        if !self.config.allow_private && address::is_private(&visit.url) {
            return self.refuse(&visit, "private_address", at);
        }
        if address::has_bad_port(&visit.url) {
            return self.refuse(&visit, "port", at);
        }
        // The client would send the request, and then withhold the response.
        if orbweaver_url::is_unmapped(&visit.url) {
            return self.refuse(&visit, "host", at);
        }
        if self.config.ignore_robots {
            return self.queue(visit, at);
        }
        let authority = authority_of(&visit.url);
        match self.robots.get(&authority, at.now) {
            // The last request failed, and its retry is not due yet.
            Some((CachedRobots::Failing(_), until_ms)) => self.defer(&visit, "robots_unreachable", until_ms, at),
            Some((known, _)) => self.obey(visit, &known, at),
            None => self.look_up(authority, visit, at),
        }
    }

    /// Applies the state of the robots.txt.
    pub(crate) fn obey(&mut self, mut visit: Box<ActiveDispatch>, known: &CachedRobots, at: &mut At<'_>) {
        match known {
            CachedRobots::Rules(rules) => self.obey_rules(visit, rules, at),
            CachedRobots::Private => self.refuse(&visit, "private_address", at),
            CachedRobots::UnknownHost => self.end_unknown_host(&visit, at),
            CachedRobots::Unreachable | CachedRobots::Failing(_) => {
                visit.set_crawl_delay(None);
                self.refuse(&visit, "robots_unreachable", at);
            }
        }
    }

    fn obey_rules(&mut self, mut visit: Box<ActiveDispatch>, rules: &Arc<AgentRules>, at: &mut At<'_>) {
        let delay_ms = rules.crawl_delay_ms();
        visit.set_crawl_delay(delay_ms);
        if !rules.verdict(&visit.url[Position::BeforePath..Position::AfterQuery]).allowed {
            return self.refuse(&visit, "robots", at);
        }
        if let Some(delay_ms) = delay_ms {
            let asked_ms = self.site_asked_ms(&visit);
            self.gates.learn_delay(&visit.site, delay_ms, asked_ms, at.now);
        }
        self.queue(visit, at);
    }

    /// Returns the time at which the site of a dispatch's next request counts as requested if the site is unknown.
    fn site_asked_ms(&self, visit: &ActiveDispatch) -> Millis {
        self.ownership.asked_ms((!visit.is_elsewhere()).then_some(visit.partition()))
    }

    /// Returns the interval of the site of a dispatch's next request, in milliseconds: that of the dispatch holds for
    /// its own site.
    fn interval_ms(&self, visit: &ActiveDispatch) -> u64 {
        if visit.is_elsewhere() {
            self.gates.interval_of(&visit.site).unwrap_or(self.config.default_interval_ms)
        } else {
            visit.ready.interval_ms
        }
    }

    fn queue(&mut self, visit: Box<ActiveDispatch>, at: &mut At<'_>) {
        let asked_ms = self.site_asked_ms(&visit);
        let site = visit.site.clone();
        let wish = QueuedRequest {
            not_before_ms: visit.ready.not_before_ms,
            not_after_ms: visit.not_after_ms(),
            interval_ms: self.interval_ms(&visit),
            is_first: !visit.before.is_empty(),
            payload: FetchTarget::Page(visit),
        };
        if let Err((QueuedRequest { payload: FetchTarget::Page(visit), .. }, until_ms)) =
            self.gates.push(&site, wish, asked_ms, at.now)
        {
            self.defer(&visit, "blocked", until_ms, at);
        }
    }

    /// Ends a dispatch that was not requested in time (docs/protocol.md#dispatch-expiry).
    pub(crate) fn late(&mut self, visit: &ActiveDispatch, at: &mut At<'_>) {
        if !visit.before.is_empty() {
            // The gate of the site may have been forgotten just now.
            let crawl_delay_ms = self.gates.crawl_delay_of(&visit.site).or(visit.crawl_delay_ms).unwrap_or(0);
            if !visit.fits_lease(crawl_delay_ms.max(self.interval_ms(visit))) {
                // The next lease would be too short again: without an attempt counted, the URL would never end.
                let verdict = transient_failure(visit.dispatch(), REDIRECT_DELAY.into(), at.now);
                return self.end_passing(visit, verdict, None, at);
            }
        }
        self.defer(visit, "late", at.now, at);
    }

    /// Defers a dispatch whose request was not made, or not read for lack of memory.
    pub(crate) fn defer(&mut self, visit: &ActiveDispatch, reason: &str, retry_at_ms: Millis, at: &mut At<'_>) {
        let mut outcome = outcome(visit, OutcomeKind::Deferred, Some(reason), at.now);
        outcome.retry_at_ms = Some(retry_at_ms);
        self.end(visit, &outcome, vec![], at);
    }

    /// Refuses a dispatch without a request.
    pub(crate) fn refuse(&mut self, visit: &ActiveDispatch, reason: &str, at: &mut At<'_>) {
        let outcome = outcome(visit, OutcomeKind::Refused, Some(reason), at.now);
        self.end(visit, &outcome, row_of_end(&outcome, None), at);
    }

    /// Ends a dispatch without a page: with a retry, as refused or as gone.
    pub(crate) fn end_passing(
        &mut self,
        visit: &ActiveDispatch,
        verdict: Verdict,
        attempt: Option<&Attempt>,
        at: &mut At<'_>,
    ) {
        let (kind, reason, retry_at_ms) = match verdict {
            Verdict::Retry(reason, at_ms) => (OutcomeKind::Retry, reason, Some(at_ms)),
            Verdict::Refused(reason) => (OutcomeKind::Refused, reason, None),
            Verdict::Gone(reason) => (OutcomeKind::Gone, reason, None),
            _ => return,
        };
        let mut outcome = match attempt {
            Some(attempt) => attempted(visit, kind, Some(&reason), attempt),
            None => outcome(visit, kind, Some(&reason), at.now),
        };
        outcome.retry_at_ms = retry_at_ms;
        if let (None, Some((requested_ms, answered_ms))) = (attempt, visit.asked_ms) {
            (outcome.requested_at_ms, outcome.answered_at_ms) = (Some(requested_ms), Some(answered_ms));
        }
        let steps = row_of_end(&outcome, attempt.and_then(|attempt| attempt.result.as_ref().ok()));
        self.end(visit, &outcome, steps, at);
    }

    /// Ends a dispatch: the outcome comes last, when all else is durable (docs/protocol.md#effect-order).
    pub(crate) fn end(
        &mut self,
        visit: &ActiveDispatch,
        outcome: &Outcome,
        mut steps: Vec<Step<Write>>,
        at: &mut At<'_>,
    ) {
        let elsewhere = visit.is_elsewhere().then(|| of_own_site(visit, outcome));
        let outcome = elsewhere.as_ref().unwrap_or(outcome);
        self.metrics.outcome(outcome.kind);
        steps.push(Step::Produce(vec![outcome_record(outcome, visit.partition())]));
        self.settle(visit, steps, at);
    }

    /// Handles a response or a failure.
    pub(crate) fn conclude(
        &mut self,
        mut visit: Box<ActiveDispatch>,
        mut attempt: Attempt,
        body: Option<PackedBody>,
        at: &mut At<'_>,
    ) {
        match classify(&visit, &attempt) {
            Verdict::Again(target) => {
                // A dispatch holds no slot between its requests: if waiting dispatches held all slots, no request would
                // ever be sent.
                self.requests.free(usize::from(std::mem::take(&mut visit.has_slot)));
                visit.add_times(attempt.requested_at_ms, attempt.answered_at_ms);
                let set_cookie = attempt.result.map(|answer| answer.set_cookie).unwrap_or_default();
                visit.follow_redirect(target, &set_cookie, &self.config.wide_domains);
                self.admit(visit, at);
            }
            Verdict::Fetched => {
                let (Ok(answer), Some(body)) = (&mut attempt.result, body) else {
                    // A worker returns the body of a page; without it there is no page.
                    let verdict =
                        transient_failure(visit.dispatch(), FetchError::Internal.reason().into(), attempt.ended_at_ms);
                    return self.end_passing(&visit, verdict, Some(&attempt), at);
                };
                let answer = std::mem::take(answer);
                let mut outcome = outcome(&visit, OutcomeKind::Fetched, None, attempt.ended_at_ms);
                add_times(&mut outcome, &attempt);
                add_answer(&mut outcome, &answer, Some(&body));
                let row = page_write(&outcome, Some(&answer), Some(&body));
                let record = page_record(&visit, &outcome, answer, body);
                self.end(&visit, &outcome, vec![Step::Perform(vec![row]), Step::Produce(vec![record])], at);
            }
            Verdict::Unchanged => {
                let outcome = attempted(&visit, OutcomeKind::Unchanged, None, &attempt);
                self.end(&visit, &outcome, row_of_end(&outcome, attempt.result.as_ref().ok()), at);
            }
            Verdict::Redirected(target) => {
                let mut outcome = attempted(&visit, OutcomeKind::Redirected, None, &attempt);
                outcome.location = Some(target.to_string());
                let rows = vec![
                    Write::Redirect(redirect_row(&outcome, &target)),
                    page_write(&outcome, attempt.result.as_ref().ok(), None),
                ];
                let found = discovered_record(
                    &visit,
                    &target,
                    &self.config.wide_domains,
                    self.ownership.partitions,
                    attempt.ended_at_ms,
                );
                self.end(&visit, &outcome, vec![Step::Perform(rows), Step::Produce(vec![found])], at);
            }
            Verdict::Blocked { until_ms, announced, reason, .. } if visit.is_elsewhere() => {
                self.refused_elsewhere(&visit, (&attempt, Block { until_ms, announced }), &reason, at);
            }
            Verdict::Blocked { until_ms, announced, reason, ends } => {
                let kind = if ends { OutcomeKind::Gone } else { OutcomeKind::Blocked };
                let mut outcome = attempted(&visit, kind, Some(&reason), &attempt);
                // If the site named no time, the rate-limiter decides: it counts the refusals of the whole site.
                outcome.blocked_until_ms = announced.then_some(until_ms);
                self.end(&visit, &outcome, row_of_end(&outcome, attempt.result.as_ref().ok()), at);
                self.block(&visit.site.clone(), until_ms, at);
            }
            Verdict::Deferred(reason, retry_at_ms) => self.defer(&visit, &reason, retry_at_ms, at),
            ended @ (Verdict::Refused(_) | Verdict::Retry(..) | Verdict::Gone(_)) => {
                self.end_passing(&visit, ended, Some(&attempt), at);
            }
        }
    }

    /// Handles the refusal of a request by another site than the dispatch's: for the URL a failure, to be retried after
    /// the block. The services of that site learn of the block from a record of their own.
    fn refused_elsewhere(
        &mut self,
        visit: &ActiveDispatch,
        (attempt, block): (&Attempt, Block),
        reason: &str,
        at: &mut At<'_>,
    ) {
        let dispatch = visit.dispatch();
        let kind = if dispatch.last_attempt { OutcomeKind::Gone } else { OutcomeKind::Retry };
        let mut outcome = attempted(visit, kind, Some(reason), attempt);
        outcome.retry_at_ms = (!kind.is_terminal()).then(|| retry_at(dispatch.attempt, block.until_ms));
        let mut steps = row_of_end(&outcome, attempt.result.as_ref().ok());
        let report = Report { site: &visit.site, url: &visit.url, attempt, block: Some(block) };
        steps.push(Step::Produce(vec![report.record(&outcome, self.ownership.partitions)]));
        self.end(visit, &outcome, steps, at);
        self.block(&visit.site, block.until_ms, at);
    }

    /// Applies a block at once to the queued requests of the site (docs/protocol.md#fenced-requests).
    pub(crate) fn block(&mut self, site: &str, until_ms: Millis, at: &mut At<'_>) {
        let asked_ms = self.ownership.asked_ms(None);
        for wish in self.gates.block(site, until_ms, asked_ms, at.now) {
            match wish.payload {
                FetchTarget::Page(visit) => self.defer(&visit, "blocked", until_ms, at),
                FetchTarget::Robots(authority, _) => self.defer_lookup(&authority, "blocked", until_ms, at),
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
    Write::Page(Box::new(page_row(outcome, answer, body)))
}
