//! Messages that result from an extracted page.

use std::ops::Range;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use orbweaver_log::TopicPartition;
use orbweaver_messages::topic::DISCOVERED;
use orbweaver_messages::{
    BodyEncoding, Discovered, DiscoveryKind, Document, DocumentLink, Millis, Page, PageKind, REQUISITE_DEPTH,
    SeedMetadata, Trail, Truncated, UrlContext, depth_of_requisites, encoded_len, json_len,
};
use orbweaver_store::{DeclaredCanonical, LinksOut};
use orbweaver_url::{CrawlName, Fingerprint, Policy};

use crate::ExtractorConfig;
use crate::extract::{Extracted, Followed, PageInput, extract_after};
use crate::job::produced;
use crate::links::{Link, Requisite, without_fragment};
use crate::pass::Progress;

/// Last millisecond of the year 9999, since the Unix epoch: RFC 3339 has four digits for a year.
const LAST_MS: Millis = 253_402_300_799_999;

#[must_use]
pub fn document(page: Page, extracted: Extracted) -> Document {
    let mut truncated = page.truncated;
    truncated |= extracted.truncated;
    let whole = |kept: usize, total: usize| u64::try_from(total).ok().filter(|_| kept < total);
    let links_total = whole(extracted.links.len(), extracted.links_total);
    let text_bytes = whole(extracted.text.len(), extracted.text_bytes);
    let link = |Link { url, text, rel, kind, .. }| DocumentLink { url, text, rel, kind };
    let links = extracted.links.into_iter().map(link);
    let context = page.context;
    Document {
        url: context.key().to_owned(),
        links: links.collect(),
        other_links: extracted.other_links,
        fetched_url: context.url,
        redirects: context.chain,
        status: page.status,
        content_type: page.content_type,
        fetched_at: rfc3339(page.fetched_at_ms),
        depth: context.depth,
        title: extracted.title,
        text: extracted.text,
        main_text: extracted.main_text,
        markdown: extracted.markdown,
        crawl: context.crawl,
        fingerprint: context.fingerprint,
        site: context.site,
        via: context.via,
        metadata: context.metadata,
        visit: context.visit,
        listed_modified: context.listed_modified_ms.map(rfc3339),
        canonical: extracted.canonical,
        language: extracted.language,
        description: extracted.description,
        facts: extracted.facts,
        charset: extracted.charset.to_owned(),
        robots: extracted.robots,
        bytes: page.body_bytes,
        truncated,
        links_total,
        text_bytes,
        needs_render: extracted.needs_render,
        content_hash: page.content_hash,
        html: extracted.html,
        signature: extracted.signature,
        near_duplicate_of: None,
    }
}

/// Returns the discovered URLs of a pass over a page: a record for each linked site, and further ones where a record
/// would become too large. `content` is the hash of the page's [`content`].
#[must_use]
pub fn discovered(
    page: &Page,
    extracted: &Extracted,
    content: Option<u32>,
    now: Millis,
    config: &ExtractorConfig,
) -> Vec<Discovered> {
    let (context, mut records) = (&page.context, Vec::new());
    for Followed { site, sighting, urls, modified_ms } in extracted.followed(&context.url, config.follow_nofollow) {
        let found = Discovered {
            depth: context.depth.saturating_add(1).min(REQUISITE_DEPTH - 1),
            sighting,
            // Entries of a sitemap are like seeds: no links lead to them.
            trail: if page.kind == PageKind::Sitemap { Trail::default() } else { context.trail.clone() },
            // Only links within the site can be part of a trap.
            content: content.filter(|_| *site == context.site),
            ..found_on(page, site, now)
        };
        add_records(&mut records, &found, (&urls, &modified_ms), config);
    }
    records
}

/// Returns the discovered requisites of a page, or of a style sheet, whose sites are among `sites`.
#[must_use]
pub fn requisites(
    page: &Page,
    (requisites, sites): (&[Requisite], &[String]),
    now: Millis,
    config: &ExtractorConfig,
) -> Vec<Discovered> {
    let Some(depth) = depth_of_requisites(page.context.depth) else { return vec![] };
    let mut urls: Vec<Vec<&str>> = vec![vec![]; sites.len()];
    for Requisite { url, site } in requisites {
        urls[*site].push(url);
    }
    let mut records = Vec::new();
    for (site, urls) in sites.iter().zip(urls).filter(|(_, urls)| !urls.is_empty()) {
        // Requisites lead to no pages, and need no trail.
        let found = Discovered { depth, sighting: DiscoveryKind::Requisite, ..found_on(page, site, now) };
        add_records(&mut records, &found, (&urls, &[]), config);
    }
    records
}

