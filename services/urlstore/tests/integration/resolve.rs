//! Canonical URLs on every route, over generated webs whose truth is known.

use std::{path::Path, sync::Arc};

use axum::Router;
use orbweaver_messages::OutcomeKind;
use orbweaver_store::{DeclaredCanonical, LinksOut, MemoryStore, PageRow, RedirectRow, Store as _, Write};
use orbweaver_url::CrawlName;
use orbweaver_urlstore::{UrlstoreConfig, router};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{api, archive, capture, fingerprint, get, page, request, send};

/// Number of URLs of a web.
const URLS: usize = 9;
/// Number of sites: URLs with the same remainder are of one site.
const SITES: usize = 2;

/// Page of a web, as it answers and declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    RedirectTo(usize),
    Declares(usize),
    Plain,
    Error,
    Unknown,
}

use Answer::{Declares, Error, Plain, RedirectTo, Unknown};

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        3 => (0..URLS).prop_map(RedirectTo),
        4 => (0..URLS).prop_map(Declares),
        1 => Just(Plain),
        1 => Just(Error),
        1 => Just(Unknown),
    ]
}

fn url(number: usize) -> String {
    format!("https://{number}.example/")
}

/// Returns the URL that an answer about URL `from` is about. Other than the resolution, this has no chain, limits or state: it
/// looks for the end of the redirects, and then for that of the declarations.
fn truth(web: &[Answer], from: usize) -> usize {
    let mut at = from;
    let mut visited = vec![from];
    while let RedirectTo(to) = web[at] {
        if visited.contains(&to) {
            return at;
        }
        visited.push(to);
        at = to;
    }
    let leads_to = |at: usize| match web[at] {
        Declares(to) if to != at && matches!(web[to], Plain | Declares(_)) => {
            (to % SITES == at % SITES || web[to] == Declares(to)).then_some(to)
        }
        _ => None,
    };
    let mut circle = vec![at];
    while let Some(next) = leads_to(*circle.last().unwrap()) {
        if circle.contains(&next) {
            return at;
        }
        circle.push(next);
    }
    *circle.last().unwrap()
}

/// Returns the API over a web, whose pages name their number.
async fn served(web: &[Answer], dir: &Path) -> Router {
    let bodies: Vec<String> = (0..URLS).map(|number| format!("<h1>number {number}</h1>")).collect();
    let located = archive(dir, &bodies.iter().map(String::as_bytes).collect::<Vec<_>>());
    let store = Arc::new(MemoryStore::new());
    for (number, answer) in web.iter().enumerate() {
        let url = &url(number);
        let site = || format!("site{}", number % SITES);
        let state = |outcome: OutcomeKind, status| {
            let row = PageRow { outcome: outcome.name().to_owned(), status, site: site().into(), ..page(url, 10) };
            Write::Page { crawl: CrawlName::default(), row: Box::new(row) }
        };
        let canonical = match answer {
            Declares(to) if *to == number => Some(DeclaredCanonical::Own),
            Declares(to) => Some(DeclaredCanonical::Other(self::url(*to))),
            _ => None,
        };
        let links = vec![(format!("https://link.example/{number}"), false)];
        let links = Write::Links(LinksOut { fingerprint: fingerprint(url), at_ms: 10, links, canonical });
        let (offset, length) = located[number];
        let captured = Write::Capture(capture(url, 10, (crate::world::FILE, offset, length)));
        let writes = match answer {
            RedirectTo(to) => {
                let (from, to) = (url.clone(), self::url(*to));
                let row = RedirectRow { fingerprint: fingerprint(url), from, to, status: 301, at_ms: 10 };
                vec![Write::Redirect(row), state(OutcomeKind::Redirected, Some(301)), captured]
            }
            Declares(_) | Plain => vec![state(OutcomeKind::Fetched, Some(200)), links, captured],
            Error => vec![state(OutcomeKind::Gone, Some(404)), captured],
            Unknown => vec![],
        };
        store.write(writes).await.unwrap();
    }
    router(api(store, Some(dir), &UrlstoreConfig::default()))
}

