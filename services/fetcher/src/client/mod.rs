//! The client, which sends single requests.

mod authorities;
pub(crate) mod capture;
mod clients;
mod decoding;
mod descriptors;
mod hosts;
mod http;
mod idle;
mod measured;
mod pace;
mod pins;
mod proxies;
mod resolver;
#[cfg(test)]
mod scripted;

use std::{net::IpAddr, sync::Arc};

use futures::{FutureExt, future::BoxFuture};
use orbweaver_messages::{Capture, Millis, PageKind, PageVersion};
use orbweaver_stage::Reservation;
use orbweaver_url::Url;

pub use authorities::{AuthoritiesError, read_authorities};
pub(crate) use http::FIRST_BYTES;
pub use http::{ClientError, HttpClient};
pub use measured::Measured;
#[cfg(test)]
pub(crate) use scripted::ScriptedClient;

use crate::{profile::RequestProfile, purposes::PurposeRefusal, substitute::Substitute};

/// Purpose of a request; it decides how much of the response is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A page: the body is read only with status 200, of HTML, XHTML and the types that the profile accepts; and of
    /// XML if the profile reads sitemaps and it proves to be one. If the profile archives, every body is read; so for
    /// all purposes but [`Self::External`].
    Page,
    /// A page, or a sitemap or feed of whatever type.
    PageOrSitemap,
    /// A sitemap or feed of whatever type; any other body is not read.
    Sitemap,
    /// A requisite: a body of any type is read with status 200.
    Requisite,
    /// An external URL: no body is read, and nothing is archived.
    External,
    /// A robots.txt: the body of any 2xx response is read.
    Robots,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub url: Url,
    pub purpose: Purpose,
    /// Value of the header `Cookie`, if any.
    pub cookie: Option<String>,
    /// Known version of the page: the response may have status 304 if it has not changed.
    pub known: Option<Box<PageVersion>>,
    /// Settings of its crawl.
    pub profile: Arc<RequestProfile>,
    pub destination: Destination,
}

/// Destination of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// An address that the client chooses.
    Unlocated,
    /// The address that [`Client::locate`] returned, or that is the host of the URL.
    At(IpAddr),
    /// The host has no address: the request fails.
    Failed(FetchError),
}

/// Result of a request, with its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Start of the request.
    pub requested_at_ms: Millis,
    /// Arrival of the response's headers, which is not before its first byte; or the time of the failure.
    pub answered_at_ms: Millis,
    pub ended_at_ms: Millis,
    pub measured: Measured,
    /// The response, or the reason for its absence.
    pub result: Result<HttpResponse, FetchError>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpResponse {
    pub status: u16,
    pub content_type: Option<String>,
    pub location: Option<String>,
    pub cache_control: Option<String>,
    pub retry_after: Option<String>,
    pub etag: Option<String>,
    pub last_modified: Option<String>,
    /// Values of the headers `Set-Cookie`, bounded.
    pub set_cookie: Vec<String>,
    /// Headers of a response whose body is read, except a robots.txt that is not archived: names in lower case,
    /// bounded.
    pub headers: Vec<(String, String)>,
    pub body: Body,
    /// Content codings that a decoded body had, separated by commas.
    pub content_encoding: Option<String>,
    /// Bytes of such a body that were received.
    pub encoded_bytes: Option<u64>,
    /// Kind of a page whose body was read.
    pub kind: PageKind,
    /// Kind of the page, if it was sent instead of the requested one.
    pub substitute: Option<Substitute>,
    /// Data for the archive, if the profile archives.
    pub capture: Option<Box<Capture>>,
    /// Refusal of purposes of the profile, by the headers; of a page also by its `meta` elements.
    pub refusal: Option<PurposeRefusal>,
}

impl HttpResponse {
    /// Returns `true` if the site refuses requests for a time: 429, 503 or a challenge.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self.status, 429 | 503) || self.substitute == Some(Substitute::Challenge)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Body {
    /// Not read, because of the status or the content type.
    #[default]
    Unread,
    /// By its first bytes none of the accepted kinds.
    Unwanted,
    /// Read and decoded.
    Read {
        bytes: Vec<u8>,
        /// Whether the body was cut at the limit.
        truncated: bool,
    },
}

/// Reason for the absence of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FetchError {
    /// The name cannot be resolved at present.
    Dns,
    /// The name does not exist, or has no address.
    UnknownHost,
    /// The connection failed or timed out.
    Connect,
    /// TLS failed, most often because of a certificate.
    Tls,
    /// The response, or a part of it, did not arrive in time.
    Timeout,
    /// The body arrived more slowly than permitted.
    SlowBody,
    /// The connection broke, or the response was not HTTP, before the headers arrived.
    Connection,
    /// The body was incomplete, or could not be decoded: it has an unknown content coding, or more than two.
    Body,
    /// The address is not public.
    Private,
    /// The request timed out or broke off while it waited for memory for its body: not the site's fault.
    Memory,
    /// The proxy of the crawl cannot be used: not the site's fault.
    Proxy,
    /// The request could not be made: a defect of the crawler.
    Internal,
}

impl FetchError {
    /// All failures.
    pub const ALL: [Self; 12] = [
        Self::Dns,
        Self::UnknownHost,
        Self::Connect,
        Self::Tls,
        Self::Timeout,
        Self::SlowBody,
        Self::Connection,
        Self::Body,
        Self::Private,
        Self::Memory,
        Self::Proxy,
        Self::Internal,
    ];

    /// Returns the stable word for outcomes and metrics.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Dns | Self::UnknownHost => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::SlowBody => "slow_body",
            Self::Connection => "connection",
            Self::Body => "body",
            Self::Private => "private_address",
            Self::Memory => "memory",
            Self::Proxy => "proxy",
            Self::Internal => "internal",
        }
    }
}

/// Client for single requests. Cheap to share.
pub trait Client: Send + Sync + 'static {
    /// Returns the address to which the next request to a host goes; `None` if the client does not know it, so that
    /// requests are not bounded by address.
    fn locate<'a>(&'a self, _host: &'a str) -> BoxFuture<'a, Result<Option<IpAddr>, FetchError>> {
        async { Ok(None) }.boxed()
    }

    /// Sends one request, without redirects or retries. Ends within the configured timeouts. Grows `memory` with the
    /// body, and pauses reading while that has to wait.
    fn ask<'a>(&'a self, request: Request, memory: &'a mut Reservation) -> BoxFuture<'a, Attempt>;
}
