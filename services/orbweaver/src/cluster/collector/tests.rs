//! Collectors on an in-memory log, begun and ended as by `orbweaver crawl --brokers … --out DIR`.

use std::{fs, ops::Range, time::Duration};

use orbweaver_log::{Cleanup, LogError, MemoryLog, Record, TopicPartition, TopicSpec};
use orbweaver_messages::{
    CONSUMERS_KEY, Topic,
    topic::{self, CONTROL, DOCUMENTS},
};
use orbweaver_scope::{Consumers, DEFINITIONS_PARTITION, Revision};
use orbweaver_stage::retention::{Bound, Declarations, DeclaredGroups, Retention, TopicRetention};
use orbweaver_url::Fingerprint;

use super::*;
use crate::{
    cli::crawl_args,
    cluster::{crawl::begin, profile::ProfileOptions},
    durable::tests::copy,
};

fn log() -> MemoryLog {
    let topics = [CONTROL, topic::OUTCOMES, DOCUMENTS, topic::CHANGES, topic::DEAD_LETTERS];
    MemoryLog::new(&topics.map(|topic| TopicSpec::new(topic, 1, Cleanup::Delete)))
}

/// Begins a crawl whose results are collected, with further options.
async fn crawl(log: &MemoryLog, out: &Path, options: &[&str]) -> Result<Collecting, Failure> {
    let args = crawl_args(&[&["--brokers", "localhost:9092", "--out", out.to_str().unwrap()], options].concat());
    let name = args.cluster.crawl.as_deref().unwrap_or("default");
    let log: Arc<dyn Log> = Arc::new(log.clone());
    let profile = ProfileOptions::from(&*args).given()?;
    begin(&log, &args, &name.parse().unwrap(), &profile).await.map(|collecting| collecting.expect("--out is given"))
}

/// Begins and ends a crawl. Returns the group of its collector.
async fn collect(log: &MemoryLog, out: &Path, options: &[&str], watched: Option<Watched>) -> String {
    let collecting = crawl(log, out, options).await.unwrap();
    let group = collecting.group().to_owned();
    collecting.end(log, watched.as_ref()).await.unwrap();
    group
}

async fn refused(log: &MemoryLog, out: &Path, options: &[&str]) -> Failure {
    crawl(log, out, options).await.map(drop).unwrap_err()
}

async fn declared(log: &dyn Log, topic: Topic) -> Vec<String> {
    let consumers = definition::read(log, Consumers::read).await.unwrap();
    consumers.of(topic).map(str::to_owned).collect()
}

struct OnLog(MemoryLog);

impl Declarations for OnLog {
    fn of(&self, topic: Topic) -> DeclaredGroups<'_> {
        Box::pin(async move { Ok::<_, LogError>(declared(&self.0, topic).await) })
    }
}

/// Deletes all documents that no declared group lacks.
async fn sweep(log: &MemoryLog) {
    let bound = Bound { age: None, bytes: Some(0) };
    let documents = TopicRetention { topic: DOCUMENTS, groups: vec![], keep_back: Duration::ZERO, bound };
    let retention = Retention::new(Arc::new(log.clone()), vec![documents]);
    retention.with_declarations(Arc::new(OnLog(log.clone()))).sweep(0).await.unwrap();
}

async fn append(log: &MemoryLog, crawl: &str, pages: Range<u32>) {
    let record = |page: u32| {
        let fingerprint = Fingerprint::of(&crawl.parse().unwrap(), &format!("http://a.example/{page}"));
        let value = format!("{{\"fingerprint\":\"{fingerprint}\",\"crawl\":\"{crawl}\"}}");
        let tp = TopicPartition::new(DOCUMENTS, 0);
        Record { tp, key: None, value: Some(value.into()), headers: vec![], timestamp_ms: 0 }
    };
    log.append(pages.map(record).collect()).await.unwrap();
}

fn documents(out: &Path) -> usize {
    fs::read_to_string(out.join("documents.jsonl")).unwrap().lines().count()
}

#[tokio::test]
async fn a_collector_keeps_nothing_once_all_is_collected_also_at_a_cap() {
    let (log, dir) = (log(), tempfile::tempdir().unwrap());
    let ends = [None, Some(Watched::CollectorEnded), Some(Watched::AtCap), Some(Watched::Complete)];
    for (watched, keeps) in ends.into_iter().zip([true, true, false, false]) {
        let collecting = crawl(&log, dir.path(), &[]).await.unwrap();
        let group = collecting.group().to_owned();
        for topic in export::TOPICS {
            assert_eq!(declared(&log, *topic).await, [&*group]);
        }
        let has_all_results = collecting.end(&log, watched.as_ref()).await.unwrap();
        assert_eq!((has_all_results, declared(&log, DOCUMENTS).await.contains(&group)), (!keeps, keeps));
    }
}

