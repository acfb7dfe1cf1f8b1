//! Compaction: keeps the last record of each key, at its offset.
//!
//! A partition is compacted once at least half of its complete segments, in bytes, were written since the last
//! compaction, so that a record is copied about once for each time it could have been superseded. The last offset of
//! each key is collected from the segments written since; then all segments from the first up to those are copied
//! without superseded records, merging small results into one file. That file replaces the first of its inputs. The
//! others are then below its end and are removed, immediately or, after a crash, when the log is opened.

use std::{
    collections::{HashMap, hash_map::RandomState},
    fs::File,
    hash::BuildHasher,
    os::unix::fs::FileExt,
    path::PathBuf,
    slice,
    sync::{PoisonError, atomic::Ordering},
};

use orbweaver_messages::Millis;

use super::{
    block::{self, FrameWriter},
    disk::Disk,
    files::{FileKey, at, corrupt, create, remove, sync_dir},
    frame::{Frame, Kind},
    frame_reader::{Chunk, FrameReader},
    partition::PartitionLog,
    segment::Segment,
};
use crate::{LogError, Offset};

/// Approximate size of a write of the copy.
const PIECE_BYTES: usize = 1 << 20;

/// The last offset of each key, by a 128-bit hash: two SipHashes with independent random keys, so that a party that
/// chooses keys (such as sites) cannot make two of them collide and a record vanish.
struct Last {
    hashers: (RandomState, RandomState),
    offsets: HashMap<(u64, u64), Offset>,
}

impl Last {
    fn hash(&self, key: &[u8]) -> (u64, u64) {
        (self.hashers.0.hash_one(key), self.hashers.1.hash_one(key))
    }

    fn note(&mut self, frame: &Frame) {
        if let Some(key) = frame.key() {
            let hash = self.hash(key);
            self.offsets.insert(hash, frame.offset);
        }
    }

    fn keeps(&self, frame: &Frame, tombstones_from: Millis) -> bool {
        let Some(key) = frame.key() else { return true };
        let last = self.offsets.get(&self.hash(key));
        // An expired tombstone may go: all earlier records of its key are in the inputs and dropped, or already gone.
        last.is_none_or(|last| *last <= frame.offset) && !(frame.is_tombstone() && frame.timestamp_ms < tombstones_from)
    }
}

/// Compacts a partition if worthwhile. Returns the total size of the input segments, in bytes.
pub(super) fn compact(partition: &PartitionLog, disk: &Disk, now: Millis) -> Result<u64, LogError> {
    let _upkeep = partition.upkeep.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((start, segments)) = worth_it(partition) else { return Ok(0) };
    let mut last = Last { hashers: (RandomState::new(), RandomState::new()), offsets: HashMap::new() };
    let mut done_to = 0;
    for (index, segment) in segments.iter().enumerate() {
        if !segment.compacted {
            if last.offsets.len() >= disk.options.compaction_keys {
                break;
            }
            each(partition, disk, segment, |_, records| {
                records.iter().for_each(|record| last.note(record));
                Ok(())
            })?;
        }
        done_to = index + 1;
    }
    let retention = i64::try_from(disk.options.tombstone_retention.as_millis()).unwrap_or(Millis::MAX);
    let tombstones_from = now.saturating_sub(retention);
    let mut done = 0;
    let mut copy: Option<Copy> = None;
    for segment in segments.iter().take(done_to) {
        let mut current = match copy.take() {
            Some(current) if current.takes(segment, disk.options.segment_bytes) => current,
            full => {
                full.map_or(Ok(()), |full| full.finish(partition, disk))?;
                Copy::begin(partition, segment.base)?
            }
        };
        each(partition, disk, segment, |frame, records| {
            let keeps = |record: &&Frame| record.offset >= start && last.keeps(record, tombstones_from);
            if frame.kind == Kind::Block && block::is_full(frame) && records.iter().all(|record| keeps(&record)) {
                return current.put(frame);
            }
            records.iter().filter(keeps).try_for_each(|record| current.put(record))
        })?;
        current.inputs.push(*segment);
        done += segment.len;
        copy = Some(current);
    }
    copy.map_or(Ok(()), |copy| copy.finish(partition, disk))?;
    Ok(done)
}

