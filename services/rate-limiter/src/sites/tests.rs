mod crawls;
mod shares;

use std::borrow::Cow;

use bytes::Bytes;
use orbweaver_log::TopicPartition;
use orbweaver_messages::{CrawlDefinition, OutcomeKind, SiteSettings, encode, site_key, topic};
use orbweaver_scope::{ControlChange, ControlRecord};
use orbweaver_settings::Rate;
use proptest::prelude::*;

use super::*;
use crate::{
    config::RateLimiterConfig,
    partial_messages::ContextFields,
    site::tests::{outcome, staggered},
};

const T: Millis = 1_000_000_000;

fn sites(terms: &SiteTerms, epoch: Offset, memories: Vec<SiteState>, now: Millis) -> Sites {
    let mut restored = Restored::default();
    memories.into_iter().for_each(|memory| restored.take(memory));
    Sites::open(terms, restored, epoch, now)
}

fn dispatch(now: Millis) -> DispatchFields<'static> {
    DispatchFields {
        context: ContextFields { crawl: Cow::Borrowed("docs"), site: Cow::Borrowed("a.example") },
        definition: 0,
        not_after_ms: now + 30_000,
    }
}

/// Returns a record of `a.example`.
fn memory(epoch: Offset, blocked_until_ms: Millis) -> SiteState {
    let site = "a.example".into();
    SiteState { site, epoch, blocked_until_ms, blocks: 1, updated_at_ms: T, ..SiteState::default() }
}

fn origin() -> Origin {
    Origin { tp: TopicPartition::new(topic::OUTCOMES, 0), offset: 7, assignment_epoch: 1 }
}

/// Returns the decision about a dispatch of a crawl without an interval of its own.
fn passed(not_before_ms: Millis, interval_ms: u64) -> Decision {
    Decision::Pass { not_before_ms, interval_ms, own_ms: 0 }
}

