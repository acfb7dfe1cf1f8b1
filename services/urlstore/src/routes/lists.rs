//! `/v1/history`, `/v1/links` and `/v1/captures`.

use std::sync::Arc;

use axum::{
    extract::{RawQuery, State},
    http::HeaderMap,
    response::Response,
};

use crate::{
    answers::{CapturesAnswer, HistoryAnswer, LinksAnswer},
    api::Api,
    cursor::Cursor,
    lookup,
    openapi::{Expired, Limited, Of, Refused},
    parameters::Parameters,
    problem::Problem,
    responses,
};

/// Fetches of a URL, newest first.
#[utoipa::path(
    get,
    path = "/v1/history",
    params(Of, Limited),
    responses(
        (status = 200, description = "Fetches", body = HistoryAnswer),
        (status = 304, description = "`If-None-Match` names the answer"),
        Refused,
    )
)]
pub(crate) async fn history(State(api): State<Arc<Api>>, headers: HeaderMap, RawQuery(query): RawQuery) -> Response {
    responses::answer(history_of(&api, query.as_deref()).await, &headers)
}

/// Links of a page, in the order of the page.
#[utoipa::path(
    get,
    path = "/v1/links",
    params(
        Of,
        Limited,
        ("cursor" = Option<String>, Query, min_length = 1, description = "`next` of the previous answer"),
    ),
    responses(
        (status = 200, description = "Links", body = LinksAnswer),
        (status = 304, description = "`If-None-Match` names the answer"),
        Refused,
        Expired,
    )
)]
pub(crate) async fn links(State(api): State<Arc<Api>>, headers: HeaderMap, RawQuery(query): RawQuery) -> Response {
    responses::answer(links_of(&api, query.as_deref()).await, &headers)
}

/// Locations of the archived responses of a URL, newest first.
#[utoipa::path(
    get,
    path = "/v1/captures",
    params(Of, Limited),
    responses(
        (status = 200, description = "Locations; the file of the newest ones may still be open", body = CapturesAnswer),
        (status = 304, description = "`If-None-Match` names the answer"),
        Refused,
    )
)]
pub(crate) async fn captures(State(api): State<Arc<Api>>, headers: HeaderMap, RawQuery(query): RawQuery) -> Response {
    responses::answer(captures_of(&api, query.as_deref()).await, &headers)
}

async fn history_of(api: &Api, query: Option<&str>) -> Result<HistoryAnswer, Problem> {
    let parameters = Parameters::read(query, &["limit"])?;
    let limit = parameters.limit()?;
    let located = lookup::locate(api, &parameters).await?;
    let events = api.store().history(located.fingerprint(), limit + 1).await?;
    // A page has at least its last fetch.
    if events.is_empty() { Err(located.unknown()) } else { Ok(HistoryAnswer::of(located, events, limit)) }
}

async fn links_of(api: &Api, query: Option<&str>) -> Result<LinksAnswer, Problem> {
    let parameters = Parameters::read(query, &["limit", "cursor"])?;
    let limit = parameters.limit()?;
    let cursor = parameters.get("cursor").map(|text| {
        let refused = || Problem::invalid("cursor", "the value is not a cursor", "`next` of the previous answer");
        Cursor::decode(text).ok_or_else(refused)
    });
    let cursor = cursor.transpose()?;
    // Never closed.
    let _permit = api.large.acquire().await.ok();
    let located = lookup::locate(api, &parameters).await?;
    let links = api.store().links(located.fingerprint()).await?;
    if links.is_none() {
        located.known(api.store()).await?;
    }
    LinksAnswer::of(located, links, cursor, limit)
}

async fn captures_of(api: &Api, query: Option<&str>) -> Result<CapturesAnswer, Problem> {
    let parameters = Parameters::read(query, &["limit"])?;
    let limit = parameters.limit()?;
    let located = lookup::locate(api, &parameters).await?;
    let rows = api.store().captures(located.fingerprint(), limit + 1).await?;
    if rows.is_empty() {
        located.known(api.store()).await?;
    }
    Ok(CapturesAnswer::of(located, rows, limit))
}
