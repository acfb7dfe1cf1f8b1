//! Refusal of the purposes of a crawl by a response: by its headers, or by the `meta` elements of its page. Pure.

use std::borrow::Cow;

use html5gum::{
    Span, Tokenizer,
    emitters::callback::{CallbackEmitter, CallbackEvent},
};
use orbweaver_messages::{CrawlPurpose, PageKind};
use orbweaver_politeness::{
    Purposes,
    statements::{of_header, of_meta},
};
use reqwest::header::HeaderMap;

use crate::{
    client::{Body, HttpResponse, Purpose},
    profile::RequestProfile,
};

/// Number of bytes at the beginning of a page within which `meta` elements are read.
const META_BYTES: usize = 64 << 10;

/// Refusal of purposes of a crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PurposeRefusal {
    /// Purposes of the crawl that are refused; at least one.
    pub purposes: Purposes,
    pub source: StatementSource,
}

impl PurposeRefusal {
    /// Creates a refusal; `None` if none of the purposes of a crawl is refused.
    fn new(purposes: Purposes, source: StatementSource) -> Option<Self> {
        (!purposes.is_empty()).then_some(Self { purposes, source })
    }

    /// Returns the refusal of the purposes of a profile for a path by a robots.txt, which refuses `refused`.
    pub(crate) fn by_robots(profile: &RequestProfile, refused: Purposes) -> Option<Self> {
        Self::new(profile.purposes & refused, StatementSource::RobotsTxt)
    }

    /// Returns `true` if a response is not kept. A response that is no page, such as a redirect or a sitemap, has no
    /// document: only an archive keeps it.
    fn concerns(self, is_page: bool) -> bool {
        is_page || self.purposes.contains(CrawlPurpose::Archive)
    }
}

/// Source of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementSource {
    /// The robots.txt of the page.
    RobotsTxt,
    /// A header of the response.
    Header,
    /// A `meta` element of the page.
    Meta,
}

impl StatementSource {
    /// All sources.
    pub(crate) const ALL: [Self; 3] = [Self::RobotsTxt, Self::Header, Self::Meta];

    /// Returns the stable word for metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RobotsTxt => "robots_txt",
            Self::Header => "header",
            Self::Meta => "meta",
        }
    }
}

/// Returns the refusal by the headers of a response.
pub(crate) fn by_headers<'a>(
    profile: &RequestProfile,
    content_type: Option<&str>,
    headers: impl IntoIterator<Item = (&'a str, Cow<'a, str>)>,
) -> Option<PurposeRefusal> {
    if profile.purposes.is_empty() {
        return None;
    }
    let is_image = content_type.is_some_and(|given| given.trim_start().to_ascii_lowercase().starts_with("image/"));
    let mut refused = Purposes::NONE;
    for (name, value) in headers {
        of_header((name, &value), &profile.token, |statement| refused |= Purposes::refused_by(statement, is_image));
    }
    PurposeRefusal::new(profile.purposes & refused, StatementSource::Header)
}

/// Returns the headers of a response as [`by_headers`] reads them.
pub(crate) fn texts(headers: &HeaderMap) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
    headers.iter().map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes())))
}

/// Returns `true` if the headers of a response decide that its body is not kept, so that it need not be read.
pub(crate) fn is_unread(answer: &HttpResponse, purpose: Purpose) -> bool {
    purpose != Purpose::Robots && answer.refusal.is_some_and(|refusal| refusal.concerns(answer.status == 200))
}

/// Decides whether a response is refused, and drops the body of one that is, except that of a robots.txt, which still
/// applies.
pub(crate) fn conclude(answer: &mut HttpResponse, purpose: Purpose, profile: &RequestProfile) {
    let is_page = purpose != Purpose::Robots && answer.status == 200 && answer.kind != PageKind::Sitemap;
    answer.refusal = answer.refusal.filter(|refusal| refusal.concerns(is_page));
    if let (true, None, PageKind::Html, Body::Read { bytes, .. }) = (is_page, answer.refusal, answer.kind, &answer.body)
    {
        answer.refusal = by_meta(profile, bytes);
    }
    if answer.refusal.is_some() && purpose != Purpose::Robots {
        answer.body = Body::Unread;
    }
}

/// Returns the refusal by the `meta` elements at the beginning of a page, in any encoding that extends ASCII.
fn by_meta(profile: &RequestProfile, body: &[u8]) -> Option<PurposeRefusal> {
    let mut element = Meta::default();
    let mut emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| element.add(&event));
    emitter.naively_switch_states(true);
    let mut refused = Purposes::NONE;
    for (name, content) in Tokenizer::new_with_emitter(&body[..body.len().min(META_BYTES)], emitter).flatten() {
        let (name, content) = (String::from_utf8_lossy(&name), String::from_utf8_lossy(&content));
        of_meta((&name, &content), &profile.token, |statement| refused |= Purposes::refused_by(statement, false));
    }
    PurposeRefusal::new(profile.purposes & refused, StatementSource::Meta)
}

/// The `meta` element that is being read.
#[derive(Default)]
struct Meta {
    is_open: bool,
    attribute: Option<Attribute>,
    name: Option<Vec<u8>>,
    content: Option<Vec<u8>>,
}

#[derive(Clone, Copy)]
enum Attribute {
    Name,
    Content,
}

impl Meta {
    /// Adds a part of the markup. Returns name and content of a `meta` element that it ends.
    fn add(&mut self, event: &CallbackEvent<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
        match event {
            CallbackEvent::OpenStartTag { name } => *self = Self { is_open: *name == b"meta", ..Self::default() },
            CallbackEvent::AttributeName { name } => {
                self.attribute = match *name {
                    b"name" => Some(Attribute::Name),
                    b"content" => Some(Attribute::Content),
                    _ => None,
                };
            }
            CallbackEvent::AttributeValue { value } if self.is_open => {
                let held = match self.attribute.take()? {
                    Attribute::Name => &mut self.name,
                    Attribute::Content => &mut self.content,
                };
                // Of attributes with the same name the first counts.
                held.get_or_insert_with(|| value.to_vec());
            }
            CallbackEvent::CloseStartTag { .. } if self.is_open => {
                self.is_open = false;
                return Some((self.name.take()?, self.content.take()?));
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests;
