use proptest::prelude::*;

use super::*;

fn robots(text: &str) -> Robots {
    Robots::parse(text.as_bytes(), &Limits::default())
}

#[test]
fn the_verdict_names_the_rule_and_its_line() {
    let robots = robots("User-agent: *\r\nDisallow: /private\r\nAllow: /private/open # but\r\n");
    let open = robots.verdict("orbweaver", "/private/open/x");
    assert_eq!((open.allowed, open.rule, open.line), (true, Some("Allow: /private/open"), Some(3)));
    let closed = robots.verdict("orbweaver", "/private/x?y");
    assert_eq!((closed.allowed, closed.rule, closed.line), (false, Some("Disallow: /private"), Some(2)));
    let free = robots.verdict("orbweaver", "/x");
    assert_eq!((free.allowed, free.rule, free.line), (true, None, None));
}

#[test]
fn groups_of_one_agent_are_merged_and_those_of_everybody_are_not_added() {
    let robots = robots(
        "User-agent: a\nDisallow: /1\n\nUser-agent: *\nDisallow: /2\n\nUser-agent: b\nUser-agent: A\nDisallow: /3\n",
    );
    let refused = |agent: &str| ["/1", "/2", "/3"].map(|path| !robots.verdict(agent, path).allowed);
    assert_eq!(refused("a"), [true, false, true]);
    assert_eq!(refused("b"), [false, false, true]);
    assert_eq!(refused("c"), [false, true, false]);
}

#[test]
fn a_named_agent_without_rules_does_not_fall_under_everybody() {
    let robots = robots("User-agent: *\nDisallow: /\n\nUser-agent: orbweaver\nDisallow:\n");
    assert!(robots.verdict("orbweaver", "/x").allowed);
    assert!(!robots.verdict("other", "/x").allowed);
}

#[test]
fn who_allows_the_index_page_allows_its_directory_and_nothing_else() {
    let robots = robots("User-agent: *\nDisallow: /\nAllow: /a/index.html\n");
    let verdict = robots.verdict("x", "/a/");
    assert_eq!((verdict.allowed, verdict.rule, verdict.line), (true, Some("Allow: /a/index.html"), Some(3)));
    assert!(!robots.verdict("x", "/a/b").allowed);
    assert!(!robots.verdict("x", "/").allowed);
}

#[test]
fn a_whole_user_agent_finds_the_group_of_its_token() {
    let robots = robots("User-agent: Orbweaver\nDisallow: /\n");
    assert!(!robots.verdict("Orbweaver/0.1 (+https://x)", "/").allowed);
}

#[test]
fn the_file_itself_is_always_allowed() {
    assert!(robots("User-agent: *\nDisallow: /\n").verdict("a", "/robots.txt").allowed);
    assert!(Robots::disallow_all().verdict("a", "/robots.txt").allowed);
    assert!(!Robots::disallow_all().verdict("a", "/").allowed);
    assert!(Robots::allow_all().verdict("a", "/").allowed);
}

#[test]
fn a_line_cut_at_the_size_limit_is_no_rule() {
    let text = "User-agent: *\nDisallow: /a\nDisallow: /long/path\n";
    let limits = Limits { max_bytes: text.len() - 6, ..Limits::default() };
    let robots = Robots::parse(text.as_bytes(), &limits);
    assert!(!robots.verdict("x", "/a").allowed);
    assert!(robots.verdict("x", "/long/path").allowed);
    let whole = Robots::parse(text.as_bytes(), &Limits { max_bytes: text.len(), ..Limits::default() });
    assert!(!whole.verdict("x", "/long/path").allowed);
}

#[test]
fn rules_and_sitemaps_beyond_their_limits_are_ignored() {
    let limits = Limits { max_rules: 1, max_sitemaps: 1, ..Limits::default() };
    let text = b"Sitemap: /1\nSitemap: /2\nUser-agent: *\nDisallow: /a\nDisallow: /b\n";
    let robots = Robots::parse(text, &limits);
    assert_eq!(robots.sitemaps(), ["/1"]);
    assert!(!robots.verdict("x", "/a").allowed);
    assert!(robots.verdict("x", "/b").allowed);
}

#[test]
fn a_crawl_delay_is_bounded_and_the_longest_when_groups_are_merged() {
    assert_eq!(robots("User-agent: *\nCrawl-delay: 1e9\n").crawl_delay_ms("x"), Some(1000));
    assert_eq!(robots("User-agent: *\nCrawl-delay: 99999999999\n").crawl_delay_ms("x"), Some(MAX_CRAWL_DELAY_MS));
    assert_eq!(robots("User-agent: *\nCrawl-delay: -3\n").crawl_delay_ms("x"), None);
    let merged = robots("User-agent: x\nCrawl-delay: 5\nDisallow:\nUser-agent: x\nCrawl-delay: 2.5\n");
    assert_eq!(merged.crawl_delay_ms("x"), Some(5000));
}

#[test]
fn octets_that_are_no_text_match_their_escaped_form_and_are_shown_escaped() {
    let robots = Robots::parse(b"User-agent: *\nDisallow: /\xff\xe9\n", &Limits::default());
    let verdict = robots.verdict("x", "/%ff%E9/y");
    assert_eq!((verdict.allowed, verdict.rule), (false, Some("Disallow: /%FF%E9")));
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
    let name = prop::sample::select(vec!["User-agent", "Disallow", "Allow", "Crawl-delay", "Sitemap", "x", "disallow"]);
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
    fn any_bytes_are_a_robots_txt(bytes in prop::collection::vec(any::<u8>(), 0..600), path in "\\PC{0,30}") {
        let robots = Robots::parse(&bytes, &Limits::default());
        prop_assert_eq!(robots.verdict("orbweaver", &path).rule.is_some(), robots.verdict("orbweaver", &path).line.is_some());
    }

    #[test]
    fn the_parse_of_its_own_rendering_is_the_same(bytes in any_file()) {
        let robots = Robots::parse(&bytes, &Limits::default());
        let again = Robots::parse(robots.render().as_bytes(), &Limits::default());
        prop_assert_eq!(&again, &robots, "{}", robots.render());
        prop_assert_eq!(again.render(), robots.render());
    }

    #[test]
    fn what_is_kept_for_an_agent_says_the_same_as_the_file(bytes in any_file(), path in "/[a-c/$%0-9.]{0,8}") {
        let robots = Robots::parse(&bytes, &Limits::default());
        for agent in ["a", "b", "orbweaver"] {
            let rules = robots.rules_for(agent);
            prop_assert_eq!(rules.verdict(&path), robots.verdict(agent, &path));
            prop_assert_eq!(rules.crawl_delay_ms(), robots.crawl_delay_ms(agent));
        }
    }
}
