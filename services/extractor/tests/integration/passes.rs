//! Pages with more links than one pass takes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use orbweaver_extractor::body::BodyReader;
use orbweaver_extractor::job::{ExtractDone, ExtractJob, PAGE_HEADER, PageResult, PageVerdict, process};
use orbweaver_extractor::pass::PagePass;
use orbweaver_extractor::{BlockingWorker, ExtractorConfig, ExtractorStage};
use orbweaver_log::{Cleanup, ConsumerRecord, Log, MemoryLog, Record, TopicPartition, TopicSpec};
use orbweaver_messages::{BodyEncoding, Discovered, Document, Pattern, Truncated, decode, topic};
use orbweaver_stage::{Actions, Origin, Plan, Runner, RunnerConfig, Stage, Step, Worker};
use orbweaver_store::{MemoryStore, StoreWriter, Write};
use proptest::prelude::*;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{Instant, sleep};

use crate::fixture::{NOW, PAGES, PARTITIONS, delivered, links, metrics, open, open_stage, page, worker};

/// Maximum length of the URLs of a pass by default, in bytes.
const PASS_BYTES: usize = 8 << 20;
const ORIGIN: Origin = Origin { tp: PAGES, offset: 7, assignment_epoch: 1 };

/// Makes the record of a page at `http://a.test/`, on the trail of a crawl that detects traps.
fn record(body: &str) -> ConsumerRecord {
    let mut page = page("http://a.test/", body.as_bytes(), BodyEncoding::Identity);
    page.context.trail = page.context.trail.through(Pattern(7));
    delivered(ORIGIN.offset, Some(&page), Some(body.as_bytes())).1
}

/// Returns settings for a document of three links and passes of five.
fn few() -> ExtractorConfig {
    ExtractorConfig { max_links: 3, pass_links: 5, max_links_bytes: 100, pass_bytes: 200, ..ExtractorConfig::default() }
}

/// Carries out a job.
fn run(job: ExtractJob, config: &ExtractorConfig) -> ExtractDone {
    let mut bodies = BodyReader::default();
    let context = (job.partitions, job.now);
    let extract = |(origin, page)| (origin, process(&page, context, &mut bodies, config));
    job.pages.into_iter().map(extract).collect()
}

/// Passes a page through the stage until it completes. Returns its plans, each of which is durable before the next
/// pass starts.
fn plans(body: &str, config: &ExtractorConfig) -> Vec<Plan<Write>> {
    let mut stage = open_stage(config.clone());
    let mut actions = Actions::default();
    stage.receive(vec![(ORIGIN, record(body))], NOW, &mut actions).unwrap();
    let mut plans: Vec<Plan<Write>> = vec![];
    while let Some(job) = actions.jobs.pop() {
        assert_eq!((stage.due(NOW), actions.jobs.len()), (1, 0));
        stage.job_done(run(job, config), NOW, &mut actions).unwrap();
        assert_eq!((stage.due(NOW), actions.jobs.len(), actions.plans.len()), (0, 0, 1));
        let plan = actions.plans.pop().unwrap();
        assert_eq!(plan.token.is_none(), plan.completes == [ORIGIN], "a page completes with its last plan");
        if let Some(token) = plan.token {
            stage.plan_durable(token, &[], NOW, &mut actions).unwrap();
        }
        plans.push(plan);
    }
    assert_eq!(plans.last().unwrap().completes, [ORIGIN]);
    plans
}

fn produced(plan: &Plan<Write>) -> impl Iterator<Item = &Record> {
    plan.steps.iter().flat_map(|step| match step {
        Step::Produce(records) => records.as_slice(),
        Step::Perform(_) => &[],
    })
}

fn found<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<Discovered> {
    let discovered = records.into_iter().filter(|record| record.tp.topic == topic::DISCOVERED);
    discovered.map(|record| decode("discovered", record.value.as_ref()).unwrap()).collect()
}

fn urls<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<String> {
    found(records).into_iter().flat_map(|found| found.urls).collect()
}

/// Returns the document and the stored links of a page, which are in its last plan.
fn document(plan: &Plan<Write>) -> (Document, &[(String, bool)]) {
    let [Step::Perform(writes), Step::Produce(records)] = plan.steps.as_slice() else { panic!("{:?}", plan.steps) };
    let [Write::Links(stored)] = writes.as_slice() else { panic!("{writes:?}") };
    (decode("document", records[0].value.as_ref()).unwrap(), &stored.links)
}

