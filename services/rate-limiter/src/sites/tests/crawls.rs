//! Crawls with intervals of their own at one site.

use std::collections::{BTreeMap, VecDeque};

use orbweaver_messages::FetchProfile;

use super::*;

/// Returns the terms at this rate, of crawls with these intervals.
pub(super) fn terms(rate_ms: u64, crawls: &[(&str, Option<u64>)]) -> SiteTerms {
    let rate = Rate { interval_ms: rate_ms };
    let mut terms = SiteTerms::new(RateLimiterConfig { rate, ..RateLimiterConfig::default() });
    for (offset, (crawl, interval_ms)) in (1..).zip(crawls) {
        define(&mut terms, offset, crawl, *interval_ms);
    }
    terms
}

/// Applies a definition of a crawl with this interval.
fn define(terms: &mut SiteTerms, offset: Offset, crawl: &str, interval_ms: Option<u64>) {
    define_share(terms, offset, crawl, (interval_ms, CrawlDefinition::EQUAL_SHARE));
}

/// Applies a definition of a crawl with this interval and share.
pub(super) fn define_share(
    terms: &mut SiteTerms,
    offset: Offset,
    crawl: &str,
    (interval_ms, share): (Option<u64>, u32),
) {
    let host = include_str!("../../../../../schemas/examples/crawl-definition/1/host.json");
    let host: CrawlDefinition = serde_json::from_str(host).unwrap();
    let profile = FetchProfile { interval_ms, ..FetchProfile::default() };
    let value = encode(&CrawlDefinition { name: crawl.parse().unwrap(), profile, share, ..host });
    let key = format!("crawl/{crawl}");
    let record = ControlRecord { partition: 0, offset, key: Some(key.as_bytes()), value: Some(&value) };
    assert_eq!(terms.apply(record), ControlChange::Crawl(crawl.parse().unwrap()));
}

fn context(crawl: &str) -> ContextFields<'static> {
    ContextFields { crawl: Cow::Owned(crawl.to_owned()), site: Cow::Borrowed("a.example") }
}

/// Returns a dispatch of a crawl to `a.example`.
pub(super) fn of(crawl: &str, now: Millis) -> DispatchFields<'static> {
    DispatchFields { context: context(crawl), ..dispatch(now) }
}

/// Returns the response to a request of a crawl.
pub(super) fn answer(crawl: &str, requested_at_ms: Millis, took_ms: Millis) -> OutcomeFields<'static> {
    OutcomeFields { context: context(crawl), ..outcome(OutcomeKind::Fetched, 200, requested_at_ms, took_ms) }
}

fn passed(not_before_ms: Millis, interval_ms: u64, own_ms: u64) -> Decision {
    Decision::Pass { not_before_ms, interval_ms, own_ms }
}

fn deferred(retry_at_ms: Millis) -> Decision {
    Decision::Defer { reason: Deferral::Interval, retry_at_ms }
}

#[test]
fn a_slow_crawl_does_not_slow_down_a_fast_one() {
    let terms = terms(1000, &[("fast", Some(100)), ("slow", Some(10_000))]);
    let mut sites = sites(&terms, 0, vec![], T);
    // The fast one has as many dispatches in flight as the frontier lets it have.
    let (mut in_flight, mut fast, mut slow, mut retry_at_ms) = (VecDeque::new(), 0, 0, T);
    for now in (T..T + 60_000).step_by(50) {
        in_flight.retain(|moment| moment + 50 > now);
        while in_flight.len() < 11 {
            let decision = sites.decide(&terms, &of("fast", now), now);
            let Decision::Pass { not_before_ms, interval_ms: 100, .. } = decision else { panic!("{decision:?}") };
            in_flight.push_back(not_before_ms);
            fast += 1;
        }
        if now >= retry_at_ms {
            match sites.decide(&terms, &of("slow", now), now) {
                Decision::Pass { .. } => slow += 1,
                Decision::Defer { retry_at_ms: later, .. } => retry_at_ms = later,
            }
        }
    }
    assert!((595..=610).contains(&fast) && (5..=7).contains(&slow), "{fast} and {slow} requests in a minute");
}

