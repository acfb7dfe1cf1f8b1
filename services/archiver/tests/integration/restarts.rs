//! Crashes between two steps, with real files and a real log.

use crate::fixture::{Bench, PARTITIONS, Stop, page, record, until};
use crate::warc::files_below;

/// Appends pages of two crawls to both partitions; returns the crawls and URLs in order.
async fn append(bench: &Bench, numbers: std::ops::Range<u32>) -> Vec<(String, String)> {
    let mut expected = vec![];
    let mut records = vec![];
    for number in numbers {
        for (partition, crawl) in (0..PARTITIONS).flat_map(|partition| ["docs", "news"].map(|crawl| (partition, crawl)))
        {
            let url = format!("http://a.test/{crawl}/{partition}/{number}");
            records.push(record(partition, &page(crawl, &url), "<p>Text"));
            expected.push((crawl.to_owned(), url));
        }
    }
    bench.append(records).await;
    expected.sort_unstable();
    expected
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_of_two_crawls_in_two_partitions_are_archived_once_although_the_process_crashes_meanwhile() {
    let bench = Bench::new();
    let mut expected = append(&bench, 0..20).await;
    let running = bench.start(Stop::Never);
    until("all files are open", async || files_below(&bench.root()).len() == 8).await;
    running.crash().await;
    assert!(files_below(&bench.root()).iter().all(|file| file.ends_with(".open")));

    let running = bench.start(Stop::Never);
    bench.caught_up(&running).await;
    expected.extend(append(&bench, 20..40).await);
    expected.sort_unstable();
    bench.caught_up(&running).await;
    running.crash().await;
    assert_eq!(bench.archived().await, expected);

    let running = bench.start(Stop::Never);
    bench.caught_up(&running).await;
    running.shut_down().await;
    assert_eq!(bench.archived().await, expected);
    let entries = bench.entries().await;
    assert_eq!(entries.iter().map(|entry| entry.responses).sum::<u64>(), 160);
    for entry in entries {
        let size = std::fs::metadata(bench.root().join(&entry.file)).unwrap().len();
        assert_eq!(entry.bytes, size, "{}", entry.file);
    }
}

/// Stops the archiver at a step, and starts it again.
async fn crash_at(stop: Stop) -> (Bench, Vec<String>) {
    let bench = Bench::new();
    let expected = append(&bench, 0..5).await;
    let running = bench.start(stop);
    running.stopped().await;
    running.crash().await;
    let before = files_below(&bench.root());
    let running = bench.start(Stop::Never);
    bench.caught_up(&running).await;
    until("no file is unfinished", async || !files_below(&bench.root()).iter().any(|file| file.ends_with(".open")))
        .await;
    running.shut_down().await;
    assert_eq!(bench.archived().await, expected);
    (bench, before)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_durable_file_without_an_entry_is_deleted_after_a_crash_and_its_responses_are_archived_again() {
    let (bench, before) = crash_at(Stop::BeforeEntry).await;
    let after = files_below(&bench.root());
    assert!(!before.is_empty());
    assert!(before.iter().all(|file| !after.contains(&file.replace(".open", ""))), "{before:?} {after:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_with_an_entry_gets_its_final_name_after_a_crash_and_its_responses_are_not_archived_again() {
    let (bench, before) = crash_at(Stop::BeforeRename).await;
    let after = files_below(&bench.root());
    let kept = before.iter().filter(|file| after.contains(&file.replace(".open", ""))).count();
    assert!(kept > 0, "{before:?} {after:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orderly_shutdown_closes_all_files() {
    let bench = Bench::new();
    let expected = append(&bench, 0..5).await;
    let running = bench.start(Stop::Never);
    until("all files are open", async || files_below(&bench.root()).len() == 8).await;
    running.shut_down().await;
    let archived = bench.archived().await;
    // A record that waits for a write at that time is left to the next start.
    assert!(!archived.is_empty() && archived.iter().all(|url| expected.contains(url)));
    let running = bench.start(Stop::Never);
    bench.caught_up(&running).await;
    running.shut_down().await;
    assert_eq!(bench.archived().await, expected);
}