#[tokio::test]
async fn a_cap_is_raised_only_once_the_collector_is_declared() {
    let (log, dir) = (log(), tempfile::tempdir().unwrap());
    for max_pages in ["5", "9"] {
        let collecting = crawl(&log, dir.path(), &["--max-pages", max_pages]).await.unwrap();
        let records = log.records(TopicPartition::new(CONTROL, DEFINITIONS_PARTITION));
        let keys: Vec<_> = records.iter().filter_map(|record| record.key.as_deref()).collect();
        assert_eq!(keys[keys.len() - 2..], [CONSUMERS_KEY.as_bytes(), &b"crawl/default"[..]], "{max_pages}");
        collecting.end(&log, Some(&Watched::AtCap)).await.unwrap();
    }
}

#[tokio::test]
async fn settings_of_requests_become_those_of_the_crawl_and_stay_in_a_later_command_without_them() {
    let (log, dir) = (log(), tempfile::tempdir().unwrap());
    for (options, agent, interval_ms) in [
        (&["--user-agent", "Shop/1", "--rate", "0.5"][..], "Shop/1", 2000),
        (&["--user-agent", "Shop/2"], "Shop/2", 2000),
        (&["--rate", "10"], "Shop/2", 100),
        (&[], "Shop/2", 100),
    ] {
        collect(&log, dir.path(), options, None).await;
        let profile = definition::find(&log, &"default".parse().unwrap()).await.unwrap().unwrap().profile;
        assert_eq!((profile.user_agent.as_deref(), profile.interval_ms), (Some(agent), Some(interval_ms)));
    }
}

#[tokio::test]
async fn a_command_that_is_refused_declares_nothing() {
    let (log, dir) = (log(), tempfile::tempdir().unwrap());
    collect(&log, dir.path(), &["--scope", "host"], Some(Watched::Complete)).await;
    let refused = refused(&log, dir.path(), &["--scope", "path"]).await;
    assert!(refused.code() == 64 && declared(&log, DOCUMENTS).await.is_empty(), "{refused}");
}

