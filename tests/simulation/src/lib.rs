//! Simulation of a crawl: all services in one thread and in virtual time, with injected faults.
//!
//! A seed determines a [`Scenario`](schedule::Scenario): a small web, the services' settings, a list of faults. Each
//! service has several processes, each a real stage with the real runner. All work on one in-memory log, each through a
//! separate [`ProcessLog`](network::ProcessLog), which delays messages and lets appends land late or in part. A
//! coordinator moves partitions piecewise; faults kill, suspend and isolate processes; an observer checks repeatedly
//! whether the crawl is complete; at the end a judge compares the results with the truth of the web and the web's own
//! request log.
//!
//! A seed always yields the same schedule: time is tokio's paused clock, everything runs in one thread, and all
//! randomness comes from the seed.
//!
//! | module | contents |
//! |---|---|
//! | [`schedule`] | one schedule, from the seed to the report |
//! | [`faults`] | faults and their times (pure) |
//! | [`revisions`] | changes of the crawl's definition during the run |
//! | [`settings`] | settings of the services |
//! | `fleet`, `process`, [`gate`] | processes: started, killed, suspended, isolated, restarted |
//! | [`groups`] | the coordinator: assignment of partitions to members |
//! | [`network`] | access of a process to the log |
//! | [`web`] | the web: generated, served, and its truth |
//! | `observer`, `judge`, `pages` | completion, invariants, page counts |
//! | [`broken`] | disabled rules, to show that each is needed |
//! | [`random`], [`time`], [`counts`] | randomness, virtual time, metrics |

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
