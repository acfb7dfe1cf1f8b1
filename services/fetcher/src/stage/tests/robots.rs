use super::*;

#[test]
fn robots_txt_is_asked_once_stored_before_use_and_obeyed_in_the_sites_time() {
    let mut around = with_robots(robots("User-agent: testbot\nDisallow: /private\nCrawl-delay: 3\n"));
    for (sequence, path) in ["private/x?y", "one", "two"].iter().enumerate() {
        around.deliver(&around.ready_every(1000, &format!("https://a.example/{path}"), sequence as u64));
    }
    around.pass(1000);
    assert_eq!(around.asked(), [""; 0], "at assignment the site counts as asked just now");
    around.pass(1);
    assert_eq!(around.asked(), [ROBOTS]);
    let [Durable::Row(Write::Robots(row)), ..] = &around.durable[..] else { panic!("{:?}", around.durable) };
    assert_eq!((row.authority.as_str(), row.status), ("https://a.example testbot", Some(200)));
    assert_eq!(row.expires_ms, START + 1001 + 24 * 3_600_000);
    assert_eq!(around.kinds(), [some(OutcomeKind::Refused, "robots")]);
    around.pass(3000);
    assert_eq!(around.asked().len(), 1, "the crawl-delay counts from the answer to robots.txt");
    around.pass(1);
    assert_eq!(around.asked()[1..], ["https://a.example/one"]);
    around.pass(3000);
    assert_eq!(around.asked().len(), 2);
    around.pass(1);
    assert_eq!(around.asked()[2..], ["https://a.example/two"]);
    assert!(around.outcomes().iter().all(|outcome| outcome.crawl_delay_ms == Some(3000)));
    around.assert_all_complete();
}

#[test]
fn the_urls_of_a_host_with_too_long_a_crawl_delay_are_refused_and_its_site_is_not_slowed_down() {
    for (seconds, refused) in [(3600, false), (3601, true), (99_999_999, true)] {
        let mut around = with_robots(robots(&format!("User-agent: testbot\nDisallow: /no\nCrawl-delay: {seconds}\n")));
        around.deliver(&around.ready("https://a.example/yes", 0));
        around.deliver(&around.ready("https://a.example/no", 1));
        around.pass(1001);
        let learned = around.stage.gates.crawl_delay_of(&"a.example".into()).filter(|delay_ms| *delay_ms > 0);
        let mut kinds = around.kinds();
        kinds.sort_by_key(|(_, reason)| reason.clone());
        let robots = some(OutcomeKind::Refused, "robots");
        if refused {
            assert_eq!((kinds, learned), (vec![some(OutcomeKind::Refused, "crawl_delay"), robots], None));
        } else {
            assert_eq!((kinds, learned), (vec![robots], Some(3_600_000)));
        }
        let reported = (!refused).then_some(3_600_000);
        assert!(around.outcomes().iter().all(|outcome| outcome.crawl_delay_ms == reported), "{seconds}");
    }
}

#[test]
fn a_crawl_delay_counts_from_the_answer_of_robots_txt_although_who_waited_for_it_is_late() {
    let mut around = with_robots(robots("User-agent: testbot\nCrawl-delay: 3\n"));
    let mut ready = around.ready_every(1000, "https://a.example/one", 0);
    ready.dispatch.not_after_ms = START + 1500;
    around.deliver(&ready);
    around.pass(2600);
    assert_eq!(around.asked(), [ROBOTS]);
    assert_eq!(around.kinds(), [some(OutcomeKind::Deferred, "late")]);
    around.deliver(&around.ready_every(1000, "https://a.example/one", 1));
    around.pass(1401);
    assert_eq!(around.asked().len(), 1, "1001 ms and the delay after its begin");
    around.pass(1);
    assert_eq!(around.asked()[1..], ["https://a.example/one"]);
}

#[test]
fn a_stored_robots_txt_is_not_asked_for_again_until_it_expires() {
    let mut around = polite();
    around.store_robots(0, START + 10_000);
    around.deliver(&around.ready("https://a.example/no", 1));
    around.request("https://a.example/yes", 2);
    assert_eq!(around.asked(), ["https://a.example/yes"]);
    around.deliver(&around.ready("https://a.example/no", 4));
    around.pass(10_000);
    around.request("https://a.example/no", 3);
    assert_eq!(around.asked()[1..], [ROBOTS, "https://a.example/no"]);
    assert_eq!(around.stage.metrics.robots_lookups(), [1, 1, 1], "memory, store and site");
    around.assert_all_complete();
}

