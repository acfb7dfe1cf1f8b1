//! Answers of each route.

use std::{io::Read as _, sync::Arc};

use flate2::read::GzDecoder;
use orbweaver_store::{LinksOut, MemoryStore, Store as _, Write};
use serde_json::{Value, json};

use crate::world::{HTML, api, config, fill, fingerprint, get, request, send, world};

#[tokio::test]
async fn a_url_is_found_by_any_spelling_and_has_its_last_known_state() {
    let (_dir, router) = world().await;
    let fingerprint = fingerprint("https://a.example/").to_string();
    for spelling in ["https://a.example/", "a.example", "HTTPS%3A%2F%2FA.EXAMPLE%3A443%2F%23top"] {
        let answer = get(&router, &format!("/v1/url?url={spelling}")).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
        let answer = answer.json();
        let identity = json!({
            "url": "https://a.example/", "canonical": "https://a.example/", "fingerprint": fingerprint,
            "ending": "page", "chain": [],
        });
        assert_eq!(answer["resolution"], identity);
        assert_eq!((&answer["crawl"], &answer["fingerprint"]), (&json!("default"), &json!(fingerprint)));
        let state = json!({
            "url": "https://a.example/", "site": "example", "fetched_at": "1970-01-01T00:00:00.030Z", "status": 200,
            "outcome": "unchanged", "reason": null, "content_type": "text/html", "etag": "\"v1\"",
            "last_modified": null, "bytes": 25, "content_hash": "ab", "depth": 2, "via": "https://via.example/",
        });
        assert_eq!(answer["state"], state);
    }
}

#[tokio::test]
async fn redirects_are_followed_unless_the_request_forbids_it() {
    let (_dir, router) = world().await;
    let resolved = get(&router, "/v1/url?url=https://old.example/").await.json();
    let hop = json!({
        "kind": "redirect", "from": "https://old.example/", "to": "https://a.example/#top", "status": 301, "at": "1970-01-01T00:00:00.050Z",
    });
    assert_eq!((&resolved["resolution"]["ending"], &resolved["resolution"]["chain"]), (&json!("page"), &json!([hop])));
    assert_eq!(
        (&resolved["canonical"], &resolved["state"]["url"]),
        (&json!("https://old.example/"), &json!("https://a.example/"))
    );
    let own = get(&router, "/v1/url?url=https://old.example/&resolve=no").await.json();
    assert_eq!((&own["resolution"], &own["state"]["outcome"]), (&Value::Null, &json!("redirected")));
    let circle = get(&router, "/v1/url?url=https://left.example/").await.json();
    assert_eq!(circle["resolution"]["ending"], "loop");
    assert_eq!(circle["resolution"]["chain"].as_array().unwrap().len(), 2);
    let away = get(&router, "/v1/url?url=https://away.example/").await.json();
    assert_eq!((&away["resolution"]["ending"], &away["state"]), (&json!("unknown"), &Value::Null));
    assert_eq!(away["resolution"]["url"], "https://elsewhere.example/");
}

#[tokio::test]
async fn a_url_is_known_in_its_crawl_alone() {
    let (_dir, router) = world().await;
    let answer = get(&router, "/v1/url?url=a.example&crawl=docs").await;
    let problem = answer.json();
    assert_eq!((answer.status, answer.header("content-type")), (404, "application/problem+json"));
    assert_eq!(problem["type"], "urn:orbweaver:problem:unknown-url");
    assert_eq!(problem["detail"], "nothing is stored of https://a.example/ in the crawl `docs`");
}

