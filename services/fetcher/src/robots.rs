//! Meaning of the response to a request for robots.txt. Pure.

use orbweaver_log::{Partition, Record};
use orbweaver_messages::{DispatchId, Millis, Outcome, OutcomeKind, UrlContext};
use orbweaver_politeness::{
    MAX_ATTEMPTS, MAX_BLOCKS,
    robots::{RobotsPolicy, STALE_MS, UNREACHABLE_MS},
};
use orbweaver_store::{RobotsRow, event_time};
use orbweaver_url::{Fingerprint, SiteName, Url, partition_of, slot_of};

use crate::{
    address,
    classify::{block_ends, retry_at},
    client::{Attempt, Body, FetchError},
    config::{FetcherConfig, millis},
    records::{add_times, outcome_record},
    robots_cache::Tries,
    robots_lookups::RobotsLookup,
};

/// Id of an outcome that ends no dispatch: it reports a request to a site for a dispatch of another one.
pub(crate) const NO_DISPATCH: DispatchId = DispatchId { epoch: u64::MAX, sequence: u64::MAX };

/// A request for a robots.txt, and its result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RobotsRequest<'a> {
    /// Key of the file.
    pub(crate) key: &'a str,
    pub(crate) url: &'a Url,
    pub(crate) attempt: &'a Attempt,
    pub(crate) lookup: &'a RobotsLookup,
    /// Previous unsuccessful requests.
    pub(crate) tries: Tries,
}

impl RobotsRequest<'_> {
    /// Returns the row to store.
    fn row(&self, status: Option<u16>, body: String, lifetime_ms: Millis) -> RobotsRow {
        let ended_ms = self.attempt.ended_at_ms;
        RobotsRow {
            authority: self.key.to_owned(),
            fetched_at_ms: event_time(ended_ms, self.lookup.stored_ms),
            status,
            body,
            expires_ms: ended_ms.saturating_add(lifetime_ms),
        }
    }

    /// Returns the row of an authority for which nothing is allowed for a time.
    fn unreachable(&self, status: Option<u16>) -> RobotsRow {
        self.row(status, String::new(), UNREACHABLE_MS)
    }

    /// Returns the result of a failure: retried as often as a page; after that nothing is allowed for a time.
    fn failing(&self, status: Option<u16>) -> RobotsResult {
        let tries = Tries { failed: self.tries.failed.saturating_add(1), ..self.tries };
        if tries.failed >= MAX_ATTEMPTS {
            return RobotsResult::Store(self.unreachable(status), None);
        }
        RobotsResult::Failing { tries, retry_at_ms: retry_at(tries.failed, self.attempt.ended_at_ms), block: None }
    }
}

/// Block of a site by its response to a request for a robots.txt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) until_ms: Millis,
    /// Whether the site named that time itself.
    pub(crate) announced: bool,
}

/// Result of a request for a robots.txt.
#[derive(Debug)]
pub(crate) enum RobotsResult {
    /// A row to store, and to use once it is durable; after too many refusals with the block of the last.
    Store(RobotsRow, Option<Block>),
    /// A redirect to follow.
    Follow(Url),
    /// A failure, to be retried.
    Failing {
        /// Unsuccessful requests, including this one.
        tries: Tries,
        retry_at_ms: Millis,
        /// Block of the site of the requested URL, if that refused (429, 503).
        block: Option<Block>,
    },
    /// The address is not public.
    Private,
    /// The host does not exist.
    UnknownHost,
}

/// Decides the meaning of a response.
pub(crate) fn judge(sought: RobotsRequest<'_>, config: &FetcherConfig) -> RobotsResult {
    let found = |status, body, lifetime_ms| RobotsResult::Store(sought.row(Some(status), body, lifetime_ms), None);
    let none = |status| found(status, String::new(), millis(config.robots_error_lifetime));
    let answer = match &sought.attempt.result {
        // A redirect into a private network means that there is no public robots.txt.
        Err(FetchError::Private) if sought.lookup.redirects > 0 => return none(404),
        Err(FetchError::Private) => return RobotsResult::Private,
        Err(FetchError::UnknownHost) if sought.lookup.redirects == 0 => return RobotsResult::UnknownHost,
        Err(_) => return sought.failing(None),
        Ok(answer) => answer,
    };
    let status = answer.status;
    if matches!(status, 429 | 503) {
        let ended_ms = sought.attempt.ended_at_ms;
        let (until_ms, announced) = block_ends(answer.retry_after.as_deref(), sought.tries.refused, ended_ms);
        let tries = Tries { refused: sought.tries.refused.saturating_add(1), ..sought.tries };
        let block = Some(Block { until_ms, announced });
        if tries.refused >= MAX_BLOCKS {
            return RobotsResult::Store(sought.unreachable(Some(status)), block);
        }
        return RobotsResult::Failing { tries, retry_at_ms: until_ms, block };
    }
    match RobotsPolicy::of(status, sought.lookup.redirects) {
        RobotsPolicy::Parse => {
            let body = match &answer.body {
                Body::Read { bytes, .. } => String::from_utf8_lossy(bytes).into_owned(),
                Body::Unread | Body::Unwanted => String::new(),
            };
            found(status, body, lifetime_ms(answer.cache_control.as_deref(), millis(config.robots_lifetime)))
        }
        RobotsPolicy::Follow => {
            let target = answer.location.as_deref().and_then(|to| orbweaver_url::resolve(sought.url, to).ok());
            let allowed = |url: &Url| !config.refuses(url) && !address::has_bad_port(url);
            target.filter(allowed).map_or_else(|| none(status), RobotsResult::Follow)
        }
        RobotsPolicy::AllowAll => none(status),
        RobotsPolicy::DisallowAll => sought.failing(Some(status)),
    }
}

