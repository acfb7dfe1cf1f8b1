//! An active dispatch.

use orbweaver_log::{Partition, Record};
use orbweaver_messages::{CLOCK_MARGIN_MS, DiscoveryKind, Dispatch, DispatchId, Millis, PageVersion, ReadyDispatch};
use orbweaver_stage::Origin;
use orbweaver_url::{SiteName, Url, WideDomains};

use crate::{client::Purpose, cookies::Cookies};

/// A dispatch that passes through robots.txt, the site's gate and the request, more than once if it is redirected to
/// itself.
#[derive(Debug)]
pub(crate) struct ActiveDispatch {
    /// Record of the dispatch.
    pub(crate) origin: Origin,
    /// The dispatch, with its scheduled time.
    pub(crate) ready: ReadyDispatch,
    /// URL of the next request.
    pub(crate) url: Url,
    /// Site of `url`: the dispatch's own, unless a redirect to itself led to another.
    pub(crate) site: SiteName,
    /// URLs requested before within this dispatch.
    pub(crate) before: Vec<String>,
    /// Times of the last of those requests to the dispatch's own site, and of its response.
    pub(crate) asked_ms: Option<(Millis, Millis)>,
    /// Sum of the response times of those requests, in milliseconds.
    answering_ms: Millis,
    /// Cookies set by the responses.
    pub(crate) cookies: Cookies,
    /// Crawl-delay of the last requested authority of the dispatch's own site, if known.
    pub(crate) crawl_delay_ms: Option<u64>,
    /// Sitemaps that it has found, and responses for the archive; durable before its outcome.
    pub(crate) records: Vec<Record>,
    /// Whether the dispatch holds a request slot; slots bound the requests without a durable outcome.
    pub(crate) has_slot: bool,
}

impl ActiveDispatch {
    /// Creates an active dispatch without requests.
    pub(crate) fn new(origin: Origin, ready: ReadyDispatch, url: Url) -> Self {
        Self {
            origin,
            site: ready.dispatch.context.site.clone(),
            ready,
            url,
            before: vec![],
            asked_ms: None,
            answering_ms: 0,
            cookies: Cookies::default(),
            crawl_delay_ms: None,
            records: vec![],
            has_slot: false,
        }
    }

    pub(crate) fn dispatch(&self) -> &Dispatch {
        &self.ready.dispatch
    }

    pub(crate) fn partition(&self) -> Partition {
        self.origin.tp.partition
    }

    /// Returns the unique name of the dispatch: an id is unique only within its partition.
    pub(crate) fn name(&self) -> (Partition, DispatchId) {
        (self.partition(), self.ready.dispatch.id)
    }

    /// Returns the time after which no request is sent for the dispatch. A dispatch that has begun may continue until
    /// its lease expires: the frontier allows for `MAX_FETCH_MS` after that.
    pub(crate) fn not_after_ms(&self) -> Millis {
        let dispatch = self.dispatch();
        if self.before.is_empty() { dispatch.not_after_ms.min(dispatch.expires_ms) } else { dispatch.expires_ms }
    }

    /// Returns `true` if `url` is on another site than the dispatch: redirects led to a URL of its chain.
    pub(crate) fn is_elsewhere(&self) -> bool {
        *self.site != *self.dispatch().context.site
    }

    /// Returns `true` if the dispatch and the URL of its next request are of this site.
    pub(crate) fn is_of(&self, site: &SiteName) -> bool {
        !self.is_elsewhere() && self.site == *site
    }

    /// Sets the crawl-delay of the authority of `url`. That of another site is ignored: the outcome would report it as
    /// the delay of the dispatch's site.
    pub(crate) fn set_crawl_delay(&mut self, delay_ms: Option<u64>) {
        if !self.is_elsewhere() {
            self.crawl_delay_ms = delay_ms;
        }
    }

    /// Returns `true` if the lease has time for the next request, provided that every request of the dispatch is sent
    /// as soon as `delay_ms`, the politeness delay, allows. The response times count, and a margin for clocks.
    pub(crate) fn fits_lease(&self, delay_ms: u64) -> bool {
        let dispatch = self.dispatch();
        let delays_ms = delay_ms.saturating_add(1).saturating_mul(self.before.len() as u64);
        let starts_ms = self.ready.not_before_ms.max(dispatch.dispatched_at_ms);
        let needed_ms = self.answering_ms.saturating_add_unsigned(delays_ms).saturating_add(CLOCK_MARGIN_MS);
        starts_ms.saturating_add(needed_ms) <= dispatch.expires_ms
    }

    /// Returns the URLs that led to the present request, oldest first.
    pub(crate) fn chain(&self) -> Vec<String> {
        self.dispatch().context.chain.iter().chain(&self.before).cloned().collect()
    }

    /// Adds the times of a request for `url` that was redirected.
    pub(crate) fn add_times(&mut self, requested_ms: Millis, answered_ms: Millis) {
        self.answering_ms = self.answering_ms.saturating_add(answered_ms.saturating_sub(requested_ms).max(0));
        if !self.is_elsewhere() {
            self.asked_ms = Some((requested_ms, answered_ms));
        }
    }

    /// Returns the purpose of its requests. A URL that was named as a sitemap may redirect to a page.
    pub(crate) fn purpose(&self) -> Purpose {
        let context = &self.dispatch().context;
        match context.sighting {
            DiscoveryKind::Seed | DiscoveryKind::Recrawl => Purpose::PageOrSitemap,
            DiscoveryKind::Sitemap if context.chain.is_empty() && self.before.is_empty() => Purpose::Sitemap,
            DiscoveryKind::Sitemap => Purpose::PageOrSitemap,
            DiscoveryKind::Requisite => Purpose::Requisite,
            DiscoveryKind::External => Purpose::External,
            DiscoveryKind::Link | DiscoveryKind::Redirect | DiscoveryKind::Update => Purpose::Page,
        }
    }

    /// Returns the known version of the page, if the next request may be conditional on it: one that follows a redirect
    /// may find another page.
    pub(crate) fn known(&self) -> Option<&PageVersion> {
        self.dispatch().known.as_ref().filter(|_| self.before.is_empty())
    }

    /// Continues with a redirect to `target`.
    pub(crate) fn follow_redirect(&mut self, target: Url, set_cookie: &[String], wide: &WideDomains) {
        self.cookies.set(set_cookie);
        self.cookies.move_on(&self.url, &target);
        // The first request was for the dispatch's URL, as written there.
        let asked = if self.before.is_empty() { self.ready.dispatch.context.url.clone() } else { self.url.to_string() };
        self.before.push(asked);
        if target.host_str() != self.url.host_str() {
            self.site = wide.site_of(&target).into();
        }
        self.url = target;
    }

    /// Returns the URL of the last request.
    pub(crate) fn requested(&self) -> &str {
        if self.before.is_empty() { &self.ready.dispatch.context.url } else { self.url.as_str() }
    }
}
