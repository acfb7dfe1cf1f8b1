//! Similar URLs and traps, pure: which URLs have one pattern, whether it leads on without bringing anything new, and what
//! becomes of its URLs then.
//!
//! ```text
//! URL ──> segment ──> shape ──> Pattern     numbers, dates, hashes … are one; words are, where there are too many
//! page ─> digest  ──> contents ─┐
//!                               ├─> site    credit of a pattern: what is new earns, what was known spends
//! Trail ────────────────────────┴─> table   Onward, Back or Refuse
//! ```
//!
//! The shape of URLs alone cannot tell an archive from an endless calendar: `/article/{n}` and `/calendar/{n}` look the same.
//! What tells them apart is what their pages say, and whether they are found on each other. So a pattern has a *credit* of
//! URLs that it may lead to while its pages say nothing new; what a page leads to whose text was not met on the site before
//! gives more of it back than the others take. Below zero the pattern is over its budget: its URLs go behind all others
//! of the site. Beyond the hard limit those that the pattern itself led to are refused, in crawls that want it.
//!
//! All state is bounded and may be lost: a site that is forgotten has a full credit again and is learnt anew. What must outlast
//! that, how often the way to a URL passed its pattern, travels with the URL (`Trail`).
//!
//! | module | what it knows |
//! |---|---|
//! | `segment` | what a segment of a path or a value of a query is: number, date, hash, word … |
//! | `shape` | the pattern of a URL, given the words that a site is known to use |
//! | `words` | which words of a site's URLs stand for themselves |
//! | [`digest`] | a hash of what a page says, without what its URL says |
//! | `text` | the words of a text, each as a hash |
//! | `contents` | which pages of a site were met, and what they said, as hashes |
//! | `site` | one site: words, contents, credits |
//! | `table` | all sites, within a bound |

mod contents;
mod digest;
mod segment;
mod shape;
mod site;
mod table;
mod text;
mod words;

pub use digest::digest;
pub use site::{BUDGET, HARD_LIMIT, LEADS_INTO_ITSELF, NEW};
pub use table::{Patterns, Verdict};

/// Mixes a value into a hash (the step of FxHash).
const fn mix(hash: u64, value: u64) -> u64 {
    (hash.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
