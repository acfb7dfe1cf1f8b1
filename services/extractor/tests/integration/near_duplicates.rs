//! Documents that are marked as near duplicates, and their originals in `crawl.signatures`.

use orbweaver_extractor::job::ExtractJob;
use orbweaver_extractor::{BlockingWorker, ExtractorConfig, ExtractorStage};
use orbweaver_log::{ConsumerRecord, Record};
use orbweaver_messages::{
    BodyEncoding, CRAWL_HEADER, Document, NEAR_DUPLICATE_HEADER, Page, PageSignature, decode, topic,
};
use orbweaver_stage::{Actions, Origin, Stage, Step, Worker};
use orbweaver_store::Write;
use orbweaver_url::Fingerprint;
use tokio::sync::mpsc::unbounded_channel;

use crate::fixture::{NOW, PAGES, delivered, metrics, open, open_stage, page, worker};

fn config() -> ExtractorConfig {
    ExtractorConfig { near_duplicates: true, near_duplicate_pages: 3, ..ExtractorConfig::default() }
}

/// Returns an article of 300 words, `changed` of which only this one has.
fn article(number: usize, changed: usize) -> String {
    let words = (0..300).map(|word| if word < changed { format!("own{number}x{word}") } else { format!("word{word}") });
    format!("<article><p>{}</p></article>", words.collect::<Vec<_>>().join(" "))
}

fn fetched(number: usize, body: &str) -> (Origin, ConsumerRecord) {
    let page = page(&format!("http://a.test/{number}"), body.as_bytes(), BodyEncoding::Identity);
    delivered(number as u64, Some(&page), Some(body.as_bytes()))
}

/// Returns the actions for a page.
async fn extracted(
    stage: &mut ExtractorStage,
    worker: &BlockingWorker,
    page: (Origin, ConsumerRecord),
) -> Actions<ExtractJob, Write> {
    let mut actions = Actions::default();
    stage.receive(vec![page], NOW, &mut actions).unwrap();
    let (results, mut finished) = unbounded_channel();
    worker.start(actions.jobs.pop().unwrap(), &results);
    stage.job_done(finished.recv().await.unwrap(), NOW, &mut actions).unwrap();
    actions
}

/// Extracts pages one by one; returns the records of signatures and the documents' records.
async fn extract(stage: &mut ExtractorStage, pages: &[(usize, String)]) -> (Vec<Record>, Vec<Record>) {
    let (worker, _) = worker(config());
    let (mut signatures, mut documents) = (vec![], vec![]);
    for (number, body) in pages {
        let mut actions = extracted(stage, &worker, fetched(*number, body)).await;
        let mut steps = actions.plans.pop().unwrap().steps.into_iter();
        assert!(matches!(steps.next(), Some(Step::Perform(_))));
        let produced: Vec<Vec<Record>> =
            steps.map(|step| if let Step::Produce(records) = step { records } else { panic!("{step:?}") }).collect();
        let [earlier @ .., last] = produced.as_slice() else { panic!("no document") };
        signatures.extend(earlier.iter().flatten().cloned());
        documents.extend(last.iter().filter(|record| record.tp.topic == topic::DOCUMENTS).cloned());
        assert!(earlier.iter().flatten().all(|record| record.tp.topic == topic::SIGNATURES));
    }
    (signatures, documents)
}

fn document(record: &Record) -> Document {
    decode("document", record.value.as_ref()).unwrap()
}

fn fingerprint(number: usize) -> Fingerprint {
    page(&format!("http://a.test/{number}"), b"", BodyEncoding::Identity).context.fingerprint
}

fn as_restored(record: &Record, offset: u64) -> ConsumerRecord {
    let headers = record.headers.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
    let (tp, timestamp_ms, key, value) = (record.tp, record.timestamp_ms, record.key.clone(), record.value.clone());
    ConsumerRecord { tp, offset, timestamp_ms, key, value, headers }
}

fn originals(documents: &[Record]) -> Vec<Option<Fingerprint>> {
    documents.iter().map(|record| document(record).near_duplicate_of).collect()
}

#[tokio::test]
async fn a_near_duplicate_names_the_first_page_in_its_document_and_a_header() {
    let mut stage = open_stage(config());
    let pages = [(1, article(1, 0)), (2, article(2, 4)), (3, article(3, 200)), (4, "<p>short</p>".to_owned())];
    let (signatures, documents) = extract(&mut stage, &pages).await;
    assert_eq!(originals(&documents), [None, Some(fingerprint(1)), None, None]);
    let header = |record: &Record, name| record.headers.iter().find(|(known, _)| *known == name).cloned();
    let marks: Vec<_> = documents.iter().map(|record| header(record, NEAR_DUPLICATE_HEADER)).collect();
    assert_eq!(marks, [None, Some((NEAR_DUPLICATE_HEADER, fingerprint(1).to_string().into())), None, None]);
    let signed: Vec<_> = documents.iter().map(|record| document(record).signature).collect();
    assert!(signed[..3].iter().all(Option::is_some) && signed[3].is_none());
    let recorded: Vec<PageSignature> =
        signatures.iter().map(|record| decode("page-signature", record.value.as_ref()).unwrap()).collect();
    let recorded: Vec<_> = recorded.iter().map(|page| (&*page.crawl, &*page.site, Some(page.signature))).collect();
    assert_eq!(recorded, [("main", "a.test", signed[0]), ("main", "a.test", signed[2])]);
    assert!(signatures.iter().all(|record| header(record, CRAWL_HEADER) == Some((CRAWL_HEADER, "main".into()))));
}

