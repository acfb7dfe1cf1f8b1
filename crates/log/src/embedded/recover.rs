//! Recovery of a partition after its process ended, for any reason.
//!
//! - The process was killed: all data passed to the system is present. At most the last write is torn; it was not
//!   acknowledged and is cut off.
//! - The system was restarted (power cut): under [`SyncPolicy::Every`](super::SyncPolicy::Every) everything rolls back
//!   to the last checkpoint. Files reach the disk in any order, so an effect beyond it could be present without its
//!   cause.
//! - A sync failed (the log is marked): pages that can be read may not be on disk, whether the system was restarted or
//!   not. Under `Every` everything rolls back as after a restart; else records beyond the checkpoint are written again.
//! - Any other invalid data is damage and reported, never dropped.

use std::{fs::File, os::unix::fs::FileExt, path::Path};

use super::{
    checkpoint::{Checkpoint, Entry},
    files::{at, corrupt, open, remove, rewrite, sync_dir},
    frame::{Frame, Kind, Look, MIN_FRAME, look, offset_unchecked},
    frame_reader::{Chunk, FrameError, FrameReader},
    partition::Writer,
    segment::{Segment, Segments, bases, path, sealed},
};
use crate::{LogError, Offset, Partition, SyncPolicy};

/// Rules for recovering a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Recovery {
    /// Roll everything back to the checkpoint.
    pub(super) roll_back: bool,
    /// Sealed segments beyond the checkpoint may be incomplete too.
    pub(super) distrust: bool,
    /// Discard everything after damage: the policy guaranteed no more.
    pub(super) forgive: bool,
    /// Write everything beyond the checkpoint again: a sync of it may succeed although the disk does not have it.
    pub(super) rewrite: bool,
}

