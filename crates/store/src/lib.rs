//! What is kept of pages, sites and redirects.
//!
//! A service asks for writes as effects of its plans; [`StoreWriter`] performs them on a [`Store`] and waits for one that is
//! away. Every write carries the event's own time and an older one never overwrites a newer one, so that replays are
//! harmless (rules 1 and 23 of the protocol).
//!
//! | module | |
//! |---|---|
//! | `row` | what is kept |
//! | `traits` | [`Store`], and what can go wrong |
//! | `perform` | [`StoreWriter`]: writes as effects of a stage |
//! | `metered` | [`MeteredStore`]: any store, measured, with whether it answers |
//! | `metrics` | [`StoreMetrics`] |
//! | `packed` | links as one value |
//! | `cql` | `CqlStore`, on ScyllaDB and Cassandra (feature `cql`) |
//! | `embedded` | [`FjallStore`], in a directory of this machine |
//! | `memory` | [`MemoryStore`], scripted, for tests |
//! | `contract` | what every store has to do, as a suite of tests (feature `contract`) |

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
pub use cql::{CqlConfig, CqlConfigError, CqlConsistency, CqlStore};
pub use embedded::{FjallOptions, FjallStore};
pub use memory::MemoryStore;
pub use metered::MeteredStore;
pub use metrics::StoreMetrics;
pub use perform::StoreWriter;
pub use row::{FetchEvent, LinksOut, PageRow, RedirectRow, RobotsRow, Write, event_time};
pub use traits::{Store, StoreError};
