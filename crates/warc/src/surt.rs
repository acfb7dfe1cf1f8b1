//! Keys of URLs in indexes (SURT): hosts in reverse order, and without differences that archives ignore, such as case,
//! `www.`, the order of a query and session ids. Pure.
//!
//! Replay software looks a URL up by the key that the package `surt` (Internet Archive, for Python) computes, so the rules
//! are those of its default canonicalizer. Left out are rules for hosts that have no address, or that the URL Standard does
//! not serialize: those beyond ASCII, of dots alone, and other notations of IPv4 addresses.

use std::sync::LazyLock;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode, percent_encode};
use regex::Regex;

/// Characters that a key has in percent-encoding, as well as those outside ASCII.
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'#').add(b'%');

/// Session ids of ASP.NET in a path, between the parts that remain.
static PATH_SESSIONS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    patterns(&[r"^(.*/)\((?:[a-z]\([0-9a-z]{24}\))+\)/([^?]+\.aspx.*)$", r"^(.*/)\([0-9a-z]{24}\)/([^?]+\.aspx.*)$"])
});

/// Session ids in a query, between the parts that remain.
static QUERY_SESSIONS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    patterns(&[
        r"(?i)^(.*)jsessionid=[0-9a-z]{32}(?:&(.*))?$",
        r"(?i)^(.*)phpsessid=[0-9a-z]{32}(?:&(.*))?$",
        r"(?i)^(.*)sid=[0-9a-z]{32}(?:&(.*))?$",
        r"(?i)^(.*)aspsessionid[a-z]{8}=[a-z]{24}(?:&(.*))?$",
        r"(?i)^(.*)cfid=[^&]+&cftoken=[^&]+(?:&(.*))?$",
    ])
});

fn patterns(patterns: &[&str]) -> Vec<Regex> {
    // All of them are valid: a test counts them.
    patterns.iter().filter_map(|pattern| Regex::new(pattern).ok()).collect()
}

/// Returns the key of a URL that is serialized by the URL Standard, with the scheme http or https. Any other text has a
/// key too; without a port from 0 to 65535 it is the text itself, as indexers have it.
#[must_use]
pub fn surt(url: &str) -> String {
    let (mut scheme, mut rest) = url.split_once("://").unwrap_or(("http", url));
    while let Some((repeated, after)) = rest.split_once("://").filter(|(name, _)| ["http", "https"].contains(name)) {
        (scheme, rest) = (repeated, after);
    }
    let rest = rest.split('#').next().unwrap_or_default();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let Some((host, port)) = host_and_port(authority) else { return url.to_owned() };
    let default = if scheme == "https" { 443 } else { 80 };
    let mut key = host_key(host);
    if ![0, default].contains(&port) {
        key.push(':');
        key.push_str(&port.to_string());
    }
    key.push(')');
    key.push_str(&path_key(path));
    let query = query_key(query);
    if !query.is_empty() {
        key.push('?');
        key.push_str(&query);
    }
    key
}

/// Returns the host, without the brackets of IPv6, and the port; 0 without one.
fn host_and_port(authority: &str) -> Option<(&str, u16)> {
    let authority = authority.trim_end_matches(':');
    let host_and_port = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = match host_and_port.split_once('[') {
        Some((_, bracketed)) => {
            let (host, after) = bracketed.split_once(']').unwrap_or((bracketed, ""));
            (host, after.split_once(':').map_or("", |(_, port)| port))
        }
        None => host_and_port.split_once(':').unwrap_or((host_and_port, "")),
    };
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    let port = if port.is_empty() { Some(0) } else { port.parse().ok() };
    Some((host, port.filter(|_| is_number)?))
}

fn host_key(host: &str) -> String {
    let host = escaped(&unescaped(host)).replace("..", ".");
    let host = host.trim_matches('.').to_ascii_lowercase();
    let after_digits = host.strip_prefix("www").map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    let host = after_digits.and_then(|rest| rest.strip_prefix('.')).unwrap_or(&host);
    host.split('.').rev().collect::<Vec<_>>().join(",")
}

