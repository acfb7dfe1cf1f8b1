//! Meaning of a response for a dispatch. Pure.

use orbweaver_messages::{Dispatch, Millis, Outcome, OutcomeKind, PageKind, UrlContext};
use orbweaver_politeness::{MAX_BLOCKS, block_ms, retry_after_ms, retry_delay_ms};
use orbweaver_url::{Fingerprint, Url, UrlError};

use crate::{
    active_dispatch::ActiveDispatch,
    client::{Attempt, Body, FetchError, HttpResponse, Purpose},
    reason::Reason,
    substitute::Substitute,
};

/// Maximum number of redirects in a chain, as in browsers.
pub(crate) const MAX_CHAIN: usize = 20;
/// Maximum total length of the URLs in a chain, in bytes: every record of a URL carries the chain.
pub(crate) const MAX_CHAIN_BYTES: usize = 64 << 10;
/// Number of challenges that ends a URL: after the first its site pauses, as after status 429, since some sites challenge a
/// crawler that is too fast; others challenge every crawler, whatever its pace.
const MAX_CHALLENGES: u8 = 2;
/// Maximum number of redirects to a known target that are followed within one dispatch.
pub(crate) const MAX_AGAIN: usize = 5;
/// Delay before a page that was not read for lack of memory or of its proxy is dispatched again, in milliseconds: the
/// memory is held by bodies that wait for the log or the store.
pub(crate) const OWN_RETRY_MS: Millis = 10_000;

/// Meaning of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A page.
    Fetched,
    /// An external URL that exists.
    Exists,
    /// The page has not changed.
    Unchanged,
    /// A redirect to another page.
    Redirected(Url),
    /// A redirect to a URL that counts as this dispatch's own: to be requested within the same dispatch.
    Again(Url),
    /// The crawler rejects the page.
    Refused(Reason),
    /// The site refuses requests for a time.
    Blocked {
        until_ms: Millis,
        /// Whether the site named that time itself.
        announced: bool,
        reason: Reason,
        /// Whether the URL ends too, after too many refusals.
        ends: bool,
    },
    /// To be retried at this time.
    Retry(Reason, Millis),
    /// To be dispatched again at this time, through no fault of the site: it costs no attempt.
    Deferred(Reason, Millis),
    /// The page is unavailable.
    Gone(Reason),
}

pub(crate) fn classify(active: &ActiveDispatch, attempt: &Attempt) -> Verdict {
    match &attempt.result {
        Err(FetchError::Private) => Verdict::Refused(Reason::Failed(FetchError::Private)),
        Err(FetchError::UnknownHost) => Verdict::Gone(Reason::Failed(FetchError::UnknownHost)),
        Err(failure @ (FetchError::Memory | FetchError::Proxy)) => {
            Verdict::Deferred(Reason::Failed(*failure), attempt.ended_at_ms.saturating_add(OWN_RETRY_MS))
        }
        Err(failure) => transient_failure(active.dispatch(), Reason::Failed(*failure), attempt.ended_at_ms),
        Ok(answer) => classify_answer(active, answer, attempt.ended_at_ms),
    }
}

fn classify_answer(active: &ActiveDispatch, answer: &HttpResponse, ended_ms: Millis) -> Verdict {
    let reason = Reason::Status(answer.status);
    match answer.status {
        429 | 503 => refusal(active, (answer, MAX_BLOCKS), reason, ended_ms),
        _ if answer.substitute == Some(Substitute::Challenge) => {
            refusal(active, (answer, MAX_CHALLENGES), Reason::Substitute(Substitute::Challenge), ended_ms)
        }
        200 if let Some(substitute) = answer.substitute => Verdict::Gone(Reason::Substitute(substitute)),
        200..=299 if active.purpose() == Purpose::External => Verdict::Exists,
        200 if answer.refusal.is_some() => Verdict::Refused(Reason::Purpose),
        200 => match answer.body {
            Body::Read { .. } if answer.kind != PageKind::Response => Verdict::Fetched,
            _ => Verdict::Refused(Reason::ContentType),
        },
        304 => Verdict::Unchanged,
        300..=399 => answer.location.as_deref().map_or(Verdict::Gone(reason), |to| redirect(active, to)),
        500..=599 => transient_failure(active.dispatch(), reason, ended_ms),
        _ => Verdict::Gone(reason),
    }
}

