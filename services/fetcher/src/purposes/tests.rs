use orbweaver_messages::FetchProfile;
use proptest::prelude::*;

use super::*;
use crate::config::FetcherConfig;

fn profile(purposes: &[CrawlPurpose]) -> RequestProfile {
    let profile = FetchProfile { purpose: Some(purposes.to_vec()), ..FetchProfile::default() };
    RequestProfile::of_crawl(&FetcherConfig::default(), &profile)
}

fn names(refusal: Option<PurposeRefusal>) -> String {
    let names = refusal.iter().flat_map(|refusal| refusal.purposes.iter().map(CrawlPurpose::name));
    names.collect::<Vec<_>>().join(" ")
}

fn meta(page: &str) -> String {
    names(by_meta(&profile(&CrawlPurpose::ALL), page.as_bytes()))
}

/// Returns a response with status 200, of this kind and with these headers, to a crawl for search and archive.
fn answer(kind: PageKind, directives: &str) -> HttpResponse {
    let headers = [("x-robots-tag", Cow::from(directives.to_owned()))];
    let refusal = by_headers(&profile(&[CrawlPurpose::Search, CrawlPurpose::Archive]), None, headers);
    let body = Body::Read { bytes: b"<p>".to_vec(), truncated: false };
    HttpResponse { status: 200, body, kind, refusal, ..HttpResponse::default() }
}

#[test]
fn meta_elements_refuse_by_their_first_name_and_content_outside_of_comments_and_scripts() {
    for (page, refused) in [
        ("<meta name=robots content=noindex>", "search"),
        ("<META CONTENT='none' NAME='Robots'/>", "search archive"),
        (
            "<html><head><title>x</title><meta name=\"orbweaver\" content=\"noai, noarchive\">",
            "ai-input ai-train archive",
        ),
        ("<meta name=robots content=all><p><meta name=robots content=noindex>", "search"),
        ("<meta name=tdm-reservation content=1>", "ai-input ai-train"),
        (
            "<meta name=robots content=all content=noindex><meta name=robots name=x content=no&#97;i>",
            "ai-input ai-train",
        ),
        ("<meta name=robots><meta content=noindex><meta name=otherbot content=noindex>", ""),
        ("<metadata name=robots content=noindex></meta name=robots content=noindex>", ""),
        ("<!-- <meta name=robots content=noindex> --><title><meta name=robots content=noindex></title>", ""),
        ("<script>'<meta name=robots content=noindex>'</script>", ""),
        ("<meta name=robots content=noindex", ""),
    ] {
        assert_eq!(meta(page), refused, "{page}");
    }
}

#[test]
fn meta_elements_are_read_within_the_first_64_kib_of_a_page() {
    let at = |padding: usize| meta(&format!("{}<meta name=robots content=noindex>", " ".repeat(padding)));
    assert_eq!((at((64 << 10) - 34).as_str(), at((64 << 10) - 33).as_str()), ("search", ""));
}

#[test]
fn an_image_is_refused_by_its_own_directive_and_without_purposes_nothing_is() {
    let image = |purposes: &[CrawlPurpose]| {
        names(by_headers(&profile(purposes), Some(" Image/PNG"), [("X-Robots-Tag", Cow::from("noimageai, none"))]))
    };
    assert_eq!(image(&CrawlPurpose::ALL), "search ai-input ai-train archive");
    assert_eq!((image(&[CrawlPurpose::AiTrain]).as_str(), image(&[]).as_str()), ("ai-train", ""));
    assert_eq!(by_meta(&profile(&[]), b"<meta name=robots content=none>"), None);
}

#[test]
fn a_refused_page_has_no_body_and_a_sitemap_is_refused_for_the_archive_alone() {
    let concluded = |kind, directives: &str, purpose| {
        let mut answer = answer(kind, directives);
        let is_unread = is_unread(&answer, purpose);
        conclude(&mut answer, purpose, &profile(&[CrawlPurpose::Search, CrawlPurpose::Archive]));
        (is_unread, answer.body != Body::Unread, names(answer.refusal))
    };
    let refused = |names: &str| (true, false, names.to_owned());
    assert_eq!(concluded(PageKind::Html, "noindex", Purpose::Page), refused("search"));
    assert_eq!(concluded(PageKind::Other, "noindex", Purpose::Requisite), refused("search"));
    assert_eq!(concluded(PageKind::Html, "noai", Purpose::Page), (false, true, String::new()));
    assert_eq!(concluded(PageKind::Sitemap, "noindex", Purpose::Sitemap), (true, true, String::new()));
    assert_eq!(concluded(PageKind::Sitemap, "none", Purpose::Sitemap), refused("search archive"));
    assert_eq!(concluded(PageKind::Html, "noindex", Purpose::Robots), (false, true, String::new()));
    assert_eq!(concluded(PageKind::Html, "none", Purpose::Robots), (false, true, "search archive".to_owned()));
}

proptest! {
    #[test]
    fn any_page_is_read_and_one_that_is_refused_stays_so_with_more_elements(
        page in "(<|>|/|meta|name=|content=|robots|noindex|noai|orbweaver|!--|-->|<script>|\"|'| |\\PC){0,40}",
        bytes in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let profile = profile(&CrawlPurpose::ALL);
        let _ = by_meta(&profile, &bytes);
        let refused = |page: &str| by_meta(&profile, page.as_bytes()).map_or(Purposes::NONE, |found| found.purposes);
        let more = refused(&format!("<meta name=robots content=none>{page}"));
        prop_assert_eq!(more & refused(&page), refused(&page));
        prop_assert!(more.contains(CrawlPurpose::Search) && more.contains(CrawlPurpose::Archive));
    }
}
