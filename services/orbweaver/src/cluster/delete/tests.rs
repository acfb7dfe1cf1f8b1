use bytes::Bytes;
use orbweaver_log::{Cleanup, MemoryLog, TopicPartition, TopicSpec};
use orbweaver_messages::{
    CRAWL_HEADER, CompletionProbe, PageCount, SeenBatch, SeenEntry, encode, pages_key, probe_key, scope_key,
    topic::SEEN,
};
use orbweaver_store::{MemoryStore, PageRow, RedirectRow, Store as _, Write};

use super::*;

fn name(text: &str) -> CrawlName {
    text.parse().unwrap()
}

async fn fetched(store: &MemoryStore, crawl: &str, url: &str) -> Fingerprint {
    let fingerprint = Fingerprint::of(&name(crawl), url);
    let row = PageRow {
        fingerprint,
        key: url.to_owned(),
        url: url.to_owned(),
        site: "a.org".into(),
        fetched_at_ms: 10,
        status: Some(200),
        outcome: "fetched".to_owned(),
        reason: None,
        content_type: None,
        etag: None,
        last_modified: None,
        bytes: 1,
        content_hash: None,
        depth: 1,
        via: None,
    };
    store.write(vec![Write::Page { crawl: name(crawl), row: Box::new(row) }]).await.unwrap();
    fingerprint
}

async fn admitted(log: &MemoryLog, crawl: Option<&'static str>, fingerprints: &[Fingerprint]) {
    let entries = fingerprints.iter().map(|&fingerprint| SeenEntry { slot: 1, depth: 0, fingerprint }).collect();
    let mut record = Record::new(TopicPartition::new(SEEN, 0), None, Some(SeenBatch { entries }.encode()), 1);
    record.headers.extend(crawl.map(|name| (CRAWL_HEADER, Bytes::from_static(name.as_bytes()))));
    log.append(vec![record]).await.unwrap();
}

#[tokio::test]
async fn everything_that_is_stored_about_the_urls_of_a_crawl_is_deleted_and_nothing_of_others() {
    let log = MemoryLog::new(&[TopicSpec::new(SEEN, 2, Cleanup::Keep)]);
    let store = MemoryStore::new();
    let page = fetched(&store, "docs", "https://a.org/").await;
    let source = Fingerprint::of(&name("docs"), "https://a.org/moved");
    let (from, to) = ("https://a.org/moved".to_owned(), "https://a.org/".to_owned());
    let moved = RedirectRow { fingerprint: source, from, to, status: 301, at_ms: 10 };
    store.write(vec![Write::Redirect(moved)]).await.unwrap();
    let other = fetched(&store, "news", "https://a.org/").await;
    let mixed = [fetched(&store, "docs", "https://a.org/b").await, fetched(&store, "news", "https://a.org/b").await];
    admitted(&log, Some("docs"), &[page, source]).await;
    admitted(&log, Some("news"), &[other]).await;
    // Of an earlier version.
    admitted(&log, None, &mixed).await;
    assert_eq!(erase(&log, &store, &name("docs"), 20).await.unwrap(), 3);
    let mut left = vec![];
    for fingerprint in [page, mixed[0], other, mixed[1]] {
        left.push(store.page(fingerprint).await.unwrap().is_some());
    }
    assert_eq!(left, [false, false, true, true]);
    let listed = async |crawl| store.site_pages(&name(crawl), "a.org", None, 10).await.unwrap().len();
    assert_eq!((listed("docs").await, listed("news").await), (0, 2));
    assert_eq!(store.redirect(source).await.unwrap(), None);
    assert_eq!(erase(&log, &store, &name("docs"), 20).await.unwrap(), 2, "again; the mixed batch shows no page of it");
}

#[tokio::test]
async fn the_settings_of_a_crawl_are_removed_and_those_of_others_stay() {
    let log = MemoryLog::new(&[TopicSpec { topic: CONTROL, partitions: 2, cleanup: Cleanup::Compact }]);
    let entry = |crawl: &str, entry: &str| {
        let value = ScopeEntry { crawl: name(crawl), entry: entry.to_owned() };
        (scope_key(&name(crawl), entry), Some(encode(&value)))
    };
    let pages = |crawl: &str, partition| {
        let (crawl, counts) = (name(crawl), (1, 0, 0));
        let (pages, leased, live) = counts;
        let key = pages_key(&crawl, partition);
        let count = PageCount {
            crawl,
            partition,
            epoch: 1,
            pages,
            bytes: 0,
            leased,
            live,
            asleep: 0,
            upto: 5,
            since: 5,
            held_at: None,
        };
        (key, Some(encode(&count)))
    };
    let probe = |crawl: &str| {
        let probe = CompletionProbe { crawl: name(crawl), ends: vec![1], asked_at_ms: 1 };
        (probe_key(&name(crawl)), Some(encode(&probe)))
    };
    let definition = ("crawl/docs".to_owned(), Some(Bytes::from_static(b"{}")));
    let removed = (scope_key(&name("docs"), "gone.org"), None);
    let of_first = [entry("docs", "a.org/x"), entry("docs", "gone.org"), removed, probe("docs"), definition];
    let of_second = [pages("docs", 1), entry("docs/2", "a.org"), pages("docs/2", 1), entry("docs", "b.org")];
    for (partition, records) in [(0, of_first.to_vec()), (1, of_second.to_vec())] {
        let tp = TopicPartition::new(CONTROL, partition);
        let records = records.into_iter().map(|(key, value)| Record::new(tp, Some(key.into()), value, 1)).collect();
        log.append(records).await.unwrap();
    }
    let docs = name("docs");
    assert_eq!(forget(&log, CONTROL, |record| is_setting_of(record, &docs), 2).await.unwrap(), 4);
    let mut left = std::collections::BTreeMap::new();
    for tp in topic_partitions(&log, &[CONTROL]).unwrap() {
        for record in log.records(tp) {
            left.insert(String::from_utf8(record.key.unwrap().to_vec()).unwrap(), record.value.is_some());
        }
    }
    left.retain(|_, is_there| *is_there);
    assert_eq!(left.into_keys().collect::<Vec<_>>(), ["crawl/docs", "pages/1/docs/2", "scope/docs/2/a.org"]);
    assert_eq!(forget(&log, CONTROL, |record| is_setting_of(record, &docs), 3).await.unwrap(), 0, "again");
}

#[tokio::test]
async fn signatures_of_a_deleted_crawl_are_removed() {
    let log = MemoryLog::new(&[TopicSpec::new(SIGNATURES, 1, Cleanup::Compact)]);
    let tp = TopicPartition::new(SIGNATURES, 0);
    let signed = |key: &'static str, crawl: &'static str| {
        let mut record = Record::new(tp, Some(key.into()), Some("{}".into()), 1);
        record.headers.push((CRAWL_HEADER, crawl.into()));
        record
    };
    let dropped = Record::new(tp, Some("2".into()), None, 1);
    log.append(vec![signed("1", "docs"), signed("2", "docs"), signed("3", "docs#2"), dropped]).await.unwrap();
    let docs = name("docs");
    assert_eq!(forget(&log, SIGNATURES, |record| is_of(record, &docs), 2).await.unwrap(), 1);
    let last = log.records(tp).pop().unwrap();
    assert_eq!((last.key.as_deref(), last.value), (Some(&b"1"[..]), None));
}