/// Returns the lifetime of a robots.txt, in milliseconds: that of its Cache-Control, within bounds, else `default_ms`
/// (RFC 9309 section 2.4).
fn lifetime_ms(cache_control: Option<&str>, default_ms: Millis) -> Millis {
    let mut lifetime_ms = default_ms;
    for directive in cache_control.unwrap_or_default().split(',') {
        let directive = directive.trim().to_ascii_lowercase();
        if directive == "no-store" || directive == "no-cache" {
            return UNREACHABLE_MS;
        }
        if let Some(seconds) =
            directive.strip_prefix("max-age=").and_then(|age| age.trim_matches('"').parse::<u32>().ok())
        {
            lifetime_ms = (Millis::from(seconds) * 1000).clamp(UNREACHABLE_MS, STALE_MS);
        }
    }
    lifetime_ms
}

/// Returns `true` for an expired row that remains usable while its authority is unreachable: for [`STALE_MS`] after its
/// expiry, whatever its lifetime was. No lifetime is longer than that, so a row that expires later than that from now
/// was written by a clock that was ahead: its age is unknown, and it is not usable.
pub(crate) fn serves_stale(row: &RobotsRow, now: Millis) -> bool {
    let is_answer = matches!(row.status, Some(300..=428 | 430..=499 | 200..=299));
    is_answer && (-STALE_MS..STALE_MS).contains(&now.saturating_sub(row.expires_ms))
}

/// An unsuccessful request, as reported to the services of its site.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report<'a> {
    pub(crate) site: &'a SiteName,
    pub(crate) url: &'a Url,
    pub(crate) attempt: &'a Attempt,
    pub(crate) block: Option<Block>,
}

impl Report<'_> {
    /// Adds the request to an outcome of its site.
    pub(crate) fn add_to(&self, outcome: &mut Outcome) {
        add_times(outcome, self.attempt);
        if let Some(block) = self.block {
            outcome.status = self.attempt.result.as_ref().ok().map(|answer| answer.status);
            outcome.blocked_until_ms = block.announced.then_some(block.until_ms);
        }
    }

    /// Returns the record of an outcome of the site for the request alone, in the site's partition: a deferral that
    /// ends no dispatch. `cause` is the outcome of the dispatch that caused the request.
    pub(crate) fn record(&self, cause: &Outcome, partitions: Partition) -> Record {
        let context = UrlContext {
            // The fingerprint of no URL: the requested one may be queued.
            fingerprint: Fingerprint::of(&cause.context.crawl, ""),
            url: self.url.to_string(),
            key: None,
            site: self.site.to_owned(),
            chain: vec![],
            ..cause.context.clone()
        };
        let mut outcome = Outcome {
            id: NO_DISPATCH,
            context,
            kind: OutcomeKind::Deferred,
            status: None,
            content_type: None,
            bytes: 0,
            location: None,
            written_at_ms: None,
            retry_at_ms: None,
            crawl_delay_ms: None,
            ..cause.clone()
        };
        self.add_to(&mut outcome);
        outcome_record(&outcome, partition_of(slot_of(self.site), partitions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: Millis = 24 * 3_600_000;

    #[test]
    fn cache_control_shortens_and_lengthens_a_lifetime_within_bounds() {
        for (given, expected_ms) in [
            (None, DAY_MS),
            (Some("public"), DAY_MS),
            (Some("public, Max-Age=3600"), 3_600_000),
            (Some("max-age=\"172800\""), 2 * DAY_MS),
            (Some("max-age=5"), UNREACHABLE_MS),
            (Some("max-age=999999999"), STALE_MS),
            (Some("max-age=99999999999999999999"), DAY_MS),
            (Some("max-age=-1"), DAY_MS),
            (Some("max-age=3600, no-cache"), UNREACHABLE_MS),
        ] {
            assert_eq!(lifetime_ms(given, DAY_MS), expected_ms, "{given:?}");
        }
    }
}