#[test]
fn an_expired_robots_txt_serves_on_while_its_site_is_unreachable() {
    for failing in [Err(FetchError::Timeout), status(500)] {
        let mut around = polite();
        around.store_robots(START - 24 * 3_600_000, START - 1);
        around.client.on(ROBOTS, failing);
        around.deliver(&around.ready("https://a.example/no", 1));
        around.deliver(&around.ready("https://a.example/yes", 2));
        around.pass(5000);
        assert_eq!(around.asked(), [ROBOTS, "https://a.example/yes"]);
        assert_eq!(around.kinds()[0], some(OutcomeKind::Refused, "robots"));
        around.pass(600_000);
        around.deliver(&around.ready("https://a.example/no", 3));
        around.pass(5000);
        assert_eq!(around.asked()[2..], [ROBOTS], "after ten minutes it is tried again");
        around.assert_all_complete();
    }
}

const WEEK_MS: Millis = 7 * 24 * 3_600_000;

#[test]
fn a_robots_txt_serves_on_for_seven_days_and_not_for_as_long_as_a_clock_was_ahead() {
    let hour_ms = 3_600_000;
    let cases = [
        // Lifetimes of seven days.
        (START - WEEK_MS - 1, START - 1, true),
        (START - 2 * WEEK_MS + 1, START - WEEK_MS + 1, true),
        (START - 2 * WEEK_MS, START - WEEK_MS, false),
        // Written by a correct clock, after a row by one that was ahead: only the event time is ahead.
        (START + hour_ms, START + WEEK_MS, true),
        (START + hour_ms, START + WEEK_MS + hour_ms, false),
        (Millis::MAX - WEEK_MS, Millis::MAX, false),
    ];
    for (fetched_at_ms, expires_ms, serves) in cases {
        let mut around = polite();
        around.store_robots(fetched_at_ms, expires_ms);
        around.client.on(ROBOTS, Err(FetchError::Timeout));
        around.deliver(&around.ready("https://a.example/no", 1));
        around.deliver(&around.ready("https://a.example/yes", 2));
        around.pass(5000);
        let (expected, asked) = if serves {
            (some(OutcomeKind::Refused, "robots"), vec![ROBOTS, "https://a.example/yes"])
        } else {
            (some(OutcomeKind::Deferred, "robots_unreachable"), vec![ROBOTS])
        };
        assert_eq!(around.kinds()[0], expected, "{fetched_at_ms} {expires_ms}");
        assert_eq!(around.asked(), asked);
        around.assert_all_complete();
    }
}

#[test]
fn a_robots_txt_of_a_clock_that_was_ahead_is_asked_for_anew_and_the_store_has_the_later_one() {
    let mut around = polite();
    let hour = 3_600_000;
    around.store_robots(START + hour, START + 25 * hour);
    around.client.on(ROBOTS, robots(""));
    around.request("https://a.example/no", 1);
    assert_eq!(around.asked(), [ROBOTS, "https://a.example/no"]);
    let [Durable::Row(Write::Robots(row)), ..] = &around.durable[..] else { panic!("{:?}", around.durable) };
    assert_eq!((row.fetched_at_ms, row.body.as_str()), (START + hour + 1, ""));
    assert!(row.expires_ms <= START + 7 * 24 * hour, "its life counts from now");
    around.assert_all_complete();
}

/// Covers every response to robots.txt (RFC 9309 section 2.3.1), and the policy where the RFC leaves a choice: the
/// rows of `robots/fetch_status.jsonl` of the conformance material.
#[test]
fn every_answer_to_robots_txt_allows_or_refuses_as_the_rfc_says() {
    let refusing = "User-agent: *\nDisallow: /";
    let with_body = |status| {
        let Ok(answer) = robots(refusing) else { unreachable!() };
        Ok(HttpResponse { status, ..answer })
    };
    let allowed = [400, 401, 403, 404, 410, 451].map(|code| (with_body(code), true));
    let refused = [200, 206, 429, 500, 502, 503, 504].map(|code| (with_body(code), false));
    let failed = [FetchError::Timeout, FetchError::Connect, FetchError::Dns, FetchError::Tls]
        .map(|failure| (Err(failure), false));
    for (answer, allows) in allowed.into_iter().chain(refused).chain(failed) {
        let mut around = with_robots(answer.clone());
        around.client.on("https://a.example/x", page("x"));
        for attempt in 1..=5u8 {
            let mut ready = around.ready("https://a.example/x", attempt.into());
            // If failures counted against the URL, the first one would end it.
            (ready.dispatch.last_attempt, ready.dispatch.blocks) = (true, 4);
            around.deliver(&ready);
            around.pass(1000);
            let Some(outcome) = around.outcomes().pop() else { panic!("{answer:?}") };
            if outcome.kind.is_terminal() {
                break;
            }
            assert_eq!(
                (outcome.kind, outcome.blocked_until_ms),
                (OutcomeKind::Deferred, None),
                "no answer names a time"
            );
            assert!(outcome.requested_at_ms.is_some(), "the rate-limiter learns of the request");
            let blocked_ms = around.stage.gates.blocked_until(&"a.example".into(), around.now());
            let refuses = matches!(&answer, Ok(answer) if matches!(answer.status, 429 | 503));
            assert_eq!((blocked_ms.is_some(), outcome.status.is_some()), (refuses, refuses), "{answer:?}");
            let again_ms = outcome.retry_at_ms.unwrap();
            around.pass(again_ms - around.now());
        }
        let fetched = around.asked().contains(&"https://a.example/x".to_owned());
        assert_eq!(fetched, allows, "{answer:?}");
        let last = around.outcomes().pop().unwrap().kind;
        assert_eq!(last, if allows { OutcomeKind::Fetched } else { OutcomeKind::Refused }, "{answer:?}");
        around.assert_all_complete();
    }
}

