//! Result files of a crawl, as read by other commands while the crawl may append to them.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{exit::Failure, export::Checkpoint};

/// Maximum length of a line, in bytes: four times that of the largest record.
const MAX_LINE_BYTES: u64 = 64 << 20;
/// Size of the read buffer, in bytes.
const BUFFER_BYTES: usize = 256 << 10;

/// Reason why a file of results cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResultsError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A line is not one of such a file.
    #[error("{path}, line {line}: {reason}")]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// Cause.
        reason: String,
    },
}

impl From<ResultsError> for Failure {
    fn from(error: ResultsError) -> Self {
        Self::Input(error.to_string())
    }
}

/// Position between two lines of a file: the size of those before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Position {
    pub(crate) bytes: u64,
    pub(crate) lines: u64,
}

/// Result of reading a file of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    /// End of the last complete line.
    pub(crate) position: Position,
    /// Whether the last line has no line feed: a crawl that is running or was killed has not completed it, and it is
    /// skipped, as the crawl does.
    pub(crate) is_cut: bool,
}

/// File of lines, up to its length when it was opened: a crawl may still append to it.
#[derive(Debug)]
pub(crate) struct Lines {
    path: PathBuf,
    length: u64,
}

impl Lines {
    /// Finds the file `name` in the output directory of a crawl.
    pub(crate) fn find(dir: &Path, name: &str) -> Result<Self, ResultsError> {
        let path = dir.join(name);
        match path.metadata() {
            Ok(metadata) => Ok(Self { path, length: metadata.len() }),
            Err(source) => Err(ResultsError::Read { path, source }),
        }
    }

    /// Leaves out lines that the crawl may still replace: those beyond its checkpoint, to which it cuts the file when it is
    /// resumed. A complete crawl has no checkpoint.
    pub(crate) fn up_to_checkpoint(self, dir: &Path) -> Result<Self, ResultsError> {
        // After the length: a crawl that completes in between removes its checkpoint, and replaces nothing any more.
        let path = dir.join("state/export.json");
        let checkpoint: Option<Checkpoint> = whole(path)?;
        let kept =
            checkpoint.map_or(self.length, |checkpoint| match self.path.file_name().and_then(|name| name.to_str()) {
                Some("documents.jsonl") => checkpoint.documents_bytes,
                Some("urls.jsonl") => checkpoint.urls_bytes,
                _ => checkpoint.changes_bytes,
            });
        Ok(Self { length: self.length.min(kept), ..self })
    }

    /// Returns the part of the file that is read, in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns up to `bytes` bytes that end at `end`.
    pub(crate) fn before(&self, end: u64, bytes: u64) -> Result<Vec<u8>, ResultsError> {
        let start = end.saturating_sub(bytes);
        let mut text = vec![];
        File::open(&self.path)
            .and_then(|mut file| {
                file.seek(SeekFrom::Start(start))?;
                file.take(end - start).read_to_end(&mut text)
            })
            .map_err(|source| self.failed(source))?;
        Ok(text)
    }

    /// Passes each line to `take`, as [`Lines::each_from`]. Returns `true` if the last line has no line feed.
    pub(crate) fn each<E: From<ResultsError>>(
        &self,
        mut take: impl FnMut(&[u8]) -> Result<Result<(), String>, E>,
    ) -> Result<bool, E> {
        self.each_from(Position::default(), |line, _| take(line)).map(|end| end.is_cut)
    }

    /// Passes each line from `start` on to `take`, with the position after it; `take` returns the reason if the line is
    /// not valid.
    pub(crate) fn each_from<E: From<ResultsError>>(
        &self,
        start: Position,
        mut take: impl FnMut(&[u8], Position) -> Result<Result<(), String>, E>,
    ) -> Result<End, E> {
        let failed = |source| self.failed(source);
        let mut file = File::open(&self.path).map_err(failed)?;
        file.seek(SeekFrom::Start(start.bytes)).map_err(failed)?;
        let remaining = self.length.saturating_sub(start.bytes);
        let mut file = BufReader::with_capacity(BUFFER_BYTES, file.take(remaining));
        let (mut line, mut position) = (vec![], start);
        loop {
            line.clear();
            let read = file.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line).map_err(failed)?;
            if read == 0 {
                return Ok(End { position, is_cut: false });
            }
            let invalid = |reason| ResultsError::Line { path: self.path.clone(), line: position.lines + 1, reason };
            if line.pop_if(|last| *last == b'\n').is_none() {
                let is_last = file.fill_buf().map_err(failed)?.is_empty();
                let too_long = || invalid(format!("the line is longer than {MAX_LINE_BYTES} bytes"));
                return if is_last { Ok(End { position, is_cut: true }) } else { Err(too_long().into()) };
            }
            let after = Position { bytes: position.bytes + read as u64, lines: position.lines + 1 };
            take(&line, after)?.map_err(invalid)?;
            position = after;
        }
    }

    fn failed(&self, source: io::Error) -> ResultsError {
        ResultsError::Read { path: self.path.clone(), source }
    }
}

