//! Refusals and failures of a robots.txt: how they are counted, and which site they are reported for.

use super::*;
use crate::robots::NO_DISPATCH;

const HOUR_MS: Millis = 3_600_000;
const PAGE: &str = "https://a.example/x";
const ELSEWHERE: &str = "https://b.example/robots.txt";

/// Returns surroundings whose store has an expired robots.txt of `a.example`, which refuses `/no`.
fn with_expired_copy() -> Surroundings {
    let mut around = polite();
    around.store_robots(START - 24 * HOUR_MS, START - 1);
    around
}

/// Returns a dispatch of `a.example` whose page redirects to a URL of its chain, on `b.example`.
fn led_elsewhere(around: &Surroundings) -> ReadyDispatch {
    around.client.on(PAGE, moved("https://b.example/", &[]));
    let mut ready = around.ready(PAGE, 1);
    ready.dispatch.context.chain = vec!["https://b.example/".into()];
    ready
}

/// Asserts that a fetcher that takes over the partition of a site requests nothing from it, as its outcomes say.
fn assert_blocked_for_the_next_owner(around: &Surroundings, site: &str) {
    let partition = partition_of(slot_of(site), PARTITIONS);
    let mut next = polite();
    let mut outcomes = around.records(topic::OUTCOMES);
    outcomes.retain(|record| record.tp.partition == partition);
    next.restore(outcomes);
    next.request(&format!("https://{site}/next"), 99);
    assert_eq!((next.asked(), next.kinds()), (vec![], vec![some(OutcomeKind::Deferred, "blocked")]));
}

#[test]
fn a_block_in_answer_to_robots_txt_is_published_although_an_expired_copy_serves_on() {
    let mut around = with_expired_copy();
    around.client.on(ROBOTS, refusal(503, Some("120")));
    for (sequence, path) in [(1, "1"), (2, "no"), (3, "3")] {
        around.deliver(&around.ready(&format!("https://a.example/{path}"), sequence));
    }
    around.settle();
    assert_eq!(around.asked(), [ROBOTS]);
    let refused = some(OutcomeKind::Refused, "robots");
    let [unreachable, blocked] = ["robots_unreachable", "blocked"].map(|reason| some(OutcomeKind::Deferred, reason));
    assert_eq!(around.kinds(), [unreachable, refused, blocked]);
    let report = &around.outcomes()[0];
    assert_eq!((report.status, report.blocked_until_ms), (Some(503), Some(START + 120_000)));
    assert_eq!((report.requested_at_ms, report.retry_at_ms), (Some(START), Some(START + 120_000)));
    around.assert_all_complete();
    assert_blocked_for_the_next_owner(&around, "a.example");
}

#[test]
fn the_fifth_refusal_of_a_robots_txt_is_published_before_its_dispatch_ends() {
    let mut around = with_robots(refusal(429, None));
    for sequence in 1..=5 {
        if let Some(until_ms) = around.stage.gates.blocked_until(&"a.example".into(), around.now()) {
            around.pass(until_ms - around.now());
        }
        around.request(PAGE, sequence);
    }
    let outcomes = around.outcomes();
    let [.., report, refused] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!((outcomes.len(), around.asked()), (6, vec![ROBOTS.to_owned(); 5]));
    assert_eq!((report.id, report.kind, report.status), (NO_DISPATCH, OutcomeKind::Deferred, Some(429)));
    assert_eq!((&*report.context.site, report.context.url.as_str()), ("a.example", ROBOTS));
    assert_eq!((report.requested_at_ms, report.blocked_until_ms), (Some(around.now()), None));
    assert_eq!((refused.kind, refused.reason.as_deref()), (OutcomeKind::Refused, Some("robots_unreachable")));
    assert_eq!((refused.status, refused.requested_at_ms), (None, None), "the page was not requested");
    around.assert_all_complete();
    assert_blocked_for_the_next_owner(&around, "a.example");
}

