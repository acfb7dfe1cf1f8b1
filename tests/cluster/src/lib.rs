//! A whole pipeline of real processes on real servers, for tests: started, seeded, disturbed, observed until it is
//! complete, and judged against the truth of its web.
//!
//! [`Cluster::start`] creates topics under a unique prefix and chooses a unique keyspace; [`Cluster::add`] starts an
//! instance of a service; an [`Instance`] can be queried, killed, suspended and stopped; [`Cluster::remove`] deletes
//! topics and keyspace. Instances are killed on drop.
//!
//! | module | contents |
//! |---|---|
//! | `cluster` | topics, keyspace, instances, seeds, completion |
//! | `instance` | one process of a service: signals, probes, metrics, log |
//! | `digest` | digests of content, for comparison |
//! | `verdict` | comparison of documents and requests with the truth |

mod cluster;
mod digest;
mod instance;
mod verdict;

pub use cluster::{Cluster, Plan, Service};
pub use digest::{Digest, content_hash};
pub use instance::{Answer, Instance, binary};
pub use verdict::{Content, Found, requested_pages};
