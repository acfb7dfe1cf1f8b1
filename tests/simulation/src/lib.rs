//! The services of a crawl, run in one thread and in virtual time, while everything goes wrong that may go wrong.
//!
//! A seed gives a [`Scenario`](schedule::Scenario): a small web, the services' settings, a list of faults. Several processes of
//! each service, each a real stage with the real runner, work on one log in memory; each reaches it through its own
//! [`ProcessLog`](network::ProcessLog), where messages take time, land late or in part. A coordinator moves partitions
//! in pieces, faults kill, freeze and cut off, an observer asks again and again whether the crawl is complete, and at
//! the end a judge holds what came out against the truth of the web and the web's own log.
//!
//! The same seed is the same schedule: time is tokio's paused clock, everything runs in one thread, and all chance comes
//! from the seed.
//!
//! | module | contents |
//! |---|---|
//! | [`schedule`] | one schedule, from the seed to the report |
//! | [`faults`] | what goes wrong, and when (pure) |
//! | [`revisions`] | how the crawl is defined anew while it runs |
//! | [`settings`] | how the services are set |
//! | `fleet`, `process`, [`gate`] | processes: started, killed, frozen, cut off, started again |
//! | [`groups`] | the coordinator: who has which partition |
//! | [`network`] | the way of a process to the log |
//! | [`web`] | the web: made, served, and its truth |
//! | `observer`, `judge`, `pages` | whether the crawl is complete, what must hold, how many pages there were |
//! | [`broken`] | rules that are switched off, to show that they are needed |
//! | [`random`], [`time`], [`counts`] | chance, virtual time, the metrics |

pub mod broken;
pub mod counts;
pub mod faults;
mod fleet;
pub mod gate;
pub mod groups;
mod judge;
pub mod network;
mod observer;
mod pages;
mod process;
pub mod random;
pub mod revisions;
pub mod schedule;
pub mod settings;
pub mod time;
pub mod web;

pub use judge::Repeats;
pub use observer::Observed;
