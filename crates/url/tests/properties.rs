//! What holds for every text.

#![allow(clippy::expect_used, reason = "a test says what it expects")]

use orbweaver_url::{
    Fingerprint, MAX_URL_BYTES, SUFFIX_LIST_VERSION, Url, UrlError, canonicalize, describe, parse, parse_seed, resolve,
    site_of,
};
use proptest::prelude::*;

fn canonical(text: &str) -> String {
    canonicalize(&parse(text).expect(text)).into_string()
}

/// Texts that look like URLs, rich in what is special in one.
fn url_like() -> impl Strategy<Value = String> {
    let host = prop_oneof!["[a-z0-9.%-]{1,12}", "[a-z]{1,3}(\\.[a-z]{1,3}){0,3}\\.{0,3}", ".{1,6}", "[0-9a-fx.]{1,12}"];
    let rest = "([/?#%@:;&=+.|^`{}\\[\\]\\\\ '\"<>]|%[0-9a-fA-F]{2}|%2[eE]|%7[eE]|[a-zA-Z0-9~é\\t]){0,24}";
    ("(http|HTTPS|https|http)", "(://|:/|:///|:)", "([a-z:]{0,3}@)?", host, "(:[0-9]{0,5})?", rest)
        .prop_map(|(scheme, slashes, user, host, port, rest)| format!("{scheme}{slashes}{user}{host}{port}{rest}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_canonical_form_parses_to_itself_and_is_its_own_canonical_form(text in url_like()) {
        if let Ok(url) = parse(&text) {
            let form = canonicalize(&url);
            let again = Url::parse(form.as_str()).expect("a canonical form is a url");
            prop_assert_eq!(again.as_str(), form.as_str());
            prop_assert_eq!(&canonicalize(&again), &form);
            prop_assert_eq!(site_of(&again), site_of(&url), "the site of the canonical form is that of the url");
            prop_assert!(form.as_str().len() <= 3 * url.as_str().len());
        }
    }

    #[test]
    fn a_url_as_found_parses_to_itself(text in url_like()) {
        if let Ok(url) = parse(&text) {
            prop_assert!(!url.as_str().contains('#'));
            prop_assert_eq!(parse(url.as_str()), Ok(url));
        }
    }

    #[test]
    fn no_bytes_make_reading_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let text = String::from_utf8_lossy(&bytes);
        let base = parse("https://example.com/a/b?c").expect("a url");
        for url in [parse(&text), parse_seed(&text), resolve(&base, &text)].into_iter().flatten() {
            prop_assert!(matches!(url.scheme(), "http" | "https"));
            prop_assert!(!site_of(&url).is_empty());
            prop_assert!(canonicalize(&url).as_str().starts_with("http"));
        }
        let description = describe(&text, "default");
        prop_assert!(description.error.is_some() != description.fingerprint.is_some());
    }

    #[test]
    fn an_absolute_link_resolves_to_what_it_parses_to(text in url_like()) {
        let base = parse("ftp://example.com/").expect_err("another scheme");
        prop_assert_eq!(base, UrlError::Scheme("ftp".into()));
        // With a base of the other scheme, an absolute URL is never taken as relative to it.
        let other = if text.to_ascii_lowercase().starts_with("https") { "http://x.test/" } else { "https://x.test/" };
        if let Ok(url) = parse(&text) {
            prop_assert_eq!(resolve(&parse(other).expect("a url"), &text), Ok(url));
        }
    }
}

#[test]
fn each_rule_merges_what_it_says() {
    for (text, expected) in [
        ("http://user:pw@example.com:80/", "http://example.com/"),
        ("http://example.com./a", "http://example.com/a"),
        ("http://example.com.:8080/a", "http://example.com:8080/a"),
        ("http://example.com../a", "http://example.com../a"),
        ("http://example.com/%7euser/%c3%a9?q=%c3%a9%7e", "http://example.com/~user/%C3%A9?q=%C3%A9%7E"),
        ("http://example.com/100%/%%37E", "http://example.com/100%25/%257E"),
        ("http://example.com/?a=100%&b=%u20ac", "http://example.com/?a=100%&b=%u20ac"),
        ("http://example.com/a|[b]^`?{c}|[d]^`\\", "http://example.com/a%7C%5Bb%5D%5E%60?%7Bc%7D%7C%5Bd%5D%5E%60%5C"),
        ("http://example.com/a?", "http://example.com/a"),
        ("http://example.com/a?#b", "http://example.com/a"),
        ("http://example.com/a??", "http://example.com/a??"),
        ("http://example.com//a//b/", "http://example.com//a//b/"),
        ("http://example.com/a?b=2&a=1&&c", "http://example.com/a?b=2&a=1&&c"),
        ("http://example.com/a%2Fb?x=a%26b+c", "http://example.com/a%2Fb?x=a%26b+c"),
    ] {
        assert_eq!(canonical(text), expected, "{text}");
    }
}

