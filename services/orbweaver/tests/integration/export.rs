//! Tests of the result files, with an in-memory log.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bytes::Bytes;
use orbweaver::export::{self, CheckpointWorker, ExportError, ExportStage, ExportView, Source, caught_up};
use orbweaver_log::{Cleanup, Log, MemoryLog, Record, TopicPartition, TopicSpec};
use orbweaver_messages::{
    Dispatch, DispatchId, FrontierUrl, Outcome, OutcomeKind, UrlContext, encode,
    topic::{CHANGES, DEAD_LETTERS, DOCUMENTS, OUTCOMES},
};
use orbweaver_stage::{NoEffects, Runner, RunnerConfig, StageError};
use orbweaver_url::{CrawlName, Fingerprint};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Returns a new directory for the result files.
#[allow(clippy::unwrap_used, reason = "a test")]
fn output() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("state")).unwrap();
    dir
}

fn log() -> MemoryLog {
    MemoryLog::new(&[DOCUMENTS, OUTCOMES, CHANGES, DEAD_LETTERS].map(|topic| TopicSpec::new(topic, 2, Cleanup::Delete)))
}

fn outcome(page: u32, kind: OutcomeKind) -> Record {
    let url = format!("http://a.example/{page}");
    let context = UrlContext::of_seed(CrawlName::default(), url, "a.example".into());
    let id = DispatchId { epoch: 0, sequence: page.into() };
    let dispatch = Dispatch::of(&FrontierUrl::admitted(context, 0), id, false, 0);
    let outcome = Outcome { status: Some(200), bytes: 10, ..Outcome::of(&dispatch, kind, None, 1_700_000_000_000) };
    record(OUTCOMES, page, encode(&outcome))
}

fn document(page: u32) -> Record {
    let fingerprint = Fingerprint::of(&CrawlName::default(), &format!("http://a.example/{page}"));
    record(DOCUMENTS, page, Bytes::from(format!("{{\"fingerprint\":\"{fingerprint}\",\"page\":{page}}}")))
}

fn record(topic: orbweaver_messages::Topic, page: u32, value: Bytes) -> Record {
    let tp = TopicPartition::new(topic, page % 2);
    Record { tp, key: None, value: Some(value), headers: vec![], timestamp_ms: 0 }
}

