//! Entries, limits and results of a reading.

use std::borrow::Cow;

use crate::Format;

/// Page or sitemap that a file names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// URL as written, with entities decoded and white space removed at both ends. Not empty, at most
    /// [`MAX_URL_BYTES`](crate::MAX_URL_BYTES) long; neither resolved nor checked.
    pub url: Cow<'a, str>,
    /// Time of the last change, or else of publication, in milliseconds since the Unix epoch. Absent if the file has no
    /// valid date.
    pub modified_ms: Option<i64>,
    /// Child of an index, to be read as a sitemap itself.
    pub is_sitemap: bool,
    /// Translation of a page, from `xhtml:link rel="alternate"` of a sitemap. It precedes the entry of its `url`
    /// element, whose date is complete only at the end of the element.
    pub is_alternate: bool,
}

impl<'a> Entry<'a> {
    /// Creates the entry of a page.
    pub(crate) fn page(url: &'a str, modified_ms: Option<i64>) -> Self {
        Self { url: Cow::Borrowed(url), modified_ms, is_sitemap: false, is_alternate: false }
    }
}

/// Limits of a reading. A file that exceeds one is cut there: see [`Report::is_cut`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of expanded gzip data, in bytes. The protocol allows 50 MiB per sitemap.
    pub expanded_bytes: usize,
    /// Maximum number of entries. The protocol allows 50,000 per sitemap, which real files exceed.
    pub entries: usize,
}

impl Default for Limits {
    /// Returns 64 MiB and 1,000,000 entries.
    fn default() -> Self {
        Self { expanded_bytes: 64 << 20, entries: 1_000_000 }
    }
}

/// Result of a reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Format of the file.
    pub format: Format,
    /// Number of entries passed to the sink.
    pub entries: usize,
    /// Number of URLs dropped because of their length.
    pub too_long: usize,
    /// A limit, a syntax error or the end of the data ended the file early. A sink that stops does not set it.
    pub is_cut: bool,
    /// Reason for `is_cut`.
    pub error: Option<String>,
}

/// Reason for which a body is not read at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No known format: neither a known root element, nor a list of URLs, nor a JSON Feed.
    #[error("the body is neither a sitemap nor a feed")]
    UnknownFormat,
    /// Gzip data without a readable start.
    #[error("the gzip data cannot be expanded: {0}")]
    Gzip(String),
}
