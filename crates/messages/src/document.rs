//! `crawl.documents`: content extracted from a page; also one line of `documents.jsonl`.

use orbweaver_url::{CrawlName, Fingerprint, SiteName};
use serde::{Deserialize, Serialize};

use crate::{Facts, SeedMetadata, TextSignature, Truncated, is_default, json_text};

/// Record header with a document's fingerprint, as text, so that consumers can select documents without parsing all.
pub const FINGERPRINT_HEADER: &str = "fingerprint";
/// Record header with the number of a document's visit, if it is not the first one.
pub const VISIT_HEADER: &str = "visit";
/// Record header, with the value `true`, of a document of a page that needs a browser.
pub const NEEDS_RENDER_HEADER: &str = "needs_render";
/// Record header with the name of a document's crawl.
pub const CRAWL_HEADER: &str = "crawl";

/// Kind of a link, by the element that has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// `iframe` and `frame`.
    Frame,
    /// `a` and `area`.
    #[default]
    Navigation,
    /// Meta refresh.
    Refresh,
    /// `link rel=canonical`.
    Canonical,
    /// `link rel=alternate`: a version of the page in another language or form, or a feed.
    Alternate,
    /// `link rel=next`.
    Next,
    /// `link rel=prev`.
    Prev,
    /// `link rel=stylesheet`.
    Stylesheet,
    /// `link rel=icon` and the other names of icons.
    Icon,
    /// A `link` element with another `rel`.
    Link,
    /// `img`, `srcset`, `poster`, `background`, `input type=image`; `image` and `use` of SVG.
    Image,
    /// `script`.
    Script,
    /// `video`, `audio`, `track`, and `source` with `src`.
    Media,
    /// `object` and `embed`.
    Object,
    /// CSS of a `style` element or attribute: `url()`, `@import`, `image-set()`.
    Css,
}

/// Link on a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentLink {
    /// Target: absolute, without fragment.
    pub url: String,
    /// Text of the link, white space folded: of an `a` its content, of other links their `alt`, else their `title`.
    pub text: String,
    /// Tokens of `rel`, as written; empty if there are none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rel: String,
    /// Kind of the link. Not in JSON if it is the usual one, an `a` or `area`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kind: LinkKind,
}

/// Directives of a page to robots (meta robots and X-Robots-Tag).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RobotsDirectives {
    /// Not to be indexed.
    #[serde(default)]
    pub noindex: bool,
    /// Links not to be followed.
    #[serde(default)]
    pub nofollow: bool,
}

/// Content extracted from a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// Canonical form of the URL.
    pub url: String,
    /// URL that was requested.
    pub fetched_url: String,
    /// URLs that redirected here, oldest first.
    pub redirects: Vec<String>,
    /// HTTP status.
    pub status: u16,
    /// Content type, as given by the server.
    pub content_type: Option<String>,
    /// Time of the response, RFC 3339 in UTC.
    pub fetched_at: String,
    /// Link depth from the seed.
    pub depth: u16,
    /// Title of the page, white space folded; empty if there is none.
    pub title: String,
    /// Text of the page, white space folded.
    #[serde(serialize_with = "json_text::serialize")]
    pub text: String,
    /// Whether the page has no content without a browser, whose scripts would make it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub needs_render: bool,
    /// Text of the page without navigation and other boilerplate, if requested: paragraphs, separated by empty lines.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "json_text::serialize_option")]
    pub main_text: Option<String>,
    /// That text as Markdown (CommonMark, with tables and strikethrough), if requested; its links are absolute.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "json_text::serialize_option")]
    pub markdown: Option<String>,
    /// Links of the page, in order.
    pub links: Vec<DocumentLink>,
    /// Further links of the page, if requested, in order and without repetitions: those of embedded resources and of
    /// `link` elements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_links: Option<Vec<DocumentLink>>,
    /// Crawl of the page.
    pub crawl: CrawlName,
    /// Fingerprint of crawl and canonical form.
    pub fingerprint: Fingerprint,
    pub site: SiteName,
    /// Page that led here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// Metadata of the seed that this page is, or that redirected here.
    #[serde(default, skip_serializing_if = "SeedMetadata::is_empty")]
    pub metadata: SeedMetadata,
    /// Number of the visit that found this version of the page; 0: the first one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub visit: u32,
    /// Modification time in the sitemap or feed that lists the page, RFC 3339 in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed_modified: Option<String>,
    /// Canonical URL declared by the page, absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canonical: Option<String>,
    /// Language declared by the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Description declared by the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Facts of the page, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<Box<Facts>>,
    /// Character encoding with which the body was decoded.
    pub charset: String,
    /// Directives of the page to robots.
    pub robots: RobotsDirectives,
    /// Decoded size of the body as read, in bytes.
    pub bytes: u64,
    /// Parts that were truncated at a limit.
    #[serde(default, skip_serializing_if = "Truncated::is_empty")]
    pub truncated: Truncated,
    /// Number of links on the page, if `links` has fewer. All of them were sent to `crawl.discovered`, up to the
    /// extractor's limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links_total: Option<u64>,
    /// Size of the whole text in bytes, if `text` is shorter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_bytes: Option<u64>,
    /// xxh3-128 of the decoded bytes as read, in hexadecimal digits.
    pub content_hash: String,
    /// Decoded body, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "json_text::serialize_option")]
    pub html: Option<String>,
    /// Signature of the main text, if near duplicates are marked and the text is not too short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<TextSignature>,
    /// First page of the site and crawl of which this one is a near duplicate. The last field: it is added to the encoded
    /// document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near_duplicate_of: Option<Fingerprint>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_of_the_usual_kind_is_in_json_as_before_there_were_kinds() {
        let text = r#"{"url":"http://a.test/","text":"A","rel":"nofollow"}"#;
        let mut link: DocumentLink = serde_json::from_str(text).unwrap();
        assert_eq!(link.kind, LinkKind::Navigation);
        assert_eq!(serde_json::to_string(&link).unwrap(), text);
        link.kind = LinkKind::Frame;
        let text = text.replace('}', r#","kind":"frame"}"#);
        assert_eq!(serde_json::to_string(&link).unwrap(), text);
        assert_eq!(serde_json::from_str::<DocumentLink>(&text).unwrap(), link);
    }
}
