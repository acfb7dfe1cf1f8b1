use orbweaver_url::CrawlName;
use proptest::prelude::*;

use super::*;
use crate::robots::NO_DISPATCH;

#[test]
fn a_page_is_stored_then_passed_on_then_its_outcome_told() {
    let mut around = Surroundings::unlimited();
    around.client.on("https://a.example/x", page("<p>hello</p>"));
    let mut ready = around.ready("https://a.example/x", 1);
    ready.dispatch.context.crawl = "docs".parse().unwrap();
    let origin = around.deliver(&ready);
    around.settle();

    let [Durable::Row(Write::Page { crawl, row }), Durable::Record(page_record), Durable::Record(outcome_record)] =
        &around.durable[..]
    else {
        panic!("{:?}", around.durable)
    };
    assert_eq!(*crawl, ready.dispatch.context.crawl);
    assert_eq!((row.outcome.as_str(), row.status, row.etag.as_deref()), ("fetched", Some(200), Some("\"e\"")));
    assert_eq!(page_record.tp, TopicPartition::new(topic::PAGES, origin.tp.partition));
    assert_eq!(page_record.value.as_deref(), Some(&b"<p>hello</p>"[..]));
    assert_eq!(page_record.headers[2].0, "page");
    let page: Page = decode("page", Some(&page_record.headers[2].1)).unwrap();
    assert_eq!((page.context.url.as_str(), page.body_bytes, page.context.depth), ("https://a.example/x", 12, 3));
    assert_eq!(page.context.fingerprint, ready.dispatch.context.fingerprint);
    assert_eq!(Some(page.content_hash), row.content_hash);
    assert_eq!(outcome_record.tp, TopicPartition::new(topic::OUTCOMES, origin.tp.partition));
    assert_eq!(outcome_record.key.as_deref(), Some(&b"a.example"[..]));
    let outcome: Outcome = decode("outcome", outcome_record.value.as_ref()).unwrap();
    assert_eq!((outcome.kind, outcome.reason.as_deref(), outcome.bytes), (OutcomeKind::Fetched, None, 12));
    assert_eq!((outcome.requested_at_ms, outcome.answered_at_ms), (Some(START), Some(START)));
    around.assert_all_complete();
}

#[test]
fn a_page_beyond_the_record_limit_is_cut_and_its_whole_size_is_told() {
    let limit = 100 << 10;
    let mut around = Surroundings::new(FetcherConfig { record_limit: limit, ..unlimited() });
    // Hexadecimal digits of hashes compress to a bit more than half.
    let digits = |n: u64| Fingerprint::of(&CrawlName::default(), &n.to_string()).to_string();
    let body: String = (0..12_500).map(digits).collect();
    around.client.on("https://a.example/x", page(&body));
    around.request("https://a.example/x", 1);
    let [record] = &around.records(topic::PAGES)[..] else { panic!() };
    assert!((limit / 10 * 8..=limit).contains(&record.bytes()), "{} bytes", record.bytes());
    let page: Page = decode("page", Some(&record.headers[2].1)).unwrap();
    assert_eq!((page.body_bytes, page.truncated.body), (body.len() as u64, true));
    assert_eq!(around.outcomes()[0].bytes, body.len() as u64);
    let kept = zstd::stream::decode_all(&record.value.as_ref().unwrap()[..]).unwrap();
    assert!(body.as_bytes().starts_with(&kept) && kept.len() > limit, "{} bytes", kept.len());
    around.assert_all_complete();
}

#[test]
fn what_ends_without_a_page_ends_with_its_reason_and_a_row_only_when_it_is_the_end() {
    let cases = [
        ("https://a.example/1", status(404), some(OutcomeKind::Gone, "http_404"), true),
        ("https://a.example/2", status(500), some(OutcomeKind::Retry, "http_500"), false),
        ("https://a.example/3", Err(FetchError::Dns), some(OutcomeKind::Retry, "dns"), false),
        ("https://a.example/4", status(200), some(OutcomeKind::Refused, "content_type"), true),
        ("https://a.example/5", Err(FetchError::Private), some(OutcomeKind::Refused, "private_address"), true),
    ];
    for (url, answer, expected, ends) in cases {
        let mut around = Surroundings::unlimited();
        around.client.on(url, answer);
        around.request(url, 1);
        assert_eq!(around.kinds(), [expected]);
        assert_eq!(around.durable.iter().any(|durable| matches!(durable, Durable::Row(_))), ends, "{url}");
        assert_eq!(around.outcomes()[0].retry_at_ms, (!ends).then_some(START + 1000));
        around.assert_all_complete();
    }
}

