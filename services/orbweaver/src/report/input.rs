//! Results of a crawl, as read by a report.

use std::{
    borrow::Cow,
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
};

use orbweaver_messages::OutcomeKind;
use serde::Deserialize;

use super::error::ReportError;

/// Maximum length of a line, in bytes: four times that of the largest record.
const MAX_LINE_BYTES: u64 = 64 << 20;
/// Size of the read buffer, in bytes.
const BUFFER_BYTES: usize = 256 << 10;

/// Line of `urls.jsonl`, as far as a report needs it.
#[derive(Debug, Deserialize)]
pub(super) struct UrlLine<'a> {
    /// Canonical URL.
    #[serde(borrow)]
    pub(super) url: Cow<'a, str>,
    pub(super) outcome: OutcomeKind,
    #[serde(default, borrow)]
    pub(super) reason: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) status: Option<u16>,
    #[serde(default, borrow)]
    pub(super) via: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) location: Option<Cow<'a, str>>,
}

/// Line of `documents.jsonl`, as far as a report needs it.
#[derive(Debug, Deserialize)]
pub(super) struct DocumentLine<'a> {
    /// Canonical URL.
    #[serde(borrow)]
    pub(super) url: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) fetched_url: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) redirects: Vec<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) site: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) title: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) links: Vec<LinkOnPage<'a>>,
    #[serde(default)]
    pub(super) links_total: Option<u64>,
    #[serde(default)]
    pub(super) visit: u32,
}

/// Link in `documents.jsonl`.
#[derive(Debug, Deserialize)]
pub(super) struct LinkOnPage<'a> {
    #[serde(borrow)]
    pub(super) url: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) text: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) rel: Cow<'a, str>,
}

/// File of lines, up to its length when it was opened: a crawl may still append to it.
#[derive(Debug)]
pub(super) struct Lines {
    path: PathBuf,
    length: u64,
}

impl Lines {
    /// Finds the file `name` in the output directory of a crawl.
    pub(super) fn find(dir: &Path, name: &str) -> Result<Self, ReportError> {
        let path = dir.join(name);
        match path.metadata() {
            Ok(metadata) => Ok(Self { path, length: metadata.len() }),
            Err(source) => Err(ReportError::Read { path, source }),
        }
    }

    /// Passes each line to `take`, which returns the reason if it is not valid. Returns `true` if the last one has no
    /// line feed: a crawl that is running or was killed has not completed it, and it is skipped, as the crawl does.
    pub(super) fn each(
        &self,
        mut take: impl FnMut(&[u8]) -> Result<Result<(), String>, ReportError>,
    ) -> Result<bool, ReportError> {
        let failed = |source| ReportError::Read { path: self.path.clone(), source };
        let mut file =
            BufReader::with_capacity(BUFFER_BYTES, File::open(&self.path).map_err(failed)?.take(self.length));
        let (mut line, mut number) = (vec![], 0);
        loop {
            number += 1;
            line.clear();
            let read = file.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line).map_err(failed)?;
            if read == 0 {
                return Ok(false);
            }
            let invalid = |reason| ReportError::Line { path: self.path.clone(), line: number, reason };
            if line.pop_if(|last| *last == b'\n').is_none() {
                let is_last = file.fill_buf().map_err(failed)?.is_empty();
                let too_long = || invalid(format!("the line is longer than {MAX_LINE_BYTES} bytes"));
                return if is_last { Ok(true) } else { Err(too_long()) };
            }
            take(&line)?.map_err(invalid)?;
        }
    }
}

/// Reads a small JSON file; returns `None` if there is none.
pub(super) fn whole<T: serde::de::DeserializeOwned>(path: PathBuf) -> Result<Option<T>, ReportError> {
    match std::fs::read(&path) {
        Ok(text) => match serde_json::from_slice(&text) {
            Ok(value) => Ok(Some(value)),
            Err(error) => Err(ReportError::Read { path, source: error.into() }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ReportError::Read { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Result<(Vec<String>, bool), ReportError> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("urls.jsonl"), text).unwrap();
        let mut lines = vec![];
        let is_cut = Lines::find(dir.path(), "urls.jsonl")?.each(|line| {
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
        let is_cut = found.each(|_| {
            lines += 1;
            Ok(Ok(()))
        });
        assert_eq!((lines, is_cut.unwrap()), (1, true));
    }
}
