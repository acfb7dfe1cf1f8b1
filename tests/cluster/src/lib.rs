//! A whole pipeline of real processes on real servers, for tests: started, seeded, disturbed, watched until it is complete, and
//! judged against the truth of its web.
//!
//! [`Cluster::start`] makes topics under a prefix of its own and a keyspace of its own; [`Cluster::add`] starts an instance of a
//! service; an [`Instance`] is asked, killed, frozen or told to end; [`Cluster::remove`] deletes topics and keyspace. Instances
//! are killed when they are dropped.
//!
//! | module | contents |
//! |---|---|
//! | `cluster` | topics, keyspace, instances, seeds, completion |
//! | `instance` | one process of a service: signals, probes, metrics, what it said |
//! | `verdict` | what was fetched and requested against what is true |

mod cluster;
mod instance;
mod verdict;

pub use cluster::{Cluster, Plan, Service};
pub use instance::{Answer, Instance, binary};
pub use verdict::{Content, Found, requested_pages};
