//! The records and rows that an outcome consists of. Pure.

use bytes::Bytes;
use orbweaver_log::{Partition, Record, TopicPartition};
use orbweaver_messages::{Discovered, Millis, Outcome, OutcomeKind, Page, Sighting, encode, topic};
use orbweaver_store::{PageRow, RedirectRow};
use orbweaver_url::{Url, WideDomains, partition_of, slot_of};

use crate::{
    body::PackedBody,
    client::{Answer, Attempt},
    visit::Visit,
};

/// An outcome of which only its kind is known.
#[must_use]
pub(crate) fn outcome(visit: &Visit, kind: OutcomeKind, reason: Option<&str>, ended_at_ms: Millis) -> Outcome {
    let dispatch = visit.dispatch();
    Outcome {
        id: dispatch.id,
        crawl: dispatch.crawl.clone(),
        fingerprint: dispatch.fingerprint,
        url: dispatch.url.clone(),
        key: dispatch.key.clone(),
        site: dispatch.site.clone(),
        depth: dispatch.depth,
        via: dispatch.via.clone(),
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
        retry_at_ms: None,
        blocked_until_ms: None,
        crawl_delay_ms: visit.crawl_delay_ms,
    }
}

/// Adds what is known from a request.
pub(crate) fn add_attempt(outcome: &mut Outcome, attempt: &Attempt) {
    add_times(outcome, attempt);
    if let Ok(answer) = &attempt.result {
        add_answer(outcome, answer, None);
    }
}

/// Adds the moments of a request.
pub(crate) fn add_times(outcome: &mut Outcome, attempt: &Attempt) {
    outcome.requested_at_ms = Some(attempt.requested_at_ms);
    outcome.answered_at_ms = Some(attempt.answered_at_ms);
}

/// Adds what an answer says.
pub(crate) fn add_answer(outcome: &mut Outcome, answer: &Answer, body: Option<&PackedBody>) {
    outcome.status = Some(answer.status);
    outcome.content_type.clone_from(&answer.content_type);
    outcome.bytes = body.map_or(0, |body| body.bytes);
}

/// The word of a kind, as it stands in messages.
#[must_use]
pub(crate) fn word(kind: OutcomeKind) -> &'static str {
    match kind {
        OutcomeKind::Fetched => "fetched",
        OutcomeKind::Unchanged => "unchanged",
        OutcomeKind::Redirected => "redirected",
        OutcomeKind::Refused => "refused",
        OutcomeKind::Blocked => "blocked",
        OutcomeKind::Retry => "retry",
        OutcomeKind::Deferred => "deferred",
        OutcomeKind::Gone => "gone",
    }
}

/// The store's row of a URL that has ended.
#[must_use]
pub(crate) fn page_row(outcome: &Outcome, answer: Option<&Answer>, body: Option<&PackedBody>) -> PageRow {
    PageRow {
        fingerprint: outcome.fingerprint,
        key: outcome.key().to_owned(),
        url: outcome.url.clone(),
        site: outcome.site.clone(),
        fetched_at_ms: outcome.ended_at_ms,
        status: outcome.status,
        outcome: word(outcome.kind).to_owned(),
        reason: outcome.reason.clone(),
        content_type: outcome.content_type.clone(),
        etag: answer.and_then(|answer| answer.etag.clone()),
        last_modified: answer.and_then(|answer| answer.last_modified.clone()),
        bytes: outcome.bytes,
        content_hash: body.map(|body| body.content_hash.clone()),
        depth: outcome.depth,
        via: outcome.via.clone(),
    }
}

/// The store's row of a redirect.
#[must_use]
pub(crate) fn redirect_row(outcome: &Outcome, target: &Url) -> RedirectRow {
    RedirectRow {
        fingerprint: outcome.fingerprint,
        from: outcome.url.clone(),
        to: target.to_string(),
        status: outcome.status.unwrap_or_default(),
        at_ms: outcome.ended_at_ms,
    }
}

/// The record of an outcome: in the partition of the dispatch.
#[must_use]
pub(crate) fn outcome_record(outcome: &Outcome, partition: Partition) -> Record {
    Record {
        place: TopicPartition::new(topic::OUTCOMES, partition),
        key: Some(Bytes::copy_from_slice(outcome.site.as_bytes())),
        value: Some(encode(outcome)),
        headers: vec![],
        timestamp_ms: outcome.ended_at_ms,
    }
}

/// The record of a page.
#[must_use]
pub(crate) fn page_record(visit: &Visit, fetched_at_ms: Millis, answer: Answer, body: PackedBody) -> Record {
    let dispatch = visit.dispatch();
    let url = visit.requested().to_owned();
    let page = Page {
        crawl: dispatch.crawl.clone(),
        fingerprint: dispatch.fingerprint,
        key: (dispatch.key() != url).then(|| dispatch.key().to_owned()),
        url,
        site: dispatch.site.clone(),
        depth: dispatch.depth,
        sighting: dispatch.sighting,
        via: dispatch.via.clone(),
        chain: visit.chain(),
        trail: dispatch.trail.clone(),
        status: answer.status,
        content_type: answer.content_type,
        headers: answer.headers,
        fetched_at_ms,
        encoding: body.encoding,
        body_bytes: body.bytes,
        truncated: body.truncated,
        content_hash: body.content_hash,
        attempt: dispatch.attempt,
    };
    Record {
        place: TopicPartition::new(topic::PAGES, visit.origin.place.partition),
        key: Some(Bytes::copy_from_slice(dispatch.site.as_bytes())),
        value: Some(body.value),
        headers: vec![("page", encode(&page))],
        timestamp_ms: fetched_at_ms,
    }
}

/// The record of a redirect's target: a discovered URL of its own site, at the depth of its source. It goes where its site
/// lives, so that it is deduplicated and asked in that site's time (rule 13).
#[must_use]
pub(crate) fn discovered_record(
    visit: &Visit,
    target: &Url,
    wide: &WideDomains,
    partitions: Partition,
    found_at_ms: Millis,
) -> Record {
    let dispatch = visit.dispatch();
    let site = wide.site_of(target).into_owned();
    let mut chain = visit.chain();
    chain.push(visit.requested().to_owned());
    let found = Discovered {
        crawl: dispatch.crawl.clone(),
        site: site.clone(),
        via: Some(visit.requested().to_owned()),
        depth: dispatch.depth,
        sighting: if dispatch.sighting == Sighting::Seed { Sighting::Seed } else { Sighting::Redirect },
        chain,
        trail: dispatch.trail.clone(),
        content: None,
        urls: vec![target.to_string()],
        found_at_ms,
    };
    Record {
        place: TopicPartition::new(topic::DISCOVERED, partition_of(slot_of(&site), partitions)),
        value: Some(encode(&found)),
        key: Some(Bytes::from(site)),
        headers: vec![],
        timestamp_ms: found_at_ms,
    }
}
