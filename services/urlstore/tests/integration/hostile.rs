//! Requests of hostile clients, to the router.

use axum::{body::Body, http::Request};
use futures::stream;
use proptest::prelude::*;

use crate::world::{get, request, send, world};

#[tokio::test]
async fn no_other_path_leads_to_a_route() {
    let (_dir, router) = world().await;
    for target in [
        "/v1",
        "/v1/url/",
        "//v1/url?url=a.example",
        "/v1//url?url=a.example",
        "/v1/./url?url=a.example",
        "/v2/../v1/url?url=a.example",
        "/v1/%75rl?url=a.example",
        "/V1/URL?url=a.example",
        "/v1/url%00?url=a.example",
        "/v1/content/../../etc/passwd",
        "/metrics",
    ] {
        let answer = get(&router, target).await;
        assert_eq!((answer.status, answer.header("content-type")), (404, "application/problem+json"), "{target}");
        assert_eq!(answer.json()["type"], "urn:orbweaver:problem:unknown-route", "{target}");
    }
}

#[tokio::test]
async fn another_method_is_refused_with_the_allowed_ones() {
    let (_dir, router) = world().await;
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "X"] {
        let answer = send(&router, request(method, "/v1/url?url=a.example", "")).await;
        assert_eq!((answer.status, answer.header("allow")), (405, "GET,HEAD"), "{method}");
        assert_eq!(answer.json()["type"], "urn:orbweaver:problem:method-not-allowed", "{method}");
    }
    let answer = send(&router, request("GET", "/v1/urls", "")).await;
    assert_eq!((answer.status, answer.header("allow")), (405, "POST"));
    let head = send(&router, request("HEAD", "/v1/url?url=a.example", "")).await;
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[tokio::test]
async fn a_url_of_the_maximum_length_is_looked_up_and_a_longer_one_refused() {
    let (_dir, router) = world().await;
    let of =
        |bytes: usize| format!("/v1/url?url=https://a.example/{}", "%61".repeat(bytes - "https://a.example/".len()));
    assert_eq!(get(&router, &of(8192)).await.status, 404);
    let long = get(&router, &of(8193)).await;
    assert_eq!((long.status, long.json()["detail"].as_str()), (400, Some("the url has 8193 bytes; allowed: 8192")));
    assert_eq!(get(&router, &format!("/v1/url?url={}", "a".repeat(60_000))).await.status, 414);
}

#[tokio::test]
async fn every_answer_forbids_scripts_and_storing() {
    let (_dir, router) = world().await;
    for target in ["/v1/url?url=a.example", "/v1/url?url=%ff", "/nowhere", "/v1/content?url=a.example", "/openapi.json"]
    {
        let answer = get(&router, target).await;
        assert!(answer.header("content-security-policy").contains("sandbox; default-src 'none'"), "{target}");
        assert_eq!(
            (answer.header("x-content-type-options"), answer.header("cache-control")),
            ("nosniff", "private, no-cache")
        );
        assert_eq!(answer.header("access-control-allow-origin"), "", "{target}");
    }
}

#[tokio::test]
async fn a_body_without_end_is_refused_at_its_limit() {
    let (_dir, router) = world().await;
    let endless = stream::repeat(Ok::<_, std::convert::Infallible>(vec![b'['; 64 << 10]));
    let request = Request::post("/v1/urls").header("host", "localhost").header("content-type", "application/json");
    let answer = send(&router, request.body(Body::from_stream(endless)).unwrap()).await;
    assert_eq!((answer.status, answer.json()["type"].as_str()), (413, Some("urn:orbweaver:problem:too-large")));
}

#[tokio::test]
async fn a_body_that_is_not_a_request_is_refused_with_the_reason() {
    let (_dir, router) = world().await;
    let many = serde_json::json!({ "urls": vec!["a.example"; 1001] }).to_string();
    for (body, part) in [
        ("", "body"),
        ("[]", "body"),
        ("{}", "body"),
        (r#"{"urls":"a.example"}"#, "body"),
        (r#"{"urls":[1]}"#, "body"),
        (r#"{"urls":["a.example"],"url":1}"#, "body"),
        (r#"{"urls":["a.example"],"urls":[]}"#, "body"),
        ("{\"urls\":[\"\u{0}\"]}", "body"),
        (&"[".repeat(100_000), "body"),
        (r#"{"urls":[]}"#, "urls"),
        (&many, "urls"),
        (r#"{"urls":["a.example"],"crawl":""}"#, "crawl"),
        (r#"{"urls":["a.example"],"canonical":"x"}"#, "canonical"),
    ] {
        let answer = send(&router, request("POST", "/v1/urls", body)).await;
        assert_eq!((answer.status, &answer.json()["part"]), (400, &part.into()), "{}", &body[..body.len().min(60)]);
    }
    let text =
        send(&router, Request::post("/v1/urls").header("host", "localhost").body(Body::from("{}")).unwrap()).await;
    assert_eq!(text.status, 415);
}

proptest! {
    #[test]
    fn every_query_is_answered_with_json_or_a_problem(
        route in prop::sample::select(vec!["url", "history", "links", "captures", "content", "pages"]),
        query in "((url|limit|cursor|crawl|as|canonical|site|status)=[a-z0-9:/.%&=_-]{0,12}&?){0,4}|(%[0-9a-fA-F]{2}|[ -~&&[^# \"<>\\\\^`{|}]]){0,30}",
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (_dir, router) = world().await;
            let answer = get(&router, &format!("/v1/{route}?{query}")).await;
            assert!([200, 400, 404, 410].contains(&answer.status), "{query}: {answer:?}");
            if answer.status != 200 {
                assert_eq!(answer.json()["status"], answer.status);
            }
        });
    }
}
