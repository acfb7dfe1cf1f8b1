//! The way of a visit: admitted, asked, concluded.

use std::sync::Arc;

use orbweaver_messages::{Millis, Outcome, OutcomeKind};
use orbweaver_politeness::robots::AgentRules;
use orbweaver_stage::Step;
use orbweaver_store::Write;
use url::Position;

use crate::{
    address,
    body::PackedBody,
    classify::{Verdict, classify, passing},
    client::{Answer, Attempt, Failure},
    gates::Wish,
    records::{
        add_answer, add_attempt, add_times, discovered_record, outcome, outcome_record, page_record, page_row,
        redirect_row,
    },
    robots::authority_of,
    robots_cache::Known,
    stage::{Acts, FetcherStage, Wanted},
    visit::Visit,
};

impl FetcherStage {
    /// Decides what is to be done for a visit before its next request.
    pub(crate) fn admit(&mut self, visit: Box<Visit>, now: Millis, acts: &mut Acts) {
        if !self.is_open(visit.origin.place.partition) {
            return self.leave(&visit);
        }
        if now > visit.not_after_ms() {
            return self.late(&visit, now, acts);
        }
        if let Some(until_ms) = self.gates.blocked_until(&visit.site, now) {
            return self.defer(&visit, "blocked", until_ms, now, acts);
        }
        if !self.config.allow_private && address::literal(&visit.url).and_then(address::refusal).is_some() {
            return self.refuse(&visit, "private_address", now, acts);
        }
        if self.config.ignore_robots {
            return self.queue(visit, now, acts);
        }
        let authority = authority_of(&visit.url);
        match self.robots.get(&authority, now) {
            // It is known that it failed, and the time to try again has not come.
            Some((Known::Failing(_), until_ms)) => self.defer(&visit, "robots_unreachable", until_ms, now, acts),
            Some((known, _)) => self.obey(visit, &known, now, acts),
            None => self.look_up(authority, visit, now, acts),
        }
    }

    /// Applies what is known of the robots.txt.
    pub(crate) fn obey(&mut self, mut visit: Box<Visit>, known: &Known, now: Millis, acts: &mut Acts) {
        match known {
            Known::Rules(rules) => self.obey_rules(visit, rules, now, acts),
            Known::Private => self.refuse(&visit, "private_address", now, acts),
            Known::Unreachable | Known::Failing(_) => {
                visit.crawl_delay_ms = None;
                self.refuse(&visit, "robots_unreachable", now, acts);
            }
        }
    }

    fn obey_rules(&mut self, mut visit: Box<Visit>, rules: &Arc<AgentRules>, now: Millis, acts: &mut Acts) {
        visit.crawl_delay_ms = rules.crawl_delay_ms();
        if !rules.verdict(&visit.url[Position::BeforePath..Position::AfterQuery]).allowed {
            return self.refuse(&visit, "robots", now, acts);
        }
        if let Some(delay_ms) = visit.crawl_delay_ms {
            let asked_ms = self.asked_ms(Some(visit.origin.place.partition));
            self.gates.learn_delay(&visit.site, delay_ms, asked_ms, now);
        }
        self.queue(visit, now, acts);
    }

    fn queue(&mut self, visit: Box<Visit>, now: Millis, acts: &mut Acts) {
        let asked_ms = self.asked_ms(Some(visit.origin.place.partition));
        let begun = !visit.before.is_empty();
        let site = visit.site.clone();
        let wish = Wish {
            not_before_ms: visit.ready.not_before_ms,
            not_after_ms: visit.not_after_ms(),
            interval_ms: visit.ready.interval_ms,
            payload: Wanted::Page(visit),
        };
        let pushed = if begun {
            self.gates.push_first(&site, wish, asked_ms, now)
        } else {
            self.gates.push(&site, wish, asked_ms, now)
        };
        if let Err(blocked) = pushed {
            if let Wanted::Page(visit) = blocked.wish.payload {
                self.defer(&visit, "blocked", blocked.until_ms, now, acts);
            }
        }
    }

    /// Its moment has passed before it was asked (rule 14).
    pub(crate) fn late(&mut self, visit: &Visit, now: Millis, acts: &mut Acts) {
        if !visit.before.is_empty() {
            // It was asked, so that it counts as an attempt; else a slow site that redirects to itself would never end.
            let verdict = passing(visit.dispatch(), "timeout".into(), now);
            return self.end_passing(visit, verdict, None, now, acts);
        }
        if now > visit.dispatch().expires_ms {
            return self.expire(visit, acts);
        }
        self.defer(visit, "late", now, now, acts);
    }

    /// Gives a visit back unasked.
    pub(crate) fn defer(&mut self, visit: &Visit, reason: &str, retry_at_ms: Millis, now: Millis, acts: &mut Acts) {
        let mut outcome = outcome(visit, OutcomeKind::Deferred, Some(reason), now);
        outcome.retry_at_ms = Some(retry_at_ms);
        self.end(visit, &outcome, vec![], acts);
    }

    /// Ends a visit unasked.
    pub(crate) fn refuse(&mut self, visit: &Visit, reason: &str, now: Millis, acts: &mut Acts) {
        let outcome = outcome(visit, OutcomeKind::Refused, Some(reason), now);
        self.end(visit, &outcome, vec![Step::Perform(vec![page_write(&outcome, None, None)])], acts);
    }

