//! Read position in a partition.

use std::sync::Arc;

use super::{
    disk::Disk,
    files::corrupt,
    frame::Kind,
    frame_reader::{Chunk, FrameReader},
    partition::PartitionLog,
    segment::Segment,
};
use crate::{ConsumerRecord, LogError, Offset};

/// Remaining capacity of a batch, which ends with the record that brings it to its size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    records: usize,
    bytes: usize,
}

impl Room {
    pub(super) const OF_A_BATCH: Self = Self { records: 1_000, bytes: 1 << 20 };

    pub(super) fn is_none(self) -> bool {
        self.records == 0 || self.bytes == 0
    }
}

/// Position of an offset in the files.
#[derive(Debug, Clone, Copy)]
struct Spot {
    base: Offset,
    generation: u32,
    position: u64,
}

/// Read position in a partition. Advances only past records it has returned.
#[derive(Clone)]
pub(super) struct Cursor {
    partition: Arc<PartitionLog>,
    pub(super) offset: Offset,
    spot: Option<Spot>,
}

impl Cursor {
    pub(super) fn new(partition: Arc<PartitionLog>, offset: Offset) -> Result<Self, LogError> {
        partition.segments().bounds.check(partition.tp, offset)?;
        Ok(Self { partition, offset, spot: None })
    }

    /// Returns whether there are unread records.
    pub(super) fn is_behind(&self) -> bool {
        self.partition.end() > self.offset
    }

    /// Returns whether a read needs neither disk nor search: the cursor is in the last segment, whose data is in the
    /// page cache.
    pub(super) fn is_warm(&self) -> bool {
        let segments = self.partition.segments();
        self.spot.zip(segments.list.back()).is_some_and(|(spot, last)| spot.base == last.base)
    }

    /// Reads until `room` is used up. After an error without records, the position is unchanged.
    pub(super) fn read(
        &mut self,
        disk: &Disk,
        chunk: &mut Chunk,
        room: &mut Room,
        batch: &mut Vec<ConsumerRecord>,
    ) -> Result<(), LogError> {
        let before = batch.len();
        while !room.is_none() {
            match self.read_segment(disk, chunk, room, batch) {
                Ok(true) => {}
                Ok(false) => break,
                // Records already read are returned first; the error recurs.
                Err(_) if batch.len() > before => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads from one segment; returns `false` at the log end.
    fn read_segment(
        &mut self,
        disk: &Disk,
        chunk: &mut Chunk,
        room: &mut Room,
        batch: &mut Vec<ConsumerRecord>,
    ) -> Result<bool, LogError> {
        let partition = Arc::clone(&self.partition);
        let Some((segment, mut spot, file)) = self.locate(disk)? else { return Ok(false) };
        let path = partition.path(segment.base);
        let mut walk = FrameReader::new(&path, &file, spot.position, segment.len, chunk).starting_at(self.offset);
        while !room.is_none() {
            let Some(frame) = walk.next()? else { break };
            if frame.kind == Kind::Record && frame.offset >= self.offset {
                let offset = frame.offset;
                let record = frame.deliver(partition.tp);
                let record = record.map_err(|reason| corrupt(&path, spot.position, reason))?;
                room.records -= 1;
                room.bytes = room.bytes.saturating_sub(record.bytes());
                batch.push(record);
                self.offset = offset + 1;
            }
            spot.position = walk.position();
            self.spot = Some(spot);
        }
        if spot.position >= segment.len {
            // Skips records at the end that compaction removed.
            self.offset = self.offset.max(segment.end);
        }
        Ok(true)
    }

    /// Returns the segment to read, the position in it, and its file; `None` at the log end.
    #[allow(clippy::type_complexity, reason = "three things that belong to one moment")]
    fn locate(&self, disk: &Disk) -> Result<Option<(Segment, Spot, Arc<std::fs::File>)>, LogError> {
        let segments = self.partition.segments();
        segments.bounds.check(self.partition.tp, self.offset)?;
        if self.offset == segments.bounds.end {
            return Ok(None);
        }
        let known = self.spot.and_then(|spot| {
            let index = segments.position(spot.base)?;
            let segment = segments.list.get(index).filter(|segment| segment.generation == spot.generation)?;
            (spot.position < segment.len && self.offset < segment.end).then_some((*segment, spot))
        });
        let (segment, spot) = match known {
            Some(known) => known,
            None => {
                let found = segments.find(self.offset).and_then(|index| segments.list.get(index)).copied();
                let reason = format!("no file contains offset {}", self.offset);
                let segment = found.ok_or_else(|| corrupt(&self.partition.dir, 0, &reason))?;
                let Segment { base, generation, .. } = segment;
                (segment, Spot { base, generation, position: 0 })
            }
        };
        let file = self.partition.file(disk, segment.base, segment.generation)?;
        Ok(Some((segment, spot, file)))
    }
}
