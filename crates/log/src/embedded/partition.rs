//! A partition: one writer, many readers, consecutive segments.
//!
//! `writer` is locked for a whole append, `segments` only briefly, so readers never wait for a write. Where both are
//! needed, `writer` is locked first.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use super::{
    block::FrameWriter,
    checkpoint::Entry,
    disk::Disk,
    files::{FileKey, at, create, remove, sync_dir},
    frame::{Kind, put_seal},
    segment::{self, Segment, Segments},
};
use crate::{LogError, Offset, Record, TopicPartition, TopicSpec};

/// Large batches are written in pieces of about this size, so that their frames do not double their memory use.
const PIECE_BYTES: usize = 1 << 20;

/// Minimum size at which a last segment without needed records is replaced.
const WORTH_ROLLING_BYTES: u64 = 64 << 10;

/// End of the last segment, where the next record is written.
#[derive(Debug)]
pub(super) struct Writer {
    /// The last segment, with the records that readers do not see yet.
    pub(super) last: Segment,
    /// Whether there is a last segment that is not sealed.
    pub(super) open: bool,
    /// Bases of the segments written since the last cut.
    pub(super) unsynced: Vec<Offset>,
    /// Whether files were created since the last cut.
    pub(super) new_files: bool,
}

/// State of a partition at a cut.
pub(super) struct Cut {
    pub(super) entry: Entry,
    pub(super) unsynced: Vec<Offset>,
    pub(super) new_files: bool,
}

pub(super) struct PartitionLog {
    /// Number among all partitions of the log.
    pub(super) number: usize,
    pub(super) tp: TopicPartition,
    pub(super) spec: TopicSpec,
    pub(super) dir: PathBuf,
    /// The log end, readable without the lock.
    end: AtomicU64,
    /// Changed since the last cut.
    pub(super) dirty: AtomicBool,
    /// Segments with a base below this are durable and sealed, and no checkpoint that a rollback may use names them.
    pub(super) settled: AtomicU64,
    /// Held while segments are removed or replaced.
    pub(super) upkeep: Mutex<()>,
    writer: Mutex<Writer>,
    segments: Mutex<Segments>,
}

impl PartitionLog {
    pub(super) fn new(
        number: usize,
        (tp, spec): (TopicPartition, TopicSpec),
        dir: PathBuf,
        (segments, writer): (Segments, Writer),
    ) -> Self {
        Self {
            number,
            tp,
            spec,
            dir,
            end: AtomicU64::new(segments.bounds.end),
            dirty: AtomicBool::new(false),
            settled: AtomicU64::new(0),
            upkeep: Mutex::new(()),
            writer: Mutex::new(writer),
            segments: Mutex::new(segments),
        }
    }

    pub(super) fn end(&self) -> Offset {
        self.end.load(Ordering::Acquire)
    }

