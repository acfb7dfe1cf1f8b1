//! Archives in a store: crashes at each request and between two steps.

use std::sync::atomic::Ordering;

use orbweaver_bucket::faulty::Fault;
use orbweaver_log::Record;

use crate::fixture::{Bench, PART_BYTES, PARTITIONS, Stop, page, record, until};
use crate::warc::files_below;

/// Appends pages of both partitions, one of which has a file of several parts; returns the crawl and URL of each in order.
async fn append(bench: &Bench) -> Vec<(String, String)> {
    let (mut expected, mut records): (_, Vec<Record>) = (vec![], vec![]);
    for (partition, number) in (0..PARTITIONS).flat_map(|partition| (0..8 - 7 * partition).map(move |n| (partition, n)))
    {
        let url = format!("http://a.test/{partition}/{number}");
        records.push(record(partition, &page("docs", &url), "<p>Text"));
        expected.push(("docs".to_owned(), url));
    }
    bench.append(records).await;
    expected.sort_unstable();
    expected
}

/// Waits until everything is archived, and stops.
async fn finish(bench: &Bench) {
    let running = bench.start(Stop::Never);
    bench.caught_up(&running).await;
    until("no file is unfinished", async || files_below(&bench.root()).is_empty()).await;
    running.shut_down().await;
}

/// Returns the number of parts of incomplete uploads.
fn incomplete_parts(bench: &Bench) -> usize {
    let uploads = bench.objects.as_ref().unwrap().uploads.lock().unwrap();
    uploads.values().sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_in_the_store_with_their_entries_and_no_longer_in_the_directory() {
    let bench = Bench::with_store();
    let expected = append(&bench).await;
    finish(&bench).await;
    assert_eq!(bench.archived().await, expected);
    let files = bench.files().await;
    let large: Vec<&str> =
        files.iter().filter(|(_, content)| content.len() >= PART_BYTES).map(|(file, _)| file.as_str()).collect();
    let begun = bench.objects.as_ref().unwrap().begun.load(Ordering::SeqCst);
    assert_eq!((files.len(), begun), (4, large.len()));
    for extension in [".cdxj", ".warc.gz"] {
        assert!(large.iter().any(|file| file.ends_with(extension)), "none of several parts: {extension}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_crashes_between_two_steps_each_response_is_in_one_object_with_an_entry() {
    for stop in [Stop::BeforeUpload, Stop::BeforeEntry, Stop::BeforeRename] {
        let bench = Bench::with_store();
        let expected = append(&bench).await;
        let running = bench.start(stop);
        running.stopped().await;
        running.crash().await;
        let suffix = if stop == Stop::BeforeUpload { ".open" } else { ".upload" };
        let before = files_below(&bench.root());
        assert!(before.iter().any(|file| file.ends_with(suffix)), "{stop:?}: {before:?}");
        finish(&bench).await;
        assert_eq!(bench.archived().await, expected, "{stop:?}");
        assert_eq!(incomplete_parts(&bench), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archiver_whose_store_fails_at_any_request_continues_without_a_loss() {
    // At least two objects of one part, one of two and one of six parts: fourteen requests, each of which has a step before
    // and after its effect.
    for step in 0..28 {
        let bench = Bench::with_store();
        let expected = append(&bench).await;
        let running = bench.start_with(Stop::Never, Fault::KilledAt(step));
        let error = running.error_of_closing().await;
        let names_object = error.contains("s3://results/some/archive/docs/docs-")
            && [".warc.gz: cannot ", ".cdxj: cannot "].iter().any(|object| error.contains(object));
        assert!(names_object && error.contains("start again"), "{error}");
        finish(&bench).await;
        assert_eq!(bench.archived().await, expected, "step {step}");
        assert_eq!(incomplete_parts(&bench), 0, "step {step}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_request_whose_first_response_was_lost_is_no_error() {
    let bench = Bench::with_store();
    bench.append(vec![record(0, &page("docs", "http://a.test/"), "<p>Text")]).await;
    let running = bench.start_with(Stop::Never, Fault::Repeated);
    bench.caught_up(&running).await;
    running.shut_down().await;
    assert_eq!(bench.archived().await.len(), 1);
}
