//! `/v1/urls`.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, header},
    response::Response,
};
use futures::{StreamExt as _, stream};
use orbweaver_url::Keying;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    answers::UrlAnswer,
    api::Api,
    lookup,
    openapi::{Batched, Large},
    parameters::{self, Subject},
    problem::{Kind, Problem},
    responses,
    tokens::Caller,
};

/// Maximum number of URLs per request.
const MAX_URLS: usize = 1000;
/// Maximum size of an answer, in bytes; most have less than a MiB.
const MAX_ANSWER_BYTES: usize = 32 << 20;
/// Maximum number of URLs of a request that are looked up concurrently.
const CONCURRENCY: usize = 16;

/// Body of `/v1/urls`.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchRequest {
    /// 1 to 1,000 URLs.
    #[schema(min_items = 1, max_items = 1000)]
    urls: Vec<String>,
    /// Name of the crawl; default: `default`.
    #[schema(min_length = 1)]
    crawl: Option<String>,
    /// Canonicalization policy of the crawl, such as `standard,sort-query`.
    #[schema(min_length = 1)]
    canonical: Option<String>,
    /// Whether redirects are followed; default: `true`.
    resolve: Option<bool>,
}

/// Answer of `/v1/urls`, for its description: it is written while the results are found.
#[allow(dead_code, reason = "read by the macro alone")]
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct BatchAnswer {
    /// Answer or problem of each URL, in the order of the request.
    results: Vec<BatchResult>,
}

/// Answer or problem of a URL.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum BatchResult {
    Found(Box<UrlAnswer>),
    Problem {
        /// URL as given.
        requested: String,
        problem: Problem,
    },
}

/// Last known states of up to 1,000 URLs, in the order of the request.
#[utoipa::path(
    post,
    path = "/v1/urls",
    request_body = BatchRequest,
    responses(
        (status = 200, description = "States; a URL that is invalid or unknown has its problem", body = BatchAnswer),
        Batched,
        Large,
    )
)]
pub(crate) async fn urls(State(api): State<Arc<Api>>, request: Request) -> Response {
    match of(&api, request).await {
        Err(problem) => responses::problem(&problem),
        Ok(body) => {
            let mut response = Response::new(Body::from(body));
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
    }
}

async fn of(api: &Api, request: Request) -> Result<Vec<u8>, Problem> {
    let caller = request.extensions().get::<Caller>().cloned();
    let BatchRequest { urls, crawl, canonical, resolve } =
        super::body(request, "an object with `urls`, `crawl`, `canonical` and `resolve`").await?;
    if urls.is_empty() || urls.len() > MAX_URLS {
        let detail = format!("the request has {} URLs", urls.len());
        return Err(Problem::invalid("urls", detail, format!("1 to {MAX_URLS}")));
    }
    if let Some(caller) = caller {
        // One was counted with the request.
        api.charge(&caller.name, urls.len() - 1);
    }
    let keying = parameters::keying(crawl.as_deref(), canonical.as_deref(), api.sources.policy)?;
    // Never closed.
    let _permit = api.large.acquire().await.ok();
    api.metrics.batch_urls.inc_by(urls.len() as u64);
    written(api, urls, &keying, resolve.unwrap_or(true)).await
}

/// Looks up the URLs, and returns the answer as JSON.
async fn written(api: &Api, urls: Vec<String>, keying: &Keying, follows: bool) -> Result<Vec<u8>, Problem> {
    let results = stream::iter(urls).map(|url| found(api, url, keying, follows)).buffered(CONCURRENCY);
    let mut results = std::pin::pin!(results);
    let mut body = b"{\"results\":[".to_vec();
    while let Some(result) = results.next().await {
        if !body.ends_with(b"[") {
            body.push(b',');
        }
        let written = serde_json::to_writer(&mut body, &result?);
        written.map_err(|error| Problem::new(Kind::Damaged, format!("the answer cannot be written: {error}")))?;
        if body.len() > MAX_ANSWER_BYTES {
            let detail = format!("the answer has more than {MAX_ANSWER_BYTES} bytes; request fewer URLs at once");
            return Err(Problem::new(Kind::TooLarge, detail));
        }
    }
    body.extend_from_slice(b"]}");
    Ok(body)
}

/// Looks up a URL. Only a store that fails is a problem of the whole request.
async fn found(api: &Api, url: String, keying: &Keying, follows: bool) -> Result<BatchResult, Problem> {
    let subject: Subject = match parameters::subject(&url, keying.clone()) {
        Ok(subject) => subject,
        Err(detail) => {
            let problem = Problem::invalid("urls", detail, "an http or https URL");
            return Ok(BatchResult::Problem { requested: url, problem });
        }
    };
    let resolved = lookup::resolve(api.store(), &subject, follows).await?;
    Ok(match UrlAnswer::of(subject, resolved, follows) {
        Ok(answer) => BatchResult::Found(Box::new(answer)),
        Err(problem) => BatchResult::Problem { requested: url, problem },
    })
}
