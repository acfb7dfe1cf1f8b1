//! Reader of sitemaps and feeds: bytes in, URLs with dates out. Pure.
//!
//! ```text
//! body ─> input   a text, or a stream: expands gzip, decodes to UTF-8
//!           │
//!           ├─ <       events ─> page   XML sitemaps and indexes, RSS, Atom
//!           ├─ {       json             JSON Feed
//!           └─ http    text             a URL per line
//!                        └─> output     limits, then the caller's sink
//! ```
//!
//! Entries are passed to the sink while the file is read, so that a damaged file yields all entries before the damage.
//! Memory is bounded by constants, apart from the body: see [`Limits`], [`MAX_URL_BYTES`] and [`MAX_EVENT_BYTES`].
//!
//! | module | contents |
//! |---|---|
//! | `format`, `report` | [`Format`]; [`Entry`], [`Limits`], [`Report`], [`Error`] |
//! | `read` | [`read`], [`read_with`], [`sniff`]: choice of the format |
//! | `input`, `stream`, `gzip`, `encoding` | text in place, or as a stream; expansion; choice of the character encoding |
//! | `events` | events of XML, from a text or a stream |
//! | `prolog`, `feed`, `role`, `open` | XML formats: root element, entries, meaning of elements, open elements |
//! | `page`, `value` | the entry being read; a bounded text |
//! | `json`, `text` | JSON Feed; a URL per line |
//! | `date` | dates of sitemaps and feeds |
//! | `output` | limits of the number of entries, the report |

mod date;
mod encoding;
mod events;
mod feed;
mod format;
mod gzip;
mod input;
mod json;
mod open;
mod output;
mod page;
mod prolog;
mod read;
mod report;
mod role;
mod stream;
mod text;
mod value;

pub use date::milliseconds;
pub use events::MAX_EVENT_BYTES;
pub use format::Format;
pub use read::{read, read_with, sniff};
pub use report::{Entry, Error, Limits, Report};
pub use value::MAX_URL_BYTES;
