//! URLs that a crawl has admitted, and the decision whether a discovered URL is new.
//!
//! The source of truth is the log `crawl.seen`: batches of (slot, fingerprint, depth). This crate only provides an
//! index over one partition of it, which can be discarded. A discovered URL is looked up from the cheapest tier to the
//! most expensive:
//!
//! 1. [`Recent`], a bounded cache of recently seen URLs, for all partitions of the process: answers 29 of 30 links.
//! 2. [`Pending`]: admissions by a plan that is not yet durable. The origin of the discovered URL waits for that plan.
//! 3. The [`SeenPartition`]: entries that were acknowledged or read back and are still in memory, then SSTables on
//!    disk, each with a filter of exactly its size. Absence from all of them is final, since they are complete before
//!    the partition opens. A filter hit is either verified in the SSTable ([`Verify::OnDisk`]) or trusted
//!    ([`Verify::Never`]).
//!
//! [`first_sight`] then decides. Cache and index change only when the `seen` record is acknowledged
//! ([`SeenPartition::acknowledge`]); the index's [`Position`] moves only by records read back in order
//! ([`SeenPartition::read_back`]), and is stored in one write with the entries that it covers.
//!
//! Two background threads write memtables as SSTables and compact SSTables. The deciding thread never waits for them,
//! unless the disk is slower than the log.
//!
//! | module | contents |
//! |---|---|
//! | `sight` | the decision (pure) |
//! | `recent` | the cache (pure) |
//! | `pending` | pending admissions and their waiting origins (pure) |
//! | `position` | index checkpoint and its verification |
//! | `partition` | memory and tables of one partition |
//! | `lookups` | statistics of look-ups |
//! | `index` | the index on disk: one directory per partition |
//! | `shelf`, `manifest` | the tables of a partition; their files |
//! | `run`, `tags` | an SSTable; its filter (pure) |
//! | `workers` | the threads that write and compact |
//! | `keyed` | maps by fingerprint |

mod error;
mod index;
mod keyed;
mod lookups;
mod manifest;
mod partition;
mod pending;
mod position;
mod recent;
mod run;
mod shelf;
mod sight;
mod tags;
mod workers;

pub use error::SeenError;
pub use index::SeenIndex;
pub use lookups::Lookups;
pub use partition::SeenPartition;
pub use pending::{Pending, PendingUrl, Settled};
pub use position::Position;
pub use recent::{Recent, RecentCounts};
pub use sight::{Sight, first_sight};
pub use tags::Verify;
