//! Sources of records: generated, or read from files.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    sync::Arc,
};

use bytes::Bytes;
use orbweaver_log::{ConsumerRecord, Offset, Partition, TopicPartition};
use orbweaver_messages::{Discovered, DiscoveryKind, encode, topic};
use orbweaver_url::{canonical_text, parse, partition_of, site_of, slot_of};

use super::{
    generate::{CRAWL, LINKS, Plan, Stream},
    truth::Truth,
};

/// Maximum number of lines of a file that wait for others of their site.
const WAITING_LINES: usize = 30_000;

/// A record, and its number of URLs.
pub(super) type Made = (ConsumerRecord, u64);

/// Generates the records of some partitions, from the given offsets on.
pub(super) fn generated(plan: Plan, from: BTreeMap<Partition, Offset>) -> impl Iterator<Item = Made> + Send {
    let mut streams: Vec<_> =
        from.into_iter().map(|(partition, from)| (Stream::new(plan, partition), partition, from)).collect();
    let mut turn = 0;
    std::iter::from_fn(move || {
        loop {
            if streams.is_empty() {
                return None;
            }
            turn = (turn + 1) % streams.len();
            let (stream, partition, next) = &mut streams[turn];
            match stream.record(*next) {
                Some(record) => {
                    let made = made(*partition, *next, &record);
                    *next += 1;
                    return Some(made);
                }
                None => drop(streams.swap_remove(turn)),
            }
        }
    })
}

fn made(partition: Partition, offset: Offset, record: &Discovered) -> Made {
    let delivered = ConsumerRecord {
        tp: TopicPartition::new(topic::DISCOVERED, partition),
        offset,
        timestamp_ms: 0,
        key: Some(Bytes::copy_from_slice(record.site.as_bytes())),
        value: Some(encode(record)),
        headers: vec![],
    };
    (delivered, record.urls.len() as u64)
}

/// Records of the URLs in files, one per line; lines of one site keep their order. Lines that are not URLs are skipped.
pub(super) struct OfFiles {
    lines: Box<dyn Iterator<Item = std::io::Result<String>> + Send>,
    truth: Arc<Truth>,
    partitions: Partition,
    from: BTreeMap<Partition, Offset>,
    waiting: BTreeMap<String, Vec<String>>,
    waiting_lines: usize,
    next: HashMap<Partition, Offset>,
    left: u64,
    ready: Vec<(String, Vec<String>)>,
}

impl OfFiles {
    /// Opens the files, for at most `urls` URLs.
    pub(super) fn open(
        files: &[PathBuf],
        urls: u64,
        partitions: Partition,
        from: BTreeMap<Partition, Offset>,
        truth: Arc<Truth>,
    ) -> std::io::Result<Self> {
        let opened = files.iter().map(|path| {
            let error =
                |error: std::io::Error| std::io::Error::new(error.kind(), format!("{}: {error}", path.display()));
            File::open(path).map_err(error)
        });
        let opened = opened.collect::<std::io::Result<Vec<_>>>()?;
        let lines = Box::new(opened.into_iter().flat_map(|file| BufReader::new(file).lines()));
        let (waiting, next) = (BTreeMap::new(), HashMap::new());
        Ok(Self { lines, truth, partitions, from, waiting, waiting_lines: 0, next, left: urls, ready: vec![] })
    }

    /// Adds a line; a site with enough lines becomes ready.
    fn line(&mut self, line: &str) {
        let Ok(url) = parse(line.trim()) else { return };
        let site = site_of(&url).into_owned();
        if !self.from.contains_key(&partition_of(slot_of(&site), self.partitions)) {
            return;
        }
        self.left = self.left.saturating_sub(1);
        self.truth.expect(&canonical_text(&url));
        self.waiting_lines += 1;
        let waiting = self.waiting.entry(site.clone()).or_default();
        waiting.push(line.trim().to_owned());
        if waiting.len() as u64 >= LINKS {
            let urls = std::mem::take(waiting);
            self.waiting_lines -= urls.len();
            self.ready.push((site, urls));
        }
    }
}

impl Iterator for OfFiles {
    type Item = Made;

    fn next(&mut self) -> Option<Made> {
        loop {
            while let Some((site, urls)) = self.ready.pop() {
                if urls.is_empty() {
                    continue;
                }
                let partition = partition_of(slot_of(&site), self.partitions);
                let next = self.next.entry(partition).or_default();
                let offset = *next;
                *next += 1;
                if offset < self.from.get(&partition).copied().unwrap_or_default() {
                    continue;
                }
                let found = Discovered {
                    crawl: CRAWL.to_owned(),
                    site,
                    via: None,
                    depth: 3,
                    sighting: DiscoveryKind::Link,
                    chain: vec![],
                    trail: orbweaver_messages::Trail::default(),
                    content: None,
                    urls,
                    found_at_ms: 0,
                };
                return Some(made(partition, offset, &found));
            }
            let line = if self.left == 0 { None } else { self.lines.next() };
            match line {
                Some(Ok(line)) => self.line(&line),
                // A line that is not text is skipped; a read error ends the files here, and the count shows it.
                Some(Err(error)) if error.kind() == std::io::ErrorKind::InvalidData => {}
                Some(Err(_)) | None if self.waiting.is_empty() => return None,
                Some(Err(_)) | None => {
                    self.waiting_lines = 0;
                    self.ready.extend(std::mem::take(&mut self.waiting));
                }
            }
            if self.waiting_lines > WAITING_LINES {
                self.waiting_lines = 0;
                self.ready.extend(std::mem::take(&mut self.waiting));
            }
        }
    }
}
