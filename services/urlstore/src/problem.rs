//! Problem details of all errors (RFC 9457). Pure.

use orbweaver_store::StoreError;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

/// Seconds after which a client may repeat a request whose data was unavailable.
const RETRY_AFTER: u64 = 1;

/// Kind of a problem: its type, title and status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A parameter or the body is invalid.
    InvalidRequest,
    /// The bearer token is missing or wrong.
    Unauthorized,
    /// The token may not send this request.
    Forbidden,
    /// The path is none of the API.
    UnknownRoute,
    /// The store knows nothing of the URL.
    UnknownUrl,
    /// The store has no pages of the site.
    UnknownSite,
    /// No archived response of the URL has content.
    NotArchived,
    /// The content is not HTML.
    NotHtml,
    /// This server has no archive.
    NoArchive,
    /// The file of an archived response is not in the archive.
    FileMissing,
    /// This server has no crawl next to it.
    NoCrawl,
    /// The path has other methods.
    MethodNotAllowed,
    /// Another change came first, or the change is not possible.
    Conflict,
    /// The crawl has ended.
    NotRunning,
    /// The links were replaced since the cursor was issued.
    CursorExpired,
    /// The request, the answer or the content exceeds a limit.
    TooLarge,
    /// The query exceeds its limit.
    UriTooLong,
    /// The body is not JSON.
    UnsupportedMediaType,
    /// The token exceeds its rate.
    TooManyRequests,
    /// The `Host` of the request does not name this machine.
    Misdirected,
    /// A stored value is damaged, or the store refuses to read.
    Damaged,
    /// The store or the archive is unavailable, or slower than the limit.
    Unavailable,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 22] = [
        Self::InvalidRequest,
        Self::Unauthorized,
        Self::Forbidden,
        Self::UnknownRoute,
        Self::UnknownUrl,
        Self::UnknownSite,
        Self::NotArchived,
        Self::NotHtml,
        Self::NoArchive,
        Self::FileMissing,
        Self::NoCrawl,
        Self::MethodNotAllowed,
        Self::Conflict,
        Self::NotRunning,
        Self::CursorExpired,
        Self::TooLarge,
        Self::UriTooLong,
        Self::UnsupportedMediaType,
        Self::TooManyRequests,
        Self::Misdirected,
        Self::Damaged,
        Self::Unavailable,
    ];

    /// Returns name, title and status.
    fn described(self) -> (&'static str, &'static str, u16) {
        match self {
            Self::InvalidRequest => ("invalid-request", "The request is invalid", 400),
            Self::Unauthorized => ("unauthorized", "A bearer token is required", 401),
            Self::Forbidden => ("forbidden", "The token does not permit this request", 403),
            Self::UnknownRoute => ("unknown-route", "There is no such path", 404),
            Self::UnknownUrl => ("unknown-url", "The URL is unknown", 404),
            Self::UnknownSite => ("unknown-site", "The site is unknown", 404),
            Self::NotArchived => ("not-archived", "No content of the URL is archived", 404),
            Self::NotHtml => ("not-html", "The content is not HTML", 404),
            Self::NoArchive => ("no-archive", "This server has no archive", 404),
            Self::FileMissing => ("file-missing", "The file is not in the archive", 404),
            Self::NoCrawl => ("no-crawl", "This server has no crawl", 404),
            Self::Conflict => ("conflict", "The change is not possible", 409),
            Self::NotRunning => ("not-running", "The crawl is not running", 409),
            Self::MethodNotAllowed => ("method-not-allowed", "The path does not have this method", 405),
            Self::CursorExpired => ("cursor-expired", "The links were replaced", 410),
            Self::TooLarge => ("too-large", "A size limit is exceeded", 413),
            Self::UriTooLong => ("uri-too-long", "The query is too long", 414),
            Self::UnsupportedMediaType => ("unsupported-media-type", "The body is not JSON", 415),
            Self::TooManyRequests => ("too-many-requests", "The token exceeds its rate", 429),
            Self::Misdirected => ("misdirected", "The request is not for this server", 421),
            Self::Damaged => ("damaged", "A stored value cannot be read", 500),
            Self::Unavailable => ("unavailable", "The data is unavailable at the moment", 503),
        }
    }

    #[must_use]
    pub fn status(self) -> u16 {
        self.described().2
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("urn:orbweaver:problem:{}", self.described().0))
    }
}

/// Problem details (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Problem {
    /// Type of the problem: `urn:orbweaver:problem:` and a name, such as `unknown-url`.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    pub kind: Kind,
    /// Type of the problem, human-readable.
    pub title: &'static str,
    /// HTTP status.
    pub status: u16,
    /// Cause of this problem.
    pub detail: String,
    /// Part of the request that is at fault: the name of a parameter or header, or a position in the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Allowed values of this part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed: Option<String>,
    /// Number of seconds after which the request may succeed, for the header `Retry-After`.
    #[serde(skip)]
    pub retry_after: Option<u64>,
}

impl Problem {
    /// Creates a problem with its cause.
    pub fn new(kind: Kind, detail: impl Into<String>) -> Self {
        let (_, title, status) = kind.described();
        let retry_after = (kind == Kind::Unavailable).then_some(RETRY_AFTER);
        Self { kind, title, status, detail: detail.into(), part: None, allowed: None, retry_after }
    }

    /// Creates a problem of a part of the request, with the allowed values.
    #[must_use]
    pub fn invalid(part: &str, detail: impl Into<String>, allowed: impl Into<String>) -> Self {
        let (part, allowed) = (Some(part.to_owned()), Some(allowed.into()));
        Self { part, allowed, ..Self::new(Kind::InvalidRequest, detail) }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let kind = match &error {
            StoreError::Damaged { .. } | StoreError::Refused(_) => Kind::Damaged,
            _ => Kind::Unavailable,
        };
        Self::new(kind, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_problem_has_type_title_status_and_detail_and_the_part_at_fault() {
        let problem = Problem::invalid("limit", "`0` is not a limit", "1 to 1000");
        let expected = serde_json::json!({
            "type": "urn:orbweaver:problem:invalid-request",
            "title": "The request is invalid",
            "status": 400,
            "detail": "`0` is not a limit",
            "part": "limit",
            "allowed": "1 to 1000",
        });
        assert_eq!(serde_json::to_value(problem).unwrap(), expected);
    }

    #[test]
    fn each_kind_has_a_name_of_its_own() {
        let names: BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.described().0).collect();
        assert_eq!(names.len(), Kind::ALL.len());
        assert!(Kind::ALL.iter().all(|kind| (400..600).contains(&kind.status())));
    }

    #[test]
    fn only_a_store_that_may_answer_later_is_unavailable() {
        let status = |error: StoreError| Problem::from(error).status;
        assert_eq!(status(StoreError::Failed("x".to_owned())), 503);
        assert_eq!(status(StoreError::Refused("x".to_owned())), 500);
        assert_eq!(status(StoreError::Damaged { key: "x".to_owned(), reason: "y".to_owned() }), 500);
    }
}
