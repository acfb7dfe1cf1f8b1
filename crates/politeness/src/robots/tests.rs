use proptest::prelude::*;

use super::{
    parse::{MAX_BYTES, MAX_RULES},
    *,
};

fn rules(text: &str, agent: &str) -> AgentRules {
    AgentRules::parse(text.as_bytes(), agent)
}

#[test]
fn the_verdict_names_the_rule_and_its_line() {
    let rules = rules("User-agent: *\r\nDisallow: /private\r\nAllow: /private/open # but\r\n", "orbweaver");
    let open = rules.verdict("/private/open/x");
    assert_eq!((open.allowed, open.rule, open.line), (true, Some("Allow: /private/open"), Some(3)));
    let closed = rules.verdict("/private/x?y");
    assert_eq!((closed.allowed, closed.rule, closed.line), (false, Some("Disallow: /private"), Some(2)));
    let free = rules.verdict("/x");
    assert_eq!((free.allowed, free.rule, free.line), (true, None, None));
}

#[test]
fn groups_of_one_agent_are_merged_and_those_of_everybody_are_not_added() {
    let text =
        "User-agent: a\nDisallow: /1\n\nUser-agent: *\nDisallow: /2\n\nUser-agent: b\nUser-agent: A\nDisallow: /3\n";
    let refused = |agent: &str| ["/1", "/2", "/3"].map(|path| !rules(text, agent).verdict(path).allowed);
    assert_eq!(refused("a"), [true, false, true]);
    assert_eq!(refused("b"), [false, false, true]);
    assert_eq!(refused("c"), [false, true, false]);
}

#[test]
fn a_named_agent_without_rules_does_not_fall_under_everybody() {
    let text = "User-agent: *\nDisallow: /\n\nUser-agent: orbweaver\nDisallow:\n";
    assert!(rules(text, "orbweaver").verdict("/x").allowed);
    assert!(!rules(text, "other").verdict("/x").allowed);
}

#[test]
fn who_allows_the_index_page_allows_its_directory_and_nothing_else() {
    let rules = rules("User-agent: *\nDisallow: /\nAllow: /a/index.html\n", "x");
    let verdict = rules.verdict("/a/");
    assert_eq!((verdict.allowed, verdict.rule, verdict.line), (true, Some("Allow: /a/index.html"), Some(3)));
    assert!(!rules.verdict("/a/b").allowed);
    assert!(!rules.verdict("/").allowed);
}

#[test]
fn a_whole_user_agent_finds_the_group_of_its_token() {
    assert!(!rules("User-agent: Orbweaver\nDisallow: /\n", "Orbweaver/0.1 (+https://x)").verdict("/").allowed);
}

#[test]
fn the_file_itself_is_always_allowed() {
    let refusing = rules("User-agent: *\nDisallow: /\n", "a");
    assert!(refusing.verdict("/robots.txt").allowed && !refusing.verdict("/").allowed);
}

#[test]
fn a_line_cut_at_the_size_limit_is_no_rule() {
    let text = "User-agent: *\nDisallow: /a\nDisallow: /long/path\n";
    for (beyond, allowed) in [(0, false), (6, true)] {
        let padding = "#".repeat(MAX_BYTES - text.len() - 1 + beyond);
        let rules = rules(&format!("{padding}\n{text}"), "x");
        assert!(!rules.verdict("/a").allowed);
        assert_eq!(rules.verdict("/long/path").allowed, allowed);
    }
}

#[test]
fn rules_beyond_their_limit_are_ignored() {
    let others = "Allow:/\n".repeat(MAX_RULES - 1);
    let rules = rules(&format!("User-agent: other\n{others}User-agent: *\nDisallow: /a\nDisallow: /b\n"), "x");
    assert!(!rules.verdict("/a").allowed);
    assert!(rules.verdict("/b").allowed);
}

