//! Records of the queued URLs of one partition, by offset, in files that are only appended to. A record is written once
//! and never changed; a file is deleted when all of its records have ended. The re-append of old records
//! (docs/protocol.md#re-append) bounds what the files hold of ended ones.
//!
//! Records that are written together are compressed in groups of a few kilobytes, since URLs of one page and site have most
//! bytes in common. In memory are the first offset and the position of each group; at the start they are read from
//! the groups, from one to the next. A replay writes records once more: of those of an offset, the last one counts.
//!
//! Nothing is synced: after a power failure records may be missing or damaged. Checksums and offsets show it.

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
/// Size at which a group ends, in bytes before compression. Larger groups are hardly smaller on disk.
const GROUP_BYTES: usize = 2 << 10;
/// Size of the first read of a group, in bytes: nearly all are smaller.
const FIRST_READ: usize = 1 << 10;

pub(super) struct Records {
    dir: PathBuf,
    files: BTreeMap<u64, RecordFile>,
    /// Records that are not written yet, and where the buffer has them.
    pending: BTreeMap<Offset, Range<usize>>,
    buffer: Vec<u8>,
    /// File and position of the group that was read last.
    read: Option<(u64, u64)>,
    group: Group,
    /// The compressed form of that group.
    compressed: Vec<u8>,
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
    /// First offsets and positions of the groups, both ascending.
    groups: Vec<GroupEntry>,
}

/// First offset and position of a group in its file.
struct GroupEntry {
    first: Offset,
    position: u64,
}

fn file_of(offset: Offset) -> u64 {
    offset >> FILE_BITS
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
        let (group, compressed) = (Group::starting_at(0), vec![]);
        Ok(Self { dir, files, pending, buffer, read: None, group, compressed, table })
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
    pub(super) fn read(&mut self, offset: Offset) -> io::Result<Option<Box<FrontierUrl>>> {
        if let Some(range) = self.pending.get(&offset) {
            return Ok(read_record(&self.buffer[range.clone()]));
        }
        let number = file_of(offset);
        let Some(file) = self.files.get(&number) else { return Ok(None) };
        let Some(position) = file.position_of(offset) else { return Ok(None) };
        if self.read != Some((number, position)) {
            self.read = None;
            if !file.read(position, &mut self.compressed)? || self.group.decompress(&self.compressed).is_none() {
                return Ok(None);
            }
            self.read = Some((number, position));
        }
        Ok(self.group.record(offset))
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
        let length = file.metadata()?.len();
        let mut opened = Self { file: KeptFile::new(path, file), end: 0, groups: vec![] };
        let mut head = [0; group::HEAD];
        while read_whole(&opened.file, &mut head, opened.end)?
            && let Some((first, size)) = group::extent(&head).filter(|(first, _)| file_of(*first) == number)
            && opened.end + size as u64 <= length
        {
            opened.add_group(first, opened.end);
            opened.end += size as u64;
        }
        if opened.end < length {
            // A group that was not written whole.
            opened.file.with(|file| file.set_len(opened.end))?;
        }
        Ok(opened)
    }

    /// Adds a group; it has all records from its first one on that count.
    fn add_group(&mut self, first: Offset, position: u64) {
        let end = self.groups.partition_point(|group| group.first < first);
        self.groups.truncate(end);
        self.groups.push(GroupEntry { first, position });
    }

    /// Returns the position of the group that has the record of an offset, if there is one.
    fn position_of(&self, offset: Offset) -> Option<u64> {
        let behind = self.groups.partition_point(|group| group.first <= offset);
        Some(self.groups[..behind].last()?.position)
    }

    /// Appends records, which `buffer` has in these ranges.
    fn append(
        &mut self,
        records: &BTreeMap<Offset, Range<usize>>,
        buffer: &[u8],
        table: &mut CompressTable,
    ) -> io::Result<()> {
        let Some((first, _)) = records.first_key_value() else { return Ok(()) };
        let (mut bytes, mut entries) = (Vec::with_capacity(buffer.len() / 2), vec![(*first, self.end)]);
        let mut group = Group::starting_at(*first);
        for (offset, range) in records {
            if group.len() >= GROUP_BYTES {
                group.compress(&mut bytes, table)?;
                group = Group::starting_at(*offset);
                entries.push((*offset, self.end + bytes.len() as u64));
            }
            group.add(*offset, &buffer[range.clone()]);
        }
        group.compress(&mut bytes, table)?;
        self.file.with(|file| file.write_all_at(&bytes, self.end))?;
        self.end += bytes.len() as u64;
        entries.into_iter().for_each(|(first, position)| self.add_group(first, position));
        Ok(())
    }

    /// Reads the compressed group at this position; `false` if it is missing or damaged.
    fn read(&self, position: u64, bytes: &mut Vec<u8>) -> io::Result<bool> {
        let rest = usize::try_from(self.end.saturating_sub(position)).unwrap_or(usize::MAX);
        bytes.resize(FIRST_READ.min(rest), 0);
        if !read_whole(&self.file, bytes, position)? {
            return Ok(false);
        }
        let Some((_, size)) = group::extent(bytes).filter(|(_, size)| *size <= rest) else { return Ok(false) };
        let read = bytes.len();
        bytes.resize(size, 0);
        Ok(size <= read || read_whole(&self.file, &mut bytes[read..], position + read as u64)?)
    }
}

