//! `crawl.scheduled` and `crawl.ready`: orders to fetch a URL.

use serde::{Deserialize, Serialize};

use crate::{FrontierUrl, Millis, PageVersion, UrlContext, is_default};

/// Time after the dispatch during which its request may be sent, in milliseconds; later it is deferred.
pub const SEND_WINDOW_MS: Millis = 20_000;
/// Lifetime of a dispatch, in milliseconds; it ends a chain of redirects, and bounds the lease.
pub const DISPATCH_TTL_MS: Millis = 60_000;
/// Maximum duration of a fetch, in milliseconds, whatever the server does.
pub const MAX_FETCH_MS: Millis = 60_000;
/// Largest tolerated clock difference between machines, in milliseconds.
pub const CLOCK_MARGIN_MS: Millis = 5_000;
/// Time after which a lease has certainly ended, in milliseconds. The frontier then leases the URL again; to restore an
/// index over dispatches or outcomes, their logs are read back by this much.
pub const LEASE_MS: Millis = DISPATCH_TTL_MS + MAX_FETCH_MS + CLOCK_MARGIN_MS;

/// Identifier of a dispatch within its partition: owner epoch (offset of the claim) and sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DispatchId {
    /// Offset of the claim under which the frontier dispatched.
    pub epoch: u64,
    /// Number of the dispatch within the epoch, from 0.
    pub sequence: u64,
}

impl std::fmt::Display for DispatchId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.epoch, self.sequence)
    }
}

impl From<DispatchId> for String {
    fn from(id: DispatchId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for DispatchId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let parts = text.split_once('-').and_then(|(e, s)| Some((e.parse().ok()?, s.parse().ok()?)));
        let (epoch, sequence) =
            parts.ok_or_else(|| format!("`{text}` is not a dispatch id; expected EPOCH-SEQUENCE, such as `7-42`"))?;
        Ok(Self { epoch, sequence })
    }
}

/// Lease on a URL: no other dispatch of it is made before `expires_ms`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispatch {
    /// Identifier of this dispatch.
    pub id: DispatchId,
    /// URL to request.
    pub context: UrlContext,
    /// Number of this attempt, from 1.
    pub attempt: u8,
    /// Whether a failure of this attempt ends the URL.
    pub last_attempt: bool,
    /// 429 and 503 responses so far.
    #[serde(default)]
    pub blocks: u8,
    /// Latest known event time of the URL's writes to the store (docs/protocol.md#event-times), in milliseconds since
    /// the Unix epoch; 0: none. Writes caused by this dispatch carry a later one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub written_at_ms: Millis,
    /// Version of the crawl's definition that the frontier applied: a fetcher that has not read it defers the dispatch;
    /// 0: none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub definition: u64,
    /// Known version of the page, for a conditional request, in a crawl with revisits; the outcome then has the version
    /// that is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<PageVersion>,
    /// End of the previous visit, in milliseconds since the Unix epoch, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visited_at_ms: Option<Millis>,
    /// Dispatch time, in milliseconds since the Unix epoch.
    pub dispatched_at_ms: Millis,
    /// Time after which it is deferred without a request.
    pub not_after_ms: Millis,
    /// Time after which no further request of its chain of redirects is sent.
    pub expires_ms: Millis,
}

impl Dispatch {
    /// Returns a dispatch that leases a queued URL from `now` on.
    #[must_use]
    pub fn of(waiting: &FrontierUrl, id: DispatchId, last_attempt: bool, now: Millis) -> Self {
        Self {
            id,
            context: waiting.context.clone(),
            attempt: waiting.failures.saturating_add(1),
            last_attempt,
            blocks: waiting.blocks,
            written_at_ms: waiting.written_at_ms,
            definition: 0,
            known: waiting.visits.as_ref().map(|visits| visits.version.clone()),
            visited_at_ms: waiting.visits.as_ref().map(|visits| visits.visited_at_ms),
            dispatched_at_ms: now,
            not_after_ms: now + SEND_WINDOW_MS,
            expires_ms: now + DISPATCH_TTL_MS,
        }
    }
}

/// Dispatch with its scheduled time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadyDispatch {
    /// Earliest time of a request to the site, in milliseconds since the Unix epoch.
    pub not_before_ms: Millis,
    /// Politeness delay: least time from a response of the site to the next request, in milliseconds; 0: unlimited.
    pub interval_ms: u64,
    /// Minimum time since the previous response of the site to a request of this crawl, in milliseconds; 0: none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub crawl_interval_ms: u64,
    /// URL to fetch.
    pub dispatch: Dispatch,
}

impl ReadyDispatch {
    /// Returns the dispatch as seen by a process whose clock reads `now`. A dispatch time more than [`CLOCK_MARGIN_MS`]
    /// ahead becomes `now`, and the other times move with it, so that a wrong clock elsewhere delays nothing.
    #[must_use]
    pub fn in_time(mut self, now: Millis) -> Self {
        let dispatch = &mut self.dispatch;
        let ahead = dispatch.dispatched_at_ms.saturating_sub(now);
        if ahead > CLOCK_MARGIN_MS {
            let moments = [
                &mut self.not_before_ms,
                &mut dispatch.dispatched_at_ms,
                &mut dispatch.not_after_ms,
                &mut dispatch.expires_ms,
            ];
            for moment in moments {
                *moment = moment.saturating_sub(ahead);
            }
        }
        self
    }
}