impl Recovery {
    /// Returns the rules for a log with this checkpoint. `failed`: a sync failed since the log was last recovered.
    pub(super) fn after(checkpoint: Option<&Checkpoint>, failed: bool) -> Self {
        let Some(checkpoint) = checkpoint else {
            return Self { roll_back: false, distrust: true, forgive: false, rewrite: failed };
        };
        let distrust = failed || checkpoint.before_a_restart();
        let known = failed || !checkpoint.boot.is_empty();
        let every = SyncPolicy::Every(std::time::Duration::from_secs(1));
        Self {
            roll_back: distrust && known && checkpoint.synced(&every),
            distrust,
            forgive: distrust && checkpoint.synced(&SyncPolicy::Never),
            rewrite: failed,
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

impl From<&Entry> for Scan {
    fn from(entry: &Entry) -> Self {
        let Entry { len, end, max_ms, sealed, .. } = *entry;
        Self { len, end, max_ms, seal: sealed.then_some(Kind::Seal) }
    }
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
        forgive: bool,
        mut each: impl FnMut(Frame) -> Result<(), &'static str>,
    ) -> Result<Self, LogError> {
        let len = file.metadata().map_err(at(path))?.len();
        if len < self.len {
            return Err(corrupt(path, len, &format!("the file ends here, but {} bytes of it were durable", self.len)));
        }
        let mut chunk = Chunk::default();
        let mut walk = FrameReader::new(file, self.len, len, &mut chunk);
        let (position, reason) = loop {
            match walk.next() {
                Ok(None) => return Ok(self),
                Ok(Some(frame)) => {
                    let position = self.len;
                    if let Err(reason) = self.take(&frame, walk.position()).and_then(|()| each(frame)) {
                        break (position, reason);
                    }
                }
                Err(FrameError::Damaged(position, reason)) => break (position, reason),
                Err(trouble) => return Err(trouble.of(path)),
            }
        };
        // Nothing follows the last write of a killed process.
        if !forgive && followed(path, file, (position, len), self.end)? {
            return Err(corrupt(path, position, &format!("{reason}, but complete records follow")));
        }
        let bytes = len - position;
        tracing::warn!(path = %path.display(), position, bytes, reason, "an incomplete write at the end was removed");
        file.set_len(position).map_err(at(path))?;
        self.len = position;
        Ok(self)
    }

    fn take(&mut self, frame: &Frame, behind: u64) -> Result<(), &'static str> {
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
        self.len = behind;
        Ok(())
    }
}

/// Returns whether a valid record follows anywhere after the damage at `from`.
fn followed(path: &Path, file: &File, (from, len): (u64, u64), end: Offset) -> Result<bool, LogError> {
    // At most the length of a segment and a record.
    let mut rest = vec![0; usize::try_from(len - from).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut rest, from).map_err(at(path))?;
    let most = end.saturating_add(rest.len() as u64 / MIN_FRAME as u64 + 1);
    Ok((1..rest.len()).any(|at| {
        let Some(bytes) = rest.get(at..) else { return false };
        // Computes the checksum only where the offset is plausible.
        offset_unchecked(bytes).is_some_and(|offset| (end..=most).contains(&offset))
            && matches!(look(bytes), Look::Whole(_))
    }))
}

/// Recovers the partition in `dir`. `entry` is its entry in the checkpoint.
pub(super) fn recover(dir: &Path, entry: Option<&Entry>, recovery: Recovery) -> Result<(Segments, Writer), LogError> {
    let nothing = Entry::default();
    let entry = entry.unwrap_or(&nothing);
    let mut bases = bases(dir)?;
    if recovery.roll_back {
        roll_back(dir, entry, &mut bases)?;
    }
    let mut segments = Segments::default();
    let mut open_last = false;
    let last = bases.last().copied();
    for base in bases {
        let path = path(dir, base);
        if let Some(before) = segments.list.back().map(|segment: &Segment| segment.end) {
            if base < before {
                tracing::info!(path = %path.display(), "completing an interrupted compaction");
                // The new name first, as in a compaction: its sync may have failed.
                sync_dir(dir)?;
                remove(&path)?;
                continue;
            }
            if base > before {
                return Err(corrupt(
                    &path,
                    0,
                    &format!("the previous file, with the records from offset {before}, is missing"),
                ));
            }
        }
        let file = open(&path)?;
        if Some(base) != last && !(recovery.distrust && base >= entry.base) {
            segments.list.push_back(sealed(&path, &file, base)?);
            continue;
        }
        if recovery.rewrite && base >= entry.base {
            rewrite(&path, &file, if base == entry.base { entry.len } else { 0 })?;
        }
        let known = if base == entry.base && !recovery.forgive { Scan::from(entry) } else { Scan::beginning(base) };
        let scan = known.complete(&path, &file, recovery.forgive, |_| Ok(()))?;
        let (end, compacted) = (scan.end, scan.seal == Some(Kind::CompactedSeal));
        segments.list.push_back(Segment { base, end, len: scan.len, max_ms: scan.max_ms, generation: 0, compacted });
        open_last = scan.seal.is_none();
        if open_last && Some(base) != last {
            if !recovery.forgive {
                return Err(corrupt(&path, scan.len, "the file does not end with the seal of a complete segment"));
            }
            give_up_behind(dir, base)?;
            break;
        }
    }
    if !recovery.forgive && segments.list.back().map_or(0, |last| last.end) < entry.end {
        let reason = format!("files are missing: the records before offset {} were durable", entry.end);
        return Err(corrupt(dir, 0, &reason));
    }
    Ok(finish(segments, open_last, entry))
}

fn finish(mut segments: Segments, open: bool, entry: &Entry) -> (Segments, Writer) {
    let ends = segments.list.front().copied().zip(segments.list.back().copied());
    let Some((first, last)) = ends else { return (segments, Writer::default()) };
    segments.end = last.end;
    segments.start = entry.start.clamp(first.base, last.end.max(first.base));
    let unsynced = segments.list.iter().map(|segment| segment.base).filter(|base| *base >= entry.base).collect();
    let Segment { base, end: next, len, max_ms, .. } = last;
    (segments, Writer { next, base, len, max_ms, open, unsynced, new_files: true })
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

fn give_up_behind(dir: &Path, base: Offset) -> Result<(), LogError> {
    for later in bases(dir)?.into_iter().filter(|later| *later > base) {
        let path = path(dir, later);
        tracing::warn!(path = %path.display(), "the file follows a damaged one; removed");
        remove(&path)?;
    }
    Ok(())
}

/// Returns the directory of a partition.
pub(super) fn partition_dir(topic: &Path, partition: Partition) -> std::path::PathBuf {
    topic.join(partition.to_string())
}
