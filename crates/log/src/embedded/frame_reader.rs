//! Iteration over the frames of a file, from a given position.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

use bytes::{Bytes, BytesMut};

use super::{
    files::{at, corrupt},
    frame::{Frame, HEAD_BYTES, Look, look},
};
use crate::LogError;

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

/// Iterator over the frames of a file.
pub(super) struct FrameReader<'a> {
    path: &'a Path,
    file: &'a File,
    /// Position of the next frame.
    position: u64,
    /// End of the iteration.
    len: u64,
    bytes: Bytes,
    chunk: &'a mut Chunk,
}

impl<'a> FrameReader<'a> {
    pub(super) fn new(path: &'a Path, file: &'a File, position: u64, len: u64, chunk: &'a mut Chunk) -> Self {
        Self { path, file, position, len, bytes: Bytes::new(), chunk }
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the next frame; `None` at the end. After an error, the position is that of the damage.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, LogError> {
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
