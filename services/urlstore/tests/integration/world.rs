//! A store and an archive with a few pages, and requests to the API over them.

use std::{path::Path, sync::Arc};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Request},
};
use futures::future::{BoxFuture, FutureExt as _};
use orbweaver_store::{
    CaptureRow, ContentRow, FetchEvent, LinksOut, MemoryStore, PageRow, RedirectRow, RobotsRow, SitePage, Store,
    StoreError, Write,
};
use orbweaver_url::{CrawlName, Fingerprint, Keying, Policy};
use orbweaver_urlstore::{Api, Archive, Sources, UrlstoreConfig, UrlstoreMetrics, identity::Identity, router};
use orbweaver_warc::{Capture, Info, Protocol, WarcWriter};
use serde_json::Value;
use tokio::sync::Notify;
use tower::ServiceExt as _;

/// File of the archive.
pub(crate) const FILE: &str = "default/default-a.warc.gz";
/// Content of `https://a.example/`, as HTML that would run a script.
pub(crate) const HTML: &[u8] = b"<script>alert(1)</script>";
/// `printf %s secret | sha256sum`
pub(crate) const OF_SECRET: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

pub(crate) fn fingerprint(url: &str) -> Fingerprint {
    Identity::read(url, &Keying::default()).unwrap().fingerprint
}

pub(crate) fn page(url: &str, at_ms: i64) -> PageRow {
    let Identity { url, canonical, fingerprint } = Identity::read(url, &Keying::default()).unwrap();
    PageRow {
        fingerprint,
        key: canonical,
        url,
        site: "example".into(),
        fetched_at_ms: at_ms,
        status: Some(200),
        outcome: "fetched".to_owned(),
        reason: None,
        content_type: Some("text/html".to_owned()),
        etag: Some("\"v1\"".to_owned()),
        last_modified: None,
        bytes: 25,
        content_hash: Some("ab".to_owned()),
        depth: 2,
        via: Some("https://via.example/".to_owned()),
    }
}

fn page_write(row: PageRow) -> Write {
    Write::Page { crawl: CrawlName::default(), row: Box::new(row) }
}

pub(crate) fn redirect(from: &str, to: &str) -> [Write; 2] {
    let row = PageRow { outcome: "redirected".to_owned(), status: Some(301), content_hash: None, ..page(from, 50) };
    let redirect =
        RedirectRow { fingerprint: row.fingerprint, from: row.url.clone(), to: to.to_owned(), status: 301, at_ms: 50 };
    [Write::Redirect(redirect), page_write(row)]
}

pub(crate) fn capture(url: &str, at_ms: i64, location: (&str, u64, u64)) -> CaptureRow {
    let (file, offset, length) = location;
    CaptureRow {
        fingerprint: fingerprint(url),
        at_ms,
        epoch: 1,
        file: file.to_owned(),
        offset,
        length,
        status: 200,
        is_revisit: false,
        content_hash: None,
    }
}

/// Writes a file of the archive with a record for each body; returns their offsets and lengths.
pub(crate) fn archive(dir: &Path, bodies: &[&[u8]]) -> Vec<(u64, u64)> {
    std::fs::create_dir_all(dir.join("default")).unwrap();
    let info = Info { filename: "default-a.warc.gz", date_ms: 0, fields: &[] };
    let mut writer = WarcWriter::new(vec![], &info).unwrap();
    let headers = [("content-type".to_owned(), "text/html; charset=utf-8".to_owned())];
    let mut locations = vec![];
    for body in bodies {
        let capture = Capture {
            url: "https://a.example/",
            date_ms: 0,
            ip: None,
            protocol: Protocol::Http11,
            request: None,
            status: 200,
            reason: None,
            headers: &headers,
            body,
            truncated: None,
            revisit: None,
            metadata: &[],
        };
        let written = writer.write(&capture).unwrap();
        locations.push((written.offset, written.length));
    }
    std::fs::write(dir.join(FILE), writer.into_inner()).unwrap();
    locations
}

