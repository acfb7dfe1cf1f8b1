//! Results as files: `documents.jsonl` from `crawl.documents`, `urls.jsonl` from `crawl.outcomes`.
//!
//! Each line is written exactly once and whole, even after a crash: a checkpoint holds the positions in the log *and*
//! the lengths of the files. At a start, the files are cut to these lengths, and reading resumes at these positions. An
//! index of the fingerprints that have a line identifies duplicates, such as a page that was fetched again after a
//! crash.

mod checkpoint;
mod index;
mod lines;
mod tally;
mod writer;

pub use checkpoint::Checkpoint;
pub use tally::{ExportView, Tally};
pub use writer::{ExportError, Exporter, GROUP, Source, TOPICS, rfc3339};
