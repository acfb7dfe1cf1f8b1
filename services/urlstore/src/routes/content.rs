//! `/v1/content`.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{RawQuery, State},
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::Response,
};
use bytes::Bytes;
use orbweaver_store::CaptureRow;

use super::lists::known;
use crate::{
    answers::rfc3339,
    api::Api,
    archive::ReadError,
    location::{CONSIDERED, Search, Step},
    openapi::{Large, Of, Refused},
    parameters::Parameters,
    problem::{Kind, Problem},
    record::{self, Archived, RecordError},
    responses, validators,
};

const BODY: &str = "body";
const RECORD: &str = "record";

/// Headers that describe a body. The type is not that of the answer, so that no browser renders it.
const CONTENT_TYPE: HeaderName = HeaderName::from_static("x-orbweaver-content-type");
const STATUS: HeaderName = HeaderName::from_static("x-orbweaver-status");
const URL: HeaderName = HeaderName::from_static("x-orbweaver-url");
const TRUNCATED: HeaderName = HeaderName::from_static("x-orbweaver-truncated");
const FETCHED_AT: HeaderName = HeaderName::from_static("x-orbweaver-fetched-at");

/// Archived response of a URL: the newest one with content whose file is in the archive.
///
/// The content of a revisit is that of the fetch that it refers to. The headers `X-Orbweaver-Content-Type`,
/// `X-Orbweaver-Status`, `X-Orbweaver-Url`, `X-Orbweaver-Fetched-At` and `X-Orbweaver-Truncated` describe it.
#[utoipa::path(
    get,
    path = "/v1/content",
    params(
        Of,
        ("as" = Option<String>, Query, pattern = "^(body|record)$", description = "`body`: the decoded body, the default. `record`: the WARC record, as its gzip member."),
    ),
    responses(
        (
            status = 200,
            description = "Body as `application/octet-stream`, or record as `application/gzip`",
            content((Vec<u8> = "application/octet-stream"), (Vec<u8> = "application/gzip")),
        ),
        (status = 304, description = "`If-None-Match` names the content"),
        Refused,
        Large,
    )
)]
pub(crate) async fn content(State(api): State<Arc<Api>>, headers: HeaderMap, RawQuery(query): RawQuery) -> Response {
    let found = of(&api, &headers, query.as_deref()).await;
    found.unwrap_or_else(|problem| responses::problem(&problem))
}

async fn of(api: &Api, headers: &HeaderMap, query: Option<&str>) -> Result<Response, Problem> {
    let parameters = Parameters::read(query, &["as"])?;
    let form = parameters.one_of("as", [BODY, RECORD])?;
    let subject = parameters.subject(api.sources.policy)?;
    let fingerprint = subject.identity.fingerprint;
    // Never closed.
    let _permit = api.large.acquire().await.ok();
    let captures = api.store().captures(fingerprint, CONSIDERED).await?;
    if captures.is_empty() {
        known(api, &subject).await?;
    }
    let mut step = Search::begin(fingerprint, captures);
    loop {
        step = match step {
            Step::History(search) => {
                let events = api.store().history(search.fingerprint(), CONSIDERED).await?;
                search.history(events)
            }
            Step::Content(search, hash) => {
                let row = api.store().content(&hash).await?;
                search.content(row)
            }
            Step::Captures(search, page, at_ms) => {
                let rows = api.store().captures(page, CONSIDERED).await?;
                search.captures(rows, at_ms)
            }
            Step::Read(search, row) => match read(api, headers, &row, form).await? {
                Some(response) => return Ok(response),
                None => search.missing(row.file),
            },
            Step::Ended(problem) => return Err(problem),
        };
    }
}

/// Reads a record; `None`: its file is not in the archive.
async fn read(api: &Api, headers: &HeaderMap, row: &CaptureRow, form: &str) -> Result<Option<Response>, Problem> {
    let Some(archive) = &api.sources.archive else {
        return Err(Problem::new(Kind::NoArchive, "the crawl was not archived, or `urlstore.archive` is not set"));
    };
    let tag = validators::tag(format!("{} {} {} {form}", row.file, row.offset, row.length).as_bytes());
    if responses::is_known(headers, &tag) {
        return Ok(Some(responses::not_modified(&tag)));
    }
    let max_bytes = api.max_content_bytes;
    // A record is about as long as its content if that cannot be compressed.
    if row.length > (max_bytes as u64).saturating_add(record::HEAD_BYTES as u64) {
        return Err(too_large(max_bytes));
    }
    let member = match archive.read(row).await {
        Ok(member) => member,
        Err(ReadError::Missing) => return Ok(None),
        Err(ReadError::Failed(reason)) => return Err(Problem::new(Kind::Unavailable, reason)),
        Err(ReadError::Damaged(reason)) => return Err(Problem::new(Kind::Damaged, reason)),
    };
    api.metrics.content_bytes.inc_by(member.len() as u64);
    let response = if form == RECORD {
        attachment(member, "application/gzip")
    } else {
        let read = tokio::task::spawn_blocking(move || record::response(&member, max_bytes)).await;
        let archived = read.map_err(|error| Problem::new(Kind::Damaged, error.to_string()))?;
        described(archived.map_err(|error| match error {
            RecordError::TooLarge(max_bytes) => too_large(max_bytes),
            error @ RecordError::Damaged(_) => {
                Problem::new(Kind::Damaged, format!("{} at {}: {error}", row.file, row.offset))
            }
        })?)
    };
    let mut response = responses::with_tag(response, &tag);
    insert(response.headers_mut(), FETCHED_AT, &rfc3339(row.at_ms));
    Ok(Some(response))
}

fn too_large(max_bytes: usize) -> Problem {
    let detail = format!("the content has more than {max_bytes} bytes; `/v1/captures` has its location in the archive");
    Problem::new(Kind::TooLarge, detail)
}

fn described(archived: Archived) -> Response {
    let Archived { url, status, content_type, truncated, body } = archived;
    let mut response = attachment(body.into(), "application/octet-stream");
    let headers = response.headers_mut();
    insert(headers, STATUS, &status.to_string());
    insert(headers, URL, &url);
    for (name, value) in [(CONTENT_TYPE, content_type), (TRUNCATED, truncated)] {
        if let Some(value) = value {
            insert(headers, name, &value);
        }
    }
    response
}

fn attachment(bytes: Bytes, content_type: &'static str) -> Response {
    let mut response = Response::new(Body::from(bytes));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    response
}

/// Inserts a header, unless it cannot have this value.
fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
        headers.insert(name, value);
    }
}
