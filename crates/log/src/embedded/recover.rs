//! Recovery of a partition after its process ended, for any reason.
//!
//! - The process was killed: all data passed to the system is present. At most the last write is torn; it was not
//!   acknowledged and is cut off.
//! - The system was restarted (power cut): everything rolls back to the last checkpoint. Files reach the disk in any
//!   order, so an effect beyond it could be present without its cause.
//! - A sync failed (the log is marked): pages that can be read may not be on disk, whether the system was restarted or
//!   not. Everything rolls back as after a restart.
//! - Any other invalid data is damage and reported, never dropped.

use std::{collections::VecDeque, fs::File, os::unix::fs::FileExt, path::Path};

use super::{
    block::RECORDS_PER_BYTE,
    checkpoint::{Checkpoint, Entry},
    files::{at, corrupt, open, remove, sync_dir},
    frame::{Frame, Kind, Look, look, offset_unchecked},
    frame_reader::{Chunk, FrameReader},
    partition::Writer,
    segment::{Segment, Segments, bases, path, sealed},
};
use crate::{Bounds, LogError, Offset, Partition};

/// Treatment of files beyond the checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recovery {
    /// All but the last write is complete.
    Continue,
    /// Sealed segments may be incomplete too: there is no checkpoint, or no boot ID.
    Distrust,
    /// Everything rolls back to the checkpoint.
    RollBack,
}

impl Recovery {
    /// Returns the treatment for a log with this checkpoint. `failed`: a sync failed since the log was last recovered.
    pub(super) fn after(checkpoint: Option<&Checkpoint>, failed: bool) -> Self {
        match checkpoint {
            Some(_) if failed => Self::RollBack,
            Some(last) if !last.before_a_restart() => Self::Continue,
            Some(last) if !last.boot.is_empty() => Self::RollBack,
            _ => Self::Distrust,
        }
    }
}

/// Valid contents of a file, from some position on.
#[derive(Debug)]
pub(super) struct Scan {
    /// End position in the file.
    pub(super) len: u64,
    /// Offset after the last record.
    pub(super) end: Offset,
    pub(super) max_ms: i64,
    pub(super) seal: Option<Kind>,
}

impl Scan {
    pub(super) fn beginning(base: Offset) -> Self {
        Self { len: 0, end: base, max_ms: i64::MIN, seal: None }
    }

    /// Scans to the end of the file, and cuts off a torn tail.
    pub(super) fn complete(
        mut self,
        path: &Path,
        file: &File,
        mut each: impl FnMut(Frame) -> Result<(), &'static str>,
    ) -> Result<Self, LogError> {
        let len = file.metadata().map_err(at(path))?.len();
        if len < self.len {
            return Err(corrupt(path, len, &format!("the file ends here, but {} bytes of it were durable", self.len)));
        }
        let mut chunk = Chunk::default();
        let mut walk = FrameReader::new(path, file, self.len, len, &mut chunk);
        let (position, reason) = loop {
            match walk.next() {
                Ok(None) => return Ok(self),
                Ok(Some(frame)) => {
                    let position = self.len;
                    if let Err(reason) = self.take(&frame, walk.position()).and_then(|()| each(frame)) {
                        break (position, reason.to_owned());
                    }
                }
                Err(LogError::Corrupt { position, reason, .. }) => break (position, reason),
                Err(error) => return Err(error),
            }
        };
        // Nothing follows the last write of a killed process.
        if record_follows(path, file, (position, len), self.end)? {
            return Err(corrupt(path, position, &format!("{reason}, but complete records follow")));
        }
        let bytes = len - position;
        tracing::warn!(path = %path.display(), position, bytes, reason, "an incomplete write at the end was removed");
        file.set_len(position).map_err(at(path))?;
        self.len = position;
        Ok(self)
    }

    fn take(&mut self, frame: &Frame, end_position: u64) -> Result<(), &'static str> {
        if self.seal.is_some() {
            return Err("a record follows the end of its segment");
        }
        if frame.offset < self.end {
            return Err("an offset is lower than that of the previous record");
        }
        if frame.kind == Kind::Record {
            self.end = frame.offset + 1;
            self.max_ms = self.max_ms.max(frame.timestamp_ms);
        } else {
            self.end = frame.offset;
            self.seal = Some(frame.kind);
        }
        self.len = end_position;
        Ok(())
    }
}

