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
//! | `perform` | writes as effects of a stage |
//! | `embedded` | [`FjallStore`], in a directory of this machine |
//! | `memory` | [`MemoryStore`], scripted, for tests |
//! | `contract` | what every store has to do, as a suite of tests (feature `contract`) |

#[cfg(feature = "contract")]
pub mod contract;
mod embedded;
mod memory;
mod perform;
mod row;
mod traits;

pub use embedded::{FjallOptions, FjallStore};
pub use memory::MemoryStore;
pub use perform::StoreWriter;
pub use row::{FetchEvent, LinksOut, PageRow, RedirectRow, RobotsRow, Write};
pub use traits::{Store, StoreError};
