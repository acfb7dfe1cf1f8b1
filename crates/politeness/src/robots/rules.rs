//! Rules, and what they say of a path.

use std::cmp::Reverse;

use super::{escape::comparable_path, pattern::Pattern};

/// One `Allow` or `Disallow` line.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) pattern: Pattern,
    /// `Disallow: /path`, as written but for octets that are no UTF-8: those are percent-encoded.
    pub(super) text: Box<str>,
    pub(super) allow: bool,
    pub(super) line: u32,
    /// Follows from the rule before it, of which it has text and line.
    pub(super) implied: bool,
}

/// The number of a line belongs to its file, not to the rule's meaning.
impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        (&self.pattern, &self.text, self.allow) == (&other.pattern, &other.text, other.allow)
    }
}

impl Eq for Rule {}

impl Rule {
    /// Orders rules: the longest first, of equals an `Allow` first, of these the first line first.
    pub(super) fn precedence(&self) -> (Reverse<usize>, bool, u32) {
        (Reverse(self.pattern.specificity()), !self.allow, self.line)
    }
}

/// Whether a path may be requested, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict<'a> {
    /// It may.
    pub allowed: bool,
    /// The rule that decided, as `Disallow: /path`; `None` when none matched.
    pub rule: Option<&'a str>,
    /// The number of that rule's line, from 1.
    pub line: Option<u32>,
}

/// What a robots.txt says to one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRules {
    /// In the order of precedence: the first that matches decides.
    rules: Box<[Rule]>,
    crawl_delay_ms: Option<u64>,
    refuses_all: bool,
}

impl AgentRules {
    pub(super) fn new(mut rules: Vec<Rule>, crawl_delay_ms: Option<u64>, refuses_all: bool) -> Self {
        rules.sort_by_key(Rule::precedence);
        Self { rules: rules.into(), crawl_delay_ms, refuses_all }
    }

    /// Whether this path and query may be requested, and which rule says so.
    #[must_use]
    pub fn verdict(&self, path_and_query: &str) -> Verdict<'_> {
        decide(self.refuses_all, path_and_query, |path| self.rules.iter().find(|rule| rule.pattern.matches(path)))
    }

    /// The crawl-delay, in milliseconds, at most [`super::MAX_CRAWL_DELAY_MS`].
    #[must_use]
    pub fn crawl_delay_ms(&self) -> Option<u64> {
        self.crawl_delay_ms
    }
}

/// The verdict on a path, given how the rule that decides is found for its compared form.
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
