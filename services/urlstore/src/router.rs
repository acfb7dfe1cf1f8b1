//! Paths and their handlers.

use std::sync::Arc;

use axum::{
    Router,
    http::{HeaderMap, Method, Uri},
    middleware,
    response::Response,
    routing::{get, post},
};

use crate::{
    api::Api,
    console,
    guard::guard,
    openapi,
    problem::{Kind, Problem},
    responses,
    routes::{batch, content, control, crawl, document, lists, pages, url},
};

/// All paths.
pub(crate) const PATHS: [&str; 17] = [
    "/v1/url",
    "/v1/history",
    "/v1/links",
    "/v1/captures",
    "/v1/content",
    "/v1/document",
    "/v1/pages",
    "/v1/urls",
    "/v1/crawl",
    "/v1/crawl/events",
    "/v1/crawl/pause",
    "/v1/crawl/resume",
    "/v1/crawl/stop",
    "/v1/site",
    "/v1/settings",
    "/v1/dead-letters",
    "/openapi.json",
];

/// Creates the router of the API and the console.
pub fn router(api: Arc<Api>) -> Router {
    console::router().fallback_service(of_api(api))
}

fn of_api(api: Arc<Api>) -> Router {
    let handlers = [
        get(url::url),
        get(lists::history),
        get(lists::links),
        get(lists::captures),
        get(content::content),
        get(document::document),
        get(pages::pages),
        post(batch::urls),
        get(crawl::crawl),
        get(crawl::events),
        post(crawl::pause),
        post(crawl::resume),
        post(crawl::stop),
        get(control::site).put(control::change_site),
        get(control::settings),
        get(control::dead_letters),
        get(description),
    ];
    let routed =
        PATHS.into_iter().zip(handlers).fold(Router::new(), |router, (path, handler)| router.route(path, handler));
    routed
        .fallback(unknown_route)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(Arc::clone(&api), guard))
        .with_state(api)
}

async fn description(headers: HeaderMap) -> Response {
    responses::json(openapi::description(), &headers)
}

async fn unknown_route() -> Response {
    let detail = format!("allowed paths: {}", PATHS.join(", "));
    responses::problem(&Problem::new(Kind::UnknownRoute, detail))
}

async fn method_not_allowed(method: Method, uri: Uri) -> Response {
    // The header `Allow` of the response has the methods.
    let detail = format!("{} has no method {method}", uri.path());
    responses::problem(&Problem::new(Kind::MethodNotAllowed, detail))
}
