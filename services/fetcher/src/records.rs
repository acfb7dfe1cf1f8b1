//! Records and rows of an outcome. Pure.

use bytes::Bytes;
use orbweaver_log::{Partition, Record, TopicPartition};
use orbweaver_messages::{
    BodyEncoding, Discovered, DiscoveryKind, Dispatch, Millis, Outcome, OutcomeKind, Page, PageKind, PageVersion,
    Truncated, UrlContext, encode, topic,
};
use orbweaver_store::{PageRow, RedirectRow, event_time};
use orbweaver_url::{SiteName, Url, WideDomains, partition_of, slot_of};

use crate::{
    active_dispatch::ActiveDispatch,
    body::PackedBody,
    client::{Attempt, HttpResponse, capture},
    profile::RequestProfile,
    reason::Reason,
};

/// Maximum length of a validator that is kept for the next visit, in bytes.
const MAX_VALIDATOR_BYTES: usize = 512;

/// Creates an outcome without the data of a request.
pub(crate) fn outcome(
    active: &ActiveDispatch,
    kind: OutcomeKind,
    reason: Option<Reason>,
    ended_at_ms: Millis,
) -> Outcome {
    let dispatch = active.dispatch();
    let written_at_ms = event_time(ended_at_ms, dispatch.written_at_ms);
    Outcome {
        written_at_ms: (written_at_ms != ended_at_ms).then_some(written_at_ms),
        crawl_delay_ms: active.crawl_delay_ms,
        ..Outcome::of(dispatch, kind, reason.map(Reason::name).as_deref(), ended_at_ms)
    }
}

/// Returns the outcome of a dispatch whose next or last request is on another site, without that site's refusals and
/// response times: they would be applied to the site of the dispatch, whose own last request is reported instead. A
/// deferral would pause the dispatch's site for the other one; as a retry without a request it delays only the URL,
/// and costs no attempt either (docs/protocol.md#attempts).
pub(crate) fn of_own_site(active: &ActiveDispatch, outcome: &Outcome) -> Outcome {
    let is_deferred = outcome.kind == OutcomeKind::Deferred;
    let asked_ms = active.asked_ms.filter(|_| outcome.requested_at_ms.is_some() && !is_deferred);
    Outcome {
        kind: if is_deferred { OutcomeKind::Retry } else { outcome.kind },
        status: outcome.status.filter(|status| !matches!(status, 429 | 503)),
        requested_at_ms: asked_ms.map(|(requested_ms, _)| requested_ms),
        answered_at_ms: asked_ms.map(|(_, answered_ms)| answered_ms),
        blocked_until_ms: None,
        ..outcome.clone()
    }
}

/// Creates an outcome with the data of a request that brought no page.
pub(crate) fn attempted(
    active: &ActiveDispatch,
    kind: OutcomeKind,
    reason: Option<Reason>,
    attempt: &Attempt,
) -> Outcome {
    let mut outcome = outcome(active, kind, reason, attempt.ended_at_ms);
    add_times(&mut outcome, attempt);
    if let Ok(answer) = &attempt.result {
        add_answer(&mut outcome, answer, None);
    }
    outcome
}

/// Adds the times of a request.
pub(crate) fn add_times(outcome: &mut Outcome, attempt: &Attempt) {
    outcome.requested_at_ms = Some(attempt.requested_at_ms);
    outcome.answered_at_ms = Some(attempt.answered_at_ms);
}

/// Adds the data of a response.
pub(crate) fn add_answer(outcome: &mut Outcome, answer: &HttpResponse, body: Option<&PackedBody>) {
    outcome.status = Some(answer.status);
    outcome.content_type.clone_from(&answer.content_type);
    outcome.bytes = body.map_or(0, |body| body.bytes);
}

/// Returns `true` if this content of a page is the known one.
pub(crate) fn is_known(active: &ActiveDispatch, body: &PackedBody) -> bool {
    let known = active.dispatch().known.as_ref().and_then(|known| known.content_hash.as_ref());
    known == Some(&body.content_hash)
}