    /// Ends a visit that failed in passing.
    pub(crate) fn end_passing(
        &mut self,
        visit: &Visit,
        verdict: Verdict,
        attempt: Option<&Attempt>,
        now: Millis,
        acts: &mut Acts,
    ) {
        let (kind, reason, retry_at_ms) = match verdict {
            Verdict::Retry(reason, at_ms) => (OutcomeKind::Retry, reason, Some(at_ms)),
            Verdict::Refused(reason) => (OutcomeKind::Refused, reason, None),
            Verdict::Gone(reason) => (OutcomeKind::Gone, reason, None),
            _ => return,
        };
        let mut outcome = outcome(visit, kind, Some(&reason), attempt.map_or(now, |attempt| attempt.ended_at_ms));
        outcome.retry_at_ms = retry_at_ms;
        if let Some(attempt) = attempt {
            add_attempt(&mut outcome, attempt);
        }
        let answer = attempt.and_then(|attempt| attempt.result.as_ref().ok());
        let steps = match kind.is_terminal() {
            true => vec![Step::Perform(vec![page_write(&outcome, answer, None)])],
            false => vec![],
        };
        self.end(visit, &outcome, steps, acts);
    }

    /// Ends a visit: the outcome comes last, when all else is durable (rule 1).
    pub(crate) fn end(&mut self, visit: &Visit, outcome: &Outcome, mut steps: Vec<Step<Write>>, acts: &mut Acts) {
        self.metrics.outcome(outcome.kind);
        match outcome.kind {
            OutcomeKind::Blocked => self.view.count_blocked(),
            OutcomeKind::Refused => self.view.count_refused(),
            _ => {}
        }
        steps.push(Step::Produce(vec![outcome_record(outcome, visit.origin.place.partition)]));
        self.settle(visit, steps, acts);
    }

    /// An answer has come, or a failure.
    pub(crate) fn conclude(
        &mut self,
        mut visit: Box<Visit>,
        mut attempt: Attempt,
        body: Option<PackedBody>,
        now: Millis,
        acts: &mut Acts,
    ) {
        match classify(visit.asked(), &attempt) {
            Verdict::Again(target) => {
                // Between its requests it holds no slot: with all slots held by those that wait, nothing would ever be sent.
                self.free(std::mem::take(&mut visit.has_slot));
                let set_cookie = attempt.result.map(|answer| answer.set_cookie).unwrap_or_default();
                visit.go_on(target, &set_cookie);
                self.admit(visit, now, acts);
            }
            Verdict::Fetched => {
                let (Ok(answer), Some(body)) = (&mut attempt.result, body) else {
                    // A worker gives the body along; without it there is no page.
                    let verdict = passing(visit.dispatch(), Failure::Internal.reason().into(), attempt.ended_at_ms);
                    return self.end_passing(&visit, verdict, Some(&attempt), now, acts);
                };
                let answer = std::mem::take(answer);
                let mut outcome = outcome(&visit, OutcomeKind::Fetched, None, attempt.ended_at_ms);
                add_times(&mut outcome, &attempt);
                add_answer(&mut outcome, &answer, Some(&body));
                let row = page_write(&outcome, Some(&answer), Some(&body));
                let record = page_record(&visit, attempt.ended_at_ms, answer, body);
                self.end(&visit, &outcome, vec![Step::Perform(vec![row]), Step::Produce(vec![record])], acts);
            }
            Verdict::Unchanged => {
                let mut outcome = outcome(&visit, OutcomeKind::Unchanged, None, attempt.ended_at_ms);
                add_attempt(&mut outcome, &attempt);
                let row = page_write(&outcome, attempt.result.as_ref().ok(), None);
                self.end(&visit, &outcome, vec![Step::Perform(vec![row])], acts);
            }
            Verdict::Redirected(target) => {
                let mut outcome = outcome(&visit, OutcomeKind::Redirected, None, attempt.ended_at_ms);
                add_attempt(&mut outcome, &attempt);
                outcome.location = Some(target.to_string());
                let rows = vec![
                    Write::Redirect(redirect_row(&outcome, &target)),
                    page_write(&outcome, attempt.result.as_ref().ok(), None),
                ];
                let found = discovered_record(&visit, &target, self.partitions, attempt.ended_at_ms);
                self.end(&visit, &outcome, vec![Step::Perform(rows), Step::Produce(vec![found])], acts);
            }
            Verdict::Blocked { until_ms, reason, ends } => {
                let kind = if ends { OutcomeKind::Gone } else { OutcomeKind::Blocked };
                let mut outcome = outcome(&visit, kind, Some(&reason), attempt.ended_at_ms);
                add_attempt(&mut outcome, &attempt);
                outcome.blocked_until_ms = Some(until_ms);
                let row = ends.then(|| Step::Perform(vec![page_write(&outcome, attempt.result.as_ref().ok(), None)]));
                self.end(&visit, &outcome, row.into_iter().collect(), acts);
                self.block(&visit.site.clone(), until_ms, now, acts);
            }
            ended @ (Verdict::Refused(_) | Verdict::Retry(..) | Verdict::Gone(_)) => {
                self.end_passing(&visit, ended, Some(&attempt), now, acts);
            }
        }
    }

    /// Applies a block at once to what is held for the site (rule 21).
    pub(crate) fn block(&mut self, site: &str, until_ms: Millis, now: Millis, acts: &mut Acts) {
        let asked_ms = self.asked_ms(None);
        for wish in self.gates.block(site, until_ms, asked_ms, now) {
            match wish.payload {
                Wanted::Page(visit) => self.defer(&visit, "blocked", until_ms, now, acts),
                Wanted::Robots(authority, _) => self.defer_lookup(&authority, "blocked", until_ms, now, acts),
            }
        }
    }
}

fn page_write(outcome: &Outcome, answer: Option<&Answer>, body: Option<&PackedBody>) -> Write {
    Write::Page(Box::new(page_row(outcome, answer, body)))
}
