//! Answers as HTTP responses.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use serde::Serialize;

use crate::{
    problem::{Kind, Problem},
    validators,
};

/// Media type of problem details.
const PROBLEM_JSON: &str = "application/problem+json";

/// Creates the response of a problem.
pub(crate) fn problem(problem: &Problem) -> Response {
    let mut response = Response::new(Body::from(serde_json::to_vec(problem).unwrap_or_default()));
    *response.status_mut() = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    if problem.kind == Kind::Unauthorized {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(seconds) = problem.retry_after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Creates the response of an answer: 304 if the client has it.
pub(crate) fn answer<T: Serialize>(answer: Result<T, Problem>, request: &HeaderMap) -> Response {
    let answer = match answer {
        Ok(answer) => answer,
        Err(cause) => return problem(&cause),
    };
    match serde_json::to_vec(&answer) {
        Ok(body) => json(body, request),
        Err(error) => problem(&Problem::new(Kind::Damaged, format!("the answer cannot be written: {error}"))),
    }
}

/// Creates the response of a JSON body: 304 if the client has it.
pub(crate) fn json(body: Vec<u8>, request: &HeaderMap) -> Response {
    let tag = validators::tag(&body);
    if is_known(request, &tag) {
        return not_modified(&tag);
    }
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    with_tag(response, &tag)
}

/// Returns `true` if the client has the representation with this tag.
pub(crate) fn is_known(request: &HeaderMap, tag: &str) -> bool {
    let mut values = request.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    values.any(|value| validators::names(value, tag))
}

/// Creates a 304 response.
pub(crate) fn not_modified(tag: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    with_tag(response, tag)
}

/// Adds the tag.
pub(crate) fn with_tag(mut response: Response, tag: &str) -> Response {
    if let Ok(tag) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}