#[test]
fn links_beyond_those_of_a_document_are_all_discovered_and_it_has_their_number() {
    const LINKS: usize = 250_000;
    let body = format!("<img src=/a.png alt=A>{}<img src=/b.png>", links(LINKS));
    let plans = plans(&body, &ExtractorConfig { other_links: true, ..ExtractorConfig::default() });
    let discovered: Vec<String> = plans.iter().flat_map(|plan| urls(produced(plan))).collect();
    assert!(discovered.into_iter().eq((0..LINKS).map(|number| format!("http://a.test/{number}"))));
    let sizes = plans.iter().flat_map(produced).filter(|record| record.tp.topic == topic::DISCOVERED);
    assert!(sizes.map(Record::bytes).all(|bytes| bytes < 300 << 10));
    let (document, stored) = document(plans.last().unwrap());
    assert_eq!((document.links.len(), stored.len(), document.links_total), (100_000, 100_000, Some(LINKS as u64)));
    assert_eq!(document.other_links.map(|links| links.len()), Some(2));
    assert_eq!(document.truncated, Truncated { links: true, ..Truncated::default() });
    assert_eq!(plans.len(), 4, "three passes for the links and one for the document");
}

#[test]
fn no_pass_plans_more_than_8_mib_of_urls_however_long_the_base_is() {
    const LINKS: usize = 3000;
    let links: String = (0..LINKS).map(|number| format!("<a href={number}></a>")).collect();
    let body = format!("<base href='/{}/'><!--{}-->{links}", "b".repeat(8000), "x".repeat(2_000_000));
    let plans = plans(&body, &ExtractorConfig::default());
    let bytes = |plan: &Plan<Write>| -> usize {
        produced(plan).filter(|record| record.tp.topic == topic::DISCOVERED).map(Record::bytes).sum()
    };
    let planned: Vec<usize> = plans.iter().map(bytes).collect();
    assert!(planned.iter().all(|&bytes| bytes < PASS_BYTES + PASS_BYTES / 8), "{planned:?}");
    assert!(planned.iter().sum::<usize>() > LINKS * 8000, "{planned:?}");
    let discovered: Vec<String> = plans.iter().flat_map(|plan| urls(produced(plan))).collect();
    assert!(
        discovered.iter().map(|url| url.rsplit('/').next().unwrap()).eq((0..LINKS).map(|number| number.to_string()))
    );
    let (document, stored) = document(plans.last().unwrap());
    assert_eq!((document.links_total, document.links.len()), (Some(LINKS as u64), stored.len()));
    assert!(document.truncated.links && stored.iter().map(|(url, _)| url.len()).sum::<usize>() <= PASS_BYTES);
}

#[test]
fn links_that_outgrow_their_page_are_counted_and_not_followed() {
    const LINKS: usize = 5000;
    let links: String = (0..LINKS).map(|number| format!("<a href={number}></a>")).collect();
    let page = PagePass::first(record(&format!("<base href='/{}/'>{links}", "b".repeat(8000))));
    let config = ExtractorConfig::default();
    let verdict = process(&page, (PARTITIONS, NOW), &mut BodyReader::default(), &config);
    let PageVerdict::Extracted(result) = verdict else { panic!("not in one pass") };
    let PageResult { links, records, counts, .. } = *result;
    let document: Document = decode("document", records[0].value.as_ref()).unwrap();
    assert_eq!((document.links_total, document.truncated.links), (Some(LINKS as u64), true));
    assert_eq!(urls(&records).len(), links.links.len());
    assert_eq!((counts.discovered + counts.unfollowed, counts.links), (LINKS, counts.discovered));
    assert!(counts.unfollowed > LINKS / 2);
}

#[test]
fn a_page_continues_only_while_its_partition_is_held_and_is_rejected_when_the_log_refuses_a_pass() {
    let config = few();
    let after_a_pass = || {
        let (mut stage, mut actions) = (open_stage(config.clone()), Actions::default());
        stage.receive(vec![(ORIGIN, record(&links(9)))], NOW, &mut actions).unwrap();
        let done = run(actions.jobs.pop().unwrap(), &config);
        stage.job_done(done, NOW, &mut actions).unwrap();
        let token = actions.plans.pop().unwrap().token.unwrap();
        (stage, actions, token)
    };
    let (mut stage, mut actions, token) = after_a_pass();
    stage.refused(token, "too large", NOW, &mut actions).unwrap();
    assert_eq!((actions.rejects, actions.jobs.len()), (vec![(ORIGIN, "too large".to_owned())], 0));

    let (mut stage, mut actions, token) = after_a_pass();
    stage.close(PAGES.partition);
    open(&mut stage, 2);
    stage.plan_durable(token, &[], NOW, &mut actions).unwrap();
    assert_eq!((actions.jobs.len(), actions.rejects.len(), stage.due(NOW)), (0, 0, 0));
}

#[test]
fn the_links_of_a_page_that_asks_not_to_follow_them_take_no_further_pass() {
    let plans = plans(&format!("<meta name=robots content=nofollow>{}", links(9)), &few());
    assert_eq!((plans.len(), urls(produced(&plans[0])).len()), (1, 0));
    assert_eq!(document(&plans[0]).0.links_total, Some(9));
}

