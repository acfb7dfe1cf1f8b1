//! Reads the log and writes the result files.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::BoxFuture;
use orbweaver_log::{Bounds, Commit, Consumer, ConsumerRecord, Event, Log, LogError, Offset, TopicPartition};
use orbweaver_messages::{
    CRAWL_HEADER, FINGERPRINT_HEADER, Millis, Outcome, OutcomeKind, Topic, decode,
    topic::{DOCUMENTS, OUTCOMES},
};
use orbweaver_url::Fingerprint;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::{
    Checkpoint, ExportView,
    index::{DocumentPosition, Index, Kind},
    lines::Lines,
};
use crate::{
    durable::{sync_dir, write_whole},
    exit::Failure,
};

/// Consumer group that writes the files of a crawl in one process. On a cluster each directory has a group of its own,
/// whose name begins with this one.
pub const GROUP: &str = "exporter";
/// Topics that the group reads.
pub const TOPICS: &[Topic] = &[OUTCOMES, DOCUMENTS];

/// Interval between two checkpoints while records arrive.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);
/// Idle time after which a checkpoint is written at once, since the crawl may be complete.
const IDLE: Duration = Duration::from_millis(20);

/// Reason why the files could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A file cannot be written.
    #[error("{path}: {source}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The index failed.
    #[error("the index of the exported lines failed: {0}")]
    Index(#[from] fjall::Error),
    /// The checkpoint cannot be written.
    #[error("{0}")]
    Checkpoint(String),
    /// The log no longer holds all records that these files lack.
    #[error(
        "{tp}: the records from {position} to {start} were deleted before they were collected, and may have been \
         results of this crawl: records are retained for a directory only until its crawl is complete or at its cap; \
         the files are unchanged; give another --out to collect the remaining and all future records"
    )]
    FellBehind {
        /// Partition of the missing records.
        tp: TopicPartition,
        /// Next offset to read.
        position: Offset,
        /// First offset that the log holds.
        start: Offset,
    },
    /// Another process now collects in the same group.
    #[error(
        "another process, such as that of a copy of this directory, joined its consumer group and took {taken} of \
         {of} partitions; stop one of the two"
    )]
    Taken {
        /// Partitions that this process had.
        of: usize,
        /// Partitions that went to the other process.
        taken: usize,
    },
}

impl From<Failure> for ExportError {
    fn from(failure: Failure) -> Self {
        Self::Checkpoint(failure.to_string())
    }
}

/// A line of `urls.jsonl`.
#[derive(Serialize)]
struct UrlLine<'a> {
    url: &'a str,
    outcome: OutcomeKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    status: Option<u16>,
    content_type: Option<&'a str>,
    bytes: u64,
    depth: u16,
    via: Option<&'a str>,
    attempts: u8,
    time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fetched_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<&'a str>,
}

type Saving = BoxFuture<'static, Result<Vec<(TopicPartition, Commit)>, ExportError>>;

/// Input of an exporter.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    pub group: &'a str,
    /// Crawl whose results are written; `None`: all crawls.
    pub crawl: Option<&'a str>,
    /// Whether records that were deleted since the last checkpoint cannot be results of the crawl.
    pub at_rest: bool,
}

/// Writes `documents.jsonl` and `urls.jsonl`.
pub struct Exporter {
    consumer: Box<dyn Consumer>,
    documents: Lines,
    urls: Lines,
    index: Index,
    checkpoint: Checkpoint,
    positions: BTreeMap<TopicPartition, Offset>,
    checkpoint_path: PathBuf,
    out: PathBuf,
    view: Arc<ExportView>,
    dirty: bool,
    /// Crawl whose results are written; `None`: all crawls.
    crawl: Option<String>,
    /// Partitions of which nothing has been read, before or during this run.
    unread: BTreeSet<TopicPartition>,
}

impl Exporter {
    /// Opens the files of the only crawl of a log, in `out`, at their last checkpoint.
    pub async fn open(log: &dyn Log, out: &Path, view: Arc<ExportView>) -> Result<Self, ExportError> {
        Self::of(log, out, view, Source { group: GROUP, crawl: None, at_rest: false }).await
    }