fn path_key(path: &str) -> String {
    let mut path = escaped(&normalized(&unescaped(path))).to_ascii_lowercase();
    for pattern in &*PATH_SESSIONS {
        path = without_session(pattern, path);
    }
    if path.len() > 1 && path.ends_with('/') {
        path.pop();
    }
    path
}

/// Resolves `.` and `..`, also those that were encoded, and removes empty segments. A `..` at the root remains, unless
/// another one follows.
fn normalized(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = vec![];
    for segment in path.split(|byte| *byte == b'/').skip(1) {
        match segment {
            b"." => {}
            b".." if !kept.is_empty() => drop(kept.pop()),
            _ => kept.push(segment),
        }
    }
    // An empty one at the end is a slash there.
    let last = kept.pop().unwrap_or_default();
    kept.retain(|segment| !segment.is_empty());
    kept.push(last);
    [b"/", &*kept.join(&b'/')].concat()
}

fn query_key(query: &str) -> String {
    let mut query = escaped(&unescaped(query));
    for pattern in &*QUERY_SESSIONS {
        query = without_session(pattern, query);
    }
    query.make_ascii_lowercase();
    let mut arguments: Vec<_> = query.split('&').collect();
    // One without a value precedes those of its name that have one.
    arguments.sort_by_key(|argument| match argument.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (*argument, None),
    });
    arguments.join("&")
}

/// Returns a text without a session id: the two groups of the pattern, if it matches.
fn without_session(pattern: &Regex, text: String) -> String {
    let Some(found) = pattern.captures(&text) else { return text };
    [1, 2].iter().filter_map(|group| Some(found.get(*group)?.as_str())).collect()
}

/// Decodes until nothing is encoded any more.
fn unescaped(text: &str) -> Vec<u8> {
    let mut text = text.as_bytes().to_vec();
    loop {
        let decoded: Vec<u8> = percent_decode(&text).collect();
        if decoded.len() == text.len() {
            return text;
        }
        text = decoded;
    }
}

