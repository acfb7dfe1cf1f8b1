//! The result files: their lines, index and checkpoint.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use orbweaver_log::{Bounds, ConsumerRecord, Log, Offset, TopicPartition, topic_partitions};
use orbweaver_messages::{
    CRAWL_HEADER, DiscoveryKind, FINGERPRINT_HEADER, NEAR_DUPLICATE_HEADER, NEEDS_RENDER_HEADER, Outcome, OutcomeKind,
    PageChange, VISIT_HEADER, decode,
    topic::{CHANGES, DOCUMENTS},
};
use orbweaver_url::{CrawlName, Fingerprint};
use serde::{Deserialize, Serialize};

use super::{
    Checkpoint, ExportError, ExportView, Source, TOPICS,
    index::{DocumentPosition, Index, Kind, Visit},
    lines::Lines,
    rfc3339,
};
use crate::durable::{read_whole, sync_dir, write_whole};

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
    /// `None` for a requisite or an external URL.
    depth: Option<u16>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    requisite: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    external: bool,
    via: Option<&'a str>,
    attempts: u8,
    time: String,
    /// Milliseconds from the last request to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    fetch_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fetched_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<&'a str>,
}

/// Makes a checkpoint durable; may block.
pub(super) type Save = Box<dyn FnOnce() -> Result<(), ExportError> + Send>;

/// A line of `changes.jsonl`.
#[derive(Serialize)]
struct ChangeLine<'a> {
    url: &'a str,
    change: &'static str,
    visit: u32,
    status: Option<u16>,
    time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_hash: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_hash: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text_changed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_time: Option<String>,
}

/// `documents.jsonl`, `urls.jsonl` and `changes.jsonl`.
pub(super) struct ResultFiles {
    /// Lines of each file, by [`Kind`].
    lines: [Lines; 3],
    index: Index,
    checkpoint: Checkpoint,
    /// Next offset to take, by topic-partition.
    positions: BTreeMap<TopicPartition, Offset>,
    checkpoint_path: PathBuf,
    out: PathBuf,
    view: Arc<ExportView>,
    /// Crawl whose results are written; `None`: all crawls.
    crawl: Option<CrawlName>,
}

impl ResultFiles {
    /// Opens the files in `out` at their last checkpoint, for the results from `source`. Also returns the
    /// topic-partitions of which nothing was taken yet.
    pub(super) async fn open(
        log: &dyn Log,
        out: &Path,
        view: Arc<ExportView>,
        source: Source<'_>,
    ) -> Result<(Self, BTreeSet<TopicPartition>), ExportError> {
        let state = out.join("state");
        let checkpoint_path = state.join("export.json");
        let mut checkpoint: Checkpoint = read_whole(&checkpoint_path)?.unwrap_or_default();
        checkpoint.begin_run();
        let Positions { positions, unread } = within_the_log(&checkpoint, log, source.at_rest).await?;
        checkpoint.set_positions(&positions);
        write_whole(&checkpoint_path, &checkpoint)?;
        view.set(&checkpoint.tally);
        let [documents, urls, changes] = checkpoint.lengths();
        let lines = |kind: Kind, length| {
            let path = out.join(kind.file());
            // Most crawls have no changes.
            let open = if let Kind::Changes = kind { Lines::open_later } else { Lines::open };
            open(&path, length).map_err(|source| ExportError::File { path, source })
        };
        let lines = [lines(Kind::Documents, documents)?, lines(Kind::Urls, urls)?, lines(Kind::Changes, changes)?];
        // Before a checkpoint relies on these files: a synced file is lost if its name is not durable.
        sync_dir(out).map_err(|source| ExportError::File { path: out.to_owned(), source })?;
        let index = Index::open(&state.join("exported"))?;
        let (out, crawl) = (out.to_owned(), source.crawl.cloned());
        let files = Self { lines, index, checkpoint, positions, checkpoint_path, out, view, crawl };
        Ok((files, unread))
    }

    /// Returns the next offset to take, by topic-partition.
    pub(super) fn positions(&self) -> &BTreeMap<TopicPartition, Offset> {
        &self.positions
    }

    /// Skips records that were deleted.
    pub(super) fn skip_to(&mut self, tp: TopicPartition, start: Offset) {
        self.positions.insert(tp, start);
    }

    /// Publishes the counts.
    pub(super) fn show(&self) {
        self.view.set(&self.checkpoint.tally);
    }

