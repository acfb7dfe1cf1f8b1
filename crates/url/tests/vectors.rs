//! The vectors of others: what every crawler's normaliser agrees on, and the standards' own examples.

#![allow(clippy::expect_used, reason = "a test says what it expects")]

use std::{borrow::Cow, collections::BTreeSet};

use orbweaver_url::{Url, UrlError, canonicalize, parse, resolve, resolve_encoded, site_of};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Vector {
    input: Option<String>,
    base: Option<String>,
    expected: Option<String>,
}

fn vectors(text: &str) -> Vec<Vector> {
    text.lines().map(|line| serde_json::from_str(line).expect("a vector")).collect()
}

fn read(vector: &Vector) -> Result<Url, UrlError> {
    let input = vector.input.as_deref().expect("an input");
    match &vector.base {
        Some(base) => resolve(&parse(base).expect("a base"), input),
        None => parse(input),
    }
}

fn without_fragment(text: &str) -> &str {
    text.split('#').next().unwrap_or(text)
}

#[test]
fn what_all_normalisers_agree_on_is_our_canonical_form() {
    let vectors = vectors(include_str!("vectors/agree_all.jsonl"));
    assert_eq!(vectors.len(), 162);
    for vector in vectors {
        let canonical = read(&vector).ok().map(|url| canonicalize(&url).into_string());
        assert_eq!(canonical.as_deref(), vector.expected.as_deref(), "{vector:?}");
    }
}

/// Known failures. WHATWG has come to take an ASCII host as it is, even with `xn--` labels that are not Punycode; the `url`
/// crate (2.5.8) still refuses them. No registry admits such a name (RFC 5891 section 4), so no page is lost by it.
const NOT_PUNYCODE: [&str; 7] = [
    "http://a.b.c.xn--pokxncvks",
    "http://10.0.0.xn--pokxncvks",
    "http://a.b.c.XN--pokxncvks",
    "http://a.b.c.Xn--pokxncvks",
    "http://10.0.0.XN--pokxncvks",
    "http://10.0.0.xN--pokxncvks",
    "https://xn--/",
];

#[test]
fn what_whatwg_and_crawler_commons_agree_on_is_read_so_and_canonical() {
    let vectors = vectors(include_str!("vectors/wpt_agree.jsonl"));
    assert_eq!(vectors.len(), 235);
    for vector in vectors {
        let expected = vector.expected.as_deref().map(without_fragment);
        let url = read(&vector).ok();
        if NOT_PUNYCODE.contains(&vector.input.as_deref().unwrap_or_default()) {
            // When this fails, the parser has caught up with WHATWG: take the row off the list.
            assert!(matches!(read(&vector), Err(UrlError::Malformed(_))), "{vector:?}");
            continue;
        }
        assert_eq!(url.as_ref().map(Url::as_str), expected, "{vector:?}");
        assert_eq!(url.map(|url| canonicalize(&url).into_string()).as_deref(), expected, "{vector:?}");
    }
}

#[test]
fn references_resolve_as_in_rfc_3986() {
    // WHATWG differs in the last four: an authority gets a path, and `http:g` is a relative reference.
    let differ = BTreeSet::from(["//g", "http:g"]);
    let mut compared = 0;
    for vector in vectors(include_str!("vectors/rfc3986_5_4.jsonl")) {
        let expected = vector.expected.as_deref().unwrap_or_default();
        if !expected.starts_with("http:") || differ.contains(vector.input.as_deref().unwrap_or_default()) {
            continue;
        }
        compared += 1;
        let url = read(&vector).expect("a url");
        assert_eq!(url.as_str(), without_fragment(expected), "{vector:?}");
    }
    assert!(compared >= 35, "{compared}");
}

#[test]
fn a_query_is_sent_in_the_encoding_of_its_page() {
    fn latin1(text: &str) -> Cow<'_, [u8]> {
        text.chars().map(|c| u8::try_from(c).unwrap_or(b'?')).collect()
    }
    let base = parse("http://example.com/dir/page").expect("a url");
    let url = resolve_encoded(&base, "caf\u{e9}?caf\u{e9}", Some(&latin1)).expect("a url");
    assert_eq!(url.as_str(), "http://example.com/dir/caf%C3%A9?caf%E9");
}

#[test]
fn sites_are_what_the_public_suffix_list_says() {
    for vector in vectors(include_str!("vectors/psl.jsonl")) {
        // The list has nothing to say of a host that begins with a dot, which no name does; we put it with its site.
        if vector.input.as_deref().is_some_and(|host| host.starts_with('.')) {
            continue;
        }
        let Some(url) = vector.input.as_deref().and_then(|host| parse(&format!("http://{host}/")).ok()) else {
            continue;
        };
        // Where there is no registrable domain, the host is the site.
        let expected = vector.expected.as_deref().map_or_else(
            || url.host_str().unwrap_or_default().to_owned(),
            |domain| parse(&format!("http://{domain}/")).expect("a domain").host_str().unwrap_or_default().to_owned(),
        );
        assert_eq!(site_of(&url), expected, "{vector:?}");
    }
}
