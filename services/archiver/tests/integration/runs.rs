//! Contents of files, records without a capture, damaged records, and failures of the disk.

use bytes::Bytes;
use orbweaver_archiver::PAGE_HEADER;
use orbweaver_log::Record;
use orbweaver_messages::{BodyEncoding, Capture, Page, Protocol, Truncated, topic};
use orbweaver_store::Store as _;

use crate::fixture::{Bench, Stop, page, record, until};
use crate::warc::{WarcRecord, files_below, records_of};

/// Archives records of one crawl, and returns those of its only file.
async fn archive(records: Vec<Record>) -> Vec<WarcRecord> {
    let bench = Bench::new();
    bench.append(records).await;
    let running = bench.start(Stop::Never);
    bench.caught_up(&running).await;
    running.shut_down().await;
    let files = files_below(&bench.root());
    assert_eq!(files.len(), 2, "{files:?}");
    records_of(&std::fs::read(bench.root().join(&files[1])).unwrap())
}

fn with_capture(page: Page, change: impl FnOnce(&mut Capture)) -> Page {
    let mut page = page;
    change(page.capture.as_mut().unwrap());
    page
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_has_its_request_its_metadata_and_the_description_of_its_file() {
    let mut full = with_capture(page("docs #1", "http://a.test/é"), |capture| capture.protocol = Protocol::Http2);
    (full.context.via, full.context.depth) = (Some("http://a.test/".to_owned()), 2);
    (full.content_encoding, full.encoded_bytes) = (Some("br".to_owned()), Some(7000));
    let full = with_capture(full, |capture| {
        (capture.lookup_ms, capture.connect_ms, capture.content_length) = (Some(3), Some(20), Some(7001));
    });
    let mut full = full;
    full.truncated = Truncated { body: true, ..Truncated::default() };
    let records = archive(vec![record(1, &full, "<p>Text")]).await;
    let kinds: Vec<&str> = records.iter().map(|record| record.field("WARC-Type")).collect();
    assert_eq!(kinds, ["warcinfo", "response", "request", "metadata"]);
    let [info, response, request, metadata] = &records[..] else { panic!("{kinds:?}") };
    let name = info.field("WARC-Filename");
    assert!(name.starts_with("docs%20%231-2") && name.contains("-00001-000000000000-"), "{name}");
    for line in
        ["software: Orbweaver/", "format: WARC File Format 1.1\r\n", "isPartOf: docs #1\r\n", "conformsTo: https://"]
    {
        assert!(info.block.contains(line), "{}", info.block);
    }
    let fields = ["WARC-Target-URI", "WARC-Date", "WARC-IP-Address", "WARC-Protocol", "WARC-Truncated"];
    let expected = ["http://a.test/%C3%A9", "2023-11-14T22:13:20.000Z", "192.0.2.7", "h2c", "length"];
    assert_eq!(fields.map(|name| response.field(name)), expected);
    assert!(response.block.starts_with("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n"), "{}", response.block);
    for line in ["X-Archive-Orig-content-encoding: br\r\n", "X-Archive-Orig-content-length: 7001\r\n"] {
        assert!(response.block.contains(line), "{}", response.block);
    }
    assert!(response.block.ends_with("\r\n\r\n<p>Text"));
    assert!(request.block.starts_with("GET /%C3%A9 HTTP/1.1\r\n"), "{}", request.block);
    assert!(request.block.contains("user-agent: orbweaver\r\n"));
    assert_eq!(
        metadata.block,
        "via: http://a.test/\r\nfetchTimeMs: 250\r\ndnsMs: 3\r\nconnectMs: 20\r\nfirstByteMs: 100\r\ndepth: 2\r\n"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unchanged_page_is_a_revisit() {
    let unchanged = |url: &str| with_capture(page("docs", url), |capture| capture.unchanged = true);
    let not_modified = Page { status: 304, body_bytes: 0, ..unchanged("http://a.test/1") };
    let records = vec![record(0, &not_modified, ""), record(0, &unchanged("http://a.test/2"), "<p>Known")];
    let (bench, records) = (Bench::new(), records);
    bench.append(records).await;
    let running = bench.start(Stop::Never);
    bench.caught_up(&running).await;
    running.shut_down().await;
    assert_eq!(bench.archived().await, [], "the index has them");
    let files = bench.files().await;
    let records = records_of(&files[1].1);
    assert!(files[0].1.starts_with(b"test,a)/1 20231114221320 {\"url\": \"http://a.test/1\", \"mime\": \"warc/revisit\", \"status\": \"304\", \"length\": "));
    let revisits = records.iter().filter(|record| record.field("WARC-Type") == "revisit");
    let profiles: Vec<&str> =
        revisits.map(|revisit| revisit.field("WARC-Profile").rsplit('/').next().unwrap()).collect();
    assert_eq!(profiles, ["server-not-modified", "identical-payload-digest"]);
    assert!(records.iter().all(|record| !record.block.contains("Known")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crawl_without_captures_leaves_no_directory_and_its_records_complete() {
    let bench = Bench::new();
    let without = Page { capture: None, ..page("plain", "http://a.test/\"capture\"") };
    bench.append((0..100).map(|number| record(number % 2, &without, "<p>Text")).collect()).await;
    let running = bench.start(Stop::Never);
    bench.caught_up(&running).await;
    running.shut_down().await;
    assert_eq!(std::fs::read_dir(bench.root()).unwrap().count(), 0);
    assert!(bench.entries().await.is_empty() && bench.records(topic::DEAD_LETTERS).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_record_goes_to_the_dead_letters_and_not_into_the_file() {
    let good = |number: u32| record(0, &page("docs", &format!("http://a.test/{number}")), "<p>Text");
    let damaged = [
        Record { headers: vec![], ..good(10) },
        Record { headers: vec![(PAGE_HEADER, Bytes::from_static(b"{\"capture\":{}}"))], ..good(11) },
        Record { headers: vec![(PAGE_HEADER, incomplete())], ..good(12) },
        Record { value: Some(Bytes::from_static(b"no frame")), ..good(13) },
        Record { value: None, ..good(14) },
        record(
            0,
            &Page { body_bytes: 3, encoding: BodyEncoding::Identity, ..page("docs", "http://a.test/15") },
            "long",
        ),
        Record { value: Some(Bytes::from_static(b"no frame")), ..record(1, &page("bad", "http://a.test/16"), "") },
        record(1, &page("bad", ""), "<p>Text"),
    ];
    let number = damaged.len();
    let bench = Bench::new();
    bench.append([good(1)].into_iter().chain(damaged).chain([good(2)]).collect()).await;
    let running = bench.start(Stop::Never);
    bench.caught_up(&running).await;
    running.shut_down().await;
    let urls = [1, 2].map(|number| ("docs".to_owned(), format!("http://a.test/{number}")));
    assert_eq!(bench.archived().await, urls);
    assert_eq!(bench.records(topic::DEAD_LETTERS).await.len(), number);
    let entry = &bench.entries().await[0];
    assert_eq!((entry.first, entry.last, entry.responses), (0, 7, 2));
}

/// Returns the header of a page that names its crawl, and lacks other fields.
fn incomplete() -> Bytes {
    Bytes::from_static(br#"{"context":{"crawl":"docs"},"capture":{}}"#)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_cannot_be_written_ends_the_stage_with_its_path_and_completes_nothing() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.root()).unwrap();
    std::fs::write(bench.root().join("docs"), "in the way").unwrap();
    bench.append(vec![record(0, &page("docs", "http://a.test/1"), "<p>Text")]).await;
    let error = bench.start(Stop::Never).error().await;
    assert!(error.contains("some/archive/docs: cannot create the directory: "), "{error}");
    std::fs::remove_file(bench.root().join("docs")).unwrap();
    let running = bench.start(Stop::Never);
    bench.caught_up(&running).await;
    running.shut_down().await;
    assert_eq!(bench.archived().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unfinished_file_of_a_repeated_epoch_is_deleted_when_the_partition_opens_once_more() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.root().join("docs")).unwrap();
    let path = bench.root().join("docs/docs-20260101000000000-00000-000000000000-0.warc.gz.open");
    std::fs::write(&path, vec![7; 100_000]).unwrap();
    bench.append(vec![record(0, &page("docs", "http://a.test/1"), "<p>Text")]).await;
    let running = bench.start(Stop::Never);
    bench.caught_up(&running).await;
    running.shut_down().await;
    let running = bench.start(Stop::Never);
    until("the old file is deleted", async || !path.exists()).await;
    running.shut_down().await;
    assert_eq!(bench.archived().await, [("docs".to_owned(), "http://a.test/1".to_owned())]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_leads_from_a_content_to_its_record_and_from_a_revisit_to_none() {
    let bench = Bench::new();
    let body = "<p>Text";
    let of = |url: &str, at_ms, hash: &str| Page {
        fetched_at_ms: at_ms,
        body_bytes: body.len() as u64,
        content_hash: hash.repeat(32),
        ..page("docs", url)
    };
    let unchanged = with_capture(of("http://a.test/1", 2000, "1"), |capture| capture.unchanged = true);
    let pages = [of("http://a.test/1", 1000, "1"), of("http://a.test/2", 1500, "2"), unchanged];
    bench.append(pages.iter().map(|page| record(0, page, body)).collect()).await;
    let running = bench.start(Stop::Never);
    bench.caught_up(&running).await;
    running.shut_down().await;
    let found = bench.store.content(&"1".repeat(32)).await.unwrap().unwrap();
    assert_eq!((found.fingerprint, found.at_ms), (pages[0].context.fingerprint, 1000));
    let rows = bench.store.captures(found.fingerprint, 10).await.unwrap();
    assert_eq!(rows.iter().map(|row| (row.at_ms, row.is_revisit)).collect::<Vec<_>>(), [(2000, true), (1000, false)]);
    let content = std::fs::read(bench.root().join(&rows[1].file)).unwrap();
    let records = records_of(&content[rows[1].offset as usize..][..rows[1].length as usize]);
    assert!(records.len() == 1 && records[0].block.ends_with(body), "{records:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_closed_only_when_the_store_has_its_locations() {
    let bench = Bench::new();
    bench.store.fail_next(20);
    bench.append(vec![record(0, &page("docs", "http://a.test/"), "<p>Text")]).await;
    let running = bench.start(Stop::Never);
    until("the store was tried three times", async || {
        running.close_files();
        bench.store.attempts() > 2
    })
    .await;
    assert!(bench.entries().await.is_empty());
    running.crash().await;
    let failed = bench.store.attempts();
    assert!(failed <= 20 && bench.entries().await.is_empty(), "{failed} writes failed until then");
}
