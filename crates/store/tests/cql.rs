//! The store on a real CQL server: the contract, and behavior with shared, changed and crashed servers.

#![allow(clippy::unwrap_used, reason = "the functions that tests share are tests, too")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::future::{join_all, try_join_all};
use orbweaver_stage::Perform;
use orbweaver_store::contract::{self, page, page_write};
use orbweaver_store::{
    CqlConfig, CqlStore, FjallOptions, FjallStore, MeteredStore, PageRow, RedirectRow, Store, StoreError, StoreMetrics,
    StoreWriter, Write,
};
use orbweaver_testkit::{Stack, cql, unique};
use orbweaver_url::{CrawlName, Fingerprint};
use prometheus::Registry;
use proptest::collection::vec;
use proptest::prelude::*;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

fn config(keyspace: &Keyspace) -> CqlConfig {
    CqlConfig {
        nodes: vec![keyspace.server.clone()],
        keyspace: keyspace.name.clone(),
        replication_factor: 1,
        request_timeout: Duration::from_secs(30),
        ..CqlConfig::default()
    }
}

fn metrics() -> StoreMetrics {
    StoreMetrics::register(&Registry::new()).unwrap()
}

async fn connect(keyspace: &Keyspace) -> CqlStore {
    CqlStore::connect(config(keyspace), metrics()).await.unwrap()
}

async fn session(server: &str) -> Session {
    SessionBuilder::new().known_node(server).fetch_schema_metadata(false).build().await.unwrap()
}

/// Keyspace of one test, dropped with this value.
struct Keyspace {
    server: String,
    name: String,
}

impl Keyspace {
    fn new() -> Self {
        Self { server: cql(), name: unique("store") }
    }
}

impl Drop for Keyspace {
    fn drop(&mut self) {
        let (server, text) = (self.server.clone(), format!("DROP KEYSPACE IF EXISTS {}", self.name));
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { session(&server).await.query_unpaged(text, ()).await.unwrap() });
        });
        assert!(dropping.join().is_ok(), "keyspace {} stays", self.name);
    }
}

fn fingerprint(number: u64) -> Fingerprint {
    Fingerprint::of(&CrawlName::default(), &number.to_string())
}

