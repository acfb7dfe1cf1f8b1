//! Lists of the pages of a site.

use std::{collections::BTreeSet, sync::Arc};

use axum::Router;
use orbweaver_store::{
    Erase as _, FjallOptions, FjallStore, MemoryStore, MeteredStore, PageRow, Store, StoreMetrics, Write,
};
use orbweaver_url::{CrawlName, Fingerprint};
use orbweaver_urlstore::router;
use prometheus::{Registry, TextEncoder};
use serde_json::{Value, json};

use crate::world::{api, config, get, page, world};

/// Returns the row of a page of `list.example`; one in ten has the status 404, one in ten had no response.
fn listed(crawl: &str, number: usize) -> PageRow {
    let row = page(&format!("https://list.example/{number}"), 10);
    let status = match number % 10 {
        0 => Some(404),
        1 => None,
        _ => Some(200),
    };
    let fingerprint = Fingerprint::of(&CrawlName::new(crawl).unwrap(), &row.key);
    PageRow { fingerprint, site: "list.example".into(), status, ..row }
}

async fn put(store: &dyn Store, crawl: &str, rows: impl IntoIterator<Item = PageRow>) {
    let crawl = CrawlName::new(crawl).unwrap();
    let write = |row| Write::Page { crawl: crawl.clone(), row: Box::new(row) };
    store.write(rows.into_iter().map(write).collect()).await.unwrap();
}