/// Returns whether a valid record follows anywhere after the damage at `from`.
fn record_follows(path: &Path, file: &File, (from, len): (u64, u64), end: Offset) -> Result<bool, LogError> {
    // At most the length of a segment and a record.
    let mut rest = vec![0; usize::try_from(len - from).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut rest, from).map_err(at(path))?;
    let most = end.saturating_add(rest.len() as u64 * RECORDS_PER_BYTE);
    Ok((1..rest.len()).any(|at| {
        let Some(bytes) = rest.get(at..) else { return false };
        // Computes the checksum only where the offset is plausible.
        offset_unchecked(bytes).is_some_and(|offset| (end..=most).contains(&offset))
            && matches!(look(bytes), Look::Whole(_))
    }))
}

/// Recovers the partition in `dir`. `entry` is its entry in the checkpoint; the default, if it has none.
pub(super) fn recover(dir: &Path, entry: &Entry, recovery: Recovery) -> Result<(Segments, Writer), LogError> {
    let mut bases = bases(dir)?;
    if recovery == Recovery::RollBack {
        roll_back(dir, entry, &mut bases)?;
    }
    let mut list: VecDeque<Segment> = VecDeque::new();
    let mut open_last = false;
    let last = bases.last().copied();
    for base in bases {
        let path = path(dir, base);
        if let Some(before) = list.back().map(|segment| segment.end) {
            if base < before {
                tracing::info!(path = %path.display(), "completing an interrupted compaction");
                // The new name first, as in a compaction: its sync may have failed.
                sync_dir(dir)?;
                remove(&path)?;
                continue;
            }
            if base > before {
                let reason = format!("the previous file, with the records from offset {before}, is missing");
                return Err(corrupt(&path, 0, &reason));
            }
        }
        let file = open(&path)?;
        if Some(base) != last && !(recovery == Recovery::Distrust && base >= entry.base) {
            list.push_back(sealed(&path, &file, base)?);
            continue;
        }
        let known = if base == entry.base {
            let Entry { len, end, max_ms, sealed, .. } = *entry;
            Scan { len, end, max_ms, seal: sealed.then_some(Kind::Seal) }
        } else {
            Scan::beginning(base)
        };
        let Scan { len, end, max_ms, seal } = known.complete(&path, &file, |_| Ok(()))?;
        let compacted = seal == Some(Kind::CompactedSeal);
        list.push_back(Segment { base, end, len, max_ms, generation: 0, compacted });
        open_last = seal.is_none();
        if open_last && Some(base) != last {
            return Err(corrupt(&path, len, "the file does not end with the seal of a complete segment"));
        }
    }
    let last = list.back().copied().unwrap_or_else(|| Segment::empty(0));
    if last.end < entry.end {
        let reason = format!("files are missing: the records before offset {} were durable", entry.end);
        return Err(corrupt(dir, 0, &reason));
    }
    let first = list.front().map_or(0, |first| first.base);
    let bounds = Bounds { start: entry.start.clamp(first, last.end.max(first)), end: last.end };
    let unsynced = list.iter().map(|segment| segment.base).filter(|base| *base >= entry.base).collect();
    let writer = Writer { last, open: open_last, unsynced, new_files: !list.is_empty() };
    Ok((Segments { bounds, list }, writer))
}

/// Rolls the files back to the checkpoint.
fn roll_back(dir: &Path, entry: &Entry, bases: &mut Vec<Offset>) -> Result<(), LogError> {
    while let Some(base) = bases.pop_if(|base| *base > entry.base) {
        let path = path(dir, base);
        tracing::warn!(path = %path.display(), "the file is beyond the last checkpoint; removed");
        remove(&path)?;
    }
    let Some(base) = bases.last().copied().filter(|base| *base == entry.base) else { return Ok(()) };
    let path = path(dir, base);
    let file = open(&path)?;
    let len = file.metadata().map_err(at(&path))?.len();
    if len > entry.len {
        let bytes = len - entry.len;
        tracing::warn!(path = %path.display(), bytes, "the end is beyond the last checkpoint; truncated");
        file.set_len(entry.len).map_err(at(&path))?;
    }
    Ok(())
}

/// Returns the directory of a partition.
pub(super) fn partition_dir(topic: &Path, partition: Partition) -> std::path::PathBuf {
    topic.join(partition.to_string())
}
