//! Responses for the archive.

use orbweaver_messages::{Capture, Discovered, DiscoveryKind, PageKind, PageVersion, Protocol, REQUISITE_DEPTH};

use super::*;

/// Returns a response with the data for the archive.
fn captured(answer: Result<HttpResponse, FetchError>) -> Result<HttpResponse, FetchError> {
    let capture = Capture {
        requested_at_ms: 1,
        answered_at_ms: 2,
        address: Some("192.0.2.1".to_owned()),
        protocol: Protocol::Http2,
        request_headers: vec![("host".into(), "a.example".into())],
        ..Capture::default()
    };
    answer.map(|answer| HttpResponse { capture: Some(Box::new(capture)), ..answer })
}

/// Returns such a response that is not a page.
fn other(status: u16, location: Option<&str>) -> Result<HttpResponse, FetchError> {
    captured(Ok(HttpResponse {
        status,
        content_type: Some("image/png".into()),
        location: location.map(str::to_owned),
        headers: vec![("content-type".into(), "image/png".into())],
        body: Body::Read { bytes: b"not a page".to_vec(), truncated: false },
        kind: PageKind::Response,
        ..HttpResponse::default()
    }))
}

/// Returns surroundings in which the crawl `kept` is archived.
fn archiving(mut around: Surroundings) -> Surroundings {
    around.define(5, "kept", |definition| definition.profile.archive = Some(true));
    around
}

fn deliver(around: &mut Surroundings, crawl: &str, path: &str, sequence: u64) {
    let mut ready = around.ready(&format!("https://a.example/{path}"), sequence);
    let context = &mut ready.dispatch.context;
    context.crawl = crawl.parse().unwrap();
    context.fingerprint = Fingerprint::of(&context.crawl, &context.url);
    around.deliver(&ready);
    around.pass(100);
}

/// Returns the page records with their bodies.
fn pages(around: &Surroundings) -> Vec<(Page, Vec<u8>)> {
    let page = |record: &Record| {
        let header = record.headers.iter().find(|(name, _)| *name == "page").map(|(_, value)| value);
        (decode("page", header).unwrap(), record.value.as_deref().unwrap().to_vec())
    };
    around.records(topic::PAGES).iter().map(page).collect()
}

#[test]
fn a_requisite_of_any_type_is_fetched_and_the_target_of_its_redirect_is_one() {
    let mut around = Surroundings::unlimited();
    around.define(5, "kept", |definition| {
        (definition.profile.archive, definition.profile.requisites) = (Some(true), Some(7));
    });
    // As the client reads it.
    let image = captured(Ok(HttpResponse { kind: PageKind::Other, ..other(200, None).unwrap() }));
    around.client.on("https://a.example/image", image);
    around.client.on("https://a.example/moved", other(301, Some("https://b.example/image")));
    for (sequence, path) in ["image", "moved"].into_iter().enumerate() {
        let mut ready = around.ready(&format!("https://a.example/{path}"), sequence as u64);
        let context = &mut ready.dispatch.context;
        (context.crawl, context.sighting) = ("kept".parse().unwrap(), DiscoveryKind::Requisite);
        context.depth = REQUISITE_DEPTH;
        around.deliver(&ready);
        around.pass(100);
    }
    let kinds: Vec<_> = around.outcomes().iter().map(|outcome| outcome.kind).collect();
    assert_eq!(kinds, [OutcomeKind::Fetched, OutcomeKind::Redirected]);
    let (page, body) = &pages(&around)[0];
    assert_eq!((page.kind, page.requisites, body.is_empty()), (PageKind::Other, Some(7), false));
    let found = around.records(topic::DISCOVERED);
    let found: Vec<Discovered> =
        found.iter().map(|record| decode("discovered", record.value.as_ref()).unwrap()).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].sighting, found[0].depth), (DiscoveryKind::Requisite, REQUISITE_DEPTH));
}