/// Returns the version of a page that was found, if the dispatch has a known one. What a 304 response omits is taken from
/// that one.
pub(crate) fn found_version(
    active: &ActiveDispatch,
    answer: &HttpResponse,
    body: Option<&PackedBody>,
) -> Option<PageVersion> {
    let known = active.dispatch().known.clone()?;
    let kept = |validator: &Option<String>| validator.clone().filter(|value| value.len() <= MAX_VALIDATOR_BYTES);
    let (etag, last_modified) = (kept(&answer.etag), kept(&answer.last_modified));
    Some(match body {
        Some(body) => {
            let (content_hash, text_hash) = (Some(body.content_hash.clone()), body.text_hash.clone());
            PageVersion { content_hash, text_hash, etag, last_modified }
        }
        None => PageVersion {
            content_hash: known.content_hash,
            text_hash: known.text_hash,
            etag: etag.or(known.etag),
            last_modified: last_modified.or(known.last_modified),
        },
    })
}

/// Returns the store's row of a URL that has ended.
pub(crate) fn page_row(outcome: &Outcome, answer: Option<&HttpResponse>, body: Option<&PackedBody>) -> PageRow {
    let context = &outcome.context;
    let version = outcome.version.clone().unwrap_or_default();
    PageRow {
        fingerprint: context.fingerprint,
        key: context.key().to_owned(),
        url: context.url.clone(),
        site: context.site.clone(),
        fetched_at_ms: outcome.event_ms(),
        status: outcome.status,
        outcome: outcome.kind.name().to_owned(),
        reason: outcome.reason.clone(),
        content_type: outcome.content_type.clone(),
        etag: answer.and_then(|answer| answer.etag.clone()).or(version.etag),
        last_modified: answer.and_then(|answer| answer.last_modified.clone()).or(version.last_modified),
        bytes: outcome.bytes,
        content_hash: body.map(|body| body.content_hash.clone()).or(version.content_hash),
        depth: context.depth,
        via: context.via.clone(),
    }
}

/// Returns the store's row of a redirect.
pub(crate) fn redirect_row(outcome: &Outcome, target: &Url) -> RedirectRow {
    RedirectRow {
        fingerprint: outcome.context.fingerprint,
        from: outcome.context.url.clone(),
        to: target.to_string(),
        status: outcome.status.unwrap_or_default(),
        at_ms: outcome.event_ms(),
    }
}

/// Returns the record of an outcome, in the partition of its dispatch.
pub(crate) fn outcome_record(outcome: &Outcome, partition: Partition) -> Record {
    let key = Bytes::copy_from_slice(outcome.context.site.as_bytes());
    let tp = TopicPartition::new(topic::OUTCOMES, partition);
    Record::new(tp, Some(key), Some(encode(outcome)), outcome.ended_at_ms)
}

/// Returns the number of bytes that a page's record of at most `limit` bytes has left for its body, its content type
/// and its headers. All other fields count at their maximum length, so that up to 160 bytes may remain unused, 400 if the
/// crawl is archived.
pub(crate) fn body_room(active: &ActiveDispatch, profile: &RequestProfile, limit: usize) -> usize {
    let answer = HttpResponse {
        status: u16::MAX,
        content_type: Some(String::new()),
        headers: vec![Default::default()],
        content_encoding: Some("deflate, deflate".to_owned()),
        encoded_bytes: Some(u64::MAX),
        kind: if profile.archive { PageKind::Response } else { PageKind::Sitemap },
        capture: profile.archive.then(|| {
            let headers = profile.request_headers(active.cookies.header().as_deref(), active.known());
            Box::new(capture::largest(&active.url, &headers))
        }),
        ..HttpResponse::default()
    };
    let body = PackedBody {
        value: Bytes::new(),
        encoding: BodyEncoding::Identity,
        bytes: u64::MAX,
        truncated: true,
        content_hash: "0".repeat(32),
        text_hash: None,
    };
    limit.saturating_sub(page_record((active, profile), Millis::MIN, answer, body).bytes())
}

/// Returns the record of a page, or of another response, that ended at `ended_at_ms`.
pub(crate) fn page_record(
    dispatch: (&ActiveDispatch, &RequestProfile),
    ended_at_ms: Millis,
    answer: HttpResponse,
    body: PackedBody,
) -> Record {
    let page = page(dispatch, ended_at_ms, answer, &body);
    record_of_page(&page, dispatch.0.partition(), body.value)
}

