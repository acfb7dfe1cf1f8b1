//! Append-only file of lines.

use std::{
    fs::File,
    io::{self, BufWriter, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use crate::durable::sync_dir;

/// A file of lines that is cut to its length at the last checkpoint when it is opened.
#[derive(Debug)]
pub(super) struct Lines {
    path: PathBuf,
    /// `None` until the first line is added, if the file did not exist.
    file: Option<BufWriter<File>>,
    length: u64,
}

impl Lines {
    /// Opens the file and cuts it to `length`, its length at the last checkpoint. Creates it.
    pub(super) fn open(path: &Path, length: u64) -> io::Result<Self> {
        let file = File::options().create(true).truncate(false).write(true).open(path)?;
        Self::cut(path, file, length)
    }

    /// Opens the file like [`Lines::open`], but creates it only with its first line.
    pub(super) fn open_later(path: &Path, length: u64) -> io::Result<Self> {
        match File::options().write(true).open(path) {
            Ok(file) => Self::cut(path, file, length),
            Err(error) if error.kind() == io::ErrorKind::NotFound && length == 0 => {
                Ok(Self { path: path.to_owned(), file: None, length })
            }
            Err(error) => Err(error),
        }
    }

    fn cut(path: &Path, mut file: File, length: u64) -> io::Result<Self> {
        let found = file.metadata()?.len();
        if found < length {
            let message =
                format!("the file has {found} bytes, but the crawl wrote {length}: another program changed it");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        file.set_len(length)?;
        file.seek(SeekFrom::Start(length))?;
        Ok(Self { path: path.to_owned(), file: Some(buffered(file)), length })
    }

    /// Adds a line; `text` must not contain a line feed.
    pub(super) fn add(&mut self, text: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let file = File::create_new(&self.path)?;
                // A checkpoint will rely on it: a synced file is lost if its name is not durable.
                sync_dir(self.path.parent().unwrap_or(Path::new(".")))?;
                self.file.insert(buffered(file))
            }
        };
        file.write_all(text)?;
        file.write_all(b"\n")?;
        self.length += text.len() as u64 + 1;
        Ok(())
    }

    /// Returns the length with all lines, in bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Writes all buffered lines, and returns a handle for syncing the file, if it exists.
    pub(super) fn flush(&mut self) -> io::Result<Option<File>> {
        let Some(file) = &mut self.file else { return Ok(None) };
        file.flush()?;
        file.get_ref().try_clone().map(Some)
    }
}

fn buffered(file: File) -> BufWriter<File> {
    BufWriter::with_capacity(256 << 10, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_behind_the_checkpoint_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines.jsonl");
        let mut lines = Lines::open(&path, 0).unwrap();
        lines.add(b"one").unwrap();
        let checkpoint = lines.length();
        lines.add(b"two").unwrap();
        lines.flush().unwrap();
        drop(lines);
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"thr").unwrap();
        let mut lines = Lines::open(&path, checkpoint).unwrap();
        lines.add(b"four").unwrap();
        lines.flush().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\nfour\n");
    }

    #[test]
    fn a_file_that_somebody_shortened_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines.jsonl");
        std::fs::write(&path, "one\n").unwrap();
        let error = Lines::open(&path, 10).unwrap_err().to_string();
        assert!(error.contains("4 bytes") && error.contains("10"), "{error}");
    }
}
