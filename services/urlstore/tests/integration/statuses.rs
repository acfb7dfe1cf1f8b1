//! Every route and every status of the description.

use std::{collections::BTreeMap, collections::BTreeSet, sync::Arc, time::Duration};

use axum::Router;
use orbweaver_store::StoreError;
use orbweaver_urlstore::{UrlstoreConfig, router};
use serde_json::Value;

use crate::{
    live::crawls,
    world::{Failing, OF_SECRET, api, config, get, request, send, world},
};

/// Statuses by method and path.
type Statuses = BTreeMap<(String, String), BTreeSet<u16>>;

fn described(description: &Value) -> Statuses {
    let paths = description["paths"].as_object().unwrap();
    let operations = paths.iter().flat_map(|(path, item)| {
        item.as_object().unwrap().iter().map(move |(method, operation)| (method.to_uppercase(), path, operation))
    });
    operations
        .map(|(method, path, operation)| {
            let statuses = operation["responses"].as_object().unwrap().keys();
            ((method, path.clone()), statuses.map(|status| status.parse().unwrap()).collect())
        })
        .collect()
}

/// Returns `true` for the routes of the crawl next to the API, without parameters that are required.
fn of_crawl(path: &str) -> bool {
    path.starts_with("/v1/crawl") || ["/v1/settings", "/v1/dead-letters"].contains(&path)
}

fn failing(error: Option<StoreError>) -> Router {
    let config = UrlstoreConfig { timeout: Duration::from_millis(1), ..config() };
    router(api(Failing::new(error), None, &config))
}

// The rate does not depend on the speed of the machine.
#[tokio::test(start_paused = true)]
async fn every_status_that_is_described_is_seen_and_no_other() {
    let (_dir, known) = world().await;
    let guarded = {
        let config = UrlstoreConfig { token_sha256: Some(format!("a read {OF_SECRET}")), token_rate: 1, ..config() };
        router(api(Failing::new(None), None, &config))
    };
    let limited = {
        let config = UrlstoreConfig { token_rate: 1, ..config() };
        router(api(Arc::new(orbweaver_store::MemoryStore::new()), None, &config))
    };
    let damaged = failing(Some(StoreError::Damaged { key: "pages/01".to_owned(), reason: "cut off".to_owned() }));
    let unavailable = failing(Some(StoreError::Failed("connection refused".to_owned())));
    let description = get(&known, "/openapi.json").await.json();
    let [running, ended, down] = crawls();
    let mut seen = Statuses::new();
    for (method, path) in described(&description).into_keys() {
        let (good, invalid) = match &*path {
            "/v1/urls" => (path.clone(), path.clone()),
            "/v1/pages" => (format!("{path}?site=example"), format!("{path}?site=a/b")),
            "/v1/site" => (format!("{path}?site=example"), path.clone()),
            _ if of_crawl(&path) => (path.clone(), format!("{path}?now=yes")),
            _ => (format!("{path}?url=a.example"), format!("{path}?url=ftp://a.example/")),
        };
        let body = match &*path {
            "/v1/urls" => r#"{"urls":["a.example"]}"#,
            "/v1/site" => r#"{"frozen":true}"#,
            _ => "{}",
        };
        let of = |target: &str, body: &str| request(&method, target, body);
        let tag = send(&known, of(&good, body)).await.header("etag").to_owned();
        let mut again = of(&good, body);
        again.headers_mut().insert("if-none-match", tag.parse().unwrap());
        let mut foreign = of(&good, body);
        foreign.headers_mut().insert("host", "rebound.example".parse().unwrap());
        let mut text = of(&good, body);
        text.headers_mut().insert("content-type", "text/plain".parse().unwrap());
        let (long, cursor) = (format!("{path}?url={}", "a".repeat(40_000)), format!("{good}&cursor=MTox"));
        let unknown = format!("{path}?{}=nowhere.example", if path == "/v1/pages" { "site" } else { "url" });
        let has_content = ["/v1/content", "/v1/document"].contains(&&*path);
        let large = if has_content { format!("{path}?url=large.example") } else { good.clone() };
        let mut by_reader = of(&good, body);
        by_reader.headers_mut().insert("authorization", "Bearer secret".parse().unwrap());
        let is_change = method != "GET" && path != "/v1/urls";
        // The first one uses the rate up.
        send(&limited, of(&good, body)).await;
        let many = format!("{{\"urls\":[\"{}\"]}}", "a".repeat(5 << 20));
        for (router, request) in [
            (&known, of(&good, body)),
            (&known, again),
            (&known, of(&invalid, "[]")),
            (&known, of(&unknown, body)),
            (&known, of(&long, body)),
            (&known, of(&large, &many)),
            (&known, foreign),
            (&known, text),
            (&guarded, of(&good, body)),
            (&limited, of(&good, body)),
            (if is_change { &guarded } else { &known }, by_reader),
            (&damaged, of(&good, body)),
            (&unavailable, of(&good, body)),
        ] {
            let status = send(router, request).await.status;
            seen.entry((method.clone(), path.clone())).or_default().insert(status);
        }
        if of_crawl(&path) || path == "/v1/site" {
            let tag = send(&running, of(&good, body)).await.header("etag").to_owned();
            let mut again = of(&good, body);
            again.headers_mut().insert("if-none-match", tag.parse().unwrap());
            for (router, request) in
                [(&running, of(&good, body)), (&running, again), (&ended, of(&good, body)), (&down, of(&good, body))]
            {
                let status = send(router, request).await.status;
                seen.entry((method.clone(), path.clone())).or_default().insert(status);
            }
        }
        if path == "/v1/links" {
            let status = send(&known, of(&cursor, body)).await.status;
            seen.entry((method.clone(), path.clone())).or_default().insert(status);
        }
    }
    assert_eq!(seen, described(&description));
}

