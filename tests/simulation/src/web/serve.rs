//! Server of a web: responds to requests and records them with their times.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use orbweaver_fetcher::{Body, FetchError, HttpResponse, Purpose, Request};
use orbweaver_messages::{Millis, PageKind};
use orbweaver_politeness::MAX_ATTEMPTS;

use super::{Kind, Page, Trouble, Web, client_patience_ms};
use crate::random::Random;

/// A request, as the server received it; times are true.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Site of the host.
    pub site: String,
    /// Number of the host.
    pub host: usize,
    /// The requested URL.
    pub url: String,
    /// Whether it is a request for robots.txt.
    pub is_robots: bool,
    /// Product token of its user agent.
    pub agent: String,
    /// Number of the process that sent it.
    pub by: usize,
    /// Time of arrival.
    pub arrived_ms: Millis,
    /// Time at which the response was sent or the connection broke; `None` while in flight.
    pub ended_ms: Option<Millis>,
    /// Version of the page in the response, or the one that has not changed.
    pub version: Option<u64>,
    /// Status of the response.
    pub status: Option<u16>,
    /// Whether it failed in a way that costs an attempt, while its sender was alive.
    pub failed: bool,
    /// Back-off that the site requested in its response, in milliseconds.
    pub retry_after_ms: Option<u64>,
}

/// A response and its delay.
pub(super) struct Answering {
    pub(super) number: usize,
    pub(super) after_ms: u64,
    pub(super) result: Result<HttpResponse, FetchError>,
}

/// A web that is served.
#[derive(Debug)]
pub struct Served {
    pub web: Web,
    log: Mutex<Vec<Asked>>,
    /// Number of failures served per URL.
    troubled: Mutex<BTreeMap<String, usize>>,
}

impl Served {
    #[must_use]
    pub fn new(web: Web) -> Self {
        Self { web, log: Mutex::default(), troubled: Mutex::default() }
    }

