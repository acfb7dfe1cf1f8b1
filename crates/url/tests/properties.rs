//! Properties of URLs, canonical forms and sites.

#![allow(clippy::expect_used, reason = "a test says what it expects")]

use orbweaver_url::{
    CrawlName, Fingerprint, Keying, MAX_URL_BYTES, Policy, Rule, SUFFIX_LIST_VERSION, Url, UrlError, WideDomains,
    canonical_text, describe, parse, parse_seed, resolve, site_of,
};
use proptest::prelude::*;

fn canonical(text: &str) -> String {
    canonical_text(&parse(text).expect(text)).into_owned()
}

fn under(policy: &str, text: &str) -> String {
    let policy: Policy = policy.parse().expect(policy);
    policy.canonical_text(&parse(text).expect(text)).into_owned()
}

/// Generates presets and arbitrary sets of rules.
fn policies() -> impl Strategy<Value = Policy> {
    let any = proptest::collection::vec(any::<bool>(), Rule::all().count()).prop_map(|rules| {
        Rule::all().zip(rules).fold(Policy::RAW, |policy, (rule, applies)| policy.with(rule, applies))
    });
    prop_oneof![proptest::sample::select(&Policy::PRESETS), any]
}

fn wide() -> WideDomains {
    WideDomains::new(["a.b", "www.a", "b.co.uk", "c"]).expect("domains")
}

