//! The complete test vectors of other projects: every row passes under a preset that it allows, or is on the list of
//! expected failures with the actual result and the reason. A listed row that begins to pass, or to fail differently,
//! fails the test.

#![allow(clippy::expect_used, reason = "a test says what it expects")]

use std::{borrow::Cow, collections::BTreeMap};

use orbweaver_url::{Policy, Rule, Url, UrlError, parse, resolve, resolve_encoded, resolve_plain, site_of};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Vector {
    input: Option<String>,
    base: Option<String>,
    expected: Option<String>,
    #[serde(default)]
    touches: Option<Vec<String>>,
    query_text: Option<String>,
    document_encoding: Option<String>,
}

/// Resolves a link, without the parser too if it needs none.
fn resolve_both_ways(base: &Url, link: &str) -> Result<Url, UrlError> {
    let resolved = resolve(base, link);
    if let Some(plain) = resolve_plain(base, link) {
        assert_eq!(resolved.as_ref().map(Url::as_str), Ok(&*plain), "{link} at {base}");
    }
    resolved
}

impl Vector {
    fn input(&self) -> &str {
        self.input.as_deref().unwrap_or_default()
    }

    fn read(&self) -> Result<Url, UrlError> {
        match &self.base {
            Some(base) => resolve_both_ways(&parse(base)?, self.input()),
            None => parse(self.input()),
        }
    }

    fn canonical(&self, policy: Policy) -> Option<String> {
        Some(policy.canonical_text(&self.read().ok()?).into_owned())
    }

    fn expected(&self) -> Option<&str> {
        // No form has a fragment; that of the expected form is cut, as in the comparison of the normalizers.
        self.expected.as_deref().map(|text| text.split('#').next().unwrap_or(text))
    }

    /// Returns the policies that the row allows: the standard one, and all variants in which rules that the row
    /// exercises are inverted. Its library made one choice for each; only the expected form shows which.
    fn policies(&self) -> Vec<Policy> {
        let choice = |what: &str| match what {
            "query-order-or-empty-params" => &[Rule::SortQuery, Rule::DropEmptyParameters][..],
            "query-percent-escapes" | "unsafe-characters" | "invalid-percent" => &[Rule::FormQuery],
            "duplicate-slashes" => &[Rule::MergeSlashes],
            "directory-index" => &[Rule::DropIndex],
            "session-id" => &[Rule::DropSessions],
            "www-prefix-removed" => &[Rule::StripWww, Rule::MergeSchemes],
            "userinfo" => &[Rule::DropUserInfo],
            "empty-query" => &[Rule::DropEmptyQuery],
            "host-dots" => &[Rule::DropRootDot],
            "path-percent-escapes" => &[Rule::NormalizeEscapes],
            _ => &[],
        };
        let mut policies = vec![Policy::STANDARD];
        for rule in self.touches.iter().flatten().flat_map(|what| choice(what)) {
            let others = policies.iter().map(|policy| policy.with(*rule, !policy.has(*rule)));
            let others: Vec<Policy> = others.collect();
            policies.extend(others);
        }
        policies
    }
}

/// Result of a row, and whether it is right.
type Outcome = (Option<String>, bool);

fn compare(got: Option<String>, expected: Option<&str>) -> Outcome {
    let right = got.as_deref() == expected;
    (got, right)
}

/// Returns the canonical form under the policies that the row allows.
fn by_touches(vector: &Vector) -> Outcome {
    let policies = vector.policies();
    let passes = policies.iter().any(|policy| vector.canonical(*policy).as_deref() == vector.expected());
    let got = if passes { vector.expected().map(str::to_owned) } else { vector.canonical(Policy::STANDARD) };
    (got, passes)
}

fn standard(vector: &Vector) -> Outcome {
    compare(vector.canonical(Policy::STANDARD), vector.expected())
}

fn aggressive(vector: &Vector) -> Outcome {
    compare(vector.canonical(Policy::AGGRESSIVE), vector.expected())
}

/// Compares the form as parsed. Refusing another scheme is right.
fn raw(vector: &Vector) -> Outcome {
    let expected = vector.expected().filter(|text| text.starts_with("http:") || text.starts_with("https:"));
    compare(vector.canonical(Policy::RAW), expected)
}

fn path(vector: &Vector) -> Outcome {
    let url = parse(&format!("http://example.com{}", vector.input())).ok();
    compare(url.map(|url| url.path().to_owned()), vector.expected())
}

fn ipv4(vector: &Vector) -> Outcome {
    let url = parse(&format!("http://{}/", vector.input())).ok();
    let address = url.and_then(|url| match url.host() {
        Some(url::Host::Ipv4(address)) => Some(address.to_string()),
        _ => None,
    });
    compare(address, vector.expected())
}

fn host(vector: &Vector) -> Outcome {
    let url = parse(&format!("http://{}/", vector.input())).ok();
    compare(url.and_then(|url| url.host_str().map(str::to_owned)), vector.expected())
}