#[test]
fn every_response_of_an_archived_crawl_precedes_its_outcome_which_is_that_without_an_archive() {
    let answers = [
        ("page", captured(page("hello"))),
        ("gone", other(404, None)),
        ("moved", other(301, Some("https://b.example/"))),
        ("image", other(200, None)),
        ("error", other(500, None)),
        ("busy", other(503, None)),
    ];
    let run = |crawl: &str| {
        let mut around = archiving(Surroundings::unlimited());
        for (sequence, (path, answer)) in answers.iter().enumerate() {
            around.client.on(&format!("https://a.example/{path}"), answer.clone());
            deliver(&mut around, crawl, path, sequence as u64);
        }
        around.assert_all_complete();
        around
    };
    let (kept, plain) = (run("kept"), run("plain"));
    assert_eq!(kept.kinds(), plain.kinds());
    assert_eq!(pages(&plain).len(), 1, "only the page");
    let found: Vec<_> = pages(&kept).into_iter().map(|(page, body)| (page.kind, page.status, body)).collect();
    let response = |status| (PageKind::Response, status, b"not a page".to_vec());
    let expected = [404, 301, 200, 500, 503].map(response);
    assert_eq!(found[0], (PageKind::Html, 200, b"hello".to_vec()));
    assert_eq!(found[1..], expected);
    let capture = pages(&kept)[1].0.capture.clone().unwrap();
    assert_eq!(
        (capture.address.as_deref(), capture.protocol, capture.unchanged),
        (Some("192.0.2.1"), Protocol::Http2, false)
    );
    let topics = kept.durable.iter().filter_map(|durable| match durable {
        Durable::Record(record) if [topic::PAGES, topic::OUTCOMES].contains(&record.tp.topic) => Some(record.tp.topic),
        _ => None,
    });
    let pairs: Vec<_> = topics.collect();
    assert!(pairs.chunks(2).all(|pair| pair == [topic::PAGES, topic::OUTCOMES]), "{pairs:?}");
}

#[test]
fn the_responses_of_a_redirect_to_itself_are_all_archived() {
    let mut around = archiving(Surroundings::unlimited());
    around.client.on("https://a.example/x", other(302, Some("/x")));
    around.client.on("https://a.example/x", captured(page("hello")));
    deliver(&mut around, "kept", "x", 0);
    around.pass(5000);
    let found: Vec<_> = pages(&around).into_iter().map(|(page, _)| page.status).collect();
    assert_eq!(around.kinds(), [(OutcomeKind::Fetched, None)]);
    assert_eq!(found, [302, 200]);
    around.assert_all_complete();
}

#[test]
fn a_page_that_has_not_changed_is_archived_as_such_and_is_no_page_again() {
    let mut around = archiving(Surroundings::unlimited());
    for (sequence, (path, answer)) in
        [("same", captured(page("hello"))), ("still", other(304, None))].into_iter().enumerate()
    {
        around.client.on(&format!("https://a.example/{path}"), answer);
        let mut ready = around.ready(&format!("https://a.example/{path}"), sequence as u64);
        ready.dispatch.context.crawl = "kept".parse().unwrap();
        let content_hash = Some(crate::body::pack(b"hello".to_vec(), false, false, 99).content_hash);
        ready.dispatch.known = Some(PageVersion { content_hash, ..PageVersion::default() });
        around.deliver(&ready);
        around.pass(100);
    }
    assert_eq!(around.kinds(), [(OutcomeKind::Unchanged, None), (OutcomeKind::Unchanged, None)]);
    for (page, _) in pages(&around) {
        assert!(page.kind == PageKind::Response && page.capture.unwrap().unchanged, "{}", page.status);
    }
    assert_eq!(pages(&around).len(), 2);
}

#[test]
fn a_robots_txt_is_archived_before_it_is_stored() {
    let mut around = archiving(with_robots(captured(robots("User-agent: *\nDisallow: /no\n"))));
    around.client.on("https://a.example/x", captured(page("hello")));
    deliver(&mut around, "kept", "x", 0);
    around.pass(5000);
    let (robots, body) = pages(&around).remove(0);
    assert_eq!(
        (robots.kind, &*robots.context.url, &*body),
        (PageKind::Robots, ROBOTS, &b"User-agent: *\nDisallow: /no\n"[..])
    );
    let is_row = |durable: &Durable| matches!(durable, Durable::Row(Write::Robots(_)));
    let is_page = |durable: &Durable| matches!(durable, Durable::Record(record) if record.tp.topic == topic::PAGES);
    assert!(around.durable.iter().position(is_page) < around.durable.iter().position(is_row));
    around.assert_all_complete();
}
