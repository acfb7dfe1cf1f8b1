//! Pure detection of similar URLs and traps: groups URLs into patterns, detects patterns that lead on without new
//! content, and decides how their URLs are treated.
//!
//! ```text
//! URL ──> segment ──> shape ──> Pattern     numbers, dates, hashes … are alike; so are words where there are too many
//! page ─> digest  ──> contents ─┐
//!                               ├─> site    credit of a pattern: new text earns it, known text spends it
//! Trail ────────────────────────┴─> table   Normal, Demote or Refuse
//! ```
//!
//! The shape of URLs alone does not distinguish an archive from an endless calendar: `/article/{n}` and `/calendar/{n}`
//! look the same. The difference is the text of their pages, and whether the pages are found on each other. A pattern
//! therefore has a *credit*: the number of URLs that its pages may lead to without new text. Each URL found on a page
//! with text that is new to the site restores more credit than another URL costs. When its credit is used up, a pattern
//! is over its budget: its URLs are demoted behind all others of the site. Beyond the hard limit, URLs to which the
//! pattern itself has led are refused in crawls that request it.
//!
//! All state is bounded and may be lost: the patterns of a forgotten site have a full credit again, and the site is
//! learned again. The state that must survive, namely how often the path to a URL passed its pattern, is carried with
//! the URL (`Trail`).

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
