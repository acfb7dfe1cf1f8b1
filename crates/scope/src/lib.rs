//! What a crawl is, as `crawl.control` says it, and how that changes while the crawl runs. Pure: whoever reads the log hands
//! its records in.
//!
//! A definition is the value of a record with the key `crawl/NAME` in partition 0; the record's offset is its version. Every
//! service that decides by it reads the same records in the same order into [`Definitions`], and so decides by the same
//! version once it has read as far. What waits carries the version under which it was let through, so that a reader that is
//! behind never judges by a version older than that.
//!
//! | module | contents |
//! |---|---|
//! | `rules` | patterns and depth, compiled: whether a URL is outside of a crawl, and why |
//! | `definitions` | which record of `crawl.control` applies for each crawl |
//! | `revision` | what of a crawl may change, and what may not |
//! | `consumers` | which consumer groups keep records from being deleted |
//! | `history` | what a writer of either keeps in mind |
//! | `writing` | how a definition is written while others may write one, too |

mod consumers;
mod definitions;
mod history;
mod revision;
mod rules;
mod writing;

pub use consumers::Consumers;
use definitions::crawl_of;
pub use definitions::{Applied, Change, ControlRecord, Definitions, Refusal, Version};
pub use revision::{Revision, RevisionError};
pub use rules::{Outside, PATTERN_BYTES, PatternError, Rules};
pub use writing::Standing;

/// The partition of `crawl.control` that holds the definitions of all crawls and the declared consumer groups: versions are offsets, and compare in one
/// partition alone.
pub const DEFINITIONS_PARTITION: u32 = 0;
