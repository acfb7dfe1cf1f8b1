//! State after a power cut of a crawl that was marked as seeded; the exit code after a failed flush.

use std::{fs, os::unix::fs::symlink, path::Path, time::Duration};

use orbweaver_log::Options;
use orbweaver_messages::topic::SEEDS;

use super::*;
use crate::{cli::crawl_args, crawl::pipeline::specs, durable::tests::copy};

/// Changes the checkpoints of a log as if they had been written before the system restarted, so that the log is cut to
/// its durable part.
fn cut_power(log: &Path) {
    for slot in ["checkpoint.0", "checkpoint.1"] {
        let path = log.join(slot);
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let (body, _) = text.split_once("\ncrc ").unwrap();
        let line = body.lines().find(|line| line.starts_with("boot ")).unwrap();
        let body = body.replace(line, "boot 00000000-0000-0000-0000-000000000000");
        fs::write(&path, format!("{body}\ncrc {:08x}\n", crc32fast::hash(body.as_bytes()))).unwrap();
    }
}

/// Opens a log that writes checkpoints only on request.
fn open(dir: &Path) -> EmbeddedLog {
    let hour = Duration::from_secs(3600);
    let options = Options { sync_every: hour, ..Options::default() };
    EmbeddedLog::open(dir, options, &specs()).unwrap()
}

async fn seeds_in(log: &EmbeddedLog) -> u64 {
    let bounds = log.all_bounds(&topic_partitions(log, &[SEEDS]).unwrap()).await.unwrap();
    bounds.iter().map(|bounds| bounds.end).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_power_cut_a_crawl_that_is_marked_as_seeded_has_its_seeds() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("crawl");
    let args = crawl_args(&["example.org", "example.com", "--out", out.to_str().unwrap()]);
    let mut prepared = prepare(&args).unwrap();
    let log = open(&prepared.state.join("log"));
    seed(&args, &mut prepared, &log).await.unwrap();

    let cut = dir.path().join("cut");
    copy(&prepared.state, &cut);
    cut_power(&cut.join("log"));
    assert!(Settings::read(&cut).unwrap().unwrap().seeded);
    assert_eq!(seeds_in(&open(&cut.join("log"))).await, 2);
}

/// Replaces the checkpoints of a log by files that can be written and not synced.
fn break_checkpoints(log: &Path) {
    for slot in ["checkpoint.0", "checkpoint.1"] {
        let link = log.join("link");
        symlink("/dev/null", &link).unwrap();
        fs::rename(&link, log.join(slot)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crawl_whose_last_flush_fails_ends_with_the_error_and_its_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("crawl");
    let prepared = prepare(&crawl_args(&["example.org", "--out", out.to_str().unwrap()])).unwrap();
    let state = prepared.state.clone();
    let pipeline = Pipeline::open(&prepared).await.unwrap();
    break_checkpoints(&state.join("log"));
    // Changes the log. It fails, too, if the flush of the opening was slow and came first.
    let _ = definition::ensure(&*pipeline.log, &prepared.settings, 0).await;
    let end = pipeline.flush().map(|()| EndedBy::Complete);
    let summary = summary(&pipeline, Figures::default(), EndedBy::Failed).await.unwrap();
    drop(pipeline);
    let failure = finish(&summary, end, prepared).unwrap_err();
    assert_eq!(failure.code(), 74, "{failure}");
    assert!(failure.to_string().contains("checkpoint."), "{failure}");
    assert!(!Settings::read(&state).unwrap().unwrap().complete, "the crawl can be resumed");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_summary_has_the_figures_of_the_frontier_from_before_its_partitions_were_closed() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("crawl");
    let prepared = prepare(&crawl_args(&["example.org", "--out", out.to_str().unwrap()])).unwrap();
    let pipeline = Pipeline::open(&prepared).await.unwrap();
    assert_eq!(pipeline.frontier.figures().asleep, 0, "none is open");
    let before = Figures { asleep: 3, next_due_ms: Some(1_000), ..Figures::default() };
    let summary = summary(&pipeline, before, EndedBy::Asleep).await.unwrap();
    let text = summary.text(&out);
    assert!(text.contains("3 URLs will be visited again, the first at 1970-01-01T00:00:01"), "{text}");
}
