//! robots.txt as RFC 9309 says.
//!
//! A file is parsed once ([`Robots::parse`]); from it comes what applies to one agent ([`Robots::rules_for`]), which is small,
//! ordered by specificity and what a cache keeps. The longest matching rule decides, an `Allow` wins a tie, and what no rule
//! matches is allowed. `/robots.txt` itself is always allowed.
//!
//! Where the RFC leaves a choice, or practice differs from it:
//!
//! | point | choice |
//! |---|---|
//! | product token | letters, digits, `-` and `_` (the RFC has no digits, but `MJ12bot` does); a name is cut at the first other character |
//! | unknown lines among `User-agent` lines | the group goes on; only a rule ends the list of names |
//! | rules before the first `User-agent` | ignored |
//! | a file longer than [`Limits::max_bytes`] | the first part is used, a line cut at the limit is not |
//! | `Crawl-delay` (not in the RFC) | of the agents named so far in the group; the longest when groups are merged |
//! | `Allow: /a/index.html` | allows `/a/` too |
//! | frequent misspellings, a missing colon | understood, as Google's parser does |

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

/// The longest crawl-delay that is obeyed, in milliseconds: five minutes, as Heritrix has it. Longer ones count as this.
pub const MAX_CRAWL_DELAY_MS: u64 = 300_000;

/// How much of a file is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes; at least 500 KiB by RFC 9309 section 2.5.
    pub max_bytes: usize,
    /// Rules of all groups; later ones are ignored.
    pub max_rules: usize,
    /// Sitemaps; later ones are ignored.
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
    /// By product token in lower case; `*` is everybody else.
    agents: BTreeMap<Box<str>, Agent>,
    /// The rules of each group that has any.
    groups: Vec<Vec<Rule>>,
    sitemaps: Vec<String>,
    /// Stands for a file that could not be had: nothing is allowed.
    refuses_all: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Agent {
    /// Indexes of its groups, ascending.
    groups: Vec<usize>,
    crawl_delay_ms: Option<u64>,
}

impl Robots {
    /// Reads a robots.txt. Any bytes are a robots.txt; what is no rule is ignored.
    #[must_use]
    pub fn parse(bytes: &[u8], limits: &Limits) -> Self {
        parse::parse(bytes, limits)
    }

    /// What holds when there is no robots.txt: everything is allowed.
    #[must_use]
    pub fn allow_all() -> Self {
        Self::default()
    }

    /// What holds while the robots.txt cannot be had: nothing is allowed.
    #[must_use]
    pub fn disallow_all() -> Self {
        Self { refuses_all: true, ..Self::default() }
    }

    /// Whether `agent` may request this path and query, and which rule says so.
    ///
    /// `agent` is a product token or a whole user agent. Ask [`Robots::rules_for`] once when there are many paths.
    #[must_use]
    pub fn verdict<'a>(&'a self, agent: &str, path_and_query: &str) -> Verdict<'a> {
        rules::decide(self.refuses_all, path_and_query, |path| {
            let matching = self.rules_of(agent).filter(|rule| rule.pattern.matches(path));
            matching.min_by_key(|rule| rule.precedence())
        })
    }

    /// The crawl-delay for `agent`, in milliseconds, at most [`MAX_CRAWL_DELAY_MS`].
    #[must_use]
    pub fn crawl_delay_ms(&self, agent: &str) -> Option<u64> {
        self.agent(agent).and_then(|agent| agent.crawl_delay_ms)
    }

    /// Its sitemaps, as given (a relative one is relative to the robots.txt), without repetitions.
    #[must_use]
    pub fn sitemaps(&self) -> &[String] {
        &self.sitemaps
    }

    /// What applies to `agent`: to be kept instead of the whole file.
    #[must_use]
    pub fn rules_for(&self, agent: &str) -> AgentRules {
        AgentRules::new(self.rules_of(agent).cloned().collect(), self.crawl_delay_ms(agent), self.refuses_all)
    }

    /// Its meaning as a robots.txt, whose parse is this again but for the line numbers.
    #[must_use]
    pub fn render(&self) -> String {
        render::render(self)
    }

    /// The groups that name the agent, or else those of everybody (RFC 9309 section 2.2.1).
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