/// Returns the record of a page, in a partition, with its packed body.
pub(crate) fn record_of_page(page: &Page, partition: Partition, body: Bytes) -> Record {
    let key = Bytes::copy_from_slice(page.context.site.as_bytes());
    let tp = TopicPartition::new(topic::PAGES, partition);
    let mut record = Record::new(tp, Some(key), Some(body), page.fetched_at_ms);
    record.headers.push(("page", encode(page)));
    record
}

pub(crate) fn page(
    (active, profile): (&ActiveDispatch, &RequestProfile),
    ended_at_ms: Millis,
    answer: HttpResponse,
    body: &PackedBody,
) -> Page {
    let Dispatch { context, attempt, written_at_ms, visited_at_ms, .. } = active.dispatch();
    let written_at_ms = event_time(ended_at_ms, *written_at_ms);
    let url = active.requested().to_owned();
    Page {
        context: UrlContext {
            key: (context.key() != url).then(|| context.key().to_owned()),
            url,
            chain: active.chain(),
            ..context.clone()
        },
        kind: answer.kind,
        status: answer.status,
        content_type: answer.content_type,
        headers: answer.headers,
        fetched_at_ms: ended_at_ms,
        written_at_ms: (written_at_ms != ended_at_ms).then_some(written_at_ms),
        visited_at_ms: *visited_at_ms,
        encoding: body.encoding,
        body_bytes: body.bytes,
        content_encoding: answer.content_encoding,
        encoded_bytes: answer.encoded_bytes,
        truncated: Truncated { body: body.truncated, ..Truncated::default() },
        content_hash: body.content_hash.clone(),
        attempt: *attempt,
        agent: profile.page_agent.clone(),
        html: profile.html,
        main_text: profile.main_text,
        markdown: profile.markdown,
        facts: profile.facts,
        other_links: profile.other_links,
        near_duplicates: profile.near_duplicates,
        feeds: profile.feeds,
        requisites: profile.requisites,
        capture: answer.capture,
    }
}

/// Returns the record of a redirect's target: a discovered URL of its own site, at the depth of its source. It goes to
/// the partition of that site, so that it is deduplicated there and requested at that site's rate
/// (docs/protocol.md#redirects).
pub(crate) fn discovered_record(
    active: &ActiveDispatch,
    target: &Url,
    wide: &WideDomains,
    partitions: Partition,
    found_at_ms: Millis,
) -> Record {
    let context = &active.dispatch().context;
    let site = SiteName::from(wide.site_of(target));
    let mut chain = active.chain();
    chain.push(active.requested().to_owned());
    let found = Discovered {
        crawl: context.crawl.clone(),
        site,
        via: Some(active.requested().to_owned()),
        depth: context.depth,
        sighting: match context.sighting {
            DiscoveryKind::Link | DiscoveryKind::Redirect | DiscoveryKind::Update => DiscoveryKind::Redirect,
            kind => kind,
        },
        chain,
        trail: context.trail.clone(),
        content: None,
        priority: context.priority,
        metadata: context.metadata.clone(),
        urls: vec![target.to_string()],
        modified_ms: vec![],
        found_at_ms,
    };
    found_record(&found, partitions)
}

