//! What the end-to-end tests share: the real `orbweaver` as a process, its output, and a judgement of what a server saw.
//!
//! | module | contents |
//! |---|---|
//! | `process` | the command, started, waited for, interrupted, killed; never left behind |
//! | `output` | `documents.jsonl`, `urls.jsonl`, `summary.json` |
//! | `requests` | a web's request log: how often each URL, how close together |
//! | `verdict` | a finished crawl against the truth of its web |
//! | `corpus` | real trees, fetched once |

mod corpus;
mod output;
mod process;
mod requests;
mod verdict;

pub use corpus::{Tree, cppreference};
pub use output::Output;
pub use process::{Ended, Orbweaver, Running, until};
pub use requests::{Requests, normalized, site_of_host};
pub use verdict::{check, check_requests, outside};

/// A small deterministic source of numbers for the moments of a test; its seed is printed by the test.
#[derive(Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// A number in `least..=most` (xorshift64, Marsaglia 2003).
    pub fn roll(&mut self, least: u64, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        least + self.0 % (most - least + 1)
    }
}