/// Fills a store; the archive is in `dir`.
pub(crate) async fn fill(store: &dyn Store, dir: &Path) {
    let large = vec![b'x'; 2000];
    let located = archive(dir, &[HTML, &large]);
    let at = |number: usize| (FILE, located[number].0, located[number].1);
    let a = "https://a.example/";
    let links = (0..5).map(|number| (format!("https://{number}.example/"), number == 3)).collect();
    let unchanged = PageRow { outcome: "unchanged".to_owned(), ..page(a, 30) };
    let mut writes = vec![
        page_write(page(a, 10)),
        page_write(PageRow { status: None, outcome: "gone".to_owned(), ..page(a, 20) }),
        page_write(unchanged),
        Write::Links(LinksOut { fingerprint: fingerprint(a), at_ms: 10, links, canonical: None }),
        Write::Capture(CaptureRow { content_hash: Some("ab".to_owned()), ..capture(a, 10, at(0)) }),
        Write::Capture(CaptureRow { is_revisit: true, ..capture(a, 30, (FILE, 1, 1)) }),
        page_write(page("https://large.example/", 10)),
        Write::Capture(capture("https://large.example/", 10, at(1))),
        page_write(page("https://open.example/", 10)),
        Write::Capture(capture("https://open.example/", 10, ("default/default-b.warc.gz", 0, 10))),
        page_write(page("https://damaged.example/", 10)),
        Write::Capture(capture("https://damaged.example/", 10, (FILE, 3, 10))),
        page_write(page("https://plain.example/", 10)),
    ];
    writes.extend(redirect("https://old.example/", "https://a.example/#top"));
    writes.extend(redirect("https://left.example/", "https://right.example/"));
    writes.extend(redirect("https://right.example/", "https://left.example/"));
    writes.extend(redirect("https://away.example/", "https://elsewhere.example/"));
    store.write(writes).await.unwrap();
}

/// Settings of a small server.
pub(crate) fn config() -> UrlstoreConfig {
    UrlstoreConfig { max_content_bytes: 1000, ..UrlstoreConfig::default() }
}

pub(crate) fn api(store: Arc<dyn Store>, archive: Option<&Path>, config: &UrlstoreConfig) -> Arc<Api> {
    let archive = archive.map(|dir| Archive::Directory(dir.to_owned()));
    let metrics = UrlstoreMetrics::register(&prometheus::Registry::new()).unwrap();
    Api::new(config, Sources { store, archive, policy: Policy::STANDARD, live: None }, metrics)
}

/// A filled store in memory, behind the API.
pub(crate) async fn world() -> (tempfile::TempDir, Router) {
    let (dir, store) = (tempfile::tempdir().unwrap(), Arc::new(MemoryStore::new()));
    fill(&*store, dir.path()).await;
    let router = router(api(store, Some(dir.path()), &config()));
    (dir, router)
}

/// Response with its whole body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

pub(crate) async fn send(router: &Router, request: Request<Body>) -> Answer {
    let (parts, body) = router.clone().oneshot(request).await.unwrap().into_parts();
    let body = to_bytes(body, 64 << 20).await.unwrap().to_vec();
    Answer { status: parts.status.as_u16(), headers: parts.headers, body }
}

/// Returns a request of this machine.
pub(crate) fn request(method: &str, target: &str, body: &str) -> Request<Body> {
    let request = Request::builder().method(method).uri(target).header("host", "localhost:9480");
    request.header("content-type", "application/json").body(Body::from(body.to_owned())).unwrap()
}

pub(crate) async fn get(router: &Router, target: &str) -> Answer {
    send(router, request("GET", target, "")).await
}

/// Store whose reads fail, or never end without an error.
#[derive(Debug)]
pub(crate) struct Failing {
    error: Option<StoreError>,
    /// Notified by each read.
    pub(crate) reads: Notify,
}

impl Failing {
    pub(crate) fn new(error: Option<StoreError>) -> Arc<Self> {
        Arc::new(Self { error, reads: Notify::new() })
    }

    fn read<T: Send + 'static>(&self) -> BoxFuture<'_, Result<T, StoreError>> {
        self.reads.notify_one();
        match self.error.clone() {
            Some(error) => futures::future::ready(Err(error)).boxed(),
            None => futures::future::pending().boxed(),
        }
    }
}

impl Store for Failing {
    fn write_shared(&self, _: Arc<[Write]>) -> BoxFuture<'_, Result<(), StoreError>> {
        unreachable!("the API does not write")
    }

    fn page(&self, _: Fingerprint) -> BoxFuture<'_, Result<Option<PageRow>, StoreError>> {
        self.read()
    }

    fn history(&self, _: Fingerprint, _: usize) -> BoxFuture<'_, Result<Vec<FetchEvent>, StoreError>> {
        self.read()
    }

    fn links(&self, _: Fingerprint) -> BoxFuture<'_, Result<Option<LinksOut>, StoreError>> {
        self.read()
    }

    fn redirect(&self, _: Fingerprint) -> BoxFuture<'_, Result<Option<RedirectRow>, StoreError>> {
        self.read()
    }

    fn robots<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<RobotsRow>, StoreError>> {
        self.read()
    }

    fn captures(&self, _: Fingerprint, _: usize) -> BoxFuture<'_, Result<Vec<CaptureRow>, StoreError>> {
        self.read()
    }

    fn content<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<ContentRow>, StoreError>> {
        self.read()
    }

    fn site_pages<'a>(
        &'a self,
        _: &'a CrawlName,
        _: &'a str,
        _: Option<Fingerprint>,
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<SitePage>, StoreError>> {
        self.read()
    }
}
