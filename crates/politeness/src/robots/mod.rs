//! robots.txt according to RFC 9309.
//!
//! A file is parsed for one agent ([`AgentRules::parse`]); its rules are small, ordered by specificity, and suited to
//! caching. The longest matching rule decides, an `Allow` wins a tie, and a path that no rule matches is allowed.
//! `/robots.txt` itself is always allowed.
//!
//! Choices where the RFC leaves one, or practice differs from it:
//!
//! | point | choice |
//! |---|---|
//! | product token | letters, digits (not in the RFC, but in `MJ12bot`), `-`, `_`; cut at the first other character |
//! | unknown lines among `User-agent` lines | the group continues; only a rule ends the list of names |
//! | rules before the first `User-agent` | ignored |
//! | a file longer than 500 KiB | its beginning is used, without a line cut at the limit |
//! | `Crawl-delay` (not in the RFC) | for the agents named so far in the group; the longest if groups are merged |
//! | `Allow: /a/index.html` | allows `/a/` too |
//! | `Sitemap` (sitemaps.org, not in the RFC) | wherever it is, for all agents; its value as written |
//! | `Content-Signal` (contentsignals.org), `Content-Usage` (draft-ietf-aipref-attach) | for the agents named so far in the group; they end no list of names |
//! | frequent misspellings, a missing colon | accepted, as by Google's parser |

mod agent;
mod escape;
mod fetch;
mod line;
mod parse;
mod pattern;
mod rules;
mod usage;

pub use agent::agent_token;
pub use escape::path_and_query;
pub use fetch::{RobotsPolicy, STALE_MS, UNREACHABLE_MS};
pub use rules::{AgentRules, Explanation, Verdict, explain};

/// Maximum number of sitemaps of a file; further ones are ignored.
pub const MAX_SITEMAPS: usize = 1000;
/// Maximum total length of their URLs, in bytes.
pub const MAX_SITEMAP_BYTES: usize = 64 << 10;
/// Longest crawl-delay that is distinguished, in milliseconds: a day. Longer ones count as this.
pub const MAX_CRAWL_DELAY_MS: u64 = 24 * 3_600_000;

#[cfg(test)]
mod tests;
