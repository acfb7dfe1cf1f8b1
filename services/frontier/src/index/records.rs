//! Records of the queued URLs of one partition, by offset, in files that are only appended to. A record is written once
//! and never changed; a file is deleted when all of its records have ended. The re-append of old records
//! (docs/protocol.md#re-append) bounds what the files hold of ended ones.
//!
//! Records that are written together are compressed in groups of a few kilobytes: URLs of one page and site have most of
//! their bytes in common. A file begins with a slot of eight bytes for each of its offsets: the position of the group
//! (40 bits) and the start of the record within it.
//!
//! Nothing is synced: after a power failure records may be missing or damaged, and a slot may have the position of another
//! group. Checksums and offsets show both.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs::{OpenOptions, read_dir, remove_dir_all, remove_file},
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use lz4_flex::block::CompressTable;
use orbweaver_index_files::KeptFile;
use orbweaver_log::Offset;
use orbweaver_messages::FrontierUrl;

use super::{
    encoding::{read_record, record_value},
    group::{self, Group},
    states::States,
};

/// Number of offsets per file, as a power of two.
const FILE_BITS: u32 = 18;
/// Size of a slot. They come first; those of offsets without a record are holes.
const SLOT: usize = 8;
const SLOTS_BYTES: u64 = (SLOT as u64) << FILE_BITS;
/// Number of bits in a slot for the position of a group; the start within it is above.
const POSITION_BITS: u32 = 40;
/// Size at which a group ends, in bytes before compression. Larger groups are hardly smaller on disk.
const GROUP_BYTES: usize = 4 << 10;
/// Size of the first read of a group, in bytes: nearly all are smaller.
const FIRST_READ: usize = 2 << 10;

pub(super) struct Records {
    dir: PathBuf,
    files: BTreeMap<u64, RecordFile>,
    /// Records that are not written yet, and where the buffer has them.
    pending: BTreeMap<Offset, Range<usize>>,
    buffer: Vec<u8>,
    /// The group that was read last.
    read: Option<(u64, u64, Group)>,
    table: CompressTable,
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").field("dir", &self.dir).finish_non_exhaustive()
    }
}

struct RecordFile {
    file: KeptFile,
    /// Position at which the next group is written.
    end: u64,
}

fn file_of(offset: Offset) -> u64 {
    offset >> FILE_BITS
}

fn slot_at(offset: Offset) -> u64 {
    (offset % (1 << FILE_BITS)) * SLOT as u64
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
        let (pending, buffer, table) = (BTreeMap::new(), vec![], CompressTable::default());
        Ok(Self { dir, files, pending, buffer, read: None, table })
    }

    /// Deletes the files in this directory.
    pub(super) fn discard(dir: &Path) -> io::Result<()> {
        match remove_dir_all(dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Deletes the files whose records have all ended, other than the last file, which still grows.
    pub(super) fn delete_ended(&mut self, states: &States) -> io::Result<()> {
        let Some(last) = self.files.keys().next_back().copied() else { return Ok(()) };
        let has_ended =
            |number: &u64, _: &mut RecordFile| !states.any_in(number << FILE_BITS..(number + 1) << FILE_BITS);
        for (number, _) in self.files.extract_if(..last, has_ended) {
            remove_file(self.dir.join(number.to_string()))?;
            self.read = None;
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
        self.buffer = record_value(waiting, std::mem::take(&mut self.buffer));
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
    pub(super) fn read(&mut self, offset: Offset) -> io::Result<Option<FrontierUrl>> {
        if let Some(range) = self.pending.get(&offset) {
            return Ok(read_record(&self.buffer[range.clone()]));
        }
        let number = file_of(offset);
        let Some(file) = self.files.get(&number) else { return Ok(None) };
        let mut slot = [0; SLOT];
        if !read_whole(&file.file, &mut slot, slot_at(offset))? {
            return Ok(None);
        }
        let (position, start) = place(u64::from_le_bytes(slot));
        if let Some((_, _, group)) = self.read.as_ref().filter(|read| (read.0, read.1) == (number, position)) {
            return Ok(group.record(offset, start));
        }
        let Some(group) = file.group(position)? else { return Ok(None) };
        let (.., group) = self.read.insert((number, position, group));
        Ok(group.record(offset, start))
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
            file.append(&std::mem::replace(&mut pending, rest), &self.buffer, &mut self.table)?;
        }
        self.buffer.clear();
        Ok(())
    }
}

impl RecordFile {
    fn open(dir: &Path, number: u64) -> io::Result<Self> {
        let path = dir.join(number.to_string());
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
        let end = file.metadata()?.len().max(SLOTS_BYTES);
        Ok(Self { file: KeptFile::new(path, file), end })
    }

    /// Appends records, which `buffer` has in these ranges.
    fn append(
        &mut self,
        records: &BTreeMap<Offset, Range<usize>>,
        buffer: &[u8],
        table: &mut CompressTable,
    ) -> io::Result<()> {
        let (Some((first, _)), Some((last, _))) = (records.first_key_value(), records.last_key_value()) else {
            return Ok(());
        };
        let mut slots = vec![0; (slot_at(*last) - slot_at(*first)) as usize + SLOT];
        let mut groups = Vec::with_capacity(buffer.len() / 2);
        let mut group = Group::starting_at(*first);
        for (offset, range) in records {
            if group.len() >= GROUP_BYTES {
                group.compress(&mut groups, table)?;
                group = Group::starting_at(*offset);
            }
            let slot = (self.end + groups.len() as u64) | (group.len() as u64) << POSITION_BITS;
            let at = (slot_at(*offset) - slot_at(*first)) as usize;
            slots[at..at + SLOT].copy_from_slice(&slot.to_le_bytes());
            group.add(*offset, &buffer[range.clone()]);
        }
        group.compress(&mut groups, table)?;
        self.file.with(|file| {
            file.write_all_at(&groups, self.end)?;
            file.write_all_at(&slots, slot_at(*first))
        })?;
        self.end += groups.len() as u64;
        Ok(())
    }

    /// Returns the group at this position; `None` if it is missing or damaged.
    fn group(&self, position: u64) -> io::Result<Option<Group>> {
        let Some(rest) = self.end.checked_sub(position).filter(|_| position >= SLOTS_BYTES) else { return Ok(None) };
        let mut bytes = vec![0; FIRST_READ.min(usize::try_from(rest).unwrap_or(FIRST_READ))];
        if !read_whole(&self.file, &mut bytes, position)? {
            return Ok(None);
        }
        let Some(length) = group::length(&bytes).filter(|length| *length as u64 <= rest) else { return Ok(None) };
        let read = bytes.len();
        bytes.resize(length, 0);
        if read < length && !read_whole(&self.file, &mut bytes[read..], position + read as u64)? {
            return Ok(None);
        }
        Ok(Group::decompress(&bytes))
    }
}

/// Returns the position of the group and the start within it.
fn place(slot: u64) -> (u64, usize) {
    (slot & ((1 << POSITION_BITS) - 1), (slot >> POSITION_BITS) as usize)
}

/// Reads at a position; `false` if the file ends before.
fn read_whole(file: &KeptFile, bytes: &mut [u8], position: u64) -> io::Result<bool> {
    match file.with(|file| file.read_exact_at(bytes, position)) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}
