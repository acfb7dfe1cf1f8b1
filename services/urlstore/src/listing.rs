//! Lists of the pages of a site: the next read, and the end of an answer. Pure.
//!
//! A list has the order of fingerprints, which pages that are added meanwhile do not change: a page that is stored all the
//! time is listed once. An answer ends at its limit, and also after [`MAX_READ`] entries or [`MAX_BYTES`], however few of them
//! are selected.

use orbweaver_store::PageRow;
use orbweaver_url::Fingerprint;

use crate::selection::Selection;

/// Maximum number of entries that are read for an answer.
pub(crate) const MAX_READ: usize = 1000;
/// Number of entries that are read at once: few, so that the pages of an embedded store, which are read on the threads that
/// serve all requests, delay others for about a millisecond.
const AT_ONCE: usize = 100;
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
    bytes: usize,
    is_at_end: bool,
    pages: Vec<PageRow>,
}

impl Listing {
    /// Begins after an entry.
    pub(crate) fn begin(selection: Selection, after: Option<Fingerprint>, limit: usize) -> Self {
        Self { selection, limit, after, read: 0, bytes: 0, is_at_end: false, pages: vec![] }
    }

    pub(crate) fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Returns the entry after which to read, and how many; `None`: the answer is complete.
    pub(crate) fn next_read(&self) -> Option<(Option<Fingerprint>, usize)> {
        (!self.is_at_end && !self.is_full()).then(|| (self.after, AT_ONCE.min(MAX_READ - self.read)))
    }

    /// Adds the next entry, with its page unless that was deleted. Returns `false` if no more fit.
    pub(crate) fn add(&mut self, fingerprint: Fingerprint, row: Option<PageRow>) -> bool {
        (self.after, self.read) = (Some(fingerprint), self.read + 1);
        if let Some(row) = row.filter(|row| self.selection.selects(fingerprint, row)) {
            let texts = [&row.reason, &row.content_type, &row.etag, &row.last_modified, &row.via];
            let optional: usize = texts.into_iter().flatten().map(String::len).sum();
            self.bytes += row.key.len() + row.url.len() + optional;
            self.pages.push(row);
        }
        !self.is_full()
    }

    /// Ends the list: there are no more entries.
    pub(crate) fn end(&mut self) {
        self.is_at_end = true;
    }

    /// Returns `true` if the site has no entries at all.
    pub(crate) fn is_unknown(&self) -> bool {
        self.is_at_end && self.after.is_none()
    }

    /// Returns the pages, and the entry after which the next ones follow.
    pub(crate) fn into_parts(self) -> (Selection, Vec<PageRow>, Option<Fingerprint>) {
        let next = self.after.filter(|_| !self.is_at_end);
        (self.selection, self.pages, next)
    }

    fn is_full(&self) -> bool {
        self.pages.len() >= self.limit || self.read >= MAX_READ || self.bytes >= MAX_BYTES
    }
}

#[cfg(test)]
mod tests;
