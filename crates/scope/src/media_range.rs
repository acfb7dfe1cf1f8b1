//! Media types, and the ranges by which definitions name them: `type/subtype`, `type/*` and `*/*`, without parameters
//! (RFC 9110 sections 8.3.1 and 12.5.1).

use orbweaver_messages::{RevisitBounds, RevisitPolicy};

/// Maximum length of a range, in bytes.
const MAX_RANGE_BYTES: usize = 300;

/// Returns the media type of a content type, without its parameters; empty if there is none.
#[must_use]
pub fn media_type(content_type: Option<&str>) -> &str {
    content_type.unwrap_or_default().split([';', ',']).next().unwrap_or_default().trim()
}

/// Returns `true` for HTML and XHTML.
#[must_use]
pub fn is_html(media_type: &str) -> bool {
    media_type.eq_ignore_ascii_case("text/html") || media_type.eq_ignore_ascii_case("application/xhtml+xml")
}

/// Returns `true` if a media type is within a range.
#[must_use]
pub fn is_within(media_type: &str, range: &str) -> bool {
    match range.strip_suffix('*') {
        Some("*/") => true,
        Some(of_type) => media_type.get(..of_type.len()).is_some_and(|start| start.eq_ignore_ascii_case(of_type)),
        None => media_type.eq_ignore_ascii_case(range),
    }
}

/// Returns the bounds of the time between two visits to a page of this media type (`None`: HTML). The most specific range
/// applies.
#[must_use]
pub fn revisit_bounds(policy: &RevisitPolicy, media_type: Option<&str>) -> RevisitBounds {
    let is_of = |range: &&String| media_type.is_some_and(|media_type| is_within(media_type, range));
    let ranges = policy.types.keys().filter(is_of);
    let range = ranges.max_by_key(|range| (!range.ends_with('*'), range.len()));
    let of_range = range.and_then(|range| policy.types.get(range)).copied();
    of_range.unwrap_or(RevisitBounds { interval_ms: policy.interval_ms, max_interval_ms: policy.max_interval_ms })
}

/// Returns `true` for a range.
pub(crate) fn is_media_range(range: &str) -> bool {
    let is_token = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte != b'*' && is_token_byte(byte));
    let parts = range.split_once('/').filter(|_| range.len() <= MAX_RANGE_BYTES);
    parts.is_some_and(|(kind, subtype)| match kind {
        "*" => subtype == "*",
        kind => is_token(kind) && (subtype == "*" || is_token(subtype)),
    })
}

/// Returns `true` for a character of a token, such as the name of a header (RFC 9110 section 5.6.2).
pub(crate) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_within_its_ranges_whatever_its_case_and_parameters() {
        let within = |content_type: &str, range: &str| is_within(media_type(Some(content_type)), range);
        for range in ["application/pdf", "Application/PDF", "application/*", "*/*"] {
            assert!(within(" application/Pdf; version=1.7", range) && is_media_range(range), "{range}");
        }
        for range in ["application/pd", "text/*", "app/*", "application/pdfx"] {
            assert!(!within("application/pdf", range), "{range}");
        }
        assert!(!within("\u{e4}\u{e4}", "x/*"));
        assert_eq!((media_type(None), media_type(Some(" ; charset=x"))), ("", ""));
    }

    #[test]
    fn text_that_is_no_range_is_refused() {
        let long = format!("image/{}", "x".repeat(300));
        for text in ["", "/", "pdf", "*/pdf", "application/*pdf", "text/plain;q=0.5", "text/plain, text/css", &long] {
            assert!(!is_media_range(text), "{text}");
        }
    }

    #[test]
    fn the_bounds_of_the_most_specific_range_apply_and_html_has_those_of_the_policy() {
        let bounds = |interval_ms| RevisitBounds { interval_ms, max_interval_ms: 100 };
        let types = [("*/*", 2), ("image/*", 3), ("image/x", 4)].map(|(range, ms)| (range.to_owned(), bounds(ms)));
        let policy = RevisitPolicy { interval_ms: 1, max_interval_ms: 100, types: types.into() };
        let of = |media_type: Option<&str>| revisit_bounds(&policy, media_type).interval_ms;
        assert_eq!((of(None), of(Some("text/plain")), of(Some("image/png")), of(Some("Image/X"))), (1, 2, 3, 4));
        let policy = RevisitPolicy { types: Default::default(), ..policy };
        assert_eq!(revisit_bounds(&policy, Some("image/png")), bounds(1));
    }
}
