//! Kind of a page: by content type, else by the first bytes.

use orbweaver_messages::PageKind;
use orbweaver_scope::{is_html, is_within, media_type};

use crate::{client::Purpose, profile::RequestProfile};

/// Number of bytes examined for HTML (WHATWG MIME Sniffing section 5.2 reads at most 1445; a tag appears long before).
const HTML_BYTES: usize = 512;
/// Number of bytes examined for a sitemap or feed, which may begin with long comments.
const SITEMAP_BYTES: usize = 4096;

/// Kind of a response by its content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// HTML or XHTML.
    Page,
    /// Any other type.
    Other,
    /// No content type: the first bytes decide.
    Unknown,
}

/// Type of a body without one (RFC 9110 section 8.3).
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// Parses a content type. Parameters and case do not matter; an empty one is unknown.
fn kind_of(content_type: Option<&str>) -> Kind {
    let media_type = media_type(content_type);
    if media_type.is_empty() {
        Kind::Unknown
    } else if is_html(media_type) {
        Kind::Page
    } else {
        Kind::Other
    }
}

/// Returns `true` if a content type is within one of the media ranges.
fn is_accepted(content_type: Option<&str>, ranges: &[String]) -> bool {
    let media_type = Some(media_type(content_type)).filter(|known| !known.is_empty()).unwrap_or(UNKNOWN_TYPE);
    ranges.iter().any(|range| is_within(media_type, range))
}

/// Kinds of page that a body may be; its first bytes decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidates {
    html: bool,
    sitemap: bool,
    /// Kind of a body that is neither; `None`: such a body is not read.
    otherwise: Option<PageKind>,
}

impl Candidates {
    /// Any body is read: that of a robots.txt, whose kind does not matter.
    pub(crate) const ALL: Self = Self { html: false, sitemap: false, otherwise: Some(PageKind::Html) };

    /// Body that is read for the archive alone: that of no page.
    pub(crate) const RESPONSE: Self = Self { html: false, sitemap: false, otherwise: Some(PageKind::Response) };

    /// A body of any type is that of no page, but belongs to the crawl.
    const OTHER: Self = Self { html: false, sitemap: false, otherwise: Some(PageKind::Other) };

    /// Returns the kinds that a body with this content type may be; `None` if it is not read.
    pub(crate) fn of(content_type: Option<&str>, purpose: Purpose, profile: &RequestProfile) -> Option<Self> {
        match purpose {
            Purpose::Requisite => return Some(Self::OTHER),
            Purpose::External => return None,
            _ => {}
        }
        let media_type = media_type(content_type);
        let kind = kind_of(content_type);
        let sitemap = profile.reads_sitemaps()
            && !is_medium(media_type)
            && match purpose {
                Purpose::Sitemap | Purpose::PageOrSitemap => true,
                Purpose::Page => kind == Kind::Unknown || is_xml(media_type) || is_within(media_type, JSON_FEED),
                Purpose::Robots | Purpose::Requisite | Purpose::External => false,
            };
        let is_page = purpose != Purpose::Sitemap;
        let otherwise = match kind {
            Kind::Page => is_page.then_some(PageKind::Html),
            _ => is_accepted(content_type, &profile.accept).then_some(PageKind::Other),
        };
        let otherwise = otherwise.or(profile.archive.then_some(PageKind::Response));
        // A feed is often sent as HTML by mistake, but only where a feed is expected may a page be taken for one.
        let sitemap = sitemap && (kind != Kind::Page || !is_page);
        let html = kind == Kind::Unknown && is_page;
        (html || sitemap || otherwise.is_some()).then_some(Self { html, sitemap, otherwise })
    }

    /// Returns `true` if a body may be that of a sitemap or feed.
    pub(crate) fn may_be_sitemap(self) -> bool {
        self.sitemap
    }