#[test]
fn a_bare_host_means_https_and_another_scheme_is_refused() {
    for (text, expected) in [
        ("example.com/x", "https://example.com/x"),
        ("localhost:8080", "https://localhost:8080/"),
        (" example.com:81/a?b#c\n", "https://example.com:81/a?b"),
        ("//example.com", "https://example.com/"),
        ("[::1]:8080/a", "https://[::1]:8080/a"),
        ("127.0.0.1", "https://127.0.0.1/"),
        ("example.com/?u=http://other.test/", "https://example.com/?u=http://other.test/"),
        ("HTTP://Example.com", "http://example.com/"),
        ("bücher.de", "https://xn--bcher-kva.de/"),
    ] {
        assert_eq!(parse_seed(text).as_ref().map(Url::as_str), Ok(expected), "{text}");
    }
    for (text, scheme) in [("mailto:a@b.c", "mailto"), ("ftp://a/b", "ftp"), ("javascript:void(0)", "javascript")] {
        assert_eq!(parse_seed(text), Err(UrlError::Scheme(scheme.into())), "{text}");
    }
    for text in ["", "  ", "/a/b", "#a", "joe@example.com", "http://", "not a url", "https://exa mple.com/"] {
        assert!(matches!(parse_seed(text), Err(UrlError::Malformed(_))), "{text}");
    }
}

#[test]
fn links_resolve_as_in_a_browser() {
    let base = parse("https://example.com/dir/page?q#f").expect("a url");
    for (link, expected) in [
        ("a", "https://example.com/dir/a"),
        ("#top", "https://example.com/dir/page?q"),
        ("", "https://example.com/dir/page?q"),
        ("?x", "https://example.com/dir/page?x"),
        ("//other.test/y", "https://other.test/y"),
        ("///other.test/y", "https://other.test/y"),
        ("\\\\other.test\\y", "https://other.test/y"),
        ("  ../b \n", "https://example.com/b"),
        ("a:b", "a"),
    ] {
        let resolved = resolve(&base, link);
        match resolved {
            Ok(url) => assert_eq!(url.as_str(), expected, "{link}"),
            Err(error) => assert_eq!(error, UrlError::Scheme(expected.into()), "{link}"),
        }
    }
}

#[test]
fn what_is_too_long_is_refused_before_it_is_parsed_and_after() {
    let fits = format!("http://a/{}", "x".repeat(MAX_URL_BYTES - 9));
    assert_eq!(parse(&fits).map(|url| url.as_str().len()), Ok(MAX_URL_BYTES));
    assert_eq!(parse(&format!("{fits}x")), Err(UrlError::TooLong(MAX_URL_BYTES + 1)));
    let grows = format!("http://a/{}", "é".repeat(2000));
    assert!(matches!(parse(&grows), Err(UrlError::TooLong(12_009))));
}

#[test]
fn a_site_is_a_domain_an_address_or_a_host() {
    for (text, site) in [
        ("http://www.example.co.uk/", "example.co.uk"),
        ("http://a.b.github.io/", "b.github.io"),
        ("http://github.io/", "github.io"),
        ("http://www.example.com./", "example.com"),
        ("http://localhost:8080/", "localhost"),
        ("http://a.b.localhost/", "b.localhost"),
        ("http://127.1/", "127.0.0.1"),
        ("http://[0:0::1]:80/", "[::1]"),
        ("http://www.bücher.de/", "xn--bcher-kva.de"),
    ] {
        assert_eq!(site_of(&parse(text).expect("a url")), site, "{text}");
    }
}

#[test]
fn the_suffix_list_version_is_the_one_that_is_locked() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock");
    let lock = std::fs::read_to_string(path).expect("Cargo.lock");
    let version = lock
        .split("[[package]]")
        .find(|package| package.contains("name = \"psl\"\n"))
        .and_then(|package| package.split("version = \"").nth(1)?.split('"').next())
        .expect("psl is locked");
    assert_eq!(SUFFIX_LIST_VERSION, format!("psl-{version}"));
}

#[test]
fn a_description_is_one_json_object() {
    let json = serde_json::to_value(describe("Example.com/%7ea#b", "default")).expect("json");
    assert_eq!(json["input"], "Example.com/%7ea#b");
    assert_eq!(json["url"], "https://example.com/%7ea");
    assert_eq!(json["canonical"], "https://example.com/~a");
    assert_eq!(json["site"], "example.com");
    assert_eq!(json["fingerprint"], Fingerprint::of("default", "https://example.com/~a").to_string());
    assert!(json["slot"].is_u64() && json.get("error").is_none());
    let json = serde_json::to_value(describe("mailto:a@b.c", "default")).expect("json");
    assert_eq!(json["error"], "scheme `mailto` is not crawled; allowed are http and https");
    assert!(json.get("url").is_none());
}
