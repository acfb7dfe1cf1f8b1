#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use std::collections::BTreeMap;

use orbweaver_messages::{Dispatch, DispatchId};
use proptest::prelude::*;

use super::*;

const DAY: u64 = 86_400_000;
const BOUNDS: RevisitBounds = RevisitBounds { interval_ms: DAY, max_interval_ms: 30 * DAY };
const POLICY: RevisitPolicy = RevisitPolicy { interval_ms: DAY, max_interval_ms: 30 * DAY, types: BTreeMap::new() };

fn admitted() -> FrontierUrl {
    let context = UrlContext::of_seed("news".parse().unwrap(), "https://a.example/".to_owned(), "a.example".into());
    FrontierUrl { failures: 2, not_before_ms: 5, ..FrontierUrl::admitted(context, 1) }
}

fn version(content: &str) -> PageVersion {
    let (content_hash, etag) = (Some(content.to_owned()), Some(format!("\"{content}\"")));
    // The text is the first character.
    PageVersion { content_hash, text_hash: Some(content[..1].to_owned()), etag, last_modified: None }
}

/// Returns the outcome of a dispatch of this record.
fn outcome(waiting: &FrontierUrl, kind: OutcomeKind, status: Option<u16>, at_ms: Millis) -> Outcome {
    let dispatch = Dispatch::of(waiting, DispatchId { epoch: 1, sequence: 1 }, false, at_ms);
    Outcome { status, requested_at_ms: status.map(|_| at_ms), ..Outcome::of(&dispatch, kind, None, at_ms) }
}

/// Ends a visit that found this content after an interval; returns the kind of the change and the next record.
fn visit(waiting: &FrontierUrl, content: &str, at_ms: Millis) -> (Option<ChangeKind>, FrontierUrl) {
    let found = Outcome { version: Some(version(content)), ..outcome(waiting, OutcomeKind::Fetched, Some(200), at_ms) };
    end(waiting, &found)
}

fn end(waiting: &FrontierUrl, outcome: &Outcome) -> (Option<ChangeKind>, FrontierUrl) {
    let ended = EndedVisit::of(outcome);
    let change = Change::of(waiting, &ended);
    (change.kind, change.next_visit(&POLICY, waiting, outcome.ended_at_ms))
}

fn interval(asleep: &FrontierUrl) -> u64 {
    (asleep.not_before_ms - asleep.visits.as_ref().unwrap().visited_at_ms).unsigned_abs()
}

#[test]
fn a_page_is_new_then_unchanged_then_changed_then_gone_then_new_again() {
    let (kind, first) = visit(&admitted(), "a", 1_000);
    assert_eq!((kind, first.context.visit, first.failures, interval(&first)), (Some(ChangeKind::New), 1, 0, DAY));
    let (kind, second) = visit(&first, "a", first.not_before_ms);
    assert_eq!((kind, second.context.visit), (None, 2));
    assert!(interval(&second) > DAY, "one that did not change is visited less often");
    let (_, other) = visit(&first, "b", first.not_before_ms);
    assert!(interval(&other) < interval(&second), "than one that did");
    let (_, third) = visit(&second, "b", second.not_before_ms);
    let ended = EndedVisit::of(&Outcome {
        version: Some(version("b")),
        ..outcome(&second, OutcomeKind::Fetched, Some(200), second.not_before_ms)
    });
    let change = Change::of(&second, &ended).page_change(&second).unwrap();
    assert_eq!((change.kind, change.context.visit, change.version), (ChangeKind::Changed, 2, version("b")));
    assert_eq!((change.previous_hash.as_deref(), change.previous_at_ms), (Some("a"), Some(first.not_before_ms)));
    let (kind, fourth) = end(&third, &outcome(&third, OutcomeKind::Gone, Some(410), third.not_before_ms));
    assert_eq!((kind, interval(&fourth)), (Some(ChangeKind::Gone), DAY));
    let (kind, fifth) = end(&fourth, &outcome(&fourth, OutcomeKind::Gone, Some(404), fourth.not_before_ms));
    assert_eq!((kind, interval(&fifth)), (None, 2 * DAY), "gone pages are visited ever more rarely");
    assert_eq!(visit(&fifth, "b", fifth.not_before_ms).0, Some(ChangeKind::New));
}