    /// Returns the number of bytes that decide; 0 if the kind is known.
    pub(crate) fn decisive_bytes(self) -> usize {
        match self {
            Self { sitemap: true, .. } => SITEMAP_BYTES,
            Self { html: true, .. } => HTML_BYTES,
            _ => 0,
        }
    }

    /// Returns the kind of a body by its first bytes; `None` if it is not to be read.
    pub(crate) fn kind(self, head: &[u8]) -> Option<PageKind> {
        if self.sitemap && orbweaver_sitemaps::sniff(head).is_some() {
            Some(PageKind::Sitemap)
        } else if self.html && looks_like_html(head) {
            Some(PageKind::Html)
        } else {
            self.otherwise
        }
    }
}

const JSON_FEED: &str = "application/feed+json";

/// Returns `true` for the types of XML (RFC 7303) except XHTML, which is HTML here.
fn is_xml(media_type: &str) -> bool {
    let ends_with_xml =
        || media_type.len() > 4 && media_type.as_bytes()[media_type.len() - 4..].eq_ignore_ascii_case(b"+xml");
    is_within(media_type, "application/xml") || is_within(media_type, "text/xml") || ends_with_xml()
}

/// Returns `true` for images, audio, video and fonts: too large to read for a first look.
fn is_medium(media_type: &str) -> bool {
    ["image/*", "audio/*", "video/*", "font/*"].iter().any(|range| is_within(media_type, range))
}

/// Tags at the beginning of a text that identify it as HTML (WHATWG MIME Sniffing section 7.1). Comments and XML with
/// `<html` are handled separately.
const TAGS: [&str; 18] = [
    "<!DOCTYPE HTML",
    "<HTML",
    "<HEAD",
    "<SCRIPT",
    "<IFRAME",
    "<H1",
    "<DIV",
    "<FONT",
    "<TABLE",
    "<A",
    "<STYLE",
    "<TITLE",
    "<B",
    "<BODY",
    "<BR",
    "<P",
    "<UL",
    "<SPAN",
];

