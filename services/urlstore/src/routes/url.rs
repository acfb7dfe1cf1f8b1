//! `/v1/url`.

use std::sync::Arc;

use axum::{
    extract::{RawQuery, State},
    http::HeaderMap,
    response::Response,
};

use crate::{
    answers::UrlAnswer,
    api::Api,
    lookup,
    openapi::{Of, Refused},
    parameters::Parameters,
    problem::Problem,
    responses,
};

/// Last known state of a URL.
///
/// The URL is brought into its canonical form. Redirects are followed as they were last seen, and then `rel=canonical` to pages
/// that were fetched; one of another site has to declare itself to be canonical.
#[utoipa::path(
    get,
    path = "/v1/url",
    params(Of),
    responses(
        (status = 200, description = "State of the last URL of the chain", body = UrlAnswer),
        (status = 304, description = "`If-None-Match` names the answer"),
        Refused,
    )
)]
pub(crate) async fn url(State(api): State<Arc<Api>>, headers: HeaderMap, RawQuery(query): RawQuery) -> Response {
    responses::answer(of(&api, query.as_deref()).await, &headers)
}

async fn of(api: &Api, query: Option<&str>) -> Result<UrlAnswer, Problem> {
    let parameters = Parameters::read(query, &[])?;
    let follows = parameters.follows()?;
    let subject = parameters.subject(api.sources.policy)?;
    let resolved = lookup::resolve(api.store(), &subject, follows).await?;
    UrlAnswer::of(subject, resolved, follows)
}