#[test]
fn a_redirect_goes_to_its_sites_partition_with_its_chain_before_its_outcome() {
    let mut around = Surroundings::unlimited();
    around.client.on("https://a.example/x", moved("https://other.example/y#z", &[]));
    let mut ready = around.ready("https://a.example/x", 1);
    ready.dispatch.context.chain = vec!["https://first.example/".into()];
    ready.dispatch.context.sighting = DiscoveryKind::Seed;
    around.deliver(&ready);
    around.settle();
    let [
        Durable::Row(Write::Redirect(row)),
        Durable::Row(Write::Page { .. }),
        Durable::Record(found),
        Durable::Record(_),
    ] = &around.durable[..]
    else {
        panic!("{:?}", around.durable)
    };
    assert_eq!((row.from.as_str(), row.to.as_str()), ("https://a.example/x", "https://other.example/y"));
    let partition = partition_of(slot_of("other.example"), PARTITIONS);
    assert_eq!(found.tp, TopicPartition::new(topic::DISCOVERED, partition));
    let found: Discovered = decode("discovered", found.value.as_ref()).unwrap();
    assert_eq!(found.urls, ["https://other.example/y"]);
    assert_eq!(found.chain, ["https://first.example/", "https://a.example/x"]);
    assert_eq!((found.sighting, found.depth, &*found.site), (DiscoveryKind::Seed, 3, "other.example"));
    assert_eq!(around.outcomes()[0].location.as_deref(), Some("https://other.example/y"));
    around.assert_all_complete();
}

#[test]
fn a_cookie_wall_is_passed_within_the_dispatch_in_the_sites_time() {
    let mut around = Surroundings::unlimited();
    around.client.on("https://a.example/x", moved("/x", &["pass=1; Path=/"]));
    around.client.on("https://a.example/x", page("inside"));
    around.deliver(&around.ready_every(1000, "https://a.example/x", 1));
    around.pass(2001);
    assert_eq!(around.asked().len(), 1);
    assert_eq!(around.stage.requests.slots, 0, "between its requests it holds no slot");
    around.pass(1);
    let cookies: Vec<_> = around.client.asked().into_iter().map(|request| request.cookie).collect();
    assert_eq!(cookies, [None, Some("pass=1".to_owned())]);
    assert_eq!(around.kinds(), [(OutcomeKind::Fetched, None)]);
    around.assert_all_complete();
}

#[test]
fn a_block_is_applied_to_what_is_held_for_the_site_and_to_what_comes_and_its_end_is_told_when_the_site_named_it() {
    for (retry_after, block_ms) in [(None, 60_000), (Some("120"), 120_000), (Some("soon"), 60_000)] {
        let mut around = Surroundings::unlimited();
        around.client.on("https://a.example/0", refusal(429, retry_after));
        for sequence in 0..3 {
            around.deliver(&around.ready_every(1000, &format!("https://a.example/{sequence}"), sequence));
        }
        around.pass(1001);
        around.request("https://a.example/late", 9);
        let until_ms = START + 1001 + block_ms;
        assert_eq!(
            around.kinds(),
            [
                some(OutcomeKind::Blocked, "http_429"),
                some(OutcomeKind::Deferred, "blocked"),
                some(OutcomeKind::Deferred, "blocked"),
                some(OutcomeKind::Deferred, "blocked")
            ]
        );
        let told_ms = (retry_after == Some("120")).then_some(until_ms);
        assert_eq!(around.outcomes()[0].blocked_until_ms, told_ms, "{retry_after:?}");
        assert!(around.outcomes()[1..].iter().all(|outcome| outcome.retry_at_ms == Some(until_ms)));
        assert_eq!(around.asked().len(), 1);
        around.assert_all_complete();
    }
}

#[test]
fn a_dispatch_is_deferred_past_not_after_and_also_past_expires() {
    let mut around = Surroundings::unlimited();
    around.deliver(&around.ready_every(40_000, "https://a.example/slow", 1));
    let mut old = around.ready("https://b.example/old", 2);
    (old.dispatch.not_after_ms, old.dispatch.expires_ms) = (START - 2, START - 1);
    around.deliver(&old);
    around.pass(30_000);
    assert_eq!(around.kinds(), [some(OutcomeKind::Deferred, "late")]);
    around.pass(1);
    assert_eq!(around.kinds(), [some(OutcomeKind::Deferred, "late"), some(OutcomeKind::Deferred, "late")]);
    assert_eq!(around.outcomes()[1].retry_at_ms, Some(START + 30_001));
    assert_eq!(around.asked(), [""; 0]);
    around.assert_all_complete();
}