    fn log(&self) -> MutexGuard<'_, Vec<Asked>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all requests so far, in order of arrival.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.log().clone()
    }

    /// Returns the pages that may have ended without a document: at least `max_attempts` requests of these agents for the
    /// page failed, or [`MAX_ATTEMPTS`] for the robots.txt of its host.
    #[must_use]
    pub fn given_up(&self, max_attempts: u8, agents: &BTreeSet<String>) -> BTreeSet<usize> {
        let (mut pages, mut hosts) = (BTreeMap::<usize, u8>::new(), BTreeMap::<usize, u8>::new());
        for asked in self.log().iter().filter(|asked| asked.failed && agents.contains(&asked.agent)) {
            if asked.is_robots {
                *hosts.entry(asked.host).or_default() += 1;
            } else if let Some(page) = self.web.page(&asked.url) {
                *pages.entry(page).or_default() += 1;
            }
        }
        let often = |count: Option<&u8>, most: u8| count.is_some_and(|count| *count >= most);
        let is_given_up = |page: &usize| {
            often(pages.get(page), max_attempts) || often(hosts.get(&self.web.pages[*page].host), MAX_ATTEMPTS)
        };
        (0..self.web.pages.len()).filter(is_given_up).collect()
    }

    /// Returns the number of requests so far.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.log().len()
    }

    /// Records a request and determines its response.
    pub(super) fn arrives(&self, request: &Request, by: usize, now: Millis) -> Answering {
        let url = request.url.to_string();
        let host = request.url.host_str().and_then(|name| self.web.host(name));
        let is_robots = request.purpose == Purpose::Robots;
        let (after_ms, result) = match host {
            None => (1, Err(FetchError::Dns)),
            Some(host) if is_robots => self.robots(host, &url),
            Some(_) => self.page(&url, request, now),
        };
        let agent = request.profile.headers.get("user-agent").and_then(|agent| agent.to_str().ok());
        let agent = orbweaver_politeness::agent_token(agent.unwrap_or_default());
        let patience_ms = client_patience_ms();
        let (after_ms, result) =
            if after_ms >= patience_ms { (patience_ms, Err(FetchError::Timeout)) } else { (after_ms, result) };
        tracing::debug!(by, url, "asked");
        let number = {
            let mut log = self.log();
            log.push(Asked {
                site: host.map_or_else(String::new, |host| self.web.hosts[host].site.clone()),
                host: host.unwrap_or(usize::MAX),
                url,
                is_robots,
                agent,
                by,
                arrived_ms: now,
                ended_ms: None,
                version: None,
                status: None,
                failed: false,
                retry_after_ms: None,
            });
            log.len() - 1
        };
        Answering { number, after_ms, result }
    }

    /// Records the end of a request; `None` if its sender is gone.
    pub(super) fn ends(&self, number: usize, result: Option<&Result<HttpResponse, FetchError>>, now: Millis) {
        let mut log = self.log();
        let asked = &mut log[number];
        asked.ended_ms = Some(now);
        asked.failed = match result {
            Some(Ok(answer)) => answer.status >= 500 && answer.status != 503,
            Some(Err(_)) => true,
            None => false,
        };
        let answer = result.and_then(|result| result.as_ref().ok());
        asked.status = answer.map(|answer| answer.status);
        asked.version = answer.and_then(|answer| answer.etag.as_deref()).and_then(version_of);
        asked.retry_after_ms = answer
            .and_then(|answer| answer.retry_after.as_deref())
            .and_then(|seconds| seconds.parse::<u64>().ok())
            .map(|seconds| seconds * 1000);
    }

    /// Returns the failure for the current request for a URL, if any.
    fn trouble(&self, url: &str, troubles: &[Trouble]) -> Option<Trouble> {
        let mut troubled = self.troubled.lock().unwrap_or_else(PoisonError::into_inner);
        let count = troubled.entry(url.to_owned()).or_default();
        let trouble = troubles.get(*count).copied();
        *count += usize::from(trouble.is_some());
        trouble
    }

    fn robots(&self, host: usize, url: &str) -> (u64, Result<HttpResponse, FetchError>) {
        let host = &self.web.hosts[host];
        if let Some(trouble) = self.trouble(url, &host.robots_troubles) {
            return troubled(trouble, host.service_ms);
        }
        if let Some(to) = host.robots_at {
            let location = format!("https://{}/robots.txt", self.web.hosts[to].name);
            return (host.service_ms, Ok(HttpResponse { location: Some(location), ..status(301) }));
        }
        if !host.has_robots {
            return (host.service_ms, Ok(status(404)));
        }
        let delay = host.crawl_delay_s.map_or_else(String::new, |seconds| format!("Crawl-delay: {seconds}\n"));
        // Some hosts name their sitemap; all have it at the well-known place.
        let sitemap =
            if self.web.sitemaps && host.name.len().is_multiple_of(2) { "Sitemap: /sitemap.xml\n" } else { "" };
        let text = format!("{sitemap}User-agent: *\n{delay}Disallow: /private/\n");
        let body = Body::Read { bytes: text.into_bytes(), truncated: false };
        (host.service_ms, Ok(HttpResponse { body, content_type: Some("text/plain".into()), ..status(200) }))
    }

    fn page(&self, url: &str, request: &Request, now: Millis) -> (u64, Result<HttpResponse, FetchError>) {
        let Some(page) = self.web.page(url).map(|page| &self.web.pages[page]) else { return (1, Ok(status(404))) };
        if let Some(trouble) = self.trouble(url, &page.troubles) {
            return troubled(trouble, page.service_ms);
        }
        let answer = match page.kind {
            Kind::CookieWall if request.cookie.is_none() => {
                let cookie = vec!["in=1; Path=/".to_owned()];
                HttpResponse { location: Some(page.url.clone()), set_cookie: cookie, ..status(302) }
            }
            Kind::Html | Kind::CookieWall | Kind::Private => self.version(page, request, now),
            Kind::Redirect(to) => HttpResponse { location: Some(self.web.pages[to].url.clone()), ..status(301) },
            Kind::Missing => status(404),
            Kind::Sitemap => self.sitemap(page),
            Kind::Pdf => HttpResponse { content_type: Some("application/pdf".into()), ..status(200) },
        };
        (page.service_ms, Ok(answer))
    }

    /// Returns the present version of a page. Half of the pages answer conditional requests.
    fn version(&self, page: &Page, request: &Request, now: Millis) -> HttpResponse {
        let Some(version_ms) = self.web.version_ms else { return self.html(page, 0) };
        let version = now.unsigned_abs() / version_ms;
        let etag = Some(format!("\"{version}\""));
        let is_known = request.known.as_ref().is_some_and(|known| known.etag == etag);
        let answer =
            if is_known && page.links.len().is_multiple_of(2) { status(304) } else { self.html(page, version) };
        HttpResponse { etag, ..answer }
    }

    fn sitemap(&self, page: &Page) -> HttpResponse {
        let entries = page.links.iter().map(|&page| format!("<url><loc>{}</loc></url>", self.web.pages[page].url));
        let body = format!("<urlset>{}</urlset>", entries.collect::<String>()).into_bytes();
        let body = Body::Read { bytes: body, truncated: false };
        HttpResponse { body, kind: PageKind::Sitemap, content_type: Some("text/xml".into()), ..status(200) }
    }

    fn html(&self, page: &Page, version: u64) -> HttpResponse {
        let links = page.links.iter().map(|&page| format!("<a href=\"{}\">{page}</a>", self.web.pages[page].url));
        let mut random = Random::new(page.links.len() as u64);
        let text = (0..page.text_bytes).map(|_| char::from(random.pick(b"0123456789abcdef ")));
        let version = if version > 0 { format!("version {version} ") } else { String::new() };
        let (links, text) = (links.collect::<String>(), text.collect::<String>());
        let text = format!("<html><body>{version}{links}{text}</body></html>");
        let body = Body::Read { bytes: text.into_bytes(), truncated: false };
        HttpResponse { body, content_type: Some("text/html; charset=utf-8".into()), ..status(200) }
    }
}

/// Returns the version that an `ETag` names.
pub(crate) fn version_of(etag: &str) -> Option<u64> {
    etag.trim_matches('"').parse().ok()
}

fn status(status: u16) -> HttpResponse {
    HttpResponse { status, ..HttpResponse::default() }
}

fn troubled(trouble: Trouble, service_ms: u64) -> (u64, Result<HttpResponse, FetchError>) {
    match trouble {
        Trouble::Error => (service_ms, Ok(status(500))),
        Trouble::Busy(Some(seconds)) => {
            (service_ms, Ok(HttpResponse { retry_after: Some(seconds.to_string()), ..status(429) }))
        }
        Trouble::Busy(None) => (service_ms, Ok(status(503))),
        Trouble::Hang => (u64::MAX, Err(FetchError::Timeout)),
        Trouble::Missing => (service_ms, Ok(status(404))),
    }
}