/// Generates texts that look like URLs, with many special characters.
fn url_like() -> impl Strategy<Value = String> {
    let host = prop_oneof![
        "[a-z0-9.%-]{1,12}",
        "[a-z]{1,3}(\\.[a-z]{1,3}){0,3}\\.{0,3}",
        ".{1,6}",
        "[0-9a-fx.]{1,12}",
        "([a-z]{1,2}\\.)?[xX][a-nN]--[a-z0-9]{0,4}(\\.[a-zß]{1,2}){0,2}",
    ];
    let rest = "([/?#%@:;&=+.|^`{}\\[\\]\\\\ '\"<>]|%[0-9a-fA-F]{2}|%2[eE]|%7[eE]|[a-zA-Z0-9~é\\t]){0,24}";
    ("(http|HTTPS|https|http)", "(://|:/|:///|:)", "([a-z:]{0,3}@)?", host, "(:[0-9]{0,5})?", rest)
        .prop_map(|(scheme, slashes, user, host, port, rest)| format!("{scheme}{slashes}{user}{host}{port}{rest}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_canonical_form_parses_to_itself_and_is_its_own_canonical_form(text in url_like(), policy in policies()) {
        if let Ok(url) = parse(&text) {
            let form = policy.canonical_text(&url);
            let again = parse(&form).expect("a canonical form is a url");
            if !policy.has(Rule::WritePorts) {
                prop_assert_eq!(again.as_str(), &form);
            }
            prop_assert_eq!(&policy.canonical_text(&again), &form, "{} of {}", policy, url);
            prop_assert!(form.len() <= 3 * url.as_str().len() + ":443".len());
        }
    }

    #[test]
    fn url_and_canonical_form_have_the_same_site(text in url_like(), policy in policies()) {
        if let Ok(url) = parse(&text) {
            let again = parse(&policy.canonical_text(&url)).expect("a canonical form is a url");
            prop_assert_eq!(site_of(&again), site_of(&url));
            prop_assert_eq!(wide().site_of(&again), wide().site_of(&url), "{} of {}", policy, url);
        }
    }

    #[test]
    fn a_url_lies_at_its_site_or_below_and_its_site_is_its_own(text in url_like()) {
        if let Ok(url) = parse(&text) {
            for site in [site_of(&url), wide().site_of(&url)] {
                let host = url.host_str().unwrap_or_default();
                let rest = host.strip_suffix(&*site).or_else(|| host.strip_suffix('.')?.strip_suffix(&*site));
                prop_assert!(rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.')), "{} of {}", site, url);
            }
        }
    }

    #[test]
    fn aggressive_merges_what_standard_does_and_standard_what_raw_does(a in url_like(), b in url_like()) {
        if let (Ok(a), Ok(b)) = (parse(&a), parse(&b)) {
            let same = |policy: Policy| policy.canonical_text(&a) == policy.canonical_text(&b);
            prop_assert!(!same(Policy::RAW) || same(Policy::STANDARD));
            prop_assert!(!same(Policy::STANDARD) || same(Policy::AGGRESSIVE));
            // Merged URLs have one key under each stricter policy, too.
            let form = Policy::STANDARD.canonical_text(&a);
            let again = parse(&form).expect("a canonical form is a url");
            prop_assert_eq!(Policy::AGGRESSIVE.canonical_text(&again), Policy::AGGRESSIVE.canonical_text(&a));
        }
    }

    #[test]
    fn a_url_as_found_parses_to_itself(text in url_like()) {
        if let Ok(url) = parse(&text) {
            prop_assert!(url.fragment().is_none_or(|fragment| fragment.len() > 1 && fragment.starts_with('!')));
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
            for policy in Policy::PRESETS {
                prop_assert!(policy.canonical_text(&url).starts_with("http"));
            }
        }
        let _ = describe(&text, &Keying::default());
    }

    #[test]
    fn an_absolute_link_resolves_to_what_it_parses_to(text in url_like()) {
        let base = parse("ftp://example.com/").expect_err("another scheme");
        prop_assert_eq!(base, UrlError::Scheme("ftp".into()));
        // With a base of the other scheme, no absolute URL is resolved relative to it.
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
fn each_rule_of_aggressive_merges_what_it_says_and_only_that() {
    for (rule, text, expected) in [
        ("merge-schemes", "https://example.com/", "http://example.com/"),
        ("merge-schemes", "https://example.com:80/", "https://example.com:80/"),
        ("strip-www", "http://www.example.com/", "http://example.com/"),
        ("strip-www", "http://www.www.example.com./", "http://example.com./"),
        ("strip-www", "http://www.co.uk/", "http://www.co.uk/"),
        ("strip-www", "http://www.github.io/", "http://www.github.io/"),
        ("strip-www", "http://www2.example.com/", "http://www2.example.com/"),
        ("merge-slashes", "http://example.com//a///b//?c=//d", "http://example.com/a/b/?c=//d"),
        ("drop-index", "http://example.com/a/index.html?b", "http://example.com/a/?b"),
        ("form-query", "http://e.com/?a=b%20c+d%2B%7e%c2%a0&%", "http://e.com/?a=b+c+d%2B~%C2%A0&%25"),
        ("sort-query", "http://e.com/?b=2&a=2&c&a=1&b=", "http://e.com/?a=2&a=1&b=2&b=&c"),
        ("drop-empty-parameters", "http://e.com/?&a=&&b&", "http://e.com/?a=&b"),
        ("drop-empty-parameters", "http://e.com/?&&", "http://e.com/"),
        ("drop-tracking", "http://e.com/?utm_source=x&a=1&FBCLID=y", "http://e.com/?a=1"),
        ("drop-tracking", "http://e.com/?gclid=x", "http://e.com/"),
        ("drop-sessions", "http://e.com/a;jsessionid=1?b&sid=0123456789abcdef", "http://e.com/a?b"),
        ("write-ports", "https://example.com/a", "https://example.com:443/a"),
        ("write-ports,merge-schemes", "https://example.com/a", "http://example.com:80/a"),
        ("keep-hashbang", "http://example.com/#!/a?b", "http://example.com/#!/a?b"),
        ("drop-user-info", "http://u:p@example.com/", "http://example.com/"),
    ] {
        assert_eq!(under(&format!("raw,{rule}"), text), expected, "{rule}: {text}");
        assert_eq!(under("raw", text), parse(text).expect(text).as_str().split('#').next().unwrap_or_default());
    }
    assert_eq!(canonical("http://example.com/#!/a"), "http://example.com/");
    assert_eq!(under("raw,keep-hashbang", "http://example.com/#!"), "http://example.com/");
    let all = "HTTPS://user@WWW.Example.com.:443//b/../Index.html;jsessionid=1?z=%7e&utm_medium=x&&a=b%20c#d";
    assert_eq!(under("aggressive", all), "http://example.com/?a=b+c&z=~");
}

#[test]
fn the_hosts_of_a_wide_domain_are_sites_of_their_own() {
    let wide = WideDomains::new(["Example.EDU", "pages.example.com", " b\u{fc}cher.de. "]).expect("domains");
    assert_eq!(wide.iter().collect::<Vec<_>>(), ["example.edu", "pages.example.com", "xn--bcher-kva.de"]);
    for (host, site) in [
        ("example.edu", "example.edu"),
        ("www.example.edu.", "example.edu"),
        ("cs.example.edu", "cs.example.edu"),
        ("www.cs.example.edu", "cs.example.edu"),
        ("a.cs.example.edu", "a.cs.example.edu"),
        ("notexample.edu", "notexample.edu"),
        ("a.pages.example.com", "a.pages.example.com"),
        ("www.example.com", "example.com"),
        ("a.b\u{fc}cher.de", "a.xn--bcher-kva.de"),
        ("127.0.0.1", "127.0.0.1"),
    ] {
        assert_eq!(wide.site_of(&parse(&format!("http://{host}/")).expect("a url")), site, "{host}");
    }
    for wrong in
        ["", "http://example.edu", "example.edu/a", "example.edu:80", "127.0.0.1", "[::1]", "a..b", "u@a.b", "a b"]
    {
        let error = WideDomains::new([wrong]).expect_err(wrong).to_string();
        assert!(error.starts_with(&format!("`{wrong}` is not a domain; a wide domain is")), "{error}");
    }
    let many: Vec<String> = (0..1001).map(|number| format!("h{number}.test")).collect();
    assert_eq!(WideDomains::new(many).expect_err("too many").to_string(), "1001 wide domains are given; allowed: 1000");
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
    for text in
        ["", "  ", "/a/b", "#a", "joe@example.com", "http://", "not a url", "https://exa mple.com/", "100", "//100/a"]
    {
        assert!(matches!(parse_seed(text), Err(UrlError::Malformed(_))), "{text}");
    }
}

#[test]
fn a_seed_whose_host_dns_cannot_hold_is_refused_and_a_link_to_it_is_not() {
    let (longest, too_long) = ("a".repeat(63), "a".repeat(64));
    let name = |label: &str, last: &str| [label, label, label, last].join(".");
    for host in ["exmaple..com", ".example.com", "example.com..", &too_long, &name(&longest, &longest[1..])] {
        assert_eq!(parse_seed(host), Err(UrlError::Host(host[..host.len().min(100)].into())));
        assert!(parse(&format!("https://{host}/")).is_ok(), "{host}");
    }
    for host in ["example.com.", "localhost", "_dmarc.example.com", &longest, &name(&longest, &longest[2..])] {
        assert!(parse_seed(host).is_ok(), "{host}");
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
    let path = "../../Cargo.lock";
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
    let keying = Keying { crawl: CrawlName::default(), ..Keying::default() };
    let json = serde_json::to_value(describe("Example.com/%7ea#b", &keying)).expect("json");
    assert_eq!(json["input"], "Example.com/%7ea#b");
    assert_eq!(json["url"], "https://example.com/%7ea");
    assert_eq!(json["canonical"], "https://example.com/~a");
    assert_eq!(json["site"], "example.com");
    assert_eq!(json["fingerprint"], Fingerprint::of(&CrawlName::default(), "https://example.com/~a").to_string());
    assert!(json["slot"].is_u64() && json.get("error").is_none());
    let json = serde_json::to_value(describe("mailto:a@b.c", &keying)).expect("json");
    assert_eq!(json["error"], "scheme `mailto` is not crawled; allowed: http and https");
    assert!(json.get("url").is_none());
}
