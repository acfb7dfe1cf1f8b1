//! `crawl.outcomes`: results of dispatches.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{CLOCK_MARGIN_MS, DiscoveryKind, Dispatch, DispatchId, Millis, PageVersion, UrlContext};

/// Outcome reason of a dispatch whose record could not be processed; the record is in the dead letters.
const REJECTED: &str = "rejected";

/// Kind of result of a dispatch; a closed set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    /// Status 200 with a page, which is in `crawl.pages`, or with a requisite; or an external URL that exists. Terminal.
    Fetched,
    /// Not modified since the last fetch. Terminal.
    Unchanged,
    /// Redirect; the target is in `crawl.discovered`. Terminal.
    Redirected,
    /// Not crawled: robots.txt, the purpose of the crawl, a private address, another content type, a trap. Terminal.
    Refused,
    /// Status 429 or 503, or a challenge that only a browser passes: the site is blocked until `blocked_until_ms`.
    Blocked,
    /// Transient failure; to be retried at `retry_at_ms`. An attempt only if `requested_at_ms` is set.
    Retry,
    /// No request for the URL was made, or it was begun and its next redirect came too late; to be dispatched again
    /// from `retry_at_ms` on. Not an attempt. With `requested_at_ms`: a robots.txt of the site was requested instead
    /// and failed, or, without a dispatch, the site refused a request that began at another site.
    Deferred,
    /// Unavailable: an error response, or no attempts left. Terminal.
    Gone,
}

impl OutcomeKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Fetched,
        Self::Unchanged,
        Self::Redirected,
        Self::Refused,
        Self::Blocked,
        Self::Retry,
        Self::Deferred,
        Self::Gone,
    ];

    /// Returns the name, as it is serialized.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fetched => "fetched",
            Self::Unchanged => "unchanged",
            Self::Redirected => "redirected",
            Self::Refused => "refused",
            Self::Blocked => "blocked",
            Self::Retry => "retry",
            Self::Deferred => "deferred",
            Self::Gone => "gone",
        }
    }

    /// Returns `true` if the URL has ended.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Fetched | Self::Unchanged | Self::Redirected | Self::Refused | Self::Gone)
    }
}

/// Result of a dispatch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Dispatch that ended; the highest possible ID if the record belongs to none.
    pub id: DispatchId,
    /// URL of the dispatch.
    pub context: UrlContext,
    /// Number of the attempt, from 1.
    pub attempt: u8,
    /// Kind of result.
    pub kind: OutcomeKind,
    /// Reason as a short stable word (`robots`, `purpose`, `http_404`, `soft_404`, `challenge`, `dns`, `connect`,
    /// `timeout`, `content_type`, `trap`, `stuck`, `rejected`, ...); absent when fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// HTTP status, if there was a response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Content type, as given by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Decoded size of the body as read, in bytes.
    #[serde(default)]
    pub bytes: u64,
    /// Redirect target, as an absolute URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Dispatch time.
    pub dispatched_at_ms: Millis,
    /// Time of the request; absent if none was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_at_ms: Option<Millis>,
    /// Time of the first byte of the response, or of the failure. The politeness delay runs from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_at_ms: Option<Millis>,
    /// End of the attempt; also the event time in the store unless `written_at_ms` overrides it.
    pub ended_at_ms: Millis,
    /// Event time in the store, if an earlier write of the URL was not before `ended_at_ms`
    /// (docs/protocol.md#event-times).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_at_ms: Option<Millis>,
    /// Earliest time of the next attempt (retry, deferred).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at_ms: Option<Millis>,
    /// End of the site's block (blocked), counted from the outcome's time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_until_ms: Option<Millis>,
    /// Crawl delay of the site's robots.txt, if known, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crawl_delay_ms: Option<u64>,
    /// Version of the page that was found, if it was found and the dispatch has a known one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<PageVersion>,
}

impl Outcome {
    /// Returns the outcome of a dispatch, without the data of a request.
    #[must_use]
    pub fn of(dispatch: &Dispatch, kind: OutcomeKind, reason: Option<&str>, ended_at_ms: Millis) -> Self {
        Self {
            id: dispatch.id,
            context: dispatch.context.clone(),
            attempt: dispatch.attempt,
            kind,
            reason: reason.map(str::to_owned),
            status: None,
            content_type: None,
            bytes: 0,
            location: None,
            dispatched_at_ms: dispatch.dispatched_at_ms,
            requested_at_ms: None,
            answered_at_ms: None,
            ended_at_ms,
            written_at_ms: None,
            retry_at_ms: None,
            blocked_until_ms: None,
            crawl_delay_ms: None,
            version: None,
        }
    }