#[tokio::test]
async fn the_history_is_newest_first_and_says_whether_there_is_more() {
    let (_dir, router) = world().await;
    let all = get(&router, "/v1/history?url=a.example").await.json();
    let outcomes: Vec<_> = all["events"].as_array().unwrap().iter().map(|event| event["outcome"].clone()).collect();
    assert_eq!((outcomes, &all["more"]), (vec![json!("unchanged"), json!("gone"), json!("fetched")], &json!(false)));
    assert_eq!(all["events"][1]["status"], Value::Null);
    let two = get(&router, "/v1/history?url=a.example&limit=2").await.json();
    assert_eq!((two["events"].as_array().unwrap().len(), &two["more"]), (2, &json!(true)));
    let three = get(&router, "/v1/history?url=a.example&limit=3").await.json();
    assert_eq!((three["events"].as_array().unwrap().len(), &three["more"]), (3, &json!(false)));
}

#[tokio::test]
async fn links_are_paged_in_the_order_of_the_page() {
    let (_dir, router) = world().await;
    let (mut found, mut cursor) = (vec![], String::new());
    loop {
        let page = get(&router, &format!("/v1/links?url=a.example&limit=2{cursor}")).await.json();
        assert_eq!((&page["total"], &page["fetched_at"]), (&json!(5), &json!("1970-01-01T00:00:00.010Z")));
        found.extend(page["links"].as_array().unwrap().clone());
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let expected: Vec<_> =
        (0..5).map(|number| json!({ "url": format!("https://{number}.example/"), "nofollow": number == 3 })).collect();
    assert_eq!(found, expected);
    let none = get(&router, "/v1/links?url=plain.example").await;
    assert_eq!((none.status, &none.json()["links"], &none.json()["fetched_at"]), (200, &json!([]), &Value::Null));
}

#[tokio::test]
async fn a_cursor_is_refused_once_the_links_were_replaced() {
    let (dir, store) = (tempfile::tempdir().unwrap(), Arc::new(MemoryStore::new()));
    fill(&*store, dir.path()).await;
    let router = orbweaver_urlstore::router(api(store.clone(), None, &config()));
    let first = get(&router, "/v1/links?url=a.example&limit=2").await.json();
    let target = format!("/v1/links?url=a.example&limit=2&cursor={}", first["next"].as_str().unwrap());
    assert_eq!(get(&router, &target).await.status, 200);
    let links = LinksOut { fingerprint: fingerprint("a.example"), at_ms: 30, links: vec![], canonical: None };
    store.write(vec![Write::Links(links)]).await.unwrap();
    assert_eq!(get(&router, &target).await.status, 410);
}

#[tokio::test]
async fn captures_are_the_locations_in_the_archive() {
    let (_dir, router) = world().await;
    let answer = get(&router, "/v1/captures?url=a.example&limit=1").await.json();
    let revisit = json!({
        "at": "1970-01-01T00:00:00.030Z", "file": "default/default-a.warc.gz", "offset": 1, "length": 1, "status": 200,
        "is_revisit": true, "content_hash": null,
    });
    assert_eq!((&answer["captures"], &answer["more"]), (&json!([revisit]), &json!(true)));
    let none = get(&router, "/v1/captures?url=plain.example").await;
    assert_eq!((none.status, &none.json()["captures"]), (200, &json!([])));
}

#[tokio::test]
async fn the_content_of_a_revisit_is_that_of_its_original_and_never_rendered() {
    let (_dir, router) = world().await;
    let answer = get(&router, "/v1/content?url=a.example").await;
    assert_eq!((answer.status, &*answer.body), (200, HTML));
    for (name, value) in [
        ("content-type", "application/octet-stream"),
        ("content-disposition", "attachment"),
        ("content-security-policy", "sandbox; default-src 'none'; frame-ancestors 'none'"),
        ("x-content-type-options", "nosniff"),
        ("x-orbweaver-content-type", "text/html; charset=utf-8"),
        ("x-orbweaver-status", "200"),
        ("x-orbweaver-url", "https://a.example/"),
        ("x-orbweaver-fetched-at", "1970-01-01T00:00:00.010Z"),
        ("content-length", "25"),
    ] {
        assert_eq!(answer.header(name), value, "{name}");
    }
    let record = get(&router, "/v1/content?url=a.example&as=record").await;
    assert_eq!((record.status, record.header("content-type")), (200, "application/gzip"));
    let mut text = String::new();
    GzDecoder::new(&*record.body).read_to_string(&mut text).unwrap();
    assert!(text.starts_with("WARC/1.1\r\nWARC-Type: response\r\n"), "{text}");
    assert_ne!(record.header("etag"), answer.header("etag"));
}

#[tokio::test]
async fn content_that_is_not_there_has_its_own_problem() {
    let (_dir, router) = world().await;
    for (url, status, kind) in [
        ("plain.example", 404, "not-archived"),
        ("open.example", 404, "file-missing"),
        ("nowhere.example", 404, "unknown-url"),
        ("damaged.example", 500, "damaged"),
        ("large.example", 413, "too-large"),
    ] {
        let answer = get(&router, &format!("/v1/content?url={url}")).await;
        let expected = format!("urn:orbweaver:problem:{kind}");
        assert_eq!((answer.status, &answer.json()["type"]), (status, &json!(expected)), "{url}");
    }
    let (dir, store) = (tempfile::tempdir().unwrap(), Arc::new(MemoryStore::new()));
    fill(&*store, dir.path()).await;
    let router = orbweaver_urlstore::router(api(store, None, &config()));
    let answer = get(&router, "/v1/content?url=a.example").await;
    assert_eq!((answer.status, &answer.json()["type"]), (404, &json!("urn:orbweaver:problem:no-archive")));
}

#[tokio::test]
async fn a_batch_is_answered_in_its_order_with_a_problem_for_each_url_that_has_one() {
    let (_dir, router) = world().await;
    let mut urls = vec!["https://old.example/", "ftp://a.example/", "nowhere.example", "a.example", "a.example"];
    let body = json!({ "urls": urls }).to_string();
    let answer = send(&router, request("POST", "/v1/urls", &body)).await;
    assert_eq!(answer.status, 200);
    let results = answer.json()["results"].as_array().unwrap().clone();
    let requested: Vec<_> = results.iter().map(|result| result["requested"].as_str().unwrap().to_owned()).collect();
    assert_eq!(requested, urls);
    assert_eq!(results[0]["state"]["url"], "https://a.example/");
    assert_eq!(results[1]["problem"]["status"], 400);
    assert_eq!(results[2]["problem"]["type"], "urn:orbweaver:problem:unknown-url");
    let one = get(&router, "/v1/url?url=a.example").await.json();
    assert_eq!((&results[3], &results[4]), (&one, &one));

    urls = vec!["a.example"; 1000];
    urls[999] = "plain.example";
    let body = json!({ "urls": urls, "resolve": false }).to_string();
    let results = send(&router, request("POST", "/v1/urls", &body)).await.json();
    assert_eq!(results["results"].as_array().unwrap().len(), 1000);
    assert_eq!(results["results"][999]["canonical"], "https://plain.example/");
}

#[tokio::test]
async fn an_answer_that_the_client_has_is_not_sent_again() {
    let (_dir, router) = world().await;
    for target in [
        "/v1/url?url=a.example",
        "/v1/history?url=a.example",
        "/v1/links?url=a.example",
        "/v1/captures?url=a.example",
        "/v1/content?url=a.example",
        "/v1/content?url=a.example&as=record",
        "/v1/pages?site=example",
        "/openapi.json",
    ] {
        let tag = get(&router, target).await.header("etag").to_owned();
        assert!(tag.starts_with('"'), "{target}: {tag}");
        let mut again = request("GET", target, "");
        again.headers_mut().insert("if-none-match", format!("\"x\", W/{tag}").parse().unwrap());
        let answer = send(&router, again).await;
        assert_eq!((answer.status, answer.body.len(), answer.header("etag")), (304, 0, &*tag), "{target}");
        let mut other = request("GET", target, "");
        other.headers_mut().insert("if-none-match", "\"x\"".parse().unwrap());
        assert_eq!(send(&router, other).await.status, 200, "{target}");
    }
}