#[test]
fn crawls_that_share_a_site_have_turns_there_however_early_the_dispatches_of_others_come() {
    let terms = terms(100, &[]);
    let mut sites = sites(&terms, 0, vec![], T);
    let names: Vec<_> = (0..10).map(|number| format!("crawl{number}")).collect();
    // Each has as many dispatches in flight as the frontier lets it have, and a deferral pauses it. Those of an earlier crawl
    // always come first.
    let mut in_flight: Vec<VecDeque<Millis>> = vec![VecDeque::new(); names.len()];
    let (mut passed, mut retry_at_ms) = (vec![0; names.len()], vec![T; names.len()]);
    for now in (T..T + 60_000).step_by(10) {
        for (crawl, name) in names.iter().enumerate() {
            in_flight[crawl].retain(|moment| moment + 50 > now);
            while in_flight[crawl].len() < 11 && now >= retry_at_ms[crawl] {
                match sites.decide(&terms, &of(name, now), now) {
                    Decision::Pass { not_before_ms, .. } => {
                        in_flight[crawl].push_back(not_before_ms);
                        passed[crawl] += 1;
                    }
                    Decision::Defer { retry_at_ms: later, .. } => retry_at_ms[crawl] = later,
                }
            }
        }
    }
    let all: u32 = passed.iter().sum();
    assert!(passed.iter().all(|count| (40..=80).contains(count)) && all >= 570, "{all} requests: {passed:?}");
}

#[test]
fn a_crawl_without_an_interval_keeps_the_configured_one_at_a_site_that_it_shares_with_a_faster_crawl() {
    let mut terms = terms(1000, &[("fast", Some(100)), ("plain", None)]);
    let mut sites = sites(&terms, 0, vec![], T);
    let plain = |sites: &mut Sites, terms: &SiteTerms, now| sites.decide(terms, &of("plain", now), now);
    assert_eq!(plain(&mut sites, &terms, T), passed(T, 100, 1000));
    assert_eq!(sites.decide(&terms, &of("fast", T), T), passed(T + 100, 100, 100));
    // The faster crawl may use the time until then, and a dispatch cannot wait here.
    assert_eq!(plain(&mut sites, &terms, T), deferred(T + 1000 - 25), "not 200 ms after its last request");
    assert_eq!(plain(&mut sites, &terms, T + 975), passed(T + 1000, 100, 1000));
    // Without a faster crawl, the clock of the site suffices.
    define(&mut terms, 9, "fast", None);
    assert_eq!(terms.of("a.example", "plain").own_ms, 0);
}

#[test]
fn a_crawl_waits_for_its_own_interval_since_its_last_answer_while_others_are_requested() {
    let terms = terms(1000, &[("slow", Some(9000))]);
    let mut sites = sites(&terms, 0, vec![], T);
    assert_eq!(sites.decide(&terms, &of("slow", T), T), passed(T, 100, 9000));
    sites.learn(&terms, &answer("slow", T, 1000), origin(), T + 1000);
    let now = T + 1000;
    assert_eq!(sites.decide(&terms, &of("slow", now), now), deferred(T + 1000 + 9000 - 1000), "half a horizon early");
    // The gap of the site is twice its response time.
    assert_eq!(sites.decide(&terms, &of("docs", now), now), passed(T + 3000, 2000, 1000));
    let now = T + 9000;
    assert_eq!(sites.decide(&terms, &of("slow", now), now), passed(T + 10_000, 2000, 9000), "as for any other crawl");
}

#[test]
fn an_answer_to_a_request_of_a_former_owner_delays_its_crawl_too() {
    let terms = terms(1000, &[("slow", Some(9000))]);
    let mut sites = sites(&terms, 5, vec![], T);
    let at = T + 60_000;
    sites.learn(&terms, &answer("slow", at, 0), origin(), at);
    sites.sweep(&terms, at);
    assert_eq!(sites.decide(&terms, &of("slow", at), at), deferred(at + 9000 - 1000));
}

