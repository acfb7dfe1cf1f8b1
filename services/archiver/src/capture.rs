//! From a response to the capture in a file. Pure.

use std::net::IpAddr;

use orbweaver_messages::{DiscoveryKind, Protocol};
use orbweaver_url::CrawlName;
use orbweaver_warc as warc;

use crate::page::Response;

/// Software that wrote a file.
const SOFTWARE: &str = concat!("Orbweaver/", env!("CARGO_PKG_VERSION"));
const FORMAT: &str = "WARC File Format 1.1";
/// Specification of the format.
const SPECIFICATION: &str = "https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/";
/// Description of the blocks, which are not those that were transferred.
const DESCRIPTION: &str = "Responses of a crawl. HTTP header blocks are reconstructed from the parsed response: the \
    names of fields are in lower case, and the version in the status line is HTTP/1.1 for HTTP/2; WARC-Protocol has the \
    version that was used. Bodies are decoded; Content-Encoding, \
    Transfer-Encoding and a differing Content-Length have the prefix X-Archive-Orig-. Request blocks are reconstructed \
    from the method, the URL and the header fields that were sent. \
    fetchTimeMs is the time from the request to the end of the response in milliseconds, and firstByteMs that to the \
    end of its header; dnsMs and connectMs are the durations of the lookup and of connecting with TLS, if the request \
    needed them.";

/// Returns the fields of the `warcinfo` record of a file.
pub(crate) fn info(crawl: &CrawlName) -> [(&'static str, &str); 5] {
    [
        ("software", SOFTWARE),
        ("format", FORMAT),
        ("conformsTo", SPECIFICATION),
        ("isPartOf", crawl),
        ("description", DESCRIPTION),
    ]
}

/// Returns the fields of the `metadata` record of a response.
pub(crate) fn metadata(response: &Response<'_>) -> Vec<(&'static str, String)> {
    let Response { page, capture, .. } = response;
    let via = page.context.via.iter().map(|via| ("via", via.clone()));
    let fetch_time = page.fetched_at_ms.saturating_sub(capture.requested_at_ms).max(0);
    let depth = (page.context.sighting != DiscoveryKind::Requisite).then(|| ("depth", page.context.depth.to_string()));
    let first_byte = capture.answered_at_ms.saturating_sub(capture.requested_at_ms).max(0);
    let times = [
        ("fetchTimeMs", Some(fetch_time.to_string())),
        ("dnsMs", capture.lookup_ms.map(|lookup| lookup.to_string())),
        ("connectMs", capture.connect_ms.map(|connect| connect.to_string())),
        ("firstByteMs", Some(first_byte.to_string())),
    ];
    via.chain(times.into_iter().filter_map(|(name, time)| Some((name, time?)))).chain(depth).collect()
}

/// Returns the capture of a response; `metadata` are the fields of [`metadata`].
pub(crate) fn capture<'a>(response: &'a Response<'_>, metadata: &'a [(&'a str, String)]) -> warc::Capture<'a> {
    let Response { page, capture, body, is_cut } = response;
    let kind = if page.status == 304 { warc::RevisitKind::NotModified } else { warc::RevisitKind::IdenticalPayload };
    let revisit = warc::Revisit { kind, url: None, date_ms: None, payload_digest: None };
    warc::Capture {
        url: &page.context.url,
        date_ms: capture.requested_at_ms,
        ip: capture.address.as_deref().and_then(|address| address.parse::<IpAddr>().ok()),
        protocol: match capture.protocol {
            Protocol::Http10 => warc::Protocol::Http10,
            Protocol::Http11 => warc::Protocol::Http11,
            Protocol::Http2 => warc::Protocol::Http2,
        },
        request: Some(&capture.request_headers),
        status: page.status,
        reason: capture.reason.as_deref(),
        headers: &page.headers,
        body,
        truncated: is_cut.then_some(warc::Truncated::Length),
        revisit: capture.unchanged.then_some(revisit),
        metadata,
    }
}
