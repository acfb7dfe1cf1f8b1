//! `/v1/document`.

use std::sync::Arc;

use crate::{
    api::Api,
    contents,
    document::{self, Form},
    lookup,
    openapi::{Large, Of, Refused},
    parameters::Parameters,
    problem::{Kind, Problem},
    responses, validators,
};
use axum::{
    body::Body,
    extract::{RawQuery, State},
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};

/// Document of a URL: text, main text, Markdown, facts and links, extracted from its newest archived content.
///
/// A document has the fields of a record of `crawl.documents`, as `orbweaver extract` returns them; the seed metadata, visits and
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
    let (archived, at_ms) = contents::newest(api, &located).await?;
    let page = located.page();
    let written = tokio::task::spawn_blocking(move || document::written(&archived, &page, at_ms, form)).await;
    let written = written.map_err(|error| Problem::new(Kind::Damaged, format!("the extraction failed: {error}")))??;
    let tag = validators::tag(&written);
    if responses::is_known(headers, &tag) {
        return Ok(responses::not_modified(&tag));
    }
    let mut response = Response::new(Body::from(written));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(form.media_type()));
    Ok(responses::with_tag(response, &tag))
}
