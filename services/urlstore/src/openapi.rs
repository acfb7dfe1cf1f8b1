//! The description of the API, generated from the handlers and the types of their answers.

use utoipa::{
    IntoParams, IntoResponses, Modify, OpenApi,
    openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
};

use crate::{problem::Problem, routes};

/// Name of the scheme in the description.
const TOKEN: &str = "token";

/// Parameters by which a page is found.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by the macro alone")]
pub(crate) struct Of {
    /// An http or https URL, percent-encoded; a bare host means https.
    #[param(example = "https://example.org/", min_length = 1)]
    url: String,
    /// Name of the crawl, as in records; default: `default`.
    #[param(min_length = 1)]
    crawl: Option<String>,
    /// Canonicalization policy of the crawl, such as `standard,sort-query`; default: that of the server.
    #[param(min_length = 1)]
    canonical: Option<String>,
    /// `no`: the answer is about the URL itself. Default: `yes`, redirects and `rel=canonical` are followed.
    #[param(pattern = "^(yes|no)$")]
    resolve: Option<String>,
}

/// Size of a list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by the macro alone")]
pub(crate) struct Limited {
    /// Maximum number of entries; default: 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Problems of each request with a query.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "read by the macro alone")]
pub(crate) enum Refused {
    /// A parameter is invalid, unknown or repeated.
    #[response(status = 400, content_type = "application/problem+json")]
    Invalid(Problem),
    /// The bearer token is missing or wrong.
    #[response(status = 401, content_type = "application/problem+json")]
    Unauthorized(Problem),
    /// Nothing of the URL or the site is stored, or no content of the URL is available.
    #[response(status = 404, content_type = "application/problem+json")]
    Unknown(Problem),
    /// The query is too long.
    #[response(status = 414, content_type = "application/problem+json")]
    UriTooLong(Problem),
    /// The token exceeds its rate.
    #[response(status = 429, content_type = "application/problem+json")]
    TooManyRequests(Problem),
    /// Without a token, the `Host` does not name this machine.
    #[response(status = 421, content_type = "application/problem+json")]
    Misdirected(Problem),
    /// A stored value cannot be read.
    #[response(status = 500, content_type = "application/problem+json")]
    Damaged(Problem),
    /// The store or the archive is unavailable, or too slow.
    #[response(status = 503, content_type = "application/problem+json")]
    Unavailable(Problem),
}

/// Problems of a request with a body.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "read by the macro alone")]
pub(crate) enum Batched {
    /// The body is invalid.
    #[response(status = 400, content_type = "application/problem+json")]
    Invalid(Problem),
    /// The bearer token is missing or wrong.
    #[response(status = 401, content_type = "application/problem+json")]
    Unauthorized(Problem),
    /// The body is not JSON.
    #[response(status = 415, content_type = "application/problem+json")]
    UnsupportedMediaType(Problem),
    /// The token exceeds its rate.
    #[response(status = 429, content_type = "application/problem+json")]
    TooManyRequests(Problem),
    /// Without a token, the `Host` does not name this machine.
    #[response(status = 421, content_type = "application/problem+json")]
    Misdirected(Problem),
    /// A stored value cannot be read.
    #[response(status = 500, content_type = "application/problem+json")]
    Damaged(Problem),
    /// The store is unavailable, or too slow.
    #[response(status = 503, content_type = "application/problem+json")]
    Unavailable(Problem),
}

/// Problems of a request for the crawl next to the API.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "read by the macro alone")]
pub(crate) enum Watched {
    /// A parameter is invalid, unknown or repeated, or the body is invalid.
    #[response(status = 400, content_type = "application/problem+json")]
    Invalid(Problem),
    /// The bearer token is missing or wrong.
    #[response(status = 401, content_type = "application/problem+json")]
    Unauthorized(Problem),
    /// No crawl is next to this API.
    #[response(status = 404, content_type = "application/problem+json")]
    NoCrawl(Problem),
    /// The query is too long.
    #[response(status = 414, content_type = "application/problem+json")]
    UriTooLong(Problem),
    /// The token exceeds its rate.
    #[response(status = 429, content_type = "application/problem+json")]
    TooManyRequests(Problem),
    /// Without a token, the `Host` does not name this machine.
    #[response(status = 421, content_type = "application/problem+json")]
    Misdirected(Problem),
}

/// Problems of a request for a running crawl.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "read by the macro alone")]
pub(crate) enum Controlled {
    /// The crawl is not running, or another change came first.
    #[response(status = 409, content_type = "application/problem+json")]
    NotRunning(Problem),
    /// The log of the crawl is unavailable, or too slow.
    #[response(status = 503, content_type = "application/problem+json")]
    Unavailable(Problem),
}

/// Problems of a request that changes a running crawl.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "read by the macro alone")]
pub(crate) enum Bodied {
    /// The token has not the scope `admin`.
    #[response(status = 403, content_type = "application/problem+json")]
    Forbidden(Problem),
    /// The body exceeds a limit.
    #[response(status = 413, content_type = "application/problem+json")]
    TooLarge(Problem),
    /// The body is not JSON.
    #[response(status = 415, content_type = "application/problem+json")]
    UnsupportedMediaType(Problem),
}

/// Problem of a size.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "read by the macro alone")]
pub(crate) enum Large {
    /// The request, the answer or the content exceeds a limit.
    #[response(status = 413, content_type = "application/problem+json")]
    TooLarge(Problem),
}

/// Problem of a cursor.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "read by the macro alone")]
pub(crate) enum Expired {
    /// The links were replaced since the cursor was issued.
    #[response(status = 410, content_type = "application/problem+json")]
    Expired(Problem),
}

#[derive(OpenApi)]
#[openapi(
    info(title = "Orbweaver urlstore", description = "API over all that the store knows of a URL, and over the crawl next to it if there is one."),
    paths(
        routes::url::url,
        routes::lists::history,
        routes::lists::links,
        routes::lists::captures,
        routes::content::content,
        routes::document::document,
        routes::pages::pages,
        routes::batch::urls,
        routes::crawl::crawl,
        routes::crawl::events,
        routes::crawl::pause,
        routes::crawl::resume,
        routes::crawl::stop,
        routes::control::site,
        routes::control::change_site,
        routes::control::settings,
        routes::control::dead_letters,
    ),
    components(schemas(Problem)),
    modifiers(&Token)
)]
struct Description;

/// Adds the bearer token, which a server may require.
struct Token;

impl Modify for Token {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
        let components = description.components.get_or_insert_default();
        components.add_security_scheme(TOKEN, scheme);
        let required = SecurityRequirement::new(TOKEN, [""; 0]);
        description.security = Some(vec![required, SecurityRequirement::default()]);
    }
}

/// Returns the description as JSON.
pub(crate) fn description() -> Vec<u8> {
    serde_json::to_vec(&Description::openapi()).unwrap_or_default()
}
