//! URLs that a crawl has admitted, and the decision whether a discovered URL is new.
//!
//! The source of truth is the log `crawl.seen`: batches of (slot, fingerprint, depth). This crate only provides an
//! index over one partition of it, which can be discarded. A discovered URL is looked up from the cheapest tier to the
//! most expensive:
//!
//! 1. [`Recent`], a bounded cache of recently seen URLs, for all partitions of the process: answers 29 of 30 links.
//! 2. [`PendingAdmissions`]: admissions by a plan that is not yet durable. The origin of the discovered URL waits for
//!    that plan.
//! 3. The [`SeenPartition`], complete before it opens, so that absence is final. By default it is exact: entries that
//!    were acknowledged or read back and are still in memory, then SSTables on disk, each with a filter of exactly its
//!    size, whose hits are verified. Or it is a Bloom filter in memory, which loses one in a million URLs and needs no
//!    disk.
//!
//! [`admits`] then decides. Cache and index change only when the `seen` record is acknowledged
//! ([`SeenPartition::acknowledge`]); the index's [`IndexCheckpoint`] moves only by records read back in order
//! ([`SeenPartition::read_back`]), and is stored in one write with the entries that it covers.

mod bloom;
mod error;
mod exact;
mod index;
mod index_checkpoint;
mod keyed;
mod novelty;
mod pending;
mod recent;
mod stats;

pub use bloom::FALSE_POSITIVES;
pub use error::SeenError;
pub use index::{SeenIndex, SeenPartition};
pub use index_checkpoint::IndexCheckpoint;
pub use novelty::admits;
pub use pending::{DurablePlan, PendingAdmissions, PendingUrl};
pub use recent::{Recent, RecentCounts};
pub use stats::{IndexStats, Lookups};
