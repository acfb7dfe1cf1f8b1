//! Pages whose sites refuse their use for a purpose of the crawl.

use orbweaver_messages::{Capture, CrawlPurpose, PageKind, Protocol};

use super::*;

const REFUSED: (OutcomeKind, &str) = (OutcomeKind::Refused, "purpose");

/// Returns polite surroundings with this robots.txt, in which the crawl `made` has these purposes.
fn with_purposes(text: &str, purposes: &[CrawlPurpose]) -> Surroundings {
    let mut around = with_robots(robots(text));
    around.define(5, "made", |definition| definition.profile.purpose = Some(purposes.to_vec()));
    around
}

/// Performs a dispatch of a crawl.
fn perform(around: &mut Surroundings, crawl: &str, path: &str, sequence: u64) {
    let mut ready = around.ready_every(100, &format!("https://a.example/{path}"), sequence);
    ready.dispatch.context.crawl = crawl.parse().unwrap();
    around.deliver(&ready);
    around.pass(1000);
}

/// Returns a page with an additional header.
fn stated(text: &str, name: &str, value: &str) -> Result<HttpResponse, FetchError> {
    page(text).map(|mut answer| {
        answer.headers.push((name.to_owned(), value.to_owned()));
        answer
    })
}

fn assert_ends(around: &Surroundings, ends: &[(OutcomeKind, &str)]) {
    let kinds = around.kinds();
    let found: Vec<_> = kinds.iter().map(|(kind, reason)| (*kind, reason.as_deref().unwrap_or_default())).collect();
    assert_eq!(found, ends);
    around.assert_all_complete();
}

/// Returns the number of refusals for a purpose by a source.
fn counted(around: &Surroundings, purpose: &str, source: &str) -> u64 {
    around.stage.metrics.refusals(purpose, source)
}

#[test]
fn a_page_that_robots_txt_refuses_for_a_purpose_is_not_requested_and_another_crawl_requests_it_with_the_same_file() {
    let text = "User-agent: *\nContent-Signal: search=yes, ai-train=no\nContent-Usage: /shut search=n\n";
    let mut around = with_purposes(text, &[CrawlPurpose::AiTrain, CrawlPurpose::AiInput]);
    around.define(6, "found", |definition| definition.profile.purpose = Some(vec![CrawlPurpose::Search]));
    around.client.on("https://a.example/one", page("hello"));
    around.client.on("https://a.example/shut", page("hello"));
    for (sequence, (crawl, path)) in
        [("made", "one"), ("plain", "one"), ("found", "one"), ("found", "shut"), ("plain", "shut")]
            .into_iter()
            .enumerate()
    {
        perform(&mut around, crawl, path, sequence as u64);
    }
    let fetched = (OutcomeKind::Fetched, "");
    assert_ends(&around, &[REFUSED, fetched, fetched, REFUSED, fetched]);
    let requested = [ROBOTS, "https://a.example/one", "https://a.example/one", "https://a.example/shut"];
    assert_eq!(around.asked(), requested);
    assert_eq!(around.outcomes()[0].requested_at_ms, None);
    assert_eq!((counted(&around, "ai-train", "robots_txt"), counted(&around, "search", "robots_txt")), (1, 1));
    assert_eq!(counted(&around, "ai-input", "robots_txt"), 0);
}

