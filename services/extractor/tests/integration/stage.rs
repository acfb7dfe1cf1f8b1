//! From records to plans: the stage, its jobs and its worker.

use bytes::Bytes;
use orbweaver_extractor::job::{ExtractDone, ExtractJob, PageVerdict};
use orbweaver_extractor::pass::PagePass;
use orbweaver_extractor::{BlockingWorker, ExtractorConfig, PageInput, extract};
use orbweaver_log::{ConsumerRecord, TopicPartition};
use orbweaver_messages::{
    BodyEncoding, Discovered, DiscoveryKind, Document, Markdown, Page, PageKind, Truncated, decode, topic,
};
use orbweaver_stage::{Actions, CpuMeter, Origin, Stage, Step, Worker};
use orbweaver_store::Write;
use orbweaver_url::{partition_of, slot_of};
use tokio::sync::mpsc::unbounded_channel;

use crate::fixture::{NOW, PARTITIONS, delivered, metrics, open_stage, page, worker};

const URL: &str = "http://www.a.test/dir/page?q=1";

fn fetched(offset: u64, body: &str) -> (Origin, ConsumerRecord) {
    let frame = zstd::bulk::compress(body.as_bytes(), 3).unwrap();
    delivered(offset, Some(&page(URL, body.as_bytes(), BodyEncoding::Zstd)), Some(&frame))
}

fn first((origin, record): (Origin, ConsumerRecord)) -> (Origin, PagePass) {
    (origin, PagePass::first(record))
}

fn config() -> ExtractorConfig {
    ExtractorConfig { threads: 2, ..ExtractorConfig::default() }
}

async fn run(jobs: Vec<ExtractJob>, config: ExtractorConfig) -> Vec<ExtractDone> {
    let worker = BlockingWorker::new(config, metrics());
    let (results, mut finished) = unbounded_channel();
    jobs.into_iter().for_each(|job| worker.start(job, &results));
    drop(results);
    let mut done = Vec::new();
    while let Some(one) = finished.recv().await {
        done.push(one);
    }
    done
}

/// Passes a batch through the stage, the worker and the stage again.
async fn through(batch: Vec<(Origin, ConsumerRecord)>, config: ExtractorConfig) -> Actions<ExtractJob, Write> {
    let mut stage = open_stage(config.clone());
    let (mut received, mut finished) = (Actions::default(), Actions::default());
    let number = batch.len();
    stage.receive(batch, NOW, &mut received).unwrap();
    assert_eq!(stage.due(NOW), number);
    for done in run(received.jobs, config).await {
        stage.job_done(done, NOW, &mut finished).unwrap();
    }
    assert_eq!(stage.due(NOW), 0);
    finished
}

