//! The embedded store: the contract, and behavior specific to a local directory.

#![allow(clippy::unwrap_used, reason = "the functions that tests share are tests, too")]

use std::path::Path;

use fjall::{Database, KeyspaceCreateOptions};
use futures::future::try_join_all;
use orbweaver_store::contract::{self, page, page_write};
use orbweaver_store::{FjallOptions, FjallStore, LinksOut, MemoryStore, RobotsRow, Store, StoreError, Write};
use orbweaver_url::{CrawlName, Fingerprint};
use proptest::collection::vec;
use proptest::prelude::*;

/// Options with memtables so small that files are written, and compacted, after some hundred pages.
fn tiny() -> FjallOptions {
    FjallOptions { memtable_bytes: 1 << 20, block_cache_bytes: 1 << 20 }
}

fn open(dir: &Path) -> FjallStore {
    FjallStore::open(dir, tiny()).unwrap()
}

fn fingerprint(number: u64) -> Fingerprint {
    Fingerprint::of(&CrawlName::default(), &number.to_string())
}

/// Returns a link that does not compress, so that enough data is written.
fn links(number: u64, at_ms: i64) -> LinksOut {
    contract::long_links(fingerprint(number), at_ms, 1)
}

async fn write_pages(store: &FjallStore, numbers: std::ops::Range<u64>, at_ms: i64) {
    let writes = numbers.map(|number| {
        store.write(vec![page_write(&page(fingerprint(number), at_ms)), Write::Links(links(number, at_ms))])
    });
    try_join_all(writes).await.unwrap();
}

#[tokio::test]
async fn the_embedded_store_keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    contract::holds(&FjallStore::open(dir.path(), FjallOptions::default()).unwrap(), "run").await;
}

#[tokio::test]
async fn the_store_in_memory_keeps_the_contract() {
    let store = MemoryStore::new();
    contract::holds(&store, "run").await;
    contract::erases(&store, "run").await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_order_of_writes_ends_as_in_memory(
        writes in vec((0..6_u8, 0..3_u8, 0..6_u8), 1..40), at_once: bool,
    ) {
        thread_local! {
            static STORE: (tempfile::TempDir, FjallStore) = {
                let dir = tempfile::tempdir().unwrap();
                let store = FjallStore::open(dir.path(), tiny()).unwrap();
                (dir, store)
            };
            static CASE: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
        }
        let case = CASE.replace(CASE.get() + 1);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        STORE.with(|(_, store)| {
            runtime.block_on(contract::ends_alike(store, &MemoryStore::new(), &case.to_string(), &writes, at_once));
        });
    }
}

#[tokio::test]
async fn the_contract_holds_over_rows_that_were_flushed_merged_and_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    for run in 0..3 {
        let store = open(dir.path());
        contract::holds(&store, &format!("run {run}")).await;
        write_pages(&store, 0..4000, 1000 + run).await;
        // Older than the flushed rows.
        write_pages(&store, 0..100, 999).await;
        for number in (0..4000).step_by(37) {
            let (page_row, links_row) = (page(fingerprint(number), 1000 + run), links(number, 1000 + run));
            assert_eq!(store.page(fingerprint(number)).await.unwrap(), Some(page_row));
            assert_eq!(store.links(fingerprint(number)).await.unwrap(), Some(links_row));
        }
    }
    let tables = std::fs::read_dir(dir.path().join("keyspaces")).unwrap().count();
    assert!(tables >= 5, "{tables} keyspaces");
    let newest = open(dir.path()).history(fingerprint(0), 1).await.unwrap();
    assert_eq!(newest, [page(fingerprint(0), 1002).event()]);
}

#[tokio::test]
async fn a_directory_is_used_by_one_store_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path());
    let error = FjallStore::open(dir.path(), tiny()).err().unwrap().to_string();
    assert!(error.contains("another process uses it") && error.contains(&*dir.path().to_string_lossy()), "{error}");
    drop(first);
    open(dir.path());
}

#[tokio::test]
async fn a_store_that_is_dropped_has_written_what_was_queued() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    // Queued by the first poll, and abandoned before the result.
    let write = store.write(vec![Write::Links(links(1, 1000))]);
    assert!(futures::FutureExt::now_or_never(write).is_none());
    drop(store);
    assert_eq!(open(dir.path()).links(fingerprint(1)).await.unwrap(), Some(links(1, 1000)));
}

#[tokio::test]
async fn a_damaged_value_is_named_and_neither_read_nor_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let row = RobotsRow {
        authority: "https://example.org".into(),
        fetched_at_ms: 1,
        status: None,
        body: "x".into(),
        expires_ms: 2,
    };
    open(dir.path()).write(vec![Write::Robots(row.clone())]).await.unwrap();
    write_pages(&open(dir.path()), 0..2, 1000).await;
    {
        let database = Database::builder(dir.path()).open().unwrap();
        for (keyspace, key) in [("pages", &fingerprint(0).0[..]), ("robots", b"https://example.org")] {
            let keyspace = database.keyspace(keyspace, KeyspaceCreateOptions::default).unwrap();
            keyspace.insert(key, [9, 9, 9]).unwrap();
        }
    }
    let store = open(dir.path());
    let place = format!("pages/{}", fingerprint(0));
    let again = vec![page_write(&page(fingerprint(0), 2000)), page_write(&page(fingerprint(2), 2000))];
    for error in [store.page(fingerprint(0)).await.unwrap_err(), store.write(again).await.unwrap_err()] {
        assert!(matches!(&error, StoreError::Damaged { key, .. } if *key == place), "{error}");
        assert!(error.to_string().contains("version 9"), "{error}");
    }
    let error = store.robots("https://example.org").await.unwrap_err().to_string();
    assert!(error.contains("robots/https://example.org"), "{error}");
    assert_eq!(store.page(fingerprint(1)).await.unwrap(), Some(page(fingerprint(1), 1000)));
    write_pages(&store, 3..4, 1000).await;
}

#[tokio::test]
async fn a_write_larger_than_the_queue_passes() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let many = contract::long_links(fingerprint(1), 1000, 2000);
    try_join_all((0..3).map(|_| store.write(vec![Write::Links(many.clone())]))).await.unwrap();
    assert_eq!(store.links(fingerprint(1)).await.unwrap(), Some(many));
}

#[test]
fn a_path_that_is_no_directory_is_a_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let error = FjallStore::open(&file, tiny()).err().unwrap().to_string();
    assert!(error.starts_with(&format!("the store failed: opening {}: ", file.display())), "{error}");
}
