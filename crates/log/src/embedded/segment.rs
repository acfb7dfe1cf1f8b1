//! The segments of a partition, as seen by readers.

use std::{
    collections::VecDeque,
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use orbweaver_messages::Millis;

use super::{
    files::{at, corrupt},
    frame::{Frame, Kind, Look, MIN_FRAME, look},
};
use crate::{Bounds, LogError, Offset};

/// A segment: a file with the records from `base` up to `end`, exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) base: Offset,
    pub(super) end: Offset,
    /// Number of readable bytes in the file.
    pub(super) len: u64,
    /// Latest timestamp.
    pub(super) max_ms: Millis,
    /// Number of replacements since the log was opened; positions in an earlier generation are invalid.
    pub(super) generation: u32,
    /// Whether it was compacted.
    pub(super) compacted: bool,
}

impl Segment {
    pub(super) fn empty(base: Offset) -> Self {
        Self { base, end: base, len: 0, max_ms: Millis::MIN, generation: 0, compacted: false }
    }
}

/// Readable range and segments of a partition. Only the last segment grows.
#[derive(Debug)]
pub(super) struct Segments {
    /// Readable range; the first segment may begin below it.
    pub(super) bounds: Bounds,
    pub(super) list: VecDeque<Segment>,
}

impl Segments {
    /// Returns the index of the segment with `offset`: the last one that begins at or before it.
    pub(super) fn find(&self, offset: Offset) -> Option<usize> {
        self.list.partition_point(|segment| segment.base <= offset).checked_sub(1)
    }

    /// Returns the index of the segment that begins at `base`.
    pub(super) fn position(&self, base: Offset) -> Option<usize> {
        self.list.binary_search_by_key(&base, |segment| segment.base).ok()
    }
}

/// Returns the path of the segment that begins at `base`.
pub(super) fn path(dir: &Path, base: Offset) -> PathBuf {
    dir.join(format!("{base:020}.log"))
}

/// Returns the base offsets of the segments in a directory, sorted. Removes remains of an interrupted compaction.
pub(super) fn bases(dir: &Path) -> Result<Vec<Offset>, LogError> {
    let mut bases = vec![];
    for entry in std::fs::read_dir(dir).map_err(at(dir))? {
        let path = entry.map_err(at(dir))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.ends_with(".tmp") {
            super::files::remove(&path)?;
        } else if let Some(base) = name.strip_suffix(".log") {
            let base = base.parse().map_err(|_| corrupt(&path, 0, "the file name of a segment must be a number"))?;
            bases.push(base);
        }
    }
    bases.sort_unstable();
    Ok(bases)
}

/// Reads the seal at the end of a segment that has a successor. (A record can be crafted to end like a seal, so this
/// cannot decide whether the *last* segment is sealed.)
pub(super) fn sealed(path: &Path, file: &File, base: Offset) -> Result<Segment, LogError> {
    let len = file.metadata().map_err(at(path))?.len();
    let mut bytes = vec![0; MIN_FRAME];
    let unsealed = || corrupt(path, len, "the file does not end with the seal of a complete segment");
    let seal_at = len.checked_sub(MIN_FRAME as u64).ok_or_else(unsealed)?;
    file.read_exact_at(&mut bytes, seal_at).map_err(at(path))?;
    if look(&bytes) != Look::Whole(MIN_FRAME) {
        return Err(unsealed());
    }
    let seal = Frame::parse(bytes.into()).map_err(|reason| corrupt(path, seal_at, reason))?;
    if !matches!(seal.kind, Kind::Seal | Kind::CompactedSeal) || seal.offset < base {
        return Err(unsealed());
    }
    let compacted = seal.kind == Kind::CompactedSeal;
    Ok(Segment { base, end: seal.offset, len, max_ms: seal.timestamp_ms, generation: 0, compacted })
}