#[test]
fn a_changed_page_says_whether_its_text_is_another_one_if_that_is_known() {
    let (_, known) = visit(&admitted(), "a1", 1_000);
    let changed = |version| {
        let found = Outcome { version: Some(version), ..outcome(&known, OutcomeKind::Fetched, Some(200), 2_000) };
        let change = Change::of(&known, &EndedVisit::of(&found)).page_change(&known).unwrap();
        (change.kind, change.text_changed)
    };
    assert_eq!(changed(version("a2")), (ChangeKind::Changed, Some(false)));
    assert_eq!(changed(version("b1")), (ChangeKind::Changed, Some(true)));
    assert_eq!(changed(PageVersion { text_hash: None, ..version("b1") }), (ChangeKind::Changed, None));
    let first =
        Outcome { version: Some(version("a1")), ..outcome(&admitted(), OutcomeKind::Fetched, Some(200), 1_000) };
    let new = Change::of(&admitted(), &EndedVisit::of(&first)).page_change(&admitted()).unwrap();
    assert_eq!((new.kind, new.text_changed), (ChangeKind::New, None));
}

#[test]
fn a_page_whose_text_stays_as_it_is_counts_as_unchanged_for_its_interval() {
    let visits = |contents: [&str; 4]| {
        let first = visit(&admitted(), contents[0], 1_000).1;
        let last = contents[1..].iter().fold(first, |known, content| {
            let (kind, next) = visit(&known, content, known.not_before_ms);
            assert_eq!(kind.is_some(), known.visits.unwrap().version != version(content), "each change is recorded");
            next
        });
        interval(&last)
    };
    assert_eq!(visits(["a1", "a2", "a3", "a4"]), visits(["a", "a", "a", "a"]));
    assert!(visits(["a1", "b1", "a1", "b1"]) < visits(["a1", "a2", "a3", "a4"]));
}

#[test]
fn an_update_is_confirmed_by_another_text_alone() {
    let (_, known) = visit(&admitted(), "a1", 1_000);
    let listed = |listed_modified_ms| {
        let context = UrlContext { listed_modified_ms, ..known.context.clone() };
        FrontierUrl { context, ..known.clone() }
    };
    let of = |waiting: &FrontierUrl, kind, version: Option<PageVersion>| {
        let ended = EndedVisit::of(&Outcome { version, ..outcome(waiting, kind, Some(200), 3_000) });
        let change = Change::of(waiting, &ended);
        (change.is_listed(waiting), change.is_new_text())
    };
    let newer = listed(Some(1_001));
    assert_eq!(of(&newer, OutcomeKind::Fetched, Some(version("b1"))), (true, Some(true)));
    assert_eq!(of(&newer, OutcomeKind::Fetched, Some(version("a2"))), (true, Some(false)), "another token, say");
    assert_eq!(of(&newer, OutcomeKind::Unchanged, None), (true, Some(false)));
    assert_eq!(of(&newer, OutcomeKind::Gone, None).1, None);
    let without_text = PageVersion { text_hash: None, ..version("c") };
    assert_eq!(of(&newer, OutcomeKind::Fetched, Some(without_text)), (true, Some(true)));
    for before in [None, Some(1_000)] {
        assert!(!of(&listed(before), OutcomeKind::Fetched, Some(version("b1"))).0, "{before:?}");
    }
    let first = admitted();
    assert!(!of(&FrontierUrl { context: newer.context, ..first }, OutcomeKind::Fetched, Some(version("a"))).0);
}

#[test]
fn a_visit_that_fails_is_no_change_and_the_version_stays_known() {
    let (_, known) = visit(&admitted(), "a", 1_000);
    for (kind, status) in [
        (OutcomeKind::Gone, Some(500)),
        (OutcomeKind::Gone, None),
        (OutcomeKind::Refused, None),
        (OutcomeKind::Gone, Some(403)),
    ] {
        let (change, next) = end(&known, &outcome(&known, kind, status, known.not_before_ms));
        assert_eq!((change, &next.visits.unwrap().version), (None, &version("a")), "{kind:?} {status:?}");
    }
    for (kind, status) in [(OutcomeKind::Redirected, 301), (OutcomeKind::Refused, 200)] {
        let (change, next) = end(&known, &outcome(&known, kind, Some(status), known.not_before_ms));
        assert_eq!((change, next.visits.unwrap().version), (Some(ChangeKind::Gone), PageVersion::default()));
    }
}