#[test]
fn a_successor_waits_for_the_own_interval_of_a_crawl_too() {
    let terms = terms(1000, &[("slow", Some(5000))]);
    let mut sites = sites(&terms, 5, vec![], T);
    assert_eq!(sites.decide(&terms, &of("docs", T + 1000), T + 1000), passed(T + 3000, 100, 1000));
    assert_eq!(sites.decide(&terms, &of("slow", T + 1000), T + 1000), deferred(T + 2000 + 5000 - 1000));
    assert_eq!(sites.decide(&terms, &of("slow", T + 6000), T + 6000), passed(T + 7000, 100, 5000));
}

#[test]
fn a_site_stays_in_memory_while_it_delays_a_crawl() {
    let terms = terms(1000, &[("slow", Some(60_000))]);
    let mut sites = sites(&terms, 0, vec![], T);
    sites.decide(&terms, &of("slow", T), T);
    sites.sweep(&terms, T + 59_000);
    assert_eq!(sites.len(), 1);
    assert_eq!(sites.decide(&terms, &of("slow", T + 50_000), T + 50_000), deferred(T + 60_000 - 1000));
    sites.sweep(&terms, T + 60_000);
    assert_eq!(sites.len(), 0);
}

#[test]
fn an_interval_set_for_the_site_applies_to_all_crawls_and_an_own_one_in_addition() {
    let mut terms = terms(1000, &[("slow", Some(5000)), ("fast", Some(100))]);
    let mut sites = sites(&terms, 0, vec![], T);
    let settings = SiteSettings { interval_ms: Some(2000), ..SiteSettings::of("a.example".into(), T) };
    control(&mut terms, 3, Some(settings));
    assert_eq!(sites.decide(&terms, &of("slow", T), T), passed(T, 2000, 5000));
    assert_eq!(sites.decide(&terms, &of("fast", T), T), passed(T + 2000, 2000, 100));
    assert_eq!(sites.decide(&terms, &of("slow", T), T), deferred(T + 5000 - 1000));
}

#[test]
fn a_crawl_with_an_own_interval_waits_for_it_at_an_unlimited_site_too() {
    let mut config = RateLimiterConfig::default();
    config.overrides.insert("a.example".to_owned(), Rate { interval_ms: 0 });
    let mut terms = SiteTerms::new(config);
    define(&mut terms, 1, "slow", Some(1000));
    let mut sites = sites(&terms, 0, vec![], T);
    for (crawl, moment, own_ms) in [("slow", T, 1000), ("docs", T, 0), ("slow", T + 1000, 1000), ("docs", T, 0)] {
        assert_eq!(sites.decide(&terms, &of(crawl, T), T), passed(moment, 0, own_ms), "{crawl}");
    }
}

#[test]
fn a_changed_interval_applies_from_the_next_dispatch_on() {
    let mut terms = terms(1000, &[("docs", Some(60_000))]);
    let mut sites = sites(&terms, 0, vec![], T);
    assert_eq!(sites.decide(&terms, &of("docs", T), T), passed(T, 100, 60_000));
    assert_eq!(sites.decide(&terms, &of("docs", T), T), deferred(T + 60_000 - 1000));
    define(&mut terms, 2, "docs", Some(500));
    assert_eq!(sites.decide(&terms, &of("docs", T), T), passed(T + 500, 100, 500));
    define(&mut terms, 3, "docs", Some(1500));
    assert_eq!(
        sites.decide(&terms, &of("docs", T), T),
        passed(T + 500 + 1500, 100, 1500),
        "the gap of the site is the shorter one"
    );
    define(&mut terms, 4, "docs", None);
    assert_eq!(sites.decide(&terms, &of("docs", T + 1000), T + 1000), passed(T + 3000, 1000, 0));
    define(&mut terms, 5, "docs", Some(60_000));
    let at = T + 100_000;
    assert_eq!(sites.decide(&terms, &of("docs", at), at), passed(at, 100, 60_000));
    sites.sweep(&terms, at + 10_000);
    assert_eq!(sites.decide(&terms, &of("docs", at + 10_000), at + 10_000), deferred(at + 60_000 - 1000));
}