#[tokio::test]
async fn a_page_becomes_its_links_then_its_document_and_what_it_discovered_and_then_completes() {
    let body = "<title>A page</title><p>Text<a href=../other>one</a> <a href=https://b.test/x#y>two</a>";
    let actions = through(vec![fetched(7, body)], config()).await;
    let [plan] = actions.plans.as_slice() else { panic!("one plan, not {:?}", actions.plans) };
    let [Step::Perform(writes), Step::Produce(records)] = plan.steps.as_slice() else { panic!("{:?}", plan.steps) };

    let [Write::Links(links)] = writes.as_slice() else { panic!("{writes:?}") };
    let expected = [("http://www.a.test/other".to_owned(), false), ("https://b.test/x".to_owned(), false)];
    assert_eq!((links.links.as_slice(), links.at_ms), (&expected[..], 1_700_000_000_000));

    let document: Document = decode("document", records[0].value.as_ref()).unwrap();
    assert_eq!(records[0].tp, TopicPartition::new(topic::DOCUMENTS, 3));
    assert_eq!(records[0].key.as_deref(), Some(&b"a.test"[..]));
    assert_eq!((document.title.as_str(), document.text.as_str()), ("A page", "Textone two"));
    let named = [
        ("schema", Bytes::from("document")),
        ("schema-version", Bytes::from("1")),
        ("fingerprint", document.fingerprint.to_string().into()),
        ("crawl", Bytes::from("main")),
    ];
    assert_eq!(records[0].headers, named);
    assert_eq!(document.redirects, ["http://a.test/old"]);
    assert_eq!(document.fetched_at, "2023-11-14T22:13:20.000Z");
    assert_eq!(document.links.iter().map(|link| link.text.as_str()).collect::<Vec<_>>(), ["one", "two"]);

    let sites = ["a.test", "b.test"];
    assert_eq!(records.len(), 3);
    for (record, site) in records[1..].iter().zip(sites) {
        let found: Discovered = decode("discovered", record.value.as_ref()).unwrap();
        assert_eq!((&*found.site, found.depth, found.sighting), (site, 3, DiscoveryKind::Link));
        assert_eq!(found.priority, 4.try_into().unwrap(), "that of the page");
        assert_eq!((found.via.as_deref(), found.found_at_ms), (Some(URL), NOW));
        assert_eq!(record.key.as_deref(), Some(site.as_bytes()));
        assert_eq!(record.tp, TopicPartition::new(topic::DISCOVERED, partition_of(slot_of(site), PARTITIONS)));
    }
    assert_eq!(plan.completes.iter().map(|origin| origin.offset).collect::<Vec<_>>(), [7]);
}

#[tokio::test]
async fn a_page_that_is_not_html_has_no_document_and_the_links_of_its_earlier_content_go() {
    let page = Page { kind: PageKind::Other, ..page(URL, b"", BodyEncoding::Zstd) };
    let actions = through(vec![delivered(7, Some(&page), Some(b"<a href=/x>not read</a>"))], config()).await;
    let [plan] = actions.plans.as_slice() else { panic!("one plan, not {:?}", actions.plans) };
    let [Step::Perform(writes)] = plan.steps.as_slice() else { panic!("{:?}", plan.steps) };
    let [Write::Links(links)] = writes.as_slice() else { panic!("{writes:?}") };
    assert_eq!((links.fingerprint, links.at_ms), (page.context.fingerprint, page.event_ms()));
    assert!(links.links.is_empty() && actions.rejects.is_empty());
    assert_eq!(plan.completes.iter().map(|origin| origin.offset).collect::<Vec<_>>(), [7]);
}

#[tokio::test]
async fn a_response_for_the_archive_alone_leaves_the_links_of_the_page_as_they_are() {
    for kind in [PageKind::Response, PageKind::Robots] {
        let page = Page { kind, status: 404, ..page(URL, b"", BodyEncoding::Identity) };
        let actions = through(vec![delivered(7, Some(&page), Some(b"<a href=/x>not read</a>"))], config()).await;
        assert_eq!(actions.plans, []);
        assert_eq!(actions.completes.iter().map(|origin| origin.offset).collect::<Vec<_>>(), [7]);
    }
}

