//! The exact index on disk: fingerprint to depth, in SSTables, one directory per partition.

use std::{path::Path, sync::Arc};

use orbweaver_index_files::{IndexDir, IndexFilesError, OpenPartition};

use super::{compaction::Workers, manifest::Manifest, table_set::TableSet};
use crate::{IndexCheckpoint, SeenError};

/// Format of an index directory; an index of another format is discarded.
const VERSION: &str = "orbweaver-seen 2\n";
/// Entries that are collected in memory before they are written, over all partitions; about 40 bytes each.
const GATHERED: usize = 1 << 19;
/// Minimum and maximum of these entries for one partition.
const GATHERED_OF_ONE: (usize, usize) = (4096, 1 << 17);

/// The index on disk of one process, for all its partitions.
#[derive(Debug, Clone)]
pub struct ExactIndex(Arc<Opened>);

#[derive(Debug)]
struct Opened {
    // The first field is dropped first: the threads end while the directory is still locked.
    workers: Workers,
    dir: IndexDir,
}

impl ExactIndex {
    /// Opens the index in this directory, or creates it. An index of another format is discarded, together with
    /// everything else in the directory, which must therefore hold nothing else.
    pub fn open(path: &Path) -> Result<Self, SeenError> {
        let dir = IndexDir::open(path, VERSION)?;
        let workers = Workers::start().map_err(|error| IndexFilesError::disk(path, &error))?;
        Ok(Self(Arc::new(Opened { workers, dir })))
    }

    /// Returns the checkpoint of this partition's index; `None` if there is none, or its manifest is damaged.
    pub fn position(&self, partition: u32) -> Result<Option<IndexCheckpoint>, SeenError> {
        let manifest = self.0.dir.read(partition, Manifest::read)?;
        Ok(manifest.and_then(|manifest| manifest.position))
    }

    /// Returns the partitions with an index, and their checkpoints.
    pub fn positions(&self) -> Result<Vec<(u32, IndexCheckpoint)>, SeenError> {
        let partitions = self.0.dir.partitions()?.into_iter();
        let position = |partition| Ok(self.position(partition)?.map(|position| (partition, position)));
        partitions.filter_map(|partition| position(partition).transpose()).collect()
    }

    /// Discards the index of this partition. It must not be open.
    pub fn discard(&self, partition: u32) -> Result<(), SeenError> {
        Ok(self.0.dir.discard(partition)?)
    }

    /// Opens the tables of a partition, which counts as open. A damaged index is discarded.
    pub(crate) fn table_set(&self, partition: u32) -> Result<(Arc<TableSet>, OpenPartition), SeenError> {
        let table_set = self.0.dir.open_partition(partition, TableSet::open)?;
        Ok((Arc::new(table_set), self.0.dir.count_open()))
    }

    /// Requests that a table of this set be written.
    pub(crate) fn write(&self, table_set: &Arc<TableSet>) {
        self.0.workers.write(table_set);
    }

    /// Returns the number of entries that a partition collects before it writes them.
    pub(crate) fn gathered_of_one(&self) -> usize {
        let (least, most) = GATHERED_OF_ONE;
        (GATHERED / self.0.dir.open_partitions()).clamp(least, most)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use orbweaver_messages::{SeenBatch, SeenEntry};
    use orbweaver_url::{CrawlName, Fingerprint};

    use super::*;
    use crate::{SeenPartition, exact::ExactPartition};

    fn fingerprint(number: u32) -> Fingerprint {
        Fingerprint::of(&CrawlName::default(), &number.to_string())
    }

    fn write(index: &ExactIndex, partition: u32, offset: u64, numbers: std::ops::Range<u32>) {
        let entry = |number| SeenEntry { slot: 0, depth: 4, fingerprint: fingerprint(number) };
        let batch = SeenBatch { entries: numbers.map(entry).collect() };
        let mut partition = ExactPartition::open(index, partition).unwrap();
        partition.read_back(IndexCheckpoint::of(offset, 1, b"value"), &batch).unwrap();
        partition.write().unwrap();
    }

    fn depth(index: &ExactIndex, partition: u32, number: u32) -> Option<u16> {
        ExactPartition::open(index, partition).unwrap().depth_of(fingerprint(number)).unwrap()
    }

    #[test]
    fn partitions_share_an_index_and_not_their_entries() {
        let directory = tempfile::tempdir().unwrap();
        let index = ExactIndex::open(directory.path()).unwrap();
        write(&index, 1, 7, 1..2);
        write(&index, 256, 8, 2..3);
        assert_eq!((depth(&index, 1, 1), depth(&index, 256, 1)), (Some(4), None));
        assert_eq!(index.positions().unwrap().iter().map(|(partition, _)| *partition).collect::<Vec<_>>(), [1, 256]);
        index.discard(1).unwrap();
        assert_eq!((depth(&index, 1, 1), index.position(1).unwrap()), (None, None));
        assert_eq!(depth(&index, 256, 2), Some(4));
    }

    #[test]
    fn a_damaged_run_or_manifest_throws_its_partition_away_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        for (damage, name) in [("cut", "run-"), ("flip", "run-"), ("remove", "run-"), ("cut", "manifest")] {
            let index = ExactIndex::open(directory.path()).unwrap();
            index.discard(1).unwrap();
            write(&index, 1, 7, 0..1000);
            write(&index, 2, 9, 0..1000);
            drop(index);
            let files = fs::read_dir(directory.path().join("p1")).unwrap().map(|entry| entry.unwrap().path());
            let mut named = files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(name));
            let path = named.next().unwrap();
            let mut bytes = fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            match damage {
                "cut" => fs::write(&path, &bytes[..middle]).unwrap(),
                "flip" => {
                    bytes[middle] ^= 1;
                    fs::write(&path, &bytes).unwrap();
                }
                _ => fs::remove_file(&path).unwrap(),
            }
            let index = ExactIndex::open(directory.path()).unwrap();
            assert_eq!((depth(&index, 1, 5), depth(&index, 2, 5)), (None, Some(4)), "{damage} {name}");
            assert_eq!(index.position(1).unwrap(), None);
            index.discard(2).unwrap();
        }
    }
}
