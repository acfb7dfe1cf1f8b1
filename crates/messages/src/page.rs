//! `crawl.pages`: a fetched page. This JSON is the header `page`; the body is the record's value.

use serde::{Deserialize, Serialize};

use crate::{Markdown, Millis, Truncated, UrlContext, is_default};

/// Encoding of the body in the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BodyEncoding {
    /// Unencoded.
    Identity,
    /// One zstd frame.
    Zstd,
}

/// Kind of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageKind {
    /// A requisite, or a type that is not HTML and that the profile of the crawl accepts. It has no document.
    Other,
    /// A sitemap or feed, by its content. It has no document.
    Sitemap,
    /// HTML or XHTML, by its content type, or by its first bytes if it has none.
    #[default]
    Html,
    /// A response that is not a page: a redirect, an error, a page that has not changed, or a type that is not
    /// accepted. Only an archive has it.
    Response,
    /// A response to a request for a robots.txt. Only an archive has it.
    Robots,
}

/// Version of HTTP, with its name in `WARC-Protocol`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    #[serde(rename = "http/1.0")]
    Http10,
    #[default]
    #[serde(rename = "http/1.1")]
    Http11,
    #[serde(rename = "h2")]
    Http2,
}

/// Data of a request and its response for an archive.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capture {
    /// Start of the request, in milliseconds since the Unix epoch.
    pub requested_at_ms: Millis,
    /// Arrival of the response headers, in milliseconds since the Unix epoch.
    pub answered_at_ms: Millis,
    /// IP address of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    pub protocol: Protocol,
    /// Reason phrase of the status line, cut to 256 bytes; absent if it is that of the status in the HTTP standard, and with
    /// HTTP/2, which has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Request headers, names in lower case.
    pub request_headers: Vec<(String, String)>,
    /// Whether the page has not changed since its last visit: the server said so (status 304), or its content is the
    /// known one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unchanged: bool,
    /// Header `Content-Length` of a body that was encoded; `headers` of the page does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_length: Option<u64>,
    /// Duration of the lookup of the host, if this request is the first after it, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lookup_ms: Option<u64>,
    /// Duration of connecting with TLS, if a connection was made for this request, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_ms: Option<u64>,
}

/// Metadata of a fetched page, or of another response if its crawl is archived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// URL that was requested.
    pub context: UrlContext,
    #[serde(default, skip_serializing_if = "is_default")]
    pub kind: PageKind,
    /// HTTP status.
    pub status: u16,
    /// Content type, as given by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Response headers, names in lower case, bounded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// Time of the response, in milliseconds since the Unix epoch.
    pub fetched_at_ms: Millis,
    /// Event time in the store, if an earlier write of the URL was not before `fetched_at_ms`
    /// (docs/protocol.md#event-times).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_at_ms: Option<Millis>,
    /// End of the previous visit, in milliseconds since the Unix epoch, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visited_at_ms: Option<Millis>,
    pub encoding: BodyEncoding,
    /// Decoded size of the body as read, in bytes; the record has less if the body was cut to the record limit.
    pub body_bytes: u64,
    /// Content codings of the body as received, in the order in which they were applied: `gzip`, `deflate`, `br` and
    /// `zstd`, separated by commas. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_encoding: Option<String>,
    /// Bytes of the encoded body that were received, without the framing of HTTP, if it was encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoded_bytes: Option<u64>,
    /// `body` if the body was cut, at the fetcher's limit or to the record limit.
    #[serde(default, skip_serializing_if = "Truncated::is_empty")]
    pub truncated: Truncated,
    /// xxh3-128 of the decoded bytes as read, in hexadecimal digits.
    pub content_hash: String,
    /// Number of the attempt that succeeded, from 1.
    pub attempt: u8,
    /// Product token of the user agent, if the crawl has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Whether the document contains the decoded body, if the profile of the crawl determines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<bool>,
    /// Whether the document contains the main text, if the profile of the crawl determines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main_text: Option<bool>,
    /// Main text of the document as Markdown, if the profile of the crawl determines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub markdown: Option<Markdown>,
    /// Whether the document contains the facts of the page, if the profile of the crawl determines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<bool>,
    /// Whether the document contains the other links of the page, if the profile of the crawl determines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_links: Option<bool>,
    /// Whether the document is marked if it is a near duplicate, if the profile of the crawl determines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near_duplicates: Option<bool>,
    /// Whether the feeds that the page declares are discovered.
    #[serde(default, skip_serializing_if = "is_default")]
    pub feeds: bool,
    /// Maximum number of its requisites that are discovered; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requisites: Option<u32>,
    /// Data for the archive, if its crawl is archived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<Box<Capture>>,
}

impl Page {
    /// Returns the event time in the store.
    #[must_use]
    pub fn event_ms(&self) -> Millis {
        self.written_at_ms.unwrap_or(self.fetched_at_ms)
    }
}
