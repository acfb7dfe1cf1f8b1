//! Pages: links, text, requisites, other links, facts, main text.

use orbweaver_extractor::document::standalone;
use orbweaver_extractor::{ExtractorConfig, PageInput, extract};
use orbweaver_main_text::{MainText, MarkdownOptions};
use orbweaver_messages::{Document, decode, encode};
use orbweaver_url::{parse, site_of};

/// The input is a content type, a zero byte, and a body.
pub(crate) fn check(data: &[u8]) {
    let (content_type, body) = crate::split(data);
    let url = parse("http://a.example.com/d/p?q").unwrap();
    let content_type = std::str::from_utf8(content_type).ok();
    let headers = [("x-robots-tag".to_owned(), content_type.unwrap_or_default().to_owned())];
    let input = PageInput { url: &url, site: None, content_type, headers: &headers, body };
    let mut options = ExtractorConfig { feeds: true, requisites: 100, html: true, ..ExtractorConfig::default() };
    let page = extract(&input, &options);
    for link in page.links.iter().chain(&page.beyond) {
        let read = parse(&link.url).expect("a link can be crawled");
        assert_eq!(read.as_str(), link.url, "a link reads as itself");
        assert_eq!(site_of(&read), page.sites[link.site]);
    }
    for requisite in &page.requisites {
        assert_eq!(parse(&requisite.url).map(String::from).as_ref(), Ok(&requisite.url));
    }
    assert!(page.text.split(' ').all(|word| !word.is_empty()) || page.text.is_empty(), "text is folded");
    (options.facts, options.other_links) = (true, true);
    let document = standalone(&input, &"c".parse().unwrap(), 0, &options);
    let read: Document = decode("document", Some(&encode(&document))).expect("a document can be read");
    assert_eq!(encode(&read), encode(&document), "a document reads as it was written");
    assert_eq!(
        (read.links.len(), &read.text),
        (page.links.len(), &page.text),
        "facts and other links change nothing else"
    );
    for link in read.other_links.iter().flatten() {
        assert_eq!(parse(&link.url).map(String::from).as_ref(), Ok(&link.url), "another link reads as itself");
    }
}

/// The input is a body.
pub(crate) fn check_main_text(data: &[u8]) {
    let html = String::from_utf8_lossy(data);
    let url = parse("http://a.example.com/d/p?q").unwrap();
    for page in [MainText::of(&html), MainText::whole(&html)] {
        let text = page.text();
        assert_eq!(text.trim_matches('\n'), text);
        for images in [false, true] {
            let markdown = page.markdown(&url, MarkdownOptions { images });
            assert!(!markdown.contains('\0'), "{markdown:?}");
        }
    }
}
