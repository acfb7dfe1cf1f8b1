//! References to the rules of `docs/protocol.md`, and from there to tests.

use std::collections::BTreeSet;
use std::path::Path;

use crate::links::anchor;

const LINK: &str = concat!("protocol.md", "#");

/// The rules of the protocol.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Protocol {
    /// Anchors of all rules.
    pub rules: BTreeSet<String>,
    /// Rules without a test.
    pub untested: BTreeSet<String>,
    /// Names of the tests that rules refer to.
    pub tests: BTreeSet<String>,
}

impl Protocol {
    /// Parses `docs/protocol.md`: rules are headings of the third level, and their tests are code spans after
    /// `- Tests:`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut protocol = Self::default();
        for rule in text.split("\n### ").skip(1) {
            let (title, body) = rule.split_once('\n').unwrap_or((rule, ""));
            let body = body.split("\n## ").next().unwrap_or_default();
            let anchor = anchor(title);
            let named = body.split_once("- Tests:").map_or("", |(_, tests)| tests);
            let tests: Vec<&str> = named.split('`').skip(1).step_by(2).collect();
            if tests.is_empty() {
                protocol.untested.insert(anchor.clone());
            }
            protocol.tests.extend(tests.into_iter().map(ToOwned::to_owned));
            protocol.rules.insert(anchor);
        }
        protocol
    }

    /// Returns lines that refer to a nonexistent rule, or to a rule by number.
    #[must_use]
    pub fn broken_links(&self, path: &Path, text: &str) -> Vec<String> {
        let is_broken = |line: &str| {
            let linked = line.split(LINK).skip(1).any(|rest| {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(rest.len());
                !self.rules.contains(&rest[..end])
            });
            let mut words = line.split_whitespace().map(|word| word.trim_start_matches('(').to_lowercase()).peekable();
            let mut numbered = false;
            while let Some(word) = words.next() {
                let is_number = |next: &String| next.starts_with(|c: char| c.is_ascii_digit());
                numbered |= matches!(&*word, "rule" | "rules") && words.peek().is_some_and(is_number);
            }
            linked || numbered
        };
        let lines = text.lines().enumerate().filter(|(_, line)| is_broken(line));
        lines.map(|(number, line)| format!("{}:{}: {}", path.display(), number + 1, line.trim())).collect()
    }

    /// Returns the tests that no source contains.
    #[must_use]
    pub fn missing_tests<'a>(&self, sources: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
        let mut missing = self.tests.clone();
        for source in sources {
            missing.retain(|test| !source.contains(&format!("fn {test}(")));
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# The protocol\n\n## Logs\n\n### Effect order\n\nOne after the other.\n\n- Tests: `a_b`,\n  `c`\n\n### \
                        Claims\n\nSee `x`.\n\n## Other\n\n### Last\n- Tests: `d`\n";

    #[test]
    fn rules_and_their_tests_are_read() {
        let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let protocol = Protocol::parse(TEXT);
        assert_eq!(protocol.rules, of(&["effect-order", "claims", "last"]));
        assert_eq!(protocol.tests, of(&["a_b", "c", "d"]));
        assert_eq!(protocol.untested, of(&["claims"]));
        assert_eq!(protocol.missing_tests(["fn a_b() {}", "async fn d() {} // fn c"]), of(&["c"]));
    }

    #[test]
    fn a_reference_to_a_rule_that_is_not_there_is_found() {
        let broken = |line: &str| !Protocol::parse(TEXT).broken_links(Path::new("a.rs"), line).is_empty();
        assert!(broken(&format!("// (docs/{LINK}claim)")) && broken(&format!("see {LINK}claims and {LINK}none")));
        assert!(broken(concat!("(ru", "le 3)")) && broken(concat!("Ru", "les 3 and 4")));
        assert!(!broken(&format!("[claims](../{LINK}claims), `docs/{LINK}last`")) && !broken("a rule of 3"));
    }
}