#[tokio::test]
async fn the_description_has_every_route_but_its_own() {
    let (_dir, router) = world().await;
    let description = get(&router, "/openapi.json").await.json();
    assert!(description["openapi"].as_str().unwrap().starts_with("3."), "{description}");
    assert_eq!(description["components"]["securitySchemes"]["token"]["scheme"], "bearer");
    let unknown = get(&router, "/nowhere").await.json();
    let paths = unknown["detail"].as_str().unwrap().strip_prefix("allowed paths: ").unwrap();
    let mut paths: Vec<_> = paths.split(", ").filter(|path| *path != "/openapi.json").collect();
    paths.sort_unstable();
    assert_eq!(description["paths"].as_object().unwrap().keys().collect::<Vec<_>>(), paths);
}

#[tokio::test]
async fn the_description_has_the_limits_of_parameters_and_bodies() {
    let (_dir, router) = world().await;
    let description = get(&router, "/openapi.json").await.json();
    for (path, name, limit, expected) in [
        ("/v1/url", "url", "minLength", serde_json::json!(1)),
        ("/v1/url", "crawl", "minLength", serde_json::json!(1)),
        ("/v1/url", "canonical", "minLength", serde_json::json!(1)),
        ("/v1/url", "resolve", "pattern", serde_json::json!("^(yes|no)$")),
        ("/v1/content", "as", "pattern", serde_json::json!("^(body|record)$")),
        ("/v1/links", "cursor", "minLength", serde_json::json!(1)),
        ("/v1/links", "limit", "maximum", serde_json::json!(1000)),
        ("/v1/pages", "site", "minLength", serde_json::json!(1)),
        ("/v1/pages", "status", "pattern", serde_json::json!("^([1-9][0-9]{2}|[1-9]xx|none)$")),
    ] {
        let parameters = description["paths"][path]["get"]["parameters"].as_array().unwrap();
        let schema = &parameters.iter().find(|parameter| parameter["name"] == name).unwrap()["schema"];
        assert_eq!(schema[limit], expected, "{path} {name}: {schema}");
    }
    let batch = &description["components"]["schemas"]["BatchRequest"]["properties"];
    assert_eq!((&batch["urls"]["minItems"], &batch["urls"]["maxItems"]), (&1.into(), &1000.into()));
    assert_eq!(batch["crawl"]["minLength"], 1);
}

#[tokio::test]
async fn every_reference_of_the_description_leads_somewhere() {
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let (_dir, router) = world().await;
    let description = get(&router, "/openapi.json").await.json();
    let mut found = vec![];
    references(&description, &mut found);
    assert!(found.len() > 20, "{found:?}");
    for reference in found {
        assert!(description.pointer(&reference[1..]).is_some(), "{reference}");
    }
}

#[tokio::test]
async fn a_store_that_does_not_answer_in_time_is_unavailable() {
    let answer = get(&failing(None), "/v1/url?url=a.example").await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, "1"));
    assert_eq!(answer.json()["detail"], "the request was not answered within 0.001 s");
    let body = r#"{"urls":["a.example"]}"#;
    assert_eq!(send(&failing(None), request("POST", "/v1/urls", body)).await.status, 503);
}

#[tokio::test]
async fn with_a_token_no_route_answers_without_it_and_every_one_does_with_it() {
    let (dir, store) = (tempfile::tempdir().unwrap(), Arc::new(orbweaver_store::MemoryStore::new()));
    crate::world::fill(&*store, dir.path()).await;
    let config = UrlstoreConfig { token_sha256: Some(OF_SECRET.to_owned()), ..config() };
    let router = router(api(store, Some(dir.path()), &config));
    for target in ["/v1/url?url=a.example", "/v1/content?url=a.example", "/openapi.json", "/nowhere"] {
        let answer = get(&router, target).await;
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, "Bearer"), "{target}");
        for (token, is_admitted) in [("Bearer secret", true), ("Bearer secrets", false), (OF_SECRET, false)] {
            let mut request = request("GET", target, "");
            request.headers_mut().insert("authorization", token.parse().unwrap());
            // With a token, other names of the machine are allowed.
            request.headers_mut().insert("host", "urls.example".parse().unwrap());
            assert_eq!(send(&router, request).await.status != 401, is_admitted, "{target} {token}");
        }
    }
}
