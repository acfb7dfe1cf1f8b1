use std::borrow::Cow;

use orbweaver_messages::OutcomeKind;

use super::*;
use crate::partial_messages::ContextFields;

const TERMS: Terms = Terms { site_ms: None, rate_ms: 1000, own_ms: 0, horizon_ms: 2000, share: 100 };
const T: Millis = 1_000_000_000;

/// Returns an outcome of `a.example`.
pub(crate) fn outcome(
    kind: OutcomeKind,
    status: u16,
    requested_at_ms: Millis,
    took_ms: Millis,
) -> OutcomeFields<'static> {
    OutcomeFields {
        context: ContextFields { crawl: Cow::Borrowed("docs"), site: Cow::Borrowed("a.example") },
        kind,
        status: Some(status),
        requested_at_ms: Some(requested_at_ms),
        answered_at_ms: Some(requested_at_ms + took_ms),
        ended_at_ms: requested_at_ms + took_ms,
        blocked_until_ms: None,
        crawl_delay_ms: None,
    }
}

/// Returns a block of `a.example` of this duration as it is applied.
pub(crate) fn staggered(block_ms: u64) -> Millis {
    Millis::try_from(staggered_ms(block_ms, slot_of("a.example"))).unwrap()
}

fn pass(decision: Decision) -> Millis {
    match decision {
        Decision::Pass { not_before_ms, .. } => not_before_ms,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_usual_answer_time_is_added_and_a_slow_answer_pushes_the_next_moment_on() {
    let mut site = Site::asked_at(None);
    assert_eq!(pass(site.decide("docs", T + 30_000, TERMS, T)), T);
    assert!(!site.learn(&outcome(OutcomeKind::Fetched, 200, T, 300), TERMS, T + 400));
    assert_eq!(pass(site.decide("docs", T + 30_000, TERMS, T + 400)), T + 1300);
    assert!(!site.learn(&outcome(OutcomeKind::Gone, 404, T + 1300, 450), TERMS, T + 1800));
    assert_eq!(pass(site.decide("docs", T + 30_000, TERMS, T + 1800)), T + 1750 + 1000, "later than the plan says");
}

#[test]
fn a_moment_past_the_latest_is_not_given() {
    let mut site = Site::asked_at(Some(T));
    let decision = site.decide("docs", T + 500, TERMS, T);
    assert_eq!(decision, Decision::Defer { reason: Deferral::Interval, retry_at_ms: T });
}

#[test]
fn a_refusal_blocks_from_its_own_time_and_its_replay_makes_nothing_longer() {
    let mut site = Site::asked_at(None);
    let refusal = outcome(OutcomeKind::Blocked, 429, T, 100);
    assert!(site.learn(&refusal, TERMS, T + 150));
    let until = T + 100 + staggered(60_000);
    assert_eq!(site.blocked_until_ms(T + 150), Some(until));
    let blocked = Decision::Defer { reason: Deferral::Blocked, retry_at_ms: until };
    assert_eq!(site.decide("docs", T + 40_000, TERMS, T + 10_000), blocked);
    assert!(!site.learn(&refusal, TERMS, T + 30_000));
    assert!(!site.learn(&refusal, TERMS, T + 300_000));
    assert_eq!(site.remembered.blocks, 1);
    assert_eq!(site.blocked_until_ms(until), None);
}

#[test]
fn refusals_of_one_burst_count_once_and_refusals_in_a_row_double() {
    let mut site = Site::asked_at(None);
    assert!(site.learn(&outcome(OutcomeKind::Blocked, 503, T, 100), TERMS, T + 150));
    assert!(!site.learn(&outcome(OutcomeKind::Blocked, 503, T + 50, 60), TERMS, T + 150));
    assert_eq!(site.remembered.blocks, 1);
    let again = T + 70_000;
    assert!(site.learn(&outcome(OutcomeKind::Blocked, 503, again, 0), TERMS, again));
    assert_eq!(site.blocked_until_ms(again), Some(again + staggered(120_000)));
}

#[test]
fn a_block_counts_from_when_it_is_heard_as_far_as_clocks_may_be_apart_and_a_replay_makes_it_no_longer() {
    let end = T + staggered(5000);
    for (received_at, until) in [(T - 2000, end), (T + 300, end + 301), (T + 60_000, end + CLOCK_MARGIN_MS)] {
        let mut site = Site::asked_at(None);
        let mut refusal = outcome(OutcomeKind::Blocked, 429, T, 0);
        refusal.blocked_until_ms = Some(T + 5000);
        site.learn(&refusal, TERMS, received_at);
        let blocked = site.blocked_until_ms(received_at);
        assert_eq!(blocked, Some(until).filter(|until| *until > received_at), "received at {received_at}");
        site.learn(&refusal, TERMS, received_at + 1000);
        assert_eq!(site.blocked_until_ms(received_at), blocked, "received at {received_at} and again");
        refusal.blocked_until_ms = Some(Millis::MAX);
        site.learn(&refusal, TERMS, T);
        let until = site.blocked_until_ms(T).unwrap();
        assert!((T..=T + Millis::try_from(MAX_BLOCK_MS).unwrap()).contains(&until), "a day and a tenth at most");
    }
}

#[test]
fn half_an_hour_of_good_answers_forgives_refusals_and_a_refusal_in_between_starts_it_again() {
    let mut site = Site::asked_at(None);
    let good = |site: &mut Site, at| site.learn(&outcome(OutcomeKind::Fetched, 200, at, 100), TERMS, at + 100);
    assert!(site.learn(&outcome(OutcomeKind::Blocked, 429, T, 100), TERMS, T + 100));
    assert!(!good(&mut site, T + 50), "requested before the refusal was known");
    let first = T + 70_000;
    assert!(!good(&mut site, first));
    assert!(!good(&mut site, first + FORGIVEN_AFTER_MS - 1));
    let again = first + FORGIVEN_AFTER_MS - 1 + 200;
    assert!(site.learn(&outcome(OutcomeKind::Blocked, 429, again, 100), TERMS, again + 100));
    assert_eq!(site.blocked_until_ms(again), Some(again + 100 + staggered(120_000)), "two in a row");
    let first = again + 140_000;
    assert!(!good(&mut site, first));
    let last = first + FORGIVEN_AFTER_MS;
    assert!(!site.learn(&outcome(OutcomeKind::Retry, 500, last, 100), TERMS, last + 100), "no good answer");
    assert!(good(&mut site, last));
    assert_eq!(site.remembered.blocks, 0);
    let replay = outcome(OutcomeKind::Blocked, 429, again, 100);
    assert!(!site.learn(&replay, TERMS, last + 200), "a replay of the last refusal");
}

#[test]
fn a_refusal_slows_the_site_down_after_its_block_too() {
    let mut site = Site::asked_at(None);
    assert!(site.learn(&outcome(OutcomeKind::Blocked, 429, T, 0), TERMS, T));
    let after = T + staggered(60_000);
    let Decision::Pass { interval_ms, .. } = site.decide("docs", after + 30_000, TERMS, after) else { panic!() };
    assert_eq!(interval_ms, 2000);
}

#[test]
fn a_crawl_delay_counts_where_it_is_slower_and_a_shorter_one_of_another_host_waits_a_day() {
    let mut site = Site::asked_at(None);
    let with_delay = |at: Millis, delay_ms| OutcomeFields {
        crawl_delay_ms: Some(delay_ms),
        ..outcome(OutcomeKind::Fetched, 200, at, 10)
    };
    assert!(!site.learn(&with_delay(T, 500), TERMS, T));
    assert!(site.learn(&with_delay(T, 5000), TERMS, T));
    assert!(!site.learn(&with_delay(T, 5000), TERMS, T));
    assert!(!site.learn(&with_delay(T + 1000, 2000), TERMS, T + 1000));
    assert_eq!(site.remembered.crawl_delay_ms, Some(5000));
    let later = T + CRAWL_DELAY_KEPT_MS + 1000;
    assert!(site.learn(&with_delay(later, 2000), TERMS, later));
    assert_eq!(site.remembered.crawl_delay_ms, Some(2000));
    let delay = with_delay(later, u64::MAX);
    assert!(site.learn(&delay, TERMS, later));
    assert_eq!(site.remembered.crawl_delay_ms, Some(MAX_CRAWL_DELAY_MS));
}

#[test]
fn a_clock_that_stepped_back_does_not_stop_a_site() {
    let mut site = Site::asked_at(None);
    pass(site.decide("docs", T + 30_000, TERMS, T));
    site.learn(&outcome(OutcomeKind::Fetched, 200, T, 100), TERMS, T + 100);
    let back = T - 3_600_000;
    let Decision::Defer { retry_at_ms, .. } = site.decide("docs", back + 30_000, TERMS, back) else { panic!() };
    assert!(retry_at_ms <= back + 3_000, "{}", retry_at_ms - back);
}

#[test]
fn an_answer_time_out_of_range_counts_as_the_longest() {
    let mut site = Site::asked_at(None);
    let usual = outcome(OutcomeKind::Fetched, 200, T, 100);
    let longest = OutcomeFields { requested_at_ms: Some(Millis::MIN), answered_at_ms: Some(Millis::MAX), ..usual };
    assert!(!site.learn(&longest, TERMS, T));
    assert_eq!(pass(site.decide("docs", T + 30_000, Terms { horizon_ms: 10_000, ..TERMS }, T)), T + 10_000);
}

#[test]
fn a_site_that_answers_slowly_has_twice_its_answer_time_between_requests() {
    let mut site = Site::asked_at(None);
    assert!(!site.learn(&outcome(OutcomeKind::Fetched, 200, T, 3000), TERMS, T + 3000));
    let Decision::Defer { retry_at_ms, .. } = site.decide("docs", T + 30_000, TERMS, T + 3000) else { panic!() };
    assert_eq!(retry_at_ms, T + 3000 + 6000 - 1000, "half a horizon early");
}

#[test]
fn a_site_without_lessons_is_idle_soon_and_a_blocked_one_never() {
    let mut site = Site::asked_at(None);
    pass(site.decide("docs", T + 30_000, TERMS, T));
    assert!(!site.is_idle(TERMS, T + 1000));
    assert!(site.is_idle(TERMS, T + 12_000));
    site.learn(&outcome(OutcomeKind::Blocked, 429, T, 0), TERMS, T);
    assert!(!site.is_idle(TERMS, T + 12_000));
    assert!(!site.is_idle(TERMS, T + STREAK_KEPT_MS - 1));
    assert!(site.is_idle(TERMS, T + STREAK_KEPT_MS + 1));
}

#[test]
fn clocks_of_crawls_that_delay_nothing_any_longer_are_removed_and_the_others_keep_their_site() {
    let mut site = Site::asked_at(None);
    for (crawl, own_ms) in [("docs", 1000), ("news", 20_000)] {
        pass(site.decide(crawl, T + 30_000, Terms { own_ms, ..TERMS }, T));
    }
    site.prune_crawls(TERMS, T + 20_999);
    assert!(!site.own_clocks.is_empty() && !site.is_idle(TERMS, T + 20_999), "scheduled a second after the other one");
    assert_eq!(site.own_clocks.of("docs").planned_ms, None);
    site.prune_crawls(TERMS, T + 21_000);
    assert!(site.own_clocks.is_empty() && site.is_idle(TERMS, T + 21_000));
}
