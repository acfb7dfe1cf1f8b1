use orbweaver_messages::{DiscoveryKind, DispatchId, FrontierUrl};

use super::*;

const NOW: Millis = 1_000_000;

pub(crate) fn dispatch(url: &str) -> Dispatch {
    let parsed = Url::parse(url).unwrap();
    let context = UrlContext {
        fingerprint: Fingerprint::of("default", orbweaver_url::canonicalize(&parsed).as_str()),
        depth: 2,
        sighting: DiscoveryKind::Link,
        ..UrlContext::of_seed("default", url.into(), parsed.host_str().unwrap().into())
    };
    let id = DispatchId { epoch: 1, sequence: 1 };
    Dispatch { not_after_ms: NOW + 30_000, ..Dispatch::of(&FrontierUrl::admitted(context, NOW), id, false, NOW) }
}

fn attempt(result: Result<HttpResponse, FetchError>) -> Attempt {
    Attempt { requested_at_ms: NOW - 200, answered_at_ms: NOW - 100, ended_at_ms: NOW, result }
}

fn verdict_of(dispatch: &Dispatch, before: &[String], result: Result<HttpResponse, FetchError>) -> Verdict {
    let url = Url::parse(&dispatch.context.url).unwrap();
    classify(RequestContext { dispatch, url: &url, before }, &attempt(result))
}

fn answered(status: u16) -> HttpResponse {
    HttpResponse { status, body: Body::Read { bytes: vec![], truncated: false }, ..HttpResponse::default() }
}

fn led(status: u16, location: &str) -> HttpResponse {
    HttpResponse { status, location: Some(location.into()), ..HttpResponse::default() }
}

#[test]
fn every_status_has_its_end() {
    let dispatch = dispatch("https://a.example/x");
    let cases: [(u16, Verdict); 22] = [
        (200, Verdict::Fetched),
        (201, Verdict::Gone("http_201".into())),
        (204, Verdict::Gone("http_204".into())),
        (206, Verdict::Gone("http_206".into())),
        (301, Verdict::Gone("http_301".into())),
        (304, Verdict::Unchanged),
        (400, Verdict::Gone("http_400".into())),
        (401, Verdict::Gone("http_401".into())),
        (403, Verdict::Gone("http_403".into())),
        (404, Verdict::Gone("http_404".into())),
        (408, Verdict::Gone("http_408".into())),
        (410, Verdict::Gone("http_410".into())),
        (418, Verdict::Gone("http_418".into())),
        (429, Verdict::Blocked { until_ms: NOW + 60_000, announced: false, reason: "http_429".into(), ends: false }),
        (451, Verdict::Gone("http_451".into())),
        (500, Verdict::Retry("http_500".into(), NOW + 1000)),
        (502, Verdict::Retry("http_502".into(), NOW + 1000)),
        (503, Verdict::Blocked { until_ms: NOW + 60_000, announced: false, reason: "http_503".into(), ends: false }),
        (504, Verdict::Retry("http_504".into(), NOW + 1000)),
        (599, Verdict::Retry("http_599".into(), NOW + 1000)),
        (600, Verdict::Gone("http_600".into())),
        (999, Verdict::Gone("http_999".into())),
    ];
    for (status, expected) in cases {
        assert_eq!(verdict_of(&dispatch, &[], Ok(answered(status))), expected, "{status}");
    }
}

#[test]
fn a_body_that_was_not_wanted_is_refused_for_its_type() {
    let dispatch = dispatch("https://a.example/x");
    for body in [Body::Unread, Body::NotHtml] {
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
        (FetchError::Connection, "connection"),
        (FetchError::Body, "body"),
        (FetchError::Internal, "internal"),
    ];
    for (failure, reason) in failures {
        let mut dispatch = dispatch("https://a.example/x");
        for (attempt, delay_ms) in [(1, 1000), (2, 10_000), (3, 60_000)] {
            dispatch.attempt = attempt;
            let expected = Verdict::Retry(reason.into(), NOW + delay_ms);
            assert_eq!(verdict_of(&dispatch, &[], Err(failure)), expected);
        }
        dispatch.last_attempt = true;
        assert_eq!(verdict_of(&dispatch, &[], Err(failure)), Verdict::Gone(reason.into()));
    }
    let mut last = dispatch("https://a.example/x");
    last.last_attempt = true;
    assert_eq!(verdict_of(&last, &[], Ok(answered(500))), Verdict::Gone("http_500".into()));
    let first = dispatch("https://a.example/x");
    assert_eq!(
        verdict_of(&first, &[], Err(FetchError::UnknownHost)),
        Verdict::Gone("dns".into()),
        "no name server knows it"
    );
    assert_eq!(verdict_of(&last, &[], Err(FetchError::Private)), Verdict::Refused("private_address".into()));
}