    pub(super) fn segments(&self) -> MutexGuard<'_, Segments> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn path(&self, base: Offset) -> PathBuf {
        segment::path(&self.dir, base)
    }

    /// Returns the file of a segment. Readers call this while holding `segments`, so that it is the file of that
    /// generation.
    pub(super) fn file(&self, disk: &Disk, base: Offset, generation: u32) -> Result<Arc<File>, LogError> {
        let key = FileKey { partition: self.number, base, generation };
        disk.files.get(key, || self.path(base))
    }

    /// Appends records in one write (one per MiB), and returns the offset of the first; the others are consecutive.
    pub(super) fn append<'a>(
        &self,
        disk: &Disk,
        records: impl Iterator<Item = &'a Record>,
    ) -> Result<Offset, LogError> {
        let mut writer = self.writer();
        disk.check_writable()?;
        let first = writer.last.end;
        let mut buffer = disk.buffer();
        let written = self.write(disk, &mut writer, &mut buffer, records);
        disk.give_back(buffer);
        written.inspect_err(|error| self.give_up(disk, &writer, error))?;
        Ok(first)
    }

    fn write<'a>(
        &self,
        disk: &Disk,
        writer: &mut Writer,
        buffer: &mut FrameWriter,
        records: impl Iterator<Item = &'a Record>,
    ) -> Result<(), LogError> {
        for record in records {
            if writer.open && writer.last.len + buffer.len() as u64 >= disk.options.segment_bytes {
                self.flush(disk, writer, buffer.finish())?;
                buffer.clear();
                self.seal(disk, writer)?;
            }
            if !writer.open {
                self.begin(disk, writer)?;
            }
            buffer.add(writer.last.end, record);
            writer.last.end += 1;
            writer.last.max_ms = writer.last.max_ms.max(record.timestamp_ms);
            if buffer.len() >= PIECE_BYTES {
                self.flush(disk, writer, buffer.finish())?;
                buffer.clear();
            }
        }
        self.flush(disk, writer, buffer.finish())?;
        self.publish(writer);
        Ok(())
    }

    /// Writes these frames to the file.
    fn flush(&self, disk: &Disk, writer: &mut Writer, frames: &[u8]) -> Result<(), LogError> {
        if frames.is_empty() {
            return Ok(());
        }
        let Segment { base, len, .. } = writer.last;
        let file = self.file(disk, base, 0)?;
        file.write_all_at(frames, len).map_err(|error| at(&self.path(base))(error))?;
        writer.last.len += frames.len() as u64;
        if writer.unsynced.last() != Some(&base) {
            writer.unsynced.push(base);
        }
        Ok(())
    }

    /// Seals the last segment.
    fn seal(&self, disk: &Disk, writer: &mut Writer) -> Result<(), LogError> {
        let mut seal = vec![];
        put_seal(&mut seal, Kind::Seal, writer.last.end, writer.last.max_ms);
        self.flush(disk, writer, &seal)?;
        self.publish(writer);
        writer.open = false;
        Ok(())
    }

    /// Starts a new segment. The last one, if any, is sealed.
    fn begin(&self, disk: &Disk, writer: &mut Writer) -> Result<(), LogError> {
        let base = writer.last.end;
        let file = create(&self.path(base))?;
        disk.files.keep(FileKey { partition: self.number, base, generation: 0 }, file);
        writer.last = Segment::empty(base);
        (writer.open, writer.new_files) = (true, true);
        writer.unsynced.push(base);
        self.segments().list.push_back(writer.last);
        Ok(())
    }

    /// Makes written records visible to readers.
    fn publish(&self, writer: &Writer) {
        let mut segments = self.segments();
        if let Some(last) = segments.list.back_mut() {
            *last = writer.last;
        }
        segments.bounds.end = writer.last.end;
        self.end.store(writer.last.end, Ordering::Release);
    }

    /// Handles a failed write: truncates its remains, so that no reader takes them for a record, and stops all writes.
    /// If the truncation fails too, opening the log repairs the tail.
    fn give_up(&self, disk: &Disk, writer: &Writer, error: &LogError) {
        disk.fail(error);
        let published = self.segments().list.back().map(|last| (last.base, last.len));
        let Some((base, len)) = published.filter(|(base, _)| *base == writer.last.base) else { return };
        if let Ok(file) = self.file(disk, base, 0)
            && let Err(error) = file.set_len(len)
        {
            tracing::warn!(path = %self.path(base).display(), %error, "a failed write could not be undone");
        }
    }

    /// Deletes all records below `before`. Their segments are removed after the next checkpoint, which also stores the
    /// new start.
    pub(super) fn delete_below(&self, disk: &Disk, before: Offset) -> Result<(), LogError> {
        let mut writer = self.writer();
        disk.check_writable()?;
        let worth = {
            let mut segments = self.segments();
            if before > segments.bounds.end {
                return segments.bounds.check(self.tp, before);
            }
            segments.bounds.start = segments.bounds.start.max(before);
            segments.bounds.start == segments.bounds.end && writer.open && writer.last.len >= WORTH_ROLLING_BYTES
        };
        if worth {
            let rolled = self.seal(disk, &mut writer).and_then(|()| self.begin(disk, &mut writer));
            rolled.inspect_err(|error| self.give_up(disk, &writer, error))?;
        }
        Ok(())
    }

    /// Returns the checkpoint entry of this partition, and what must be durable first. No append is in progress.
    pub(super) fn cut(&self) -> Cut {
        let mut writer = self.writer();
        self.dirty.store(false, Ordering::Release);
        let segments = self.segments();
        let last = segments.list.back().copied().unwrap_or_else(|| Segment::empty(0));
        let entry = Entry {
            start: segments.bounds.start,
            base: last.base,
            len: last.len,
            end: last.end,
            max_ms: last.max_ms,
            // A partition without segments has none to seal.
            sealed: !writer.open && !segments.list.is_empty(),
        };
        Cut { entry, unsynced: std::mem::take(&mut writer.unsynced), new_files: std::mem::take(&mut writer.new_files) }
    }

    /// Makes everything durable that was written before a cut.
    pub(super) fn sync(&self, disk: &Disk, cut: &Cut) -> Result<(), LogError> {
        for base in &cut.unsynced {
            // Reopened if it was closed in between: the system reports a failed write-back on the new descriptor too,
            // and dirty pages belong to the file, not to the descriptor.
            let file = self.file(disk, *base, 0)?;
            disk.synced(file.sync_data().map_err(|error| at(&self.path(*base))(error)))?;
        }
        if cut.new_files { disk.synced(sync_dir(&self.dir)) } else { Ok(()) }
    }

    /// Removes the segments below the start of a cut whose checkpoint is durable. Returns `false` if it could not,
    /// because a compaction is running.
    pub(super) fn settle(&self, disk: &Disk, entry: &Entry) -> Result<bool, LogError> {
        self.settled.store(entry.base, Ordering::Release);
        let Ok(_upkeep) = self.upkeep.try_lock() else { return Ok(false) };
        let mut segments = self.segments();
        let count = segments.list.partition_point(|first| first.end <= entry.start && first.base < entry.base);
        let gone: Vec<_> = segments.list.drain(..count).collect();
        drop(segments);
        for Segment { base, generation, .. } in gone {
            disk.files.forget(FileKey { partition: self.number, base, generation });
            remove(&self.path(base))?;
        }
        Ok(true)
    }

    /// Returns the total size of the segments, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.segments().list.iter().map(|segment| segment.len).sum()
    }
}
