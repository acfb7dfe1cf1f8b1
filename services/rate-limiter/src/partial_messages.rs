//! Partial decoding of messages, borrowed from the record; the bytes of a dispatch pass through unchanged.
//!
//! Decoding and re-encoding whole messages would be most of the work per dispatch. The fetcher, which uses the other
//! fields, checks that they are well-formed.

use std::borrow::Cow;

use bytes::Bytes;
use orbweaver_messages::{MessageError, Millis, OutcomeKind};
use serde::Deserialize;

/// The fields of a `UrlContext` that the rate-limiter reads.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ContextFields<'a> {
    #[serde(borrow)]
    pub(crate) crawl: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) site: Cow<'a, str>,
}

/// The fields of a `Dispatch` that the rate-limiter reads.
#[derive(Debug, Deserialize)]
pub(crate) struct DispatchFields<'a> {
    #[serde(borrow)]
    pub(crate) context: ContextFields<'a>,
    /// Version of the crawl's definition that the frontier applied; 0: none.
    #[serde(default)]
    pub(crate) definition: u64,
    /// Time after which it is deferred without a request.
    pub(crate) not_after_ms: Millis,
}

/// The fields of an `Outcome` that the rate-limiter reads.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct OutcomeFields<'a> {
    #[serde(borrow)]
    pub(crate) context: ContextFields<'a>,
    pub(crate) kind: OutcomeKind,
    /// HTTP status, if there was a response.
    pub(crate) status: Option<u16>,
    /// Time at which the request was sent.
    pub(crate) requested_at_ms: Option<Millis>,
    /// Time of the response's first byte, or of the failure.
    pub(crate) answered_at_ms: Option<Millis>,
    pub(crate) ended_at_ms: Millis,
    /// End of the block, if the site stated one.
    pub(crate) blocked_until_ms: Option<Millis>,
    pub(crate) crawl_delay_ms: Option<u64>,
}

impl OutcomeFields<'_> {
    /// Returns `true` if the site refused the request (429, 503).
    pub(crate) fn is_refusal(&self) -> bool {
        self.kind == OutcomeKind::Blocked || matches!(self.status, Some(429 | 503))
    }
}

/// Decodes part of a message; all of it must be JSON.
///
/// # Errors
/// Fails if the bytes are not JSON, or a field to be read is missing or has another type.
pub(crate) fn read<'a, T: Deserialize<'a>>(message: &'static str, value: Option<&'a Bytes>) -> Result<T, MessageError> {
    let value = value.ok_or(MessageError::Empty(message))?;
    serde_json::from_slice(value).map_err(|error| MessageError::Invalid { message, reason: error.to_string() })
}

/// Wraps a dispatch, which has been decoded as JSON before, in a `ReadyDispatch` with the intervals of site and crawl.
pub(crate) fn ready(not_before_ms: Millis, (interval_ms, own_ms): (u64, u64), dispatch: &[u8]) -> Bytes {
    let own = if own_ms > 0 { format!("\"crawl_interval_ms\":{own_ms},") } else { String::new() };
    let head = format!("{{\"not_before_ms\":{not_before_ms},\"interval_ms\":{interval_ms},{own}\"dispatch\":");
    let mut value = Vec::with_capacity(head.len() + dispatch.len() + 1);
    value.extend_from_slice(head.as_bytes());
    value.extend_from_slice(dispatch);
    value.push(b'}');
    value.into()
}