/// Requests all pages of a list; returns their URLs and the number of requests. `between` runs after each request.
async fn all(router: &Router, query: &str, between: impl AsyncFn()) -> (Vec<String>, usize) {
    let (mut found, mut cursor) = (vec![], String::new());
    for requests in 1.. {
        let answer = get(router, &format!("/v1/pages?{query}{cursor}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let answer = answer.json();
        found.extend(answer["pages"].as_array().unwrap().iter().map(|page| page["url"].as_str().unwrap().to_owned()));
        between().await;
        match answer["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (found, requests),
        }
    }
    unreachable!()
}

fn urls(numbers: impl IntoIterator<Item = usize>) -> BTreeSet<String> {
    numbers.into_iter().map(|number| format!("https://list.example/{number}")).collect()
}

#[tokio::test]
async fn a_listed_page_has_its_key_and_its_last_known_state() {
    let (_dir, router) = world().await;
    let answer = get(&router, "/v1/pages?site=EXAMPLE.&limit=1000").await;
    assert_eq!(answer.status, 200);
    let answer = answer.json();
    assert_eq!(
        (&answer["site"], &answer["crawl"], &answer["next"]),
        (&json!("example"), &json!("default"), &Value::Null)
    );
    let pages = answer["pages"].as_array().unwrap();
    assert_eq!(pages.len(), 9);
    let a = pages.iter().find(|page| page["canonical"] == "https://a.example/").unwrap();
    let one = get(&router, "/v1/url?url=a.example").await.json();
    assert_eq!(a["fingerprint"], one["fingerprint"]);
    for (name, value) in one["state"].as_object().unwrap() {
        assert_eq!(&a[name], value, "{name}");
    }
    assert!(pages.iter().map(|page| page["fingerprint"].as_str().unwrap()).is_sorted());
}

#[tokio::test]
async fn each_page_of_the_crawl_is_listed_once_and_by_status_alone_if_requested() {
    let (store, dir) = (Arc::new(MemoryStore::new()), tempfile::tempdir().unwrap());
    let embedded = Arc::new(FjallStore::open(dir.path(), FjallOptions::default()).unwrap());
    let stores: [Arc<dyn Store>; 2] = [store, embedded];
    for store in stores {
        put(&*store, "default", (0..300).map(|number| listed("default", number))).await;
        put(&*store, "docs", (0..300).map(|number| listed("docs", 1000 + number))).await;
        let router = router(api(store, None, &config()));
        for (query, expected) in [
            ("", urls(0..300)),
            ("&limit=7", urls(0..300)),
            ("&limit=1000&crawl=docs", urls(1000..1300)),
            ("&status=404&limit=4", urls((0..300).step_by(10))),
            ("&status=4xx", urls((0..300).step_by(10))),
            ("&status=none", urls((1..300).step_by(10))),
            ("&status=2xx&limit=50", urls((0..300).filter(|number| number % 10 > 1))),
            ("&status=500", urls([])),
        ] {
            let (found, _) = all(&router, &format!("site=list.example{query}"), async || {}).await;
            assert_eq!(found.iter().cloned().collect::<BTreeSet<_>>(), expected, "{query}");
            assert_eq!(found.len(), expected.len(), "{query}: listed twice");
        }
    }
}

#[tokio::test]
async fn pages_that_stay_are_listed_once_while_others_are_written_and_deleted() {
    let store = Arc::new(MemoryStore::new());
    put(&*store, "default", (0..200).map(|number| listed("default", number))).await;
    let router = router(api(store.clone(), None, &config()));
    let number = std::sync::atomic::AtomicUsize::new(200);
    let write = async || {
        let added = number.fetch_add(10, std::sync::atomic::Ordering::Relaxed);
        if added < 500 {
            put(&*store, "default", (added..added + 10).map(|number| listed("default", number))).await;
            put(&*store, "default", (0..50).map(|number| PageRow { fetched_at_ms: 20, ..listed("default", number) }))
                .await;
            let gone = listed("default", 150 + (added - 200) / 10).fingerprint;
            store.erase(&CrawlName::default(), gone, 30).await.unwrap();
        }
    };
    let (found, _) = all(&router, "site=list.example&limit=9", write).await;
    let once: BTreeSet<_> = found.iter().cloned().collect();
    assert_eq!(once.len(), found.len(), "listed twice");
    assert!(once.is_superset(&urls(0..150)));
}

#[tokio::test]
async fn a_request_that_selects_nothing_reads_ten_thousand_entries_and_has_a_cursor() {
    let store = Arc::new(MemoryStore::new());
    put(&*store, "default", (0..25_000).map(|number| PageRow { status: Some(200), ..listed("default", number) })).await;
    put(&*store, "default", [PageRow { fetched_at_ms: 20, status: Some(404), ..listed("default", 7) }]).await;
    let registry = Registry::new();
    let metered = MeteredStore::new(store, StoreMetrics::register(&registry).unwrap());
    let router = router(api(Arc::new(metered), None, &config()));
    let first = get(&router, "/v1/pages?site=list.example&status=500").await.json();
    assert_eq!(first["pages"], json!([]));
    assert!(first["next"].is_string());
    assert_eq!(all(&router, "site=list.example&status=500", async || {}).await, (vec![], 3));
    assert_eq!(pages_read(&registry), 0);
    let (found, requests) = all(&router, "site=list.example&status=404&limit=1", async || {}).await;
    assert_eq!(found, ["https://list.example/7"]);
    assert!((3..=4).contains(&requests), "{requests}");
    assert_eq!(pages_read(&registry), 1);
}

/// Returns the number of pages that were read from a metered store.
fn pages_read(registry: &Registry) -> u64 {
    let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    let line =
        text.lines().find_map(|line| line.strip_prefix("orbweaver_store_request_seconds_count{operation=\"page\"} "));
    line.map_or(0, |count| count.parse().unwrap())
}

#[tokio::test]
async fn a_cursor_of_another_list_or_none_at_all_is_refused() {
    let store = Arc::new(MemoryStore::new());
    put(&*store, "default", (0..20).map(|number| listed("default", number))).await;
    let router = router(api(store, None, &config()));
    let target = |query: &str| format!("/v1/pages?limit=2&{query}");
    let own = "site=list.example&status=2xx";
    let cursor = get(&router, &target(own)).await.json()["next"].as_str().unwrap().to_owned();
    assert_eq!(get(&router, &target(&format!("{own}&cursor={cursor}"))).await.status, 200);
    // Another limit is not another list.
    assert_eq!(get(&router, &format!("/v1/pages?limit=5&{own}&cursor={cursor}")).await.status, 200);
    let (first, rest) = cursor.split_at(1);
    let changed = format!("{}{rest}", if first == "A" { "B" } else { "A" });
    let links =
        get(&world().await.1, "/v1/links?url=a.example&limit=2").await.json()["next"].as_str().unwrap().to_owned();
    for query in [
        format!("site=list.example&cursor={cursor}"),
        format!("site=list.example&status=200&cursor={cursor}"),
        format!("{own}&crawl=docs&cursor={cursor}"),
        format!("site=example&status=2xx&cursor={cursor}"),
        format!("{own}&cursor={changed}"),
        format!("{own}&cursor={links}"),
        format!("{own}&cursor="),
        format!("{own}&cursor=%00"),
    ] {
        let answer = get(&router, &target(&query)).await;
        assert_eq!((answer.status, &answer.json()["part"]), (400, &json!("cursor")), "{query}");
    }
}

#[tokio::test]
async fn a_site_of_which_nothing_is_stored_is_unknown_and_a_host_is_no_site() {
    let store = Arc::new(MemoryStore::new());
    put(&*store, "default", [listed("default", 1)]).await;
    let router = router(api(store, None, &config()));
    let unknown = get(&router, "/v1/pages?site=www.list.example").await;
    assert_eq!((unknown.status, &unknown.json()["type"]), (404, &json!("urn:orbweaver:problem:unknown-site")));
    assert!(unknown.json()["detail"].as_str().unwrap().contains("www.list.example"));
    assert_eq!(get(&router, "/v1/pages?site=list.example&crawl=docs").await.status, 404);
    assert_eq!(get(&router, "/v1/pages?site=list.example&status=500").await.status, 200);
}
