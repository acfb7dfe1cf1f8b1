//! `crawl.outcomes`: how a dispatch ended.

use orbweaver_url::Fingerprint;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{CLOCK_MARGIN_MS, Dispatch, DispatchId, Millis};

/// The reason of the outcome of a dispatch whose record could not be processed; the record is in the dead letters.
const REJECTED: &str = "rejected";

/// The closed set of ends of a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    /// Answered 200 with HTML or XHTML; the page is in `crawl.pages`. Terminal.
    Fetched,
    /// Answered that nothing changed. Terminal.
    Unchanged,
    /// Answered with a redirect; its target went to `crawl.discovered`. Terminal.
    Redirected,
    /// We do not want it: robots.txt, a private address, another content type, a trap. Terminal.
    Refused,
    /// The site asked to be left alone (429, 503) until `blocked_until_ms`.
    Blocked,
    /// A passing failure; to be tried again at `retry_at_ms`.
    Retry,
    /// The URL was not requested; to be dispatched again from `retry_at_ms` on. No attempt was used. With `requested_at_ms`
    /// its robots.txt was requested instead, and failed.
    Deferred,
    /// It cannot be had: an error answer, or the attempts are used up. Terminal.
    Gone,
}

impl OutcomeKind {
    /// Whether the URL has ended.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Fetched | Self::Unchanged | Self::Redirected | Self::Refused | Self::Gone)
    }
}

/// How a dispatch ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The dispatch that ended.
    pub id: DispatchId,
    /// The crawl that it belongs to.
    pub crawl: String,
    /// Fingerprint of crawl and canonical form.
    pub fingerprint: Fingerprint,
    /// What was requested.
    pub url: String,
    /// The canonical form, where it differs from `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The site.
    pub site: String,
    /// Links followed from the seed.
    pub depth: u16,
    /// The page that led here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// The number of the attempt, from 1.
    pub attempt: u8,
    /// How it ended.
    pub kind: OutcomeKind,
    /// Why, as a short stable word (`robots`, `http_404`, `dns`, `connect`, `timeout`, `content_type`, `trap`, `stuck`,
    /// `rejected`, ...); absent when fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The HTTP status, where there was an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The content type, as the server gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Decoded bytes of the body that were read.
    #[serde(default)]
    pub bytes: u64,
    /// Where it redirected to, as an absolute URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// When it was dispatched.
    pub dispatched_at_ms: Millis,
    /// When the request was sent; absent when none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_at_ms: Option<Millis>,
    /// When the first byte of the answer came (or the attempt failed): the site's clock runs from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_at_ms: Option<Millis>,
    /// When the attempt ended; the event's time in the store, too, unless `written_at_ms` says otherwise.
    pub ended_at_ms: Millis,
    /// The event's time in the store, where an earlier write of the URL was not before `ended_at_ms` (rule 23).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_at_ms: Option<Millis>,
    /// When it may be tried again (retry, deferred).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at_ms: Option<Millis>,
    /// Until when the site asked to be left alone (blocked). Counted from the outcome's time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_until_ms: Option<Millis>,
    /// The site's crawl-delay from robots.txt, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crawl_delay_ms: Option<u64>,
}

impl Outcome {
    /// The outcome of a dispatch for which no request was made.
    #[must_use]
    pub fn unasked(dispatch: Dispatch, kind: OutcomeKind, reason: &str, now: Millis) -> Self {
        Self {
            id: dispatch.id,
            crawl: dispatch.crawl,
            fingerprint: dispatch.fingerprint,
            url: dispatch.url,
            key: dispatch.key,
            site: dispatch.site,
            depth: dispatch.depth,
            via: dispatch.via,
            attempt: dispatch.attempt,
            kind,
            reason: Some(reason.to_owned()),
            status: None,
            content_type: None,
            bytes: 0,
            location: None,
            dispatched_at_ms: dispatch.dispatched_at_ms,
            requested_at_ms: None,
            answered_at_ms: None,
            ended_at_ms: now,
            written_at_ms: None,
            retry_at_ms: None,
            blocked_until_ms: None,
            crawl_delay_ms: None,
        }
    }

