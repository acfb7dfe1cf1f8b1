//! What a robots.txt says of one URL, for people.

use serde::Serialize;

use super::{Limits, Robots, path_and_query};

/// What a robots.txt says of one URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The URL, as asked.
    pub url: String,
    /// The agent may request it.
    pub allowed: bool,
    /// The rule that decided, as `Disallow: /path`; `null` when none matched.
    pub rule: Option<String>,
    /// The number of that rule's line, from 1.
    pub line: Option<u32>,
    /// The agent's crawl-delay, in milliseconds.
    pub crawl_delay_ms: Option<u64>,
}

impl Robots {
    /// What it says to `agent` of `url` (absolute, or a path).
    #[must_use]
    pub fn explain(&self, agent: &str, url: &str) -> Explanation {
        let verdict = self.verdict(agent, path_and_query(url));
        Explanation {
            url: url.to_owned(),
            allowed: verdict.allowed,
            rule: verdict.rule.map(str::to_owned),
            line: verdict.line,
            crawl_delay_ms: self.crawl_delay_ms(agent),
        }
    }
}

/// What a robots.txt says to `agent` of `url`. Parse once and use [`Robots::explain`] when there are many URLs.
#[must_use]
pub fn explain(robots_txt: &[u8], agent: &str, url: &str) -> Explanation {
    Robots::parse(robots_txt, &Limits::default()).explain(agent, url)
}