/// Reads a small JSON file; returns `None` if there is none.
pub(crate) fn whole<T: serde::de::DeserializeOwned>(path: PathBuf) -> Result<Option<T>, ResultsError> {
    match std::fs::read(&path) {
        Ok(text) => match serde_json::from_slice(&text) {
            Ok(value) => Ok(Some(value)),
            Err(error) => Err(ResultsError::Read { path, source: error.into() }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ResultsError::Read { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Result<(Vec<String>, bool), ResultsError> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("urls.jsonl"), text).unwrap();
        let mut lines = vec![];
        let is_cut = Lines::find(dir.path(), "urls.jsonl")?.each::<ResultsError>(|line| {
            lines.push(String::from_utf8_lossy(line).into_owned());
            Ok(if line == b"bad" { Err("no line".to_owned()) } else { Ok(()) })
        })?;
        Ok((lines, is_cut))
    }

    #[test]
    fn only_a_last_line_without_a_line_feed_is_skipped() {
        for (text, lines, is_cut) in [("", 0, false), ("a\n", 1, false), ("a\nb", 1, true), ("a\n\nb\n", 3, false)] {
            let (read, was_cut) = read(text.as_bytes()).unwrap();
            assert_eq!((read.len(), was_cut), (lines, is_cut), "{text:?}");
        }
    }

    #[test]
    fn an_invalid_line_is_named() {
        let error = read(b"a\nbad\nb\n").unwrap_err().to_string();
        assert!(error.ends_with("urls.jsonl, line 2: no line"), "{error}");
    }

    #[test]
    fn lines_that_a_crawl_appends_meanwhile_are_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("urls.jsonl");
        std::fs::write(&path, "a\nb").unwrap();
        let found = Lines::find(dir.path(), "urls.jsonl").unwrap();
        std::fs::write(&path, "a\nbc\nd\n").unwrap();
        let mut lines = 0;
        let is_cut = found.each::<ResultsError>(|_| {
            lines += 1;
            Ok(Ok(()))
        });
        assert_eq!((lines, is_cut.unwrap()), (1, true));
    }

    #[test]
    fn lines_that_a_resumed_crawl_replaces_are_not_read() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("urls.jsonl"), "a\nb\nc\n").unwrap();
        std::fs::create_dir(dir.path().join("state")).unwrap();
        let length = || Lines::find(dir.path(), "urls.jsonl")?.up_to_checkpoint(dir.path()).map(|lines| lines.length());
        assert_eq!(length().unwrap(), 6);
        let checkpoint = Checkpoint { urls_bytes: 4, documents_bytes: 2, ..Checkpoint::default() };
        std::fs::write(dir.path().join("state/export.json"), serde_json::to_vec(&checkpoint).unwrap()).unwrap();
        assert_eq!(length().unwrap(), 4);
    }

    #[test]
    fn reading_begins_between_two_lines_and_counts_those_before() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("urls.jsonl"), "a\nbb\nbad\n").unwrap();
        let found = Lines::find(dir.path(), "urls.jsonl").unwrap();
        let (start, mut after) = (Position { bytes: 2, lines: 1 }, vec![]);
        let error = found.each_from::<ResultsError>(start, |line, position| {
            after.push(position);
            Ok(if line == b"bad" { Err("no line".to_owned()) } else { Ok(()) })
        });
        assert_eq!(after, [Position { bytes: 5, lines: 2 }, Position { bytes: 9, lines: 3 }]);
        assert!(error.unwrap_err().to_string().ends_with("line 3: no line"));
        assert_eq!((found.before(5, 3).unwrap(), found.before(2, 9).unwrap()), (b"bb\n".to_vec(), b"a\n".to_vec()));
    }
}
