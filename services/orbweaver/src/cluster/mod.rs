//! The command against a cluster: the services run elsewhere, and everything here goes through the log.
//!
//! | module | what it does |
//! |---|---|
//! | [`args`] | the command line of what is here |
//! | [`connection`] | the brokers |
//! | [`seed`] | `orbweaver seed`: URLs to `crawl.seeds` |
//! | [`crawl`] | `orbweaver crawl --brokers`: defines a crawl, seeds it, collects its results, watches it to its end |
//! | [`standing`], [`status`] | `orbweaver status`: how far every stage is, read off the offsets |
//! | [`scope`] | `orbweaver scope`: shows what belongs to a crawl, changes it while it runs |
//! | [`topics`] | `orbweaver topics`: creates, checks and lists |
//! | [`consumers`] | `orbweaver consumers`: declares groups that keep records from being deleted |
//! | [`dead_letters`] | `orbweaver dead-letters`: lists and replays |

pub mod args;
mod caps;
pub mod connection;
pub mod consumers;
pub mod crawl;
pub mod dead_letters;
pub mod scope;
pub mod seed;
pub mod standing;
pub mod status;
pub mod topics;