    /// Opens the files in `out` at their last checkpoint, for the results from `source`.
    ///
    /// # Errors
    /// Fails if the log, a file or the index cannot be opened, or records that the files lack were deleted.
    pub async fn of(log: &dyn Log, out: &Path, view: Arc<ExportView>, source: Source<'_>) -> Result<Self, ExportError> {
        let state = out.join("state");
        let checkpoint_path = state.join("export.json");
        let mut checkpoint = Checkpoint::read(&checkpoint_path)?;
        checkpoint.begin_run();
        let unread = within_the_log(&mut checkpoint, log, source.at_rest).await?;
        write_whole(&checkpoint_path, &checkpoint)?;
        view.set(&checkpoint.tally);
        let lines = |name: &str, length| {
            let path = out.join(name);
            Lines::open(&path, length).map_err(|source| ExportError::File { path, source })
        };
        let documents = lines("documents.jsonl", checkpoint.documents_bytes)?;
        let urls = lines("urls.jsonl", checkpoint.urls_bytes)?;
        // Before a checkpoint relies on these files: a synced file is lost if its name is not durable.
        sync_dir(out).map_err(|source| ExportError::File { path: out.to_owned(), source })?;
        Ok(Self {
            consumer: log.consumer(source.group, TOPICS)?,
            documents,
            urls,
            index: Index::open(&state.join("exported"))?,
            checkpoint,
            positions: BTreeMap::new(),
            checkpoint_path,
            out: out.to_owned(),
            view,
            dirty: false,
            crawl: source.crawl.map(str::to_owned),
            unread,
        })
    }

    /// Writes all that the log holds now. For the start, when nothing else runs, so that the tally is exact.
    pub async fn catch_up(&mut self) -> Result<(), ExportError> {
        while let Some(event) = self.poll(IDLE).await? {
            self.handle(event)?;
        }
        self.save_now().await
    }

    async fn poll(&mut self, wait: Duration) -> Result<Option<Event>, ExportError> {
        match self.consumer.poll(wait).await {
            Ok(event) => Ok(event),
            Err(error) => self.skip(error).map(|()| Some(Event::Records(vec![]))),
        }
    }

    fn start(&mut self, tp: TopicPartition, from: Offset) -> Result<(), ExportError> {
        self.positions.insert(tp, from);
        self.consumer.start(tp, from).or_else(|error| self.skip(error))
    }

    /// Starts a partition after records that were deleted before the first one was read: a sweep that does not know of
    /// the group yet may still delete. The files begin there, as if they had been created later.
    fn skip(&mut self, error: LogError) -> Result<(), ExportError> {
        match error {
            LogError::OutOfRange { tp, offset, start, .. } if offset < start && self.unread.contains(&tp) => {
                self.start(tp, start)
            }
            error => Err(error.into()),
        }
    }

