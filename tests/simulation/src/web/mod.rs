//! A small web: generated from a seed, served in virtual time, judged by its own log.

mod make;
mod serve;
mod truth;
mod visitor;

pub use serve::{Asked, Served};
pub use truth::{Expectation, Truth};
pub use visitor::Visitor;

/// What goes wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// An answer of 500.
    Error,
    /// An answer of 429 with `Retry-After` in seconds, or of 503 without.
    Busy(Option<u64>),
    /// No answer for longer than the client waits.
    Hang,
    /// An answer of 404.
    Missing,
}

/// What a page is when nothing goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// HTML, with links.
    Html,
    /// HTML, for those who have the cookie that it gives to others along with a redirect to itself.
    CookieWall,
    /// A redirect to the page of this number.
    Redirect(usize),
    /// There is none.
    Missing,
    /// Something else than HTML.
    Pdf,
    /// HTML that robots.txt forbids.
    Private,
}

/// A page.
#[derive(Debug, Clone)]
pub struct Page {
    /// Its URL.
    pub url: String,
    /// Its host's number.
    pub host: usize,
    /// What it is.
    pub kind: Kind,
    /// The pages that it links to.
    pub links: Vec<usize>,
    /// What goes wrong with its first requests, in order.
    pub troubles: Vec<Trouble>,
    /// How long it takes to answer.
    pub service_ms: u64,
    /// So many bytes of text, which hardly compress, follow its links.
    pub text_bytes: usize,
}

/// A host.
#[derive(Debug, Clone)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its site.
    pub site: String,
    /// Whether it has a robots.txt.
    pub has_robots: bool,
    /// The crawl-delay of its robots.txt, in seconds.
    pub crawl_delay_s: Option<u64>,
    /// Number of the host to whose robots.txt its own redirects.
    pub robots_at: Option<usize>,
    /// What goes wrong with the first requests for its robots.txt, in order.
    pub robots_troubles: Vec<Trouble>,
    /// How long it takes to answer.
    pub service_ms: u64,
}

/// The web.
#[derive(Debug, Clone)]
pub struct Web {
    /// Its pages.
    pub pages: Vec<Page>,
    /// Its hosts.
    pub hosts: Vec<Host>,
    /// The pages that are the seeds.
    pub seeds: Vec<usize>,
    /// Links followed from a seed at most.
    pub max_depth: Option<u16>,
    /// The interval of all its sites that the crawler is set to, in milliseconds.
    pub interval_ms: u64,
}

impl Web {
    /// The site of a page.
    #[must_use]
    pub fn site(&self, page: usize) -> &str {
        &self.hosts[self.pages[page].host].site
    }

    /// The host of this name.
    fn host(&self, name: &str) -> Option<usize> {
        self.hosts.iter().position(|host| host.name == name)
    }

    /// The page of this URL.
    fn page(&self, url: &str) -> Option<usize> {
        self.pages.iter().position(|page| page.url == url)
    }
}

/// The time that a client waits for an answer, in milliseconds: the fetcher's request timeout. Within half of a session, so that
/// no request of a process outlives its partitions (rule 21).
#[must_use]
pub fn client_patience_ms() -> u64 {
    u64::try_from(orbweaver_fetcher::FetcherConfig::default().request_timeout.as_millis()).unwrap_or(u64::MAX)
}
