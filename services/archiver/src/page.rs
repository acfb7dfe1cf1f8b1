//! Records of `crawl.pages`.

use std::borrow::Cow;

use memchr::memmem;
use orbweaver_log::ConsumerRecord;
use orbweaver_messages::{Capture, Page, decode};
use orbweaver_url::CrawlName;
use serde::{Deserialize, de::IgnoredAny};

use crate::body::decoded;

/// Header of a page record that holds its JSON.
pub const PAGE_HEADER: &str = "page";
/// Name of the field of a page that is archived.
const CAPTURE_FIELD: &[u8] = b"\"capture\"";

/// Handling of a record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Archive the response in a file of this crawl.
    Archive(CrawlName),
    /// Complete the record: the crawl is not archived.
    PassOver,
    /// Reject the record for this reason.
    Reject(String),
}

#[derive(Deserialize)]
struct CrawlOfPage {
    context: CrawlOfContext,
    #[serde(default)]
    capture: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct CrawlOfContext {
    crawl: CrawlName,
}

/// Returns the handling of a record. Almost all records have no capture where nothing is archived, so their headers are
/// searched for the name of the field, and not decoded; an invalid header without it is left to the extractor, which
/// rejects the record.
pub(crate) fn route(record: &ConsumerRecord) -> Route {
    let Some(header) = record.header(PAGE_HEADER) else {
        return Route::Reject(format!("the page record has no header `{PAGE_HEADER}`"));
    };
    if memmem::find(header, CAPTURE_FIELD).is_none() {
        return Route::PassOver;
    }
    match decode::<CrawlOfPage>("page", Some(header)) {
        Ok(CrawlOfPage { capture: None, .. }) => Route::PassOver,
        Ok(page) => Route::Archive(page.context.crawl),
        Err(error) => Route::Reject(error.to_string()),
    }
}

/// A response with everything that a file needs.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    pub(crate) page: Page,
    pub(crate) capture: Box<Capture>,
    pub(crate) body: Cow<'a, [u8]>,
    /// Whether the body is incomplete.
    pub(crate) is_cut: bool,
}

impl<'a> Response<'a> {
    /// Reads a record with a capture; a body is cut at `max_body_bytes`. The page's headers get those that the encoded
    /// body had. An error is the reason for a rejection.
    pub(crate) fn read(record: &'a ConsumerRecord, max_body_bytes: usize) -> Result<Self, String> {
        let mut page: Page = decode("page", record.header(PAGE_HEADER)).map_err(|error| error.to_string())?;
        let capture = page.capture.take().ok_or("the page record has no capture")?;
        let (body, is_cut) = decoded(record.value.as_deref(), page.encoding, page.body_bytes, max_body_bytes)
            .map_err(|error| error.to_string())?;
        let is_cut = is_cut || page.truncated.body;
        if page.context.url.is_empty() {
            return Err("the page's url is empty".to_owned());
        }
        let length = capture.content_length.map(|length| ("content-length", length.to_string()));
        let codings = page.content_encoding.take().map(|codings| ("content-encoding", codings));
        page.headers.extend(codings.into_iter().chain(length).map(|(name, value)| (name.to_owned(), value)));
        Ok(Self { page, capture, body, is_cut })
    }
}
