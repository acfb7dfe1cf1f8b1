//! `/v1/document`.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{RawQuery, State},
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};
use orbweaver_store::CaptureRow;

use crate::{
    api::Api,
    contents::{self, Records},
    document::{self, Form},
    lookup::{self, Located},
    openapi::{Large, Of, Refused},
    parameters::Parameters,
    problem::{Kind, Problem},
    responses, validators,
};

/// Document of a URL: text, main text, Markdown, facts and links, extracted from its newest archived content.
///
/// It has the fields of a record of `crawl.documents`, as `orbweaver extract` returns them; the seed metadata, visits and
/// near-duplicates of the crawl are not known. `as` selects its main text alone.
#[utoipa::path(
    get,
    path = "/v1/document",
    params(
        Of,
        ("as" = Option<String>, Query, pattern = "^(json|markdown|text)$", description = "`json`: the document, the default. `markdown`, `text`: its main text."),
    ),
    responses(
        (
            status = 200,
            description = "Document, or main text",
            content((serde_json::Value = "application/json"), (String = "text/markdown"), (String = "text/plain")),
        ),
        (status = 304, description = "`If-None-Match` names the document"),
        Refused,
        Large,
    )
)]
pub(crate) async fn document(State(api): State<Arc<Api>>, headers: HeaderMap, RawQuery(query): RawQuery) -> Response {
    let found = of(&api, &headers, query.as_deref()).await;
    found.unwrap_or_else(|problem| responses::problem(&problem))
}

async fn of(api: &Api, headers: &HeaderMap, query: Option<&str>) -> Result<Response, Problem> {
    let parameters = Parameters::read(query, &["as"])?;
    let form: Form = parameters.one_of("as", Form::NAMES)?.into();
    // Never closed.
    let _permit = api.large.acquire().await.ok();
    let located = lookup::locate(api, &parameters).await?;
    let mut records = Records::of(api, &located).await?;
    loop {
        let (row, further) = records.next().await?;
        if let Some(response) = read(api, (headers, &located), &row, form).await? {
            return Ok(response);
        }
        records = further;
    }
}

/// Reads a record, and extracts its document; `None`: its file is not in the archive.
async fn read(
    api: &Api,
    (headers, located): (&HeaderMap, &Located),
    row: &CaptureRow,
    form: Form,
) -> Result<Option<Response>, Problem> {
    let Some(archived) = contents::archived(api, row).await? else { return Ok(None) };
    let (page, at_ms) = (located.page(), row.at_ms);
    let written = tokio::task::spawn_blocking(move || document::written(&archived, &page, at_ms, form)).await;
    let written = written.map_err(|error| Problem::new(Kind::Damaged, format!("the extraction failed: {error}")))??;
    let tag = validators::tag(&written);
    if responses::is_known(headers, &tag) {
        return Ok(Some(responses::not_modified(&tag)));
    }
    let mut response = Response::new(Body::from(written));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(form.media_type()));
    Ok(Some(responses::with_tag(response, &tag)))
}
