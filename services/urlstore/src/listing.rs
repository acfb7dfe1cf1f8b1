//! Lists of the pages of a site: the next read, and the end of an answer. Pure.
//!
//! A list has the order of fingerprints, which pages that are added meanwhile do not change: a page that is stored all the
//! time is listed once. An answer ends at its limit, and also after [`MAX_READ`] entries, [`MAX_ROWS`] pages or [`MAX_BYTES`],
//! however few of them are selected. The pages of entries with other statuses are not read.

use orbweaver_store::PageRow;
use orbweaver_url::Fingerprint;

use crate::selection::{Selection, StatusFilter};

/// Maximum number of entries that are read for an answer.
pub(crate) const MAX_READ: usize = 10_000;
/// Maximum number of pages that are read for an answer.
pub(crate) const MAX_ROWS: usize = 1000;
/// Number of entries that are read at once if all of them are to be listed.
const AT_ONCE: usize = 100;
/// Number of entries that are read at once if only those of a status are.
const FILTERED_AT_ONCE: usize = 1000;
/// Size of the texts of the listed pages from which on an answer ends, in bytes.
const MAX_BYTES: usize = 4 << 20;

/// List up to a position.
#[derive(Debug)]
pub(crate) struct Listing {
    selection: Selection,
    limit: usize,
    /// Entry that was read last.
    after: Option<Fingerprint>,
    read: usize,
    rows: usize,
    bytes: usize,
    is_at_end: bool,
    pages: Vec<PageRow>,
}

impl Listing {
    /// Begins after an entry.
    pub(crate) fn begin(selection: Selection, after: Option<Fingerprint>, limit: usize) -> Self {
        Self { selection, limit, after, read: 0, rows: 0, bytes: 0, is_at_end: false, pages: vec![] }
    }

    pub(crate) fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Returns the entry after which to read, and how many; `None`: the answer is complete.
    pub(crate) fn next_read(&self) -> Option<(Option<Fingerprint>, usize)> {
        let at_once = if self.selection.status == StatusFilter::Any { AT_ONCE } else { FILTERED_AT_ONCE };
        (!self.is_at_end && !self.is_full()).then(|| (self.after, at_once.min(MAX_READ - self.read)))
    }

    /// Passes over the next entry, whose page cannot be selected. Returns `false` if no more fit.
    pub(crate) fn pass(&mut self, fingerprint: Fingerprint) -> bool {
        (self.after, self.read) = (Some(fingerprint), self.read + 1);
        !self.is_full()
    }

    /// Adds the next entry, with its page unless that was deleted. Returns `false` if no more fit.
    pub(crate) fn add(&mut self, fingerprint: Fingerprint, row: Option<PageRow>) -> bool {
        self.rows += 1;
        if let Some(row) = row.filter(|row| self.selection.selects(fingerprint, row)) {
            let texts = [&row.reason, &row.content_type, &row.etag, &row.last_modified, &row.via];
            let optional: usize = texts.into_iter().flatten().map(String::len).sum();
            self.bytes += row.key.len() + row.url.len() + optional;
            self.pages.push(row);
        }
        self.pass(fingerprint)
    }

    /// Ends the list: there are no more entries.
    pub(crate) fn end(&mut self) {
        self.is_at_end = true;
    }

    /// Returns `true` if the list has no entries at all.
    pub(crate) fn is_unknown(&self) -> bool {
        self.is_at_end && self.after.is_none()
    }

    /// Returns the pages, and the entry after which the next ones follow.
    pub(crate) fn into_parts(self) -> (Selection, Vec<PageRow>, Option<Fingerprint>) {
        let next = self.after.filter(|_| !self.is_at_end);
        (self.selection, self.pages, next)
    }

    fn is_full(&self) -> bool {
        let is_read = self.read >= MAX_READ || self.rows >= MAX_ROWS;
        self.pages.len() >= self.limit || is_read || self.bytes >= MAX_BYTES
    }
}

#[cfg(test)]
mod tests;