/// Returns a record of URLs of a site that were discovered on a page, without URLs.
fn found_on(page: &Page, site: &str, now: Millis) -> Discovered {
    Discovered {
        crawl: page.context.crawl.clone(),
        site: site.into(),
        via: Some(page.context.url.clone()),
        depth: 0,
        sighting: DiscoveryKind::Link,
        chain: Vec::new(),
        trail: Trail::default(),
        content: None,
        priority: page.context.priority,
        metadata: SeedMetadata::default(),
        urls: Vec::new(),
        modified_ms: Vec::new(),
        found_at_ms: now,
    }
}

/// Length of a modification time in JSON with a comma, at most up to the year 9999.
const TIME_BYTES: usize = 16;

/// Adds the record `found` with these URLs and their modification times, and further ones where it would become too large.
fn add_records(
    records: &mut Vec<Discovered>,
    found: &Discovered,
    (urls, modified_ms): (&[&str], &[Millis]),
    config: &ExtractorConfig,
) {
    let framing = produced(TopicPartition::new(DISCOVERED, 0), &found.site, Bytes::new(), found.found_at_ms).bytes();
    let room = config.record_limit.saturating_sub(framing + encoded_len(found)).min(config.max_discovered_bytes);
    let time_bytes = if modified_ms.is_empty() { 0 } else { TIME_BYTES };
    let (mut first, mut bytes) = (0, 0);
    let mut add = |batch: Range<usize>| {
        let dated = batch.start..batch.end.min(modified_ms.len());
        let modified_ms = modified_ms.get(dated).unwrap_or_default().to_vec();
        let urls = urls[batch].iter().map(|url| (*url).to_owned()).collect();
        records.push(Discovered { urls, modified_ms, ..found.clone() });
    };
    for (index, url) in urls.iter().enumerate() {
        // Including the quotes and a comma.
        let size = json_len(url) + 1 + time_bytes;
        if index > first && (index - first == config.max_discovered_urls || bytes + size > room) {
            add(first..index);
            (first, bytes) = (index, 0);
        }
        bytes += size;
    }
    add(first..urls.len());
}

/// Returns a hash of a page's content after its first pass, if its crawl detects traps (its trail then has the page's
/// own pattern).
#[must_use]
pub fn content(page: &Page, extracted: &Extracted) -> Option<u32> {
    let links = extracted.links.iter().map(|link| &*link.url);
    let texts = [&*extracted.title, &*extracted.text];
    if page.context.trail.is_empty() || page.kind == PageKind::Sitemap {
        None
    } else {
        orbweaver_patterns::digest(&texts, &page.context.url, links)
    }
}

/// Returns the links of a page for the store. A page without links has an empty list, so that it replaces an older
/// one.
#[must_use]
pub fn links_out(page: &Page, extracted: &Extracted) -> LinksOut {
    LinksOut {
        fingerprint: page.context.fingerprint,
        at_ms: page.event_ms(),
        links: extracted.targets(),
        canonical: extracted.canonical.as_deref().map(|url| declared(&page.context, url)),
    }
}

/// Returns the canonical URL that a page declares, in the form of the store.
fn declared(context: &UrlContext, url: &str) -> DeclaredCanonical {
    let is_own = url == context.url || url == context.key();
    if is_own { DeclaredCanonical::Own } else { DeclaredCanonical::Other(url.to_owned()) }
}

/// Returns the document that `crawl` would write for a body fetched from `url` at `fetched_at_ms` with status 200.
#[must_use]
pub fn standalone(
    input: &PageInput<'_>,
    crawl: &CrawlName,
    fetched_at_ms: Millis,
    options: &ExtractorConfig,
) -> Document {
    let canonical = Policy::STANDARD.canonical_text(input.url).into_owned();
    let url = without_fragment(input.url.clone());
    let page = Page {
        context: UrlContext {
            fingerprint: Fingerprint::of(crawl, &canonical),
            key: (canonical != url).then_some(canonical),
            ..UrlContext::of_seed(crawl.clone(), url, options.wide_domains.site_of(input.url).into())
        },
        kind: PageKind::Html,
        status: 200,
        content_type: input.content_type.map(str::to_owned),
        headers: Vec::new(),
        fetched_at_ms,
        written_at_ms: None,
        visited_at_ms: None,
        encoding: BodyEncoding::Identity,
        body_bytes: input.body.len() as u64,
        content_encoding: None,
        encoded_bytes: None,
        truncated: Truncated::default(),
        content_hash: format!("{:032x}", xxhash_rust::xxh3::xxh3_128(input.body)),
        attempt: 1,
        agent: None,
        html: None,
        main_text: None,
        markdown: None,
        facts: None,
        other_links: None,
        near_duplicates: None,
        feeds: false,
        requisites: None,
        capture: None,
    };
    let extracted = extract_after(input, options, 0);
    let mut progress = Progress::default().after(&extracted);
    let body_bytes = input.body.len().min(options.max_body_bytes);
    // Further links are counted.
    while extracted.is_followed(options.follow_nofollow) && progress.continues(body_bytes) {
        progress = progress.after(&extract_after(input, &options.without_document(), progress.read));
    }
    document(page, extracted.with_counts(&progress))
}

