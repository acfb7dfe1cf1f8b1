//! Hostile URLs, from the parser to the checks before a request (`tests/hostile/vectors/urls.jsonl`).

use orbweaver_url::{MAX_URL_BYTES, Policy, Url, UrlError, is_dns_name, parse, resolve};
use serde_json::Value;

use super::{Networks, has_bad_port, is_localhost, refusal};

/// Hosts with an `xn--` label that is no Punycode: URLs since June 2026, after these rows were made. The stage refuses
/// them before a request, as `host`.
const UNMAPPED: [&str; 2] = ["http://xn--a/", "http://xn--/"];

fn is_private(url: &Url) -> bool {
    super::is_private(url, &Networks::default())
}

fn rows() -> Vec<Value> {
    let text = std::fs::read_to_string("tests/hostile/vectors/urls.jsonl").unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 192);
    rows
}

fn text<'a>(row: &'a Value, key: &str) -> Option<&'a str> {
    row.get(key).and_then(Value::as_str)
}

/// Returns the URL of a row, and the row; `None` where there is none.
fn parsed(row: &Value) -> Option<Url> {
    let given = text(row, "url").unwrap();
    parse(given).ok().or_else(|| given.starts_with("//").then(|| resolve(&base(), given).unwrap()))
}

fn base() -> Url {
    parse("http://base.example/").unwrap()
}

#[test]
fn each_row_has_the_host_of_the_url_standard_or_is_refused() {
    for row in rows() {
        let given = text(&row, "url").unwrap();
        let short: String = given.chars().take(100).collect();
        let is_refused = text(&row, "parse_error").is_some() && !UNMAPPED.contains(&given)
            || row.get("must_refuse_scheme").is_some()
            || given.len() > MAX_URL_BYTES;
        let url = parsed(&row);
        assert_eq!(url.is_none(), is_refused, "{short}");
        // A link to it on a page of another scheme is treated in the same way, unless it is relative.
        if !given.starts_with([':', '/']) && !given.starts_with("ht!") {
            let page = parse("https://base.example/").unwrap();
            assert_eq!(resolve(&page, given).ok(), url, "{short}");
        }
        let Some(url) = url.filter(|_| !UNMAPPED.contains(&given)) else { continue };
        assert_eq!(url.host_str(), text(&row, "whatwg_host"), "{short}");
        let whatwg = text(&row, "whatwg").unwrap();
        let whatwg = &whatwg[..whatwg.find('#').unwrap_or(whatwg.len())];
        match whatwg.strip_suffix("...") {
            Some(start) => assert!(url.as_str().starts_with(start), "{short}"),
            None => assert_eq!(url.as_str(), whatwg, "{short}"),
        }
    }
}

#[test]
fn what_is_too_long_is_refused_before_it_is_parsed() {
    let sizes = rows().into_iter().filter(|row| row["category"] == "size");
    let refused = sizes.filter(|row| matches!(parse(text(row, "url").unwrap()), Err(UrlError::TooLong(_))));
    assert_eq!(refused.count(), 6);
}

#[test]
fn each_address_is_refused_unless_it_is_public() {
    let mut counts = [0; 2];
    for row in rows() {
        let (Some(url), Some(address)) = (parsed(&row), row.get("address")) else { continue };
        let refused = address["must_refuse_by_default"].as_bool().unwrap();
        assert_eq!(is_private(&url), refused, "{url}");
        assert_eq!(refusal(text(address, "ip").unwrap().parse().unwrap()).is_some(), refused, "{url}");
        counts[usize::from(refused)] += 1;
    }
    assert_eq!(counts, [8, 75], "public addresses, and others");
}

#[test]
fn no_canonical_form_has_another_host_or_scheme_and_each_is_its_own() {
    for url in rows().iter().filter_map(parsed) {
        for policy in Policy::PRESETS {
            let canonical = policy.canonical_text(&url).into_owned();
            let again = parse(&canonical).unwrap();
            assert_eq!(policy.canonical_text(&again), canonical, "{url}");
            assert_eq!((is_private(&again), has_bad_port(&again)), (is_private(&url), has_bad_port(&url)), "{url}");
            let host = |url: &Url| url.host_str().unwrap().trim_end_matches('.').trim_start_matches("www.").to_owned();
            assert_eq!(host(&again), host(&url), "{policy:?}");
        }
    }
}

#[test]
fn each_spelling_of_localhost_and_each_bad_port_is_known() {
    let urls: Vec<Url> = rows().iter().filter_map(parsed).collect();
    let local = urls.iter().filter(|url| url.domain().is_some_and(is_localhost)).count();
    assert_eq!(local, 6);
    let ports: Vec<_> = urls.iter().filter(|url| has_bad_port(url)).filter_map(Url::port).collect();
    assert_eq!(ports, [0, 22, 25]);
}

#[test]
fn only_hosts_that_dns_can_hold_are_looked_up() {
    let urls: Vec<Url> = rows().iter().filter_map(parsed).collect();
    let impossible = urls.iter().filter_map(Url::domain).filter(|host| !is_dns_name(host));
    let lengths: Vec<_> = impossible.map(|host| (&host[..host.len().min(6)], host.len())).collect();
    assert_eq!(lengths, [("a..exa", 10), ("aaaaaa", 72), ("aaaaaa", 304), (".", 1)]);
    assert!(is_dns_name("a_b.example") && is_dns_name("-a.example"));
}

#[test]
fn no_url_contains_a_character_that_ends_a_line() {
    for url in rows().iter().filter_map(parsed) {
        assert!(url.as_str().bytes().all(|byte| byte.is_ascii_graphic()), "{url:?}");
    }
}
