//! `/v1/site`, `/v1/settings` and `/v1/dead-letters`: settings and dead letters of a running crawl.

use std::sync::Arc;

use axum::{
    extract::{RawQuery, Request, State},
    http::HeaderMap,
    response::Response,
};

use super::crawl::controls;
use crate::{
    api::Api,
    live::{DeadLettersAnswer, SettingsAnswer, SiteChange, SiteSetting},
    openapi::{Bodied, Controlled, Limited, Watched},
    parameters::{Parameters, SITES},
    problem::Problem,
    responses,
};

/// Minimum and maximum of a rate, in requests per second.
const RATES: std::ops::RangeInclusive<f64> = 0.001..=10.0;

/// Setting of a site of the running crawl.
#[utoipa::path(
    get,
    path = "/v1/site",
    params(("site" = String, Query, min_length = 1, description = "Site, or a host or URL of it")),
    responses(
        (status = 200, description = "Setting", body = SiteSetting),
        (status = 304, description = "`If-None-Match` names the answer"),
        Watched,
        Controlled,
    )
)]
pub(crate) async fn site(State(api): State<Arc<Api>>, headers: HeaderMap, RawQuery(query): RawQuery) -> Response {
    let found = async {
        let site = named(query.as_deref())?;
        controls(&api)?.site(site).await
    };
    responses::answer(found.await, &headers)
}

/// Changes the setting of a site of the running crawl. It applies within a second, and to other runs of the crawl, too.
#[utoipa::path(
    put,
    path = "/v1/site",
    params(("site" = String, Query, min_length = 1, description = "Site, or a host or URL of it")),
    request_body = SiteChange,
    responses((status = 200, description = "The setting that applies", body = SiteSetting), Watched, Controlled, Bodied)
)]
pub(crate) async fn change_site(State(api): State<Arc<Api>>, request: Request) -> Response {
    let changed = async {
        let site = named(request.uri().query())?;
        let change: SiteChange = super::body(request, "an object with `frozen` and `requests_per_second`").await?;
        if change.requests_per_second.is_some_and(|rate| !RATES.contains(&rate)) {
            let allowed = format!("{} to {}, or `null` for the rate of the crawl", RATES.start(), RATES.end());
            return Err(Problem::invalid("requests_per_second", "the value is not an allowed rate", allowed));
        }
        controls(&api)?.change_site(site, change).await
    };
    // A client has no tag of this answer.
    responses::answer(changed.await, &HeaderMap::new())
}

fn named(query: Option<&str>) -> Result<String, Problem> {
    let parameters = Parameters::among(query, &["site"])?;
    let site = parameters.get("site").map(str::to_owned);
    site.ok_or_else(|| Problem::invalid("site", "the parameter is missing", SITES))
}

/// Settings of the running crawl and of its sites that apply, by key.
#[utoipa::path(
    get,
    path = "/v1/settings",
    responses(
        (status = 200, description = "Settings", body = SettingsAnswer),
        (status = 304, description = "`If-None-Match` names the answer"),
        Watched,
        Controlled,
    )
)]
pub(crate) async fn settings(State(api): State<Arc<Api>>, headers: HeaderMap, RawQuery(query): RawQuery) -> Response {
    let found = async {
        Parameters::among(query.as_deref(), &[])?;
        controls(&api)?.settings().await
    };
    responses::answer(found.await, &headers)
}

/// Records of the running crawl that could not be processed, newest first.
#[utoipa::path(
    get,
    path = "/v1/dead-letters",
    params(Limited, ("cursor" = Option<String>, Query, min_length = 1, description = "`next` of the previous answer")),
    responses(
        (status = 200, description = "Dead letters", body = DeadLettersAnswer),
        (status = 304, description = "`If-None-Match` names the answer"),
        Watched,
        Controlled,
    )
)]
pub(crate) async fn dead_letters(
    State(api): State<Arc<Api>>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    let found = async {
        let parameters = Parameters::among(query.as_deref(), &["limit", "cursor"])?;
        let (limit, cursor) = (parameters.limit()?, parameters.get("cursor").map(str::to_owned));
        // Never closed.
        let _permit = api.large.acquire().await.ok();
        controls(&api)?.dead_letters(cursor, limit).await
    };
    responses::answer(found.await, &headers)
}
