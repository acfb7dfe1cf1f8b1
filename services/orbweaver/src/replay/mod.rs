//! `orbweaver replay`: URLs whose truth is known, through the very code of the deduplication.
//!
//! The service's own stage runs in the service's own runtime on a real log: it restores, decides, appends to
//! `crawl.frontier` and `crawl.seen`, reads `crawl.seen` back and commits. Only the records of `crawl.discovered` are not in
//! the log: they are made as they are asked for, so that the disk holds what deduplication needs and no more. What the
//! stage lets through is held against an exact reference on its way to the log.
//!
//! With `--out` a replay that was killed goes on where it was committed; what passed before is read back from
//! `crawl.frontier`.
//!
//! | module | contents |
//! |---|---|
//! | `generate` | a stream of URLs, its distribution and its truth (pure) |
//! | `source` | records of that stream, or of files |
//! | `truth` | the exact reference |
//! | `feed`, `commits` | the log as the service sees it; what was committed of the records made |
//! | `measured` | the service's stage, with a watch beside it |
//! | `state` | the folder: what was asked for, what passed before |
//! | `place` | the log: in the folder, or on brokers |
//! | `run` | one replay |
//! | `report`, `chart` | what came of it |
//! | `args` | the command line |

pub mod args;
mod chart;
mod commits;
mod feed;
mod generate;
mod measured;
mod place;
mod report;
mod run;
mod source;
mod state;
mod truth;

pub use run::run;
