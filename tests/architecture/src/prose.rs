//! Plain English in comments, messages and pages: words and turns of phrase that a native engineer would not use.

use std::path::Path;

use regex::Regex;

/// Patterns, without regard to case, each with its replacement.
const BANNED: [(&str, &str); 33] = [
    (r"(?-i:^//[/!] (What|Who|Whose|Where|Why|How|Its|Their|They|As for)\b)", "begin with a noun or a verb"),
    (r"\bwhat (waits|is|was|were|has|had|comes?|came|goes|went|lies|stands|follows|becomes|became)\b", "name the noun"),
    (r"\b(told|tells?|telling)\b", "report, return, receive"),
    (r"\bask(s|ed)? (for|again|at|by|about|of|them|twice|too|in)\b", "request, query"),
    (r"\b(is|are|was|were|be|been|not) asked\b", "request, query"),
    (r"\b(nobody|somebody|whoever)\b", "name the component"),
    (r"\b(we|our|ours)\b", "name the component"),
    (r"\bso (many|long|much|often) (bytes|records|requests|pages|URLs|seconds|milliseconds)\b", "name the number"),
    (r"\banew\b", "again, re-"),
    (r"\bworked off\b", "consumed, caught up"),
    (r"\blet(s|ting)? (\w+ ){0,3}through\b", "admit"),
    (r"\bwanted back\b", "revoked"),
    (r"\bhand(s|ed|ing)? back\b", "release"),
    (r"\b(left|leave|leaves) alone\b", "blocked, back-off"),
    (r"\b(go(es|ing)?|went|gone) on\b", "continue, resume"),
    (r"\b(is|are|was|were|stays?|goes|been|be) away\b", "unavailable"),
    (r"\bthr(ow|ows|own|ew) away\b", "discard"),
    (r"\b(stands?|stood|standing) still\b|standstill", "stall"),
    (r"\b(stands?|stood) (at|in|on|where|there)\b", "is at, is stored"),
    (r"\b(lies?|lay) (in|at|below|between|beyond|outside|behind|above|further|there)\b", "is"),
    (r"\b(hears?|heard|unheard)\b", "receive, read"),
    (r"\b(teach(es)?|taught|learnt)\b", "learned, observed"),
    (r"\bmend(s|ed|ing)?\b", "fix, repair"),
    (r"\b(dies|died|culprits?)\b", "crash, poison record"),
    (r"\b(giv(e|es|en|ing)|gave) (\w+ )?up\b", "abandon, delete"),
    (r"\b(to|not|cannot) be had\b|\bat hand\b", "unavailable, available"),
    (r"\bin passing\b|\b(lately|once in a while|now and then)\b", "transiently, recently, periodically"),
    (r"\bfor ever\b", "indefinitely"),
    (r"\bwithout a word\b", "silently"),
    (r"\b(likewise|whence|in vain)\b", "also, fruitless"),
    (r"\bsays? (no|yes|so)\b", "rejects, accepts"),
    (r"\bfor people\b|\bthe begin\b", "human-readable, the start"),
    (r"\bfolders?\b", "directory"),
];

/// The banned patterns.
#[derive(Debug)]
pub struct Prose {
    patterns: Vec<(Regex, &'static str)>,
    quoted: Regex,
}

impl Prose {
    /// Compiles the patterns.
    ///
    /// # Panics
    /// Never: the patterns are constants, which the tests compile.
    #[must_use]
    #[allow(clippy::expect_used, reason = "constants that the tests compile")]
    pub fn new() -> Self {
        let compile = |pattern: &str| Regex::new(&format!("(?i){pattern}")).expect("a valid pattern");
        Self {
            patterns: BANNED.iter().map(|(pattern, hint)| (compile(pattern), *hint)).collect(),
            quoted: compile(r#""(?:[^"\\]|\\.)*""#),
        }
    }

    /// Returns the banned words of a file: in comments and strings of Rust code, anywhere in other text.
    #[must_use]
    pub fn banned(&self, path: &Path, text: &str) -> Vec<String> {
        let is_code = path.extension().is_some_and(|extension| extension == "rs");
        let mut found = vec![];
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_start();
            let parts = if is_code { self.prose_of(line) } else { vec![line] };
            for (pattern, hint) in &self.patterns {
                if let Some(word) = parts.iter().find_map(|part| pattern.find(part)) {
                    found.push(format!("{}:{}: `{}`: {hint}", path.display(), number + 1, word.as_str()));
                }
            }
        }
        found
    }

    /// Returns the strings and the comment of a line of code.
    fn prose_of<'a>(&self, line: &'a str) -> Vec<&'a str> {
        if line.starts_with("//") {
            return vec![line];
        }
        let mut parts: Vec<_> = self.quoted.find_iter(line).map(|quoted| quoted.as_str()).collect();
        parts.extend(line.rsplit_once(" // ").map(|(_, comment)| comment));
        parts
    }
}

impl Default for Prose {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banned_words_are_found_in_comments_strings_and_pages_and_not_in_names() {
        let prose = Prose::new();
        let code = concat!("/// Wh", "at it does.\nlet anew = 1; // fine\nfail(\"written an", "ew\");\n");
        let found = prose.banned(Path::new("a.rs"), code);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("a.rs:1: ") && found[1].starts_with("a.rs:3: "), "{found:?}");
        assert_eq!(prose.banned(Path::new("a.md"), concat!("It is written an", "ew.")).len(), 1);
    }
}