#[allow(clippy::unwrap_used, reason = "a test")]
fn lines(out: &TempDir, name: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(out.path().join(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Opens the files, as a start does.
async fn open(log: &MemoryLog, out: &TempDir) -> Result<(ExportStage, Arc<ExportView>), ExportError> {
    let view = Arc::new(ExportView::default());
    Ok((ExportStage::open(log, out.path(), Arc::clone(&view), Source::default()).await?, view))
}

/// Runs the exporter until the files contain all that the log holds, and stops it.
async fn run(log: &MemoryLog, stage: ExportStage) -> Result<(), StageError> {
    let shutdown = CancellationToken::new();
    let runner = Runner::new(stage, Arc::new(log.clone()), CheckpointWorker, NoEffects, RunnerConfig::default());
    let mut running = tokio::spawn(runner.run(shutdown.clone()));
    tokio::select! {
        ended = &mut running => return ended.unwrap(),
        caught_up = caught_up(log, export::GROUP, Duration::from_secs(60)) => assert!(caught_up.unwrap()),
    }
    shutdown.cancel();
    running.await.unwrap()
}

async fn export_all(log: &MemoryLog, out: &TempDir) -> Arc<ExportView> {
    let (stage, view) = open(log, out).await.unwrap();
    run(log, stage).await.unwrap();
    view
}

#[tokio::test]
async fn each_line_is_written_once_although_work_is_repeated_and_the_process_is_killed() {
    let out = &output();
    let log = log();
    for round in 0..4u32 {
        // Each round repeats the work of all earlier ones, as after crashes, and adds ten pages.
        let pages = 0..(round + 1) * 10;
        log.append(pages.flat_map(|page| [document(page), outcome(page, OutcomeKind::Fetched)]).collect())
            .await
            .unwrap();
        let view = export_all(&log, out).await;
        assert_eq!(view.tally().fetched, u64::from(round + 1) * 10);
        // A kill leaves broken content after the checkpoint.
        for name in ["documents.jsonl", "urls.jsonl"] {
            let mut text = std::fs::read(out.path().join(name)).unwrap();
            text.extend_from_slice(b"{\"half\":");
            std::fs::write(out.path().join(name), text).unwrap();
        }
    }
    open(&log, out).await.unwrap();
    let urls = lines(out, "urls.jsonl");
    assert_eq!(urls.len(), 40);
    assert_eq!(urls.iter().map(|line| line["url"].as_str().unwrap()).collect::<BTreeSet<_>>().len(), 40);
    let documents: Vec<u64> = lines(out, "documents.jsonl").iter().map(|line| line["page"].as_u64().unwrap()).collect();
    assert_eq!(documents.iter().collect::<BTreeSet<_>>().len(), documents.len());
    assert_eq!(documents.len(), 40);
}

#[tokio::test]
async fn a_line_that_was_cut_is_written_again_even_when_others_took_its_place() {
    let out = &output();
    let log = log();
    log.append((0..5).map(document).collect()).await.unwrap();
    let (stage, _) = open(&log, out).await.unwrap();
    let before = std::fs::read(out.path().join("state/export.json")).unwrap();
    run(&log, stage).await.unwrap();
    // As if the process had been killed before the checkpoint, while the index already had its entries.
    std::fs::write(out.path().join("state/export.json"), before).unwrap();
    log.append((5..20).map(document).collect()).await.unwrap();
    export_all(&log, out).await;
    assert_eq!(lines(out, "documents.jsonl").len(), 20);
}

#[tokio::test]
async fn only_terminal_outcomes_have_a_line_and_all_are_counted() {
    let out = &output();
    let log = log();
    let kinds =
        [OutcomeKind::Retry, OutcomeKind::Blocked, OutcomeKind::Deferred, OutcomeKind::Gone, OutcomeKind::Redirected];
    log.append(kinds.into_iter().zip(0..).map(|(kind, page)| outcome(page, kind)).collect()).await.unwrap();
    let view = export_all(&log, out).await;
    assert_eq!(lines(out, "urls.jsonl").len(), 2);
    let tally = view.tally();
    assert_eq!((tally.redirected, tally.gone.values().sum::<u64>(), tally.fetched + tally.unchanged), (1, 1, 0));
    assert_eq!((tally.refused.len(), tally.blocked, tally.retries.values().sum::<u64>()), (0, 1, 1));
}

#[tokio::test]
async fn a_record_with_a_newer_version_of_its_schema_stops_the_export_and_is_not_skipped() {
    let out = &output();
    let log = log();
    let version = |version: &'static str| vec![("schema", "outcome".into()), ("schema-version", version.into())];
    let known = Record { headers: version("2"), ..outcome(0, OutcomeKind::Gone) };
    let newer = Record { headers: version("3"), ..outcome(2, OutcomeKind::Gone) };
    log.append(vec![known, newer]).await.unwrap();
    let (stage, _) = open(&log, out).await.unwrap();
    let error = run(&log, stage).await.unwrap_err().to_string();
    assert!(error.starts_with("crawl.outcomes/0@1: schema `outcome` has version \"3\""), "{error}");
    assert!(error.ends_with("upgrade this program"), "{error}");
}

#[tokio::test]
async fn a_log_that_went_back_in_a_power_cut_is_read_on_from_its_end() {
    let out = &output();
    let before = log();
    before.append((0..10).map(document).collect()).await.unwrap();
    export_all(&before, out).await;
    // The same crawl without its last records; they are made again, and new ones after them.
    let after = log();
    after.append((0..6).map(document).collect()).await.unwrap();
    let (stage, _) = open(&after, out).await.unwrap();
    after.append((6..20).map(document).collect()).await.unwrap();
    run(&after, stage).await.unwrap();
    assert_eq!(lines(out, "documents.jsonl").len(), 20);
}

#[tokio::test]
async fn records_that_are_deleted_before_the_first_is_read_are_no_error_and_later_ones_are() {
    let out = &output();
    let (log, tp) = (log(), TopicPartition::new(DOCUMENTS, 0));
    log.append((0..10).map(document).collect()).await.unwrap();
    let (stage, _) = open(&log, out).await.unwrap();
    log.delete_below(tp, 2).await.unwrap();
    run(&log, stage).await.unwrap();
    assert_eq!(lines(out, "documents.jsonl").len(), 8);

    log.append((10..20).map(document).collect()).await.unwrap();
    log.delete_below(tp, 7).await.unwrap();
    let refused = open(&log, out).await.err().unwrap().to_string();
    assert!(refused.contains("crawl.documents/0") && refused.contains("from 5 to 7"), "{refused}");
}

#[tokio::test]
async fn a_record_that_is_not_valid_ends_in_the_dead_letters_once_a_checkpoint_contains_its_neighbours() {
    let out = &output();
    let log = log();
    log.append(vec![document(0), record(DOCUMENTS, 2, Bytes::from_static(b"{}")), document(4)]).await.unwrap();
    export_all(&log, out).await;
    assert_eq!(lines(out, "documents.jsonl").len(), 2);
    let letters: Vec<_> =
        (0..2).flat_map(|partition| log.records(TopicPartition::new(DEAD_LETTERS, partition))).collect();
    assert_eq!(letters.len(), 1);
}

#[tokio::test]
async fn delivery_begins_at_the_checkpoint_also_if_a_crash_prevented_its_commit() {
    let out = &output();
    // The same records in a log without commits.
    let (before, after) = (log(), log());
    for log in [&before, &after] {
        log.append((0..9).map(|page| outcome(page, OutcomeKind::Retry)).collect()).await.unwrap();
    }
    export_all(&before, out).await;
    let view = export_all(&after, out).await;
    assert_eq!(view.tally().retries.values().sum::<u64>(), 9, "no record is counted twice");
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_results_ends_at_its_limit() {
    let log = log();
    log.append(vec![document(0)]).await.unwrap();
    assert!(!caught_up(&log, export::GROUP, Duration::from_secs(10)).await.unwrap());
}
