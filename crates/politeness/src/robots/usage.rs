//! Statements of a robots.txt on the use of its pages: Content-Signal and Content-Usage.

use std::cmp::Reverse;

use super::pattern::Pattern;
use crate::purposes::Purposes;

/// Kind of line. Of each, the longest path that matches applies, and of both together the more restrictive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UsageKind {
    ContentSignal,
    ContentUsage,
}

/// A `Content-Signal` or `Content-Usage` line.
#[derive(Debug, Clone)]
pub(super) struct UsageRule {
    kind: UsageKind,
    pattern: Pattern,
    refused: Purposes,
}

impl UsageRule {
    /// Parses the value of a line: a list such as `search=yes, ai-train=no`, after the path to which it applies; without
    /// one it applies to `/`.
    pub(super) fn new(kind: UsageKind, value: &[u8]) -> Self {
        let end = value.iter().position(u8::is_ascii_whitespace).unwrap_or(value.len());
        let (path, list) = if value.starts_with(b"/") { value.split_at(end) } else { (&b"/"[..], value) };
        let refused = Purposes::refused_by_list(&String::from_utf8_lossy(list));
        Self { kind, pattern: Pattern::new(path), refused }
    }

    /// Returns the sort key: the longest path first.
    pub(super) fn precedence(&self) -> Reverse<usize> {
        Reverse(self.pattern.specificity())
    }
}

/// Returns the purposes that rules in order of precedence refuse for a normalized path.
pub(super) fn refused(rules: &[UsageRule], path: &[u8]) -> Purposes {
    let of_kind = |kind| {
        let mut matching = rules.iter().filter(|rule| rule.kind == kind && rule.pattern.matches(path));
        let Some(longest) = matching.next() else { return Purposes::NONE };
        let equal = matching.take_while(|rule| rule.precedence() == longest.precedence());
        equal.fold(longest.refused, |refused, rule| refused | rule.refused)
    };
    of_kind(UsageKind::ContentSignal) | of_kind(UsageKind::ContentUsage)
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::CrawlPurpose;
    use proptest::prelude::*;

    use super::super::AgentRules;

    fn refused(robots_txt: &str, path: &str) -> String {
        let refused = AgentRules::parse(robots_txt.as_bytes(), "orbweaver").refused(path);
        refused.iter().map(CrawlPurpose::name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_group_of_the_agent_applies_and_otherwise_that_of_all() {
        let all = "Sitemap: https://a.example/s\nUser-agent: *\nContent-Signal: search=yes, ai-train=no\nAllow: /\n";
        assert_eq!(refused(all, "/x"), "ai-train");
        assert_eq!(refused(&format!("{all}User-agent: orbweaver\nContent-Signal: search=no"), "/x"), "search");
        assert_eq!(refused(&format!("{all}User-agent: orbweaver\nDisallow: /no"), "/x"), "");
        assert_eq!(refused(&format!("{all}User-agent: otherbot\nContent-Signal: search=no"), "/x"), "ai-train");
        assert_eq!(refused("Content-Signal: search=no\nUser-agent: *\nAllow: /", "/x"), "", "in no group");
        assert_eq!(refused("User-agent: *\ncontent-signal:ai-input=no # ai-train=no", "/"), "ai-input");
    }

    #[test]
    fn the_longest_path_applies_and_of_equal_paths_the_most_restrictive() {
        let usage = "User-agent: *\nContent-Usage: / train-ai=n\nContent-Usage: /ai-ok/ train-ai=y\n";
        assert_eq!((refused(usage, "/x"), refused(usage, "/ai-ok/x")), ("ai-train".into(), String::new()));
        let both = format!("{usage}Content-Signal: ai-train=no\nContent-Usage: /ai-ok/\tsearch=n\n");
        assert_eq!(refused(&both, "/ai-ok/x"), "search ai-train");
        assert_eq!(refused("User-agent: *\nContent-Usage: train-ai=n\nContent-Usage: / train-ai=y", "/"), "ai-train");
        assert_eq!(refused("User-agent: *\nContent-Usage: /*.pdf$ search=n\n", "/a.pdf"), "search");
        assert_eq!(refused("User-agent: *\nContent-Usage: /*.pdf$ search=n\n", "/a.pdfx"), "");
        assert_eq!(refused("User-agent: *\nContent-Usage: /a%20b search=n\n", "/a b/c"), "search");
    }

    #[test]
    fn a_statement_leaves_the_names_of_its_group_as_they_are() {
        let robots_txt = "User-agent: otherbot\nContent-Signal: search=no\nUser-agent: orbweaver\nDisallow: /\n";
        assert_eq!(refused(robots_txt, "/"), "", "for the agents that are named before it");
        for agent in ["otherbot", "orbweaver"] {
            assert!(!AgentRules::parse(robots_txt.as_bytes(), agent).verdict("/").allowed, "{agent}");
        }
    }

    proptest! {
        #[test]
        fn any_lines_are_read_and_a_further_one_of_the_same_path_only_restricts(
            lines in "(User-agent: \\*\n|Content-Signal:|Content-Usage:| /a| /\\*b|search=n|train-ai=y|,|\n|\\PC){0,30}",
        ) {
            let before = AgentRules::parse(format!("User-agent: *\nContent-Usage: / ai-use=n\n{lines}").as_bytes(), "x");
            let after = format!("User-agent: *\nContent-Usage: / ai-use=n\n{lines}\nUser-agent: *\nContent-Usage: / ai-use=y, search=n");
            let after = AgentRules::parse(after.as_bytes(), "x");
            for path in ["/", "/a", "/ab", "/c"] {
                prop_assert_eq!(before.refused(path) & after.refused(path), before.refused(path));
            }
        }
    }
}