#[test]
fn an_unchanged_page_keeps_its_hash_and_takes_new_validators() {
    let (_, known) = visit(&admitted(), "a", 1_000);
    let unchanged = |version| Outcome { version, ..outcome(&known, OutcomeKind::Unchanged, Some(304), 9) };
    assert_eq!(end(&known, &unchanged(None)).1.visits.unwrap().version, version("a"));
    let etag = PageVersion { etag: Some("W/\"2\"".to_owned()), ..PageVersion::default() };
    let kept = PageVersion { etag: etag.etag.clone(), ..version("a") };
    assert_eq!(end(&known, &unchanged(Some(etag))).1.visits.unwrap().version, kept);
}

#[test]
fn pages_that_change_four_times_more_rarely_are_visited_half_as_often() {
    let of = |changed: u16| interval_ms(BOUNDS, ChangeRate { intervals: 1600, changed, span_ms: 1600 * DAY });
    let ratio = of(4) * 100 / of(16);
    assert!((185..=215).contains(&ratio), "{ratio}");
    assert_eq!(of(1600), DAY, "a page that changes all the time, not more often than the policy says");
    assert_eq!(of(0), 30 * DAY, "a page that never changes");
}

proptest! {
    #[test]
    fn intervals_stay_within_the_policy_whatever_was_observed(
        intervals: u16, changed: u16, span_ms: u64, shortest in 1_000u64..1_000_000_000, factor in 1u64..1000, misses: u8,
    ) {
        let policy = RevisitBounds { interval_ms: shortest, max_interval_ms: shortest * factor };
        let bounds = policy.interval_ms..=policy.max_interval_ms;
        let visited_ms = interval_ms(policy, ChangeRate { intervals, changed, span_ms });
        prop_assert!(bounds.contains(&visited_ms));
        prop_assert!(bounds.contains(&missed_interval_ms(policy, misses)));
    }

    #[test]
    fn observations_have_a_bounded_weight(spans in prop::collection::vec((any::<u64>(), any::<bool>()), 0..200)) {
        let all = spans.into_iter().fold(ChangeRate::default(), |rate, (span, changed)| observed(rate, span, changed));
        prop_assert!(all.intervals <= OBSERVED && all.changed <= all.intervals);
    }
}

/// Mean times between changes of pages in days, by the share of pages in percent (Cho and Garcia-Molina, "The evolution of
/// the web and implications for an incremental crawler", 2000): from, to.
const CHANGES: [(u64, f64, f64); 5] =
    [(23, 0.05, 1.0), (15, 1.0, 7.0), (16, 7.0, 30.0), (16, 30.0, 120.0), (30, 10_000.0, 10_000.0)];
const PAGES: u64 = 1_000;
/// The first days do not count: the rates are not known yet.
const WARM_UP_DAYS: f64 = 60.0;
const DAYS: f64 = 240.0;

/// Random numbers from 0 to 1 (xorshift64, Marsaglia 2003).
struct Random(u64);

