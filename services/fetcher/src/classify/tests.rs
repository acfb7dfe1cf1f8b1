use orbweaver_log::TopicPartition;
use orbweaver_messages::{DiscoveryKind, DispatchId, FrontierUrl, ReadyDispatch, topic};
use orbweaver_stage::Origin;
use orbweaver_url::CrawlName;

use super::*;
use crate::client::Measured;

const NOW: Millis = 1_000_000;

/// Returns a dispatch of a URL, from a page at depth 2.
pub(crate) fn dispatch(url: &str, sequence: u64, now: Millis) -> Dispatch {
    let parsed = orbweaver_url::parse(url).unwrap();
    let context = UrlContext {
        fingerprint: Fingerprint::of(&CrawlName::default(), &orbweaver_url::canonical_text(&parsed)),
        depth: 3,
        sighting: DiscoveryKind::Link,
        via: Some("https://via.example/".into()),
        ..UrlContext::of_seed(CrawlName::default(), url.into(), orbweaver_url::site_of(&parsed).into_owned().into())
    };
    let dispatch = Dispatch::of(&FrontierUrl::admitted(context, now), DispatchId { epoch: 7, sequence }, false, now);
    Dispatch { not_after_ms: now + 30_000, ..dispatch }
}

fn attempt(result: Result<HttpResponse, FetchError>) -> Attempt {
    let measured = Measured::default();
    Attempt { requested_at_ms: NOW - 200, answered_at_ms: NOW - 100, ended_at_ms: NOW, measured, result }
}

pub(crate) fn verdict_of(dispatch: &Dispatch, before: &[String], result: Result<HttpResponse, FetchError>) -> Verdict {
    let url = Url::parse(&dispatch.context.url).unwrap();
    let ready = ReadyDispatch { not_before_ms: NOW, interval_ms: 0, crawl_interval_ms: 0, dispatch: dispatch.clone() };
    let tp = TopicPartition::new(topic::READY, 0);
    let mut active = ActiveDispatch::new(Origin { tp, offset: 0, assignment_epoch: 1 }, ready, url);
    active.before = before.to_vec();
    classify(&active, &attempt(result))
}

pub(crate) fn answered(status: u16) -> HttpResponse {
    HttpResponse { status, body: Body::Read { bytes: vec![], truncated: false }, ..HttpResponse::default() }
}

fn led(status: u16, location: &str) -> HttpResponse {
    HttpResponse { status, location: Some(location.into()), ..HttpResponse::default() }
}

#[test]
fn every_status_has_its_end() {
    let dispatch = dispatch("https://a.example/x", 1, NOW);
    let verdict = |status| verdict_of(&dispatch, &[], Ok(answered(status)));
    assert_eq!((verdict(200), verdict(304)), (Verdict::Fetched, Verdict::Unchanged));
    for status in [201, 204, 206, 301, 400, 401, 403, 404, 408, 410, 418, 451, 600, 999] {
        assert_eq!(verdict(status), Verdict::Gone(format!("http_{status}").into()));
    }
    for status in [500, 502, 504, 599] {
        assert_eq!(verdict(status), Verdict::Retry(format!("http_{status}").into(), NOW + 1000));
    }
    for status in [429, 503] {
        let reason = format!("http_{status}").into();
        assert_eq!(verdict(status), Verdict::Blocked { until_ms: NOW + 60_000, announced: false, reason, ends: false });
    }
}

#[test]
fn a_body_that_was_not_wanted_is_refused_for_its_type() {
    let dispatch = dispatch("https://a.example/x", 1, NOW);
    for body in [Body::Unread, Body::Unwanted] {
        let answer = HttpResponse { status: 200, body, ..HttpResponse::default() };
        assert_eq!(verdict_of(&dispatch, &[], Ok(answer)), Verdict::Refused("content_type".into()));
    }
}

#[test]
fn what_may_pass_is_tried_again_until_the_last_attempt() {
    let failures = [
        (FetchError::Dns, "dns"),
        (FetchError::Connect, "connect"),
        (FetchError::Tls, "tls"),
        (FetchError::Timeout, "timeout"),
        (FetchError::SlowBody, "slow_body"),
        (FetchError::Connection, "connection"),
        (FetchError::Body, "body"),
        (FetchError::Internal, "internal"),
    ];
    for (failure, reason) in failures {
        let mut dispatch = dispatch("https://a.example/x", 1, NOW);
        for (attempt, delay_ms) in [(1, 1000), (2, 10_000), (3, 60_000)] {
            dispatch.attempt = attempt;
            let expected = Verdict::Retry(reason.into(), NOW + delay_ms);
            assert_eq!(verdict_of(&dispatch, &[], Err(failure)), expected);
        }
        dispatch.last_attempt = true;
        assert_eq!(verdict_of(&dispatch, &[], Err(failure)), Verdict::Gone(reason.into()));
    }
    let mut last = dispatch("https://a.example/x", 1, NOW);
    last.last_attempt = true;
    assert_eq!(verdict_of(&last, &[], Ok(answered(500))), Verdict::Gone("http_500".into()));
    let first = dispatch("https://a.example/x", 1, NOW);
    assert_eq!(
        verdict_of(&first, &[], Err(FetchError::UnknownHost)),
        Verdict::Gone(Reason::Failed(FetchError::UnknownHost)),
        "no name server knows it"
    );
    assert_eq!(verdict_of(&last, &[], Err(FetchError::Private)), Verdict::Refused("private_address".into()));
}

