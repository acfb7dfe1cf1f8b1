//! Storage of page metadata, links, redirects, robots.txt files and locations of archived responses.
//!
//! A service emits writes as effects of its plans; [`StoreWriter`] performs them on a [`Store`] and waits while it is
//! unavailable. Every write carries its event time, and an older one never overwrites a newer one, so that replays are
//! harmless (docs/protocol.md#effect-order and event-times).
//!
//! | module | |
//! |---|---|
//! | `row` | the rows |
//! | `traits` | [`Store`], [`Erase`] and their errors |
//! | `perform` | [`StoreWriter`]: writes as effects of a stage |
//! | `metered` | [`MeteredStore`]: wraps a store with metrics and availability |
//! | `metrics` | [`StoreMetrics`] |
//! | `packed` | the links of a page as one value |
//! | `cql` | `CqlStore`, on ScyllaDB and Cassandra, and a read-only inspection of their nodes (feature `cql`) |
//! | `embedded` | [`FjallStore`], in a local directory |
//! | `memory` | [`MemoryStore`], scripted, for tests |
//! | `contract` | the contract of every store, as a suite of tests (feature `contract`) |

#[cfg(feature = "contract")]
pub mod contract;
#[cfg(feature = "cql")]
mod cql;
mod embedded;
mod memory;
mod metered;
pub mod metrics;
mod packed;
mod perform;
mod row;
mod traits;

#[cfg(feature = "cql")]
pub use cql::{
    CqlConfig, CqlConsistency, CqlStore, Inspection, KeyspaceSeen, MigrationSeen, MigrationState, NodeClock, NodeSeen,
    inspect,
};
pub use embedded::{FjallOptions, FjallStore, remove_unfinished};
pub use memory::MemoryStore;
pub use metered::MeteredStore;
pub use metrics::StoreMetrics;
pub use perform::StoreWriter;
pub use row::{
    CaptureRow, ContentRow, DeclaredCanonical, FetchEvent, LinksOut, PageRow, RedirectRow, RobotsRow, SitePage, Write,
    event_time,
};
pub use traits::{Erase, Store, StoreError};
