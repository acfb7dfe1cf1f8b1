//! Pages that were sent instead of the requested ones.

use orbweaver_messages::{CrawlPurpose, PageKind};

use super::*;
use crate::substitute::Substitute;

const CHALLENGE: &str = "<title>Just a moment...</title><script>window._cf_chl_opt={};</script>";
const NOT_FOUND: &str = "<title>Page not found</title><p>Try the search.";

/// Returns a response of this status that is recognized as a challenge by its headers.
fn challenged(status: u16) -> Result<HttpResponse, FetchError> {
    Ok(HttpResponse { status, substitute: Some(Substitute::Challenge), ..HttpResponse::default() })
}

#[test]
fn a_challenge_blocks_its_site_and_the_second_one_ends_the_url() {
    for response in [page(CHALLENGE), challenged(202), challenged(403)] {
        let mut around = Surroundings::unlimited();
        around.client.on("https://a.example/", response.clone());
        around.request("https://a.example/", 1);
        around.request("https://a.example/other", 2);
        assert_eq!(around.kinds(), [some(OutcomeKind::Blocked, "challenge"), some(OutcomeKind::Deferred, "blocked")]);
        assert_eq!(around.outcomes()[0].blocked_until_ms, None, "the rate-limiter decides");

        let mut again = Surroundings::unlimited();
        again.client.on("https://a.example/", response);
        let mut second = again.ready("https://a.example/", 3);
        second.dispatch.blocks = 1;
        again.deliver(&second);
        again.settle();
        assert_eq!(again.kinds(), [some(OutcomeKind::Gone, "challenge")]);
        for around in [around, again] {
            assert_eq!(around.records(topic::PAGES), []);
            around.assert_all_complete();
        }
    }
}

#[test]
fn a_challenge_with_status_429_or_503_is_a_refusal_like_any_other() {
    for status in [429, 503] {
        let mut around = Surroundings::unlimited();
        around.client.on("https://a.example/", challenged(status));
        let mut second = around.ready("https://a.example/", 3);
        second.dispatch.blocks = 1;
        around.deliver(&second);
        around.settle();
        assert_eq!(around.kinds(), [some(OutcomeKind::Blocked, &format!("http_{status}"))]);
    }
}

#[test]
fn a_page_that_says_that_it_does_not_exist_is_gone_and_no_document_is_made_of_it() {
    let mut around = Surroundings::unlimited();
    around.client.on("https://a.example/", page(NOT_FOUND));
    around
        .client
        .on("https://b.example/", page("<p>The requested URL was rejected. Please consult with your administrator."));
    around.client.on("https://c.example/", page("<html data-adblockkey=\"x\"><a href=/>Related links</a>"));
    for (sequence, site) in (1..).zip(["a", "b", "c"]) {
        around.request(&format!("https://{site}.example/"), sequence);
    }
    let reasons = ["soft_404", "firewall", "parked"].map(|reason| some(OutcomeKind::Gone, reason));
    assert_eq!(around.kinds(), reasons);
    assert_eq!(around.outcomes()[0].status, Some(200));
    assert_eq!(around.records(topic::PAGES), []);
    around.assert_all_complete();
}

#[test]
fn the_archive_of_a_crawl_has_the_page_that_was_sent_instead() {
    let mut around = Surroundings::new(FetcherConfig { archive: true, ..unlimited() });
    let answer = page(NOT_FOUND).map(|answer| HttpResponse { capture: Some(Box::default()), ..answer });
    around.client.on("https://a.example/", answer);
    around.request("https://a.example/", 1);
    assert_eq!(around.kinds(), [some(OutcomeKind::Gone, "soft_404")]);
    let records = around.records(topic::PAGES);
    let header = records[0].headers.iter().find(|(name, _)| *name == "page").map(|(_, value)| value);
    let page: Page = decode("page", header).unwrap();
    assert_eq!(
        (page.kind, records[0].value.as_deref(), records.len()),
        (PageKind::Response, Some(NOT_FOUND.as_bytes()), 1)
    );
}

#[test]
fn nothing_is_recognized_if_the_configuration_says_so() {
    let mut around = Surroundings::new(FetcherConfig { detect_substitutes: false, ..unlimited() });
    around.client.on("https://a.example/", page(NOT_FOUND));
    around.client.on("https://b.example/", challenged(403));
    around.request("https://a.example/", 1);
    around.request("https://b.example/", 2);
    assert_eq!(around.kinds(), [(OutcomeKind::Fetched, None), some(OutcomeKind::Gone, "http_403")]);
}

#[test]
fn only_html_is_read_for_messages() {
    let mut around = Surroundings::unlimited();
    around.define(5, "texts", |definition| definition.profile.accept = vec!["text/plain".to_owned()]);
    let answer = page(NOT_FOUND).map(|answer| HttpResponse { kind: PageKind::Other, ..answer });
    around.client.on("https://a.example/", answer);
    around.request("https://a.example/", 1);
    assert_eq!(around.kinds(), [(OutcomeKind::Fetched, None)]);
}

#[test]
fn a_challenge_that_search_engines_shall_not_show_is_a_challenge_whatever_the_purpose_of_the_crawl() {
    let mut around = Surroundings::unlimited();
    around.define(5, "default", |definition| definition.profile.purpose = Some(vec![CrawlPurpose::Search]));
    around.client.on("https://a.example/", page(&format!("<meta name=robots content=noindex>{CHALLENGE}")));
    around.client.on("https://b.example/", page("<meta name=robots content=noindex><p>Text"));
    around.request("https://a.example/", 1);
    around.request("https://b.example/", 2);
    assert_eq!(around.kinds(), [some(OutcomeKind::Blocked, "challenge"), some(OutcomeKind::Refused, "purpose")]);
}
