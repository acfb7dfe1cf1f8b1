//! Results as files: `documents.jsonl` from `crawl.documents`, `urls.jsonl` from `crawl.outcomes`, and `changes.jsonl`
//! from `crawl.changes`.
//!
//! Each line is written exactly once and whole, even after a crash: a checkpoint holds the positions in the log *and*
//! the lengths of the files. At a start, the files are cut to these lengths, and reading resumes at these positions. An
//! index of the visits that have a line identifies duplicates, such as a page that was fetched again after a crash.

mod caught_up;
mod checkpoint;
mod error;
mod files;
mod index;
mod lines;
mod stage;
mod tally;

use orbweaver_messages::{
    Topic,
    topic::{CHANGES, DOCUMENTS, OUTCOMES},
};
use orbweaver_url::CrawlName;

pub use caught_up::{ResultEnds, caught_up};
pub use checkpoint::Checkpoint;
pub use error::ExportError;
pub use orbweaver_extractor::document::rfc3339;
pub use stage::{CheckpointWorker, ExportStage};
pub use tally::{ExportView, Tally};

/// Consumer group that writes the files of a crawl in one process. On a cluster each directory has a group of its own,
/// whose name begins with this one.
pub const GROUP: &str = "exporter";
/// Topics that the group reads.
pub const TOPICS: &[Topic] = &[OUTCOMES, DOCUMENTS, CHANGES];

/// Results that an exporter writes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Source<'a> {
    /// Crawl whose results are written; `None`: all crawls.
    pub crawl: Option<&'a CrawlName>,
    /// Whether records that were deleted since the last checkpoint cannot be results of the crawl.
    pub at_rest: bool,
}
