//! Shared parts of the end-to-end tests: the real `orbweaver` as a process, its output, and checks of the requests that
//! a server received.
//!
//! | module | contents |
//! |---|---|
//! | `process` | the command: started, awaited, interrupted, killed; never left behind |
//! | `output` | `documents.jsonl`, `urls.jsonl`, `summary.json` |
//! | `schemas` | schemas of the result files, which every output that is read must satisfy |
//! | `requests` | a web's request log: number and spacing of the requests |
//! | `changes` | a change feed, compared with the versions that the server sent |
//! | `verdict` | comparison of a finished crawl with the truth of its web |
//! | `warc` | WARC files |
//! | `corpus` | real trees, fetched once |

mod changes;
mod corpus;
mod output;
mod process;
mod requests;
mod schemas;
mod verdict;
mod warc;

pub use changes::{changes, check_changes, sent_versions};
pub use corpus::{Tree, cppreference};
pub use output::Output;
pub use process::{Ended, Orbweaver, Running, until};
pub use requests::{Requests, normalized, site_of_host};
pub use verdict::{check, check_requests, outside};
pub use warc::{Archived, archived};

/// A small deterministic random number generator for the times of a test; the test prints its seed.
#[derive(Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// Returns a number in `least..=most` (xorshift64, Marsaglia 2003).
    pub fn roll(&mut self, least: u64, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        least + self.0 % (most - least + 1)
    }
}