#[test]
fn a_page_that_its_headers_or_its_markup_refuse_is_no_page_of_the_crawl() {
    let mut around = with_purposes("", &[CrawlPurpose::Search, CrawlPurpose::AiTrain]);
    around.client.on("https://a.example/head", stated("hello", "X-Robots-Tag", "testbot: noindex"));
    around.client.on("https://a.example/signal", stated("hello", "content-usage", "train-ai=n"));
    around.client.on("https://a.example/meta", page("<meta name=robots content='noindex, noai'><p>hello"));
    around.client.on("https://a.example/open", stated("<meta name=robots content=noarchive>", "x-robots-tag", "all"));
    for (sequence, path) in ["head", "signal", "meta", "open"].into_iter().enumerate() {
        perform(&mut around, "made", path, sequence as u64);
    }
    assert_ends(&around, &[REFUSED, REFUSED, REFUSED, (OutcomeKind::Fetched, "")]);
    assert_eq!(around.records(topic::PAGES).len(), 1);
    let refused = &around.outcomes()[2];
    assert_eq!((refused.status, refused.bytes), (Some(200), 0));
    assert_eq!((counted(&around, "search", "header"), counted(&around, "search", "meta")), (1, 1));
    assert_eq!((counted(&around, "ai-train", "header"), counted(&around, "ai-train", "meta")), (1, 1));
    for (sequence, path) in ["head", "signal", "meta"].into_iter().enumerate() {
        perform(&mut around, "plain", path, 10 + sequence as u64);
    }
    assert_eq!(around.records(topic::PAGES).len(), 4, "a crawl without a purpose keeps all");
}

#[test]
fn what_a_site_refuses_to_an_archive_is_not_archived_whatever_its_status() {
    let capture = Capture {
        requested_at_ms: 1,
        answered_at_ms: 2,
        address: None,
        protocol: Protocol::Http2,
        request_headers: vec![],
        ..Capture::default()
    };
    let captured = |answer: Result<HttpResponse, FetchError>, kind| {
        answer.map(|answer| HttpResponse { capture: Some(Box::new(capture.clone())), kind, ..answer })
    };
    let error = |value: &str| {
        let answer = stated("gone", "x-robots-tag", value).map(|answer| HttpResponse { status: 404, ..answer });
        captured(answer, PageKind::Response)
    };
    let mut around = polite();
    let robots = |value: &str| {
        robots("").map(|mut answer| {
            answer.headers.push(("x-robots-tag".to_owned(), value.to_owned()));
            answer
        })
    };
    around.client.on(ROBOTS, captured(robots("noarchive"), PageKind::Html));
    around.define(5, "made", |definition| {
        definition.profile.archive = Some(true);
        definition.profile.purpose = Some(vec![CrawlPurpose::Archive, CrawlPurpose::Search]);
    });
    around.client.on("https://a.example/page", captured(stated("hello", "x-robots-tag", "noarchive"), PageKind::Html));
    around.client.on("https://a.example/meta", captured(page("<meta name=robots content=noarchive>"), PageKind::Html));
    around.client.on("https://a.example/gone", error("noarchive"));
    around.client.on("https://a.example/lost", error("noindex"));
    for (sequence, path) in ["page", "meta", "gone", "lost"].into_iter().enumerate() {
        perform(&mut around, "made", path, sequence as u64);
    }
    let gone = (OutcomeKind::Gone, "http_404");
    assert_ends(&around, &[REFUSED, REFUSED, gone, gone]);
    let pages = around.records(topic::PAGES);
    assert_eq!(pages.len(), 1, "the error that is no page, and may be archived");
    assert_eq!(counted(&around, "archive", "header"), 1, "of pages alone");
}

#[test]
fn a_sitemap_that_must_not_be_found_leads_to_pages_all_the_same() {
    let mut around = with_purposes("User-agent: *\nContent-Signal: search=no", &[CrawlPurpose::Search]);
    let sitemap = stated("<urlset/>", "x-robots-tag", "noindex");
    let sitemap = sitemap.map(|answer| HttpResponse { kind: PageKind::Sitemap, ..answer });
    around.client.on("https://a.example/sitemap.xml", sitemap);
    let mut ready = around.ready_every(100, "https://a.example/sitemap.xml", 0);
    let context = &mut ready.dispatch.context;
    (context.crawl, context.sighting) = ("made".parse().unwrap(), DiscoveryKind::Sitemap);
    around.deliver(&ready);
    around.pass(1000);
    assert_ends(&around, &[(OutcomeKind::Fetched, "")]);
}