#[test]
fn what_was_held_through_a_freeze_is_not_sent_late_and_its_sites_count_as_asked() {
    let mut around = Surroundings::unlimited();
    around.deliver(&around.ready_every(5000, "https://a.example/stale", 1));
    let mut valid = around.ready("https://b.example/valid", 2);
    (valid.interval_ms, valid.dispatch.not_after_ms) = (5000, START + 50_000);
    around.deliver(&valid);
    around.clock.advance(40_000);
    around.call(FetcherStage::tick);
    around.settle();
    assert_eq!(around.kinds(), [some(OutcomeKind::Deferred, "late")]);
    assert_eq!(around.asked(), [""; 0]);
    around.pass(5000);
    assert_eq!(around.asked(), [""; 0]);
    around.pass(1);
    assert_eq!(around.asked(), ["https://b.example/valid"]);
    around.assert_all_complete();
}

#[test]
fn a_dispatch_that_is_delivered_again_is_not_asked_again() {
    let mut around = Surroundings::unlimited();
    let ready = around.ready("https://a.example/x", 1);
    around.holds_plans = true;
    around.deliver(&ready);
    around.deliver(&ready);
    around.settle();
    around.deliver(&ready);
    assert_eq!(around.asked().len(), 1, "in flight, or not durable yet");
    around.holds_plans = false;
    around.settle();
    around.deliver(&ready);
    around.settle();
    assert_eq!((around.asked().len(), around.kinds().len()), (1, 1), "ended");
    around.assert_all_complete();
}

#[test]
fn what_the_log_says_has_ended_is_not_asked_again_after_a_restart_and_blocks_hold_on() {
    let mut before = Surroundings::unlimited();
    before.client.on("https://b.example/", status(503));
    before.client.on("https://c.example/", refusal(503, Some("120")));
    before.client.on("https://d.example/", status(429));
    let done = before.ready("https://a.example/x", 1);
    before.deliver(&done);
    before.deliver(&before.ready("https://b.example/", 2));
    before.deliver(&before.ready("https://c.example/", 3));
    let mut fifth = before.ready("https://d.example/", 4);
    fifth.dispatch.blocks = 4;
    before.deliver(&fifth);
    before.settle();
    assert_eq!(before.kinds()[3], some(OutcomeKind::Gone, "http_429"), "the URL ends, the block does not");

    let mut after = Surroundings::unlimited();
    let garbage = Record::new(TopicPartition::new(topic::OUTCOMES, 0), None, Some(Bytes::from("{")), START);
    after.restore([before.records(topic::OUTCOMES), vec![garbage]].concat());
    after.deliver(&done);
    for (sequence, site) in (5..).zip(["b", "c", "d"]) {
        after.deliver(&after.ready(&format!("https://{site}.example/other"), sequence));
    }
    after.settle();
    assert_eq!(after.asked(), [""; 0]);
    assert_eq!(after.kinds(), vec![some(OutcomeKind::Deferred, "blocked"); 3]);
    let until_ms: Vec<_> = after.outcomes().iter().map(|outcome| outcome.retry_at_ms).collect();
    assert_eq!(until_ms, [60_000, 120_000, 60_000].map(|block_ms| Some(START + block_ms + CLOCK_MARGIN_MS)));
    after.assert_all_complete();
}

#[test]
fn no_more_requests_than_slots_are_without_a_durable_outcome() {
    let mut around = Surroundings::new(FetcherConfig { concurrency: 3, ..unlimited() });
    around.holds_plans = true;
    for sequence in 0..10 {
        around.deliver(&around.ready(&format!("https://s{sequence}.example/"), sequence));
    }
    around.settle();
    assert_eq!((around.asked().len(), around.plans.len()), (3, 3));
    let plan = around.plans.pop_front().unwrap();
    around.land(plan);
    around.settle();
    assert_eq!(around.asked().len(), 4, "one durable outcome, one more request");
    around.holds_plans = false;
    around.settle();
    assert_eq!(around.asked().len(), 10);
    around.assert_all_complete();
}

#[test]
fn what_cannot_be_read_is_rejected_with_its_reason() {
    let mut around = Surroundings::unlimited();
    around.deliver_value(0, None);
    around.deliver_value(0, Some(Bytes::from("{\"not_before_ms\":1}")));
    let mut ready = around.ready("https://a.example/", 1);
    ready.dispatch.context.url = "ftp://a.example/".into();
    around.deliver(&ready);
    assert_eq!(around.rejected.len(), 3);
    assert!(around.rejected[2].contains("7-1") && around.rejected[2].contains("ftp"), "{:?}", around.rejected);
    around.assert_all_complete();
}

