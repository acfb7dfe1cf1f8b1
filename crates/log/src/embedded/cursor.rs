//! A place in a partition from which records are read.

use std::sync::Arc;

use super::{
    disk::Disk,
    files::corrupt,
    frame::Kind,
    partition::PartitionLog,
    segment::Segment,
    walk::{Chunk, Walk},
};
use crate::{Delivered, LogError, Offset};

/// How much may still be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) records: usize,
    pub(super) bytes: usize,
}

impl Room {
    pub(super) fn of_a_batch(disk: &Disk) -> Self {
        Self { records: disk.options.batch_records, bytes: disk.options.batch_bytes }
    }

    pub(super) fn is_none(self) -> bool {
        self.records == 0 || self.bytes == 0
    }
}

/// Where in the files an offset is.
#[derive(Debug, Clone, Copy)]
struct Spot {
    base: Offset,
    generation: u32,
    position: u64,
}

/// A place in a partition from which records are read. Advances only over what it has given out.
#[derive(Clone)]
pub(super) struct Cursor {
    partition: Arc<PartitionLog>,
    pub(super) offset: Offset,
    spot: Option<Spot>,
}

impl Cursor {
    /// # Errors
    /// When the partition does not hold that offset.
    pub(super) fn new(partition: Arc<PartitionLog>, offset: Offset) -> Result<Self, LogError> {
        partition.segments().check(partition.place, offset)?;
        Ok(Self { partition, offset, spot: None })
    }

    /// There is something to be read.
    pub(super) fn is_behind(&self) -> bool {
        self.partition.end() > self.offset
    }

    /// Reading takes no disk and no search: it stands in the last segment, which was written just now and is in memory.
    pub(super) fn is_warm(&self) -> bool {
        let segments = self.partition.segments();
        self.spot.zip(segments.list.back()).is_some_and(|(spot, last)| spot.base == last.base)
    }

    /// Reads what there is room for. After an error with nothing read it stands where it stood.
    pub(super) fn read(
        &mut self,
        disk: &Disk,
        chunk: &mut Chunk,
        room: &mut Room,
        batch: &mut Vec<Delivered>,
    ) -> Result<(), LogError> {
        let before = batch.len();
        while !room.is_none() {
            match self.read_segment(disk, chunk, room, batch) {
                Ok(true) => {}
                Ok(false) => break,
                // What was read is given out first; the error comes again.
                Err(_) if batch.len() > before => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads from one segment; false at the end of the partition.
    fn read_segment(
        &mut self,
        disk: &Disk,
        chunk: &mut Chunk,
        room: &mut Room,
        batch: &mut Vec<Delivered>,
    ) -> Result<bool, LogError> {
        let partition = Arc::clone(&self.partition);
        let Some((segment, mut spot, file)) = self.locate(disk)? else { return Ok(false) };
        let path = partition.path(segment.base);
        let mut walk = Walk::new(&file, spot.position, segment.len, chunk);
        while !room.is_none() {
            let Some(frame) = walk.next().map_err(|trouble| trouble.of(&path))? else { break };
            if frame.kind == Kind::Record && frame.offset >= self.offset {
                let offset = frame.offset;
                let record = frame.deliver(partition.place);
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
            // Over what a compaction removed at the end.
            self.offset = self.offset.max(segment.end);
        }
        Ok(true)
    }

    /// The segment to read from, where in it, and its file; `None` at the end of the partition.
    #[allow(clippy::type_complexity, reason = "three things that belong to one moment")]
    fn locate(&self, disk: &Disk) -> Result<Option<(Segment, Spot, Arc<std::fs::File>)>, LogError> {
        let segments = self.partition.segments();
        segments.check(self.partition.place, self.offset)?;
        if self.offset == segments.end {
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
                let reason = format!("no file holds the offset {}", self.offset);
                let segment = found.ok_or_else(|| corrupt(self.partition.folder(), 0, &reason))?;
                let Segment { base, generation, .. } = segment;
                (segment, Spot { base, generation, position: 0 })
            }
        };
        let file = self.partition.file(disk, segment.base, segment.generation)?;
        Ok(Some((segment, spot, file)))
    }
}
