//! A small web: generated from a seed, served in virtual time, judged by its own request log.

use std::collections::BTreeSet;

mod make;
mod serve;
mod truth;
mod visitor;

pub(crate) use serve::version_of;
pub use serve::{Asked, Served};
pub use truth::{Expectation, Truth};
pub use visitor::Visitor;

/// Failure of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Status 500.
    Error,
    /// Status 429 with `Retry-After` in seconds, or 503 without it.
    Busy(Option<u64>),
    /// No response before the client's timeout.
    Hang,
    /// Status 404.
    Missing,
}

/// Behavior of a page when nothing fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// HTML with links.
    Html,
    /// HTML for a client with the page's cookie; others receive the cookie with a redirect to the page itself.
    CookieWall,
    /// Redirect to the page of this number.
    Redirect(usize),
    /// Status 404.
    Missing,
    /// Content other than HTML.
    Pdf,
    /// HTML that robots.txt disallows.
    Private,
    /// Sitemap, at the well-known place of its host.
    Sitemap,
}

#[derive(Debug, Clone)]
pub struct Page {
    pub url: String,
    /// Number of its host.
    pub host: usize,
    /// Behavior of the page.
    pub kind: Kind,
    /// Numbers of the pages that it links to.
    pub links: Vec<usize>,
    /// Failures of its first requests, in order.
    pub troubles: Vec<Trouble>,
    /// Response time, in milliseconds.
    pub service_ms: u64,
    /// Bytes of text, hardly compressible, after its links.
    pub text_bytes: usize,
}

#[derive(Debug, Clone)]
pub struct Host {
    pub name: String,
    pub site: String,
    /// Whether it has a robots.txt.
    pub has_robots: bool,
    /// Crawl-delay in its robots.txt, in seconds.
    pub crawl_delay_s: Option<u64>,
    /// Number of the host to whose robots.txt its own redirects.
    pub robots_at: Option<usize>,
    /// Failures of the first requests for its robots.txt, in order.
    pub robots_troubles: Vec<Trouble>,
    /// Response time, in milliseconds.
    pub service_ms: u64,
}

#[derive(Debug, Clone)]
pub struct Web {
    pub pages: Vec<Page>,
    pub hosts: Vec<Host>,
    /// Numbers of the seed pages.
    pub seeds: Vec<usize>,
    /// Maximum link depth from a seed.
    pub max_depth: Option<u16>,
    /// Politeness interval that the crawler is configured with, in milliseconds.
    pub interval_ms: u64,
    /// Time after which the content of all pages changes, in milliseconds.
    pub version_ms: Option<u64>,
    /// Numbers of the pages that are out of scope unless a seed leads there; links to them are checked.
    pub external: BTreeSet<usize>,
    /// Whether the crawler reads sitemaps: the first request of a crawl for a host leads to that of the host.
    pub sitemaps: bool,
}

impl Web {
    #[must_use]
    pub fn site(&self, page: usize) -> &str {
        &self.hosts[self.pages[page].host].site
    }

    /// Returns a page, and the pages to which it redirects.
    pub(crate) fn redirects_from(&self, mut page: usize) -> BTreeSet<usize> {
        let mut pages = BTreeSet::new();
        while pages.insert(page)
            && let Kind::Redirect(to) = self.pages[page].kind
        {
            page = to;
        }
        pages
    }

    /// Returns the number of the page at the well-known place of a host's sitemap, if sitemaps are read.
    fn sitemap(&self, host: usize) -> Option<usize> {
        self.sitemaps.then(|| self.page(&self.sitemap_url(host))).flatten()
    }

    fn sitemap_url(&self, host: usize) -> String {
        format!("https://{}/sitemap.xml", self.hosts[host].name)
    }

    /// Returns the number of the host of this name.
    fn host(&self, name: &str) -> Option<usize> {
        self.hosts.iter().position(|host| host.name == name)
    }

    /// Returns the number of the page of this URL.
    fn page(&self, url: &str) -> Option<usize> {
        self.pages.iter().position(|page| page.url == url)
    }
}

/// Returns the fetcher's request timeout, in milliseconds. It is within half a session, so that no request of a process
/// outlives its partitions (docs/protocol.md#fenced-requests).
#[must_use]
pub fn client_patience_ms() -> u64 {
    u64::try_from(orbweaver_fetcher::FetcherConfig::default().request_timeout.as_millis()).unwrap_or(u64::MAX)
}
