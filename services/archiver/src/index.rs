//! Index of a file: a line per response, which is sorted when the file is closed.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Read as _, Seek as _, Write as _},
    path::PathBuf,
};

use crate::error::ArchiveError;

/// Buffer of an open index in bytes.
const BUFFER_BYTES: usize = 16 << 10;

/// An index that is being written, in the order of the responses.
#[derive(Debug)]
pub(crate) struct OpenIndex {
    path: PathBuf,
    output: BufWriter<File>,
    bytes: u64,
}

impl OpenIndex {
    /// Creates an empty index.
    pub(crate) fn create(path: PathBuf) -> Result<Self, ArchiveError> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.map_err(ArchiveError::io(&path, "create"))?;
        Ok(Self { path, output: BufWriter::with_capacity(BUFFER_BYTES, file), bytes: 0 })
    }

    /// Appends a line, which has no line end.
    pub(crate) fn add(&mut self, line: &str) -> Result<(), ArchiveError> {
        self.bytes += line.len() as u64 + 1;
        writeln!(self.output, "{line}").map_err(ArchiveError::io(&self.path, "write"))
    }

    /// Returns the size in bytes, including those that are still in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sorts the lines, and makes the index durable under its temporary name.
    pub(crate) fn finish(self) -> Result<(), ArchiveError> {
        let Self { path, output, .. } = self;
        let file = output.into_inner().map_err(|error| error.into_error());
        // Through the same handle: the next owner of the partition may have deleted the path.
        file.and_then(sort).map_err(ArchiveError::io(path, "write"))
    }

    /// Closes the index without writing the bytes that are still in memory.
    pub(crate) fn abandon(self) {
        let (_file, _unwritten) = self.output.into_parts();
    }
}

/// Sorts the lines of a file by their bytes, durably.
fn sort(mut file: File) -> io::Result<()> {
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    file.rewind()?;
    let mut output = BufWriter::with_capacity(BUFFER_BYTES, &file);
    for line in lines {
        writeln!(output, "{line}")?;
    }
    output.flush()?;
    drop(output);
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_sorted_by_their_bytes_when_the_index_is_closed_although_its_path_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("a.cdxj.open"), dir.path().join("other"));
        let mut index = OpenIndex::create(path.clone()).unwrap();
        // Much more than the buffer.
        let lines: Vec<String> = (0..3000_u32).map(|n| format!("b,a)/{} {{}}", n.wrapping_mul(7919) % 3000)).collect();
        lines.iter().for_each(|line| index.add(line).unwrap());
        let bytes = index.bytes();
        std::fs::rename(&path, &other).unwrap();
        index.finish().unwrap();
        let text = std::fs::read_to_string(&other).unwrap();
        let mut sorted = lines;
        sorted.sort_unstable();
        assert_eq!(text, sorted.join("\n") + "\n");
        assert_eq!(text.len() as u64, bytes);
        assert!(!path.exists());
    }
}
