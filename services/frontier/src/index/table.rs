//! A table: sorted keys in a file that never changes, one section for each order.
//!
//! ```text
//! "orbtab01"   u64 number of keys in each section   u64 xxh3 of all keys       (numbers little-endian)
//! keys of each section, in order
//! ```
//!
//! In memory are the first keys of its blocks, which are read as a whole.

use std::{
    fs::File,
    io::{self, BufReader, Read as _, Write as _},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use orbweaver_index_files::{KeptFile, damage};
use xxhash_rust::xxh3::Xxh3;

use super::keys::Order;

const MAGIC: &[u8; 8] = b"orbtab01";
const HEADER: usize = 8 + 3 * 8 + 8;
/// Number of keys per block. Tests have small ones.
const BLOCK: u64 = if cfg!(test) { 4 } else { 128 };
/// Size of the buffers for sequential reads and writes, in bytes.
const BUFFER: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct Table {
    pub(super) number: u64,
    file: KeptFile,
    sections: [Section; 3],
}

#[derive(Debug, Default, Clone)]
struct Section {
    /// Position of its first key in the file.
    start: u64,
    keys: u64,
    /// The first key of each block.
    firsts: Vec<u8>,
}

fn path_of(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("table-{number}"))
}

/// Returns the number of the table in a file of this name.
pub(super) fn number_of(name: &str) -> Option<u64> {
    name.strip_prefix("table-")?.parse().ok()
}

impl Table {
    /// Opens a table, and reads all of it for its hash. Damage is an error of the kind [`io::ErrorKind::InvalidData`] or
    /// [`io::ErrorKind::UnexpectedEof`].
    pub(super) fn open(dir: &Path, number: u64) -> io::Result<Self> {
        let path = path_of(dir, number);
        let damaged = || damage(&path);
        let mut file = BufReader::with_capacity(BUFFER, File::options().read(true).write(true).open(&path)?);
        let mut header = [0; HEADER];
        file.read_exact(&mut header)?;
        let number_at = |at: usize| header[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let (mut sections, mut hash, mut start) = (<[Section; 3]>::default(), Xxh3::new(), HEADER as u64);
        let mut block = vec![];
        for (order, section) in Order::ALL.into_iter().zip(&mut sections) {
            let size = order.key_bytes() as u64;
            *section = Section { start, keys: number_at(8 + 8 * order as usize), firsts: vec![] };
            let bytes = section.keys.checked_mul(size).ok_or_else(damaged)?;
            start = start.checked_add(bytes).ok_or_else(damaged)?;
            for first in (0..section.keys).step_by(BLOCK as usize) {
                block.resize((BLOCK.min(section.keys - first) * size) as usize, 0);
                file.read_exact(&mut block)?;
                hash.update(&block);
                section.firsts.extend_from_slice(&block[..order.key_bytes()]);
            }
        }
        if header[..8] != *MAGIC || hash.digest() != number_at(HEADER - 8) {
            return Err(damaged());
        }
        Ok(Self { number, file: KeptFile::new(path, file.into_inner()), sections })
    }

    /// Deletes the file of a table.
    pub(super) fn delete(dir: &Path, number: u64) -> io::Result<()> {
        std::fs::remove_file(path_of(dir, number))
    }

    /// Returns the number of keys in an order.
    pub(super) fn keys(&self, order: Order) -> u64 {
        self.sections[order as usize].keys
    }

    /// Returns a cursor at the first key that is not below `from`, which may be the start of a key.
    pub(super) fn seek(self: &Arc<Self>, order: Order, from: &[u8]) -> io::Result<Cursor> {
        let mut cursor = Cursor::new(self, order);
        cursor.seek(from)?;
        Ok(cursor)
    }

    /// Calls `each` with every key of an order, decoded.
    pub(super) fn each<T>(
        self: &Arc<Self>,
        order: Order,
        read: fn(&[u8]) -> Option<T>,
        mut each: impl FnMut(T),
    ) -> io::Result<()> {
        let mut cursor = self.seek(order, &[])?;
        while let Some(key) = cursor.key().and_then(read) {
            each(key);
            cursor.advance()?;
        }
        Ok(())
    }
}

/// Returns the number of keys below `from`.
fn partition_point(keys: &[u8], size: usize, from: &[u8]) -> usize {
    let (mut low, mut high) = (0, keys.len() / size);
    while low < high {
        let middle = low.midpoint(high);
        if &keys[middle * size..][..size] < from { low = middle + 1 } else { high = middle }
    }
    low
}

/// Position in an order of a table.
#[derive(Debug)]
pub(super) struct Cursor {
    table: Arc<Table>,
    order: Order,
    block: Vec<u8>,
    /// Position of the key in the block, in bytes.
    at: usize,
    /// Number of the first key of the next block.
    next: u64,
}

impl Cursor {
    /// Returns a cursor before the first key.
    pub(super) fn new(table: &Arc<Table>, order: Order) -> Self {
        Self { table: table.clone(), order, block: vec![], at: 0, next: 0 }
    }

