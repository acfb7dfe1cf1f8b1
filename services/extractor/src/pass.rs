//! Passes over a page with many links.
//!
//! Almost every page takes one pass. A page has more if its links exceed those that one pass takes, in number or in
//! bytes of their URLs: each pass reads the page again and produces the discovered URLs of the next links, and the next
//! pass starts when these are durable, so that a page of any number of links takes the memory of one pass. The last
//! pass produces the document and the links for the store, with the complete counts, and completes the page. A URL is
//! discovered once per pass.

use orbweaver_log::ConsumerRecord;

use crate::Extracted;

/// Bytes of resolved URLs per byte of the body after which no further pass follows links: a page could otherwise make
/// the pipeline write a thousand times its size. The densest links (12 bytes each) may have URLs of 190 bytes.
const MOST_GROWTH: usize = 16;

/// A page record, and the pass over it.
#[derive(Debug, Clone, PartialEq)]
pub struct PagePass {
    /// Record of `crawl.pages`.
    pub record: ConsumerRecord,
    /// Pass over the page.
    pub pass: Pass,
}

impl PagePass {
    #[must_use]
    pub fn first(record: ConsumerRecord) -> Self {
        Self { record, pass: Pass::First }
    }
}

/// Pass over a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// The first, usually the only one.
    First,
    /// Takes the links after those of earlier passes.
    Links(Progress),
    /// Makes the document; all links are discovered.
    Document(Progress),
}

/// Result of the passes over the links of a page so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of links in the markup that were read, of whatever scheme.
    pub(crate) read: usize,
    /// Number of links to http and https URLs among them.
    pub(crate) links: usize,
    /// Number of those with `rel=nofollow`.
    pub(crate) nofollow: usize,
    /// Total length of their URLs, in bytes.
    bytes: usize,
    /// Number of links that are not read.
    pub(crate) left: usize,
    /// Whether a link was omitted because its URL is too long, or its text was cut.
    pub(crate) is_cut: bool,
    /// Hash of the page's content, which all its discovered URLs carry.
    pub(crate) content: Option<u32>,
}

impl Progress {
    /// Creates the progress before the first pass over a page with this content hash.
    pub(crate) fn of_content(content: Option<u32>) -> Self {
        Self { content, ..Self::default() }
    }

    pub(crate) fn after(self, pass: &Extracted) -> Self {
        let links = pass.all_links().count();
        Self {
            read: pass.next.unwrap_or(self.read),
            links: self.links + links,
            nofollow: self.nofollow + pass.all_links().filter(|link| link.nofollow).count(),
            bytes: self.bytes + pass.all_links().map(|link| link.url.len()).sum::<usize>(),
            left: pass.links_total - links,
            is_cut: self.is_cut || pass.truncated.links,
            content: self.content,
        }
    }

    /// Returns `true` if there are links for a further pass over a page whose decoded body has `body_bytes` bytes.
    pub(crate) fn continues(&self, body_bytes: usize) -> bool {
        self.left > 0 && self.bytes < body_bytes.saturating_mul(MOST_GROWTH)
    }

    /// Returns the number of links of the page.
    pub(crate) fn total(&self) -> usize {
        self.links + self.left
    }
}
