//! `/v1/pages`.

use std::sync::Arc;

use axum::{
    extract::{RawQuery, State},
    http::HeaderMap,
    response::Response,
};

use crate::{
    answers::PagesAnswer,
    api::Api,
    cursor::PagesCursor,
    listing::Listing,
    lookup,
    openapi::{Limited, Refused},
    parameters::Parameters,
    problem::{Kind, Problem},
    responses,
    selection::Selection,
};

/// Pages of a site that a crawl fetched, each with its last known state.
///
/// The order is stable: a page that is stored all the time is listed once, also while the crawl writes others. An answer reads
/// at most 10,000 entries of the list, of any status; so with a status it may have few pages or none although more follow.
#[utoipa::path(
    get,
    path = "/v1/pages",
    params(
        ("site" = String, Query, min_length = 1, description = "Registrable domain, host or IP address, as `state.site` of `/v1/url`"),
        ("crawl" = Option<String>, Query, min_length = 1, description = "Name of the crawl, as in records; default: `default`"),
        (
            "status" = Option<String>,
            Query,
            pattern = "^([1-9][0-9]{2}|[1-9]xx|none)$",
            description = "HTTP status of the last fetch, such as `404`, a class such as `4xx`, or `none`: without a response"
        ),
        Limited,
        ("cursor" = Option<String>, Query, min_length = 1, description = "`next` of the previous answer for the same site, crawl and status"),
    ),
    responses(
        (status = 200, description = "Pages", body = PagesAnswer),
        (status = 304, description = "`If-None-Match` names the answer"),
        Refused,
    )
)]
pub(crate) async fn pages(State(api): State<Arc<Api>>, headers: HeaderMap, RawQuery(query): RawQuery) -> Response {
    responses::answer(of(&api, query.as_deref()).await, &headers)
}

async fn of(api: &Api, query: Option<&str>) -> Result<PagesAnswer, Problem> {
    let parameters = Parameters::among(query, &["site", "crawl", "status", "limit", "cursor"])?;
    let (limit, selection) = (parameters.limit()?, parameters.selection()?);
    let cursor = parameters.get("cursor").map(|text| {
        let allowed = "`next` of the previous answer for the same site, crawl and status";
        let refused = || Problem::invalid("cursor", "the value is not a cursor of this list", allowed);
        PagesCursor::decode(text, &selection.to_string()).ok_or_else(refused)
    });
    let after = cursor.transpose()?.map(|PagesCursor(after)| after);
    // Never closed.
    let _permit = api.large.acquire().await.ok();
    let listing = lookup::list(api.store(), Listing::begin(selection, after, limit)).await?;
    if listing.is_unknown() { Err(unknown(listing.selection())) } else { Ok(PagesAnswer::of(listing)) }
}

fn unknown(Selection { crawl, site, .. }: &Selection) -> Problem {
    let detail = format!(
        "no page of the crawl {crawl} and the site {site} is listed; the site of a URL is `state.site` of `/v1/url`"
    );
    Problem::new(Kind::UnknownSite, detail)
}
