//! The results as files: `documents.jsonl` from `crawl.documents`, `urls.jsonl` from `crawl.outcomes`.
//!
//! Each line is written once and whole, whatever happens: a checkpoint holds the positions in the log *and* the lengths of
//! the files; at a start the files are cut to these lengths and the log is read on from these positions. What arrives a
//! second time (a page fetched again after a kill) is known by an index of the fingerprints that have a line.

mod checkpoint;
mod index;
mod lines;
mod tally;
mod writer;

pub use checkpoint::Checkpoint;
pub use tally::{ExportView, Tally};
pub use writer::{ExportError, Exporter, GROUP, TOPICS, rfc3339};
