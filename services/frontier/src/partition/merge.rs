//! Two records of a URL: the one that applies, with some settings of the other.
//!
//! A record may also be an update: a sitemap or feed lists a known URL as modified. It applies to no URL by itself.
//!
//! The record of a later visit takes precedence, and of two of the same visit that of the lesser depth, or else the later
//! one. Copies come from an admission that was repeated, and from users who request a URL again.

use std::borrow::Cow;

use orbweaver_messages::{DiscoveryKind, FrontierUrl, Millis, UrlContext};

/// Returns the record that applies after a record of the URL was read: `waiting` itself, or another one, which must be
/// appended. `known` applied before.
pub(super) fn merged<'a>(known: &FrontierUrl, waiting: &'a FrontierUrl) -> Cow<'a, FrontierUrl> {
    let (before, now) = (known.context.visit, waiting.context.visit);
    if before > now {
        return Cow::Owned(with_older(known, waiting));
    }
    if before < now && asks_again(known, waiting) {
        return Cow::Owned(with_older(waiting, known));
    }
    if before == now && is_update(waiting) {
        return Cow::Owned(with_update(known, waiting));
    }
    if before == now && known.context.depth < waiting.context.depth {
        return Cow::Owned(at_the_depth_of(known.clone(), waiting));
    }
    at_the_time_of(waiting, known.written_at_ms)
}

/// Returns `true` if the record `known` of a URL still applies after `waiting` was read, with at most some settings changed.
pub(super) fn still_applies(known: &FrontierUrl, waiting: &FrontierUrl) -> bool {
    let (before, now) = (&known.context, &waiting.context);
    let is_lesser = before.depth < now.depth || is_update(waiting);
    before.visit > now.visit || before.visit == now.visit && is_lesser
}

/// Returns the record that applies if the URL is not known here: an update queues it as a link does.
pub(super) fn unknown(waiting: &FrontierUrl) -> Cow<'_, FrontierUrl> {
    if !is_update(waiting) {
        return Cow::Borrowed(waiting);
    }
    let context = UrlContext { sighting: DiscoveryKind::Link, ..waiting.context.clone() };
    Cow::Owned(FrontierUrl { context, ..waiting.clone() })
}

/// Returns `true` for an update. A later visit to a URL may keep its context.
pub(super) fn is_update(waiting: &FrontierUrl) -> bool {
    waiting.context.sighting == DiscoveryKind::Update && waiting.context.visit == 0
}

/// Returns `true` if a record is an update of a URL that sleeps, whose last visit was before the modification.
pub(super) fn is_newer_update(update: &FrontierUrl, known: &FrontierUrl) -> bool {
    let is_newer = |visited_at_ms| Some(visited_at_ms) < update.context.listed_modified_ms;
    let is_between_visits = known.failures == 0 && known.blocks == 0;
    is_update(update) && is_between_visits && known.visits.as_ref().is_some_and(|visits| is_newer(visits.visited_at_ms))
}

/// Returns the record of a URL with the modification time of an update.
pub(super) fn with_update(known: &FrontierUrl, update: &FrontierUrl) -> FrontierUrl {
    let listed_modified_ms = known.context.listed_modified_ms.max(update.context.listed_modified_ms);
    let context = UrlContext { listed_modified_ms, ..known.context.clone() };
    let written_at_ms = known.written_at_ms.max(update.written_at_ms);
    FrontierUrl { context, written_at_ms, ..known.clone() }
}

/// Returns `true` if a record of an earlier visit demands that the URL is visited now: it was discovered at a lesser depth,
/// where its links may count, requested again by a user since the last visit, or listed as modified since.
fn asks_again(older: &FrontierUrl, newer: &FrontierUrl) -> bool {
    let visited_at_ms = newer.visits.as_ref().map_or(0, |visits| visits.visited_at_ms);
    let is_requested = older.context.sighting == DiscoveryKind::Recrawl && older.admitted_at_ms > visited_at_ms;
    older.context.depth < newer.context.depth || is_requested || is_newer_update(older, newer)
}

/// Returns the record of a URL of which there is also a record of an earlier visit.
pub(super) fn with_older(newer: &FrontierUrl, older: &FrontierUrl) -> FrontierUrl {
    let written_at_ms = newer.written_at_ms.max(older.written_at_ms);
    let not_before_ms = if asks_again(older, newer) { 0 } else { newer.not_before_ms };
    let record = if older.context.depth < newer.context.depth { older } else { newer };
    let listed_modified_ms = newer.context.listed_modified_ms.max(older.context.listed_modified_ms);
    FrontierUrl {
        context: UrlContext { visit: newer.context.visit, listed_modified_ms, ..record.context.clone() },
        failures: newer.failures,
        blocks: newer.blocks,
        lost: newer.lost,
        visits: newer.visits.clone(),
        not_before_ms,
        written_at_ms,
        ..record.clone()
    }
}

/// Returns the record of a URL that was discovered again: as in `lesser`, with the attempts of `other`, which is of the
/// same visit.
pub(super) fn at_the_depth_of(lesser: FrontierUrl, other: &FrontierUrl) -> FrontierUrl {
    let written_at_ms = lesser.written_at_ms.max(other.written_at_ms);
    let FrontierUrl { failures, blocks, lost, not_before_ms, .. } = *other;
    FrontierUrl { failures, blocks, lost, not_before_ms, written_at_ms, ..lesser }
}

/// Returns the record of a URL whose previous write to the store has this event time (docs/protocol.md#event-times): a
/// copy with that time if the record has none or an earlier one.
pub(super) fn at_the_time_of(waiting: &FrontierUrl, written_at_ms: Millis) -> Cow<'_, FrontierUrl> {
    if waiting.written_at_ms < written_at_ms {
        Cow::Owned(FrontierUrl { written_at_ms, ..waiting.clone() })
    } else {
        Cow::Borrowed(waiting)
    }
}
