//! An archiver on an embedded log, with real files.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::TryStreamExt as _;
use object_store::{ObjectStore as _, ObjectStoreExt as _};
use orbweaver_archiver::{
    ArchiverConfig, ArchiverMetrics, ArchiverStage, CloseFiles, FileWorker, PAGE_HEADER,
    job::{ArchiveDone, ArchiveJob},
};
use orbweaver_bucket::faulty::{Fault, Faulty, Objects};
use orbweaver_log::{
    Cleanup, ConsumerRecord, EmbeddedLog, Log, Options, Record, TopicPartition, TopicSpec, read_up_to,
};
use orbweaver_messages::{
    ArchiveFile, BodyEncoding, Capture, Page, PageKind, Topic, Truncated, UrlContext, decode, encode, topic,
};
use orbweaver_stage::{Runner, RunnerConfig, StageError, Worker};
use orbweaver_store::{MemoryStore, Store as _, StoreWriter};
use orbweaver_url::Fingerprint;
use prometheus::Registry;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::{
    sync::mpsc::{UnboundedSender, unbounded_channel},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::warc::{WarcRecord, check_index, files_below, records_of};

pub(crate) const PARTITIONS: u32 = 2;
/// Size of the parts of objects, of which larger files have several.
pub(crate) const PART_BYTES: usize = 1200;
const GROUP: &str = "archiver";

/// A log, and the directory of an archive.
pub(crate) struct Bench {
    pub(crate) dir: TempDir,
    pub(crate) log: Arc<EmbeddedLog>,
    pub(crate) store: Arc<MemoryStore>,
    /// Objects, if files are uploaded.
    pub(crate) objects: Option<Arc<Objects>>,
}

/// A step after which nothing is carried out any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Never,
    /// Files are durable, and neither in the store nor in the log.
    BeforeUpload,
    /// Files are durable and in the store, and have no entry.
    BeforeEntry,
    /// Files have an entry, and not their final names.
    BeforeRename,
}

/// Worker that stops at a step.
struct StoppingWorker {
    worker: FileWorker,
    stop: Stop,
    is_uploading: bool,
    state: Arc<WorkerState>,
}

#[derive(Debug, Default)]
struct WorkerState {
    /// Jobs in progress.
    running: AtomicUsize,
    is_stopped: AtomicBool,
}

impl Worker<ArchiveJob, ArchiveDone> for StoppingWorker {
    fn start(&self, job: ArchiveJob, results: &UnboundedSender<ArchiveDone>) {
        let is_next = match self.stop {
            Stop::BeforeUpload => matches!(job, ArchiveJob::Upload { .. }),
            Stop::BeforeRename => matches!(job, ArchiveJob::Publish { .. }),
            Stop::Never | Stop::BeforeEntry => false,
        };
        if is_next {
            self.state.is_stopped.store(true, Ordering::SeqCst);
            return;
        }
        let is_last = self.stop == Stop::BeforeEntry
            && if self.is_uploading {
                matches!(job, ArchiveJob::Upload { .. })
            } else {
                matches!(job, ArchiveJob::Finish(_))
            };
        self.state.running.fetch_add(1, Ordering::SeqCst);
        let (own, mut done) = unbounded_channel();
        self.worker.start(job, &own);
        let (results, state) = (results.clone(), Arc::clone(&self.state));
        tokio::spawn(async move {
            let done = done.recv().await.unwrap();
            if is_last {
                state.is_stopped.store(true, Ordering::SeqCst);
            } else {
                let _ = results.send(done);
            }
            state.running.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

/// A running archiver.
pub(crate) struct Running {
    task: JoinHandle<Result<(), StageError>>,
    shutdown: CancellationToken,
    closer: CloseFiles,
    state: Arc<WorkerState>,
}

impl Running {
    /// Ends the stage at once, and waits only for the jobs in progress, which have no effect on it.
    pub(crate) async fn crash(self) {
        self.task.abort();
        let _ = self.task.await;
        until("the jobs end", async || self.state.running.load(Ordering::SeqCst) == 0).await;
    }

    /// Requests that all open files be closed.
    pub(crate) fn close_files(&self) {
        self.closer.request();
    }

    /// Closes files until the stage ends; returns its error.
    pub(crate) async fn error_of_closing(self) -> String {
        until("the stage ends", async || {
            self.closer.request();
            self.task.is_finished()
        })
        .await;
        self.error().await
    }

    pub(crate) async fn shut_down(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }

    /// Returns the error with which the stage ends.
    pub(crate) async fn error(self) -> String {
        let ended = tokio::time::timeout(Duration::from_secs(60), self.task).await.unwrap();
        ended.unwrap().unwrap_err().to_string()
    }

    pub(crate) async fn stopped(&self) {
        until("the worker stops", async || {
            self.closer.request();
            self.state.is_stopped.load(Ordering::SeqCst)
        })
        .await;
    }
}

/// Polls a condition.
pub(crate) async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let polled = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), polled).await.is_ok(), "not in time: {what}");
}