#[test]
fn a_block_lasts_as_long_as_the_site_asks_for_else_longer_each_time_and_the_fifth_ends_the_url() {
    let mut dispatch = dispatch("https://a.example/x", 1, NOW);
    let mut answer = answered(429);
    for (blocks, minutes) in [(0, 1), (1, 2), (2, 4), (3, 8)] {
        dispatch.blocks = blocks;
        let until_ms = NOW + minutes * 60_000;
        let expected = Verdict::Blocked { until_ms, announced: false, reason: "http_429".into(), ends: false };
        assert_eq!(verdict_of(&dispatch, &[], Ok(answer.clone())), expected);
    }
    answer.retry_after = Some("7".into());
    let blocked = |ends| Verdict::Blocked { until_ms: NOW + 7000, announced: true, reason: "http_429".into(), ends };
    assert_eq!(verdict_of(&dispatch, &[], Ok(answer.clone())), blocked(false));
    dispatch.blocks = 4;
    assert_eq!(verdict_of(&dispatch, &[], Ok(answer)), blocked(true));
}

#[test]
fn a_redirect_leads_to_its_target_resolved_against_what_was_asked() {
    let dispatch = dispatch("https://a.example/x/y?z", 1, NOW);
    for status in [300, 301, 302, 303, 307, 308] {
        let expected = Verdict::Redirected(Url::parse("https://a.example/x/w").unwrap());
        assert_eq!(verdict_of(&dispatch, &[], Ok(led(status, "w#part"))), expected, "{status}");
    }
    let elsewhere = Verdict::Redirected(Url::parse("http://b.example/").unwrap());
    assert_eq!(verdict_of(&dispatch, &[], Ok(led(302, "http://b.example"))), elsewhere);
}

#[test]
fn a_redirect_to_what_cannot_be_crawled_ends_the_url() {
    let dispatch = dispatch("https://a.example/x", 1, NOW);
    for target in ["ftp://a.example/", "file:///etc/passwd", "javascript:1", "data:,x", "http://[::1", "https://a b/"] {
        assert_eq!(verdict_of(&dispatch, &[], Ok(led(302, target))), Verdict::Gone("bad_redirect".into()), "{target}");
    }
    let long = format!("/{}", "a".repeat(9000));
    assert_eq!(verdict_of(&dispatch, &[], Ok(led(302, &long))), Verdict::Gone("url_too_long".into()));
}

#[test]
fn a_redirect_is_known_by_the_policy_of_its_crawl() {
    let mut dispatch = dispatch("http://www.a.example/x?utm_source=y", 1, NOW);
    dispatch.context.chain = vec!["http://b.example/".into()];
    let target = "https://a.example/x";
    assert!(matches!(verdict_of(&dispatch, &[], Ok(led(301, target))), Verdict::Redirected(_)));
    // Under a policy that maps both to one page, the target is requested within the dispatch: as a URL of its own it
    // would be dropped as a duplicate of the one that just ended without a page.
    dispatch.context.policy = orbweaver_url::Policy::AGGRESSIVE;
    dispatch.context.fingerprint = Fingerprint::of(&CrawlName::default(), "http://a.example/x");
    for target in [target, "https://www.b.example/index.html"] {
        let expected = Verdict::Again(Url::parse(target).unwrap());
        assert_eq!(verdict_of(&dispatch, &[], Ok(led(301, target))), expected, "{target}");
    }
}

#[test]
fn a_chain_of_redirects_ends_after_twenty_or_before_its_records_become_large() {
    let long = |n: usize| format!("https://a.example/{}{n}", "x".repeat(8000));
    let short = |n: usize| format!("https://a.example/{n}");
    for mut chain in [(1..=9).map(long).collect::<Vec<_>>(), (0..20).map(short).collect()] {
        let mut dispatch = dispatch("https://a.example/20", 1, NOW);
        dispatch.context.chain.clone_from(&chain);
        assert_eq!(verdict_of(&dispatch, &[], Ok(led(302, "/21"))), Verdict::Gone("too_many_redirects".into()));
        chain.pop();
        dispatch.context.chain = chain;
        assert!(matches!(verdict_of(&dispatch, &[], Ok(led(302, "/21"))), Verdict::Redirected(_)));
    }
}

#[test]
fn a_redirect_to_its_source_or_its_chain_is_asked_again_five_times_at_most() {
    let mut dispatch = dispatch("https://a.example/wall", 1, NOW);
    dispatch.context.chain = vec!["https://a.example/start".into()];
    let mut before = vec![];
    for _ in 0..MAX_AGAIN {
        for target in ["/wall", "/wall#again", "/start"] {
            let expected = Verdict::Again(orbweaver_url::parse(&format!("https://a.example{target}")).unwrap());
            assert_eq!(verdict_of(&dispatch, &before, Ok(led(302, target))), expected, "{target}");
        }
        before.push("https://a.example/wall".to_owned());
    }
    assert_eq!(verdict_of(&dispatch, &before, Ok(led(302, "/wall"))), Verdict::Gone("redirect_loop".into()));
    assert!(matches!(verdict_of(&dispatch, &before, Ok(led(302, "/other"))), Verdict::Redirected(_)));
}