#[test]
fn a_dispatch_of_a_definition_that_was_not_read_is_deferred_for_a_second() {
    let mut terms = terms(1000, &[("docs", None)]);
    let mut sites = sites(&terms, 0, vec![], T);
    let newer = DispatchFields { definition: 2, ..of("docs", T) };
    let unread = Decision::Defer { reason: Deferral::Definition, retry_at_ms: T + 1000 };
    assert_eq!(sites.decide(&terms, &newer, T), unread);
    define(&mut terms, 2, "docs", Some(3000));
    assert_eq!(sites.decide(&terms, &newer, T), passed(T, 100, 3000));
}

#[test]
fn answers_to_a_slow_crawl_change_the_interval_of_others_as_their_own_would() {
    let terms = terms(1000, &[("slow", Some(20_000))]);
    let mut sites = sites(&terms, 0, vec![], T);
    sites.decide(&terms, &of("slow", T), T);
    for took_ms in [100, 2000, 100] {
        sites.learn(&terms, &answer("slow", T, took_ms), origin(), T + 2000);
    }
    let Decision::Pass { interval_ms, .. } = sites.decide(&terms, &of("docs", T + 2000), T + 2000) else { panic!() };
    assert_eq!(interval_ms, 1400, "half as long again, and a tenth of a second less after an ordinary answer");
}

#[test]
fn a_crawl_delay_applies_to_a_crawl_with_a_shorter_interval_of_its_own() {
    let terms = terms(1000, &[("fast", Some(100))]);
    let mut sites = sites(&terms, 0, vec![], T);
    assert_eq!(sites.decide(&terms, &of("fast", T), T), passed(T, 100, 100));
    let with_delay = |crawl, at| OutcomeFields { crawl_delay_ms: Some(500), ..answer(crawl, at, 0) };
    assert_eq!(written(sites.learn(&terms, &with_delay("fast", T), origin(), T)).crawl_delay_ms, Some(500));
    assert_eq!(sites.decide(&terms, &of("fast", T), T), passed(T + 500, 500, 100));
    // That delay is reported again a day later, for a crawl that it does not slow down.
    let later = T + 100_000_000;
    assert_eq!(sites.learn(&terms, &with_delay("docs", later), origin(), later), OutcomeEffect::Complete);
    assert_eq!(
        sites.decide(&terms, &of("docs", later), later),
        passed(later + 1000, 500, 1000),
        "and its own interval"
    );
}

const CRAWLS: [&str; 3] = ["docs", "news", "shop"];

/// Event in a partition with one site of several crawls.
#[derive(Debug, Clone)]
enum Step {
    Wait(Millis),
    Dispatch(usize),
    /// The oldest passed request is answered, `took_ms` after its scheduled time.
    Answer(Millis),
    Sweep,
    /// Another owner opens the partition.
    Move,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0i64..15_000).prop_map(Step::Wait),
        8 => (0..CRAWLS.len()).prop_map(Step::Dispatch),
        3 => (0i64..3000).prop_map(Step::Answer),
        2 => Just(Step::Sweep),
        1 => Just(Step::Move),
    ]
}

fn any_interval() -> impl Strategy<Value = Option<u64>> {
    prop::sample::select(vec![None, Some(100), Some(400), Some(1500), Some(20_000)])
}

/// Model of the environment of a partition.
struct Shared {
    rate_ms: u64,
    own_ms: [Option<u64>; CRAWLS.len()],
    terms: SiteTerms,
    sites: Sites,
    now: Millis,
    epoch: Offset,
    asked: VecDeque<(usize, Millis)>,
    /// Crawl of each request, by scheduled time, and the times of the last request and answer of each crawl.
    moments: BTreeMap<Millis, usize>,
    planned_ms: [Millis; CRAWLS.len()],
    answered_ms: [Millis; CRAWLS.len()],
}