    /// The outcome `gone: rejected` of a record of `crawl.scheduled` or `crawl.ready` that could not be processed, so that
    /// its lease ends. The fingerprint alone must be readable; `None` when it is not.
    #[must_use]
    pub fn of_rejected(record: &[u8], now: Millis) -> Option<Self> {
        let record: Value = serde_json::from_slice(record).ok()?;
        let dispatch = record.get("dispatch").unwrap_or(&record);
        let text = |field: &str| dispatch.get(field).and_then(Value::as_str).map(str::to_owned);
        let small = |field: &str| dispatch.get(field).and_then(Value::as_u64);
        let fingerprint = text("fingerprint")?.parse().ok()?;
        Some(Self {
            id: text("id").and_then(|id| id.try_into().ok()).unwrap_or(DispatchId { epoch: 0, sequence: 0 }),
            crawl: text("crawl").unwrap_or_default(),
            fingerprint,
            url: text("url").unwrap_or_default(),
            key: text("key"),
            site: text("site").unwrap_or_default(),
            depth: small("depth").and_then(|depth| depth.try_into().ok()).unwrap_or(0),
            via: text("via"),
            attempt: small("attempt").and_then(|attempt| attempt.try_into().ok()).unwrap_or(0),
            kind: OutcomeKind::Gone,
            reason: Some(REJECTED.to_owned()),
            status: None,
            content_type: None,
            bytes: 0,
            location: None,
            dispatched_at_ms: dispatch.get("dispatched_at_ms").and_then(Value::as_i64).unwrap_or(now),
            requested_at_ms: None,
            answered_at_ms: None,
            ended_at_ms: now,
            written_at_ms: None,
            retry_at_ms: None,
            blocked_until_ms: None,
            crawl_delay_ms: None,
        })
    }

    /// The canonical form.
    #[must_use]
    pub fn key(&self) -> &str {
        self.key.as_deref().unwrap_or(&self.url)
    }

    /// The event's time in the store.
    #[must_use]
    pub fn event_ms(&self) -> Millis {
        self.written_at_ms.unwrap_or(self.ended_at_ms)
    }

    /// The same for a process where it is `now`: what a clock made that is further ahead than clocks may be apart ended now,
    /// and what it names to come is as far away as it was for that clock. Its time in the store stays.
    #[must_use]
    pub fn in_time(mut self, now: Millis) -> Self {
        let ahead = self.ended_at_ms.saturating_sub(now);
        if ahead > CLOCK_MARGIN_MS {
            self.written_at_ms = Some(self.event_ms());
            self.ended_at_ms = now;
            for moment in [&mut self.retry_at_ms, &mut self.blocked_until_ms].into_iter().flatten() {
                *moment = moment.saturating_sub(ahead);
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]

    use super::*;

    #[test]
    fn a_rejected_dispatch_ends_its_url_when_no_more_than_its_fingerprint_can_be_read() {
        let fingerprint = Fingerprint::of("default", "https://example.org/");
        let broken = format!(r#"{{"fingerprint":"{fingerprint}","id":7,"depth":-1,"attempt":"x","url":["no text"]}}"#);
        for value in [broken.clone(), format!(r#"{{"not_before_ms":"soon","dispatch":{broken}}}"#)] {
            let outcome = Outcome::of_rejected(value.as_bytes(), 5).unwrap();
            assert_eq!((outcome.fingerprint, outcome.kind, outcome.depth), (fingerprint, OutcomeKind::Gone, 0));
            assert_eq!((outcome.reason.as_deref(), outcome.ended_at_ms), (Some("rejected"), 5));
        }
        for value in ["", "{", "{}", "[]", r#"{"fingerprint":"x"}"#, r#"{"dispatch":null}"#] {
            assert_eq!(Outcome::of_rejected(value.as_bytes(), 5), None, "{value}");
        }
    }

    #[test]
    fn a_rejected_dispatch_keeps_all_that_can_be_read() {
        let ready = include_str!("../../../schemas/examples/ready/1/default-interval.json");
        let read: crate::Ready = serde_json::from_str(ready).unwrap();
        let outcome = Outcome::of_rejected(ready.as_bytes(), 5).unwrap();
        assert_eq!(outcome, Outcome::unasked(read.dispatch, OutcomeKind::Gone, REJECTED, 5));
    }
}