fn escaped(bytes: &[u8]) -> String {
    percent_encode(bytes, ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// URLs with their keys by surt 0.3.1: `surt.surt(url)`, or the URL if that raises an error, as cdxj-indexer has it.
    const KEYS: &[(&str, &str)] = &[
        ("http://example.com/", "com,example)/"),
        ("https://www.Example.com/A/B.html", "com,example)/a/b.html"),
        ("http://www2.example.co.uk:80/a/", "uk,co,example)/a"),
        ("https://example.com:443", "com,example)/"),
        ("https://example.com:80/", "com,example:80)/"),
        ("http://example.com:8080/a//b///c/", "com,example:8080)/a/b/c"),
        ("http://wwwa.example.com/", "com,example,wwwa)/"),
        ("http://www.www.example.com/", "com,example,www)/"),
        ("http://user:pass@www.example.com/x", "com,example)/x"),
        ("http://127.0.0.1:9001/a", "1,0,0,127:9001)/a"),
        ("http://[2001:db8::1]:8080/a", "2001:db8::1:8080)/a"),
        ("https://[::ffff:102:304]/", "::ffff:102:304)/"),
        ("http://xn--bcher-kva.example/B%C3%BCcher/%e2%82%ac", "example,xn--bcher-kva)/b%c3%bccher/%e2%82%ac"),
        ("http://a..b.example./x", "example,b,a)/x"),
        ("http://a.example/?", "example,a)/"),
        ("http://a.example/?b=2&a=1&A=0&a&a=&&c", "example,a)/?&a&a=&a=0&a=1&b=2&c"),
        ("http://a.example/?a-b=1&a=2&a", "example,a)/?a&a=2&a-b=1"),
        ("http://a.example/?B=%41%26c=1&d=%2525", "example,a)/?b=a&c=1&d=%25"),
        ("http://a.example/%2525%41%2e%2e/x", "example,a)/%25a../x"),
        ("http://a.example/a/./b/../c/%2E%2E/d/.", "example,a)/a/d"),
        ("http://a.example/../../x/..", "example,a)/"),
        ("http://a.example/a%2Fb%20c%23d%3Fe%zz%7F", "example,a)/a/b%20c%23d?e%25zz%7f"),
        (r"http://a.example/~a!$&'()*+,;=:@[]^_`{}|\\", r"example,a)/~a!$&'()*+,;=:@[]^_`{}|\\"),
        ("http://a.example/a#fragment", "example,a)/a"),
        ("http://a.example/x/(S(4hqa0555fwsecu455xqckv45))/Page.aspx?a=1", "example,a)/x/page.aspx?a=1"),
        ("http://a.example/x/(4HQA0555FWSECU455XQCKV45)/page.aspx/b", "example,a)/x/page.aspx/b"),
        ("http://a.example/(F(4hqa0555fwsecu455xqckv45)S(4hqa0555fwsecu455xqckv45))/a/p.aspx", "example,a)/a/p.aspx"),
        ("http://a.example/(4hqa0555fwsecu455xqckv45)/page.html", "example,a)/(4hqa0555fwsecu455xqckv45)/page.html"),
        ("http://a.example/?jsessionid=0123456789abcdefghijklemopqrstuv", "example,a)/"),
        ("http://a.example/?a=1&JSessionID=0123456789abcdefghijklemopqrstuv&b=2", "example,a)/?a=1&b=2"),
        ("http://a.example/?PHPSESSID=9682993c8daa2c5497996114facdc805&x", "example,a)/?x"),
        ("http://a.example/?x=y&sid=9682993c8daa2c5497996114facdc805", "example,a)/?&x=y"),
        ("http://a.example/?ASPSESSIONIDAQBSDSRT=EOHBLBDDPFCLHKPGGKLILNAM&x", "example,a)/?x"),
        ("http://a.example/?CFID=1169580&CFTOKEN=48630702&x=%3Cb%3E", "example,a)/?x=<b>"),
        ("http://http://a.example/x", "example,a)/x"),
        ("http://a.example:0/x", "example,a)/x"),
        ("http://a.example:99999/x", "http://a.example:99999/x"),
        ("http://a.example:x/", "http://a.example:x/"),
    ];

    #[test]
    fn keys_are_those_of_the_package_for_python() {
        for (url, key) in KEYS {
            assert_eq!(surt(url), *key, "{url}");
        }
        assert_eq!(PATH_SESSIONS.len() + QUERY_SESSIONS.len(), 7);
    }

    fn url() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            4 => "[a-zA-Z0-9._~&=;-]{1,6}",
            2 => "[ -~]{1,3}",
            1 => any::<String>(),
            2 => "%(25){0,3}[0-9a-fA-F]{1,2}",
            1 => Just("/..".to_owned()),
            1 => Just("sid=9682993c8daa2c5497996114facdc805".to_owned()),
        ];
        let parts = proptest::collection::vec(part, 0..8).prop_map(|parts| parts.concat());
        let port = prop_oneof![Just(""), Just(":80"), Just(":8080")];
        let host = "[a-zA-Z0-9-]{1,4}\\.[a-z]{2,4}";
        ("https?", host, port, parts).prop_map(|(scheme, host, port, rest)| format!("{scheme}://{host}{port}/{rest}"))
    }

    proptest! {
        #[test]
        fn any_text_has_a_key_and_that_of_a_url_is_one_word_in_lower_case(text in any::<String>(), url in url()) {
            prop_assert!(!surt(&text).is_empty());
            let key = surt(&url);
            prop_assert!(key.bytes().all(|byte| byte.is_ascii_graphic() && !byte.is_ascii_uppercase()), "{key}");
            prop_assert!(!key.contains('#') && key.contains(")/"), "{key}");
        }

        #[test]
        fn case_fragment_user_and_www_have_no_effect(url in url(), fragment in "[ -~]{0,5}") {
            let key = surt(&url);
            let url = url.split('#').next().unwrap();
            prop_assert_eq!(&surt(&format!("{url}#{fragment}")), &key);
            prop_assert_eq!(&surt(&url.replacen("://", "://user:pass@", 1)), &key);
            prop_assert_eq!(&surt(&url.replacen("://", "://www.", 1)), &key);
            if !url.contains('%') && url.is_ascii() {
                prop_assert_eq!(&surt(&url.to_ascii_uppercase().replacen("HTTP", "http", 1).replacen("httpS:", "https:", 1)), &key);
            }
        }
    }
}
