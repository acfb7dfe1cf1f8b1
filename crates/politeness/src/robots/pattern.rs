//! Path of a rule, and matching.

use memchr::memmem;

use super::escape::push_comparable;

/// Normalized path pattern: `*` matches any octets, a `$` at the end matches the end of the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    /// Octets without the `$` at the end; every `*` is a wildcard.
    octets: Box<[u8]>,
    /// Length of the part before the first wildcard.
    literal: usize,
    anchored: bool,
}

impl Pattern {
    pub(super) fn new(raw: &[u8]) -> Self {
        let (body, anchored) = raw.strip_suffix(b"$").map_or((raw, false), |body| (body, true));
        let mut octets = Vec::with_capacity(body.len());
        for (number, part) in body.split(|&byte| byte == b'*').enumerate() {
            if number > 0 {
                octets.push(b'*');
            }
            push_comparable(part, &mut octets);
        }
        let literal = memchr::memchr(b'*', &octets).unwrap_or(octets.len());
        Self { octets: octets.into(), literal, anchored }
    }

    /// Returns the specificity of the pattern: its number of octets (RFC 9309 section 2.2.2).
    pub(super) fn specificity(&self) -> usize {
        self.octets.len() + usize::from(self.anchored)
    }

    /// Returns `true` if the pattern matches a normalized path.
    pub(super) fn matches(&self, path: &[u8]) -> bool {
        self.run(path).0
    }

    /// Returns the result, and the number of octets of path and pattern that were passed. Each part between wildcards
    /// is searched once, at its leftmost position after the previous part, which never rules out a match; there is no
    /// backtracking. The number is therefore at most the sum of both lengths (the search itself, `memmem`, is linear
    /// too).
    fn run(&self, path: &[u8]) -> (bool, usize) {
        let (first, rest) = self.octets.split_at(self.literal);
        if !path.starts_with(first) {
            return (false, first.len());
        }
        let (mut at, mut passed) = (first.len(), first.len());
        let Some(rest) = rest.strip_prefix(b"*") else {
            return (!self.anchored || at == path.len(), passed);
        };
        let mut parts = rest.split(|&byte| byte == b'*').peekable();
        while let Some(part) = parts.next() {
            let rest = &path[at..];
            if self.anchored && parts.peek().is_none() {
                return (rest.ends_with(part), passed + part.len());
            }
            let Some(found) = memmem::find(rest, part) else {
                return (false, passed + rest.len() + part.len());
            };
            at += found + part.len();
            passed += found + part.len() + 1;
        }
        (true, passed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Applies the definition literally: exponential, for short inputs only.
    fn matches_by_definition(pattern: &[u8], path: &[u8], anchored: bool) -> bool {
        match pattern {
            [] => !anchored || path.is_empty(),
            [b'*', rest @ ..] => (0..=path.len()).any(|skip| matches_by_definition(rest, &path[skip..], anchored)),
            [octet, rest @ ..] => path.first() == Some(octet) && matches_by_definition(rest, &path[1..], anchored),
        }
    }

    #[test]
    fn a_dollar_sign_means_the_end_only_at_the_end() {
        assert!(Pattern::new(b"/a$").matches(b"/a"));
        assert!(!Pattern::new(b"/a$").matches(b"/ab"));
        assert!(Pattern::new(b"/a$b").matches(b"/a%24b"));
        assert!(!Pattern::new(b"/a$b").matches(b"/a"));
        assert!(Pattern::new(b"/*.gif$").matches(b"/x.gif.gif"));
        assert!(!Pattern::new(b"/ab*ab$").matches(b"/ab"));
    }

    proptest! {
        #[test]
        fn matching_agrees_with_the_definition(raw in "/[ab*]{0,10}[$]?", path in "/[ab]{0,12}") {
            let (body, anchored) = raw.strip_suffix('$').map_or((raw.as_str(), false), |body| (body, true));
            let expected = matches_by_definition(body.as_bytes(), path.as_bytes(), anchored);
            prop_assert_eq!(Pattern::new(raw.as_bytes()).matches(path.as_bytes()), expected);
        }

        #[test]
        fn matching_passes_each_octet_once(raw in "[/ab*]{0,300}[$]?", path in "/[ab]{0,600}") {
            let pattern = Pattern::new(raw.as_bytes());
            let (_, passed) = pattern.run(path.as_bytes());
            prop_assert!(passed <= path.len() + pattern.octets.len() + 1, "{passed} octets for {raw} on {path}");
        }
    }

    #[test]
    fn many_wildcards_on_a_long_path_pass_each_octet_once() {
        let pattern = Pattern::new(&b"*a".repeat(2000));
        let path = [b"/".as_slice(), &b"a".repeat(1999), &b"b".repeat(6000)].concat();
        let (matches, passed) = pattern.run(&path);
        assert!(!matches);
        assert!(passed <= path.len() + 4001, "{passed}");
    }
}
