use std::sync::atomic::{AtomicU32, Ordering};

use futures::{FutureExt as _, future::BoxFuture};
use orbweaver_stage::ScriptedClock;
use orbweaver_store::{CaptureRow, ContentRow, FetchEvent, LinksOut, PageRow, RedirectRow, SitePage, Write};
use orbweaver_url::{CrawlName, Fingerprint, Url};
use prometheus::IntGauge;
use tokio::sync::mpsc::unbounded_channel;

use super::*;
use crate::{
    FetcherConfig, RequestProfile,
    client::{Destination, HttpResponse, ScriptedClient},
};

/// A store whose first calls fail.
#[derive(Default)]
struct AwayStore {
    failures: AtomicU32,
    damaged: bool,
}

impl AwayStore {
    fn fails(&self) -> Result<(), StoreError> {
        if self.damaged {
            return Err(StoreError::Damaged { key: "x".into(), reason: "cut".into() });
        }
        let left = self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.map_or(Ok(()), |_| Err(StoreError::Failed("away".into())))
    }
}

impl Store for AwayStore {
    fn write_shared(&self, _: Arc<[Write]>) -> BoxFuture<'_, Result<(), StoreError>> {
        not_asked()
    }

    fn robots<'a>(&'a self, authority: &'a str) -> BoxFuture<'a, Result<Option<RobotsRow>, StoreError>> {
        let row = self.fails().map(|()| Some(row(authority)));
        async move { row }.boxed()
    }

    fn page(&self, _: Fingerprint) -> BoxFuture<'_, Result<Option<PageRow>, StoreError>> {
        not_asked()
    }

    fn history(&self, _: Fingerprint, _: usize) -> BoxFuture<'_, Result<Vec<FetchEvent>, StoreError>> {
        not_asked()
    }

    fn links(&self, _: Fingerprint) -> BoxFuture<'_, Result<Option<LinksOut>, StoreError>> {
        not_asked()
    }

    fn redirect(&self, _: Fingerprint) -> BoxFuture<'_, Result<Option<RedirectRow>, StoreError>> {
        not_asked()
    }

    fn captures(&self, _: Fingerprint, _: usize) -> BoxFuture<'_, Result<Vec<CaptureRow>, StoreError>> {
        not_asked()
    }

    fn content<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<ContentRow>, StoreError>> {
        not_asked()
    }

    fn site_pages<'a>(
        &'a self,
        _: &'a CrawlName,
        _: &'a str,
        _: Option<Fingerprint>,
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<SitePage>, StoreError>> {
        not_asked()
    }
}

/// Fails, since the fetcher makes no other request to a store.
fn not_asked<T: Send + 'static>() -> BoxFuture<'static, Result<T, StoreError>> {
    async { Err(StoreError::Failed("unused by the fetcher".into())) }.boxed()
}

fn row(authority: &str) -> RobotsRow {
    let authority = authority.to_owned();
    RobotsRow { authority, fetched_at_ms: 0, status: Some(200), body: String::new(), expires_ms: 1 }
}

/// A client with a defect.
struct PanickingClient;

impl Client for PanickingClient {
    fn ask<'a>(&'a self, _: Request, _: &'a mut Reservation) -> BoxFuture<'a, Attempt> {
        async { panic!("a defect of the fetcher") }.boxed()
    }
}

fn request(purpose: Purpose) -> Request {
    Request {
        url: Url::parse("https://a.example/").unwrap(),
        purpose,
        cookie: None,
        known: None,
        profile: Arc::new(RequestProfile::of(&FetcherConfig::default())),
        destination: Destination::Unlocated,
    }
}

fn asked(purpose: Purpose) -> Job {
    Job::Ask { number: 1, request: request(purpose), room: 16 << 20 }
}

fn memory() -> ByteBudget {
    ByteBudget::new(64 << 20, IntGauge::new("bytes", "in use").unwrap())
}

fn worker<C: Client>(client: C, store: AwayStore, memory: ByteBudget) -> FetchWorker<C> {
    FetchWorker::new(Arc::new(client), Arc::new(store), Arc::new(ScriptedClock::at(5)), memory)
}

async fn done<C: Client>(worker: &FetchWorker<C>, job: Job) -> Done {
    let (results, mut done) = unbounded_channel();
    worker.start(job, &results);
    tokio::time::timeout(Duration::from_secs(10), done.recv()).await.unwrap().unwrap()
}

async fn result_of<C: Client>(client: C, store: AwayStore, job: Job) -> Done {
    done(&worker(client, store, memory()), job).await
}

fn scripted(body: &str) -> ScriptedClient {
    let client = ScriptedClient::new(Arc::new(ScriptedClock::at(5)));
    let body = Body::Read { bytes: body.into(), truncated: false };
    client.on("https://a.example/", Ok(HttpResponse { status: 200, body, ..HttpResponse::default() }));
    client
}