#[test]
fn five_redirects_of_robots_txt_are_followed_across_sites_and_apply_to_the_first_authority() {
    for (redirects, allowed) in [(5, false), (6, true)] {
        let mut around = with_robots(moved("https://h1.example/robots.txt", &[]));
        for hop in 1..redirects {
            let target = format!("https://h{}.example/robots.txt", hop + 1);
            around.client.on(&format!("https://h{hop}.example/robots.txt"), moved(&target, &[]));
        }
        let last = format!("https://h{redirects}.example/robots.txt");
        around.client.on(&last, robots("User-agent: *\nDisallow: /"));
        around.deliver(&around.ready("https://a.example/x", 1));
        around.pass(10_000);
        let refused = around.kinds() == [some(OutcomeKind::Refused, "robots")];
        assert_eq!(refused, !allowed, "{redirects}: {:?}", around.kinds());
        assert_eq!(around.asked().contains(&last), !allowed);
        around.assert_all_complete();
    }
}

#[test]
fn a_robots_txt_that_redirects_on_a_slow_site_is_found_although_each_dispatch_waits_for_one_request_only() {
    const TARGET: &str = "https://a.example/other.txt";
    let mut around = with_robots(moved(TARGET, &[]));
    around.client.on(TARGET, robots("User-agent: *\nDisallow: /x"));
    for sequence in 0..3 {
        let mut ready = around.ready_every(20_000, "https://a.example/x", sequence);
        ready.dispatch.not_after_ms = around.now() + 15_000;
        around.deliver(&ready);
        around.pass(25_000);
    }
    assert_eq!(around.asked(), [ROBOTS, TARGET]);
    assert_eq!(around.kinds().last(), Some(&some(OutcomeKind::Refused, "robots")));
    around.assert_all_complete();
}

#[test]
fn the_failures_of_the_target_of_a_redirected_robots_txt_are_counted_as_those_of_others_are() {
    const TARGET: &str = "https://a.example/other.txt";
    let mut around = with_robots(moved(TARGET, &[]));
    around.client.on(TARGET, Err(FetchError::Connect));
    for sequence in 0..12 {
        around.deliver(&around.ready("https://a.example/x", sequence));
        around.pass(20_000);
    }
    assert_eq!(around.kinds().last(), Some(&some(OutcomeKind::Refused, "robots_unreachable")), "{:?}", around.kinds());
}

#[test]
fn a_robots_txt_that_leads_into_a_private_network_is_not_followed() {
    let mut around = with_robots(moved("http://127.0.0.1/robots.txt", &[]));
    around.deliver(&around.ready("https://a.example/x", 1));
    around.pass(5000);
    assert_eq!(around.asked(), [ROBOTS, "https://a.example/x"]);
    around.assert_all_complete();
}

#[test]
fn a_robots_txt_that_cannot_be_had_costs_no_url_an_attempt_and_then_refuses_all_for_a_while() {
    let mut around = with_robots(Err(FetchError::Connect));
    for sequence in 0..3 {
        around.deliver(&around.ready(&format!("https://a.example/{sequence}"), sequence));
    }
    around.settle();
    let unreachable = |kind| some(kind, "robots_unreachable");
    let deferred = unreachable(OutcomeKind::Deferred);
    assert_eq!(around.kinds(), vec![deferred.clone(); 3]);
    let asked: Vec<bool> = around.outcomes().iter().map(|outcome| outcome.requested_at_ms.is_some()).collect();
    assert_eq!(asked, [true, false, false], "one of them reports the request");
    around.deliver(&around.ready("https://a.example/3", 3));
    assert_eq!(around.asked().len(), 1, "it is not requested again before its time");
    around.pass(1000);
    around.deliver(&around.ready("https://a.example/4", 4));
    around.pass(10_000);
    around.request("https://a.example/5", 5);
    assert_eq!(around.asked().len(), 3);
    let expected = [deferred.clone(), deferred, unreachable(OutcomeKind::Refused)];
    assert_eq!(around.kinds()[3..], expected);
    around.request("https://a.example/6", 6);
    assert_eq!(around.asked().len(), 3, "for ten minutes nothing is allowed");
    assert!(around.durable.iter().any(|durable| matches!(durable, Durable::Row(Write::Robots(_)))));
    around.assert_all_complete();
}