/// Returns the documents of the same article on these pages, which a change distinguishes.
async fn same_article(config: ExtractorConfig, changes: &[fn(&mut Page)]) -> Vec<Document> {
    let mut stage = open_stage(config.clone());
    let (worker, _) = worker(config);
    let mut documents = vec![];
    for (number, change) in changes.iter().enumerate() {
        let body = article(number, 0);
        let mut page = page(&format!("http://a.test/{number}"), body.as_bytes(), BodyEncoding::Identity);
        change(&mut page);
        let record = delivered(number as u64, Some(&page), Some(body.as_bytes()));
        let mut actions = extracted(&mut stage, &worker, record).await;
        let Some(Step::Produce(records)) = actions.plans.pop().unwrap().steps.pop() else { panic!("no document") };
        documents.push(document(&records[0]));
    }
    documents
}

#[tokio::test]
async fn a_crawl_decides_whether_its_documents_are_marked() {
    let off = ExtractorConfig { near_duplicates: false, ..config() };
    let on: fn(&mut Page) = |page| page.near_duplicates = Some(true);
    let documents = same_article(off, &[|_| {}, on, on, |page| page.near_duplicates = Some(false)]).await;
    let marked: Vec<_> =
        documents.iter().map(|document| (document.signature.is_some(), document.near_duplicate_of)).collect();
    assert_eq!(marked, [(false, None), (true, None), (true, Some(fingerprint(1))), (false, None)]);
}

#[tokio::test]
async fn pages_of_other_sites_and_crawls_are_not_compared() {
    let other_crawl: fn(&mut Page) = |page| page.context.crawl = "other".parse().unwrap();
    let documents =
        same_article(config(), &[|_| {}, |page| page.context.site = "b.test".into(), other_crawl, |_| {}]).await;
    let originals: Vec<_> = documents.iter().map(|document| document.near_duplicate_of).collect();
    assert_eq!(originals, [None, None, None, Some(fingerprint(0))]);
}

#[tokio::test]
async fn the_next_owner_of_a_partition_knows_its_originals() {
    let mut stage = open_stage(config());
    let (signatures, _) = extract(&mut stage, &[(1, article(1, 0)), (2, article(2, 200))]).await;
    let mut next = ExtractorStage::new(config(), metrics());
    let damaged = ConsumerRecord { value: Some("damaged".into()), ..as_restored(&signatures[0], 9) };
    for (offset, record) in signatures.iter().enumerate() {
        next.restore(PAGES.partition, &as_restored(record, offset as u64)).unwrap();
    }
    next.restore(PAGES.partition, &damaged).unwrap();
    open(&mut next, 1);
    let pages = [(2, article(2, 200)), (1, article(1, 0)), (3, article(3, 2))];
    let (signatures, documents) = extract(&mut next, &pages).await;
    assert_eq!(originals(&documents), [None, None, Some(fingerprint(1))]);
    assert!(signatures.is_empty(), "they are recorded");
    next.close(PAGES.partition);
    open(&mut next, 1);
    let (_, documents) = extract(&mut next, &[(4, article(4, 2))]).await;
    assert_eq!(originals(&documents), [None], "nothing of an earlier assignment is left");
}

#[tokio::test]
async fn the_oldest_original_beyond_the_limit_is_dropped_by_a_tombstone() {
    let mut stage = open_stage(config());
    let pages: Vec<_> = (1..=4).map(|number| (number, article(number, 300))).collect();
    let (signatures, _) = extract(&mut stage, &pages).await;
    let keys: Vec<_> = signatures.iter().map(|record| (record.key.clone(), record.value.is_some())).collect();
    assert_eq!(keys.iter().map(|(_, kept)| *kept).collect::<Vec<_>>(), [true, true, true, true, false]);
    assert_eq!(keys[4].0, keys[0].0);
    let (_, documents) = extract(&mut stage, &[(5, article(1, 300)), (6, article(2, 300))]).await;
    assert_eq!(originals(&documents)[0], None, "page 1 was dropped; now page 2 is, too");
}

#[tokio::test]
async fn a_marked_document_holds_its_memory_until_it_is_dropped() {
    let mut stage = open_stage(config());
    let (worker, in_use) = worker(config());
    for number in [1, 2] {
        let actions = extracted(&mut stage, &worker, fetched(number, &article(number, 0))).await;
        let Some(Step::Produce(records)) = actions.plans[0].steps.last() else { panic!("no document") };
        assert_eq!(document(&records[0]).near_duplicate_of.is_some(), number == 2);
        assert!(in_use() > 0);
        drop(actions);
        assert_eq!(in_use(), 0);
    }
}

#[tokio::test]
async fn a_marked_document_fits_its_record() {
    let limited = ExtractorConfig { record_limit: 3000, near_duplicate_pages: 3, ..config() };
    let mut stage = open_stage(limited.clone());
    let (worker, _) = worker(limited.clone());
    for number in [1, 2] {
        let actions = extracted(&mut stage, &worker, fetched(number, &article(number, 0))).await;
        let Some(Step::Produce(records)) = actions.plans[0].steps.last() else { panic!("no document") };
        assert!(document(&records[0]).truncated.text);
        assert_eq!(document(&records[0]).near_duplicate_of.is_some(), number == 2);
        assert!(records[0].bytes() <= limited.record_limit && records[0].bytes() > limited.record_limit - 400);
    }
}