fn links(number: u64) -> Write {
    Write::Links(contract::links(fingerprint(number), 1000, 30))
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn the_store_on_cql_keeps_the_contract() {
    let keyspace = Keyspace::new();
    let store = connect(&keyspace).await;
    contract::holds(&store, "run").await;
    contract::erases(&store, "run").await;
}

#[test]
#[ignore = "needs the servers of tests/stack"]
fn any_order_of_writes_ends_as_in_the_embedded_store() {
    let keyspace = Keyspace::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let embedded = FjallStore::open(dir.path(), FjallOptions::default()).unwrap();
    let store = runtime.block_on(connect(&keyspace));
    let case = AtomicU64::new(0);
    let writes = (vec((0..6_u8, 0..3_u8, 0..6_u8), 1..40), any::<bool>());
    let config = ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |((writes, at_once) in writes)| {
        let run = case.fetch_add(1, Ordering::Relaxed).to_string();
        runtime.block_on(contract::ends_alike(&store, &embedded, &run, &writes, at_once));
    });
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn of_two_rows_of_one_time_one_wins_as_a_whole_whatever_the_order() {
    let keyspace = Keyspace::new();
    let store = connect(&keyspace).await;
    let both = |number: u64| {
        let first = page(fingerprint(number), 1000);
        let second = PageRow {
            status: None,
            reason: None,
            etag: None,
            url: format!("https://example.org/{number}"),
            bytes: number,
            content_hash: Some("zz".into()),
            ..first.clone()
        };
        [first, second]
    };
    let session = session(&keyspace.server).await;
    let mut winners = vec![];
    for order in [[0, 1], [1, 0]] {
        let mut won = vec![];
        for number in 0..40 {
            let both = both(number);
            for place in order {
                store.write(vec![page_write(&both[place])]).await.unwrap();
            }
            let there = store.page(fingerprint(number)).await.unwrap().unwrap();
            assert_eq!(store.history(fingerprint(number), 2).await.unwrap(), [there.event()]);
            let place = both.iter().position(|row| *row == there);
            won.push(place.unwrap_or_else(|| panic!("a row without a writer: {there:?}")));
        }
        winners.push(won);
        for table in ["pages", "fetches"] {
            session.query_unpaged(format!("TRUNCATE {}.{table}", keyspace.name), ()).await.unwrap();
        }
    }
    assert_eq!(winners[0], winners[1]);
    assert!(winners[0].contains(&0) && winners[0].contains(&1), "{winners:?}");
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn processes_that_start_at_once_share_one_schema_and_later_ones_find_it() {
    let keyspace = Keyspace::new();
    let stores = join_all((0..6).map(|_| connect(&keyspace))).await;
    try_join_all(stores.iter().zip(0..).map(|(store, number)| store.write(vec![links(number)]))).await.unwrap();
    let later = connect(&keyspace).await;
    for number in 0..6 {
        assert!(later.links(fingerprint(number)).await.unwrap().is_some());
    }
    let session = session(&keyspace.server).await;
    let query = format!("SELECT number FROM {}.migrations", keyspace.name);
    let files = std::fs::read_dir("../../schemas/cql").unwrap().map(|file| file.unwrap().path());
    let migrations = files.filter(|file| file.extension().is_some_and(|extension| extension == "cql")).count();
    let applied = session.query_unpaged(query, ()).await.unwrap().into_rows_result().unwrap();
    assert_eq!(applied.rows_num(), migrations);
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn a_keyspace_of_other_migrations_is_refused_by_number_and_name() {
    let keyspace = Keyspace::new();
    connect(&keyspace).await;
    let update = format!("UPDATE {}.migrations SET checksum = 'x' WHERE number = 1", keyspace.name);
    session(&keyspace.server).await.query_unpaged(update, ()).await.unwrap();
    let error = CqlStore::connect(config(&keyspace), metrics()).await.err().unwrap();
    assert!(matches!(&error, StoreError::Refused(reason) if reason.contains("migration 1 `pages`")), "{error}");
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn a_damaged_row_and_a_foreign_table_are_named() {
    let keyspace = Keyspace::new();
    let store = connect(&keyspace).await;
    let session = session(&keyspace.server).await;
    let name = &keyspace.name;
    for text in [
        format!("INSERT INTO {name}.pages (fingerprint, key) VALUES (0x{}, 'k')", fingerprint(1)),
        format!(
            "INSERT INTO {name}.links (fingerprint, at, chunk, chunks, packed) VALUES (0x{}, 1, 0, 1, 0x0907)",
            fingerprint(1)
        ),
        format!(
            "INSERT INTO {name}.redirects (fingerprint, source, target, status, at) VALUES (0x{}, 'a', 'b', -1, 1)",
            fingerprint(1)
        ),
    ] {
        session.query_unpaged(text, ()).await.unwrap();
    }
    let damaged = |error: StoreError, table: &str| {
        let place = format!("{table}/{}", fingerprint(1));
        assert!(matches!(&error, StoreError::Damaged { key, .. } if *key == place), "{error}");
        error.to_string()
    };
    damaged(store.page(fingerprint(1)).await.unwrap_err(), "pages");
    assert!(damaged(store.links(fingerprint(1)).await.unwrap_err(), "links").contains("compression 9"));
    assert!(damaged(store.redirect(fingerprint(1)).await.unwrap_err(), "redirects").contains("`status` is -1"));
    session.query_unpaged(format!("DROP TABLE {name}.links"), ()).await.unwrap();
    let error = store.write(vec![links(1)]).await.unwrap_err();
    assert!(matches!(&error, StoreError::Refused(reason) if reason.starts_with("writing links: ")), "{error}");
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn of_the_links_of_a_page_the_chunks_of_the_newest_list_are_left_each_below_a_mebibyte() {
    let keyspace = Keyspace::new();
    let store = connect(&keyspace).await;
    let session = session(&keyspace.server).await;
    for (number, times) in [(1, [1000, 2000, 1000]), (2, [2000, 1000, 2000])] {
        for at_ms in times {
            // The older list is the longer one.
            let list = contract::long_links(fingerprint(number), at_ms, if at_ms == 1000 { 2000 } else { 700 });
            store.write(vec![Write::Links(list)]).await.unwrap();
        }
        let query = format!("SELECT at, chunk, chunks, packed FROM {}.links WHERE fingerprint = ?", keyspace.name);
        let rows =
            session.query_unpaged(query, (&fingerprint(number).0[..],)).await.unwrap().into_rows_result().unwrap();
        let rows = rows.rows::<(scylla::value::CqlTimestamp, i32, i32, Vec<u8>)>().unwrap();
        let rows: Vec<_> = rows.map(Result::unwrap).collect();
        assert!(rows.len() > 4, "{} chunks", rows.len());
        let chunks = i32::try_from(rows.len()).unwrap();
        for ((at, chunk, of, packed), place) in rows.into_iter().zip(0..) {
            assert_eq!((at.0, chunk, of), (2000, place, chunks));
            assert!(packed.len() < 1 << 20, "{} bytes", packed.len());
        }
    }
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn more_events_than_one_answer_holds_are_read_up_to_the_limit() {
    let keyspace = Keyspace::new();
    let store = connect(&keyspace).await;
    let pages = (0..2500).map(|at_ms| page_write(&page(fingerprint(1), at_ms)));
    store.write(pages.collect()).await.unwrap();
    for (limit, count) in [(999, 999), (1000, 1000), (1001, 1001), (2500, 2500), (usize::MAX, 2500)] {
        let events = store.history(fingerprint(1), limit).await.unwrap();
        assert_eq!(events.len(), count);
        assert!(events.iter().zip((0..2500).rev()).all(|(event, at_ms)| event.at_ms == at_ms));
    }
}

#[tokio::test]
async fn a_bad_setting_is_refused_before_anything_is_connected() {
    let config = CqlConfig { nodes: vec![], ..CqlConfig::default() };
    let error = CqlStore::connect(config, metrics()).await.err().unwrap().to_string();
    assert!(error.contains("`nodes`: allowed: at least one HOST:PORT"), "{error}");
}

#[tokio::test]
async fn servers_that_are_away_are_waited_for_until_the_caller_gives_up() {
    let config = CqlConfig { nodes: vec!["127.0.0.1:1".into()], ..CqlConfig::default() };
    let waited = tokio::time::timeout(Duration::from_secs(3), CqlStore::connect(config, metrics())).await;
    assert!(waited.is_err(), "there is no server at port 1");
}

/// Writes pages, links and redirects, and notes each acknowledged number, until `stop` is set.
async fn write_on(writer: &StoreWriter, numbers: &AtomicU64, noted: &Mutex<Vec<u64>>, stop: &AtomicU64) {
    while stop.load(Ordering::Relaxed) == 0 {
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        let row = RedirectRow {
            fingerprint: fingerprint(number),
            from: "https://example.org/".into(),
            to: format!("https://example.org/{number}"),
            status: 301,
            at_ms: 1000,
        };
        let (page, links) = (page_write(&page(fingerprint(number), 1000)), links(number));
        writer.perform(vec![page, links, Write::Redirect(row)]).await.unwrap();
        noted.lock().unwrap().push(number);
    }
}

/// A server is killed during writes, stays down and restarts, three times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn a_server_that_is_killed_keeps_what_it_acknowledged_and_the_writer_goes_on_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().to_owned();
    let stack = tokio::task::spawn_blocking(move || Stack::up(&at, 23_092, &["--only", "cql"]).unwrap()).await.unwrap();
    let stack = Arc::new(stack);
    let config = CqlConfig {
        nodes: vec![stack.cql.clone()],
        replication_factor: 1,
        request_timeout: Duration::from_secs(30),
        ..CqlConfig::default()
    };
    let registry = Registry::new();
    let metrics = StoreMetrics::register(&registry).unwrap();
    let failing = || {
        let families = registry.gather();
        let family = families.iter().find(|family| family.name() == "orbweaver_store_failing").unwrap();
        family.get_metric()[0].get_gauge().get_value() > 0.0
    };
    let store = Arc::new(CqlStore::connect(config, metrics.clone()).await.unwrap());
    let store = Arc::new(MeteredStore::new(store, metrics.clone()));
    let writer = StoreWriter::new(store.clone()).with_metrics(metrics);
    let (numbers, noted, stop) = (AtomicU64::new(0), Mutex::new(vec![]), AtomicU64::new(0));
    let acknowledged = || noted.lock().unwrap().len();
    let writing = join_all((0..64).map(|_| write_on(&writer, &numbers, &noted, &stop)));
    let breaking = async {
        for away in [0, 3, 25] {
            let goal = acknowledged() + 500;
            within("500 more pages", || acknowledged() >= goal).await;
            on_thread(&stack, |stack| stack.stop("cql", "KILL")).await;
            let at_kill = acknowledged();
            within("the store to say that it fails", &failing).await;
            tokio::time::sleep(Duration::from_secs(away)).await;
            on_thread(&stack, |stack| stack.start("cql")).await;
            let ready = Instant::now();
            within("the first write after the restart", || acknowledged() > at_kill + 64).await;
            println!("unavailable for {away} s: writes resume {:?} after the server is ready", ready.elapsed());
            within("the store to say that it answers", || !failing()).await;
        }
        stop.store(1, Ordering::Relaxed);
    };
    tokio::join!(writing, breaking);
    let noted = noted.lock().unwrap().clone();
    for number in &noted {
        let fingerprint = fingerprint(*number);
        let there = futures::try_join!(store.page(fingerprint), store.links(fingerprint), store.redirect(fingerprint));
        assert!(matches!(there.unwrap(), (Some(_), Some(_), Some(_))), "{number} of {} is not there", noted.len());
    }
    println!("{} pages were acknowledged, and are there", noted.len());
    tokio::task::spawn_blocking(move || drop(stack)).await.unwrap();
}

async fn on_thread(
    stack: &Arc<Stack>,
    act: impl FnOnce(&Stack) -> Result<(), orbweaver_testkit::StackError> + Send + 'static,
) {
    let stack = Arc::clone(stack);
    tokio::task::spawn_blocking(move || act(&stack)).await.unwrap().unwrap();
}

async fn within(what: &str, reached: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !reached() {
        assert!(Instant::now() < deadline, "{what}: not within the deadline");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
