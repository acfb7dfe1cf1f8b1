//! Removal of parts of a path. Each function returns `None` if there is nothing to remove.

use crate::parameters::{is_random, is_session};

/// Removes slashes that follow a slash.
pub(crate) fn merge_slashes(path: &str) -> Option<String> {
    if !path.contains("//") {
        return None;
    }
    let mut out = String::with_capacity(path.len());
    for character in path.chars() {
        if character != '/' || !out.ends_with('/') {
            out.push(character);
        }
    }
    Some(out)
}

/// Removes session identifiers: path parameters, and whole segments as written by ASP.NET.
pub(crate) fn drop_sessions(path: &str) -> Option<String> {
    if !path.contains([';', '(']) {
        return None;
    }
    let mut out = String::with_capacity(path.len());
    let mut segments = path.split('/').peekable();
    // The part before the first slash is empty.
    segments.next();
    while let Some(segment) = segments.next() {
        let kept = without_session(segment);
        if is_session_segment(&kept) && segments.peek().is_some() {
            continue;
        }
        out.push('/');
        out.push_str(&kept);
    }
    (out != path).then_some(out)
}

/// Returns a segment without those of its parameters (RFC 3986 section 3.3) that are session identifiers. A segment
/// that would become a dot segment is unchanged: it would lead elsewhere.
fn without_session(segment: &str) -> String {
    let mut parts = segment.split(';');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let drop = part.split_once('=').is_some_and(|(name, value)| is_session(name, value));
        if !drop {
            out.push(';');
            out.push_str(part);
        }
    }
    if matches!(out.as_str(), "." | "..") { segment.to_owned() } else { out }
}

/// Returns `true` for `(S(…))`, with any letter and one or more groups, or `(…)` alone: the forms in which ASP.NET
/// writes an identifier of 24 letters and digits (cookieless sessions).
fn is_session_segment(segment: &str) -> bool {
    let Some(inner) = segment.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else { return false };
    if inner.len() == 24 && is_random(inner) {
        return true;
    }
    let mut rest = inner;
    while !rest.is_empty() {
        let mut characters = rest.chars();
        let Some(letter) = characters.next() else { return false };
        let Some((value, after)) = characters.as_str().strip_prefix('(').and_then(|rest| rest.split_once(')')) else {
            return false;
        };
        if !letter.is_ascii_alphabetic() || value.len() < 24 || !value.bytes().all(|byte| byte.is_ascii_alphanumeric())
        {
            return false;
        }
        rest = after;
    }
    !inner.is_empty()
}

/// Removes the file name of a directory index.
pub(crate) fn drop_index(path: &str) -> Option<String> {
    let (directory, name) = path.rsplit_once('/')?;
    let (stem, ending) = name.split_once('.')?;
    let is_stem = ["index", "default"].iter().any(|known| stem.eq_ignore_ascii_case(known));
    let is_ending = ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known));
    (is_stem && is_ending).then(|| format!("{directory}/"))
}

/// File name extensions of an index (Nutch `regex-normalize.xml`).
const ENDINGS: [&str; 21] = [
    "html", "htm", "php", "asp", "aspx", "jsp", "cfm", "cgi", "phtml", "phtm", "shtml", "shtm", "xhtml", "xhtm",
    "php3", "php4", "php5", "php6", "jsf", "jspx", "jspa",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_dropped_and_nothing_that_only_looks_like_one() {
        for (path, expected) in [
            ("/a;jsessionid=1/b", "/a/b"),
            ("/a;v=1;JSESSIONID=1;w=2", "/a;v=1;w=2"),
            ("/;jsessionid=1", "/"),
            ("/(S(4hqa0555fwsecu455xqckv45))/m.aspx", "/m.aspx"),
            ("/(A(4hqa0555fwsecu455xqckv45)F(4hqa0555fwsecu455xqckv45))/m.aspx", "/m.aspx"),
            ("/(4hqa0555fwsecu455xqckv45)/m.aspx", "/m.aspx"),
            ("/(S(4hqa0555fwsecu455xqckv45));jsessionid=1/m.aspx", "/m.aspx"),
        ] {
            assert_eq!(drop_sessions(path).as_deref(), Some(expected), "{path}");
            assert_eq!(drop_sessions(expected), None, "{path}");
        }
        for path in [
            "/..;jsessionid=1/a",
            "/(draft)/a",
            "/(S(x))/a",
            "/()/a",
            "/a;b",
            "/a(1)",
            "/(S(4hqa0555fwsecu455xqckv45))",
        ] {
            assert_eq!(drop_sessions(path), None, "{path}");
        }
    }

    #[test]
    fn an_index_is_dropped_with_any_usual_ending_and_only_at_the_end() {
        assert_eq!(drop_index("/a/Index.HTML").as_deref(), Some("/a/"));
        assert_eq!(drop_index("/default.aspx").as_deref(), Some("/"));
        for path in ["/index", "/index.html/", "/index.jspfx", "/my-index.html", "/index.de.html", "/"] {
            assert_eq!(drop_index(path), None, "{path}");
        }
    }
}
