//! URLs in a style sheet: those of `url()`, of `@import` and of `image-set()`.
//!
//! Only tokens of CSS Syntax (level 3, section 4) are read, so that nesting costs nothing. A parser of the whole grammar
//! would find the same URLs.

use std::borrow::Cow;

/// At-rules whose URLs are names.
const NAMING: [&str; 3] = ["namespace", "document", "-moz-document"];
/// Functions whose strings are URLs.
const IMAGE_SETS: [&str; 2] = ["image-set", "-webkit-image-set"];

/// Passes each URL of a style sheet, or of an attribute `style`, to `each`: in order, as written, with resolved escapes.
pub(crate) fn urls(css: &str, mut each: impl FnMut(&str)) {
    let mut scanner = Scanner { css, at: 0 };
    // The next token is the target of an `@import`.
    let mut is_import = false;
    let mut is_naming = false;
    let mut depth = 0_usize;
    let mut image_set = None;
    while let Some(byte) = scanner.peek() {
        match byte {
            b'/' if scanner.rest().starts_with("/*") => scanner.skip_past("*/"),
            b'"' | b'\'' => {
                let text = scanner.string(byte);
                if !is_naming && (is_import || image_set == Some(depth)) {
                    each(&unescaped(text));
                }
                is_import = false;
            }
            b'@' => {
                scanner.at += 1;
                let name = scanner.identifier();
                is_import = name.eq_ignore_ascii_case("import");
                is_naming = is_one_of(name, &NAMING);
            }
            b';' | b'{' | b'}' => {
                scanner.at += 1;
                (is_import, is_naming, depth, image_set) = (false, false, 0, None);
            }
            b'(' => {
                scanner.at += 1;
                depth += 1;
            }
            b')' => {
                scanner.at += 1;
                image_set = image_set.filter(|within| *within != depth);
                depth = depth.saturating_sub(1);
            }
            _ if is_of_name(byte) => {
                let name = scanner.identifier();
                is_import &= name.eq_ignore_ascii_case("url");
                if scanner.peek() != Some(b'(') {
                    continue;
                }
                if name.eq_ignore_ascii_case("url") {
                    if let Some(text) = scanner.url().filter(|_| !is_naming) {
                        each(&unescaped(text));
                    }
                    is_import = false;
                } else if is_one_of(name, &IMAGE_SETS) {
                    image_set = Some(depth + 1);
                }
            }
            _ if byte.is_ascii_whitespace() => scanner.at += 1,
            _ => {
                scanner.at += 1;
                is_import = false;
            }
        }
    }
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'\\') || !byte.is_ascii()
}

/// Reader of tokens. `at` is at the start of a character.
struct Scanner<'a> {
    css: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        &self.css[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.css.as_bytes().get(self.at).copied()
    }

    /// Moves on by `bytes`, and on to the next character, but not past the end.
    fn skip(&mut self, bytes: usize) {
        self.at = self.css.ceil_char_boundary((self.at + bytes).min(self.css.len()));
    }

    fn skip_past(&mut self, end: &str) {
        self.at = self.rest().find(end).map_or(self.css.len(), |found| self.at + found + end.len());
    }

    /// Skips bytes while `is_within`, and escaped characters. Returns the skipped text.
    fn skip_while(&mut self, is_within: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        while let Some(byte) = self.peek().filter(|byte| is_within(*byte)) {
            self.skip(if byte == b'\\' { 2 } else { 1 });
        }
        &self.css[start..self.at]
    }

    fn identifier(&mut self) -> &'a str {
        self.skip_while(is_of_name)
    }

    /// Reads a string from its quote on. It ends at the end of its line, or of the style sheet, if it is not closed.
    fn string(&mut self, quote: u8) -> &'a str {
        self.at += 1;
        let text = self.skip_while(|byte| byte != quote && byte != b'\n');
        self.skip(usize::from(self.peek() == Some(quote)));
        text
    }

    /// Reads the URL of a `url()` from its parenthesis on; `None` if it is malformed. Tokens after a quoted URL are left.
    fn url(&mut self) -> Option<&'a str> {
        self.at += 1;
        self.skip_while(|byte| byte.is_ascii_whitespace());
        if let Some(quote @ (b'"' | b'\'')) = self.peek() {
            return Some(self.string(quote));
        }
        let text = self.skip_while(|byte| byte != b')');
        self.skip(1);
        let text = text.trim_ascii_end();
        let is_wrong = |byte: &u8| matches!(byte, b'"' | b'\'' | b'(') || byte.is_ascii_whitespace();
        let is_escaped = text.contains('\\');
        (is_escaped || !text.as_bytes().iter().any(is_wrong)).then_some(text)
    }
}

