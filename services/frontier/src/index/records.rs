//! Records of the queued URLs of one partition, by offset, in files that are only appended to. A record is written once
//! and never changed; a file is deleted when all of its records have ended. The re-append of old records
//! (docs/protocol.md#re-append) bounds what the files hold of ended ones.
//!
//! Nothing is synced: after a power failure records may be missing or damaged, which their checksums show.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs::{File, OpenOptions, read_dir, remove_dir_all, remove_file},
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use orbweaver_log::Offset;
use orbweaver_messages::FrontierUrl;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::encoding::{read_record, record_value};

/// Number of offsets per file, as a power of two.
const FILE_BITS: u32 = 18;
/// Size of a slot, which has the place of the record of an offset in the file. They come first; those of offsets without a
/// record are holes.
const SLOT: usize = 8;
const SLOTS_BYTES: u64 = (SLOT as u64) << FILE_BITS;
/// Number of bits in a slot for the position; its length is above.
const POSITION_BITS: u32 = 40;
/// Size of the checksum before each record.
const CHECKSUM: usize = 4;

#[derive(Debug)]
pub(super) struct Records {
    dir: PathBuf,
    files: BTreeMap<u64, RecordFile>,
    /// Whether the records that have not ended are counted. Nothing is deleted before.
    counted: bool,
    /// Records that are not written yet, each with its checksum, and where the buffer has them.
    pending: BTreeMap<Offset, Range<usize>>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct RecordFile {
    file: File,
    /// Position at which the next record is written.
    end: u64,
    /// Number of its records that have not ended.
    live: u64,
}

fn file_of(offset: Offset) -> u64 {
    offset >> FILE_BITS
}

fn slot_at(offset: Offset) -> u64 {
    (offset % (1 << FILE_BITS)) * SLOT as u64
}

#[allow(clippy::cast_possible_truncation, reason = "half of a hash")]
fn checksum(offset: Offset, record: &[u8]) -> [u8; CHECKSUM] {
    (xxh3_64_with_seed(record, offset) as u32).to_le_bytes()
}

impl Records {
    /// Opens the files in this directory, or creates it.
    pub(super) fn open(dir: PathBuf) -> io::Result<Self> {
        std::fs::create_dir_all(&dir)?;
        let mut files = BTreeMap::new();
        for entry in read_dir(&dir)? {
            let name = entry?.file_name();
            if let Some(number) = name.to_str().and_then(|name| name.parse().ok()) {
                files.insert(number, RecordFile::open(&dir, number)?);
            }
        }
        Ok(Self { dir, files, counted: false, pending: BTreeMap::new(), buffer: vec![] })
    }