#[tokio::test]
async fn a_page_comes_back_packed_and_a_robots_txt_as_it_is() {
    let done = result_of(scripted("<p>"), AwayStore::default(), asked(Purpose::Page)).await;
    let Done::Asked { number: 1, body: Some(body), .. } = done else { panic!("{done:?}") };
    assert_eq!((&body.value[..], body.bytes), (&b"<p>"[..], 3));

    let large = "<p>text</p>".repeat(BLOCKING_BYTES / 10);
    let done = result_of(scripted(&large), AwayStore::default(), asked(Purpose::Page)).await;
    let Done::Asked { body: Some(body), .. } = done else { panic!("{done:?}") };
    assert_eq!(body.bytes, large.len() as u64);

    let done = result_of(scripted("x"), AwayStore::default(), asked(Purpose::Robots)).await;
    let Done::Asked { attempt, body: None, .. } = done else { panic!("{done:?}") };
    assert!(matches!(attempt.result.unwrap().body, Body::Read { bytes, .. } if bytes == b"x"));
}

#[tokio::test]
async fn the_text_of_a_page_is_hashed_if_its_crawl_has_revisits() {
    let hash = async |body: &str, known: Option<Box<orbweaver_messages::PageVersion>>| {
        let request = Request { known, ..request(Purpose::Page) };
        let job = Job::Ask { number: 1, request, room: 16 << 20 };
        let done = result_of(scripted(body), AwayStore::default(), job).await;
        let Done::Asked { body: Some(body), .. } = done else { panic!("{done:?}") };
        body.text_hash
    };
    let first = hash("<p>text</p>", Some(Box::default())).await;
    assert!(first.is_some());
    assert_eq!(hash("<p class=x>text</p>", Some(Box::default())).await, first);
    assert_ne!(hash("<p>other</p>", Some(Box::default())).await, first);
    assert_eq!(hash("<p>text</p>", None).await, None);
}

fn meter() -> CpuMeter {
    CpuMeter::new(prometheus::Counter::new("cpu_seconds_total", "CPU").unwrap())
}

#[tokio::test]
async fn every_job_is_measured_and_a_large_body_on_its_own_thread() {
    for job in [asked(Purpose::Page), Job::Load { key: "https://a.example".into() }] {
        let meter = meter();
        done(&worker(scripted("<p>"), AwayStore::default(), memory()).with_meter(meter.clone()), job).await;
        assert!(meter.seconds() > 0.0);
    }
    // Without its task, only the work on another thread is measured.
    for (body, elsewhere) in [("<p>".to_owned(), false), ("<p>text</p>".repeat(BLOCKING_BYTES / 10), true)] {
        let meter = meter();
        let job = (request(Purpose::Page), 16 << 20, memory().reservation());
        ask(&scripted(&body), job, &Semaphore::new(1), true, Some(meter.clone())).await;
        assert_eq!(meter.seconds() > 0.0, elsewhere, "{} bytes", body.len());
    }
}

#[tokio::test]
async fn a_panic_is_a_result_too() {
    let job = asked(Purpose::Page);
    let done = result_of(PanickingClient, AwayStore::default(), job).await;
    let Done::Asked { number: 1, attempt, body: None } = done else { panic!("{done:?}") };
    assert_eq!(attempt.result, Err(FetchError::Internal));
}

#[tokio::test]
async fn reading_goes_on_when_the_store_is_back_and_a_damaged_row_is_as_good_as_none() {
    let job = || Job::Load { key: "https://a.example".into() };
    let away = AwayStore { failures: AtomicU32::new(2), ..AwayStore::default() };
    let Done::Loaded { row: found, .. } = result_of(PanickingClient, away, job()).await else { panic!() };
    assert_eq!(found, Some(row("https://a.example")));
    let damaged = AwayStore { damaged: true, ..AwayStore::default() };
    let Done::Loaded { row: None, .. } = result_of(PanickingClient, damaged, job()).await else { panic!() };
}

/// A client that reserves memory for bodies as it reads them.
struct ReservingClient(ScriptedClient);

impl Client for ReservingClient {
    fn ask<'a>(&'a self, request: Request, memory: &'a mut Reservation) -> BoxFuture<'a, Attempt> {
        async move {
            let attempt = self.0.answer(request);
            if let Ok(HttpResponse { body: Body::Read { bytes, .. }, .. }) = &attempt.result {
                memory.grow(bytes.capacity()).await;
            }
            attempt
        }
        .boxed()
    }
}

#[tokio::test]
async fn memory_is_reserved_for_what_a_page_has_until_its_last_byte_is_let_go() {
    for size in [10_000, BLOCKING_BYTES] {
        let memory = memory();
        let client = ReservingClient(scripted(&"<p>text</p>".repeat(size / 10)));
        let worker = worker(client, AwayStore::default(), memory.clone());
        for purpose in [Purpose::Page, Purpose::Robots] {
            let done = done(&worker, asked(purpose)).await;
            let Done::Asked { body, .. } = &done else { panic!("{done:?}") };
            let packed = body.as_ref().map_or(0, |body| body.value.len());
            assert!((packed > 0) == (purpose == Purpose::Page) && packed < size / 10);
            assert!(memory.has_room(memory.bytes() - packed) && !memory.has_room(memory.bytes() - packed + 1));
            let value = body.as_ref().map(|body| body.value.slice(1..));
            drop(done);
            assert_eq!(memory.has_room(memory.bytes()), value.is_none());
            drop(value);
            assert!(memory.has_room(memory.bytes()));
        }
    }
}
