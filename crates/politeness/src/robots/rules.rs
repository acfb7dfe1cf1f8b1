//! Rules for one agent, and their verdict on a path.

use std::cmp::Reverse;

use serde::Serialize;

use super::{
    escape::{comparable_path, path_and_query},
    pattern::Pattern,
    usage::{self, UsageRule},
};
use crate::purposes::Purposes;

/// An `Allow` or `Disallow` line.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) pattern: Pattern,
    /// `Disallow: /path`, as written except for octets that are not UTF-8, which are percent-encoded.
    pub(super) text: Box<str>,
    pub(super) allow: bool,
    pub(super) line: u32,
}

impl Rule {
    /// Returns the sort key: the longest rule first, of equally long ones an `Allow` first, then the first line.
    pub(super) fn precedence(&self) -> (Reverse<usize>, bool, u32) {
        (Reverse(self.pattern.specificity()), !self.allow, self.line)
    }
}

/// Whether a path may be requested, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict<'a> {
    pub allowed: bool,
    /// The deciding rule, as `Disallow: /path`; `None` if none matched.
    pub rule: Option<&'a str>,
    /// Line number of the rule, from 1.
    pub line: Option<u32>,
}

/// Rules of a robots.txt for one agent. The default is that of an authority without a robots.txt: everything is
/// allowed.
#[derive(Debug, Clone, Default)]
pub struct AgentRules {
    /// Rules in order of precedence: the first that matches decides.
    pub(super) rules: Box<[Rule]>,
    /// Statements on the use, in order of precedence.
    pub(super) usage: Box<[UsageRule]>,
    pub(super) crawl_delay_ms: Option<u64>,
    pub(super) sitemaps: Box<[Box<str>]>,
}

impl AgentRules {
    /// Returns whether this path and query may be requested, and the rule that decides.
    #[must_use]
    pub fn verdict(&self, path_and_query: &str) -> Verdict<'_> {
        let deciding = match comparable_path(path_and_query).as_ref() {
            // RFC 9309 section 2.2.2: "The /robots.txt URI is implicitly allowed."
            b"/robots.txt" => None,
            path => self.rules.iter().find(|rule| rule.pattern.matches(path)),
        };
        Verdict {
            allowed: deciding.is_none_or(|rule| rule.allow),
            rule: deciding.map(|rule| &*rule.text),
            line: deciding.map(|rule| rule.line),
        }
    }

    /// Returns the purposes for which the file refuses the use of this path and query.
    #[must_use]
    pub fn refused(&self, path_and_query: &str) -> Purposes {
        if self.usage.is_empty() {
            return Purposes::NONE;
        }
        usage::refused(&self.usage, &comparable_path(path_and_query))
    }

    /// Returns the crawl-delay, in milliseconds, at most [`super::MAX_CRAWL_DELAY_MS`].
    #[must_use]
    pub fn crawl_delay_ms(&self) -> Option<u64> {
        self.crawl_delay_ms
    }

    /// Returns the sitemaps that the file names, for all agents, in order and as written: at most
    /// [`super::MAX_SITEMAPS`] of [`super::MAX_SITEMAP_BYTES`] in total.
    #[must_use]
    pub fn sitemaps(&self) -> &[Box<str>] {
        &self.sitemaps
    }
}

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

/// Explains the verdict of a robots.txt for `agent` on `url` (absolute, or a path).
#[must_use]
pub fn explain(robots_txt: &[u8], agent: &str, url: &str) -> Explanation {
    let rules = AgentRules::parse(robots_txt, agent);
    let verdict = rules.verdict(path_and_query(url));
    Explanation {
        url: url.to_owned(),
        allowed: verdict.allowed,
        rule: verdict.rule.map(str::to_owned),
        line: verdict.line,
        crawl_delay_ms: rules.crawl_delay_ms(),
    }
}
