//! `orbweaver replay`: runs the production code of the deduplication on URLs whose correct results are known.
//!
//! The service's own stage runs in the service's own runtime on a real log: it restores, decides, appends to
//! `crawl.frontier` and `crawl.seen`, reads `crawl.seen` back and commits. Only the records of `crawl.discovered` are
//! not in the log: they are generated on demand, so that the disk holds only what deduplication needs. The URLs that
//! the stage admits are compared with an exact reference on their way to the log.
//!
//! With `--out` a replay that was killed resumes at its commits; the URLs admitted before are read back from
//! `crawl.frontier`.
//!
//! | module | contents |
//! |---|---|
//! | `generate` | a stream of URLs: its distribution and the correct result (pure) |
//! | `truth` | the exact reference |
//! | `feed`, `commits` | the log as the service sees it; commits for the generated records |
//! | `state` | the directory of a replay: its parameters, its log and earlier results |
//! | `run` | one replay and its figures |
//! | `args` | the command line |

pub mod args;
mod commits;
mod feed;
mod generate;
mod run;
mod state;
mod truth;

pub use run::run;
