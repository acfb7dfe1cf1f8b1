//! `crawl.scheduled` and `crawl.ready`: a URL on its way to be fetched.

use orbweaver_url::{Fingerprint, Policy};
use serde::{Deserialize, Serialize};

use crate::{Millis, Sighting, Trail, waiting::is_zero};

/// How long after its dispatch a request may still be sent, in milliseconds; later it goes back as deferred.
pub const NOT_AFTER_MS: Millis = 20_000;
/// How long after its dispatch a lease lives, in milliseconds; later it is dropped by whoever holds it.
pub const EXPIRES_MS: Millis = 60_000;
/// The longest that one fetch takes, in milliseconds, whatever the server does.
pub const LONGEST_FETCH_MS: Millis = 60_000;
/// How far clocks of different machines may be apart, in milliseconds.
pub const CLOCK_MARGIN_MS: Millis = 5_000;
/// After so long a lease is certainly over: the frontier leases again, and logs of dispatches and outcomes are read back by
/// this much when an index over them is restored. In milliseconds.
pub const LEASE_MS: Millis = EXPIRES_MS + LONGEST_FETCH_MS + CLOCK_MARGIN_MS;

/// Names a dispatch within its partition: the owner's epoch (offset of its claim) and a running number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DispatchId {
    /// Offset of the claim under which the frontier dispatched.
    pub epoch: u64,
    /// Counts the dispatches of that epoch, from 0.
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
        let (epoch, sequence) = parts.ok_or_else(|| format!("`{text}` is not a dispatch id; one is EPOCH-SEQUENCE"))?;
        Ok(Self { epoch, sequence })
    }
}

/// A lease on a URL: until `expires_ms` nobody else is given it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispatch {
    /// Names this dispatch.
    pub id: DispatchId,
    /// The crawl that it belongs to.
    pub crawl: String,
    /// Fingerprint of crawl and canonical form.
    pub fingerprint: Fingerprint,
    /// What is requested.
    pub url: String,
    /// The canonical form, where it differs from `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The policy of the canonical form; absent: `standard/1`. Redirects are compared by it.
    #[serde(default, skip_serializing_if = "Policy::is_standard")]
    pub policy: Policy,
    /// The site, computed at admission.
    pub site: String,
    /// Links followed from the seed.
    pub depth: u16,
    /// How it was found.
    pub sighting: Sighting,
    /// The page that led here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// The URLs that redirected here, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<String>,
    /// The patterns of the pages that lead here, and its own.
    #[serde(default, skip_serializing_if = "Trail::is_empty")]
    pub trail: Trail,
    /// The number of this attempt, from 1.
    pub attempt: u8,
    /// A failure of this attempt ends the URL.
    pub last_attempt: bool,
    /// Answers of 429 or 503 so far.
    #[serde(default)]
    pub blocks: u8,
    /// The latest event time that was written to the store for it, as far as is known (rule 23), in milliseconds since the Unix
    /// epoch; 0: none. What this dispatch causes is written with a later one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub written_at_ms: Millis,
    /// When it was dispatched, in milliseconds since the Unix epoch.
    pub dispatched_at_ms: Millis,
    /// Past this moment it goes back unasked.
    pub not_after_ms: Millis,
    /// Past this moment it is dropped by whoever holds it.
    pub expires_ms: Millis,
}

impl Dispatch {
    /// The canonical form.
    #[must_use]
    pub fn key(&self) -> &str {
        self.key.as_deref().unwrap_or(&self.url)
    }
}

/// A dispatch that got its moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// The site may not be asked before this moment, in milliseconds since the Unix epoch.
    pub not_before_ms: Millis,
    /// Least time from an answer of the site to its next request, in milliseconds; 0: unlimited.
    pub interval_ms: u64,
    /// What is to be fetched.
    pub dispatch: Dispatch,
}

impl Ready {
    /// The same for a process where it is `now`: what a clock made that is further ahead than clocks may be apart counts as
    /// dispatched now, so that nobody waits for an hour since another's clock was set.
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
