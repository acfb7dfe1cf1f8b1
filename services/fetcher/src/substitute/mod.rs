//! Pages that a server sends instead of the requested one, recognized by their headers or content. Pure.
//!
//! | module | contents |
//! |---|---|
//! | `markers` | markup of challenges, firewalls and parked domains |
//! | `not_found` | titles of pages that do not exist |
//! | `message` | title and text of a page that may be one of these |
//!
//! A page of a site must not be lost because it resembles one of these: neither a marker nor a title is sufficient, the
//! page must also have little text. The text is read only with one of them, so that other pages cost a search.

mod markers;
mod message;
mod not_found;
#[cfg(test)]
mod tests;

use orbweaver_messages::PageKind;

use self::message::{Message, title};
use crate::client::{Body, HttpResponse};

/// Maximum size of a page that consists of a message, in bytes. Some parked domains have a script of half of it.
const MAX_MESSAGE_BYTES: usize = 128 << 10;
/// Maximum length of the text of a page that consists of a message, in characters, without links and navigation.
const MAX_MESSAGE_CHARS: usize = 1500;

/// Kind of a page that was sent instead of the requested one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Substitute {
    /// Test that only a browser passes; the page may be sent later.
    Challenge,
    /// Refusal by a firewall.
    Firewall,
    /// Message that the page does not exist.
    NotFound,
    /// Advertisements of a domain without a site.
    Parked,
}

impl Substitute {
    /// All kinds.
    pub(crate) const ALL: [Self; 4] = [Self::Challenge, Self::Firewall, Self::NotFound, Self::Parked];

    /// Returns the stable word for outcomes and metrics.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Challenge => "challenge",
            Self::Firewall => "firewall",
            Self::NotFound => "soft_404",
            Self::Parked => "parked",
        }
    }
}

/// Headers of challenges, with the words at the beginning of their values.
///
/// Documented by Cloudflare ("Detect a Challenge Page response"), AWS WAF, Vercel and SiteGround.
const CHALLENGE_HEADERS: [(&str, &[&str]); 4] = [
    ("cf-mitigated", &["challenge"]),
    ("x-amzn-waf-action", &["challenge", "captcha"]),
    ("x-vercel-mitigated", &["challenge"]),
    ("sg-captcha", &["challenge"]),
];

/// Recognizes a challenge by the headers of a response, of any status. `header` returns a value by its name.
pub(crate) fn by_headers<'a>(header: impl Fn(&str) -> Option<&'a [u8]>) -> Option<Substitute> {
    let is_challenge = CHALLENGE_HEADERS.iter().any(|(name, words)| {
        let begins = |value: &[u8], word: &str| {
            value.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
        };
        header(name).is_some_and(|value| words.iter().any(|word| begins(value, word)))
    });
    is_challenge.then_some(Substitute::Challenge)
}

/// Recognizes a page by its body.
pub(crate) fn of(answer: &HttpResponse) -> Option<Substitute> {
    match &answer.body {
        Body::Read { bytes, .. } if answer.kind == PageKind::Html => by_body(bytes),
        _ => None,
    }
}

/// Recognizes a page by its decoded body.
fn by_body(body: &[u8]) -> Option<Substitute> {
    if body.len() > MAX_MESSAGE_BYTES {
        return None;
    }
    let marked = markers::find(body);
    let title = title(body);
    if marked.is_none() && !not_found::may_be_title(&title) {
        return None;
    }
    let message = Message::of(body);
    if message.chars > MAX_MESSAGE_CHARS {
        return None;
    }
    marked.or_else(|| not_found::is_message(&title, &message.text).then_some(Substitute::NotFound))
}
