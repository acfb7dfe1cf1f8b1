//! Kind of a page: by content type, else by the first bytes.

use orbweaver_messages::PageKind;
use orbweaver_scope::{is_html, is_within, media_type};

/// Number of bytes examined (WHATWG MIME Sniffing section 5.2 reads at most 1445; a tag appears long before).
pub(crate) const SNIFFED_BYTES: usize = 512;

/// Kind of a response by its content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
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
pub(crate) fn kind_of(content_type: Option<&str>) -> Kind {
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
pub(crate) fn is_accepted(content_type: Option<&str>, ranges: &[String]) -> bool {
    let media_type = Some(media_type(content_type)).filter(|known| !known.is_empty()).unwrap_or(UNKNOWN_TYPE);
    ranges.iter().any(|range| is_within(media_type, range))
}

/// Returns the kind of a page that was read.
pub(crate) fn page_kind(content_type: Option<&str>, body: &[u8]) -> PageKind {
    match kind_of(content_type) {
        Kind::Page => PageKind::Html,
        Kind::Unknown if looks_like_html(body) => PageKind::Html,
        Kind::Unknown | Kind::Other => PageKind::Other,
    }
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
pub(crate) fn looks_like_html(body: &[u8]) -> bool {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let body = body.trim_ascii_start();
    if body.starts_with(b"<!--") {
        return true;
    }
    if body.starts_with(b"<?xml") {
        let head = &body[..body.len().min(SNIFFED_BYTES)];
        return head.windows(5).any(|five| five.eq_ignore_ascii_case(b"<html"));
    }
    TAGS.iter().any(|tag| {
        let begins = body.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag.as_bytes()));
        begins && body.get(tag.len()).is_some_and(|end| *end == b'>' || end.is_ascii_whitespace())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_page_is_html_by_its_type_and_without_one_by_its_body() {
        assert_eq!(page_kind(Some("text/html"), b"%PDF"), PageKind::Html);
        assert_eq!(page_kind(Some("application/pdf"), b"<p>"), PageKind::Other);
        assert_eq!((page_kind(None, b"<p>"), page_kind(None, b"%PDF")), (PageKind::Html, PageKind::Other));
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