    /// Returns the outcome `gone: rejected` of a record of `crawl.scheduled` or `crawl.ready` that could not be
    /// processed, which ends its lease. Only the fingerprint must be readable; otherwise returns `None`.
    #[must_use]
    pub fn of_rejected(record: &[u8], now: Millis) -> Option<Self> {
        let record: Value = serde_json::from_slice(record).ok()?;
        let dispatch = record.get("dispatch").unwrap_or(&record);
        let context = dispatch.get("context")?;
        let context = UrlContext {
            crawl: read(context, "crawl").unwrap_or_default(),
            fingerprint: read(context, "fingerprint")?,
            url: read(context, "url").unwrap_or_default(),
            key: read(context, "key"),
            policy: read(context, "policy").unwrap_or_default(),
            site: read(context, "site").unwrap_or_default(),
            depth: read(context, "depth").unwrap_or_default(),
            sighting: read(context, "sighting").unwrap_or(DiscoveryKind::Link),
            via: read(context, "via"),
            chain: read(context, "chain").unwrap_or_default(),
            trail: read(context, "trail").unwrap_or_default(),
            priority: read(context, "priority").unwrap_or_default(),
            metadata: read(context, "metadata").unwrap_or_default(),
            visit: read(context, "visit").unwrap_or_default(),
            listed_modified_ms: read(context, "listed_modified_ms"),
        };
        let dispatch = Dispatch {
            id: read(dispatch, "id").unwrap_or(DispatchId { epoch: 0, sequence: 0 }),
            context,
            attempt: read(dispatch, "attempt").unwrap_or_default(),
            last_attempt: true,
            blocks: 0,
            written_at_ms: 0,
            definition: 0,
            known: None,
            visited_at_ms: None,
            dispatched_at_ms: read(dispatch, "dispatched_at_ms").unwrap_or(now),
            not_after_ms: now,
            expires_ms: now,
        };
        Some(Self::of(&dispatch, OutcomeKind::Gone, Some(REJECTED), now))
    }

    /// Returns the event time in the store.
    #[must_use]
    pub fn event_ms(&self) -> Millis {
        self.written_at_ms.unwrap_or(self.ended_at_ms)
    }

    /// Returns the outcome as seen by a process whose clock reads `now`. An end more than [`CLOCK_MARGIN_MS`] ahead
    /// becomes `now`, and the retry and block times keep their distance from it. The event time in the store is
    /// unchanged.
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

/// Returns a field of a record, if it is there and readable.
fn read<T: DeserializeOwned>(record: &Value, field: &str) -> Option<T> {
    T::deserialize(record.get(field)?).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]

    use orbweaver_url::{CrawlName, Fingerprint};

    use super::*;

    #[test]
    fn a_rejected_dispatch_ends_its_url_when_no_more_than_its_fingerprint_can_be_read() {
        let fingerprint = Fingerprint::of(&CrawlName::default(), "https://example.org/");
        let broken = format!(
            r#"{{"id":7,"context":{{"fingerprint":"{fingerprint}","depth":-1,"url":["no text"]}},"attempt":"x"}}"#
        );
        for value in [broken.clone(), format!(r#"{{"not_before_ms":"soon","dispatch":{broken}}}"#)] {
            let outcome = Outcome::of_rejected(value.as_bytes(), 5).unwrap();
            assert_eq!(
                (outcome.context.fingerprint, outcome.kind, outcome.context.depth),
                (fingerprint, OutcomeKind::Gone, 0)
            );
            assert_eq!((outcome.reason.as_deref(), outcome.ended_at_ms), (Some("rejected"), 5));
        }
        for value in ["", "{", "{}", "[]", r#"{"context":{"fingerprint":"x"}}"#, r#"{"dispatch":null}"#] {
            assert_eq!(Outcome::of_rejected(value.as_bytes(), 5), None, "{value}");
        }
    }

    #[test]
    fn a_rejected_dispatch_keeps_all_that_can_be_read() {
        let ready = include_str!("../../../schemas/examples/ready/2/default-interval.json");
        let read: crate::ReadyDispatch = serde_json::from_str(ready).unwrap();
        let outcome = Outcome::of_rejected(ready.as_bytes(), 5).unwrap();
        assert_eq!(outcome, Outcome::of(&read.dispatch, OutcomeKind::Gone, Some(REJECTED), 5));
    }
}
