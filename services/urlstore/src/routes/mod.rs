//! Handlers of the routes.

pub(crate) mod batch;
pub(crate) mod content;
pub(crate) mod control;
pub(crate) mod crawl;
pub(crate) mod document;
pub(crate) mod lists;
pub(crate) mod pages;
pub(crate) mod url;

use axum::{
    body::to_bytes,
    extract::Request,
    http::{HeaderMap, header},
};
use serde::de::DeserializeOwned;

use crate::problem::{Kind, Problem};

/// Maximum size of a body, in bytes.
const MAX_BODY_BYTES: usize = 4 << 20;

/// Reads the body of a request; `allowed` describes it. Pages of other sites cannot send this type without a permission, which no
/// server here gives.
async fn body<T: DeserializeOwned>(request: Request, allowed: &str) -> Result<T, Problem> {
    if !is_json(request.headers()) {
        let detail = "the header `Content-Type` must be `application/json`";
        return Err(Problem::new(Kind::UnsupportedMediaType, detail));
    }
    let too_large = |_| Problem::new(Kind::TooLarge, format!("the body has more than {MAX_BODY_BYTES} bytes"));
    let body = to_bytes(request.into_body(), MAX_BODY_BYTES).await.map_err(too_large)?;
    serde_json::from_slice(&body).map_err(|error| Problem::invalid("body", error.to_string(), allowed))
}

fn is_json(headers: &HeaderMap) -> bool {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = given.and_then(|given| given.split(';').next()).unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}
