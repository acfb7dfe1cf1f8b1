//! Several requests within one dispatch: redirects to itself, and to a URL of its chain on another site.

use super::*;

const WALL: &str = "https://a.example/wall";
const ELSEWHERE: &str = "https://other.example/x";

/// Returns surroundings in which `a.example` redirects to a URL on another site.
fn led_elsewhere(config: FetcherConfig) -> Surroundings {
    let around = Surroundings::new(config);
    around.client.on("https://a.example/x", moved(ELSEWHERE, &[]));
    around
}

/// Returns a dispatch on `a.example` to which the URL on the other site redirected before.
fn from_elsewhere(around: &Surroundings, sequence: u64) -> ReadyDispatch {
    let mut ready = around.ready("https://a.example/x", sequence);
    ready.dispatch.context.chain = vec![ELSEWHERE.into()];
    ready
}

#[test]
fn a_next_request_that_the_delay_of_the_site_puts_behind_the_lease_costs_an_attempt_and_ends_the_url() {
    let mut around = Surroundings::unlimited();
    around.pass(100_000);
    around.client.on(WALL, moved(WALL, &[]));
    for (sequence, last_attempt) in [(1, false), (2, true)] {
        let mut ready = around.ready(WALL, sequence);
        (ready.interval_ms, ready.dispatch.last_attempt) = (60_000, last_attempt);
        around.deliver(&ready);
        around.pass(61_000);
    }
    let expected = [some(OutcomeKind::Retry, "redirect_delay"), some(OutcomeKind::Gone, "redirect_delay")];
    assert_eq!((around.asked().len(), around.kinds()), (2, expected.to_vec()));
    assert!(around.outcomes().iter().all(|outcome| outcome.requested_at_ms.is_some()), "a request was made");
    around.assert_all_complete();
}

#[test]
fn an_outage_between_two_requests_of_a_dispatch_costs_no_attempt_and_the_next_dispatch_completes() {
    let fenced = |around: &mut Surroundings| {
        around.stage.ownership.until_ms = around.now();
        around.pass(70_000);
        around.stage.owns_until(Millis::MAX);
    };
    let suspended = |around: &mut Surroundings| {
        around.clock.advance(70_000);
        around.call(FetcherStage::tick);
        around.settle();
    };
    let outages: [&dyn Fn(&mut Surroundings); 2] = [&fenced, &suspended];
    for outage in outages {
        let mut around = Surroundings::unlimited();
        // No site counts as requested within the last minute.
        around.pass(100_000);
        around.client.on(WALL, moved(WALL, &["pass=1"]));
        around.client.on(WALL, page("inside"));
        let mut ready = around.ready(WALL, 1);
        (ready.interval_ms, ready.dispatch.last_attempt) = (30_000, true);
        around.deliver(&ready);
        around.settle();
        assert_eq!((around.asked().len(), around.kinds()), (1, vec![]), "its second request waits for the interval");
        outage(&mut around);
        assert_eq!((around.asked().len(), around.kinds()), (1, vec![some(OutcomeKind::Deferred, "late")]));
        assert_eq!((around.outcomes()[0].requested_at_ms, around.outcomes()[0].status), (None, None));
        let mut ready = around.ready(WALL, 2);
        ready.dispatch.last_attempt = true;
        around.deliver(&ready);
        around.pass(1000);
        assert_eq!(around.kinds()[1..], [(OutcomeKind::Fetched, None)]);
        around.assert_all_complete();
    }
}

#[test]
fn a_lease_has_time_for_the_delays_and_the_responses_of_a_site_or_not_whenever_its_first_request_was_sent() {
    let around = Surroundings::unlimited();
    let tp = TopicPartition::new(topic::READY, 0);
    for (hops, response_ms, delay_ms, fits) in [
        (1, 0, 54_999, true),
        (1, 0, 55_000, false),
        (1, 10_000, 44_999, true),
        (1, 10_000, 45_000, false),
        (2, 0, 27_499, true),
        (2, 0, 27_500, false),
        (5, 0, u64::MAX, false),
    ] {
        let (ready, url) = (around.ready(WALL, 1), orbweaver_url::parse(WALL).unwrap());
        let mut active = ActiveDispatch::new(Origin { tp, offset: 0, assignment_epoch: 1 }, ready, url.clone());
        for hop in 0..hops {
            let requested_ms = START + 15_000;
            active.add_times(requested_ms, requested_ms + if hop == 0 { response_ms } else { 0 });
            active.follow_redirect(url.clone(), &[], &around.stage.config.wide_domains);
        }
        assert_eq!(active.fits_lease(delay_ms), fits, "{hops} {response_ms} {delay_ms}");
    }
}

