//! Writer of WARC 1.1 files (ISO 28500:2017): captures in, records in gzip out. Pure.
//!
//! ```text
//! Info ────> warcinfo
//! Capture ─> response or revisit, request, metadata
//!              │
//!              ├─ http      status line or request line, header fields
//!              ├─ fields    lines of a header, free of line ends
//!              ├─ digest    digests of the block and of the payload
//!              └─ record ─> one gzip member each, into the output
//! ```
//!
//! Bodies are stored decoded, so the HTTP header is rewritten to describe them: see [`Capture::body`].
//!
//! | module | contents |
//! |---|---|
//! | `capture` | [`Info`], [`Capture`], [`Protocol`], [`Truncated`], [`Revisit`], [`RevisitKind`], [`Written`] |
//! | `writer` | [`WarcWriter`]: the records of a capture, and their links |
//! | `record` | one record as a gzip member |
//! | `http` | blocks of responses and requests |
//! | `fields` | lines of headers, target URIs, dates |
//! | `digest` | [`payload_digest`]; digests and record ids |
//! | `cdxj` | [`index_line`]: the line of a capture in an index |
//! | `surt` | [`surt()`]: keys of URLs in an index |

mod capture;
mod cdxj;
mod digest;
mod fields;
mod http;
mod record;
mod surt;
mod writer;

pub use capture::{Capture, Info, Protocol, Revisit, RevisitKind, Truncated, Written};
pub use cdxj::index_line;
pub use digest::payload_digest;
pub use surt::surt;
pub use writer::WarcWriter;
