//! `/v1/crawl` and below: figures of the crawl, as they are and as a stream; pause, resume and stop.

use std::{convert::Infallible, sync::Arc};

use axum::{
    Extension,
    body::{Body, Bytes},
    extract::{RawQuery, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use futures::stream;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    api::Api,
    live::{Action, Controls, CrawlState, LiveCrawl, Overview},
    openapi::{Bodied, Controlled, Watched},
    parameters::Parameters,
    problem::{Kind, Problem},
    responses,
    tokens::{Caller, Scope},
};

/// Figures of the crawl next to this API.
#[utoipa::path(
    get,
    path = "/v1/crawl",
    responses(
        (status = 200, description = "Figures", body = Overview),
        (status = 304, description = "`If-None-Match` names the answer"),
        Watched,
    )
)]
pub(crate) async fn crawl(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    let figures = Parameters::among(query.as_deref(), &[])
        .and_then(|_| Ok(shown(Overview::clone(&live(&api)?.figures.borrow()), &caller)));
    responses::answer(figures, &headers)
}

/// Returns figures with the actions that a token may perform.
fn shown(figures: Overview, caller: &Caller) -> Overview {
    let actions = if caller.scope == Scope::Admin { figures.actions } else { vec![] };
    Overview { actions, ..figures }
}

/// Figures as events named `crawl`, at once and then each second, without the history. The stream ends with the crawl, or with the
/// connection after some minutes.
#[utoipa::path(
    get,
    path = "/v1/crawl/events",
    responses((status = 200, description = "Server-sent events", body = CrawlEvent, content_type = "text/event-stream"), Watched)
)]
pub(crate) async fn events(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Response {
    match Parameters::among(query.as_deref(), &[]).and_then(|_| live(&api)) {
        Ok(crawl) => {
            let mut response = Response::new(Body::from_stream(stream_of(crawl.clone(), caller)));
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            response
        }
        Err(problem) => responses::problem(&problem),
    }
}

/// Server-sent event, for its description.
#[derive(ToSchema)]
#[expect(dead_code, reason = "read by the macro alone")]
pub(crate) struct CrawlEvent {
    /// `crawl`
    event: String,
    /// Figures as JSON, without the history.
    data: String,
}

/// Returns an event per change of the figures, up to the last ones.
fn stream_of(mut crawl: LiveCrawl, caller: Caller) -> impl futures::Stream<Item = Result<Bytes, Infallible>> {
    crawl.figures.mark_changed();
    stream::unfold(Some((crawl, caller)), async |state| {
        let (mut crawl, caller) = state?;
        crawl.figures.changed().await.ok()?;
        let figures = Arc::clone(&crawl.figures.borrow_and_update());
        let has_ended = figures.state == CrawlState::Ended;
        let shown = shown(Overview::clone(&figures), &caller);
        Some((Ok(event(shown)), (!has_ended).then_some((crawl, caller))))
    })
}

fn event(figures: Overview) -> Bytes {
    let figures = Overview { history: vec![], ..figures };
    // JSON has no line feed outside of its strings, and these escape it.
    format!("event: crawl\ndata: {}\n\n", serde_json::to_string(&figures).unwrap_or_default()).into()
}

/// Pauses the crawl: no URL is dispatched until it is resumed.
#[utoipa::path(
    post,
    path = "/v1/crawl/pause",
    request_body = Empty,
    responses((status = 202, description = "It applies within a second", body = Empty), Watched, Controlled, Bodied)
)]
pub(crate) async fn pause(State(api): State<Arc<Api>>, request: Request) -> Response {
    acted(&api, request, Action::Pause).await
}

/// Resumes the crawl after a pause.
#[utoipa::path(
    post,
    path = "/v1/crawl/resume",
    request_body = Empty,
    responses((status = 202, description = "It applies within a second", body = Empty), Watched, Controlled, Bodied)
)]
pub(crate) async fn resume(State(api): State<Arc<Api>>, request: Request) -> Response {
    acted(&api, request, Action::Resume).await
}

/// Stops the crawl, as SIGINT does. The command that started it resumes it.
#[utoipa::path(
    post,
    path = "/v1/crawl/stop",
    request_body = Empty,
    responses((status = 202, description = "It begins to stop", body = Empty), Watched, Controlled, Bodied)
)]
pub(crate) async fn stop(State(api): State<Arc<Api>>, request: Request) -> Response {
    acted(&api, request, Action::Stop).await
}

/// Empty object: the body of a change without settings, and its answer.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Empty {}

async fn acted(api: &Api, request: Request, action: Action) -> Response {
    let acted = async {
        Parameters::among(request.uri().query(), &[])?;
        let Empty {} = super::body(request, "an empty object").await?;
        controls(api)?.act(action).await
    };
    match acted.await {
        Ok(()) => {
            let mut response = responses::json(b"{}".to_vec(), &HeaderMap::new());
            *response.status_mut() = StatusCode::ACCEPTED;
            response
        }
        Err(problem) => responses::problem(&problem),
    }
}

/// Returns the crawl next to this API.
fn live(api: &Api) -> Result<&LiveCrawl, Problem> {
    let none = || Problem::new(Kind::NoCrawl, "this server has the figures of no crawl");
    api.sources.live.as_ref().ok_or_else(none)
}

/// Returns the controls of the crawl.
pub(super) fn controls(api: &Api) -> Result<&dyn Controls, Problem> {
    let ended = || Problem::new(Kind::NotRunning, "the crawl has ended; the command that started it may resume it");
    live(api)?.controls.as_deref().ok_or_else(ended)
}