#[test]
fn what_must_not_be_requested_is_refused_before_anything_is_asked() {
    for (url, reason) in [
        ("http://127.1/", "private_address"),
        ("http://[::ffff:10.0.0.1]/x", "private_address"),
        ("http://169.254.169.254/", "private_address"),
        ("http://a.example:25/", "port"),
        ("https://xn--a.example/", "host"),
    ] {
        let mut around = Surroundings::new(FetcherConfig::default());
        around.request(url, 1);
        assert_eq!((around.asked(), around.kinds()), (vec![], vec![some(OutcomeKind::Refused, reason)]), "{url}");
        around.assert_all_complete();
    }
}

#[test]
fn a_permitted_network_permits_its_addresses_and_no_other_check_is_switched_off() {
    let allow_networks = || vec!["10.0.0.0/8".to_owned()].into();
    let config = || FetcherConfig { ignore_robots: true, allow_networks: allow_networks(), ..FetcherConfig::default() };
    for (url, reason) in [
        ("http://127.1/", "private_address"),
        ("http://169.254.169.254/", "private_address"),
        ("http://[::1]/", "private_address"),
        ("http://10.0.0.1:25/", "port"),
    ] {
        let mut around = Surroundings::new(config());
        around.request(url, 1);
        assert_eq!((around.asked(), around.kinds()), (vec![], vec![some(OutcomeKind::Refused, reason)]), "{url}");
    }
    for url in ["http://10.0.0.1/", "http://[::ffff:10.9.9.9]/", "https://10.0.0.1:8443/"] {
        let mut around = Surroundings::new(config());
        let url = orbweaver_url::parse(url).unwrap();
        around.client.on(url.as_str(), moved("file:///etc/passwd", &[]));
        around.request(url.as_str(), 1);
        assert_eq!(around.asked(), [url.as_str()]);
        assert_eq!(around.kinds(), [some(OutcomeKind::Gone, "bad_redirect")], "{url}: its redirect has another scheme");
    }
}

#[test]
fn a_rejected_dispatch_ends_as_gone_in_its_own_partition() {
    let around = Surroundings::unlimited();
    let ready = around.ready("https://a.example/1", 1);
    let tp = TopicPartition::new(topic::READY, 2);
    let ends = FetcherStage::ends_of_rejected(&delivered(tp, 0, Some(encode(&ready))), START);
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0].tp, TopicPartition::new(topic::OUTCOMES, 2));
    let ended: Outcome = decode("outcome", ends[0].value.as_ref()).unwrap();
    assert_eq!(ended, Outcome::of(&ready.dispatch, OutcomeKind::Gone, Some("rejected"), START));
}

#[test]
fn a_partition_that_is_wanted_back_keeps_what_is_in_flight_and_leaves_the_rest_to_its_successor() {
    let mut around = Surroundings::unlimited();
    let first = around.deliver(&around.ready("https://a.example/1", 1));
    let mut waits = around.ready("https://a.example/2", 2);
    waits.not_before_ms += 500;
    let second = around.deliver(&waits);
    around.stage.drain(first.tp.partition);
    around.pass(1000);
    assert_eq!(around.asked(), ["https://a.example/1"]);
    assert_eq!(around.parked, [second]);
    assert_eq!(around.completed.keys().collect::<Vec<_>>(), [&(first.tp.partition, first.offset)]);
    assert_eq!((around.stage.requests.slots, around.stage.gates.queued), (0, 0));
}

#[test]
fn a_partition_that_is_lost_completes_nothing_and_its_site_stays_busy_until_the_answer() {
    let mut around = Surroundings::unlimited();
    let ready = around.ready_every(1000, "https://a.example/1", 1);
    let origin = around.deliver(&ready);
    around.clock.advance(1000);
    around.call(FetcherStage::tick);
    assert_eq!((around.jobs.len(), around.stage.requests.slots), (0, 0));
    around.clock.advance(1);
    around.call(FetcherStage::tick);
    assert_eq!((around.jobs.len(), around.stage.requests.slots), (1, 1));
    let partition = origin.tp.partition;
    around.stage.close(partition);
    around.open(partition, 2);
    around.deliver(&ready);
    around.clock.advance(5000);
    around.call(FetcherStage::tick);
    assert_eq!(around.jobs.len(), 1, "still in flight");
    around.pass(1000);
    assert_eq!(around.asked().len(), 1);
    around.pass(1);
    assert_eq!(around.asked().len(), 2);
    assert_eq!(around.completed.len(), 1, "the first assignment's record is not completed by its late answer");
    assert!(around.stage.requests.slots == 0 && around.stage.dispatches.is_empty());
}

