//! Requests by the profile of their crawl.

use orbweaver_messages::{FetchProfile, Markdown};

use super::*;

/// Returns a dispatch of a crawl.
fn of_crawl(around: &Surroundings, crawl: &str, path: &str, sequence: u64) -> ReadyDispatch {
    let mut ready = around.ready_every(100, &format!("https://a.example/{path}"), sequence);
    ready.dispatch.context.crawl = crawl.parse().unwrap();
    ready
}

fn with_agent(agent: &str) -> FetchProfile {
    FetchProfile { user_agent: Some(agent.to_owned()), ..FetchProfile::default() }
}

/// Returns the path and the product name of each request.
fn asked(around: &Surroundings) -> Vec<String> {
    let asked = around.client.asked().into_iter();
    let text = |request: crate::Request| {
        let agent = request.profile.headers["user-agent"].to_str().unwrap().to_owned();
        format!("{} {}", request.url.path(), agent.split('/').next().unwrap())
    };
    asked.map(text).collect()
}

#[test]
fn each_crawl_asks_for_robots_txt_with_its_own_agent_and_obeys_the_rules_for_it() {
    let mut around = with_robots(robots("User-agent: shopbot\nDisallow: /no\n"));
    around.client.on("https://a.example/no", page("hello"));
    around.define(5, "shop", |definition| definition.profile = with_agent("ShopBot/2"));
    around.deliver(&of_crawl(&around, "shop", "no", 0));
    around.deliver(&of_crawl(&around, "docs", "no", 1));
    around.pass(1000);
    assert_eq!(asked(&around), ["/robots.txt ShopBot", "/robots.txt Testbot", "/no Testbot"]);
    assert_eq!(around.kinds(), [some(OutcomeKind::Refused, "robots"), (OutcomeKind::Fetched, None)]);
    let pages = around.records(topic::PAGES);
    let page: Page =
        decode("page", pages[0].headers.iter().find(|(name, _)| *name == "page").map(|(_, page)| page)).unwrap();
    assert_eq!((page.agent, page.html), (None, None));
    around.assert_all_complete();
}

#[test]
fn a_dispatch_is_deferred_until_the_definition_that_it_names_was_read() {
    let mut around = Surroundings::unlimited();
    around.client.on("https://a.example/one", page("hello"));
    let mut ready = of_crawl(&around, "shop", "one", 0);
    ready.dispatch.definition = 5;
    around.deliver(&ready);
    around.settle();
    assert_eq!(around.kinds(), [some(OutcomeKind::Deferred, "definition")]);
    around.define(5, "shop", |definition| {
        let (html, main_text, facts, markdown) = (Some(true), Some(false), Some(true), Some(Markdown::Images));
        definition.profile = FetchProfile { html, main_text, markdown, facts, ..with_agent("ShopBot/2") };
    });
    (ready.dispatch.id.sequence, ready.dispatch.definition) = (1, 5);
    around.deliver(&ready);
    around.pass(1000);
    assert_eq!(asked(&around), ["/one ShopBot"]);
    let pages = around.records(topic::PAGES);
    let page: Page =
        decode("page", pages[0].headers.iter().find(|(name, _)| *name == "page").map(|(_, page)| page)).unwrap();
    assert_eq!((page.agent.as_deref(), page.html), (Some("shopbot"), Some(true)));
    assert_eq!((page.main_text, page.markdown, page.facts), (Some(false), Some(Markdown::Images), Some(true)));
    around.assert_all_complete();
}

#[test]
fn queued_dispatches_are_checked_again_when_the_agent_of_their_crawl_changes() {
    let mut around = with_robots(robots("User-agent: newbot\nDisallow: /\n"));
    around.client.on("https://a.example/one", page("hello"));
    for (sequence, path) in ["one", "two"].into_iter().enumerate() {
        around.deliver(&ReadyDispatch { interval_ms: 1000, ..of_crawl(&around, "shop", path, sequence as u64) });
    }
    around.pass(2002);
    assert_eq!(asked(&around), ["/robots.txt Testbot", "/one Testbot"]);
    around.define(5, "shop", |definition| definition.profile = with_agent("NewBot/1"));
    around.pass(5000);
    assert_eq!(asked(&around)[2..], ["/robots.txt NewBot"]);
    assert_eq!(around.kinds(), [(OutcomeKind::Fetched, None), some(OutcomeKind::Refused, "robots")]);
    around.assert_all_complete();
}

