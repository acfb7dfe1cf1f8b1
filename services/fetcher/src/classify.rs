//! What an answer means for a dispatch. Pure.

use std::borrow::Cow;

use orbweaver_messages::{Dispatch, Millis, Outcome, OutcomeKind};
use orbweaver_politeness::{MAX_BLOCKS, block_ms, retry_after_ms, retry_delay_ms};
use orbweaver_url::{Fingerprint, Url, UrlError};

use crate::client::{Answer, Attempt, Body, Failure};

/// Redirects of one chain, at most; as browsers have it.
pub const MAX_CHAIN: usize = 20;
/// Bytes of the URLs of one chain, at most: every record of a URL carries it.
pub const MAX_CHAIN_BYTES: usize = 64 << 10;
/// How often a redirect to what is known already is followed within one dispatch.
pub const MAX_AGAIN: usize = 5;
/// A page that was not read for want of memory is dispatched again after this time, in milliseconds: what holds the memory waits for
/// the log or the store.
pub const MEMORY_RETRY_MS: Millis = 10_000;

/// A reason, in the words of an outcome.
pub type Reason = Cow<'static, str>;

/// What was asked.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// For which dispatch.
    pub dispatch: &'a Dispatch,
    /// What was requested.
    pub url: &'a Url,
    /// What was requested for this dispatch before.
    pub before: &'a [String],
}

/// The closed set of what an answer can mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// A page.
    Fetched,
    /// Nothing changed.
    Unchanged,
    /// It leads to another page.
    Redirected(Url),
    /// It leads to what this dispatch stands for: to be asked for within the same dispatch.
    Again(Url),
    /// We do not want it.
    Refused(Reason),
    /// The site wants to be left alone until then.
    Blocked {
        /// Until when.
        until_ms: Millis,
        /// The site named that time itself.
        told: bool,
        /// Its words.
        reason: Reason,
        /// It was asked for so often that the URL ends, too.
        ends: bool,
    },
    /// To be tried again then.
    Retry(Reason, Millis),
    /// To be tried again then, through no fault of the site: it costs no attempt.
    Deferred(Reason, Millis),
    /// It cannot be had.
    Gone(Reason),
}

/// Decides what an attempt means.
#[must_use]
pub fn classify(asked: Asked<'_>, attempt: &Attempt) -> Verdict {
    match &attempt.result {
        Err(Failure::Private) => Verdict::Refused(Failure::Private.reason().into()),
        Err(Failure::UnknownHost) => Verdict::Gone(Failure::UnknownHost.reason().into()),
        Err(Failure::Memory) => {
            Verdict::Deferred(Failure::Memory.reason().into(), attempt.ended_at_ms.saturating_add(MEMORY_RETRY_MS))
        }
        Err(failure) => passing(asked.dispatch, failure.reason().into(), attempt.ended_at_ms),
        Ok(answer) => classify_answer(asked, answer, attempt.ended_at_ms),
    }
}

fn classify_answer(asked: Asked<'_>, answer: &Answer, ended_ms: Millis) -> Verdict {
    let reason = || Reason::from(format!("http_{}", answer.status));
    match answer.status {
        200 => match answer.body {
            Body::Read { .. } => Verdict::Fetched,
            Body::Unread | Body::NotHtml => Verdict::Refused("content_type".into()),
        },
        304 => Verdict::Unchanged,
        300..=399 => answer.location.as_deref().map_or_else(|| Verdict::Gone(reason()), |to| redirect(asked, to)),
        429 | 503 => {
            let (until_ms, told) = block_ends(answer.retry_after.as_deref(), asked.dispatch.blocks, ended_ms);
            let ends = asked.dispatch.blocks.saturating_add(1) >= MAX_BLOCKS;
            Verdict::Blocked { until_ms, told, reason: reason(), ends }
        }
        500..=599 => passing(asked.dispatch, reason(), ended_ms),
        _ => Verdict::Gone(reason()),
    }
}

/// A failure that may pass by itself.
#[must_use]
pub fn passing(dispatch: &Dispatch, reason: Reason, ended_ms: Millis) -> Verdict {
    if dispatch.last_attempt {
        Verdict::Gone(reason)
    } else {
        Verdict::Retry(reason, retry_at(dispatch.attempt, ended_ms))
    }
}

/// When what failed for the `attempt`th time is tried again.
#[must_use]
pub fn retry_at(attempt: u8, ended_ms: Millis) -> Millis {
    ended_ms.saturating_add_unsigned(retry_delay_ms(attempt))
}

/// Until when a site is blocked that answered 429 or 503, and whether it named that time itself: as long as it asks for, else
/// longer each time.
#[must_use]
pub fn block_ends(retry_after: Option<&str>, blocks_before: u8, ended_ms: Millis) -> (Millis, bool) {
    let asked_ms = retry_after.and_then(|value| retry_after_ms(value, ended_ms));
    let span_ms = asked_ms.unwrap_or_else(|| block_ms(blocks_before.into()));
    (ended_ms.saturating_add_unsigned(span_ms), asked_ms.is_some())
}

/// Until when the site of an outcome is blocked, when it refused. Where it named no time, the shortest block counts, which is
/// longer than a dispatch that was sent out before the refusal may wait; the rate-limiter keeps the longer ones.
pub(crate) fn refused_until(outcome: &Outcome) -> Option<Millis> {
    let refused = outcome.kind == OutcomeKind::Blocked || matches!(outcome.status, Some(429 | 503));
    outcome.blocked_until_ms.or_else(|| refused.then(|| block_ends(None, 0, outcome.ended_at_ms).0))
}

fn redirect(asked: Asked<'_>, location: &str) -> Verdict {
    let target = match orbweaver_url::resolve(asked.url, location) {
        Ok(target) => target,
        Err(UrlError::TooLong(_)) => return Verdict::Gone("url_too_long".into()),
        Err(_) => return Verdict::Gone("bad_redirect".into()),
    };
    let Dispatch { crawl, chain, fingerprint, policy, .. } = asked.dispatch;
    let of = |url: &Url| Fingerprint::of(crawl, &policy.canonical_text(url));
    let to = of(&target);
    let known = to == *fingerprint
        || chain.iter().filter_map(|passed| orbweaver_url::parse(passed).ok()).any(|passed| of(&passed) == to);
    if known {
        let looped = asked.before.len() >= MAX_AGAIN;
        return if looped { Verdict::Gone("redirect_loop".into()) } else { Verdict::Again(target) };
    }
    let passed = || chain.iter().chain(asked.before);
    let bytes = passed().map(String::len).sum::<usize>() + asked.url.as_str().len();
    if passed().count() + 1 > MAX_CHAIN || bytes > MAX_CHAIN_BYTES {
        return Verdict::Gone("too_many_redirects".into());
    }
    Verdict::Redirected(target)
}

#[cfg(test)]
mod tests;
