//! The few fields that the rate-limiter reads, borrowed from the record; a dispatch passes through as the bytes that it came in.
//!
//! Reading a message whole and writing it again would be most of the work a dispatch costs here. That the rest of it is
//! well-formed is checked by who uses it: the fetcher.

use std::borrow::Cow;

use bytes::Bytes;
use orbweaver_messages::{Dispatch, MessageError, Millis, Outcome, OutcomeKind};
use serde::Deserialize;

/// What is read of a `Dispatch`.
#[derive(Debug, Deserialize)]
pub struct Scheduled<'a> {
    /// The site.
    #[serde(borrow)]
    pub site: Cow<'a, str>,
    /// Past this moment it goes back unasked.
    pub not_after_ms: Millis,
    /// Past this moment it is dropped.
    pub expires_ms: Millis,
}

/// What is read of an `Outcome`.
#[derive(Debug, Clone, Deserialize)]
pub struct Heard<'a> {
    /// The site.
    #[serde(borrow)]
    pub site: Cow<'a, str>,
    /// How the dispatch ended.
    pub kind: OutcomeKind,
    /// The HTTP status, where there was an answer.
    #[serde(default)]
    pub status: Option<u16>,
    /// When the request was sent.
    #[serde(default)]
    pub requested_at_ms: Option<Millis>,
    /// When the first byte of the answer came, or the attempt failed.
    #[serde(default)]
    pub answered_at_ms: Option<Millis>,
    /// The event's time.
    pub ended_at_ms: Millis,
    /// Until when the site asked to be left alone.
    #[serde(default)]
    pub blocked_until_ms: Option<Millis>,
    /// The site's crawl-delay.
    #[serde(default)]
    pub crawl_delay_ms: Option<u64>,
}

impl Heard<'_> {
    /// Whether the site asked to be left alone.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        self.kind == OutcomeKind::Blocked || matches!(self.status, Some(429 | 503))
    }
}

/// Reads part of a message; all of it must be JSON.
///
/// # Errors
/// When the bytes are not JSON, or a field that is read is missing or of another form.
pub fn read<'a, T: Deserialize<'a>>(message: &'static str, value: Option<&'a Bytes>) -> Result<T, MessageError> {
    let value = value.ok_or(MessageError::Empty(message))?;
    serde_json::from_slice(value).map_err(|error| MessageError::Invalid { message, reason: error.to_string() })
}

/// A `Ready` around a dispatch that was read as JSON before.
#[must_use]
pub fn ready(not_before_ms: Millis, interval_ms: u64, dispatch: &[u8]) -> Bytes {
    let head = format!("{{\"not_before_ms\":{not_before_ms},\"interval_ms\":{interval_ms},\"dispatch\":");
    let mut value = Vec::with_capacity(head.len() + dispatch.len() + 1);
    value.extend_from_slice(head.as_bytes());
    value.extend_from_slice(dispatch);
    value.push(b'}');
    value.into()
}

/// The outcome of a dispatch that goes back unasked, to be dispatched again from `retry_at_ms` on.
#[must_use]
pub fn deferred(dispatch: Dispatch, reason: &str, retry_at_ms: Millis, now: Millis) -> Outcome {
    Outcome { retry_at_ms: Some(retry_at_ms), ..Outcome::unasked(dispatch, OutcomeKind::Deferred, reason, now) }
}
