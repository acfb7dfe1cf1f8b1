//! The archiver: responses of archived crawls as WARC files.
//!
//! A record of `crawl.pages` with a [capture](orbweaver_messages::Capture) is appended to the open file of its crawl and
//! partition, in order of offsets; any other record completes at once. Each file has an index, which shares its steps.
//! Locations of responses are written to the store before the next step of their file. A file is closed by its size, age
//! or idleness, in four steps: the file is durable under a temporary name; its entry is durable in `crawl.archive`; the
//! file gets its final name; the records complete. With an object store it is uploaded under its final name before it
//! has an entry, and then deleted. A crash between two of these steps leaves nothing out and nothing twice: either the entry
//! exists, and the file gets its final name when the partition opens again, or the entry is missing, and the file and its
//! object are deleted and its records are received again.
//!
//! | module | contents |
//! |---|---|
//! | [`stage`], `steps` | the glue to the runtime: calls, and the steps of files |
//! | `partition` | an open partition: its files, and the entries that it began with |
//! | `file` | the file of a crawl in a partition: its steps, one at a time, and when it closes (pure) |
//! | `ledger` | the entries of `crawl.archive` that count (pure) |
//! | [`file_name`] | names of files and directories (pure) |
//! | [`job`] | the work on files, and its results |
//! | [`worker`] | execution of jobs on blocking threads |
//! | `disk`, `index` | files and their indexes on disk |
//! | `remote` | objects in a store |
//! | `page`, `body`, `capture` | from a record to the capture in a file (pure) |
//! | `location` | from a written response to its location in the store (pure) |
//! | [`closer`] | the handle that closes all files |
//! | `leftovers` | unfinished files of earlier processes (feature `cluster`) |
//! | `service` | the service as a process of a cluster (feature `cluster`) |
//! | [`config`], [`metrics`], [`error`] | settings; metrics; errors |

mod body;
mod capture;
pub mod closer;
pub mod config;
mod disk;
pub mod error;
mod file;
pub mod file_name;
mod index;
pub mod job;
mod ledger;
#[cfg(feature = "cluster")]
mod leftovers;
mod location;
pub mod metrics;
mod page;
mod partition;
mod remote;
#[cfg(feature = "cluster")]
pub mod service;
pub mod stage;
mod steps;
pub mod worker;

pub use closer::CloseFiles;
pub use config::ArchiverConfig;
pub use error::ArchiveError;
pub use metrics::ArchiverMetrics;
pub use page::PAGE_HEADER;
pub use remote::check_upload;
pub use stage::{ArchiverStage, SERVICE};
pub use worker::FileWorker;