    /// Takes the line of a record. Returns the reason if the record is not valid.
    pub(super) fn take(&mut self, record: &ConsumerRecord) -> Result<Result<(), String>, ExportError> {
        let position = self.positions.entry(record.tp).or_default();
        if record.offset < *position {
            return Ok(Ok(()));
        }
        *position = record.offset + 1;
        match record.tp.topic {
            DOCUMENTS => self.take_document(record),
            CHANGES => self.take_change(record),
            _ => self.take_outcome(record),
        }
    }

    fn take_document(&mut self, record: &ConsumerRecord) -> Result<Result<(), String>, ExportError> {
        let (visit, crawl) = match names_of(record) {
            Ok(names) => names,
            Err(reason) => return Ok(Err(reason)),
        };
        let value = record.value.as_deref().unwrap_or_default();
        if self.is_wanted(&crawl) && self.add(Kind::Documents, visit, || value.to_vec())? {
            self.checkpoint.tally.documents += 1;
            let has = |name| u64::from(record.header(name).is_some());
            self.checkpoint.tally.needs_render += has(NEEDS_RENDER_HEADER);
            self.checkpoint.tally.near_duplicates += has(NEAR_DUPLICATE_HEADER);
        }
        Ok(Ok(()))
    }

    fn take_change(&mut self, record: &ConsumerRecord) -> Result<Result<(), String>, ExportError> {
        let change: PageChange = match decode("page-change", record.value.as_ref()) {
            Ok(change) => change,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let context = &change.context;
        if self.is_wanted(&context.crawl)
            && self.add(Kind::Changes, (context.fingerprint, context.visit), || line(&change_line(&change)))?
        {
            self.checkpoint.tally.changed(change.kind);
        }
        Ok(Ok(()))
    }

    fn take_outcome(&mut self, record: &ConsumerRecord) -> Result<Result<(), String>, ExportError> {
        let outcome: Outcome = match decode("outcome", record.value.as_ref()) {
            Ok(outcome) => outcome,
            Err(error) => return Ok(Err(error.to_string())),
        };
        if !self.is_wanted(&outcome.context.crawl) {
            return Ok(Ok(()));
        }
        if !outcome.kind.is_terminal() {
            self.checkpoint.tally.passed(&outcome);
        } else {
            // A requisite or an external URL that becomes a page has another line as such.
            let number = match outcome.context.sighting {
                DiscoveryKind::Requisite => u32::MAX,
                DiscoveryKind::External => u32::MAX - 1,
                _ => outcome.context.visit,
            };
            let visit = (outcome.context.fingerprint, number);
            if self.add(Kind::Urls, visit, || line(&url_line(&outcome)))? {
                self.checkpoint.tally.ended(&outcome);
            }
        }
        Ok(Ok(()))
    }

    /// Adds the line of a visit to a file. Returns `false` if it has one already.
    fn add(&mut self, kind: Kind, visit: Visit, line: impl FnOnce() -> Vec<u8>) -> Result<bool, ExportError> {
        if !self.is_new(kind, visit)? {
            return Ok(false);
        }
        self.lines[kind as usize].add(&line()).map_err(|source| self.failed(kind.file(), source))?;
        Ok(true)
    }

    fn is_wanted(&self, crawl: &CrawlName) -> bool {
        self.crawl.as_ref().is_none_or(|wanted| wanted == crawl)
    }

    /// Returns `true` if this visit has no line yet, and then stores the start of its line, to be written next.
    fn is_new(&mut self, kind: Kind, visit: Visit) -> Result<bool, ExportError> {
        if let Some(written_at) = self.index.written_at(kind, visit)? {
            let length = self.checkpoint.end_of(written_at.run, kind as usize);
            if length.is_none_or(|length| written_at.position < length) {
                return Ok(false);
            }
        }
        let position = self.lines[kind as usize].length();
        self.index.insert(kind, visit, DocumentPosition { run: self.checkpoint.run(), position })?;
        Ok(true)
    }

    /// Writes all lines, and returns what makes a checkpoint of them: it syncs the files and the index first, then
    /// replaces the checkpoint.
    pub(super) fn save(&mut self) -> Result<Save, ExportError> {
        self.checkpoint.set_positions(&self.positions);
        self.checkpoint.set_lengths(self.lines.each_ref().map(Lines::length));
        let mut synced = vec![];
        for kind in Kind::ALL {
            let file = self.lines[kind as usize].flush().map_err(|source| self.failed(kind.file(), source))?;
            synced.extend(file.map(|file| (self.out.join(kind.file()), file)));
        }
        let persist = self.index.persister()?;
        let (checkpoint, path) = (self.checkpoint.clone(), self.checkpoint_path.clone());
        Ok(Box::new(move || {
            for (path, file) in synced {
                file.sync_data().map_err(|source| ExportError::File { path, source })?;
            }
            persist()?;
            Ok(write_whole(&path, &checkpoint)?)
        }))
    }

    fn failed(&self, name: &str, source: io::Error) -> ExportError {
        ExportError::File { path: self.out.join(name), source }
    }
}

/// Next offsets to take.
struct Positions {
    positions: BTreeMap<TopicPartition, Offset>,
    /// Topic-partitions of which nothing was taken yet.
    unread: BTreeSet<TopicPartition>,
}

/// Returns the positions of the checkpoint, adjusted to the log; of a topic-partition of which nothing was taken, the
/// log start. After a power cut the log may have lost up to a second more than these files: records at reassigned
/// offsets are read again, and the index knows which of them have a line.
async fn within_the_log(checkpoint: &Checkpoint, log: &dyn Log, at_rest: bool) -> Result<Positions, ExportError> {
    let (mut positions, mut unread) = (BTreeMap::new(), BTreeSet::new());
    for tp in topic_partitions(log, TOPICS)? {
        let Bounds { start, end } = log.bounds(tp).await?;
        let position = match checkpoint.position(tp) {
            Some(position) if position < start && !at_rest => {
                return Err(ExportError::FellBehind { tp, position, start });
            }
            Some(position) => position.clamp(start, end),
            None => {
                unread.insert(tp);
                start
            }
        };
        positions.insert(tp, position);
    }
    Ok(Positions { positions, unread })
}

/// Returns visit and crawl of a document, or the reason why it is not valid.
fn names_of(record: &ConsumerRecord) -> Result<(Visit, CrawlName), String> {
    #[derive(Deserialize)]
    struct Named {
        fingerprint: Fingerprint,
        #[serde(default)]
        visit: u32,
        #[serde(default)]
        crawl: CrawlName,
    }
    if let Some(names) = names_in_headers(record) {
        return Ok(names);
    }
    let named: Named = decode("document", record.value.as_ref()).map_err(|error| error.to_string())?;
    Ok(((named.fingerprint, named.visit), named.crawl))
}

/// Returns visit and crawl from the headers, which avoids parsing; records of earlier versions lack them. Returns
/// `None` for a value that would break the line format, which is left to the parser.
fn names_in_headers(record: &ConsumerRecord) -> Option<(Visit, CrawlName)> {
    let text = |name| std::str::from_utf8(record.header(name)?).ok();
    let value = record.value.as_deref().filter(|value| value.starts_with(b"{") && value.ends_with(b"}"))?;
    // Absent at the first visit.
    let visit = text(VISIT_HEADER).map_or(Ok(0), str::parse).ok()?;
    let names = ((text(FINGERPRINT_HEADER)?.parse().ok()?, visit), text(CRAWL_HEADER)?.parse().ok()?);
    (!value.contains(&b'\n')).then_some(names)
}

#[allow(clippy::expect_used, reason = "texts and numbers always serialize")]
fn line(line: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(line).expect("texts and numbers serialize")
}

fn change_line(change: &PageChange) -> ChangeLine<'_> {
    ChangeLine {
        url: change.context.key(),
        change: change.kind.name(),
        visit: change.context.visit,
        status: change.status,
        time: rfc3339(change.at_ms),
        content_hash: change.version.content_hash.as_deref(),
        previous_hash: change.previous_hash.as_deref(),
        text_changed: change.text_changed,
        previous_time: change.previous_at_ms.map(rfc3339),
    }
}

fn url_line(outcome: &Outcome) -> UrlLine<'_> {
    let sighting = outcome.context.sighting;
    UrlLine {
        url: outcome.context.key(),
        outcome: outcome.kind,
        reason: outcome.reason.as_deref(),
        status: outcome.status,
        content_type: outcome.content_type.as_deref(),
        bytes: outcome.bytes,
        depth: sighting.is_page().then_some(outcome.context.depth),
        requisite: sighting == DiscoveryKind::Requisite,
        external: sighting == DiscoveryKind::External,
        via: outcome.context.via.as_deref(),
        attempts: outcome.attempt,
        time: rfc3339(outcome.ended_at_ms),
        fetch_ms: outcome
            .requested_at_ms
            .and_then(|start| u64::try_from(outcome.ended_at_ms.saturating_sub(start)).ok()),
        fetched_url: outcome.context.key.is_some().then_some(&*outcome.context.url),
        location: outcome.location.as_deref(),
    }
}
