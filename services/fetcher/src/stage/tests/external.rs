//! Requests for external URLs, of which only the existence matters.

use orbweaver_messages::{Discovered, DiscoveryKind, EXTERNAL_DEPTH};

use super::*;

/// Delivers dispatches of external URLs of an archived crawl for these paths, and lets them end.
fn check(around: &mut Surroundings, paths: &[&str]) {
    around.define(5, "kept", |definition| {
        definition.profile.archive = Some(true);
        definition.profile.sitemaps = Some(true);
        definition.profile.purpose = Some(CrawlPurpose::ALL.to_vec());
    });
    for (sequence, path) in paths.iter().enumerate() {
        let mut ready = around.ready(&format!("https://a.example/{path}"), sequence as u64);
        let context = &mut ready.dispatch.context;
        (context.crawl, context.sighting) = ("kept".parse().unwrap(), DiscoveryKind::External);
        context.depth = EXTERNAL_DEPTH;
        around.deliver(&ready);
        around.pass(100);
    }
    around.assert_all_complete();
}

/// Returns a response as the client returns it, without a body.
fn bare(status: u16, location: Option<&str>) -> Result<HttpResponse, FetchError> {
    Ok(HttpResponse { status, location: location.map(str::to_owned), ..HttpResponse::default() })
}

#[test]
fn an_external_url_exists_with_any_success_and_nothing_of_it_is_kept() {
    let mut around = Surroundings::unlimited();
    let paths = ["page", "empty", "gone", "forbidden"];
    for (path, status) in paths.into_iter().zip([200, 204, 404, 403]) {
        around.client.on(&format!("https://a.example/{path}"), bare(status, None));
    }
    check(&mut around, &paths);
    let ends: Vec<_> = around.outcomes().into_iter().map(|end| (end.kind, end.status, end.reason)).collect();
    let gone = |status: u16| (OutcomeKind::Gone, Some(status), Some(format!("http_{status}")));
    let exists = |status| (OutcomeKind::Fetched, Some(status), None);
    assert_eq!(ends, [exists(200), exists(204), gone(404), gone(403)]);
    assert!(around.records(topic::PAGES).is_empty(), "no page and no response for the archive");
    assert!(around.records(topic::DISCOVERED).is_empty(), "no sitemap of another site");
}

#[test]
fn the_target_of_an_external_redirect_is_external() {
    let mut around = Surroundings::unlimited();
    around.client.on("https://a.example/moved", bare(301, Some("https://b.example/new")));
    check(&mut around, &["moved"]);
    let found = around.records(topic::DISCOVERED);
    let found: Vec<Discovered> =
        found.iter().map(|record| decode("discovered", record.value.as_ref()).unwrap()).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].sighting, found[0].depth), (DiscoveryKind::External, EXTERNAL_DEPTH));
    assert_eq!(found[0].urls, ["https://b.example/new"]);
}