#[test]
fn a_refusal_by_another_site_is_no_refusal_by_the_site_of_the_dispatch() {
    for (last_attempt, kind) in [(false, OutcomeKind::Retry), (true, OutcomeKind::Gone)] {
        let mut around = led_elsewhere(unlimited());
        around.client.on(ELSEWHERE, refusal(503, Some("120")));
        let mut ready = from_elsewhere(&around, 1);
        ready.dispatch.last_attempt = last_attempt;
        around.deliver(&ready);
        around.pass(1001);
        let expected = vec![some(OutcomeKind::Deferred, "http_503"), some(kind, "http_503")];
        assert_eq!((around.asked().len(), around.kinds()), (2, expected));
        let until_ms = START + 1001 + 120_000;
        let blocked = |site: &str| around.stage.gates.blocked_until(&site.into(), around.now());
        assert_eq!((blocked("other.example"), blocked("a.example")), (Some(until_ms), None));
        let [report, outcome] = &around.outcomes()[..] else { panic!() };
        assert_eq!((&*report.context.site, report.status), ("other.example", Some(503)), "its services learn of it");
        assert_eq!((report.blocked_until_ms, report.requested_at_ms), (Some(until_ms), Some(START + 1001)));
        let partition = partition_of(slot_of("other.example"), PARTITIONS);
        assert_eq!(around.records(topic::OUTCOMES)[0].tp, TopicPartition::new(topic::OUTCOMES, partition));
        assert_eq!((&*outcome.context.site, outcome.status, outcome.blocked_until_ms), ("a.example", None, None));
        assert_eq!((outcome.requested_at_ms, outcome.answered_at_ms), (Some(START), Some(START)), "its own request");
        assert_eq!(outcome.retry_at_ms, (!last_attempt).then_some(until_ms + 1000));
        let rows = around.durable.iter().filter_map(|durable| match durable {
            Durable::Row(Write::Page { row, .. }) => Some(row.status),
            _ => None,
        });
        assert_eq!(rows.collect::<Vec<_>>(), if last_attempt { vec![Some(503)] } else { vec![] });
        around.assert_all_complete();

        let mut after = Surroundings::unlimited();
        after.restore(around.records(topic::OUTCOMES));
        after.request("https://a.example/other", 2);
        assert_eq!(after.asked(), ["https://a.example/other"], "not blocked after a restart either");
    }
}

#[test]
fn a_block_of_another_site_delays_the_url_and_not_the_site_of_the_dispatch() {
    let mut around = led_elsewhere(unlimited());
    around.client.on("https://other.example/first", refusal(429, Some("120")));
    around.request("https://other.example/first", 1);
    let mut ready = from_elsewhere(&around, 2);
    ready.dispatch.last_attempt = true;
    around.deliver(&ready);
    around.settle();
    assert_eq!(around.asked(), ["https://other.example/first", "https://a.example/x"]);
    // A deferral would pause all of the site's URLs in the frontier.
    assert_eq!(around.kinds()[1..], [some(OutcomeKind::Retry, "blocked")]);
    let outcome = &around.outcomes()[1];
    assert_eq!((outcome.requested_at_ms, outcome.retry_at_ms), (None, Some(START + 120_000)), "and no attempt");
    around.assert_all_complete();
}

#[test]
fn a_request_to_another_site_is_sent_in_that_sites_time_and_its_crawl_delay_is_not_reported() {
    let mut around = led_elsewhere(FetcherConfig { user_agent: "Testbot/1.0".into(), ..FetcherConfig::default() });
    around.client.on("https://other.example/robots.txt", page("User-agent: *\nCrawl-delay: 7\n"));
    around.client.on(ELSEWHERE, page("inside"));
    around.deliver(&from_elsewhere(&around, 1));
    around.pass(7000);
    assert_eq!(around.kinds(), [], "the delay counts from the answer to robots.txt");
    around.pass(2000);
    assert_eq!(around.kinds(), [(OutcomeKind::Fetched, None)]);
    assert_eq!(around.stage.gates.crawl_delay_of(&"other.example".into()), Some(7000));
    let outcome = &around.outcomes()[0];
    assert_eq!((outcome.crawl_delay_ms, outcome.status), (None, Some(200)));
    assert_eq!(outcome.requested_at_ms, Some(START), "times of the outcome's site");
    around.assert_all_complete();

    let mut around = led_elsewhere(unlimited());
    around.client.on(ELSEWHERE, page("inside"));
    around.deliver(&from_elsewhere(&around, 1));
    around.pass(1000);
    assert_eq!(around.asked(), ["https://a.example/x"], "the interval of the dispatch is that of its own site");
    around.pass(1);
    assert_eq!(around.kinds(), [(OutcomeKind::Fetched, None)]);
    around.assert_all_complete();
}