#[test]
fn a_robots_txt_that_answers_after_a_failure_is_stored_later_than_the_row_of_a_clock_that_was_ahead() {
    let mut around = polite();
    let row = RobotsRow {
        authority: "https://a.example testbot".into(),
        fetched_at_ms: START + HOUR_MS,
        status: None,
        body: String::new(),
        expires_ms: START + 2 * HOUR_MS,
    };
    around.stored_robots.insert(row.authority.clone(), row);
    around.client.on(ROBOTS, Err(FetchError::Timeout));
    around.client.on(ROBOTS, robots(""));
    for sequence in 1..=2 {
        around.deliver(&around.ready(PAGE, sequence));
        around.pass(1000);
    }
    assert_eq!(around.asked(), [ROBOTS, ROBOTS, PAGE]);
    let rows = around.durable.iter().filter_map(|durable| match durable {
        Durable::Row(Write::Robots(row)) => Some((row.status, row.fetched_at_ms)),
        _ => None,
    });
    assert_eq!(rows.collect::<Vec<_>>(), [(Some(200), START + HOUR_MS + 1)]);
    around.assert_all_complete();
}

#[test]
fn refusals_and_failures_of_a_robots_txt_are_counted_apart() {
    let (refused, failed) = (refusal(503, None), Err(FetchError::Timeout));
    let cases = [
        (vec![refused.clone(), refused.clone(), failed.clone(), failed.clone(), robots("")], OutcomeKind::Fetched),
        (vec![refused.clone(), failed.clone(), refused, failed.clone(), failed], OutcomeKind::Refused),
    ];
    for (answers, kind) in cases {
        let mut around = polite();
        around.client.on(PAGE, page("x"));
        answers.into_iter().for_each(|answer| around.client.on(ROBOTS, answer));
        for sequence in 1..=5 {
            around.request(PAGE, sequence);
            let Some(outcome) = around.outcomes().pop() else { panic!("{kind:?}") };
            assert_eq!(outcome.kind, if sequence < 5 { OutcomeKind::Deferred } else { kind }, "{sequence}");
            let retry_at_ms = outcome.retry_at_ms.unwrap_or(around.now());
            around.pass(retry_at_ms - around.now());
        }
        around.assert_all_complete();
    }
}

#[test]
fn a_robots_txt_of_another_site_is_asked_for_in_its_time_and_what_it_answers_is_reported_for_that_site() {
    for (answer, status) in [(refusal(503, Some("120")), Some(503)), (Err(FetchError::Timeout), None)] {
        let mut around = polite();
        around.client.on(ELSEWHERE, answer);
        around.deliver(&led_elsewhere(&around));
        around.pass(1000);
        assert_eq!(around.asked(), [ROBOTS, PAGE], "the interval of the dispatch is that of its own site");
        around.pass(1);
        assert_eq!(around.asked()[2..], [ELSEWHERE]);

        let (at_ms, outcomes) = (START + 1001, around.outcomes());
        let [report, own] = &outcomes[..] else { panic!("{outcomes:?}") };
        assert_eq!((report.id, report.kind, report.status), (NO_DISPATCH, OutcomeKind::Deferred, status));
        assert_eq!((report.requested_at_ms, report.answered_at_ms), (Some(at_ms), Some(at_ms)));
        assert_eq!(report.blocked_until_ms, status.map(|_| at_ms + 120_000));
        let record = &around.records(topic::OUTCOMES)[0];
        assert_eq!(record.tp.partition, partition_of(slot_of("b.example"), PARTITIONS));
        assert_eq!(record.key.as_deref(), Some(&b"b.example"[..]));
        assert_eq!((&*own.context.site, own.status, own.blocked_until_ms), ("a.example", None, None));
        assert_eq!((own.requested_at_ms, own.answered_at_ms), (None, None));
        around.assert_all_complete();
        if status.is_some() {
            assert_blocked_for_the_next_owner(&around, "b.example");
        }
    }
}

