//! What a crawl has let through, and whether a sighting of a URL is the first.
//!
//! The truth is the log `crawl.seen`: batches of (slot, fingerprint, depth). All here is an index over one partition of
//! it and can be thrown away. A sighting is looked up from the cheapest tier to the dearest:
//!
//! 1. [`Recent`], a bounded cache of what was met lately, for all partitions of the process: answers 29 of 30 links.
//! 2. [`Pending`]: let through by a plan that is not yet durable. The sighting's origin waits for that plan.
//! 3. The [`SeenPartition`]: what was acknowledged or read back and is still in memory, then sorted runs on the disk, each
//!    with a filter of exactly its size. In none of them is final, since they are complete before the partition is served.
//!    What a filter finds is looked up at its place in the run ([`Verify::OnDisk`]), or believed ([`Verify::Never`]).
//!
//! [`first_sight`] then decides. Cache and index change only when the `seen` record is acknowledged
//! ([`SeenPartition::acknowledge`]); the index's [`Position`] moves only by records read back in order
//! ([`SeenPartition::read_back`]), and is stored in one write with what it stands for.
//!
//! Two threads beside write tables as runs and merge runs. Whoever decides never waits for them, unless the disk is slower
//! than the log.
//!
//! | module | contents |
//! |---|---|
//! | `sight` | the decision (pure) |
//! | `recent` | the cache (pure) |
//! | `pending` | who waits for what (pure) |
//! | `position` | up to where an index stands, and the proof |
//! | `partition` | memory and tables of one partition |
//! | `lookups` | how look-ups went |
//! | `index` | the index on disk: a folder a partition |
//! | `shelf`, `manifest` | the tables of a partition; which files they are |
//! | `run`, `tags` | a sorted run; its filter (pure) |
//! | `workers` | the threads that write and merge |
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
