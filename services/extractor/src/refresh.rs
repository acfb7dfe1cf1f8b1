//! `meta http-equiv=refresh`: the declarative refresh steps of WHATWG HTML (4.2.5.3, "shared declarative refresh
//! steps").

/// Returns the URL of a refresh, as written in `content`; `None` if it is malformed or the page only reloads itself.
pub(crate) fn target(content: &str) -> Option<&str> {
    let rest = content.trim_start_matches(white);
    let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    if digits.len() == rest.len() && !rest.starts_with('.') {
        return None;
    }
    let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    if !rest.starts_with(|c| white(c) || matches!(c, ';' | ',')) {
        return None;
    }
    let rest = rest.trim_start_matches(white);
    let rest = rest.strip_prefix([';', ',']).unwrap_or(rest).trim_start_matches(white);
    if rest.is_empty() {
        return None;
    }
    let url = match after_url_word(rest) {
        Some(url) => unquoted(url),
        // Text that begins with `u` but not with `url=` is a URL as a whole, including quotes.
        None if rest.starts_with(['u', 'U']) => rest,
        None => unquoted(rest),
    };
    let url = url.trim_matches(white);
    (!url.is_empty()).then_some(url)
}

/// Returns the text after `url =`, if the text begins with that.
fn after_url_word(text: &str) -> Option<&str> {
    let word = text.get(..3).filter(|word| word.eq_ignore_ascii_case("url"))?;
    let rest = text[word.len()..].trim_start_matches(white);
    Some(rest.strip_prefix('=')?.trim_start_matches(white))
}

/// Returns the text up to the closing quote, if it begins with a quote; else the whole text.
fn unquoted(text: &str) -> &str {
    match text.strip_prefix(['"', '\'']) {
        Some(rest) => rest.split_once(&text[..1]).map_or(rest, |(url, _)| url),
        None => text,
    }
}

fn white(c: char) -> bool {
    c.is_ascii_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_is_that_of_browsers() {
        for (content, url) in [
            ("5;url=x", Some("x")),
            (" 5 ; URL = 'x y' z", Some("x y")),
            ("0 x", Some("x")),
            ("0,\"x", Some("x")),
            (".5; x", Some("x")),
            ("1.2.3;url=x", Some("x")),
            ("5; urlx", Some("urlx")),
            ("5; url'x'", Some("url'x'")),
            ("5; 'x'y", Some("x")),
            ("5", None),
            ("5;", None),
            ("5;url=", None),
            ("5url=x", None),
            ("x;url=y", None),
            ("٥;url=y", None),
            ("-5;url=y", None),
            ("", None),
        ] {
            assert_eq!(target(content), url, "{content:?}");
        }
    }
}
