//! URLs: links, seeds, canonical forms, sites.

use orbweaver_url::{Policy, Rule, Url, parse, parse_seed, resolve, site_of};

/// The input is a link, a zero byte, and the URL of its page.
pub(crate) fn check(data: &[u8]) {
    let (link, page) = crate::split(data);
    let (Ok(link), Ok(page)) = (std::str::from_utf8(link), std::str::from_utf8(page)) else { return };
    let page = parse(page).unwrap_or_else(|_| parse("http://a.example.com/d/p?q").unwrap());
    for url in [parse(link), parse_seed(link), resolve(&page, link)].into_iter().flatten() {
        check_url(&url);
    }
}

fn check_url(url: &Url) {
    assert!(matches!(url.scheme(), "http" | "https"), "{url}");
    assert_eq!(parse(url.as_str()).as_ref(), Ok(url), "a URL reads as itself");
    let every_rule = Rule::all().fold(Policy::RAW, |policy, rule| policy.with(rule, true));
    for policy in Policy::PRESETS.into_iter().chain([every_rule]) {
        let form = policy.canonical_text(url);
        let read = parse(&form).expect("a canonical form is a URL");
        assert_eq!(policy.canonical_text(&read), form, "{policy}: a canonical form is its own");
    }
    let form = parse(&Policy::STANDARD.canonical_text(url)).unwrap();
    assert_eq!(site_of(&form), site_of(url), "the canonical form of {url} is at its site");
}
