//! An SSTable: immutable entries on disk, sorted by fingerprint.

use std::{
    fs::File,
    io::{self, BufReader, Read as _, Write as _},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use orbweaver_index_files::{KeptFile, damage};
use orbweaver_url::Fingerprint;
use xxhash_rust::xxh3::Xxh3;

use super::quotient_filter::{QuotientFilter, TagsBuilder};

/// Size of an entry: fingerprint (16 bytes) and depth (little endian).
const ENTRY: usize = 18;
/// Start of the file, followed by the number of entries and the hash of all of them (xxh3-64, little endian).
const MAGIC: &[u8; 8] = b"orbrun01";
const HEADER: usize = 24;
/// Size of the buffers for sequential reads and writes.
const BUFFER: usize = 256 << 10;

/// One SSTable: its file, and its filter in memory.
#[derive(Debug)]
pub(crate) struct SsTable {
    file: KeptFile,
    pub(crate) number: u64,
    tags: QuotientFilter,
}

impl SsTable {
    /// Opens an SSTable: reads it completely, for its hash and its filter.
    pub(crate) fn open(path: &Path, number: u64) -> io::Result<Self> {
        let mut reader = SsTableReader::open(path)?;
        let mut tags = TagsBuilder::new(reader.left);
        let mut hash = Xxh3::new();
        let mut last = None;
        while let Some(bytes) = reader.next_bytes()? {
            hash.update(&bytes);
            let (fingerprint, _) = entry_of(bytes);
            if last.replace(fingerprint).is_some_and(|last| last >= fingerprint) {
                return Err(damage(path));
            }
            tags.push(fingerprint);
        }
        if hash.digest() != reader.hash {
            return Err(damage(path));
        }
        let file = KeptFile::new(path.to_owned(), reader.file.into_inner());
        Ok(Self { file, number, tags: tags.finish() })
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> u64 {
        self.tags.len()
    }

    pub(crate) fn filter_bytes(&self) -> u64 {
        self.tags.bytes()
    }

    /// Returns the depth of this fingerprint, if the SSTable contains it, and the number of entries read.
    pub(crate) fn depth(&self, fingerprint: Fingerprint) -> io::Result<(Option<u16>, u64)> {
        let mut lookups = 0;
        for number in self.tags.find(fingerprint) {
            lookups += 1;
            let mut bytes = [0; ENTRY];
            let at = HEADER as u64 + number * ENTRY as u64;
            self.file.with(|file| file.read_exact_at(&mut bytes, at))?;
            let (known, depth) = entry_of(bytes);
            if known == fingerprint {
                return Ok((Some(depth), lookups));
            }
        }
        Ok((None, lookups))
    }

    /// Deletes the file.
    pub(crate) fn delete(&self) -> io::Result<()> {
        std::fs::remove_file(self.file.path())
    }

    /// Returns a reader of all entries in order.
    pub(crate) fn entries(&self) -> io::Result<SsTableReader> {
        SsTableReader::open(self.file.path())
    }
}

fn entry_of(bytes: [u8; ENTRY]) -> (Fingerprint, u16) {
    let mut fingerprint = [0; 16];
    fingerprint.copy_from_slice(&bytes[..16]);
    (Fingerprint(fingerprint), u16::from_le_bytes([bytes[16], bytes[17]]))
}

/// Sequential reader of an SSTable.
#[derive(Debug)]
pub(crate) struct SsTableReader {
    file: BufReader<File>,
    left: u64,
    hash: u64,
}

impl SsTableReader {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut file = BufReader::with_capacity(BUFFER, file);
        let mut header = [0; HEADER];
        file.read_exact(&mut header)?;
        let number = |at: usize| header[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let left = number(8);
        let expected = left.checked_mul(ENTRY as u64).and_then(|bytes| bytes.checked_add(HEADER as u64));
        if header[..8] != *MAGIC || expected != Some(length) {
            return Err(damage(path));
        }
        Ok(Self { file, left, hash: number(16) })
    }

    fn next_bytes(&mut self) -> io::Result<Option<[u8; ENTRY]>> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        let mut bytes = [0; ENTRY];
        self.file.read_exact(&mut bytes)?;
        self.left = left;
        Ok(Some(bytes))
    }

    pub(crate) fn next_entry(&mut self) -> io::Result<Option<(Fingerprint, u16)>> {
        Ok(self.next_bytes()?.map(entry_of))
    }
}

/// A file that is removed unless it was completed.
struct Unfinished {
    path: PathBuf,
    completed: bool,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.completed {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Writer of an SSTable. Without [`SsTableWriter::finish`] the file is invalid, and is removed.
pub(crate) struct SsTableWriter {
    file: File,
    /// Entries that are not hashed and written yet: both are cheaper in large blocks.
    buffer: Vec<u8>,
    unfinished: Unfinished,
    number: u64,
    tags: TagsBuilder,
    hash: Xxh3,
    entries: u64,
}

impl SsTableWriter {
    /// Creates an SSTable of at most `entries` entries.
    pub(crate) fn create(path: PathBuf, number: u64, entries: u64) -> io::Result<Self> {
        let mut file = File::options().read(true).write(true).create_new(true).open(&path)?;
        let unfinished = Unfinished { path, completed: false };
        file.write_all(&[0; HEADER])?;
        let (tags, buffer) = (TagsBuilder::new(entries), Vec::with_capacity(BUFFER));
        Ok(Self { file, buffer, unfinished, number, tags, hash: Xxh3::new(), entries: 0 })
    }

    /// Adds the next entry, in the order of fingerprints.
    pub(crate) fn push(&mut self, fingerprint: Fingerprint, depth: u16) -> io::Result<()> {
        self.buffer.extend_from_slice(&fingerprint.0);
        self.buffer.extend_from_slice(&depth.to_le_bytes());
        self.entries += 1;
        self.tags.push(fingerprint);
        if self.buffer.len() + ENTRY > BUFFER { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> io::Result<()> {
        self.hash.update(&self.buffer);
        let written = self.file.write_all(&self.buffer);
        self.buffer.clear();
        written
    }

    /// Completes the SSTable.
    pub(crate) fn finish(mut self) -> io::Result<SsTable> {
        self.write()?;
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(MAGIC);
        header[8..16].copy_from_slice(&self.entries.to_le_bytes());
        header[16..].copy_from_slice(&self.hash.digest().to_le_bytes());
        self.file.write_all_at(&header, 0)?;
        self.unfinished.completed = true;
        let file = KeptFile::new(self.unfinished.path.clone(), self.file);
        Ok(SsTable { file, number: self.number, tags: self.tags.finish() })
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_url::CrawlName;

    use super::*;

    fn write(path: &Path, count: u64) -> (SsTable, Vec<(Fingerprint, u16)>) {
        let entry = |number: u64| (Fingerprint::of(&CrawlName::default(), &number.to_string()), (number % 7) as u16);
        let mut entries = (0..count).map(entry).collect::<Vec<_>>();
        entries.sort_unstable();
        let mut writer = SsTableWriter::create(path.to_owned(), 1, count).unwrap();
        entries.iter().for_each(|(fingerprint, depth)| writer.push(*fingerprint, *depth).unwrap());
        (writer.finish().unwrap(), entries)
    }

    #[test]
    fn a_run_answers_the_same_when_it_was_written_and_when_it_was_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        let (written, entries) = write(&path, 5_000);
        let opened = SsTable::open(&path, 1).unwrap();
        for run in [&written, &opened] {
            assert_eq!(run.len(), 5_000);
            for (fingerprint, depth) in &entries {
                assert_eq!(run.depth(*fingerprint).unwrap().0, Some(*depth));
            }
            for number in 5_000..6_000 {
                assert_eq!(run.depth(Fingerprint::of(&CrawlName::default(), &number.to_string())).unwrap().0, None);
            }
            let mut reader = run.entries().unwrap();
            let read = std::iter::from_fn(|| reader.next_entry().unwrap()).collect::<Vec<_>>();
            assert_eq!(read, entries);
        }
    }

    #[test]
    fn a_run_with_a_flipped_bit_or_a_missing_end_is_damaged() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        drop(write(&path, 100));
        let whole = std::fs::read(&path).unwrap();
        for at in [0, 9, 17, 25, 500, whole.len() - 1] {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(SsTable::open(&path, 1).unwrap_err().kind(), io::ErrorKind::InvalidData, "{at}");
        }
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(SsTable::open(&path, 1).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_run_that_is_not_finished_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        let mut writer = SsTableWriter::create(path.clone(), 1, 10).unwrap();
        writer.push(Fingerprint([1; 16]), 0).unwrap();
        drop(writer);
        assert!(!path.exists());
    }
}
