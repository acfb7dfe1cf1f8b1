//! Reasons of outcomes: a closed set, with one word each for outcomes, and with them for `urls.jsonl` and the store, and
//! for metrics.

use std::borrow::Cow;

use orbweaver_scope::Hold;

use crate::{client::FetchError, substitute::Substitute};

/// Reason of an outcome without a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// There was no response, or its body is of no use.
    Failed(FetchError),
    /// Status of the response.
    Status(u16),
    /// Another page was sent instead.
    Substitute(Substitute),
    /// No request may be sent for the dispatch.
    Held(Hold),
    /// The type of the body is none that the crawl accepts.
    ContentType,
    /// The target of a redirect is none that can be crawled.
    BadRedirect,
    /// The target of a redirect is too long.
    UrlTooLong,
    /// The chain of redirects is too long.
    TooManyRedirects,
    /// The URL is redirected to itself again and again.
    RedirectLoop,
    /// A redirect to itself whose next request is later than the lease, because of the site's delay.
    RedirectDelay,
    /// The port belongs to another protocol.
    Port,
    /// The host cannot be requested.
    Host,
    /// The robots.txt forbids it.
    Robots,
    /// The robots.txt cannot be read.
    RobotsUnreachable,
    /// The crawl-delay of the robots.txt is too long.
    CrawlDelay,
    /// The site refuses the use of the page for a purpose of the crawl.
    Purpose,
    /// The dispatch came too late, or its next request would.
    Late,
    /// The site refuses requests for a time.
    Blocked,
    /// The address of the site had no place in time.
    Address,
    /// The archiver is too far behind.
    ArchiveLag,
}

impl Reason {
    /// Returns the stable word for outcomes and metrics.
    pub(crate) fn name(self) -> Cow<'static, str> {
        let name = match self {
            Self::Status(status) => return format!("http_{status}").into(),
            Self::Failed(failure) => failure.reason(),
            Self::Substitute(substitute) => substitute.reason(),
            Self::Held(hold) => hold.name(),
            Self::ContentType => "content_type",
            Self::BadRedirect => "bad_redirect",
            Self::UrlTooLong => "url_too_long",
            Self::TooManyRedirects => "too_many_redirects",
            Self::RedirectLoop => "redirect_loop",
            Self::RedirectDelay => "redirect_delay",
            Self::Port => "port",
            Self::Host => "host",
            Self::Robots => "robots",
            Self::RobotsUnreachable => "robots_unreachable",
            Self::CrawlDelay => "crawl_delay",
            Self::Purpose => "purpose",
            Self::Late => "late",
            Self::Blocked => "blocked",
            Self::Address => "address",
            Self::ArchiveLag => "archive_lag",
        };
        name.into()
    }
}

#[cfg(test)]
pub(crate) mod tests;