impl Bench {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let topics =
            [(topic::PAGES, Cleanup::Delete), (topic::ARCHIVE, Cleanup::Keep), (topic::DEAD_LETTERS, Cleanup::Delete)];
        let specs = topics.map(|(topic, cleanup)| TopicSpec::new(topic, PARTITIONS, cleanup));
        let log = EmbeddedLog::open(dir.path().join("log"), Options::default(), &specs).unwrap();
        Self { log: Arc::new(log), dir, store: Arc::default(), objects: None }
    }

    /// Creates one whose files are uploaded.
    pub(crate) fn with_store() -> Self {
        Self { objects: Some(Arc::default()), ..Self::new() }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("some/archive")
    }

    pub(crate) fn start(&self, stop: Stop) -> Running {
        self.start_with(stop, Fault::None)
    }

    /// Starts an archiver whose store has a fault.
    pub(crate) fn start_with(&self, stop: Stop, fault: Fault) -> Running {
        let upload = self.objects.is_some().then(|| "s3://results/some/archive".to_owned());
        let config = ArchiverConfig { directory: self.root(), upload, threads: 2, ..ArchiverConfig::default() };
        let metrics = ArchiverMetrics::register(&Registry::new()).unwrap();
        let state = Arc::<WorkerState>::default();
        let worker = match &self.objects {
            None => FileWorker::open(&config, metrics.clone()),
            Some(objects) => FileWorker::on_store(&config, metrics.clone(), (Faulty::new(objects, fault), PART_BYTES)),
        };
        let is_uploading = self.objects.is_some();
        let worker = StoppingWorker { worker: worker.unwrap(), stop, is_uploading, state: Arc::clone(&state) };
        let stage = ArchiverStage::new(&config, metrics);
        let (closer, shutdown) = (stage.closer(), CancellationToken::new());
        let log: Arc<dyn Log> = self.log.clone();
        let runner = Runner::new(stage, log, worker, StoreWriter::new(self.store.clone()), RunnerConfig::default());
        let task = tokio::spawn(runner.run(shutdown.clone()));
        Running { task, shutdown, closer, state }
    }

    pub(crate) async fn append(&self, pages: Vec<Record>) {
        self.log.append(pages).await.unwrap();
    }

    /// Waits until all records are complete and committed; closes files meanwhile.
    pub(crate) async fn caught_up(&self, running: &Running) {
        until("all records are committed", async || {
            running.closer.request();
            let mut is_caught_up = true;
            for partition in 0..PARTITIONS {
                let tp = TopicPartition::new(topic::PAGES, partition);
                let end = self.log.bounds(tp).await.unwrap().end;
                let commit = self.log.committed(GROUP, &[tp]).await.unwrap().remove(0);
                is_caught_up &= commit.map_or(0, |commit| commit.offset) == end;
            }
            is_caught_up
        })
        .await;
    }

    /// Returns all records of a topic.
    pub(crate) async fn records(&self, topic: Topic) -> Vec<ConsumerRecord> {
        let mut records = vec![];
        for partition in 0..PARTITIONS {
            let tp = TopicPartition::new(topic, partition);
            let bounds = self.log.bounds(tp).await.unwrap();
            read_up_to(&*self.log, tp, 0, bounds, |record| records.push(record)).await.unwrap();
        }
        records
    }

    /// Returns the entries of files.
    pub(crate) async fn entries(&self) -> Vec<ArchiveFile> {
        let records = self.records(topic::ARCHIVE).await.into_iter().filter(|record| record.header("claim").is_none());
        records.map(|record| decode("archive-file", record.value.as_ref()).unwrap()).collect()
    }

    /// Returns the files of the archive in order, by path, from the store if they are uploaded.
    pub(crate) async fn files(&self) -> Vec<(String, Vec<u8>)> {
        let Some(objects) = &self.objects else {
            let files = files_below(&self.root()).into_iter();
            return files.map(|file| (file.clone(), std::fs::read(self.root().join(file)).unwrap())).collect();
        };
        assert_eq!(files_below(&self.root()), Vec::<String>::new(), "files that are uploaded are deleted");
        let mut files = vec![];
        for object in objects.memory.list(None).try_collect::<Vec<_>>().await.unwrap() {
            let content = objects.memory.get(&object.location).await.unwrap().bytes().await.unwrap();
            let path = object.location.as_ref().strip_prefix("some/archive/").unwrap().to_owned();
            files.push((path, content.to_vec()));
        }
        files.sort_unstable();
        files
    }

    /// Returns the URLs of the archived responses in order, each with the directory of its file; checks that the files are
    /// those that have an entry, each with its index, and that the store has the location of each response.
    pub(crate) async fn archived(&self) -> Vec<(String, String)> {
        let (files, indexes): (Vec<_>, Vec<_>) =
            self.files().await.into_iter().partition(|(file, _)| file.ends_with(".warc.gz"));
        let names_of_indexes = files.iter().map(|(file, _)| file.replace(".warc.gz", ".cdxj"));
        assert!(indexes.iter().map(|(index, _)| index.clone()).eq(names_of_indexes), "{indexes:?}");
        let mut entries = self.entries().await;
        entries.sort_unstable_by(|a, b| a.file.cmp(&b.file));
        let described = files.iter().map(|(file, content)| (file.clone(), content.len() as u64, Some(sha256(content))));
        let entries: Vec<_> = entries.into_iter().map(|entry| (entry.file, entry.bytes, entry.sha256)).collect();
        assert_eq!(described.collect::<Vec<_>>(), entries);
        let mut urls = vec![];
        for ((file, content), (_, index)) in files.into_iter().zip(indexes) {
            let directory = file.split_once('/').unwrap().0.to_owned();
            let records = records_of(&content);
            assert_eq!(records[0].field("WARC-Type"), "warcinfo");
            check_index(&file, &records, &String::from_utf8(index).unwrap());
            for record in records.iter().filter(|record| record.field("WARC-Type") == "response") {
                self.check_location(&directory, &file, record).await;
                urls.push((directory.clone(), record.field("WARC-Target-URI").to_owned()));
            }
        }
        urls.sort_unstable();
        urls
    }
}