#[tokio::test]
async fn the_runtime_carries_out_every_pass_in_order_and_commits_the_page_after_the_last() {
    const LINKS: usize = 23;
    let topics = [topic::PAGES, topic::DISCOVERED, topic::DOCUMENTS, topic::SIGNATURES, topic::DEAD_LETTERS];
    let log = MemoryLog::new(&topics.map(|topic| TopicSpec::new(topic, 1, Cleanup::Delete)));
    let ConsumerRecord { timestamp_ms, key, value, mut headers, .. } = record(&links(LINKS));
    let tp = TopicPartition::new(topic::PAGES, 0);
    let headers = vec![(PAGE_HEADER, headers.remove(0).1)];
    log.append(vec![Record { tp, key, value, headers, timestamp_ms }]).await.unwrap();

    let metrics = metrics();
    let worker = BlockingWorker::new(few(), metrics.clone());
    let stage = ExtractorStage::new(few(), metrics);
    let store = StoreWriter::new(Arc::new(MemoryStore::default()));
    let runner = Runner::new(stage, Arc::new(log.clone()), worker, store, RunnerConfig::default());
    // Never shut down: the page is committed without that.
    let running = tokio::spawn(runner.run(Default::default()));
    let deadline = Instant::now() + Duration::from_secs(60);
    while log.committed("extractor", &[tp]).await.unwrap()[0].as_ref().is_none_or(|commit| commit.offset < 1) {
        assert!(Instant::now() < deadline && !running.is_finished(), "the page does not complete");
        sleep(Duration::from_millis(5)).await;
    }
    running.abort();

    let read = |topic| log.records(TopicPartition::new(topic, 0));
    let discovered = read(topic::DISCOVERED);
    let discovered =
        discovered.iter().flat_map(|record| decode::<Discovered>("discovered", record.value.as_ref()).unwrap().urls);
    assert!(discovered.eq((0..LINKS).map(|number| format!("http://a.test/{number}"))));
    let documents = read(topic::DOCUMENTS);
    assert_eq!((documents.len(), read(topic::DEAD_LETTERS).len()), (1, 0));
    let document: Document = decode("document", documents[0].value.as_ref()).unwrap();
    assert_eq!((document.links.len(), document.links_total), (3, Some(LINKS as u64)));
}

#[tokio::test]
async fn the_records_of_a_pass_hold_memory_until_they_are_dropped() {
    let (worker, in_use) = worker(few());
    let (results, mut finished) = unbounded_channel();
    let pages = vec![(ORIGIN, PagePass::first(record(&links(9))))];
    worker.start(ExtractJob { pages, partitions: PARTITIONS, now: NOW }, &results);
    let done = finished.recv().await.unwrap();
    let [(_, PageVerdict::Discovered(result))] = done.as_slice() else { panic!("{done:?}") };
    let bytes: usize = result.records.iter().filter_map(|record| record.value.as_ref()).map(Bytes::len).sum();
    assert!(bytes > 0 && in_use() == bytes, "{} of {bytes}", in_use());
    drop(done);
    assert_eq!(in_use(), 0);
}

proptest! {
    // An integration test has no lib.rs next to which failures could be stored; they are printed.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_page_in_many_passes_is_the_same_page_with_the_same_discovered_urls(
        pieces in prop::collection::vec(
            prop_oneof![
                "<a href=/[a-f]{1,3}>[a-z ]{0,9}</a>",
                "<a rel=nofollow href=[a-f]>x</a>",
                "<a href=http://[a-c]\\.test/[a-f]{1,20}>[a-z]{0,9}</a>",
                "<a href=javascript:1>word</a>",
                "<p>[a-z ]{0,20}",
                Just("<meta http-equiv=refresh content='0;url=/r'>".to_owned()),
                Just("<base href=/dir/>".to_owned()),
            ],
            0..40,
        ),
    ) {
        let body = format!("<title>A page</title>{}", pieces.concat());
        let discovered = |plans: &[Plan<Write>]| {
            let mut all = BTreeMap::new();
            for record in plans.iter().flat_map(|plan| found(produced(plan))) {
                all.extend(record.urls.iter().map(|url| (url.clone(), (record.site.clone(), record.content))));
            }
            all
        };
        let many = plans(&body, &few());
        let one = plans(&body, &ExtractorConfig { pass_links: 1000, pass_bytes: PASS_BYTES, ..few() });
        prop_assert_eq!(one.len(), 1);
        prop_assert_eq!(discovered(&many), discovered(&one));
        let ((many, _), (one, _)) = (document(many.last().unwrap()), document(&one[0]));
        let total = |document: &Document| document.links_total.unwrap_or(document.links.len() as u64);
        prop_assert_eq!((total(&many), &many.text), (total(&one), &one.text));
        prop_assert_eq!(many.truncated.links, (many.links.len() as u64) < total(&many));
        // Links of other schemes count for the size of a pass.
        prop_assert!(one.links.starts_with(&many.links));
    }
}