#[test]
fn a_site_that_blocks_at_its_robots_txt_is_blocked_for_all() {
    for (retry_after, block_ms) in [(Some("120"), 120_000), (None, 60_000)] {
        let mut around = with_robots(refusal(503, retry_after));
        around.deliver(&around.ready("https://a.example/1", 1));
        around.request("https://a.example/2", 2);
        around.request("https://a.example/3", 3);
        let blocked = some(OutcomeKind::Deferred, "blocked");
        assert_eq!(around.kinds(), [some(OutcomeKind::Deferred, "robots_unreachable"), blocked.clone(), blocked]);
        assert_eq!(around.outcomes()[0].status, Some(503), "the rate-limiter blocks the site");
        let until_ms = START + block_ms;
        assert_eq!(around.outcomes()[0].blocked_until_ms, retry_after.map(|_| until_ms));
        assert!(around.outcomes().iter().all(|outcome| outcome.retry_at_ms == Some(until_ms)));
        around.assert_all_complete();
    }
}

#[test]
fn the_urls_of_an_unknown_host_and_of_a_private_address_end_at_once() {
    for (failure, kind, reason) in [
        (FetchError::UnknownHost, OutcomeKind::Gone, "dns"),
        (FetchError::Private, OutcomeKind::Refused, "private_address"),
    ] {
        let mut around = with_robots(Err(failure));
        around.deliver(&around.ready("https://a.example/1", 1));
        around.request("https://a.example/2", 2);
        around.request("https://a.example/3", 3);
        assert_eq!(around.kinds(), vec![some(kind, reason); 3]);
        assert_eq!(around.asked(), [ROBOTS]);
        around.assert_all_complete();
    }
}

#[test]
fn what_waits_for_a_robots_txt_too_long_goes_back_and_a_lost_partition_leaves_nothing() {
    let mut around = polite();
    around.deliver(&around.ready_every(45_000, "https://a.example/1", 1));
    around.pass(31_500);
    assert_eq!(around.kinds(), [some(OutcomeKind::Deferred, "late")]);
    let origin = around.deliver(&around.ready("https://a.example/2", 2));
    around.stage.drain(origin.tp.partition);
    around.pass(60_000);
    assert_eq!(around.asked(), [""; 0], "no URL waits for it any more");
    assert_eq!(around.parked, [origin]);
    assert!(around.stage.lookups.is_empty() && around.stage.gates.queued == 0);
}

#[test]
fn a_partition_is_not_given_away_while_a_robots_txt_is_being_asked_for() {
    let mut around = with_robots(robots(""));
    let origins: Vec<_> =
        (0..3).map(|number| around.deliver(&around.ready(&format!("https://a.example/{number}"), number))).collect();
    // The store has none, and the request starts.
    let Some(Job::Load { key }) = around.jobs.pop_front() else { panic!("{:?}", around.jobs) };
    around.call(|stage, now, acts| stage.job_done(Done::Loaded { key, row: None }, now, acts));
    assert!(matches!(around.jobs.front(), Some(Job::Ask { .. })));
    around.stage.drain(origins[0].tp.partition);
    around.call(FetcherStage::tick);
    assert_eq!(around.parked, origins[1..], "one record holds the drain");
    around.pass(0);
    around.call(FetcherStage::tick);
    assert_eq!((around.asked().len(), around.parked.len()), (1, 3), "the answer has come");
    assert!(around.stage.lookups.is_empty() && around.stage.gates.queued == 0);
}

#[test]
fn a_robots_txt_that_is_not_read_for_want_of_memory_or_its_proxy_is_no_failure_of_the_site() {
    for failure in [FetchError::Memory, FetchError::Proxy] {
        let mut around = with_robots(Err(failure));
        around.client.on(ROBOTS, robots(""));
        around.client.on("https://a.example/2", page("<p>2</p>"));
        around.request("https://a.example/1", 1);
        assert_eq!(around.kinds(), [some(OutcomeKind::Deferred, failure.reason())]);
        around.request("https://a.example/2", 2);
        assert_eq!(around.kinds()[1], (OutcomeKind::Fetched, None));
        around.assert_all_complete();
    }
}