#[test]
fn a_robots_txt_that_was_asked_for_with_the_former_agent_admits_nothing_with_the_new_one() {
    let mut around = with_robots(robots(""));
    around.client.on(ROBOTS, robots("User-agent: *\nDisallow: /\n"));
    around.deliver(&of_crawl(&around, "shop", "one", 0));
    around.settle();
    around.clock.advance(101);
    around.call(FetcherStage::tick);
    assert_eq!(around.jobs.len(), 1, "the request is in flight");
    around.define(5, "shop", |definition| definition.profile = with_agent("NewBot/1"));
    around.pass(2000);
    assert_eq!(asked(&around), ["/robots.txt Testbot", "/robots.txt NewBot"]);
    assert_eq!(around.kinds(), [some(OutcomeKind::Refused, "robots")]);
    around.assert_all_complete();
}

#[test]
fn a_crawl_that_ignores_robots_txt_asks_for_none_while_others_do() {
    let mut around = with_robots(robots("User-agent: *\nDisallow: /\n"));
    around.client.on("https://a.example/one", page("hello"));
    around.define(5, "own", |definition| definition.profile.ignore_robots = true);
    around.deliver(&of_crawl(&around, "own", "one", 0));
    around.deliver(&of_crawl(&around, "docs", "one", 1));
    around.pass(1000);
    assert_eq!(around.asked().iter().filter(|url| *url == ROBOTS).count(), 1);
    let mut kinds = around.kinds();
    kinds.sort_by_key(|(_, reason)| reason.clone());
    assert_eq!(kinds, [(OutcomeKind::Fetched, None), some(OutcomeKind::Refused, "robots")]);
    around.assert_all_complete();
}

#[test]
fn a_crawl_without_a_rate_keeps_the_interval_of_its_dispatches_while_a_faster_one_shares_the_site() {
    let mut around = with_robots(robots(""));
    around.define(5, "fast", |definition| definition.profile.interval_ms = Some(100));
    around.define(6, "plain", |definition| definition.profile.user_agent = Some("PlainBot".to_owned()));
    let mut sequence = 0;
    for path in 0..3 {
        for (crawl, crawl_interval_ms) in [("plain", 1000), ("fast", 100)] {
            around.client.on(&format!("https://a.example/{path}?{crawl}"), page("hello"));
            let ready = of_crawl(&around, crawl, &format!("{path}?{crawl}"), sequence);
            around.deliver(&ReadyDispatch { interval_ms: 100, crawl_interval_ms, ..ready });
            sequence += 1;
        }
    }
    let mut times: BTreeMap<bool, Vec<Millis>> = BTreeMap::new();
    for _ in 0..4300 {
        let before = around.client.asked().len();
        around.pass(1);
        for request in &around.client.asked()[before..] {
            let agent = request.profile.headers["user-agent"].to_str().unwrap();
            times.entry(agent.starts_with("PlainBot")).or_default().push(around.now());
        }
    }
    for (is_plain, least_ms) in [(true, 1000), (false, 100)] {
        let times = &times[&is_plain];
        // Three pages and a robots.txt.
        assert!(times.len() == 4 && times.windows(2).all(|pair| pair[1] - pair[0] > least_ms), "{times:?}");
    }
    around.assert_all_complete();
}

#[test]
fn each_crawl_keeps_its_own_interval_at_a_site_and_all_together_that_of_the_site() {
    let mut around = Surroundings::unlimited();
    for (offset, crawl, interval_ms) in [(5, "slow", 1000), (6, "medium", 400)] {
        around.define(offset, crawl, |definition| definition.profile.interval_ms = Some(interval_ms));
    }
    let mut sequence = 0;
    for path in 0..4 {
        for crawl in ["slow", "medium", "fast"] {
            around.client.on(&format!("https://a.example/{path}?{crawl}"), page("hello"));
            let ready = of_crawl(&around, crawl, &format!("{path}?{crawl}"), sequence);
            around.deliver(&ready);
            sequence += 1;
        }
    }
    let mut times: BTreeMap<String, Vec<Millis>> = BTreeMap::new();
    for _ in 0..6000 {
        let before = around.client.asked().len();
        around.pass(1);
        for request in &around.client.asked()[before..] {
            for name in [request.url.query().unwrap(), "all"] {
                times.entry(name.to_owned()).or_default().push(around.now());
            }
        }
    }
    for (crawl, count, least_ms) in [("slow", 4, 1000), ("medium", 4, 400), ("fast", 4, 100), ("all", 12, 100)] {
        let times = &times[crawl];
        assert!(
            times.len() == count && times.windows(2).all(|pair| pair[1] - pair[0] > least_ms),
            "{crawl}: {times:?}"
        );
    }
    around.assert_all_complete();
}