#[test]
fn a_block_of_a_robots_txt_is_reported_by_a_dispatch_of_its_site_where_one_waits() {
    let mut around = polite();
    around.client.on(ELSEWHERE, refusal(429, Some("120")));
    around.deliver(&led_elsewhere(&around));
    around.settle();
    around.deliver(&around.ready("https://b.example/y", 2));
    around.pass(1001);
    let reports: Vec<_> = around.outcomes().into_iter().filter(|outcome| outcome.status.is_some()).collect();
    let [report] = &reports[..] else { panic!("{reports:?}") };
    assert_eq!((report.id.sequence, &*report.context.site, report.status), (2, "b.example", Some(429)));
    assert_eq!(around.outcomes().len(), 2);
    around.assert_all_complete();
    assert_blocked_for_the_next_owner(&around, "b.example");
}

#[test]
fn a_block_by_the_target_of_a_redirected_robots_txt_is_published_and_holds_up_no_page_that_an_expired_copy_allows() {
    for (mut around, serves) in [(polite(), false), (with_expired_copy(), true)] {
        around.client.on(ROBOTS, moved(ELSEWHERE, &[]));
        around.client.on(ELSEWHERE, refusal(503, Some("3600")));
        around.deliver(&around.ready("https://a.example/1", 1));
        around.deliver(&around.ready("https://a.example/2", 2));
        around.pass(1001);
        let blocked = |site: &str| around.stage.gates.blocked_until(&site.into(), around.now());
        let (now, until_ms) = (START + 1001, START + 1001 + HOUR_MS);
        assert_eq!((blocked("a.example"), blocked("b.example")), (None, Some(until_ms)));
        let ended: Vec<_> = around.outcomes().into_iter().filter(|outcome| outcome.id != NO_DISPATCH).collect();
        assert_eq!(around.outcomes().len(), ended.len() + 1, "one report");
        assert_eq!(ended[0].retry_at_ms, Some(if serves { now } else { until_ms }));
        assert!(ended.iter().all(|outcome| outcome.context.site == "a.example" && outcome.blocked_until_ms.is_none()));
        assert_eq!(around.asked().contains(&"https://a.example/2".to_owned()), serves);
        around.pass(600_000);
        around.request("https://a.example/3", 3);
        let asked = |url: &str| around.asked().iter().filter(|asked| *asked == url).count();
        assert_eq!((asked("https://a.example/3"), asked(ELSEWHERE)), (usize::from(serves), 1), "the block lasts on");
        around.assert_all_complete();
        assert_blocked_for_the_next_owner(&around, "b.example");
    }
}

#[test]
fn a_lookup_goes_on_for_the_dispatches_of_one_partition_when_another_is_released() {
    let mut around = polite();
    let partition = |site: &str| partition_of(slot_of(site), PARTITIONS);
    let mut names = (0..).map(|number| format!("s{number}.example"));
    let Some(site) = names.find(|site| partition(site) != partition("a.example")) else { panic!() };
    around.client.on(PAGE, moved(&format!("https://{site}/"), &[]));
    around.client.on(&format!("https://{site}/robots.txt"), moved(ELSEWHERE, &[]));
    around.client.on(ELSEWHERE, robots(""));
    around.client.on(&format!("https://{site}/y"), page("y"));
    let mut ready = around.ready(PAGE, 1);
    ready.dispatch.context.chain = vec![format!("https://{site}/")];
    let led = around.deliver(&ready);
    around.settle();
    around.deliver(&around.ready(&format!("https://{site}/y"), 2));
    around.clock.advance(1001);
    around.call(FetcherStage::tick);
    assert!(matches!(around.jobs.front(), Some(Job::Ask { .. })), "its robots.txt is being requested");
    around.stage.drain(led.tp.partition);
    around.pass(3000);
    assert_eq!(around.parked, [led], "its successor has it");
    assert_eq!(around.kinds(), [(OutcomeKind::Fetched, None)], "the other dispatch is not held up");
    assert!(around.stage.lookups.is_empty() && around.stage.gates.queued == 0);
}