/// Returns the log start and the complete segments, if at least half of their bytes are not compacted.
fn worth_it(partition: &PartitionLog) -> Option<(Offset, Vec<Segment>)> {
    let settled = partition.settled.load(Ordering::Acquire);
    let segments = partition.segments();
    let complete: Vec<_> = segments.list.iter().take_while(|segment| segment.base < settled).copied().collect();
    let bytes = |compacted| -> u64 {
        complete.iter().filter(|segment| segment.compacted == compacted).map(|segment| segment.len).sum()
    };
    let written = bytes(false);
    (written > 0 && written >= bytes(true)).then_some((segments.bounds.start, complete))
}

/// Calls `f` with each block of a segment and its records, and with each record that is in none.
fn each(
    partition: &PartitionLog,
    disk: &Disk,
    segment: &Segment,
    mut f: impl FnMut(&Frame, &[Frame]) -> Result<(), LogError>,
) -> Result<(), LogError> {
    let path = partition.path(segment.base);
    let file = partition.file(disk, segment.base, segment.generation)?;
    let mut chunk = Chunk::default();
    let mut walk = FrameReader::new(&path, &file, 0, segment.len, &mut chunk);
    let mut position = 0;
    while let Some(frame) = walk.next_frame()? {
        match frame.kind {
            Kind::Record => f(&frame, slice::from_ref(&frame))?,
            Kind::Block => f(&frame, &block::open(&frame).map_err(|reason| corrupt(&path, position, reason))?)?,
            Kind::Seal | Kind::CompactedSeal => {}
        }
        position = walk.position();
    }
    Ok(())
}

/// A copy in progress.
struct Copy {
    path: PathBuf,
    file: File,
    buffer: FrameWriter,
    len: u64,
    max_ms: Millis,
    inputs: Vec<Segment>,
}

impl Copy {
    fn begin(partition: &PartitionLog, base: Offset) -> Result<Self, LogError> {
        let path = partition.dir.join(format!("{base:020}.tmp"));
        let file = create(&path)?;
        Ok(Self { path, file, buffer: FrameWriter::default(), len: 0, max_ms: Millis::MIN, inputs: vec![] })
    }

    /// Returns whether another segment fits: the copy is still small, and at worst stays within twice the segment size.
    fn takes(&self, segment: &Segment, segment_bytes: u64) -> bool {
        let len = self.len + self.buffer.len() as u64;
        len < segment_bytes / 2 && len + segment.len <= 2 * segment_bytes
    }

    fn put(&mut self, frame: &Frame) -> Result<(), LogError> {
        self.buffer.copy(frame);
        self.max_ms = self.max_ms.max(frame.timestamp_ms);
        if self.buffer.len() >= PIECE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), LogError> {
        let frames = self.buffer.finish();
        self.file.write_all_at(frames, self.len).map_err(at(&self.path))?;
        self.len += frames.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Replaces the inputs with the copy.
    fn finish(mut self, partition: &PartitionLog, disk: &Disk) -> Result<(), LogError> {
        let (Some(first), Some(last)) = (self.inputs.first().copied(), self.inputs.last().copied()) else {
            return Ok(());
        };
        self.buffer.seal(Kind::CompactedSeal, last.end, self.max_ms);
        self.flush()?;
        disk.synced(self.file.sync_data().map_err(at(&self.path)))?;
        let path = partition.path(first.base);
        let generation = first.generation + 1;
        {
            // Renamed under the lock that file lookups take, so that a generation is the same file for all of them.
            let mut segments = partition.segments();
            let Some(index) = segments.position(first.base) else { return Ok(()) };
            std::fs::rename(&self.path, &path).map_err(at(&path))?;
            let Segment { base, .. } = first;
            let (end, len, max_ms) = (last.end, self.len, self.max_ms);
            segments.list.drain(index..index + self.inputs.len());
            segments.list.insert(index, Segment { base, end, len, max_ms, generation, compacted: true });
        }
        // New name first, then the old files: otherwise a power cut could leave neither.
        disk.synced(sync_dir(&partition.dir))?;
        for input in &self.inputs {
            let Segment { base, generation, .. } = *input;
            disk.files.forget(FileKey { partition: partition.number, base, generation });
            if base != first.base {
                remove(&partition.path(base))?;
            }
        }
        Ok(())
    }
}