#[test]
fn a_block_lasts_as_long_as_the_site_asks_for_else_longer_each_time_and_the_fifth_ends_the_url() {
    let mut dispatch = dispatch("https://a.example/x");
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
    let dispatch = dispatch("https://a.example/x/y?z");
    for status in [300, 301, 302, 303, 307, 308] {
        let expected = Verdict::Redirected(Url::parse("https://a.example/x/w").unwrap());
        assert_eq!(verdict_of(&dispatch, &[], Ok(led(status, "w#part"))), expected, "{status}");
    }
    let elsewhere = Verdict::Redirected(Url::parse("http://b.example/").unwrap());
    assert_eq!(verdict_of(&dispatch, &[], Ok(led(302, "http://b.example"))), elsewhere);
}

#[test]
fn a_redirect_to_what_cannot_be_crawled_ends_the_url() {
    let dispatch = dispatch("https://a.example/x");
    for target in ["ftp://a.example/", "file:///etc/passwd", "javascript:1", "data:,x", "http://[::1", "https://a b/"] {
        assert_eq!(verdict_of(&dispatch, &[], Ok(led(302, target))), Verdict::Gone("bad_redirect".into()), "{target}");
    }
    let long = format!("/{}", "a".repeat(9000));
    assert_eq!(verdict_of(&dispatch, &[], Ok(led(302, &long))), Verdict::Gone("url_too_long".into()));
}

#[test]
fn a_redirect_is_known_by_the_policy_of_its_crawl() {
    let mut dispatch = dispatch("http://www.a.example/x?utm_source=y");
    dispatch.context.chain = vec!["http://b.example/".into()];
    let target = "https://a.example/x";
    assert!(matches!(verdict_of(&dispatch, &[], Ok(led(301, target))), Verdict::Redirected(_)));
    // Under a policy that maps both to one page, the target is requested within the dispatch: as a URL of its own it
    // would be dropped as a duplicate of the one that just ended without a page.
    dispatch.context.policy = orbweaver_url::Policy::AGGRESSIVE;
    dispatch.context.fingerprint = Fingerprint::of("default", "http://a.example/x");
    for target in [target, "https://www.b.example/index.html"] {
        let expected = Verdict::Again(Url::parse(target).unwrap());
        assert_eq!(verdict_of(&dispatch, &[], Ok(led(301, target))), expected, "{target}");
    }
}

#[test]
fn a_chain_of_long_urls_ends_before_its_records_become_large() {
    let mut dispatch = dispatch("https://a.example/20");
    let long = |n: usize| format!("https://a.example/{}{n}", "x".repeat(8000));
    dispatch.context.chain = (1..=8).map(long).collect();
    assert!(matches!(verdict_of(&dispatch, &[], Ok(led(302, "/21"))), Verdict::Redirected(_)));
    dispatch.context.chain.push(long(9));
    assert_eq!(verdict_of(&dispatch, &[], Ok(led(302, "/21"))), Verdict::Gone("too_many_redirects".into()));
}

#[test]
fn a_chain_of_redirects_ends_after_twenty() {
    let mut dispatch = dispatch("https://a.example/20");
    dispatch.context.chain = (0..19).map(|n| format!("https://a.example/{n}")).collect();
    assert!(matches!(verdict_of(&dispatch, &[], Ok(led(302, "/21"))), Verdict::Redirected(_)));
    dispatch.context.chain.push("https://a.example/19".into());
    assert_eq!(verdict_of(&dispatch, &[], Ok(led(302, "/21"))), Verdict::Gone("too_many_redirects".into()));
}

#[test]
fn a_redirect_to_its_source_or_its_chain_is_asked_again_five_times_at_most() {
    let mut dispatch = dispatch("https://a.example/wall");
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
