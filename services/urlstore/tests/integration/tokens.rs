//! Tokens with scopes and rates.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Request},
};
use orbweaver_store::MemoryStore;
use orbweaver_urlstore::{UrlstoreConfig, router};
use serde_json::json;

use crate::{
    live::{Scripted, served_with},
    world::{Answer, OF_SECRET, api, config, request, send},
};

/// `printf %s other | sha256sum`
const OF_OTHER: &str = "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa";

/// Settings with a token `secret` that may read and a token `other` that may do everything.
fn two_tokens() -> UrlstoreConfig {
    let tokens = format!("search read {OF_SECRET}, ops admin {OF_OTHER}");
    UrlstoreConfig { token_sha256: Some(tokens), ..config() }
}

fn with_token(token: &str, mut request: Request<Body>) -> Request<Body> {
    request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    request
}

/// Requests that change a crawl, in all spellings of methods and paths that might pass for others.
const CHANGES: [(&str, &str, &str); 8] = [
    ("POST", "/v1/crawl/pause", "{}"),
    ("POST", "/v1/crawl/resume", "{}"),
    ("POST", "/v1/crawl/stop", "{}"),
    ("PUT", "/v1/site?site=a.example", r#"{"frozen":true}"#),
    ("PUT", "/v1/site?site=/v1/urls", r#"{"frozen":true}"#),
    ("POST", "/v1/crawl/stop?x=/v1/urls", "{}"),
    ("PUT", "http://localhost/v1/site?site=a.example", r#"{"frozen":true}"#),
    ("PATCH", "/v1/site?site=a.example", r#"{"frozen":true}"#),
];

#[tokio::test]
async fn a_token_that_may_read_changes_nothing() {
    let controls = Arc::new(Scripted::default());
    let (_sender, router) = served_with(&two_tokens(), Some(Arc::clone(&controls)));
    for (method, target, body) in CHANGES {
        let answer = send(&router, with_token("secret", request(method, target, body))).await;
        assert_eq!(
            (answer.status, &answer.json()["type"]),
            (403, &"urn:orbweaver:problem:forbidden".into()),
            "{target}"
        );
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.starts_with("the token `search` has the scope `read`") && detail.ends_with("requires `admin`"));
        assert_eq!(send(&router, request(method, target, body)).await.status, 401, "{target}");
    }
    let mut overridden = with_token("secret", request("GET", "/v1/site?site=a.example", ""));
    overridden.headers_mut().insert("x-http-method-override", "PUT".parse().unwrap());
    assert_eq!(send(&router, overridden).await.status, 200);
    assert_eq!(*controls.calls.lock().unwrap(), ["site a.example"]);
}

#[tokio::test]
async fn each_token_reads_and_one_for_all_requests_changes() {
    let controls = Arc::new(Scripted::default());
    let (_sender, router) = served_with(&two_tokens(), Some(Arc::clone(&controls)));
    for token in ["secret", "other"] {
        for target in ["/v1/crawl", "/v1/settings", "/openapi.json"] {
            assert_eq!(send(&router, with_token(token, request("GET", target, ""))).await.status, 200, "{target}");
        }
        let batch = request("POST", "/v1/urls", r#"{"urls":["a.example"]}"#);
        assert_eq!(send(&router, with_token(token, batch)).await.status, 200);
    }
    for (token, actions) in [("secret", json!([])), ("other", json!(["pause", "resume", "stop"]))] {
        let figures = send(&router, with_token(token, request("GET", "/v1/crawl", ""))).await.json();
        assert_eq!(figures["actions"], actions, "{token}");
    }
    for (method, target, body) in &CHANGES[..4] {
        assert!(send(&router, with_token("other", request(method, target, body))).await.status < 300, "{target}");
    }
    let calls = controls.calls.lock().unwrap();
    assert_eq!(calls[2..], ["Pause", "Resume", "Stop", "a.example true None"]);
}

async fn url(router: &Router, token: &str) -> Answer {
    send(router, with_token(token, request("GET", "/v1/url?url=a.example", ""))).await
}

fn retry_after(headers: &HeaderMap) -> Option<u64> {
    headers.get("retry-after").map(|value| value.to_str().unwrap().parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_token_has_its_own_rate_of_which_a_batch_takes_its_number_of_urls() {
    let config = UrlstoreConfig { token_rate: 10, ..two_tokens() };
    let router = router(api(Arc::new(MemoryStore::new()), None, &config));
    for _ in 0..9 {
        assert_eq!(url(&router, "secret").await.status, 404);
    }
    let urls = vec!["a.example"; 101];
    let batch = request("POST", "/v1/urls", &json!({ "urls": urls }).to_string());
    assert_eq!(send(&router, with_token("secret", batch)).await.status, 200);
    let refused = url(&router, "secret").await;
    assert_eq!((refused.status, retry_after(&refused.headers)), (429, Some(11)));
    assert_eq!(refused.json()["type"], "urn:orbweaver:problem:too-many-requests");
    assert_eq!(url(&router, "other").await.status, 404);
    tokio::time::advance(std::time::Duration::from_millis(10_200)).await;
    assert_eq!(url(&router, "secret").await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn without_a_rate_all_requests_are_admitted() {
    let router = router(api(Arc::new(MemoryStore::new()), None, &two_tokens()));
    for _ in 0..2000 {
        assert_eq!(url(&router, "secret").await.status, 404);
    }
}