/// Returns `true` if the first bytes of a body look like HTML.
fn looks_like_html(body: &[u8]) -> bool {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let body = body.trim_ascii_start();
    if body.starts_with(b"<!--") {
        return true;
    }
    if body.starts_with(b"<?xml") {
        let head = &body[..body.len().min(HTML_BYTES)];
        return head.windows(5).any(|five| five.eq_ignore_ascii_case(b"<html"));
    }
    TAGS.iter().any(|tag| {
        let begins = body.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag.as_bytes()));
        begins && body.get(tag.len()).is_some_and(|end| *end == b'>' || end.is_ascii_whitespace())
    })
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::FetchProfile;

    use super::*;
    use crate::config::FetcherConfig;

    #[test]
    fn only_html_and_xhtml_are_pages() {
        for page in ["text/html", "Text/HTML; charset=utf-8", " application/xhtml+xml ", "text/html, text/html"] {
            assert_eq!(kind_of(Some(page)), Kind::Page, "{page}");
        }
        for other in ["text/plain", "application/pdf", "text/htmlx", "garbage", "image/png;text/html"] {
            assert_eq!(kind_of(Some(other)), Kind::Other, "{other}");
        }
        assert_eq!(kind_of(None), Kind::Unknown);
        assert_eq!(kind_of(Some(" ; charset=x")), Kind::Unknown);
    }

    #[test]
    fn an_unknown_type_is_accepted_as_a_series_of_bytes() {
        let accepts = |content_type: Option<&str>, range: &str| is_accepted(content_type, &[range.to_owned()]);
        assert!(accepts(None, "*/*") && accepts(Some(""), "application/*") && !accepts(None, "image/*"));
        assert!(accepts(Some("image/png; x"), "image/*") && !is_accepted(Some("image/png"), &[]));
    }

    /// Returns the kind of a body, by a profile that accepts PDF and reads sitemaps or not.
    fn kind(purpose: Purpose, content_type: Option<&str>, body: &[u8], sitemaps: bool) -> Option<PageKind> {
        let profile = FetchProfile {
            accept: vec!["application/pdf".to_owned()],
            sitemaps: Some(sitemaps),
            ..FetchProfile::default()
        };
        let profile = RequestProfile::of_crawl(&FetcherConfig::default(), &profile);
        Candidates::of(content_type, purpose, &profile)?.kind(body)
    }

    #[test]
    fn a_page_is_html_by_its_type_and_without_one_by_its_body() {
        let kind = |content_type: Option<&str>, body: &[u8]| kind(Purpose::Page, content_type, body, false);
        assert_eq!(kind(Some("text/html"), b"%PDF"), Some(PageKind::Html));
        assert_eq!(kind(Some("application/pdf"), b"<p>"), Some(PageKind::Other));
        assert_eq!((kind(None, b"<p>"), kind(None, b"%PDF")), (Some(PageKind::Html), None));
        assert_eq!((kind(Some("text/xml"), RSS), kind(None, RSS)), (None, None), "not requested");
    }

    const RSS: &[u8] = b"<?xml version='1.0'?><rss version='2.0'><channel/></rss>";

    #[test]
    fn a_sitemap_is_one_by_its_content_where_its_type_permits() {
        use PageKind::{Html, Other, Sitemap};
        use Purpose::{Page, PageOrSitemap};
        let named = Purpose::Sitemap;
        for (purpose, content_type, body, expected) in [
            (Page, Some("application/rss+xml"), RSS, Some(Sitemap)),
            (Page, Some("Text/XML; charset=utf-8"), RSS, Some(Sitemap)),
            (Page, None, RSS, Some(Sitemap)),
            (Page, Some("text/xml"), b"<x/>", None),
            (Page, Some("image/svg+xml"), RSS, None),
            (Page, Some("text/html"), RSS, Some(Html)),
            (Page, Some("application/xhtml+xml"), RSS, Some(Html)),
            (Page, Some("text/plain"), b"https://a.test/", None),
            (Page, Some("application/pdf"), RSS, Some(Other)),
            (PageOrSitemap, Some("text/plain"), b"https://a.test/", Some(Sitemap)),
            (PageOrSitemap, Some("text/html"), RSS, Some(Html)),
            (PageOrSitemap, None, b"<p>", Some(Html)),
            (PageOrSitemap, Some("text/plain"), b"hello", None),
            (named, Some("text/html"), RSS, Some(Sitemap)),
            (named, Some("text/html"), b"<p>not found", None),
            (named, None, b"<p>", None),
            (named, Some("image/png"), RSS, None),
        ] {
            assert_eq!(kind(purpose, content_type, body, true), expected, "{purpose:?} {content_type:?}");
        }
    }

    #[test]
    fn a_requisite_of_any_type_is_read_and_is_no_page_and_an_external_url_is_not_read() {
        for content_type in [None, Some("text/html"), Some("image/png"), Some("text/css"), Some("text/xml")] {
            for body in [b"<p>", RSS, b"\x89PNG"] {
                assert_eq!(kind(Purpose::Requisite, content_type, body, true), Some(PageKind::Other));
                assert_eq!(kind(Purpose::External, content_type, body, true), None);
            }
        }
    }

    #[test]
    fn a_body_without_a_type_is_a_page_when_it_begins_like_one() {
        for html in [
            "<!doctype html>",
            "\u{feff} \n<html lang=en>",
            "<!-- x",
            "<p>",
            "<a href=x>",
            "<?xml version='1.0'?><html ",
        ] {
            assert!(looks_like_html(html.as_bytes()), "{html}");
        }
        for other in ["", "%PDF-1.7", "hello <html>", "<article>", "<?xml version='1.0'?><rss>", "{}", "<"] {
            assert!(!looks_like_html(other.as_bytes()), "{other}");
        }
    }
}
