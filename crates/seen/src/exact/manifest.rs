//! The manifest of a partition's index: its SSTables, oldest first, and its checkpoint. One small file, replaced
//! atomically, so that SSTables and checkpoint change together.

use std::{fs, io, path::Path};

use xxhash_rust::xxh3::xxh3_64;

use crate::IndexCheckpoint;

const MAGIC: &[u8; 8] = b"orbseen2";
const NAME: &str = "manifest";
const POSITION: usize = 24;

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
        match fs::read(dir.join(NAME)) {
            Ok(bytes) => Ok(Self::from_bytes(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the manifest in this directory.
    pub(crate) fn write(&self, dir: &Path) -> io::Result<()> {
        let fresh = dir.join("manifest.new");
        fs::write(&fresh, self.to_bytes())?;
        fs::rename(&fresh, dir.join(NAME))
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.push(u8::from(self.position.is_some()));
        bytes.extend(self.position.map_or([0; POSITION], IndexCheckpoint::to_bytes));
        self.runs.iter().for_each(|run| bytes.extend(run.to_le_bytes()));
        bytes.extend(xxh3_64(&bytes).to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (body, hash) = bytes.split_last_chunk::<8>()?;
        let (position, runs) = body.strip_prefix(MAGIC)?.split_at_checked(1 + POSITION)?;
        if xxh3_64(body) != u64::from_le_bytes(*hash) || !runs.len().is_multiple_of(8) {
            return None;
        }
        let position = if position[0] == 0 { None } else { Some(IndexCheckpoint::from_bytes(&position[1..])?) };
        let runs = runs.chunks_exact(8).filter_map(|run| run.first_chunk().map(|run| u64::from_le_bytes(*run)));
        Some(Self { position, runs: runs.collect() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_manifest_reads_back_and_one_with_a_flipped_bit_or_a_missing_end_does_not(
            offset in proptest::option::of(any::<u64>()),
            runs in proptest::collection::vec(any::<u64>(), 0..20),
            at: usize,
            bit in 0u8..8,
        ) {
            let manifest = Manifest { position: offset.map(|offset| IndexCheckpoint::of(offset, 1, b"x")), runs };
            let mut bytes = manifest.to_bytes();
            prop_assert_eq!(Manifest::from_bytes(&bytes), Some(manifest));
            let at = at % bytes.len();
            prop_assert_eq!(Manifest::from_bytes(&bytes[..at]), None);
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(Manifest::from_bytes(&bytes), None);
        }
    }
}