    /// Writes until `shutdown`, then makes a last checkpoint and leaves the group.
    pub async fn run(mut self, shutdown: CancellationToken) -> Result<(), ExportError> {
        let mut saved = Instant::now();
        let mut saving: Option<Saving> = None;
        loop {
            let wait = if self.dirty { IDLE } else { CHECKPOINT_EVERY };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                // Commits the content of a checkpoint that is already durable, so that the commit is never ahead of it.
                Some(commits) = async { match &mut saving { Some(saving) => Some(saving.await), None => None } } => {
                    saving = None;
                    self.consumer.commit(commits?).await?;
                }
                event = self.poll(wait) => {
                    let idle = event.as_ref().is_ok_and(Option::is_none);
                    if let Some(event) = event? {
                        self.handle(event)?;
                    }
                    if self.dirty && saving.is_none() && (idle || saved.elapsed() >= CHECKPOINT_EVERY) {
                        saved = Instant::now();
                        saving = Some(self.save()?);
                    }
                }
            }
        }
        if let Some(saving) = saving {
            let commits = saving.await?;
            self.consumer.commit(commits).await?;
        }
        // Records that arrived in the meantime.
        self.catch_up().await?;
        Ok(self.consumer.close().await?)
    }

    fn handle(&mut self, event: Event) -> Result<(), ExportError> {
        match event {
            Event::Assigned(tps) => {
                for tp in tps {
                    self.start(tp, self.checkpoint.position(tp))?;
                }
                // So that even an empty partition gets a commit.
                self.dirty = true;
            }
            Event::Records(records) => {
                for record in &records {
                    self.take(record)?;
                }
                self.dirty = true;
                self.view.set(&self.checkpoint.tally);
            }
            // Later records of these partitions go to the files of another process, so these files would lack them.
            Event::Revoked(tps) => {
                self.consumer.release(&tps)?;
                return Err(ExportError::Taken { of: self.positions.len(), taken: tps.len() });
            }
            Event::Lost(tps) => {
                return Err(ExportError::Taken { of: self.positions.len(), taken: tps.len() });
            }
        }
        Ok(())
    }

    fn take(&mut self, record: &ConsumerRecord) -> Result<(), ExportError> {
        record.check_readable()?;
        let taken = if record.tp.topic == DOCUMENTS { self.take_document(record) } else { self.take_outcome(record) };
        self.positions.insert(record.tp, record.offset + 1);
        self.unread.remove(&record.tp);
        taken
    }

    fn take_document(&mut self, record: &ConsumerRecord) -> Result<(), ExportError> {
        let (Some(value), Some((fingerprint, crawl))) = (&record.value, names_of(record)) else {
            tracing::error!(topic_partition = %record.tp, offset = record.offset, "record is not a document; skipped");
            return Ok(());
        };
        if self.crawl.as_ref().is_some_and(|wanted| *wanted != crawl) {
            return Ok(());
        }
        if !self.is_new(Kind::Documents, fingerprint)? {
            return Ok(());
        }
        self.documents.add(value).map_err(|source| self.failed("documents.jsonl", source))?;
        self.checkpoint.tally.documents += 1;
        Ok(())
    }

    fn take_outcome(&mut self, record: &ConsumerRecord) -> Result<(), ExportError> {
        let outcome: Outcome = match decode("outcome", record.value.as_ref()) {
            Ok(outcome) => outcome,
            Err(error) => {
                tracing::error!(topic_partition = %record.tp, offset = record.offset, %error, "outcome is not valid; skipped");
                return Ok(());
            }
        };
        if self.crawl.as_ref().is_some_and(|wanted| *wanted != outcome.context.crawl) {
            return Ok(());
        }
        if !outcome.kind.is_terminal() {
            self.checkpoint.tally.passed(&outcome);
            return Ok(());
        }
        if !self.is_new(Kind::Urls, outcome.context.fingerprint)? {
            return Ok(());
        }
        let line = serde_json::to_vec(&url_line(&outcome)).map_err(|e| self.failed("urls.jsonl", e.into()))?;
        self.urls.add(&line).map_err(|source| self.failed("urls.jsonl", source))?;
        self.checkpoint.tally.ended(&outcome);
        Ok(())
    }

    /// Returns `true` if this fingerprint has no line yet, and then stores the start of its line, to be written next.
    fn is_new(&mut self, kind: Kind, fingerprint: Fingerprint) -> Result<bool, ExportError> {
        if let Some(written_at) = self.index.written_at(kind, fingerprint)? {
            let length = self.checkpoint.end_of(written_at.run).map(|(documents, urls)| match kind {
                Kind::Documents => documents,
                Kind::Urls => urls,
            });
            if length.is_none_or(|length| written_at.position < length) {
                return Ok(false);
            }
        }
        let position = match kind {
            Kind::Documents => self.documents.length(),
            Kind::Urls => self.urls.length(),
        };
        self.index.insert(kind, fingerprint, DocumentPosition { run: self.checkpoint.run(), position })?;
        Ok(true)
    }

    async fn save_now(&mut self) -> Result<(), ExportError> {
        let commits = self.save()?.await?;
        Ok(self.consumer.commit(commits).await?)
    }

    /// Makes a checkpoint: the files and the index first, then the checkpoint itself, each durable before the next.
    fn save(&mut self) -> Result<Saving, ExportError> {
        self.dirty = false;
        for (tp, next) in &self.positions {
            self.checkpoint.advance(*tp, *next);
        }
        self.checkpoint.documents_bytes = self.documents.length();
        self.checkpoint.urls_bytes = self.urls.length();
        let commits: Vec<_> =
            self.positions.iter().map(|(tp, next)| (*tp, Commit { offset: *next, metadata: String::new() })).collect();
        let files = [("documents.jsonl", self.documents.flush()), ("urls.jsonl", self.urls.flush())];
        let mut synced = vec![];
        for (name, file) in files {
            synced.push((self.out.join(name), file.map_err(|source| self.failed(name, source))?));
        }
        let persist = self.index.persister()?;
        let (checkpoint, path) = (self.checkpoint.clone(), self.checkpoint_path.clone());
        let save = move || {
            for (path, file) in synced {
                file.sync_data().map_err(|source| ExportError::File { path, source })?;
            }
            persist()?;
            write_whole(&path, &checkpoint)?;
            Ok(commits)
        };
        let task = tokio::task::spawn_blocking(save);
        Ok(Box::pin(async move { task.await.map_err(|error| ExportError::Checkpoint(error.to_string()))? }))
    }

    fn failed(&self, name: &str, source: io::Error) -> ExportError {
        ExportError::File { path: self.out.join(name), source }
    }
}