/// Compares the site; without a registrable domain, the expected site is the host.
fn site(vector: &Vector) -> Outcome {
    let of = |host: &str| parse(&format!("http://{host}/")).ok();
    let Some(url) = vector.input.as_deref().and_then(of) else {
        return (None, vector.expected.is_none());
    };
    let host = |url: Url| url.host_str().unwrap_or_default().to_owned();
    let expected = match vector.expected.as_deref() {
        Some(domain) => of(domain).map(host),
        None => Some(host(url.clone())),
    };
    compare(Some(site_of(&url).into_owned()), expected.as_deref())
}

fn query_encoding(vector: &Vector) -> Outcome {
    // The encoders belong to the extractor; this tests that their bytes reach the query.
    fn encoder<F: Fn(&str) -> Cow<'_, [u8]>>(encode: F) -> F {
        encode
    }
    let encode = encoder(|text| {
        Cow::Borrowed(match (vector.document_encoding.as_deref(), text) {
            (Some("utf-8"), "\u{2020}") => "\u{2020}".as_bytes(),
            (Some("windows-1252"), "\u{2020}") => &[0x86],
            (Some("utf-8"), "\u{e}A") => b"\x0eA",
            (Some("iso-2022-jp"), "\u{e}A") => b"%26%2365533%3BA",
            other => panic!("no such row is known: {other:?}"),
        })
    });
    let base = parse("http://example.com/").expect("a base");
    let link = format!("?{}", vector.query_text.as_deref().unwrap_or_default());
    let url = resolve_encoded(&base, &link, Some(&encode)).ok();
    compare(url.and_then(|url| url.query().map(str::to_owned)), vector.expected())
}

/// File, number of rows, text, and check of a row.
type Suite = (&'static str, usize, &'static str, fn(&Vector) -> Outcome);

macro_rules! suite {
    ($name:literal, $rows:literal, $check:expr) => {
        ($name, $rows, include_str!(concat!("vectors/", $name, ".jsonl")), $check)
    };
}

const SUITES: [Suite; 19] = [
    suite!("agree_all", 162, standard),
    suite!("crawler_commons", 137, by_touches),
    suite!("crawler_commons_resolve", 22, standard),
    suite!("nutch_basic", 113, by_touches),
    suite!("nutch_querystring", 6, by_touches),
    suite!("nutch_regex", 65, by_touches),
    suite!("purell", 109, by_touches),
    suite!("urlcanon_aggressive", 42, aggressive),
    suite!("urlcanon_semantic_precise", 280, by_touches),
    suite!("urlcanon_supplemental_whatwg", 118, by_touches),
    suite!("w3lib_canonicalize_url", 78, by_touches),
    suite!("w3lib_safe_url_string", 227, by_touches),
    suite!("wpt_urltestdata", 888, raw),
    suite!("rfc3986_5_4", 42, raw),
    suite!("urlcanon_path_dots", 376, path),
    suite!("urlcanon_funky_ipv4", 47, ipv4),
    suite!("wpt_toascii", 43, host),
    suite!("psl", 78, site),
    suite!("wpt_query_percent_encoding", 4, query_encoding),
];

#[derive(Debug, Deserialize)]
struct Failure {
    file: String,
    row: usize,
    got: Option<String>,
    reason: String,
}

#[test]
fn every_row_passes_or_is_expected_to_fail_for_a_reason() {
    let listed = include_str!("vectors/expected_failures.jsonl").lines();
    let mut expected: BTreeMap<(String, usize), Failure> = BTreeMap::new();
    for line in listed {
        let failure: Failure = serde_json::from_str(line).expect(line);
        assert!(failure.reason.len() > 20, "{line}: a reason says why");
        let twice = expected.insert((failure.file.clone(), failure.row), failure);
        assert!(twice.is_none(), "{line}: the row is listed twice");
    }
    let mut wrong = 0;
    for (file, rows, text, check) in SUITES {
        assert_eq!(text.lines().count(), rows, "{file}");
        for (row, line) in (1..).zip(text.lines()) {
            let vector: Vector = serde_json::from_str(line).expect(line);
            let (got, passes) = check(&vector);
            let known = expected.remove(&(file.to_owned(), row));
            let problem = match (passes, known) {
                (true, None) => continue,
                (true, Some(_)) => "listed, and passes: take it off the list",
                (false, Some(known)) if known.got == got => continue,
                (false, Some(_)) => "listed, and comes out otherwise than the list says",
                (false, None) => "fails, and is not listed",
            };
            wrong += 1;
            let shown = serde_json::json!({"file": file, "row": row, "got": got, "reason": "", "vector": line});
            println!("{problem}: {shown}");
        }
    }
    assert!(expected.is_empty(), "listed rows that are not there: {expected:?}");
    assert_eq!(wrong, 0, "rows; see the output");
}

/// Covers hosts that UTS 46 rejects and WHATWG accepts.
#[test]
fn no_url_is_refused_that_whatwg_takes() {
    let rows = include_str!("vectors/wpt_urltestdata.jsonl").lines();
    let rows = rows.map(|line| serde_json::from_str::<Vector>(line).expect(line));
    let refused = rows.filter(|vector| raw(vector).0.is_none() && !raw(vector).1);
    let refused: Vec<String> = refused.map(|vector| vector.input().to_owned()).collect();
    assert!(refused.is_empty(), "{refused:?}");
}
