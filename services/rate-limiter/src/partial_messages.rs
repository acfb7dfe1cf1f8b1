//! Partial decoding of messages, borrowed from the record; the bytes of a dispatch pass through unchanged.
//!
//! Decoding and re-encoding whole messages would be most of the work per dispatch. The fetcher, which uses the other
//! fields, checks that they are well-formed.

use std::borrow::Cow;

use bytes::Bytes;
use orbweaver_messages::{Dispatch, MessageError, Millis, Outcome, OutcomeKind};
use serde::Deserialize;

/// The fields of a `UrlContext` that the rate-limiter reads.
#[derive(Debug, Clone, Deserialize)]
pub struct ContextFields<'a> {
    /// Site of the URL.
    #[serde(borrow)]
    pub site: Cow<'a, str>,
}

/// The fields of a `Dispatch` that the rate-limiter reads.
#[derive(Debug, Deserialize)]
pub struct DispatchFields<'a> {
    /// URL of the dispatch.
    #[serde(borrow)]
    pub context: ContextFields<'a>,
    /// Time after which it is deferred without a request.
    pub not_after_ms: Millis,
    /// Time after which it is dropped.
    pub expires_ms: Millis,
}

/// The fields of an `Outcome` that the rate-limiter reads.
#[derive(Debug, Clone, Deserialize)]
pub struct OutcomeFields<'a> {
    /// URL of the dispatch.
    #[serde(borrow)]
    pub context: ContextFields<'a>,
    /// Result of the dispatch.
    pub kind: OutcomeKind,
    /// HTTP status, if there was a response.
    #[serde(default)]
    pub status: Option<u16>,
    /// Time at which the request was sent.
    #[serde(default)]
    pub requested_at_ms: Option<Millis>,
    /// Time of the response's first byte, or of the failure.
    #[serde(default)]
    pub answered_at_ms: Option<Millis>,
    /// Event time.
    pub ended_at_ms: Millis,
    /// End of the block, if the site stated one.
    #[serde(default)]
    pub blocked_until_ms: Option<Millis>,
    /// Crawl-delay of the site.
    #[serde(default)]
    pub crawl_delay_ms: Option<u64>,
}

impl OutcomeFields<'_> {
    /// Returns `true` if the site refused the request (429, 503).
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        self.kind == OutcomeKind::Blocked || matches!(self.status, Some(429 | 503))
    }
}

/// Decodes part of a message; all of it must be JSON.
///
/// # Errors
/// Fails if the bytes are not JSON, or a field to be read is missing or has another type.
pub fn read<'a, T: Deserialize<'a>>(message: &'static str, value: Option<&'a Bytes>) -> Result<T, MessageError> {
    let value = value.ok_or(MessageError::Empty(message))?;
    serde_json::from_slice(value).map_err(|error| MessageError::Invalid { message, reason: error.to_string() })
}

/// Wraps a dispatch, which has been decoded as JSON before, in a `ReadyDispatch`.
#[must_use]
pub fn ready(not_before_ms: Millis, interval_ms: u64, dispatch: &[u8]) -> Bytes {
    let head = format!("{{\"not_before_ms\":{not_before_ms},\"interval_ms\":{interval_ms},\"dispatch\":");
    let mut value = Vec::with_capacity(head.len() + dispatch.len() + 1);
    value.extend_from_slice(head.as_bytes());
    value.extend_from_slice(dispatch);
    value.push(b'}');
    value.into()
}

/// Returns the outcome of a dispatch that is deferred without a request, to be dispatched again from `retry_at_ms` on.
#[must_use]
pub fn deferred(dispatch: &Dispatch, reason: &str, retry_at_ms: Millis, now: Millis) -> Outcome {
    Outcome { retry_at_ms: Some(retry_at_ms), ..Outcome::of(dispatch, OutcomeKind::Deferred, Some(reason), now) }
}