/// Formats a time as RFC 3339 in UTC with milliseconds. A time before 1970 or after 9999 becomes the nearest one
/// within.
#[must_use]
pub fn rfc3339(at_ms: Millis) -> String {
    let since = Duration::from_millis(u64::try_from(at_ms.min(LAST_MS)).unwrap_or(0));
    humantime::format_rfc3339_millis(UNIX_EPOCH + since).to_string()
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;
    use crate::extract;

    fn page() -> Page {
        serde_json::from_str(
            r#"{"context":{"crawl":"c","fingerprint":"00112233445566778899aabbccddeeff","url":"http://a.test/",
                "site":"a.test","depth":3,"sighting":"seed"},"status":200,"fetched_at_ms":1700000000123,
                "encoding":"identity","body_bytes":1,"content_hash":"0","attempt":1}"#,
        )
        .unwrap()
    }

    fn extracted(html: &str) -> Extracted {
        let url = Url::parse("http://a.test/").unwrap();
        let input =
            PageInput { url: &url, site: Some("a.test"), content_type: None, headers: &[], body: html.as_bytes() };
        extract(&input, &ExtractorConfig::default())
    }

    #[test]
    fn moments_are_written_with_milliseconds_and_never_panic() {
        assert_eq!(rfc3339(1_700_000_000_123), "2023-11-14T22:13:20.123Z");
        assert_eq!(rfc3339(Millis::MIN), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(Millis::MAX), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn there_is_one_record_a_linked_site_and_each_url_is_in_it_once() {
        let page_says = extracted(
            "<a href=/x>1</a><a href=http://b.test/>2</a><a href=/x#f>3</a><a href=/>self</a><a href=/y>4</a>",
        );
        let records = discovered(&page(), &page_says, None, 7, &ExtractorConfig::default());
        let summary: Vec<_> = records.iter().map(|r| (&*r.site, r.urls.join(" "))).collect();
        assert_eq!(
            summary,
            [("a.test", "http://a.test/x http://a.test/y".to_owned()), ("b.test", "http://b.test/".to_owned())]
        );
        assert_eq!(
            (records[0].depth, records[0].via.as_deref(), records[0].found_at_ms),
            (4, Some("http://a.test/"), 7)
        );
    }

    #[test]
    fn links_on_a_page_with_a_base_of_another_site_are_of_that_site() {
        let page_says =
            extracted("<base href=http://b.test/d/><a href=/x>1</a><a href=y>2</a><a href=//a.test/z>3</a>");
        let records = discovered(&page(), &page_says, None, 7, &ExtractorConfig::default());
        let summary: Vec<_> = records.iter().map(|r| (&*r.site, r.urls.join(" "))).collect();
        let of_base = "http://b.test/x http://b.test/d/y".to_owned();
        assert_eq!(summary, [("a.test", "http://a.test/z".to_owned()), ("b.test", of_base)]);
    }

    #[test]
    fn a_trail_is_handed_on_and_what_the_page_says_goes_with_the_links_of_its_own_site() {
        let links = "<a href=/x>1</a><a href=http://b.test/>2</a>";
        let found = |page: &Page, text: &str| {
            let says = extracted(&format!("<title>T</title>{text}{links}"));
            let found = discovered(page, &says, content(page, &says), 0, &ExtractorConfig::default());
            (found[0].trail.clone(), found[0].content, found[1].content)
        };
        let mut on_a_trail = page();
        on_a_trail.context.trail = on_a_trail.context.trail.through(orbweaver_messages::Pattern(7));
        let (trail, content, elsewhere) = found(&on_a_trail, "October 2026");
        assert_eq!((trail, elsewhere), (on_a_trail.context.trail.clone(), None));
        assert!(content.is_some());
        assert_eq!(found(&on_a_trail, "October 2027").1, content);
        assert_ne!(found(&on_a_trail, "November 2026").1, content);
        assert_eq!(found(&page(), "October 2026").1, None, "not requested");
    }

    #[test]
    fn metadata_of_a_seed_is_in_its_document_and_not_passed_on_to_its_links() {
        let mut page = page();
        let metadata = std::collections::BTreeMap::from([("customer".to_owned(), "42".to_owned())]);
        page.context.metadata = metadata.try_into().unwrap();
        let found = discovered(&page, &extracted("<a href=/x>x</a>"), None, 0, &ExtractorConfig::default());
        assert!(found[0].metadata.is_empty());
        let metadata = page.context.metadata.clone();
        assert_eq!(document(page, extracted("x")).metadata, metadata);
    }

    #[test]
    fn a_record_that_would_become_too_large_goes_on_in_another() {
        let html: String = (0..10).map(|i| format!("<a href=/{i}>x</a>")).collect();
        let config = ExtractorConfig { max_discovered_urls: 4, ..ExtractorConfig::default() };
        let lengths: Vec<_> =
            discovered(&page(), &extracted(&html), None, 0, &config).iter().map(|r| r.urls.len()).collect();
        assert_eq!(lengths, [4, 4, 2]);
        let config = ExtractorConfig { max_discovered_bytes: 36, ..ExtractorConfig::default() };
        let lengths: Vec<_> =
            discovered(&page(), &extracted(&html), None, 0, &config).iter().map(|r| r.urls.len()).collect();
        assert_eq!(lengths, [2, 2, 2, 2, 2]);
    }

    #[test]
    fn nofollow_links_are_kept_and_not_followed_unless_wanted() {
        let page_says = extracted(
            "<a href=/x rel='external NoFollow'>1</a><a href=/y rel=ugc>2</a><a href=/z rel=nofollow>3</a><a href=/z>4</a>",
        );
        let mut config = ExtractorConfig::default();
        assert_eq!(discovered(&page(), &page_says, None, 0, &config)[0].urls, ["http://a.test/y", "http://a.test/z"]);
        let targets: Vec<_> = links_out(&page(), &page_says).links.into_iter().map(|(_, nofollow)| nofollow).collect();
        assert_eq!(targets, [true, false, false]);
        config.follow_nofollow = true;
        assert_eq!(discovered(&page(), &page_says, None, 0, &config)[0].urls.len(), 3);
        assert_eq!(document(page(), page_says).links.len(), 4);
    }

    #[test]
    fn the_store_has_the_declared_canonical_url_as_own_or_other() {
        let declared = |head: &str| links_out(&page(), &extracted(head)).canonical;
        let own = page().context.url;
        assert_eq!(declared("<p>none"), None);
        assert_eq!(declared(&format!("<link rel=canonical href='{own}#top'>")), Some(DeclaredCanonical::Own));
        let other = Some(DeclaredCanonical::Other("http://a.test/other".to_owned()));
        assert_eq!(declared("<link rel=canonical href=/other>"), other);
    }

    #[test]
    fn a_page_that_says_nofollow_leads_nowhere_unless_wanted() {
        let page_says = extracted("<meta name=robots content=nofollow><a href=/x>1</a>");
        let mut config = ExtractorConfig::default();
        assert_eq!(discovered(&page(), &page_says, None, 0, &config), []);
        assert_eq!(links_out(&page(), &page_says).links, [("http://a.test/x".to_owned(), true)]);
        config.follow_nofollow = true;
        assert_eq!(discovered(&page(), &page_says, None, 0, &config).len(), 1);
    }

    #[test]
    fn a_document_without_a_crawl_is_as_the_crawl_would_write_it() {
        let url = Url::parse("http://a.test/?b=1&a=2#f").unwrap();
        let input =
            PageInput { url: &url, site: None, content_type: None, headers: &[], body: b"<title> T\n1 </title>x" };
        let document = standalone(&input, &CrawlName::default(), 0, &ExtractorConfig::default());
        assert_eq!((document.title.as_str(), document.text.as_str(), document.bytes), ("T 1", "x", 21));
        assert_eq!(document.fetched_url, "http://a.test/?b=1&a=2");
        assert_eq!(document.fingerprint, Fingerprint::of(&CrawlName::default(), &document.url));
        assert_eq!(document.content_hash.len(), 32);
    }
}