/// Reads at a position; `false` if the file ends before.
fn read_whole(file: &KeptFile, bytes: &mut [u8], position: u64) -> io::Result<bool> {
    match file.with(|file| file.read_exact_at(bytes, position)) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::UrlContext;

    use super::*;

    fn waiting(number: u64, version: u64) -> FrontierUrl {
        let url = format!("https://example.org/{number}/{}", "a-long-name".repeat(20));
        let context = UrlContext::of_seed("a".parse().unwrap_or_default(), url, "example.org".into());
        FrontierUrl { definition: version, ..FrontierUrl::admitted(context, 7) }
    }

    fn write(records: &mut Records, numbers: Range<u64>, version: u64) {
        numbers.for_each(|number| records.add(number, &waiting(number, version)));
        records.write().unwrap();
    }

    fn version_of(records: &mut Records, number: u64) -> Option<u64> {
        let read = records.read(number).unwrap()?;
        assert_eq!(*read, waiting(number, read.definition));
        Some(read.definition)
    }

    #[test]
    fn of_records_that_a_replay_writes_once_more_the_last_ones_count_also_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let open = || Records::open(directory.path().join("records")).unwrap();
        let mut records = open();
        write(&mut records, 5..100, 1);
        write(&mut records, 100..200, 1);
        // Killed before its checkpoint: the replay begins in the middle of a group.
        records = open();
        write(&mut records, 37..120, 2);
        for _ in 0..2 {
            let versions: Vec<_> = (0..125).map(|number| version_of(&mut records, number)).collect();
            let expected = |number: u64| match number {
                0..5 | 120.. => None,
                5..37 => Some(1),
                37..120 => Some(2),
            };
            assert_eq!(
                versions,
                (0..125).map(expected).collect::<Vec<_>>(),
                "what the replay has not reached is not there"
            );
            records = open();
        }
        write(&mut records, 120..200, 3);
        assert_eq!([119, 120, 199].map(|number| version_of(&mut records, number)), [Some(2), Some(3), Some(3)]);
    }

    #[test]
    fn what_a_kill_or_a_power_failure_left_at_the_end_of_a_file_is_cut_off() {
        for zeros in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("records");
            let mut records = Records::open(path.clone()).unwrap();
            write(&mut records, 0..10, 1);
            let whole = std::fs::read(path.join("0")).unwrap();
            write(&mut records, 10..20, 1);
            let more = std::fs::read(path.join("0")).unwrap();
            let left = if zeros { [whole, vec![0; 3000]].concat() } else { more[..more.len() - 1].to_vec() };
            std::fs::write(path.join("0"), left).unwrap();
            for version in [2, 3] {
                records = Records::open(path.clone()).unwrap();
                assert_eq!(version_of(&mut records, 9), Some(1));
                let next = 10 * (version - 1);
                write(&mut records, next..next + 10, version);
                assert_eq!(
                    [0, next, next + 9].map(|number| version_of(&mut records, number)),
                    [Some(1), Some(version), Some(version)]
                );
            }
        }
    }
}