    /// Moves forward to the first key that is not below `from`, which may be the start of a key.
    pub(super) fn seek(&mut self, from: &[u8]) -> io::Result<()> {
        let (size, firsts) = (self.order.key_bytes(), &self.table.sections[self.order as usize].firsts);
        let next = self.next.div_ceil(BLOCK) as usize;
        if firsts.get(next * size..).is_some_and(|following| following.get(..size).is_some_and(|first| first < from)) {
            let block = next + partition_point(&firsts[next * size..], size, from).saturating_sub(1);
            self.next = block as u64 * BLOCK;
            self.read_block()?;
        } else if self.block.is_empty() {
            self.read_block()?;
        }
        self.at += partition_point(&self.block[self.at..], size, from) * size;
        if self.at == self.block.len() { self.read_block() } else { Ok(()) }
    }

    /// Returns the key at this position; `None` at the end.
    pub(super) fn key(&self) -> Option<&[u8]> {
        self.block.get(self.at..self.at + self.order.key_bytes())
    }

    /// Moves to the next key.
    pub(super) fn advance(&mut self) -> io::Result<()> {
        self.at += self.order.key_bytes();
        if self.at == self.block.len() { self.read_block() } else { Ok(()) }
    }

    fn read_block(&mut self) -> io::Result<()> {
        let (size, section) = (self.order.key_bytes() as u64, &self.table.sections[self.order as usize]);
        let keys = BLOCK.min(section.keys.saturating_sub(self.next));
        self.block.resize((keys * size) as usize, 0);
        self.at = 0;
        let position = section.start + self.next * size;
        self.table.file.with(|file| file.read_exact_at(&mut self.block, position))?;
        self.next += keys;
        Ok(())
    }
}

/// Writer of a table, which is invalid until [`TableWriter::finish`].
pub(super) struct TableWriter {
    number: u64,
    path: PathBuf,
    file: File,
    /// Keys that are not hashed and written yet.
    buffer: Vec<u8>,
    hash: Xxh3,
    sections: [Section; 3],
}

impl std::fmt::Debug for TableWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableWriter").field("number", &self.number).finish_non_exhaustive()
    }
}

impl TableWriter {
    pub(super) fn create(dir: &Path, number: u64) -> io::Result<Self> {
        let path = path_of(dir, number);
        let mut file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
        file.write_all(&[0; HEADER])?;
        let (buffer, sections) = (Vec::with_capacity(BUFFER), <[Section; 3]>::default());
        Ok(Self { number, path, file, buffer, hash: Xxh3::new(), sections })
    }