    /// Deletes the files in this directory.
    pub(super) fn discard(dir: &Path) -> io::Result<()> {
        match remove_dir_all(dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Starts to count the records that have not ended, all of which must then be passed to [`Records::count`].
    pub(super) fn start_count(&mut self) {
        self.files.values_mut().for_each(|file| file.live = 0);
        self.counted = true;
    }

    /// Counts a record that has not ended.
    pub(super) fn count(&mut self, offset: Offset) {
        if let Some(file) = self.files.get_mut(&file_of(offset)) {
            file.live += 1;
        }
    }

    /// Notes that a record has ended.
    pub(super) fn end(&mut self, offset: Offset) {
        if let Some(file) = self.files.get_mut(&file_of(offset)) {
            file.live = file.live.saturating_sub(1);
        }
    }

    /// Deletes the files whose records have all ended, other than the last file, which still grows.
    pub(super) fn delete_ended(&mut self) -> io::Result<()> {
        let Some(last) = self.files.keys().next_back().copied().filter(|_| self.counted) else { return Ok(()) };
        for (number, _) in self.files.extract_if(..last, |_, file| file.live == 0) {
            remove_file(self.dir.join(number.to_string()))?;
        }
        Ok(())
    }

    /// Adds a record. Its offset must be higher than all that were added before.
    pub(super) fn add(&mut self, offset: Offset, waiting: &FrontierUrl) {
        debug_assert!(
            self.pending.last_key_value().is_none_or(|(last, _)| *last < offset),
            "{offset} is not the highest"
        );
        let start = self.buffer.len();
        self.buffer.extend([0; CHECKSUM]);
        self.buffer = record_value(waiting, std::mem::take(&mut self.buffer));
        let (sum, record) = self.buffer[start..].split_at_mut(CHECKSUM);
        sum.copy_from_slice(&checksum(offset, record));
        self.pending.insert(offset, start..self.buffer.len());
    }

    /// Drops a record if it is not written yet.
    pub(super) fn drop_pending(&mut self, offset: Offset) {
        self.pending.remove(&offset);
    }

    /// Returns the size of the records that are not written yet.
    pub(super) fn pending_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Returns the record at this offset; `None` if it is missing or damaged.
    pub(super) fn read(&self, offset: Offset) -> io::Result<Option<FrontierUrl>> {
        if let Some(range) = self.pending.get(&offset) {
            return Ok(verified(offset, &self.buffer[range.clone()]));
        }
        let Some(RecordFile { file, .. }) = self.files.get(&file_of(offset)) else { return Ok(None) };
        let mut slot = [0; SLOT];
        if !read_whole(file, &mut slot, slot_at(offset))? {
            return Ok(None);
        }
        let (position, length) = place(u64::from_le_bytes(slot));
        let mut bytes = vec![0; length];
        let is_whole = position >= SLOTS_BYTES && read_whole(file, &mut bytes, position)?;
        Ok(verified(offset, &bytes).filter(|_| is_whole))
    }

    /// Writes the records that are not written yet.
    pub(super) fn write(&mut self) -> io::Result<()> {
        let mut pending = std::mem::take(&mut self.pending);
        while let Some(number) = pending.keys().next().copied().map(file_of) {
            let rest = pending.split_off(&((number + 1) << FILE_BITS));
            let file = match self.files.entry(number) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(RecordFile::open(&self.dir, number)?),
            };
            file.append(&std::mem::replace(&mut pending, rest), &self.buffer)?;
        }
        self.buffer.clear();
        Ok(())
    }
}

impl RecordFile {
    fn open(dir: &Path, number: u64) -> io::Result<Self> {
        let path = dir.join(number.to_string());
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let end = file.metadata()?.len().max(SLOTS_BYTES);
        Ok(Self { file, end, live: 0 })
    }

    /// Appends records, which `buffer` has in these ranges, in order.
    fn append(&mut self, records: &BTreeMap<Offset, Range<usize>>, buffer: &[u8]) -> io::Result<()> {
        let (Some((first, start)), Some((last, end))) = (records.first_key_value(), records.last_key_value()) else {
            return Ok(());
        };
        let mut slots = vec![0; (slot_at(*last) - slot_at(*first)) as usize + SLOT];
        for (offset, range) in records {
            let position = self.end + (range.start - start.start) as u64;
            let slot = position | (range.len() as u64) << POSITION_BITS;
            let at = (slot_at(*offset) - slot_at(*first)) as usize;
            slots[at..at + SLOT].copy_from_slice(&slot.to_le_bytes());
        }
        // Those in between that have ended are written too.
        let bytes = &buffer[start.start..end.end];
        self.file.write_all_at(bytes, self.end)?;
        self.file.write_all_at(&slots, slot_at(*first))?;
        self.end += bytes.len() as u64;
        self.live += records.len() as u64;
        Ok(())
    }
}

/// Decodes a record after its checksum. `None` if it is damaged.
fn verified(offset: Offset, bytes: &[u8]) -> Option<FrontierUrl> {
    let (sum, record) = bytes.split_first_chunk()?;
    (*sum == checksum(offset, record)).then(|| read_record(record)).flatten()
}

/// Returns position and length of a slot.
fn place(slot: u64) -> (u64, usize) {
    (slot & ((1 << POSITION_BITS) - 1), (slot >> POSITION_BITS) as usize)
}

/// Reads at a position; `false` if the file ends before.
fn read_whole(file: &File, bytes: &mut [u8], position: u64) -> io::Result<bool> {
    match file.read_exact_at(bytes, position) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}