impl Shared {
    fn new(rate_ms: u64, own_ms: [Option<u64>; CRAWLS.len()]) -> Self {
        let terms = terms(rate_ms, &std::array::from_fn::<_, { CRAWLS.len() }, _>(|at| (CRAWLS[at], own_ms[at])));
        let sites = sites(&terms, 0, vec![], T);
        let (planned_ms, answered_ms) = ([0; CRAWLS.len()], [0; CRAWLS.len()]);
        let (epoch, asked, moments) = (0, [].into(), BTreeMap::new());
        Self { rate_ms, own_ms, terms, sites, now: T, epoch, asked, moments, planned_ms, answered_ms }
    }

    fn apply(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Wait(by) => self.now += by,
            Step::Dispatch(crawl) => drop(self.dispatch(crawl)?),
            Step::Answer(took_ms) => {
                let Some((crawl, requested)) = self.asked.pop_front() else { return Ok(()) };
                self.now = self.now.max(requested + took_ms);
                self.answered_ms[crawl] = self.answered_ms[crawl].max(requested + took_ms);
                self.sites.learn(&self.terms, &answer(CRAWLS[crawl], requested, took_ms), origin(), self.now);
            }
            Step::Sweep => self.sites.sweep(&self.terms, self.now),
            Step::Move => {
                self.epoch += 1;
                self.sites = sites(&self.terms, self.epoch, vec![], self.now);
            }
        }
        Ok(())
    }

    /// Decides on a dispatch of a crawl. Returns the time at which it may come again, if it is deferred.
    fn dispatch(&mut self, crawl: usize) -> Result<Option<Millis>, TestCaseError> {
        let moment = match self.sites.decide(&self.terms, &of(CRAWLS[crawl], self.now), self.now) {
            Decision::Pass { not_before_ms, .. } => not_before_ms,
            Decision::Defer { retry_at_ms, .. } => return Ok(Some(retry_at_ms)),
        };
        let base = |crawl: usize| i64::try_from(self.own_ms[crawl].unwrap_or(self.rate_ms)).unwrap();
        // A time that was kept for a crawl may be before that of a later dispatch.
        let neighbors = [self.moments.range(..=moment).next_back(), self.moments.range(moment..).next()];
        for (at, other) in neighbors.into_iter().flatten() {
            let gap = (moment - at).abs();
            prop_assert!(gap >= base(*other).min(base(crawl)), "{gap} ms from another");
        }
        if self.own_ms[crawl].is_some() {
            let (planned, answered) = (self.planned_ms[crawl], self.answered_ms[crawl]);
            prop_assert!(moment - planned >= base(crawl), "{} ms after its last request", moment - planned);
            prop_assert!(moment - answered >= base(crawl), "{} ms after its last answer", moment - answered);
        }
        self.moments.insert(moment, crawl);
        self.planned_ms[crawl] = moment;
        self.asked.push_back((crawl, moment));
        Ok(None)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn moments_of_a_crawl_are_never_closer_than_its_own_interval_nor_those_of_two_crawls_than_the_shorter_one(
        rate_ms in prop::sample::select(vec![100u64, 1000, 3000, 20_000]),
        own_ms in [any_interval(), any_interval(), any_interval()],
        steps in prop::collection::vec(any_step(), 1..120),
    ) {
        let mut shared = Shared::new(rate_ms, own_ms);
        for step in &steps {
            shared.apply(step)?;
        }
        for crawl in 0..CRAWLS.len() {
            let mut deferrals = 0;
            while let Some(retry_at_ms) = shared.dispatch(crawl)? {
                shared.now = retry_at_ms;
                deferrals += 1;
                // Crawls that dispatched last, and have gone since, are waited for.
                prop_assert!(deferrals < 10, "deferred ten times in a row");
            }
        }
    }
}
