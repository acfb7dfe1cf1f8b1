//! Human-readable verdict of a robots.txt on one URL.

use serde::Serialize;

use super::{Limits, Robots, path_and_query};

/// Verdict of a robots.txt on one URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    pub url: String,
    /// Whether the agent may request it.
    pub allowed: bool,
    /// The deciding rule, as `Disallow: /path`; `null` if none matched.
    pub rule: Option<String>,
    /// Line number of the rule, from 1.
    pub line: Option<u32>,
    /// Crawl-delay of the agent, in milliseconds.
    pub crawl_delay_ms: Option<u64>,
}

impl Robots {
    /// Explains the verdict for `agent` on `url` (absolute, or a path).
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

/// Explains the verdict of a robots.txt for `agent` on `url`. For many URLs, parse once and call [`Robots::explain`].
#[must_use]
pub fn explain(robots_txt: &[u8], agent: &str, url: &str) -> Explanation {
    Robots::parse(robots_txt, &Limits::default()).explain(agent, url)
}
