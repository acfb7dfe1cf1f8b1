//! Iteration over the frames of a file, from a given position.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path, vec};

use bytes::{Bytes, BytesMut};

use super::{
    block,
    files::{at, corrupt},
    frame::{Frame, HEAD_BYTES, Kind, Look, look},
};
use crate::{LogError, Offset};

/// Read size, more for larger records. Delivered records share these bytes, so a small record that is kept holds on to
/// this much memory.
pub(super) const CHUNK_BYTES: usize = 128 << 10;

/// Buffer of the last read, reused once no record shares it.
#[derive(Debug, Default, Clone)]
pub(super) struct Chunk(Bytes);

impl Chunk {
    fn read(&mut self, file: &File, position: u64, want: usize) -> io::Result<Bytes> {
        let mut buffer = match std::mem::take(&mut self.0).try_into_mut() {
            Ok(buffer) if buffer.len() >= want => buffer,
            _ => BytesMut::zeroed(want),
        };
        file.read_exact_at(buffer.get_mut(..want).unwrap_or_default(), position)?;
        let whole = buffer.freeze();
        let read = whole.slice(..want);
        if whole.len() <= CHUNK_BYTES {
            self.0 = whole;
        }
        Ok(read)
    }
}

/// Iterator over the records and seals of a file.
pub(super) struct FrameReader<'a> {
    path: &'a Path,
    file: &'a File,
    /// Position of the next frame, or of the block that has the next record.
    position: u64,
    /// Records of that block that have not been returned.
    block: vec::IntoIter<Frame>,
    /// End of that block.
    block_end: u64,
    /// Blocks that end before this offset are passed over.
    from: Offset,
    /// End of the iteration.
    len: u64,
    bytes: Bytes,
    chunk: &'a mut Chunk,
}

impl<'a> FrameReader<'a> {
    pub(super) fn new(path: &'a Path, file: &'a File, position: u64, len: u64, chunk: &'a mut Chunk) -> Self {
        let block = vec![].into_iter();
        Self { path, file, position, block, block_end: position, from: 0, len, bytes: Bytes::new(), chunk }
    }

    /// Permits to pass over records before this offset.
    pub(super) fn starting_at(self, from: Offset) -> Self {
        Self { from, ..self }
    }

    /// Returns the position from which the next record is read again: within a block, its start.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the next record or seal; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, LogError> {
        loop {
            if let Some(record) = self.block.next() {
                if self.block.as_slice().is_empty() {
                    self.position = self.block_end;
                }
                return Ok(Some(record));
            }
            let position = self.position;
            let Some(frame) = self.next_frame()? else { return Ok(None) };
            if frame.kind != Kind::Block {
                return Ok(Some(frame));
            }
            if block::last_offset(&frame).is_none_or(|last| last >= self.from) {
                let records = block::open(&frame).map_err(|reason| corrupt(self.path, position, reason))?;
                self.block = records.into_iter();
                (self.position, self.block_end) = (position, self.position);
            }
        }
    }

    /// Returns the next frame, also that of a block; `None` at the end.
    pub(super) fn next_frame(&mut self) -> Result<Option<Frame>, LogError> {
        if self.position >= self.len {
            return Ok(None);
        }
        loop {
            match look(&self.bytes) {
                Look::Whole(total) => {
                    let frame = Frame::parse(self.bytes.split_to(total));
                    let frame = frame.map_err(|reason| corrupt(self.path, self.position, reason))?;
                    self.position += total as u64;
                    return Ok(Some(frame));
                }
                Look::Damaged(reason) => return Err(corrupt(self.path, self.position, reason)),
                Look::Short(needed) => self.fill(needed)?,
            }
        }
    }

    fn fill(&mut self, needed: usize) -> Result<(), LogError> {
        let rest = self.len - self.position;
        if (needed as u64) > rest {
            let reason =
                if needed == HEAD_BYTES { "the file ends within a length" } else { "the file ends within a record" };
            return Err(corrupt(self.path, self.position, reason));
        }
        let want = usize::try_from(rest).unwrap_or(usize::MAX).min(needed.max(CHUNK_BYTES));
        self.bytes = Bytes::new();
        self.bytes = self.chunk.read(self.file, self.position, want).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => corrupt(self.path, self.position, "the file has become shorter"),
            _ => at(self.path)(error),
        })?;
        Ok(())
    }
}