    /// Adds the next key. Keys are sorted, and one order comes after the other.
    pub(super) fn push(&mut self, order: Order, key: &[u8]) -> io::Result<()> {
        let section = &mut self.sections[order as usize];
        if section.keys.is_multiple_of(BLOCK) {
            section.firsts.extend_from_slice(key);
        }
        section.keys += 1;
        self.buffer.extend_from_slice(key);
        if self.buffer.len() + key.len() > BUFFER { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> io::Result<()> {
        self.hash.update(&self.buffer);
        self.file.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Completes the table.
    pub(super) fn finish(mut self) -> io::Result<Table> {
        self.write()?;
        let mut header = MAGIC.to_vec();
        let mut start = HEADER as u64;
        for (order, section) in Order::ALL.into_iter().zip(&mut self.sections) {
            section.start = start;
            start += section.keys * order.key_bytes() as u64;
            header.extend(section.keys.to_le_bytes());
        }
        header.extend(self.hash.digest().to_le_bytes());
        self.file.write_all_at(&header, 0)?;
        Ok(Table { number: self.number, file: KeptFile::new(self.path, self.file), sections: self.sections })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn written(dir: &Path, keys: &[BTreeSet<Vec<u8>>; 3]) -> Arc<Table> {
        let mut writer = TableWriter::create(dir, 7).unwrap();
        for (order, keys) in Order::ALL.into_iter().zip(keys) {
            keys.iter().for_each(|key| writer.push(order, key).unwrap());
        }
        Arc::new(writer.finish().unwrap())
    }

    fn read(mut cursor: Cursor) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| {
            let key = cursor.key()?.to_vec();
            cursor.advance().unwrap();
            Some(key)
        })
        .collect()
    }

    /// Keys of this order, of which many begin alike.
    fn keys(order: Order) -> impl Strategy<Value = BTreeSet<Vec<u8>>> {
        let key = (0u16..400).prop_map(move |number| {
            let mut key = vec![1; order.key_bytes()];
            key[..2].copy_from_slice(&(number / 3).to_be_bytes());
            key[order.key_bytes() - 2..].copy_from_slice(&number.to_be_bytes());
            key
        });
        prop::collection::btree_set(key, 0..300)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn a_cursor_has_the_keys_from_its_start_on_also_after_a_reopen(
            urls in keys(Order::Urls), queued in keys(Order::Queued), delayed in keys(Order::Delayed),
            from in 0u16..150, start in 0usize..4,
        ) {
            let directory = tempfile::tempdir().unwrap();
            let all = [urls, queued, delayed];
            let table = written(directory.path(), &all);
            let opened = Arc::new(Table::open(directory.path(), 7).unwrap());
            let from = &[&from.to_be_bytes()[..], &[1, 1]].concat()[..start];
            for table in [&table, &opened] {
                for (order, keys) in Order::ALL.into_iter().zip(&all) {
                    let expected: Vec<_> = keys.iter().filter(|key| &key[..] >= from).cloned().collect();
                    prop_assert_eq!(read(table.seek(order, from).unwrap()), expected);
                    prop_assert_eq!(table.keys(order), keys.len() as u64);
                }
            }
        }

        #[test]
        fn a_cursor_that_moves_forward_has_the_keys_of_one_that_seeks_at_once(
            queued in keys(Order::Queued), mut to in prop::collection::vec(0u16..150, 1..20), read in 0usize..6,
        ) {
            let directory = tempfile::tempdir().unwrap();
            let table = written(directory.path(), &[BTreeSet::new(), queued, BTreeSet::new()]);
            to.sort_unstable();
            let (mut cursor, mut last) = (Cursor::new(&table, Order::Queued), vec![]);
            for to in to {
                // It never moves back.
                let from = [&last[..], &[0]].concat().max([&to.to_be_bytes()[..], &[1, 1]].concat());
                cursor.seek(&from).unwrap();
                let mut fresh = table.seek(Order::Queued, &from).unwrap();
                for _ in 0..read {
                    prop_assert_eq!(cursor.key(), fresh.key());
                    let Some(key) = cursor.key() else { break };
                    last = key.to_vec();
                    cursor.advance().unwrap();
                    fresh.advance().unwrap();
                }
            }
        }
    }

    #[test]
    fn a_table_with_a_flipped_bit_or_without_its_end_is_damaged() {
        let directory = tempfile::tempdir().unwrap();
        let keys = Order::ALL.map(|order| (0..200u8).map(|number| vec![number; order.key_bytes()]).collect());
        drop(written(directory.path(), &keys));
        let path = path_of(directory.path(), 7);
        let whole = std::fs::read(&path).unwrap();
        for at in [0, 9, 17, 25, 33, 500, whole.len() - 1] {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            std::fs::write(&path, bytes).unwrap();
            let kind = Table::open(directory.path(), 7).unwrap_err().kind();
            assert!(matches!(kind, io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof), "{at}: {kind}");
        }
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(Table::open(directory.path(), 7).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        Table::delete(directory.path(), 7).unwrap();
        assert_eq!(Table::open(directory.path(), 7).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