#[tokio::test]
async fn every_page_is_completed_or_rejected_exactly_once() {
    let good = page(URL, b"<p>x", BodyEncoding::Identity);
    let mut url = good.clone();
    url.context.url = "ftp://a.test/".into();
    let zstd = Page { encoding: BodyEncoding::Zstd, ..good.clone() };
    let mut malformed = delivered(2, Some(&good), Some(b"<p>x"));
    malformed.1.headers[0].1 = Bytes::from_static(b"{\"context\":1}");
    let batch = vec![
        delivered(0, Some(&good), Some(b"<p>x")),
        delivered(1, None, Some(b"<p>x")),
        malformed,
        delivered(3, Some(&zstd), Some(b"no frame")),
        delivered(4, Some(&good), None),
        delivered(5, Some(&url), Some(b"<p>x")),
        delivered(6, Some(&good), Some(b"")),
    ];
    let actions = through(batch, config()).await;
    let mut completed: Vec<_> = actions.plans.iter().flat_map(|plan| &plan.completes).map(|o| o.offset).collect();
    completed.sort_unstable();
    assert_eq!(completed, [0, 6]);
    let mut rejects: Vec<_> = actions.rejects.iter().map(|(origin, reason)| (origin.offset, reason.as_str())).collect();
    rejects.sort_unstable();
    let reasons = [
        (1, "the page record has no header `page`"),
        (2, "not a valid page message: "),
        (3, "the body is not a valid zstd frame: "),
        (4, "the page record has no body"),
        (5, "the page's url cannot be crawled: scheme `ftp` is not crawled"),
    ];
    assert_eq!(rejects.len(), reasons.len());
    for ((offset, reason), (expected, start)) in rejects.iter().zip(reasons) {
        assert_eq!(*offset, expected);
        assert!(reason.starts_with(start), "{reason}");
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_cut_and_its_document_says_so() {
    let body = "<p>1234567890123456789012345678901234567890";
    let actions = through(vec![fetched(0, body)], ExtractorConfig { max_body_bytes: 20, ..config() }).await;
    let Step::Produce(records) = &actions.plans[0].steps[1] else { panic!() };
    let document: Document = decode("document", records[0].value.as_ref()).unwrap();
    let body = Truncated { body: true, ..Truncated::default() };
    assert_eq!((document.text.as_str(), document.truncated), ("12345678901234567", body));
}

#[tokio::test]
async fn a_document_has_the_main_text_and_markdown_that_the_profile_of_its_crawl_requests() {
    let body = b"<h1>A heading</h1><p>A paragraph with <a href=/x>a link</a> and <img src=i.png alt=I>.";
    let of_services = ExtractorConfig { markdown: Markdown::Text, ..config() };
    let documents = [(None, None), (Some(true), Some(Markdown::Images)), (Some(false), Some(Markdown::None))];
    let mut found = vec![];
    for (main_text, markdown) in documents {
        let page = Page { main_text, markdown, ..page(URL, body, BodyEncoding::Identity) };
        let actions = through(vec![delivered(0, Some(&page), Some(body))], of_services.clone()).await;
        let Step::Produce(records) = &actions.plans[0].steps[1] else { panic!() };
        let document: Document = decode("document", records[0].value.as_ref()).unwrap();
        found.push((document.main_text, document.markdown));
    }
    let markdown =
        |image: &str| Some(format!("# A heading\n\nA paragraph with [a link](http://www.a.test/x) and {image}."));
    let text = Some("A heading\n\nA paragraph with a link and .".to_owned());
    assert_eq!(found, [(None, markdown("")), (text, markdown("![I](http://www.a.test/dir/i.png)")), (None, None)]);
}

#[tokio::test]
async fn a_document_has_other_links_if_the_profile_of_its_crawl_requests_them_or_else_the_services_do() {
    let body = b"<p>A paragraph with <a href=/x>a link</a> and <img src=i.png alt=I>.";
    for (of_services, of_crawl, expected) in [
        // Records of fetchers of earlier versions have no such field.
        (false, None, None),
        (true, None, Some(1)),
        (false, Some(true), Some(1)),
        (true, Some(false), None),
    ] {
        let page = Page { other_links: of_crawl, ..page(URL, body, BodyEncoding::Identity) };
        let of_services = ExtractorConfig { other_links: of_services, ..config() };
        let actions = through(vec![delivered(0, Some(&page), Some(body))], of_services).await;
        let Step::Produce(records) = &actions.plans[0].steps[1] else { panic!() };
        let document: Document = decode("document", records[0].value.as_ref()).unwrap();
        assert_eq!(document.other_links.map(|links| links.len()), expected);
        assert_eq!(document.links.len(), 1);
    }
}

#[tokio::test]
async fn a_main_text_over_the_limit_is_cut_and_its_document_says_so() {
    let limits = ExtractorConfig { max_text_bytes: 20, main_text: true, ..config() };
    let actions = through(vec![fetched(0, "<p>1234567890 äöü 1234567890")], limits).await;
    let Step::Produce(records) = &actions.plans[0].steps[1] else { panic!() };
    let document: Document = decode("document", records[0].value.as_ref()).unwrap();
    let cut = Truncated { text: true, main_text: true, ..Truncated::default() };
    assert_eq!((document.main_text.as_deref(), document.truncated), (Some("1234567890 äöü 12"), cut));
}

#[tokio::test]
async fn a_document_beyond_the_record_limit_is_cut_and_all_its_links_are_discovered_all_the_same() {
    let limit = 512 << 10;
    let links: String = (0..9000).map(|i| format!("<a href='/{i}?\\\\{}'>{i}</a>", "\u{1}".repeat(20))).collect();
    let body = format!("{links}<p>{}", "\"word\" ".repeat(100_000));
    let actions = through(vec![fetched(0, &body)], ExtractorConfig { record_limit: limit, ..config() }).await;
    let [Step::Perform(writes), Step::Produce(records)] = actions.plans[0].steps.as_slice() else { panic!() };
    let [Write::Links(stored)] = writes.as_slice() else { panic!("{writes:?}") };
    assert!(records.iter().all(|record| record.bytes() <= limit));
    let document: Document = decode("document", records[0].value.as_ref()).unwrap();
    assert_eq!(document.truncated, Truncated { links: true, text: true, ..Truncated::default() });
    assert_eq!((document.links_total, document.text_bytes), (Some(9000), Some(34_890 + 700_000)));
    assert!(records[0].bytes() > limit - 2000 && document.links.len() > 100 && document.text.len() > 100_000);
    let found =
        records[1..].iter().flat_map(|record| decode::<Discovered>("discovered", record.value.as_ref()).unwrap().urls);
    assert!(found.eq(stored.links.iter().map(|(url, _)| url.clone())) && stored.links.len() == 9000);
}

#[tokio::test]
async fn the_cpu_time_of_jobs_is_measured_on_the_threads_on_which_they_run() {
    let meter = || CpuMeter::new(prometheus::Counter::new("cpu_seconds_total", "CPU").unwrap());
    let body = "<p>text <a href=/x>link</a>".repeat(20_000);
    let mut actions = Actions::default();
    open_stage(config()).receive(vec![fetched(0, &body)], NOW, &mut actions).unwrap();
    let job = actions.jobs.pop().unwrap();
    // Cost of the same page on this thread; everything except the extraction itself costs a thousandth of it.
    let alone = meter();
    let input = PageInput {
        url: &orbweaver_url::parse(URL).unwrap(),
        site: None,
        content_type: Some("text/html"),
        headers: &[],
        body: body.as_bytes(),
    };
    alone.measure(|| extract(&input, &ExtractorConfig::default()));

    let metered = meter();
    let worker = BlockingWorker::new(config(), metrics()).with_meter(metered.clone());
    let (results, mut finished) = unbounded_channel();
    worker.start(job, &results);
    finished.recv().await.unwrap();
    assert!(metered.seconds() > alone.seconds() / 4.0, "{} of {}", metered.seconds(), alone.seconds());
}

#[test]
fn a_batch_is_shared_by_all_threads_and_large_pages_are_jobs_of_their_own() {
    let jobs = |config: ExtractorConfig, bodies: &[usize]| {
        let batch = bodies.iter().enumerate().map(|(offset, size)| {
            let body = vec![b'x'; *size];
            delivered(offset as u64, Some(&page(URL, &body, BodyEncoding::Identity)), Some(&body))
        });
        let mut actions = Actions::default();
        open_stage(config).receive(batch.collect(), NOW, &mut actions).unwrap();
        let offsets: Vec<u64> =
            actions.jobs.iter().flat_map(|job| &job.pages).map(|(origin, _)| origin.offset).collect();
        assert_eq!(offsets, (0..bodies.len() as u64).collect::<Vec<_>>());
        actions.jobs.iter().map(|job| job.pages.len()).collect::<Vec<_>>()
    };
    assert_eq!(jobs(config(), &[10; 5]), [3, 2]);
    assert_eq!(jobs(config(), &[10; 40]), [16, 16, 8]);
    assert_eq!(jobs(config(), &[]), Vec::<usize>::new());
    let small = ExtractorConfig { batch_bytes: 5000, ..config() };
    assert_eq!(jobs(small, &[100, 100, 9000, 100, 100, 100]), [2, 1, 3]);
}

#[tokio::test]
async fn pages_wait_while_results_that_are_not_durable_hold_the_memory_and_all_are_extracted() {
    const MEMORY: usize = 3 << 20;
    let (worker, in_use) = worker(ExtractorConfig { memory: MEMORY, ..config() });
    let body: String = (0..2000).map(|number| format!("<a href=/{number}>a link</a>")).collect();
    let (results, mut finished) = unbounded_channel();
    for job in 0..4 {
        let pages = (0..10).map(|page| first(fetched(job * 10 + page, &body))).collect();
        worker.start(ExtractJob { pages, partitions: PARTITIONS, now: NOW }, &results);
    }
    drop(results);
    let mut offsets = vec![];
    while let Some(done) = finished.recv().await {
        assert!(done.len() < 10, "ten such pages do not fit");
        offsets.extend(done.iter().map(|(origin, _)| origin.offset));
        let bytes: usize = done.iter().map(|(_, verdict)| record_bytes(verdict)).sum();
        let counted = in_use();
        assert!((bytes..=MEMORY).contains(&counted), "{bytes} bytes count as {counted}");
    }
    offsets.sort_unstable();
    assert_eq!((offsets, in_use()), ((0..40).collect(), 0));
}

#[tokio::test]
async fn short_links_on_a_long_base_never_hold_more_than_the_memory_and_one_page_per_thread() {
    const MEMORY: usize = 32 << 20;
    /// Three times the URLs of all links: in the links, the document and the discovered URLs.
    const PAGE: usize = 26_000_000;
    const PAGES: usize = 60;
    let threads = config().threads;
    let (worker, in_use) = worker(ExtractorConfig { memory: MEMORY, ..config() });
    let links: String = (0..1035).map(|number| format!("<a href={number}>")).collect();
    let body = format!("<base href='/{}/'>{links}", "b".repeat(8100));
    let (results, mut finished) = unbounded_channel();
    for offset in 0..PAGES as u64 {
        let pages = vec![first(fetched(offset, &body))];
        worker.start(ExtractJob { pages, partitions: PARTITIONS, now: NOW }, &results);
    }
    drop(results);
    let (mut offsets, mut kept, mut waiting, mut most) = (vec![], vec![], 0_usize, 0_usize);
    while let Some(done) = finished.recv().await {
        // Without memory for its page, a job returns no result at first, and its thread waits.
        waiting += usize::from(done.is_empty());
        offsets.extend(done.iter().map(|(origin, _)| origin.offset));
        kept.push(done);
        most = most.max(in_use());
        assert!(most <= MEMORY + threads * PAGE, "{most} bytes are held");
        // The results become durable when every thread waits, or every page that is left.
        if waiting >= threads.min(PAGES - offsets.len()) {
            kept.clear();
            waiting = 0;
        }
    }
    offsets.sort_unstable();
    assert_eq!((offsets, in_use()), ((0..PAGES as u64).collect(), 0));
    assert!(most > MEMORY + PAGE / 2, "{most} bytes are too few for this test");
}

fn record_bytes(verdict: &PageVerdict) -> usize {
    let PageVerdict::Extracted(result) = verdict else { panic!("{verdict:?}") };
    result.records.iter().map(orbweaver_log::Record::bytes).sum()
}
