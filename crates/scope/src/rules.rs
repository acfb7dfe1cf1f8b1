//! Compiled patterns and depth limit of a crawl.

use orbweaver_messages::{CrawlDefinition, Scope};
use regex::{RegexSet, RegexSetBuilder};

/// Maximum compiled size of a crawl's include patterns, and of its exclude patterns, in bytes.
pub const PATTERN_BYTES: usize = 4 << 20;

/// Reason why a URL does not belong to a crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleRejection {
    /// The crawl has been stopped.
    Stopped,
    /// The URL matches an exclude pattern.
    Excluded,
    /// The URL matches no include pattern.
    NotIncluded,
    /// The URL is more links away from a seed than the depth limit allows.
    TooDeep,
}

impl RuleRejection {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::Stopped, Self::Excluded, Self::NotIncluded, Self::TooDeep];

    /// Returns the name that is used in outcomes, metrics and summaries.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Excluded => "excluded",
            Self::NotIncluded => "not_included",
            Self::TooDeep => "too_deep",
        }
    }
}

/// Reason why patterns are unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// A pattern is not a valid regular expression, or exceeds the size limit by itself.
    #[error("the {list} pattern `{pattern}` cannot be used: {reason}")]
    Pattern {
        /// `include` or `exclude`.
        list: &'static str,
        pattern: String,
        /// The problem.
        reason: String,
    },
    /// Each pattern compiles by itself, but together they exceed the size limit.
    #[error(
        "the {count} {list} patterns take more than {} MiB in total when compiled; use fewer or simpler ones",
        PATTERN_BYTES >> 20
    )]
    TooLarge {
        /// `include` or `exclude`.
        list: &'static str,
        /// The number of patterns.
        count: usize,
    },
}

impl PatternError {
    /// Returns the list in which the error is: `include` or `exclude`.
    #[must_use]
    pub fn list(&self) -> &'static str {
        match self {
            Self::Pattern { list, .. } | Self::TooLarge { list, .. } => list,
        }
    }
}

/// The compiled rules of a crawl.
#[derive(Debug)]
pub struct Rules {
    scope: Scope,
    stopped: bool,
    checks_external: bool,
    max_depth: Option<u16>,
    include: RegexSet,
    exclude: RegexSet,
}

impl Rules {
    /// Compiles the rules of a definition.
    ///
    /// # Errors
    /// When a pattern is invalid or too large; the error names it.
    pub fn compile(definition: &CrawlDefinition) -> Result<Self, PatternError> {
        Ok(Self {
            scope: definition.scope,
            stopped: definition.stopped,
            checks_external: definition.check_external,
            max_depth: definition.max_depth,
            include: set("include", &definition.include)?,
            exclude: set("exclude", &definition.exclude)?,
        })
    }

    /// Returns which part of the web the seeds bring into scope.
    #[must_use]
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Returns `true` if the crawl has been stopped.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Returns `true` if URLs that are out of scope and linked are checked.
    #[must_use]
    pub fn checks_external(&self) -> bool {
        self.checks_external
    }

    /// Returns `true` if depth is limited. A URL then counts as new again if it is found nearer to a seed.
    #[must_use]
    pub fn limits_depth(&self) -> bool {
        self.max_depth.is_some()
    }

    /// Returns `true` if a URL at this depth, in links from a seed, is beyond the limit.
    #[must_use]
    pub fn is_too_deep(&self, depth: u16) -> bool {
        self.max_depth.is_some_and(|max| depth > max)
    }

    /// Returns why the patterns reject a canonical URL, if they do. Exclude takes precedence.
    #[must_use]
    pub fn refusal(&self, canonical: &str) -> Option<RuleRejection> {
        self.refusal_of_no_page(canonical).or_else(|| {
            (!self.include.is_empty() && !self.include.is_match(canonical)).then_some(RuleRejection::NotIncluded)
        })
    }

    /// Returns why the patterns reject the canonical URL of a requisite or an external one, if they do: include names pages
    /// alone.
    #[must_use]
    pub fn refusal_of_no_page(&self, canonical: &str) -> Option<RuleRejection> {
        (!self.exclude.is_empty() && self.exclude.is_match(canonical)).then_some(RuleRejection::Excluded)
    }
}

fn set(list: &'static str, patterns: &[String]) -> Result<RegexSet, PatternError> {
    let build = |patterns: &[String]| RegexSetBuilder::new(patterns).size_limit(PATTERN_BYTES).build();
    build(patterns).map_err(|_| {
        // The error of the set does not name the pattern.
        let alone = patterns.iter().find_map(|pattern| Some((pattern, build(std::slice::from_ref(pattern)).err()?)));
        match alone {
            Some((pattern, error)) => {
                // The last line states the problem; the lines before it repeat the pattern.
                let error = error.to_string();
                let reason =
                    error.lines().last().unwrap_or_default().trim_start_matches("error: ").trim_end_matches('.');
                PatternError::Pattern { list, pattern: shortened(pattern), reason: reason.to_owned() }
            }
            None => PatternError::TooLarge { list, count: patterns.len() },
        }
    })
}

/// Returns at most the first 200 characters of a pattern, for an error message.
fn shortened(pattern: &str) -> String {
    match pattern.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &pattern[..end]),
        None => pattern.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(include: &[&str], exclude: &[&str]) -> CrawlDefinition {
        let patterns = |patterns: &[&str]| patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        let host = include_str!("../../../schemas/examples/crawl-definition/1/host.json");
        let host: CrawlDefinition = serde_json::from_str(host).unwrap();
        CrawlDefinition { include: patterns(include), exclude: patterns(exclude), max_depth: Some(2), ..host }
    }

    #[test]
    fn exclude_wins_over_include_and_both_are_unanchored() {
        let rules = Rules::compile(&definition(&["\\.html$", "/docs/"], &["sessionid="])).unwrap();
        for (url, refusal) in [
            ("http://example.com/a.html", None),
            ("http://example.com/docs/a", None),
            ("http://example.com/a.pdf", Some(RuleRejection::NotIncluded)),
            ("http://example.com/docs/?sessionid=1", Some(RuleRejection::Excluded)),
        ] {
            assert_eq!(rules.refusal(url), refusal, "{url}");
            let of_no_page = refusal.filter(|refusal| *refusal == RuleRejection::Excluded);
            assert_eq!(rules.refusal_of_no_page(url), of_no_page, "{url}");
        }
        assert_eq!([rules.is_too_deep(2), rules.is_too_deep(3)], [false, true]);
        assert_eq!(Rules::compile(&definition(&[], &[])).unwrap().refusal("http://example.com/"), None);
    }

    #[test]
    fn a_pattern_that_is_wrong_or_too_large_is_named() {
        let error = |include: &[&str], exclude: &[&str]| {
            Rules::compile(&definition(include, exclude)).map(drop).unwrap_err().to_string()
        };
        assert!(error(&["a", "("], &[]).starts_with("the include pattern `(` cannot be used: unclosed group"));
        assert!(error(&[], &["(\\w{1000}){1000}"]).contains("exceeds size limit"));
        let each_would_do: Vec<String> = (0..60).map(|n| format!("{n}(\\w{{20}}){{1,3}}")).collect();
        let all: Vec<&str> = each_would_do.iter().map(String::as_str).collect();
        assert!(error(&all, &[]).starts_with("the 60 include patterns take more than 4 MiB in total when compiled"));
        assert!(error(&[&"(".repeat(1000)], &[]).len() < 700);
    }
}