/// Resolves the escapes of a string or URL (CSS Syntax 4.3.7).
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut result = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(character) = chars.next() {
        if character != '\\' {
            result.push(character);
            continue;
        }
        let mut code = None;
        for _ in 0..6 {
            let Some(digit) = chars.peek().and_then(|next| next.to_digit(16)) else { break };
            code = Some(code.unwrap_or(0) * 16 + digit);
            chars.next();
        }
        match code {
            Some(code) => {
                chars.next_if(char::is_ascii_whitespace);
                result.push(char::from_u32(code).filter(|known| *known != '\0').unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            // An escaped end of a line is nothing.
            None => result.extend(chars.next().filter(|next| *next != '\n')),
        }
    }
    Cow::Owned(result)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(css: &str) -> Vec<String> {
        let mut found = vec![];
        urls(css, |url| found.push(url.to_owned()));
        found
    }

    #[test]
    fn urls_and_imports_are_found_wherever_they_are() {
        for (css, expected) in [
            ("a { background: url(a.png) }", &["a.png"][..]),
            ("a{background:URL( 'a.png' ) no-repeat,url(\"b.png\")}", &["a.png", "b.png"]),
            ("@font-face{src:url(f.woff2)format('woff2'),url( f.woff ) format(\"woff\")}", &["f.woff2", "f.woff"]),
            (
                "@import 'a.css'; @IMPORT url(b.css) screen; @import/**/\"c.css\" layer(x);",
                &["a.css", "b.css", "c.css"],
            ),
            ("@import url('a.css') supports(display: grid); a{color:red}", &["a.css"]),
            ("@media print { a { background: url(a.png) } }", &["a.png"]),
            ("a{--x:url(a.png)}b{cursor:url(c.cur) 2 2,auto}", &["a.png", "c.cur"]),
            (
                "a{background:image-set('a.png' 1x, url(b.png) 2x, 'c.avif' type('image/avif'))}",
                &["a.png", "b.png", "c.avif"],
            ),
            ("a{b:-webkit-image-set('a.png' 1x)}b{content:'no.png'}", &["a.png"]),
            ("background: url(a,b.png?x=1;y=2)", &["a,b.png?x=1;y=2"]),
            ("a{background:url(a.png", &["a.png"]),
            ("a{background:url('a.png", &["a.png"]),
        ] {
            assert_eq!(found(css), expected, "{css}");
        }
    }

    #[test]
    fn comments_strings_names_and_malformed_urls_have_no_url() {
        for css in [
            "/* url(a.png) @import 'x.css' */",
            "a{content:'url(a.png)'}",
            "a{content:\"@import 'a.css'\"}",
            "@namespace svg url(http://www.w3.org/2000/svg); @namespace 'x';",
            "@-moz-document url(http://a.test/) { a { color: red } }",
            "a{b:myurl(a.png)}",
            "a{b:url (a.png)}",
            "a{b:url(a b.png)}",
            "a{b:url(a'b.png)}",
            "@charset 'utf-8'; @layer import; @imported 'a.css';",
            "/* url(a.png)",
            "",
        ] {
            assert_eq!(found(css), [""; 0], "{css}");
        }
        assert_eq!(found("@namespace url(x);a{b:url(a.png)}"), ["a.png"], "the next rule");
        assert_eq!(found("a{b:url(a b);c:url(c.png)}"), ["c.png"], "after a malformed one");
    }

    #[test]
    fn escapes_are_resolved() {
        for (css, expected) in [
            (r"url(a\)b.png)", "a)b.png"),
            (r"url(a\20 b.png)", "a b.png"),
            (r"url('a\27 b.png')", "a'b.png"),
            (r"url('\000061\62')", "ab"),
            ("url('a\\\nb.png')", "ab.png"),
            (r"url('\0')", "\u{fffd}"),
            (r"url('\ffffff')", "\u{fffd}"),
            (r"url(ä\é.png)", "äé.png"),
        ] {
            assert_eq!(found(css), [expected], "{css}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_style_sheet(css in "([a-z\\\\(){};@'\"/* é\n]|url\\(|@import |image-set\\(){0,60}") {
            let length: usize = found(&css).iter().map(String::len).sum();
            // U+FFFD takes three bytes for an escape of two.
            prop_assert!(length <= 2 * css.len());
        }
    }
}
