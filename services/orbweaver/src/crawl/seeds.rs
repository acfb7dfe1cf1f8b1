//! Writing of seeds to the log.

use std::{
    io::{self, BufRead as _, Read as _},
    path::Path,
};

use bytes::Bytes;
use orbweaver_log::{Log, LogError, Partition, Record, TopicPartition};
use orbweaver_messages::{Millis, Priority, Seed, encode, topic::SEEDS};

use crate::exit::{Failure, failed};

/// Seeds per append.
const BATCH: usize = 1000;
/// Maximum length of a line, in bytes; a longer line is cut, and so becomes a dead letter.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// Appends seeds to `crawl.seeds`, spread over its partitions.
pub struct SeedWriter<'a> {
    log: &'a dyn Log,
    now: Millis,
    /// Seed with the settings of those that have none; `None`: they are written as they are.
    defaults: Option<Seed>,
    partitions: Partition,
    batch: Vec<Record>,
    written: u64,
}

impl<'a> SeedWriter<'a> {
    /// Creates a writer to `log`; the seeds carry the time `now`, and no name of a crawl: for a log of one crawl.
    pub fn new(log: &'a dyn Log, now: Millis) -> Result<Self, LogError> {
        Ok(Self { log, now, defaults: None, partitions: log.partitions(SEEDS)?, batch: vec![], written: 0 })
    }

    /// Writes crawl, priority and `recrawl` of this seed into those that have none. On a cluster a seed without a crawl would
    /// otherwise belong to the one that `normalizer_dedup.default_crawl` names.
    #[must_use]
    pub fn with_defaults(mut self, defaults: Seed) -> Self {
        self.defaults = Some(defaults);
        self
    }

    /// Appends one seed: a URL, or a JSON object.
    pub async fn add(&mut self, seed: Bytes) -> Result<(), LogError> {
        // Whole batches go to one partition, so that an append writes to few files.
        let number = u32::try_from(self.written / BATCH as u64).unwrap_or_default() % self.partitions;
        let tp = TopicPartition::new(SEEDS, number);
        let value = match &self.defaults {
            Some(defaults) => completed(seed, defaults),
            None => seed,
        };
        self.batch.push(Record::new(tp, None, Some(value), self.now));
        self.written += 1;
        if self.batch.len() >= BATCH { self.flush().await } else { Ok(()) }
    }

    /// Waits until all seeds are acknowledged.
    pub async fn flush(&mut self) -> Result<(), LogError> {
        if !self.batch.is_empty() {
            self.log.append(std::mem::take(&mut self.batch)).await?;
        }
        Ok(())
    }

    /// Appends the lines of a file, or of stdin for `-`. Skips empty lines and lines that start with `#`.
    pub async fn add_file(&mut self, path: &Path) -> Result<(), Failure> {
        let unreadable =
            |error: io::Error| Failure::Input(format!("cannot read the seeds file {}: {error}", path.display()));
        let mut input: Box<dyn io::BufRead> = if path == Path::new("-") {
            Box::new(io::BufReader::new(io::stdin()))
        } else {
            Box::new(io::BufReader::new(std::fs::File::open(path).map_err(unreadable)?))
        };
        let mut line = vec![];
        loop {
            line.clear();
            let read = input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line).map_err(unreadable)?;
            if read == 0 {
                break;
            }
            if line.last() != Some(&b'\n') && read as u64 == MAX_LINE_BYTES {
                input.skip_until(b'\n').map_err(unreadable)?;
            }
            let seed = line.trim_ascii();
            if !seed.is_empty() && !seed.starts_with(b"#") {
                self.add(Bytes::copy_from_slice(seed)).await.map_err(failed)?;
            }
        }
        self.flush().await.map_err(failed)
    }

    /// Returns the number of seeds that were added.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }
}

/// Returns a seed with crawl, priority and `recrawl` of `defaults`, unless it has others. A value that is neither text nor a
/// seed stays unchanged, and goes to the dead letters.
fn completed(seed: Bytes, defaults: &Seed) -> Bytes {
    let complete = |seed: Seed| {
        let priority = if seed.priority == Priority::default() { defaults.priority } else { seed.priority };
        let crawl = seed.crawl.or_else(|| defaults.crawl.clone());
        encode(&Seed { crawl, priority, recrawl: seed.recrawl || defaults.recrawl, ..seed })
    };
    match std::str::from_utf8(&seed) {
        Ok(text) if text.starts_with('{') => serde_json::from_str::<Seed>(text).map_or(seed, complete),
        Ok(url) => complete(Seed::of_url(url)),
        Err(_) => seed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gets_the_name_of_its_crawl_and_a_priority_unless_it_has_others() {
        let of = |text: &'static [u8], crawl: &str, priority: i64| {
            let (crawl, priority) = (Some(crawl.parse().unwrap()), priority.try_into().unwrap());
            completed(Bytes::from_static(text), &Seed { crawl, priority, ..Seed::of_url("") })
        };
        assert_eq!(of(b"example.org", "default", 0), r#"{"url":"example.org","crawl":"default"}"#);
        assert_eq!(of(b"example.org", "docs", -3), r#"{"url":"example.org","crawl":"docs","priority":-3}"#);
        assert_eq!(of(br#"{"url":"example.org"}"#, "docs", 0), r#"{"url":"example.org","crawl":"docs"}"#);
        let object = br#"{"url":"example.org","crawl":"news","priority":1}"#;
        assert_eq!(of(object, "docs", 5), &object[..], "an object says what it means");
        for unreadable in [&b"{rubbish"[..], b"\xff"] {
            assert_eq!(of(unreadable, "docs", 1), unreadable);
        }
    }
}