/// Checks each route for a URL.
async fn check(router: &Router, web: &[Answer], from: usize) {
    let end = truth(web, from);
    let of = async |route: &str, more: &str| get(router, &format!("{route}?url={}{more}", url(from))).await;
    let end_of = |answer: &Value| answer["resolution"]["url"].as_str().map(str::to_owned);
    let (found, by_itself) = (of("/v1/url", "").await, of("/v1/url", "&resolve=no").await);
    if web[end] == Unknown {
        assert_eq!(found.status, if from == end { 404 } else { 200 }, "{web:?} {from}");
        for route in ["/v1/history", "/v1/links", "/v1/captures", "/v1/content", "/v1/document"] {
            assert_eq!(
                of(route, "").await.json()["type"],
                "urn:orbweaver:problem:unknown-url",
                "{route} {web:?} {from}"
            );
        }
        return;
    }
    assert_eq!(end_of(&found.json()), Some(url(end)), "{web:?} {from}");
    assert_eq!(found.json()["state"]["url"], url(end), "{web:?} {from}");
    assert_eq!(by_itself.json()["state"]["url"], url(from), "{web:?} {from}");
    for route in ["/v1/history", "/v1/links", "/v1/captures"] {
        let answer = of(route, "").await.json();
        assert_eq!((end_of(&answer), &answer["url"]), (Some(url(end)), &json!(url(from))), "{route} {web:?} {from}");
        assert_eq!(of(route, "&resolve=no").await.json()["resolution"], Value::Null, "{route}");
    }
    if matches!(web[end], Plain | Declares(_)) {
        let links = of("/v1/links", "").await.json();
        assert_eq!(links["links"][0]["url"], format!("https://link.example/{end}"), "{web:?} {from}");
    }
    for (more, number) in [("", end), ("&resolve=no", from)] {
        let (content, document) = (of("/v1/content", more).await, of("/v1/document", more).await.json());
        assert_eq!(content.body, format!("<h1>number {number}</h1>").into_bytes(), "{web:?} {from}");
        assert_eq!(content.header("x-orbweaver-canonical"), url(number));
        assert_eq!((&document["text"], &document["url"]), (&json!(format!("number {number}")), &json!(url(number))));
    }
    let batch = json!({ "urls": [url(from)] }).to_string();
    let batch = send(router, request("POST", "/v1/urls", &batch)).await.json();
    assert_eq!(batch["results"][0], found.json());
}

#[test]
fn each_route_is_about_the_end_that_is_known_of_a_generated_web() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let webs = proptest::collection::vec(answer(), URLS);
    let run = runner.run(&webs, |web| {
        runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let router = served(&web, dir.path()).await;
            for from in 0..URLS {
                check(&router, &web, from).await;
            }
        });
        Ok(())
    });
    run.unwrap();
}

#[tokio::test]
async fn a_document_is_known_by_its_tag_and_has_the_form_that_is_requested() {
    let web = [Declares(1), Plain, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, RedirectTo(1)];
    let dir = tempfile::tempdir().unwrap();
    let router = served(&web, dir.path()).await;
    let of = async |form: &str| get(&router, &format!("/v1/document?url={}&as={form}", url(8))).await;
    let (markdown, text, json) = (of("markdown").await, of("text").await, of("json").await);
    assert_eq!(markdown.header("content-type"), "text/markdown; charset=utf-8");
    assert_eq!(String::from_utf8(markdown.body).unwrap().trim(), "# number 1");
    assert_eq!((text.header("content-type"), text.status), ("text/plain; charset=utf-8", 200));
    assert_eq!((json.header("content-type"), &json.json()["depth"]), ("application/json", &json!(2)));
    let mut again = request("GET", &format!("/v1/document?url={}", url(1)), "");
    again.headers_mut().insert("if-none-match", json.header("etag").parse().unwrap());
    assert_eq!(send(&router, again).await.status, 304);
    assert_eq!(of("pdf").await.json()["allowed"], "`json`, `markdown`, `text`");
}
