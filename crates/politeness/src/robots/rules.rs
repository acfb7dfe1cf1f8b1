//! Rules, and their verdict on a path.

use std::cmp::Reverse;

use super::{escape::comparable_path, pattern::Pattern};

/// An `Allow` or `Disallow` line.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) pattern: Pattern,
    /// `Disallow: /path`, as written except for octets that are not UTF-8, which are percent-encoded.
    pub(super) text: Box<str>,
    pub(super) allow: bool,
    pub(super) line: u32,
    /// Whether the rule is implied by the previous one, whose text and line it shares.
    pub(super) implied: bool,
}

/// Ignores the line number, which belongs to the file and not to the meaning of the rule.
impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        (&self.pattern, &self.text, self.allow) == (&other.pattern, &other.text, other.allow)
    }
}

impl Eq for Rule {}

impl Rule {
    /// Returns the sort key: the longest rule first, of equally long ones an `Allow` first, then the first line.
    pub(super) fn precedence(&self) -> (Reverse<usize>, bool, u32) {
        (Reverse(self.pattern.specificity()), !self.allow, self.line)
    }
}

/// Whether a path may be requested, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict<'a> {
    /// Whether the path may be requested.
    pub allowed: bool,
    /// The deciding rule, as `Disallow: /path`; `None` if none matched.
    pub rule: Option<&'a str>,
    /// Line number of the rule, from 1.
    pub line: Option<u32>,
}

/// Rules of a robots.txt for one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRules {
    /// Rules in order of precedence: the first that matches decides.
    rules: Box<[Rule]>,
    crawl_delay_ms: Option<u64>,
    refuses_all: bool,
}

impl AgentRules {
    pub(super) fn new(mut rules: Vec<Rule>, crawl_delay_ms: Option<u64>, refuses_all: bool) -> Self {
        rules.sort_by_key(Rule::precedence);
        Self { rules: rules.into(), crawl_delay_ms, refuses_all }
    }

    /// Returns whether this path and query may be requested, and the rule that decides.
    #[must_use]
    pub fn verdict(&self, path_and_query: &str) -> Verdict<'_> {
        decide(self.refuses_all, path_and_query, |path| self.rules.iter().find(|rule| rule.pattern.matches(path)))
    }

    /// Returns the crawl-delay, in milliseconds, at most [`super::MAX_CRAWL_DELAY_MS`].
    #[must_use]
    pub fn crawl_delay_ms(&self) -> Option<u64> {
        self.crawl_delay_ms
    }
}

/// Returns the verdict on a path; `deciding` finds the deciding rule for the normalized path.
pub(super) fn decide<'a>(
    refuses_all: bool,
    path_and_query: &str,
    deciding: impl FnOnce(&[u8]) -> Option<&'a Rule>,
) -> Verdict<'a> {
    let path = comparable_path(path_and_query);
    // RFC 9309 section 2.2.2: "The /robots.txt URI is implicitly allowed."
    if path.as_ref() == b"/robots.txt" {
        return Verdict { allowed: true, rule: None, line: None };
    }
    if refuses_all {
        return Verdict { allowed: false, rule: None, line: None };
    }
    deciding(&path).map_or(Verdict { allowed: true, rule: None, line: None }, |rule| Verdict {
        allowed: rule.allow,
        rule: Some(&rule.text),
        line: Some(rule.line),
    })
}