#[test]
fn a_crawl_delay_is_bounded_and_the_longest_when_groups_are_merged() {
    for (text, delay_ms) in [
        ("User-agent: *\nCrawl-delay: 1e9\n", Some(1000)),
        ("User-agent: *\nCrawl-delay: 99999999999\n", Some(MAX_CRAWL_DELAY_MS)),
        ("User-agent: *\nCrawl-delay: -3\n", None),
        ("User-agent: x\nCrawl-delay: 5\nDisallow:\nUser-agent: x\nCrawl-delay: 2.5\n", Some(5000)),
        ("User-agent: *\nCrawl-delay: 5\nUser-agent: x\nCrawl-delay: 2.5\n", Some(2500)),
        ("User-agent: x\nCrawl-delay: 5\nUser-agent: *\nCrawl-delay: 9\n", Some(5000)),
    ] {
        assert_eq!(rules(text, "x").crawl_delay_ms(), delay_ms, "{text}");
    }
}

#[test]
fn octets_that_are_no_text_match_their_escaped_form_and_are_shown_escaped() {
    let rules = AgentRules::parse(b"User-agent: *\nDisallow: /\xff\xe9\n", "x");
    let verdict = rules.verdict("/%ff%E9/y");
    assert_eq!((verdict.allowed, verdict.rule), (false, Some("Disallow: /%FF%E9")));
}

#[test]
fn sitemaps_are_those_of_the_whole_file_within_bounds() {
    let sitemaps = |text: &str| AgentRules::parse(text.as_bytes(), "x").sitemaps().to_vec();
    let text = "Sitemap: /a.xml # comment\nUser-agent: y\nDisallow: /\nSITE-MAP : https://a.test/b.xml?c d\nSitemap:\n";
    assert_eq!(sitemaps(text), ["/a.xml".into(), "https://a.test/b.xml?c".into()]);
    assert!(AgentRules::parse(b"User-agent: x\nSitemap: /a\nDisallow: /\n", "x").verdict("/b").rule.is_some());
    assert_eq!(sitemaps(&"sitemap: /a\n".repeat(2 * MAX_SITEMAPS)).len(), MAX_SITEMAPS);
    let long = format!("sitemap: /{}\n", "a".repeat(999));
    assert_eq!(sitemaps(&long.repeat(100)).len(), MAX_SITEMAP_BYTES / 1000);
}

#[test]
fn an_explanation_is_one_json_object() {
    let text = b"User-agent: *\nCrawl-delay: 2\nDisallow: /no\n";
    let json = |url| serde_json::to_string(&explain(text, "Orbweaver/0.1", url)).unwrap();
    let refused =
        r#"{"url":"https://x.example/no?q","allowed":false,"rule":"Disallow: /no","line":3,"crawl_delay_ms":2000}"#;
    assert_eq!(json("https://x.example/no?q"), refused);
    let allowed = r#"{"url":"/yes","allowed":true,"rule":null,"line":null,"crawl_delay_ms":2000}"#;
    assert_eq!(json("/yes"), allowed);
}

/// Generates files that resemble real ones more often than random bytes do.
fn any_file() -> impl Strategy<Value = Vec<u8>> {
    let name = prop::sample::select(vec!["User-agent", "Disallow", "Allow", "Crawl-delay", "x", "disallow"]);
    let value = prop_oneof![
        "[*a-c/$%0-9 .ü]{0,8}".prop_map(String::into_bytes),
        "/[ab/]{0,2}/index.html?".prop_map(String::into_bytes),
        prop::sample::select(vec!["*", "a", "b", "c/1"]).prop_map(|agent| agent.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..6),
    ];
    let gap = prop::sample::select(vec![":", ": ", " : ", " ", "#"]);
    let end = prop::sample::select(vec!["\n", "\r\n", "\r", "\n\n"]);
    let line = (name, gap, value, end)
        .prop_map(|(name, gap, value, end)| [name.as_bytes(), gap.as_bytes(), &value, end.as_bytes()].concat());
    prop::collection::vec(line, 0..25).prop_map(|lines| lines.concat())
}

proptest! {
    #[test]
    fn any_bytes_are_a_robots_txt(
        bytes in prop_oneof![any_file(), prop::collection::vec(any::<u8>(), 0..600)], path in "\\PC{0,30}",
    ) {
        let rules = AgentRules::parse(&bytes, "a");
        let verdict = rules.verdict(&path);
        prop_assert_eq!(verdict.rule.is_some(), verdict.line.is_some());
        prop_assert!(verdict.allowed || verdict.rule.is_some_and(|rule| rule.starts_with("Disallow: ")));
    }
}