/// Adjusts the positions to the log, and returns the partitions of which nothing was read; these start at the log
/// start. After a power cut the log may have lost up to a second more than these files: records at reassigned offsets
/// are read again, and the index knows which of them have a line.
async fn within_the_log(
    checkpoint: &mut Checkpoint,
    log: &dyn Log,
    at_rest: bool,
) -> Result<BTreeSet<TopicPartition>, ExportError> {
    let mut unread = BTreeSet::new();
    for topic in TOPICS {
        for partition in 0..log.partitions(*topic)? {
            let tp = TopicPartition::new(*topic, partition);
            let Bounds { start, end } = log.bounds(tp).await?;
            match checkpoint.known(tp) {
                Some(position) if position < start && !at_rest => {
                    return Err(ExportError::FellBehind { tp, position, start });
                }
                Some(position) => checkpoint.advance(tp, position.clamp(start, end)),
                None => {
                    checkpoint.advance(tp, start);
                    unread.insert(tp);
                }
            }
        }
    }
    Ok(unread)
}

/// Returns fingerprint and crawl of a document.
fn names_of(record: &ConsumerRecord) -> Option<(Fingerprint, String)> {
    #[derive(Deserialize)]
    struct Named {
        fingerprint: Fingerprint,
        #[serde(default)]
        crawl: String,
    }
    if let Some(names) = names_in_headers(record) {
        return Some(names);
    }
    let named = decode::<Named>("document", record.value.as_ref()).ok()?;
    Some((named.fingerprint, named.crawl))
}

/// Returns fingerprint and crawl from the headers, which avoids parsing; records of earlier versions lack them. Returns
/// `None` for a value that would break the line format, which is left to the parser.
fn names_in_headers(record: &ConsumerRecord) -> Option<(Fingerprint, String)> {
    let text = |name| std::str::from_utf8(record.header(name)?).ok();
    let value = record.value.as_deref().filter(|value| value.starts_with(b"{") && value.ends_with(b"}"))?;
    let names = (text(FINGERPRINT_HEADER)?.parse().ok()?, text(CRAWL_HEADER)?.to_owned());
    (!value.contains(&b'\n')).then_some(names)
}

fn url_line(outcome: &Outcome) -> UrlLine<'_> {
    UrlLine {
        url: outcome.context.key(),
        outcome: outcome.kind,
        reason: outcome.reason.as_deref(),
        status: outcome.status,
        content_type: outcome.content_type.as_deref(),
        bytes: outcome.bytes,
        depth: outcome.context.depth,
        via: outcome.context.via.as_deref(),
        attempts: outcome.attempt,
        time: rfc3339(outcome.ended_at_ms),
        fetched_url: outcome.context.key.is_some().then_some(&*outcome.context.url),
        location: outcome.location.as_deref(),
    }
}

/// Formats a time as RFC 3339 in UTC, with milliseconds.
pub fn rfc3339(at: Millis) -> String {
    let since = Duration::from_millis(u64::try_from(at).unwrap_or_default());
    humantime::format_rfc3339_millis(std::time::UNIX_EPOCH + since).to_string()
}
