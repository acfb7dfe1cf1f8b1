//! robots.txt according to RFC 9309.
//!
//! A file is parsed once ([`Robots::parse`]); the rules of one agent ([`Robots::rules_for`]) are small, ordered by
//! specificity, and suited to caching. The longest matching rule decides, an `Allow` wins a tie, and a path that no
//! rule matches is allowed. `/robots.txt` itself is always allowed.
//!
//! Choices where the RFC leaves one, or practice differs from it:
//!
//! | point | choice |
//! |---|---|
//! | product token | letters, digits (not in the RFC, but in `MJ12bot`), `-`, `_`; cut at the first other character |
//! | unknown lines among `User-agent` lines | the group continues; only a rule ends the list of names |
//! | rules before the first `User-agent` | ignored |
//! | a file longer than [`Limits::max_bytes`] | its beginning is used, without a line cut at the limit |
//! | `Crawl-delay` (not in the RFC) | for the agents named so far in the group; the longest if groups are merged |
//! | `Allow: /a/index.html` | allows `/a/` too |
//! | frequent misspellings, a missing colon | accepted, as by Google's parser |

mod agent;
mod escape;
mod explain;
mod fetch;
mod line;
mod parse;
mod pattern;
mod render;
mod rules;

use std::collections::BTreeMap;

pub use agent::agent_token;
pub use escape::path_and_query;
pub use explain::{Explanation, explain};
pub use fetch::{FRESH_MS, MAX_REDIRECTS, RobotsAnswer, RobotsPolicy, STALE_MS, UNREACHABLE_MS};
pub use rules::{AgentRules, Verdict};

use rules::Rule;

/// Longest crawl-delay that is obeyed, in milliseconds: five minutes, as in Heritrix. Longer ones count as this.
pub const MAX_CRAWL_DELAY_MS: u64 = 300_000;

/// Limits on the parsed part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of bytes; at least 500 KiB by RFC 9309 section 2.5.
    pub max_bytes: usize,
    /// Maximum number of rules in all groups; further ones are ignored.
    pub max_rules: usize,
    /// Maximum number of sitemaps; further ones are ignored.
    pub max_sitemaps: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_bytes: 500 * 1024, max_rules: 50_000, max_sitemaps: 1000 }
    }
}

/// A parsed robots.txt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Robots {
    /// Agents by product token in lower case; `*` stands for all other agents.
    agents: BTreeMap<Box<str>, Agent>,
    /// Rules of each group that has any.
    groups: Vec<Vec<Rule>>,
    sitemaps: Vec<String>,
    /// Set for a file that is unreachable: nothing is allowed.
    refuses_all: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Agent {
    /// Indexes of the agent's groups, ascending.
    groups: Vec<usize>,
    crawl_delay_ms: Option<u64>,
}

impl Robots {
    /// Parses a robots.txt. Any bytes are a robots.txt; lines that are no rule are ignored.
    #[must_use]
    pub fn parse(bytes: &[u8], limits: &Limits) -> Self {
        parse::parse(bytes, limits)
    }

    /// Returns the rules in the absence of a robots.txt: everything is allowed.
    #[must_use]
    pub fn allow_all() -> Self {
        Self::default()
    }

    /// Returns the rules while the robots.txt is unreachable: nothing is allowed.
    #[must_use]
    pub fn disallow_all() -> Self {
        Self { refuses_all: true, ..Self::default() }
    }

    /// Returns whether `agent` may request this path and query, and the rule that decides.
    ///
    /// `agent` is a product token or a whole user agent. For many paths, call [`Robots::rules_for`] once.
    #[must_use]
    pub fn verdict<'a>(&'a self, agent: &str, path_and_query: &str) -> Verdict<'a> {
        rules::decide(self.refuses_all, path_and_query, |path| {
            let matching = self.rules_of(agent).filter(|rule| rule.pattern.matches(path));
            matching.min_by_key(|rule| rule.precedence())
        })
    }

    /// Returns the crawl-delay for `agent`, in milliseconds, at most [`MAX_CRAWL_DELAY_MS`].
    #[must_use]
    pub fn crawl_delay_ms(&self, agent: &str) -> Option<u64> {
        self.agent(agent).and_then(|agent| agent.crawl_delay_ms)
    }

    /// Returns the sitemaps, as given (a relative one is relative to the robots.txt), without duplicates.
    #[must_use]
    pub fn sitemaps(&self) -> &[String] {
        &self.sitemaps
    }

    /// Returns the rules for `agent`, to be kept instead of the whole file.
    #[must_use]
    pub fn rules_for(&self, agent: &str) -> AgentRules {
        AgentRules::new(self.rules_of(agent).cloned().collect(), self.crawl_delay_ms(agent), self.refuses_all)
    }

    /// Renders an equivalent robots.txt, whose parse equals this one except for line numbers.
    #[must_use]
    pub fn render(&self) -> String {
        render::render(self)
    }

    /// Returns the groups that name the agent, or else those of `*` (RFC 9309 section 2.2.1).
    fn agent(&self, agent: &str) -> Option<&Agent> {
        self.agents.get(agent_token(agent).as_str()).or_else(|| self.agents.get("*"))
    }

    fn rules_of(&self, agent: &str) -> impl Iterator<Item = &Rule> {
        let groups = self.agent(agent).map_or(&[][..], |agent| &agent.groups);
        groups.iter().filter_map(|&group| self.groups.get(group)).flatten()
    }
}

#[cfg(test)]
mod tests;