impl Random {
    #[allow(clippy::cast_precision_loss, reason = "a random number needs no more than fifteen digits")]
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Returns the requests per page and day, and the share of time in which the copy of a page is the present one, with these
/// intervals in days between visits. A changed page is visited earlier if the days between two readings of a truthful sitemap
/// are given.
fn freshness<S: Default>(sitemap_days: Option<f64>, next: impl Fn(&mut S, f64, bool) -> f64) -> (f64, f64) {
    let (mut random, mut requests, mut fresh) = (Random(7), 0.0, 0.0);
    for page in 0..PAGES {
        let share = page * 100 / PAGES;
        let mut class = CHANGES.iter().scan(0, |upto, class| {
            *upto += class.0;
            Some((*upto, class))
        });
        let (_, (_, from, to)) = class.find(|(upto, _)| share < *upto).unwrap();
        let between_days = from * (to / from).powf(random.next());
        let (mut state, mut at, mut interval) = (S::default(), 0.0, next(&mut S::default(), 0.0, false));
        while at < DAYS {
            let changes_at = at - between_days * (1.0 - random.next()).ln();
            let listed_at = sitemap_days.map_or(f64::MAX, |days| ((changes_at / days).floor() + 1.0) * days);
            let until = (at + interval).min(listed_at);
            fresh += (changes_at.min(until).min(DAYS) - at.max(WARM_UP_DAYS)).max(0.0);
            requests += f64::from(u8::from(at >= WARM_UP_DAYS));
            let has_changed = changes_at < until;
            interval = next(&mut state, until - at, has_changed);
            at = until;
        }
    }
    #[allow(clippy::cast_precision_loss, reason = "a small number")]
    let page_days = PAGES as f64 * (DAYS - WARM_UP_DAYS);
    (requests / page_days, fresh / page_days)
}

#[test]
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "days as milliseconds"
)]
fn intervals_by_the_square_root_keep_more_pages_fresh_than_equal_ones() {
    for (shortest, least) in [(1, 0.02), (3, 0.01), (7, 0.005)] {
        let policy = RevisitBounds { interval_ms: shortest * DAY, max_interval_ms: 60 * DAY };
        let by_root = |rate: &mut Option<ChangeRate>, interval: f64, has_changed: bool| {
            // The first call is for the first visit.
            let known = rate.take().unwrap_or_default();
            *rate =
                Some(if interval > 0.0 { observed(known, (interval * DAY as f64) as u64, has_changed) } else { known });
            interval_ms(policy, rate.unwrap_or_default()) as f64 / DAY as f64
        };
        let (requests, fresh) = freshness(None, by_root);
        let (equal_requests, equally_fresh) = freshness(None, |(): &mut (), _, _| 1.0 / requests);
        let (listed_requests, listed_fresh) = freshness(Some(1.0), by_root);
        println!(
            "{shortest}: {requests:.3} requests: {fresh:.3} fresh; {equal_requests:.3}: {equally_fresh:.3}; with a sitemap {listed_requests:.3}: {listed_fresh:.3}"
        );
        assert!((requests / equal_requests - 1.0).abs() < 0.02, "as many requests: {requests} and {equal_requests}");
        assert!(fresh > equally_fresh + least, "{fresh} of the time fresh, and {equally_fresh}");
        // Pages that change every day are visited each time.
        let (most_requests, most_fresh) = freshness(None, |(): &mut (), _, _| 1.0 / listed_requests);
        assert!((listed_requests / most_requests - 1.0).abs() < 0.02, "{listed_requests} and {most_requests}");
        assert!(listed_fresh > most_fresh + 0.03, "{listed_fresh} of the time fresh with a sitemap, and {most_fresh}");
    }
}

#[test]
fn a_page_that_is_not_html_has_the_intervals_of_its_type_also_while_its_responses_omit_it() {
    let bounds = RevisitBounds { interval_ms: 7 * DAY, max_interval_ms: 70 * DAY };
    let policy = RevisitPolicy { types: [("application/*".to_owned(), bounds)].into(), ..POLICY };
    let end = |waiting: &FrontierUrl, kind, status, content_type: Option<&str>| {
        let at_ms = waiting.not_before_ms;
        let content_type = content_type.map(str::to_owned);
        let version = matches!(kind, OutcomeKind::Fetched | OutcomeKind::Unchanged).then(|| version("a"));
        let outcome = Outcome { version, content_type, ..outcome(waiting, kind, Some(status), at_ms) };
        Change::of(waiting, &EndedVisit::of(&outcome)).next_visit(&policy, waiting, at_ms)
    };
    let known = |asleep: &FrontierUrl| asleep.visits.as_ref().unwrap().media_type.clone();
    let pdf = end(&admitted(), OutcomeKind::Fetched, 200, Some("Application/PDF; version=2"));
    assert_eq!((interval(&pdf), known(&pdf).as_deref()), (7 * DAY, Some("application/pdf")));
    let same = end(&pdf, OutcomeKind::Unchanged, 304, None);
    assert!(interval(&same) > 7 * DAY && known(&same) == known(&pdf));
    let gone = end(&same, OutcomeKind::Gone, 404, Some("text/html"));
    assert_eq!((interval(&gone), known(&gone)), (7 * DAY, known(&pdf)));
    let html = end(&gone, OutcomeKind::Fetched, 200, Some("text/html; charset=utf-8"));
    assert_eq!(known(&html), None);
    assert!(interval(&html) < 7 * DAY);
    let image = end(&html, OutcomeKind::Fetched, 200, Some("image/png"));
    assert!(interval(&image) < 7 * DAY && known(&image).as_deref() == Some("image/png"));
    let long = format!("application/{}", "x".repeat(100));
    assert_eq!(known(&end(&image, OutcomeKind::Fetched, 200, Some(&long))), None);
}
