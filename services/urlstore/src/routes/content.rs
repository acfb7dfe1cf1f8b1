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

use crate::{
    answers::rfc3339,
    api::Api,
    contents::{self, Records},
    lookup,
    openapi::{Large, Of, Refused},
    parameters::Parameters,
    problem::Problem,
    record::Archived,
    responses, validators,
};

const BODY: &str = "body";
const RECORD: &str = "record";

/// Headers that describe a body. The type is not that of the answer, so that no browser renders it.
const CONTENT_TYPE: HeaderName = HeaderName::from_static("x-orbweaver-content-type");
const STATUS: HeaderName = HeaderName::from_static("x-orbweaver-status");
const URL: HeaderName = HeaderName::from_static("x-orbweaver-url");
const TRUNCATED: HeaderName = HeaderName::from_static("x-orbweaver-truncated");
/// Canonical form of the URL at the end of the resolution.
const CANONICAL: HeaderName = HeaderName::from_static("x-orbweaver-canonical");
const FETCHED_AT: HeaderName = HeaderName::from_static("x-orbweaver-fetched-at");

/// Archived response of a URL: the newest one with content whose file is in the archive.
///
/// The content of a revisit is that of the fetch that it refers to. The headers `X-Orbweaver-Content-Type`,
/// `X-Orbweaver-Status`, `X-Orbweaver-Url`, `X-Orbweaver-Canonical`, `X-Orbweaver-Fetched-At` and `X-Orbweaver-Truncated` describe it.
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
    // Never closed.
    let _permit = api.large.acquire().await.ok();
    let located = lookup::locate(api, &parameters).await?;
    let mut records = Records::of(api, &located).await?;
    loop {
        let (row, further) = records.next().await?;
        if let Some(mut response) = read(api, headers, &row, form).await? {
            insert(response.headers_mut(), CANONICAL, located.canonical());
            return Ok(response);
        }
        records = further;
    }
}

/// Reads a record; `None`: its file is not in the archive.
async fn read(api: &Api, headers: &HeaderMap, row: &CaptureRow, form: &str) -> Result<Option<Response>, Problem> {
    let tag = validators::tag(format!("{} {} {} {form}", row.file, row.offset, row.length).as_bytes());
    if responses::is_known(headers, &tag) {
        return Ok(Some(responses::not_modified(&tag)));
    }
    let response = if form == RECORD {
        contents::member(api, row).await?.map(|member| attachment(member, "application/gzip"))
    } else {
        contents::archived(api, row).await?.map(described)
    };
    Ok(response.map(|response| {
        let mut response = responses::with_tag(response, &tag);
        insert(response.headers_mut(), FETCHED_AT, &rfc3339(row.at_ms));
        response
    }))
}

fn described(archived: Archived) -> Response {
    let Archived { url, status, content_type, truncated, body, .. } = archived;
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