impl Bench {
    /// Checks that the store has the location of a response, and leads from its content to it.
    async fn check_location(&self, crawl: &str, file: &str, record: &WarcRecord) {
        let url = record.field("WARC-Target-URI");
        let fingerprint = Fingerprint::of(&crawl.parse().unwrap(), url);
        let rows = self.store.captures(fingerprint, 10).await.unwrap();
        let located: Vec<_> = rows.iter().map(|row| (row.file.as_str(), row.offset, row.length)).collect();
        assert_eq!(located, [(file, record.location.0 as u64, record.location.1 as u64)], "{url}");
    }
}

fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes a page with a capture.
pub(crate) fn page(crawl: &str, url: &str) -> Page {
    let capture = Capture {
        requested_at_ms: 1_700_000_000_000,
        answered_at_ms: 1_700_000_000_100,
        address: Some("192.0.2.7".to_owned()),
        request_headers: vec![("user-agent".to_owned(), "orbweaver".to_owned())],
        ..Capture::default()
    };
    Page {
        context: UrlContext::of_seed(crawl.parse().unwrap(), url.to_owned(), "a.test".into()),
        kind: PageKind::Html,
        status: 200,
        content_type: Some("text/html".to_owned()),
        headers: vec![("content-type".to_owned(), "text/html".to_owned())],
        fetched_at_ms: 1_700_000_000_250,
        written_at_ms: None,
        visited_at_ms: None,
        encoding: BodyEncoding::Zstd,
        body_bytes: 1000,
        content_encoding: None,
        encoded_bytes: None,
        truncated: Truncated::default(),
        content_hash: "0".repeat(32),
        attempt: 1,
        agent: None,
        html: None,
        main_text: None,
        markdown: None,
        facts: None,
        other_links: None,
        near_duplicates: None,
        feeds: false,
        requisites: None,
        capture: Some(Box::new(capture)),
    }
}

/// Makes a record of `crawl.pages`; the body is encoded as the page declares.
pub(crate) fn record(partition: u32, page: &Page, body: &str) -> Record {
    let value = match page.encoding {
        BodyEncoding::Identity => body.as_bytes().to_vec(),
        BodyEncoding::Zstd => zstd::bulk::compress(body.as_bytes(), 3).unwrap(),
    };
    Record {
        tp: TopicPartition::new(topic::PAGES, partition),
        key: Some(Bytes::from_static(b"a.test")),
        value: Some(value.into()),
        headers: vec![(PAGE_HEADER, encode(page))],
        timestamp_ms: 1_700_000_000_300,
    }
}
