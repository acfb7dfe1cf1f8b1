//! Simulation of a crawl: all services in one thread and in virtual time, with injected faults.
//!
//! A seed determines a [`Scenario`](scenario::Scenario): a small web, one or two crawls, the services' settings, a list of faults. Each
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
//! | [`scenario`] | parameters of a schedule, drawn from a seed |
//! | [`schedule`] | one schedule, from its scenario to the report |
//! | [`crawls`] | the crawls, each with its definitions, seeds, agents and truth |
//! | [`faults`] | faults and their times (pure) |
//! | [`revisions`] | changes of a crawl's definition during the run |
//! | [`settings`] | settings of the services |
//! | `fleet`, `process`, [`gate`] | processes: started, killed, suspended, isolated, restarted |
//! | [`groups`] | the coordinator: assignment of partitions to members |
//! | [`network`] | access of a process to the log |
//! | [`web`] | the web: generated, served, and its truth |
//! | `observer`, `judge`, `pages`, `site_pages`, `changes` | completion, invariants, page counts, the change feed |
//! | [`broken`] | disabled rules, to show that each is needed |
//! | [`random`], [`time`], [`counts`] | randomness, virtual time, metrics |

pub mod broken;
mod changes;
pub mod counts;
pub mod crawls;
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
pub mod scenario;
pub mod schedule;
pub mod settings;
mod site_pages;
pub mod time;
pub mod web;

pub use judge::Repeats;
pub use observer::Observed;
