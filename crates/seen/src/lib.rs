//! What a crawl has let through, and whether a sighting of a URL is the first.
//!
//! The truth is the log `crawl.seen`: batches of (slot, fingerprint, depth). All here is an index over one partition of
//! it and can be thrown away. A sighting is looked up from the cheapest tier to the dearest:
//!
//! 1. [`Recent`], a bounded cache of what was met lately, for all partitions of the process: answers 29 of 30 links.
//! 2. [`Pending`]: let through by a plan that is not yet durable. The sighting's origin waits for that plan.
//! 3. The filter of the [`SeenPartition`]: "not in it" is final, since it is complete before the partition is served.
//! 4. Its exact index: what was acknowledged or read back and is still in memory, then the disk.
//!
//! [`first_sight`] then decides. Cache, filter and index change only when the `seen` record is acknowledged
//! ([`SeenPartition::acknowledge`]); the index's [`Position`] moves only by records read back in order
//! ([`SeenPartition::read_back`]) and is stored in one write with what it stands for.
//!
//! | module | contents |
//! |---|---|
//! | `sight` | the decision (pure) |
//! | `recent` | the cache (pure) |
//! | `filter` | the Bloom filter, sized from what is known (pure) |
//! | `pending` | who waits for what (pure) |
//! | `position` | up to where an index stands, and the proof |
//! | `index` | the exact index on disk |
//! | `partition` | filter and index of one partition |

mod error;
mod filter;
mod index;
mod partition;
mod pending;
mod position;
mod recent;
mod sight;

pub use error::SeenError;
pub use filter::Filter;
pub use index::SeenIndex;
pub use partition::SeenPartition;
pub use pending::{Pending, PendingUrl, Settled};
pub use position::Position;
pub use recent::Recent;
pub use sight::{Sight, first_sight};