/// Returns the record of discovered URLs, in the partition of their site.
pub(crate) fn found_record(found: &Discovered, partitions: Partition) -> Record {
    let tp = TopicPartition::new(topic::DISCOVERED, partition_of(slot_of(&found.site), partitions));
    let key = Bytes::copy_from_slice(found.site.as_bytes());
    Record::new(tp, Some(key), Some(encode(found)), found.found_at_ms)
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::{
        Capture, DispatchId, FetchProfile, MAX_METADATA_BYTES, Markdown, Pattern, Priority, ReadyDispatch,
        SeedMetadata, Trail, decode,
    };
    use orbweaver_stage::Origin;
    use orbweaver_url::{Fingerprint, MAX_URL_BYTES, Policy};
    use proptest::prelude::*;

    use super::*;
    use crate::{
        body::pack,
        classify::MAX_CHAIN_BYTES,
        config::{FetcherConfig, MAX_HEADER_BYTES},
    };

    /// Smallest record limit, in bytes.
    const LEAST: usize = 512 << 10;

    /// Returns a URL of maximum length; in a query a backslash stays as it is, and takes two bytes in JSON.
    fn longest(number: usize) -> String {
        format!("https://a.example/?{number}{}", "\\".repeat(MAX_URL_BYTES - 24))
    }

    /// Returns an active dispatch whose records are as large as a site can make them.
    fn largest() -> ActiveDispatch {
        let dispatch = Dispatch {
            id: DispatchId { epoch: u64::MAX, sequence: u64::MAX },
            context: UrlContext {
                crawl: "c".repeat(200).parse().unwrap(),
                fingerprint: Fingerprint([7; 16]),
                url: longest(1),
                key: Some(longest(2)),
                policy: Policy::AGGRESSIVE,
                site: "a".repeat(253).into(),
                depth: u16::MAX,
                sighting: DiscoveryKind::Redirect,
                via: Some(longest(3)),
                chain: (0..=MAX_CHAIN_BYTES / MAX_URL_BYTES).map(longest).collect(),
                trail: (0..8).map(|n| (Pattern(u32::MAX - n), u16::MAX)).collect::<Trail>(),
                priority: Priority::LOWEST,
                // A control character takes six bytes in JSON.
                metadata: metadata("\u{1}".repeat(MAX_METADATA_BYTES - 4)),
                visit: u32::MAX,
                listed_modified_ms: Some(Millis::MIN),
            },
            attempt: u8::MAX,
            last_attempt: false,
            blocks: u8::MAX,
            written_at_ms: Millis::MAX,
            definition: u64::MAX,
            visited_at_ms: Some(Millis::MIN),
            known: Some(PageVersion {
                content_hash: Some("0".repeat(32)),
                text_hash: Some("0".repeat(16)),
                etag: Some("\u{1}".repeat(MAX_VALIDATOR_BYTES)),
                last_modified: Some("\u{1}".repeat(MAX_VALIDATOR_BYTES)),
            }),
            dispatched_at_ms: Millis::MIN,
            not_after_ms: Millis::MAX,
            expires_ms: Millis::MAX,
        };
        let url = orbweaver_url::parse(&dispatch.context.url).unwrap();
        let tp = TopicPartition::new(topic::READY, 0);
        let ready =
            ReadyDispatch { not_before_ms: Millis::MIN, interval_ms: u64::MAX, crawl_interval_ms: u64::MAX, dispatch };
        let mut active = ActiveDispatch::new(Origin { tp, offset: 0, assignment_epoch: 1 }, ready, url);
        active.before = (0..crate::classify::MAX_AGAIN).map(longest).collect();
        active
    }

    /// Returns a profile with the longest agent.
    fn longest_profile(archive: bool) -> RequestProfile {
        let (html, main_text, facts, markdown) = (Some(false), Some(false), Some(false), Some(Markdown::Images));
        let (other_links, near_duplicates) = (Some(false), Some(false));
        let of_documents = FetchProfile { html, main_text, markdown, facts, ..FetchProfile::default() };
        let of_documents = FetchProfile { other_links, near_duplicates, ..of_documents };
        let of_documents = FetchProfile { feeds: Some(true), requisites: Some(u32::MAX), ..of_documents };
        let profile = FetchProfile { user_agent: Some("a".repeat(300)), archive: Some(archive), ..of_documents };
        RequestProfile::of_crawl(&FetcherConfig::default(), &profile)
    }

    fn metadata(value: String) -> SeedMetadata {
        std::collections::BTreeMap::from([("note".to_owned(), value)]).try_into().unwrap()
    }

    #[test]
    fn the_metadata_and_the_priority_of_a_seed_go_with_its_page_and_with_the_target_of_its_redirect() {
        let mut active = largest();
        active.ready.dispatch.context.metadata = metadata("x".to_owned());
        let target = orbweaver_url::parse("https://b.example/").unwrap();
        let found = discovered_record(&active, &target, &WideDomains::default(), 1, 0);
        let found: Discovered = decode("discovered", found.value.as_ref()).unwrap();
        assert_eq!((&found.metadata, found.priority), (&metadata("x".to_owned()), Priority::LOWEST));
        let body = pack(vec![], false, false, 0);
        let record = page_record((&active, &longest_profile(true)), 0, HttpResponse::default(), body);
        let header = record.headers.iter().find(|(name, _)| *name == "page");
        let page: Page = decode("page", header.map(|(_, value)| value)).unwrap();
        assert_eq!((&page.context.metadata, page.context.priority), (&metadata("x".to_owned()), Priority::LOWEST));
    }

    /// Returns a response with the longest header values, in which no byte is UTF-8.
    fn answer(header_bytes: usize) -> HttpResponse {
        let text = |bytes: usize| "\u{fffd}".repeat(bytes);
        let headers = vec![("x".to_owned(), text(header_bytes))];
        HttpResponse { status: 200, content_type: Some(text(8192)), headers, ..HttpResponse::default() }
    }

    /// Returns a response with the data for the archive, if the profile archives.
    fn archived(active: &ActiveDispatch, profile: &RequestProfile, answer: HttpResponse) -> HttpResponse {
        let headers = profile.request_headers(active.cookies.header().as_deref(), active.known());
        let capture = Capture {
            requested_at_ms: 1_700_000_000_000,
            answered_at_ms: 1_700_000_000_100,
            address: Some("192.0.2.1".to_owned()),
            request_headers: capture::sent_headers(&active.url, &headers),
            ..Capture::default()
        };
        HttpResponse { capture: profile.archive.then(|| Box::new(capture)), ..answer }
    }

    #[test]
    fn whatever_a_site_answers_its_records_fit_the_smallest_limit() {
        let (active, target) = (largest(), orbweaver_url::parse(&longest(9)).unwrap());
        let mut outcome = outcome(&active, OutcomeKind::Redirected, Some(Reason::TooManyRedirects), Millis::MIN);
        add_answer(&mut outcome, &answer(0), None);
        outcome.location = Some(target.to_string());
        let (found, profile) =
            (discovered_record(&active, &target, &WideDomains::default(), 1, 0), longest_profile(true));
        let answer = archived(&active, &profile, answer(MAX_HEADER_BYTES as usize));
        let page = page_record((&active, &profile), Millis::MIN, answer, pack(vec![], false, false, 0));
        let (frontier, seeds) = (encode(&active.ready).len(), 2 * MAX_URL_BYTES);
        for bytes in [outcome_record(&outcome, 0).bytes(), found.bytes(), page.bytes(), frontier + seeds] {
            assert!(bytes < LEAST - (64 << 10), "{bytes} bytes");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
        #[test]
        fn a_page_fits_its_record_and_is_whole_where_it_can_be(
            body in prop::collection::vec(any::<u8>(), 0..3000), spare in 0..3000_usize, longest: bool, compress: bool,
            archive: bool,
        ) {
            let (active, profile) = (largest(), longest_profile(archive));
            let answer = if longest { answer(300) } else { HttpResponse::default() };
            let (answer, unused) = (archived(&active, &profile, answer), if archive { 940 } else { 160 });
            let used = orbweaver_messages::encoded_len(&answer.content_type) + orbweaver_messages::encoded_len(&answer.headers);
            let at_ms = 1_700_000_000_000;
            let whole = page_record((&active, &profile), at_ms, answer.clone(), pack(body.clone(), false, compress, 9999)).bytes();
            let limit = whole - body.len() + spare;
            let room = body_room(&active, &profile, limit).saturating_sub(used);
            let record = page_record((&active, &profile), at_ms, answer, pack(body.clone(), false, compress, room));
            if spare >= unused {
                prop_assert!(record.bytes() <= limit, "{} of {limit}", record.bytes());
            }
            let page: Page = decode("page", Some(&record.headers[2].1)).unwrap();
            prop_assert_eq!(page.body_bytes, body.len() as u64);
            if whole + unused + 40 <= limit {
                prop_assert!(page.truncated.is_empty());
            }
        }
    }
}
