//! The client: asks for one URL, once.

mod http;
mod resolver;
mod scripted;

use futures::future::BoxFuture;
use orbweaver_messages::Millis;
use orbweaver_stage::Reservation;
use orbweaver_url::Url;

pub(crate) use http::FIRST_BYTES;
pub use http::{ClientError, HttpClient};
pub use scripted::ScriptedClient;

/// What a request is for; it decides how much of the answer is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A page: only HTML and XHTML answered with 200 is read.
    Page,
    /// A robots.txt: whatever is answered with 2xx is read.
    Robots,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What is asked for.
    pub url: Url,
    /// What for.
    pub purpose: Purpose,
    /// The value of the header `Cookie`, when there is one.
    pub cookie: Option<String>,
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// When it began.
    pub requested_at_ms: Millis,
    /// When the headers of the answer were there, which is not before its first byte; or when the attempt failed.
    pub answered_at_ms: Millis,
    /// When all was over.
    pub ended_at_ms: Millis,
    /// The answer, or why there is none.
    pub result: Result<Answer, Failure>,
}

/// An answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The header `Content-Type`.
    pub content_type: Option<String>,
    /// The header `Location`.
    pub location: Option<String>,
    /// The header `Cache-Control`.
    pub cache_control: Option<String>,
    /// The header `Retry-After`.
    pub retry_after: Option<String>,
    /// The header `ETag`.
    pub etag: Option<String>,
    /// The header `Last-Modified`.
    pub last_modified: Option<String>,
    /// The headers `Set-Cookie`, bounded.
    pub set_cookie: Vec<String>,
    /// The headers of a page, names in lower case, bounded; empty for anything else.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Body,
}

/// The body of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Body {
    /// Not wanted: the status says so, or the content type.
    #[default]
    Unread,
    /// Without a content type, and its first bytes are no HTML.
    NotHtml,
    /// Read and decoded.
    Read {
        /// The bytes.
        bytes: Vec<u8>,
        /// It was cut at the limit.
        truncated: bool,
    },
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The name could not be resolved now.
    Dns,
    /// There is no such name, or it has no address.
    UnknownHost,
    /// No connection within its time.
    Connect,
    /// TLS failed, certificates above all.
    Tls,
    /// No answer within its time, or not all of it.
    Timeout,
    /// The connection broke, or what came is no HTTP, before the headers were there.
    Connection,
    /// The body broke off or cannot be decoded.
    Body,
    /// The address is not public.
    Private,
    /// Memory for the body was short, and the request did not end in time or broke off: not the site's fault.
    Memory,
    /// The request could not be made; a fault of ours.
    Internal,
}

impl Failure {
    /// Its stable word, for outcomes and metrics.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Dns | Self::UnknownHost => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Connection => "connection",
            Self::Body => "body",
            Self::Private => "private_address",
            Self::Memory => "memory",
            Self::Internal => "internal",
        }
    }
}

/// Asks for URLs. Cheap to share.
pub trait Client: Send + Sync + 'static {
    /// Asks once; follows nothing, repeats nothing. Ends within the time that the configuration allows. Grows `memory` with the
    /// body, and stops reading while that has to wait.
    fn ask<'a>(&'a self, request: Request, memory: &'a mut Reservation) -> BoxFuture<'a, Attempt>;
}
