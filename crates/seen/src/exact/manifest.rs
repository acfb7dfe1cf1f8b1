//! The manifest of a partition's index: its SSTables, oldest first, and its checkpoint. One small file, replaced
//! atomically, so that SSTables and checkpoint change together.

use std::{io, path::Path};

use orbweaver_index_files::{read_hashed, replace_hashed};

use crate::IndexCheckpoint;

const MAGIC: &[u8; 8] = b"orbseen2";
const NAME: &str = "manifest";

/// Contents of an index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) position: Option<IndexCheckpoint>,
    /// Numbers of the SSTables, oldest first.
    pub(crate) runs: Vec<u64>,
}

impl Manifest {
    /// Reads the manifest in this directory; returns `None` if there is none, or it is damaged.
    pub(crate) fn read(dir: &Path) -> io::Result<Option<Self>> {
        Ok(read_hashed(dir, NAME)?.and_then(|content| Self::from_bytes(&content)))
    }

    /// Replaces the manifest in this directory.
    pub(crate) fn write(&self, dir: &Path) -> io::Result<()> {
        replace_hashed(dir, NAME, self.to_bytes())
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.push(u8::from(self.position.is_some()));
        let position = self.position.map_or([0; 3], |at| [at.offset, at.timestamp_ms.cast_unsigned(), at.hash]);
        position.iter().chain(&self.runs).for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (has_position, numbers) = bytes.strip_prefix(MAGIC)?.split_first()?;
        let (numbers, rest) = numbers.as_chunks::<8>();
        if !rest.is_empty() {
            return None;
        }
        let mut numbers = numbers.iter().map(|number| u64::from_le_bytes(*number));
        let (offset, timestamp_ms, hash) = (numbers.next()?, numbers.next()?.cast_signed(), numbers.next()?);
        let position = (*has_position != 0).then_some(IndexCheckpoint { offset, timestamp_ms, hash });
        Some(Self { position, runs: numbers.collect() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_manifest_reads_back(
            position in proptest::option::of(any::<(u64, i64)>()),
            runs in proptest::collection::vec(any::<u64>(), 0..20),
        ) {
            let directory = tempfile::tempdir().unwrap();
            let position = position.map(|(offset, time)| IndexCheckpoint::of(offset, time, &offset.to_le_bytes()));
            let manifest = Manifest { position, runs };
            manifest.write(directory.path()).unwrap();
            prop_assert_eq!(Manifest::read(directory.path()).unwrap(), Some(manifest));
        }
    }
}