/// Returns the verdict on a refusal for a time, of which the `most`th ends the URL.
fn refusal(active: &ActiveDispatch, (answer, most): (&HttpResponse, u8), reason: Reason, ended_ms: Millis) -> Verdict {
    let blocks = active.dispatch().blocks;
    let (until_ms, announced) = block_ends(answer.retry_after.as_deref(), blocks, ended_ms);
    Verdict::Blocked { until_ms, announced, reason, ends: blocks.saturating_add(1) >= most }
}

/// Returns the verdict on a transient failure: a retry, or the end of the URL after the last attempt.
pub(crate) fn transient_failure(dispatch: &Dispatch, reason: Reason, ended_ms: Millis) -> Verdict {
    if dispatch.last_attempt {
        Verdict::Gone(reason)
    } else {
        Verdict::Retry(reason, retry_at(dispatch.attempt, ended_ms))
    }
}

/// Returns the time of the retry after the `attempt`th failure.
pub(crate) fn retry_at(attempt: u8, ended_ms: Millis) -> Millis {
    ended_ms.saturating_add_unsigned(retry_delay_ms(attempt))
}

/// Returns the end of the block of a site that answered 429 or 503, and whether the site named that time itself: the
/// duration that it requests, else a longer one each time.
pub(crate) fn block_ends(retry_after: Option<&str>, blocks_before: u8, ended_ms: Millis) -> (Millis, bool) {
    let asked_ms = retry_after.and_then(|value| retry_after_ms(value, ended_ms));
    let span_ms = asked_ms.unwrap_or_else(|| block_ms(blocks_before.into()));
    (ended_ms.saturating_add_unsigned(span_ms), asked_ms.is_some())
}

/// Returns the end of the block of an outcome's site, if the site refused. If it named no time, the shortest block
/// applies, which is longer than a dispatch sent before the refusal may wait; the rate-limiter keeps the longer ones.
pub(crate) fn refused_until(outcome: &Outcome) -> Option<Millis> {
    let refused = outcome.kind == OutcomeKind::Blocked || matches!(outcome.status, Some(429 | 503));
    outcome.blocked_until_ms.or_else(|| refused.then(|| block_ends(None, 0, outcome.ended_at_ms).0))
}

fn redirect(active: &ActiveDispatch, location: &str) -> Verdict {
    let target = match orbweaver_url::resolve(&active.url, location) {
        Ok(target) => target,
        Err(UrlError::TooLong(_)) => return Verdict::Gone(Reason::UrlTooLong),
        Err(_) => return Verdict::Gone(Reason::BadRedirect),
    };
    let UrlContext { crawl, chain, fingerprint, policy, .. } = &active.dispatch().context;
    let of = |url: &Url| Fingerprint::of(crawl, &policy.canonical_text(url));
    let to = of(&target);
    let known = to == *fingerprint
        || chain.iter().filter_map(|passed| orbweaver_url::parse(passed).ok()).any(|passed| of(&passed) == to);
    if known {
        let looped = active.before.len() >= MAX_AGAIN;
        return if looped { Verdict::Gone(Reason::RedirectLoop) } else { Verdict::Again(target) };
    }
    let passed = || chain.iter().chain(&active.before);
    let bytes = passed().map(String::len).sum::<usize>() + active.url.as_str().len();
    if passed().count() + 1 > MAX_CHAIN || bytes > MAX_CHAIN_BYTES {
        return Verdict::Gone(Reason::TooManyRedirects);
    }
    Verdict::Redirected(target)
}

#[cfg(test)]
pub(crate) mod tests;