#[tokio::test]
async fn results_of_an_interrupted_collector_outlast_one_that_ends_in_another_directory() {
    let (log, one, other) = (log(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    collect(&log, one.path(), &["--crawl", "one"], None).await;
    append(&log, "one", 0..3).await;
    append(&log, "other", 0..2).await;
    collect(&log, other.path(), &["--crawl", "other"], Some(Watched::Complete)).await;
    assert_eq!(documents(other.path()), 2);
    sweep(&log).await;
    collect(&log, one.path(), &["--crawl", "one"], Some(Watched::Complete)).await;
    assert_eq!(documents(one.path()), 3);
}

#[tokio::test]
async fn a_directory_that_was_moved_keeps_its_group_and_a_copy_has_one_of_its_own() {
    let (log, dir) = (log(), tempfile::tempdir().unwrap());
    let [first, moved, copied] = ["first", "moved", "copied"].map(|name| dir.path().join(name));
    let group = collect(&log, &first, &[], None).await;
    assert_eq!(collect(&log, &first, &[], None).await, group);
    fs::rename(&first, &moved).unwrap();
    assert_eq!(collect(&log, &moved, &[], None).await, group);
    copy(&moved, &copied);
    append(&log, "default", 0..3).await;
    assert_ne!(collect(&log, &copied, &[], Some(Watched::Complete)).await, group);
    sweep(&log).await;
    collect(&log, &moved, &[], Some(Watched::Complete)).await;
    assert_eq!((documents(&moved), documents(&copied)), (3, 3));
}

#[tokio::test]
async fn a_directory_without_an_identity_goes_on_at_its_checkpoint_in_a_new_group() {
    let (log, dir) = (log(), tempfile::tempdir().unwrap());
    append(&log, "default", 0..3).await;
    let group = collect(&log, dir.path(), &[], None).await;
    fs::remove_file(dir.path().join("state").join(FILE)).unwrap();
    append(&log, "default", 3..5).await;
    assert_ne!(collect(&log, dir.path(), &[], None).await, group);
    assert_eq!(documents(dir.path()), 5);
}

#[tokio::test]
async fn a_collector_at_an_unchanged_cap_lacks_nothing_and_one_whose_cap_was_raised_elsewhere_says_what_it_lacks() {
    let (log, dir) = (log(), tempfile::tempdir().unwrap());
    append(&log, "default", 0..3).await;
    collect(&log, dir.path(), &["--max-pages", "3"], Some(Watched::AtCap)).await;
    // While nothing is declared, results of another crawl come and are deleted.
    append(&log, "other", 0..4).await;
    sweep(&log).await;
    let collecting = crawl(&log, dir.path(), &["--max-pages", "5"]).await.unwrap();
    append(&log, "default", 3..5).await;
    collecting.end(&log, Some(&Watched::AtCap)).await.unwrap();
    assert_eq!(documents(dir.path()), 5);

    let raised = Revision { max_pages: Some(Some(9)), ..Revision::default() };
    definition::revise(&log, &"default".parse().unwrap(), |_| raised, None, 0).await.unwrap();
    append(&log, "default", 5..9).await;
    sweep(&log).await;
    let refused = refused(&log, dir.path(), &["--max-pages", "none"]).await;
    assert!(refused.code() == 74 && refused.to_string().contains("from 9 to 13"), "{refused}");
    assert_eq!(declared(&log, DOCUMENTS).await, [""; 0]);
}

#[tokio::test]
async fn a_cap_that_was_raised_while_the_collector_ended_is_no_proof_that_it_lacks_nothing() {
    let (log, dir) = (log(), tempfile::tempdir().unwrap());
    let collecting = crawl(&log, dir.path(), &["--max-pages", "3"]).await.unwrap();
    let raised = Revision { max_pages: Some(Some(9)), ..Revision::default() };
    definition::revise(&log, &"default".parse().unwrap(), |_| raised, None, 0).await.unwrap();
    collecting.end(&log, Some(&Watched::AtCap)).await.unwrap();
    append(&log, "default", 0..4).await;
    sweep(&log).await;
    assert_eq!(refused(&log, dir.path(), &[]).await.code(), 74);
}

#[tokio::test]
async fn a_directory_that_is_not_this_crawls_stays_as_it_is() {
    let (log, dir) = (log(), tempfile::tempdir().unwrap());
    let [own, foreign, alone] = ["own", "foreign", "alone"].map(|name| dir.path().join(name));
    collect(&log, &own, &["--crawl", "one"], Some(Watched::Complete)).await;
    let other = refused(&log, &own, &["--crawl", "other"]).await;
    assert!(other.code() == 64 && other.to_string().contains("`one`"), "{other}");
    let running = crawl(&log, &own, &["--crawl", "one"]).await.unwrap();
    assert_eq!(refused(&log, &own, &["--crawl", "one"]).await.code(), 73);
    running.end(&log, Some(&Watched::Complete)).await.unwrap();

    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("documents.jsonl"), "mine\n").unwrap();
    assert_eq!(refused(&log, &foreign, &[]).await.code(), 73);
    assert_eq!(fs::read_to_string(foreign.join("documents.jsonl")).unwrap(), "mine\n");
    fs::create_dir_all(alone.join("state")).unwrap();
    fs::write(alone.join("state/crawl.json"), "{}").unwrap();
    fs::write(alone.join("state/export.json"), "{}").unwrap();
    assert_eq!(refused(&log, &alone, &[]).await.code(), 73);
    assert_eq!(declared(&log, DOCUMENTS).await, [""; 0]);
}

#[test]
fn a_group_is_named_by_crawl_and_number_whatever_the_crawl_is_called() {
    let home = || Home { path: "/out/state".to_owned(), device: 1, inode: 2 };
    let named = |crawl: &str, id| identity(None, home(), &crawl.parse().unwrap(), id).unwrap().group;
    assert_eq!(named("docs", 0xabc), "exporter-docs-000000000abc");
    assert_eq!(named("a b/ä", u64::MAX), "exporter-a-b---ffffffffffff");
    assert_eq!(named(&"x".repeat(200), 0).len(), "exporter--000000000000".len() + MAX_NAME);
    let stored = identity(None, home(), &"docs".parse().unwrap(), 1).unwrap();
    // A device number may change with a restart, and a move keeps the inode.
    for same in [Home { device: 7, ..home() }, Home { path: "/moved/state".to_owned(), ..home() }] {
        let found = identity(Some(stored.clone()), same.clone(), &"docs".parse().unwrap(), 3).unwrap();
        assert_eq!((found.group, found.home), (stored.group.clone(), same));
    }
    let copied = Home { path: "/copy/state".to_owned(), inode: 3, ..home() };
    assert_ne!(
        identity(Some(stored), copied, &"docs".parse().unwrap(), 3).unwrap().group,
        "exporter-docs-000000000001"
    );
}