fn written(lesson: OutcomeEffect) -> SiteState {
    match lesson {
        OutcomeEffect::Write(record) => record.memory,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_owner_ever_asks_at_once_and_a_successor_waits_out_what_may_be_planned() {
    let terms = SiteTerms::new(RateLimiterConfig::default());
    assert_eq!(sites(&terms, 0, vec![], T).decide(&terms, &dispatch(T), T), passed(T, 1000));
    let mut successor = sites(&terms, 5, vec![], T);
    let Decision::Defer { reason: Deferral::Interval, retry_at_ms } = successor.decide(&terms, &dispatch(T), T) else {
        panic!()
    };
    assert_eq!(retry_at_ms, T + 2000);
    assert_eq!(successor.decide(&terms, &dispatch(T + 2000), T + 2000), passed(T + 3000, 1000));
}

#[test]
fn a_tombstone_of_an_owner_before_the_newest_forgets_nothing() {
    let terms = SiteTerms::new(RateLimiterConfig::default());
    for (epoch, remembered) in [(Some(4), 1), (Some(5), 0), (Some(9), 0), (None, 0)] {
        let mut restored = Restored::default();
        restored.take(memory(5, T + 60_000));
        restored.forget("a.example", epoch);
        assert_eq!(Sites::open(&terms, restored, 9, T).blocked(1).0, remembered, "{epoch:?}");
    }
}

#[test]
fn an_unlimited_site_passes_at_once_and_leaves_no_trace() {
    let terms = SiteTerms::new(RateLimiterConfig { rate: Rate { interval_ms: 0 }, ..RateLimiterConfig::default() });
    let mut sites = sites(&terms, 9, vec![], T);
    for _ in 0..3 {
        assert_eq!(sites.decide(&terms, &dispatch(T), T), passed(T, 0));
    }
    assert_eq!(
        sites.learn(&terms, &outcome(OutcomeKind::Fetched, 200, T, 9), origin(), T + 9),
        OutcomeEffect::Complete
    );
    assert_eq!(sites.len(), 0);
    written(sites.learn(&terms, &outcome(OutcomeKind::Blocked, 429, T, 9), origin(), T + 9));
    assert!(matches!(sites.decide(&terms, &dispatch(T + 9), T + 9), Decision::Defer { reason: Deferral::Blocked, .. }));
}

#[test]
fn a_late_dispatch_is_deferred() {
    let terms = SiteTerms::new(RateLimiterConfig::default());
    let mut sites = sites(&terms, 0, vec![], T);
    let late = Decision::Defer { reason: Deferral::Late, retry_at_ms: T + 30_001 };
    assert_eq!(sites.decide(&terms, &dispatch(T), T + 30_001), late);
}

#[test]
fn a_blocked_site_stays_blocked_for_a_successor_whose_clock_is_ahead() {
    let terms = SiteTerms::new(RateLimiterConfig::default());
    let over = T + staggered(60_000) + CLOCK_MARGIN_MS;
    let mut first = sites(&terms, 0, vec![], T);
    let memory = written(first.learn(&terms, &outcome(OutcomeKind::Blocked, 429, T, 0), origin(), T));
    let mut second = sites(&terms, 5, vec![memory], T + 10_000);
    let blocked = Decision::Defer { reason: Deferral::Blocked, retry_at_ms: over };
    assert_eq!(second.decide(&terms, &dispatch(T + 10_000), T + 10_000), blocked);
    assert_eq!(second.blocked(5), (1, vec![(over, "a.example")]));
    let Decision::Pass { interval_ms, .. } = second.decide(&terms, &dispatch(over), over) else { panic!() };
    assert_eq!(interval_ms, 2000, "the refusal still slows it down");
    second.unblock(over);
    assert_eq!(second.blocked(5), (0, vec![]));
}

#[test]
fn the_current_record_follows_one_of_a_stale_owner_once_none_is_in_flight() {
    let terms = SiteTerms::new(RateLimiterConfig::default());
    let mut sites = sites(&terms, 20, vec![], T);
    let current = written(sites.learn(&terms, &outcome(OutcomeKind::Blocked, 429, T, 0), origin(), T));
    assert_eq!(sites.settled("a.example", T), None);
    let record = sites.restate(&terms, "a.example", T).unwrap();
    assert_eq!((record.memory, record.completes), (current.clone(), vec![]));
    assert_eq!(sites.restate(&terms, "a.example", T), None, "one is in flight");
    assert_eq!(sites.settled("a.example", T).unwrap().memory, current);
    assert_eq!(sites.restate(&terms, "unknown.example", T).unwrap().memory.blocked_until_ms, 0);
}

#[test]
fn sites_without_lessons_are_forgotten_and_lessons_are_kept_for_a_while() {
    let terms = SiteTerms::new(RateLimiterConfig::default());
    let mut sites = sites(&terms, 0, vec![], T);
    sites.decide(&terms, &dispatch(T), T);
    let slow = OutcomeFields {
        context: ContextFields { crawl: Cow::Borrowed("docs"), site: Cow::Borrowed("slow.example") },
        crawl_delay_ms: Some(9000),
        ..outcome(OutcomeKind::Fetched, 200, T, 0)
    };
    written(sites.learn(&terms, &slow, origin(), T));
    sites.sweep(&terms, T + 20_000);
    assert_eq!(sites.len(), 1);
    sites.sweep(&terms, T + 4_000_000);
    assert_eq!(sites.len(), 1, "its record is still in flight");
    assert_eq!(sites.settled("slow.example", T), None);
    sites.sweep(&terms, T + 4_000_000);
    assert_eq!(sites.len(), 0);
}

/// Applies settings of `a.example` in place of all earlier ones, or ends them.
fn control(terms: &mut SiteTerms, offset: Offset, settings: Option<SiteSettings>) {
    let (key, replaces) = (site_key("a.example"), (0..offset).collect());
    let value = settings.map(|settings| encode(&SiteSettings { replaces, ..settings }));
    let record = ControlRecord { partition: 0, offset, key: Some(key.as_bytes()), value: value.as_ref() };
    assert_eq!(terms.apply(record), ControlChange::Site("a.example".into()));
}

#[test]
fn a_frozen_site_gets_no_request_and_a_slower_one_its_own_interval_also_from_a_successor() {
    let mut terms = SiteTerms::new(RateLimiterConfig::default());
    let mut sites = sites(&terms, 0, vec![], T);
    let settings = SiteSettings::of("a.example".into(), T);
    control(&mut terms, 1, Some(SiteSettings { frozen: true, ..settings.clone() }));
    let frozen = Decision::Defer { reason: Deferral::Frozen, retry_at_ms: T + 10_000 };
    assert_eq!(sites.decide(&terms, &dispatch(T), T), frozen);
    control(&mut terms, 2, Some(SiteSettings { interval_ms: Some(1500), ..settings.clone() }));
    let passed = |not_before_ms| passed(not_before_ms, 1500);
    assert_eq!(sites.decide(&terms, &dispatch(T), T), passed(T));
    assert_eq!(sites.decide(&terms, &dispatch(T), T), passed(T + 1500));
    let mut successor = Sites::open(&terms, Restored::default(), 5, T);
    let at = T + 4000;
    assert_eq!(successor.decide(&terms, &dispatch(at), at), passed(at));
    control(&mut terms, 3, Some(SiteSettings { interval_ms: Some(1), ..settings }));
    let Decision::Pass { interval_ms, .. } = sites.decide(&terms, &dispatch(at), at) else { panic!() };
    assert_eq!(interval_ms, 100, "ten per second at most");
    control(&mut terms, 4, None);
    let Decision::Pass { interval_ms, .. } = sites.decide(&terms, &dispatch(at), at) else { panic!() };
    assert_eq!(interval_ms, 1000);
}

#[test]
fn a_dispatch_of_a_paused_crawl_is_deferred_and_takes_no_time_of_its_site() {
    let mut terms = SiteTerms::new(RateLimiterConfig::default());
    let mut sites = sites(&terms, 0, vec![], T);
    let paused = include_str!("../../../../schemas/examples/crawl-definition/1/paused.json");
    let paused = Bytes::from_static(paused.as_bytes());
    terms.apply(ControlRecord { partition: 0, offset: 12, key: Some(b"crawl/docs"), value: Some(&paused) });
    let held = Decision::Defer { reason: Deferral::Paused, retry_at_ms: T + 1000 };
    assert_eq!(sites.decide(&terms, &dispatch(T), T), held);
    let context = ContextFields { crawl: Cow::Borrowed("news"), site: Cow::Borrowed("a.example") };
    let other = DispatchFields { context, ..dispatch(T) };
    assert_eq!(sites.decide(&terms, &other, T), passed(T, 1000));
}

#[test]
fn an_override_stands_in_place_of_the_default() {
    let overrides = std::collections::BTreeMap::from([("a.example".to_owned(), Rate { interval_ms: 200 })]);
    let terms = SiteTerms::new(RateLimiterConfig { overrides, ..RateLimiterConfig::default() });
    let mut sites = sites(&terms, 0, vec![], T);
    sites.decide(&terms, &dispatch(T), T);
    assert_eq!(sites.decide(&terms, &dispatch(T), T), passed(T + 200, 200));
}

/// Event in a partition with one site.
#[derive(Debug, Clone)]
enum Event {
    Wait(Millis),
    Dispatch,
    /// The oldest passed request is answered, `took_ms` after its scheduled time.
    Answer {
        took_ms: Millis,
        status: u16,
        retry_after_ms: Option<Millis>,
        crawl_delay_ms: Option<u64>,
    },
    /// The record in flight is acknowledged.
    Settle,
    /// The owner crashes; the next owner opens the partition with the acknowledged records, and with the one in flight
    /// if it `landed`.
    Crash {
        landed: bool,
    },
}

fn any_event() -> impl Strategy<Value = Event> {
    let answer = (0i64..6000, prop::sample::select(vec![200u16, 200, 404, 429, 500, 503]))
        .prop_flat_map(|(took_ms, status)| {
            let retry_after = prop::option::of(0i64..90_000);
            let delay = prop::option::weighted(0.2, 0u64..8000);
            (Just(took_ms), Just(status), retry_after, delay)
        })
        .prop_map(|(took_ms, status, retry_after_ms, crawl_delay_ms)| Event::Answer {
            took_ms,
            status,
            retry_after_ms,
            crawl_delay_ms,
        });
    prop_oneof![
        3 => (0i64..4000).prop_map(Event::Wait),
        5 => Just(Event::Dispatch),
        3 => answer,
        2 => Just(Event::Settle),
        1 => any::<bool>().prop_map(|landed| Event::Crash { landed }),
    ]
}

/// Model of the environment of a partition: durable records, passed requests, known blocks.
struct World {
    config: RateLimiterConfig,
    terms: SiteTerms,
    sites: Sites,
    now: Millis,
    epoch: Offset,
    log: Vec<SiteState>,
    in_flight: Option<SiteState>,
    asked: std::collections::VecDeque<Millis>,
    moments: Vec<Millis>,
    /// Latest end of a block that the owner knows; after a crash, the one in the last durable record.
    known_until: Millis,
}

impl World {
    fn new(config: RateLimiterConfig) -> Self {
        let terms = SiteTerms::new(config.clone());
        let sites = sites(&terms, 0, vec![], T);
        Self {
            config,
            terms,
            sites,
            now: T,
            epoch: 0,
            log: vec![],
            in_flight: None,
            asked: [].into(),
            moments: vec![],
            known_until: 0,
        }
    }

    fn apply(&mut self, event: &Event) -> Result<(), TestCaseError> {
        match event {
            Event::Wait(by) => self.now += by,
            Event::Dispatch => self.dispatch()?,
            Event::Answer { took_ms, status, retry_after_ms, crawl_delay_ms } => {
                let Some(requested) = self.asked.pop_front() else { return Ok(()) };
                let answered = requested + took_ms;
                self.now = self.now.max(answered);
                let refused = matches!(status, 429 | 503);
                let kind = if refused { OutcomeKind::Blocked } else { OutcomeKind::Fetched };
                let until = retry_after_ms.filter(|_| refused).map(|after| answered + after);
                let outcome = OutcomeFields {
                    blocked_until_ms: until,
                    crawl_delay_ms: *crawl_delay_ms,
                    ..outcome(kind, *status, requested, *took_ms)
                };
                self.known_until = self.known_until.max(until.unwrap_or(0));
                if let OutcomeEffect::Write(record) = self.sites.learn(&self.terms, &outcome, origin(), self.now) {
                    prop_assert!(self.in_flight.is_none(), "two records of a site are in flight");
                    self.in_flight = Some(record.memory);
                }
            }
            Event::Settle => {
                if let Some(memory) = self.in_flight.take() {
                    self.log.push(memory);
                    self.in_flight = self.sites.settled("a.example", self.now).map(|record| record.memory);
                }
            }
            Event::Crash { landed } => {
                self.log.extend(self.in_flight.take().filter(|_| *landed));
                self.epoch = self.log.len() as u64 + 1;
                self.sites = sites(&self.terms, self.epoch, self.log.clone(), self.now);
                self.known_until = self.log.last().map_or(0, |memory| memory.blocked_until_ms);
            }
        }
        Ok(())
    }

    fn dispatch(&mut self) -> Result<(), TestCaseError> {
        match self.sites.decide(&self.terms, &dispatch(self.now), self.now) {
            Decision::Pass { not_before_ms, interval_ms, .. } => {
                prop_assert!(not_before_ms >= self.now);
                prop_assert!(not_before_ms >= self.known_until, "asked while the site is blocked");
                prop_assert!(interval_ms >= self.config.rate.interval_ms);
                if let Some(last) = self.moments.last() {
                    let gap = not_before_ms - last;
                    prop_assert!(gap >= i64::try_from(interval_ms).unwrap(), "{gap} ms, interval {interval_ms} ms");
                }
                self.moments.push(not_before_ms);
                self.asked.push_back(not_before_ms);
            }
            Decision::Defer { retry_at_ms, .. } => prop_assert!(retry_at_ms >= self.now),
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn moments_of_a_site_are_never_closer_than_its_interval_nor_within_a_block_that_is_known(
        interval in prop::sample::select(vec![100u64, 1000, 3000, 20_000]),
        events in prop::collection::vec(any_event(), 1..120),
    ) {
        let mut world = World::new(RateLimiterConfig { rate: Rate { interval_ms: interval }, ..RateLimiterConfig::default() });
        for event in &events {
            world.apply(event)?;
        }
    }

    #[test]
    fn a_dispatch_that_comes_back_when_it_was_told_passes_in_the_end(
        interval in prop::sample::select(vec![100u64, 1000, 3000, 20_000]),
        events in prop::collection::vec(any_event(), 0..60),
    ) {
        let mut world = World::new(RateLimiterConfig { rate: Rate { interval_ms: interval }, ..RateLimiterConfig::default() });
        for event in &events {
            world.apply(event)?;
        }
        for _ in 0..4 {
            match world.sites.decide(&world.terms, &dispatch(world.now), world.now) {
                Decision::Defer { retry_at_ms, .. } => world.now = retry_at_ms,
                _ => return Ok(()),
            }
        }
        prop_assert!(false, "deferred four times in a row");
    }
}
