//! The console: files for the browser, which read the API. They have no data, so no token is required for them.

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::Response,
    routing::get,
};

use crate::{responses, validators};

/// Path of the page.
const PAGE: &str = "/console/";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// Embeds files of `console/` below their names.
macro_rules! files {
    ($($name:literal: $kind:expr),* $(,)?) => {
        [$(($name, $kind, include_bytes!(concat!("../console/", $name)).as_slice())),*]
    };
}

/// Name, media type and contents of each file.
static FILES: [(&str, &str, &[u8]); 26] = files! {
    "index.html": HTML,
    "api.js": SCRIPT,
    "app.js": SCRIPT,
    "chart.js": SCRIPT,
    "content.js": SCRIPT,
    "deadletters.js": SCRIPT,
    "dom.js": SCRIPT,
    "format.js": SCRIPT,
    "icon.svg": SVG,
    "keys.js": SCRIPT,
    "live.js": SCRIPT,
    "outcomes.js": SCRIPT,
    "overview.js": SCRIPT,
    "pages.js": SCRIPT,
    "parts.css": CSS,
    "preview.js": SCRIPT,
    "settings.js": SCRIPT,
    "sitecontrol.js": SCRIPT,
    "sites.js": SCRIPT,
    "stages.js": SCRIPT,
    "status.js": SCRIPT,
    "style.css": CSS,
    "timeline.js": SCRIPT,
    "token.js": SCRIPT,
    "url.js": SCRIPT,
    "views.js": SCRIPT,
};

/// Headers of all files: only files of this server run, and they connect to it alone.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; frame-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-cache"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Creates the routes of the files, and those that redirect to the page.
pub(crate) fn router() -> Router {
    let file = |router: Router, (name, kind, contents): &'static (&str, &str, &[u8])| {
        let path = format!("{PAGE}{}", if *name == "index.html" { "" } else { name });
        router.route(&path, get(async move |headers: HeaderMap| answer(kind, contents, &headers)))
    };
    let to_page = || get(async || redirect());
    FILES.iter().fold(Router::new(), file).route("/", to_page()).route("/console", to_page())
}

fn answer(kind: &'static str, contents: &'static [u8], request: &HeaderMap) -> Response {
    let tag = validators::tag(contents);
    let response = if responses::is_known(request, &tag) {
        responses::not_modified(&tag)
    } else {
        let mut response = Response::new(Body::from(contents));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        responses::with_tag(response, &tag)
    };
    with_headers(response)
}

fn redirect() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static(PAGE));
    with_headers(response)
}

fn with_headers(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
