//! Responses that are page records for the archive alone. Pure.

use bytes::Bytes;
use orbweaver_log::Record;
use orbweaver_messages::{Capture, DiscoveryKind, Millis, Page, PageKind, Truncated, UrlContext};
use orbweaver_url::{Fingerprint, Url};

use crate::{
    active_dispatch::ActiveDispatch,
    body::{PackedBody, pack},
    client::{Attempt, Body, HttpResponse},
    profile::RequestProfile,
    records::{page, page_record, record_of_page},
};

/// Returns the record of a response that is not a page, or of a page that is `unchanged`; `None` if its crawl is not
/// archived, or the site refuses that. Without a body, reading it failed.
pub(crate) fn record(
    dispatch: (&ActiveDispatch, &RequestProfile),
    ended_at_ms: Millis,
    (answer, body): (HttpResponse, Option<PackedBody>),
    unchanged: bool,
) -> Option<Record> {
    if answer.refusal.is_some() {
        return None;
    }
    let capture = answer.capture.map(|capture| Box::new(Capture { unchanged, ..*capture }))?;
    let body = body.unwrap_or_else(|| pack(vec![], true, false, 0));
    let answer = HttpResponse { kind: PageKind::Response, capture: Some(capture), ..answer };
    Some(page_record(dispatch, ended_at_ms, answer, body))
}

/// Returns the record of the response to a request for a robots.txt at `url`, for a dispatch that waits for it; `None` if
/// the crawl of the lookup is not archived, or the site refuses that. The record has `limit` bytes at most.
pub(crate) fn robots_record(
    (active, profile): (&ActiveDispatch, &RequestProfile),
    url: &Url,
    attempt: &Attempt,
    limit: usize,
) -> Option<Record> {
    let answer = attempt.result.as_ref().ok().filter(|answer| answer.capture.is_some() && answer.refusal.is_none())?;
    let (bytes, truncated) = match &answer.body {
        Body::Read { bytes, truncated } => (bytes.clone(), *truncated),
        Body::Unread | Body::Unwanted => (vec![], true),
    };
    let answer = HttpResponse { body: Body::Unread, kind: PageKind::Robots, ..answer.clone() };
    let empty = pack(vec![], truncated, false, 0);
    let context = &active.dispatch().context;
    let context = UrlContext {
        fingerprint: Fingerprint::of(&context.crawl, &context.policy.canonical_text(url)),
        sighting: DiscoveryKind::Link,
        policy: context.policy,
        ..UrlContext::of_seed(context.crawl.clone(), url.to_string(), context.site.clone())
    };
    let page = Page { context, attempt: 1, ..page((active, profile), attempt.ended_at_ms, answer, &empty) };
    let room = limit.saturating_sub(record_of_page(&page, active.partition(), Bytes::new()).bytes() + 64);
    let body = pack(bytes, truncated, false, room);
    let page = Page {
        encoding: body.encoding,
        body_bytes: body.bytes,
        truncated: Truncated { body: body.truncated, ..Truncated::default() },
        content_hash: body.content_hash,
        ..page
    };
    Some(record_of_page(&page, active.partition(), body.value))
}
