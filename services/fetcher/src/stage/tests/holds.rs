//! Frozen sites and paused crawls.

use super::*;

#[test]
fn a_frozen_site_gets_no_further_request_and_a_thawed_one_goes_on() {
    let mut around = polite();
    around.store_robots(0, START + 1_000_000);
    around.client.on("https://a.example/one", page("hello"));
    for (sequence, path) in ["one", "two"].iter().enumerate() {
        around.deliver(&around.ready_every(1000, &format!("https://a.example/{path}"), sequence as u64));
    }
    around.pass(1001);
    assert_eq!(around.asked(), ["https://a.example/one"]);
    around.control(5, true, &[]);
    assert_eq!(around.kinds(), [(OutcomeKind::Fetched, None), some(OutcomeKind::Deferred, "frozen")]);
    around.deliver(&around.ready("https://a.example/three", 2));
    around.pass(5000);
    assert_eq!(around.asked().len(), 1);
    let retry_at_ms = around.outcomes().last().and_then(|outcome| outcome.retry_at_ms);
    assert_eq!(retry_at_ms, Some(START + 1001 + 10_000));
    around.control(6, false, &[5]);
    around.deliver(&around.ready("https://a.example/three", 3));
    around.pass(2000);
    assert_eq!(around.asked()[1..], ["https://a.example/three"]);
    around.assert_all_complete();
}

#[test]
fn a_dispatch_whose_robots_txt_is_loaded_while_its_site_is_frozen_or_its_crawl_is_paused_is_not_requested() {
    for reason in ["frozen", "paused"] {
        let mut around = polite();
        around.store_robots(0, START + 1_000_000);
        let ready = around.ready("https://a.example/one", 0);
        around.deliver(&ready);
        match reason {
            "frozen" => around.control(5, true, &[]),
            _ => around.pause(5, &ready.dispatch.context.crawl, true),
        }
        around.pass(5000);
        assert_eq!(around.kinds(), [some(OutcomeKind::Deferred, reason)]);
        assert_eq!(around.asked(), [""; 0]);
        around.assert_all_complete();
    }
}

#[test]
fn a_robots_txt_that_redirects_is_not_followed_for_a_crawl_that_was_paused_meanwhile() {
    let mut around = polite();
    around.client.on(ROBOTS, moved("https://a.example/other/robots.txt", &[]));
    let mut ready = around.ready("https://a.example/one", 0);
    ready.interval_ms = 1000;
    around.deliver(&ready);
    around.settle();
    around.clock.advance(1001);
    around.call(FetcherStage::tick);
    // The request is in flight: its job is not done yet.
    assert_eq!(around.jobs.len(), 1);
    let crawl = ready.dispatch.context.crawl.clone();
    around.pause(5, &crawl, true);
    around.pass(5000);
    assert_eq!(around.asked(), [ROBOTS]);
    assert_eq!(around.kinds(), [some(OutcomeKind::Deferred, "paused")]);
    around.assert_all_complete();
}

#[test]
fn a_paused_crawl_gets_no_further_request_while_another_at_the_same_sites_does_and_resumes() {
    let mut around = polite();
    around.client.on(ROBOTS, robots(""));
    around.client.on("https://a.example/other", page("other"));
    around.client.on("https://a.example/later", page("later"));
    let dispatch = |around: &mut Surroundings, crawl: &str, path: &str, sequence| {
        let mut ready = around.ready(&format!("https://a.example/{path}"), sequence);
        ready.interval_ms = 1000;
        ready.dispatch.context.crawl = crawl.parse().unwrap();
        around.deliver(&ready);
    };
    dispatch(&mut around, "docs", "one", 0);
    dispatch(&mut around, "docs", "two", 1);
    dispatch(&mut around, "news", "other", 2);
    around.pause(5, "docs", true);
    let paused = some(OutcomeKind::Deferred, "paused");
    assert_eq!(around.kinds(), [paused.clone(), paused.clone()]);
    let retry_at_ms = around.outcomes().last().and_then(|outcome| outcome.retry_at_ms);
    assert_eq!(retry_at_ms, Some(START + 1000));
    dispatch(&mut around, "docs", "three", 3);
    around.pass(5000);
    assert_eq!(around.asked(), [ROBOTS, "https://a.example/other"]);
    assert_eq!(around.kinds()[2..], [paused, (OutcomeKind::Fetched, None)]);
    around.pause(6, "docs", false);
    dispatch(&mut around, "docs", "later", 4);
    around.pass(2000);
    assert_eq!(around.asked()[2..], ["https://a.example/later"]);
    around.assert_all_complete();
}

#[test]
fn while_the_archiver_is_too_far_behind_nothing_is_fetched_for_archived_crawls_and_others_continue() {
    let mut around = Surroundings::new(FetcherConfig { max_archive_lag: 1, ..unlimited() });
    around.define(5, "archived", |definition| definition.profile.archive = Some(true));
    around.client.on("https://a.example/", page("hello"));
    around.client.on("https://b.example/", page("hello"));
    let request = |around: &mut Surroundings, crawl: &str, url: &str, sequence| {
        let mut ready = around.ready(url, sequence);
        ready.dispatch.context.crawl = crawl.parse().unwrap();
        around.deliver(&ready);
        around.settle();
    };
    around.stage.archive_lag.measured(1);
    request(&mut around, "archived", "https://a.example/", 1);
    request(&mut around, "docs", "https://b.example/", 2);
    assert_eq!(around.kinds(), [some(OutcomeKind::Deferred, "archive_lag"), (OutcomeKind::Fetched, None)]);
    assert_eq!(around.outcomes()[0].retry_at_ms, Some(START + 10_000));
    around.stage.archive_lag.measured(0);
    request(&mut around, "archived", "https://a.example/", 3);
    assert_eq!(around.asked(), ["https://b.example/", "https://a.example/"]);
    let pages = around.records(topic::PAGES);
    let bytes: usize = pages.iter().map(Record::bytes).sum();
    assert_eq!(around.stage.archive_lag.measured(2), bytes as u64, "the records of {} pages", pages.len());
    around.assert_all_complete();
}