#[test]
fn what_becomes_durable_after_its_partition_was_lost_frees_nothing_twice_and_is_asked_again() {
    let mut around = Surroundings::unlimited();
    around.holds_plans = true;
    let ready = around.ready("https://a.example/1", 1);
    let origin = around.deliver(&ready);
    around.settle();
    assert_eq!((around.stage.requests.slots, around.plans.len()), (1, 1));
    around.stage.close(origin.tp.partition);
    assert!(around.stage.requests.slots == 0 && around.stage.dispatches.is_empty());
    around.open(origin.tp.partition, 2);
    around.deliver(&ready);
    around.holds_plans = false;
    around.settle();
    assert_eq!((around.asked().len(), around.stage.requests.slots), (2, 0));
    assert!(around.stage.dispatches.is_empty());
}

/// Generates the responses of the sites of a random crawl.
fn answers() -> impl Strategy<Value = Result<HttpResponse, FetchError>> {
    prop_oneof![
        4 => Just(page("<p>x</p>")),
        1 => Just(status(404)),
        1 => Just(status(429)),
        1 => Just(status(500)),
        1 => Just(Err(FetchError::Timeout)),
        1 => Just(moved("/elsewhere", &[])),
        1 => Just(moved("?", &["c=1"])),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_record_completes_exactly_once_and_every_end_is_one_outcome(
        arrivals in proptest::collection::vec((0..5usize, 0..900i64, answers(), 1..40_000i64), 1..60),
        robots in proptest::collection::vec(prop_oneof![Just(status(404)), Just(status(500)), Just(status(503)), Just(Err(FetchError::Connect)), Just(moved("https://s0.example/robots.txt", &[]))], 5..6),
        intervals in proptest::collection::vec(prop_oneof![Just(0u64), Just(50), 100..3000u64], 5..6),
        concurrency in 1..5usize,
    ) {
        let config = FetcherConfig { concurrency, ..FetcherConfig::default() };
        let mut around = Surroundings::new(config);
        for (site, answer) in robots.into_iter().enumerate() {
            around.client.on(&format!("https://s{site}.example/robots.txt"), answer);
        }
        let mut expired = 0;
        for (sequence, (site, wait, answer, patience)) in arrivals.into_iter().enumerate() {
            around.pass(wait);
            let url = format!("https://s{site}.example/{sequence}");
            around.client.on(&url, answer);
            let mut ready = around.ready_every(intervals[site], &url, sequence as u64);
            ready.dispatch.not_after_ms = around.now() + patience.min(30_000);
            ready.dispatch.expires_ms = around.now() + patience + 1000;
            around.deliver(&ready);
            if sequence % 7 == 3 {
                around.deliver(&ready);
                expired += 1;
            }
        }
        around.pass(200_000);
        around.assert_all_complete();
        let mut ids: Vec<_> = around.outcomes().iter().map(|outcome| outcome.id).collect();
        ids.retain(|id| *id != NO_DISPATCH);
        prop_assert!(ids.len() as u64 <= around.next_offset - expired);
        ids.sort_unstable();
        let count = ids.len();
        ids.dedup();
        prop_assert_eq!(ids.len(), count, "two outcomes for one dispatch");
    }
}

#[test]
fn what_is_not_read_for_want_of_memory_or_its_proxy_costs_no_attempt_and_is_dispatched_again_soon() {
    for failure in [FetchError::Memory, FetchError::Proxy] {
        let mut around = Surroundings::unlimited();
        around.client.on("https://a.example/1", Err(failure));
        let mut ready = around.ready("https://a.example/1", 1);
        ready.dispatch.last_attempt = true;
        around.deliver(&ready);
        around.settle();
        assert_eq!(around.kinds(), [some(OutcomeKind::Deferred, failure.reason())]);
        assert_eq!(around.outcomes()[0].retry_at_ms, Some(START + 10_000));
        assert!(around.durable.iter().all(|durable| matches!(durable, Durable::Record(_))));
        around.assert_all_complete();
    }
}

#[test]
fn without_memory_for_its_answer_no_request_is_sent() {
    let mut around = Surroundings::unlimited();
    around.client.on("https://a.example/1", page("<p>1</p>"));
    let memory = around.stage.memory();
    let all = memory.try_reserve(memory.bytes()).unwrap();
    around.deliver(&around.ready("https://a.example/1", 1));
    around.pass(2000);
    assert_eq!((around.asked().len(), around.stage.due(around.now())), (0, 0));
    drop(all);
    around.pass(1000);
    assert_eq!(around.kinds(), [(OutcomeKind::Fetched, None)]);
    around.assert_all_complete();
}
