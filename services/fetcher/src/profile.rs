//! Fetch profiles: how the requests of each crawl are made.

use std::{collections::HashMap, sync::Arc};

use orbweaver_messages::{FetchProfile, Markdown, PageVersion, ProxyUrl};
use orbweaver_politeness::{Purposes, robots::agent_token};
use orbweaver_url::{CrawlName, Url};
use reqwest::header::{
    ACCEPT, COOKIE, HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, USER_AGENT,
};

use crate::config::{FetcherConfig, agent};

/// All media types.
const ANY_TYPE: &str = "*/*";

/// Settings of the requests of a crawl.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestProfile {
    /// Headers of every request, with the user agent and the accepted types.
    pub headers: HeaderMap,
    /// Decoded bytes that are read of a body.
    pub max_body_bytes: usize,
    /// Media types whose bodies are read, in addition to HTML and XHTML.
    pub(crate) accept: Vec<String>,
    /// Product token of the user agent, by which robots.txt is read.
    pub(crate) token: String,
    pub(crate) ignores_robots: bool,
    /// Politeness delay of the crawl at each site, in milliseconds; 0: none but that of the site.
    pub(crate) interval_ms: u64,
    /// Product token for the page, if the crawl has a user agent of its own.
    pub(crate) page_agent: Option<String>,
    /// Whether the document contains the body, or the main text as text or Markdown, if the crawl determines it.
    pub(crate) html: Option<bool>,
    pub(crate) main_text: Option<bool>,
    pub(crate) markdown: Option<Markdown>,
    pub(crate) facts: Option<bool>,
    pub(crate) other_links: Option<bool>,
    pub(crate) near_duplicates: Option<bool>,
    /// Whether the sitemaps of sites, and the feeds of pages, are read.
    pub(crate) sitemaps: bool,
    pub(crate) feeds: bool,
    /// Whether pages that were sent instead of the requested ones are recognized.
    pub(crate) detects_substitutes: bool,
    /// Whether every response is a page record, for the archive.
    pub(crate) archive: bool,
    /// Maximum number of requisites of each page that are fetched, if any are.
    pub(crate) requisites: Option<u32>,
    /// Purposes of the crawl, which sites may refuse; none: no statement of a site is read.
    pub(crate) purposes: Purposes,
    /// Proxy of the requests.
    pub(crate) proxy: Option<ProxyUrl>,
}

impl RequestProfile {
    /// Returns the profile of a crawl that sets nothing itself.
    #[must_use]
    pub fn of(config: &FetcherConfig) -> Self {
        Self::of_crawl(config, &FetchProfile::default())
    }

    /// Returns the profile of a crawl: the configuration, with the settings of its definition.
    #[must_use]
    pub fn of_crawl(config: &FetcherConfig, profile: &FetchProfile) -> Self {
        let name = profile.user_agent.as_deref().unwrap_or(&config.user_agent);
        let agent = agent(name, profile.contact.as_deref().or(config.contact.as_deref()));
        let configured = config.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let own = profile.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let accept = accept_header(&profile.accept);
        let settings = [(ACCEPT.as_str(), &*accept)].into_iter().chain(configured).chain(own);
        let mut headers = HeaderMap::new();
        // All were checked with the configuration or the definition.
        for (name, value) in settings.chain([(USER_AGENT.as_str(), &*agent)]) {
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
                headers.insert(name, value);
            }
        }
        let proxy = profile.proxy.clone().or_else(|| config.proxy.clone().map(ProxyUrl::from));
        let max_body = profile.max_body_bytes.and_then(|bytes| usize::try_from(bytes).ok());
        Self {
            headers,
            max_body_bytes: max_body.unwrap_or(usize::MAX).min(config.max_body_bytes),
            accept: profile.accept.clone(),
            token: agent_token(name),
            ignores_robots: config.ignore_robots || profile.ignore_robots,
            interval_ms: profile.interval_ms.unwrap_or(0),
            page_agent: profile.user_agent.as_deref().map(agent_token),
            html: profile.html,
            main_text: profile.main_text,
            markdown: profile.markdown,
            facts: profile.facts,
            other_links: profile.other_links,
            near_duplicates: profile.near_duplicates,
            sitemaps: profile.sitemaps.unwrap_or(config.sitemaps),
            feeds: profile.feeds.unwrap_or(config.feeds),
            detects_substitutes: config.detect_substitutes,
            archive: profile.archive.unwrap_or(config.archive),
            requisites: profile.requisites.or(config.requisites).filter(|most| *most > 0),
            purposes: profile.purpose.as_ref().unwrap_or(&config.purpose).iter().copied().collect(),
            proxy: proxy.filter(|proxy| !proxy.is_none()),
        }
    }

    /// Returns `true` if sitemaps or feeds are read, which have the same formats.
    pub(crate) fn reads_sitemaps(&self) -> bool {
        self.sitemaps || self.feeds
    }

    /// Returns the headers of a request with this cookie, which is conditional on the page being another one than
    /// `known`.
    pub(crate) fn request_headers(&self, cookie: Option<&str>, known: Option<&PageVersion>) -> HeaderMap {
        let mut headers = self.headers.clone();
        let etag = known.and_then(|known| known.etag.as_deref());
        let last_modified = known.and_then(|known| known.last_modified.as_deref());
        for (name, value) in [(COOKIE, cookie), (IF_NONE_MATCH, etag), (IF_MODIFIED_SINCE, last_modified)] {
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
                headers.insert(name, value);
            }
        }
        headers
    }

    /// Returns the key of the robots.txt that applies to a URL: its authority (`scheme://host[:port]`) and the product
    /// token, separated by a space. A server may answer each agent differently.
    pub(crate) fn robots_key(&self, url: &Url) -> Arc<str> {
        format!("{} {}", url.origin().ascii_serialization(), self.token).into()
    }
}

/// Returns the header `Accept`, by preference. A server may send other types all the same; their bodies are not read.
fn accept_header(accept: &[String]) -> String {
    let mut header = "text/html,application/xhtml+xml".to_owned();
    accept.iter().for_each(|range| header += &format!(",{range};q=0.9"));
    if !accept.iter().any(|range| range == ANY_TYPE) {
        header += &format!(",{ANY_TYPE};q=0.1");
    }
    header
}

/// Returns the product token in the key of a robots.txt.
pub(crate) fn token_of(robots_key: &str) -> &str {
    robots_key.rsplit_once(' ').map_or("", |(_, token)| token)
}

/// Profiles of all crawls.
#[derive(Debug)]
pub(crate) struct Profiles {
    pub(crate) configured: Arc<RequestProfile>,
    own: HashMap<CrawlName, Arc<RequestProfile>>,
}

impl Profiles {
    pub(crate) fn new(config: &FetcherConfig) -> Self {
        Self { configured: Arc::new(RequestProfile::of(config)), own: HashMap::new() }
    }

    /// Returns the profile of a crawl.
    pub(crate) fn of(&self, crawl: &CrawlName) -> &Arc<RequestProfile> {
        self.own.get(crawl).unwrap_or(&self.configured)
    }

    /// Sets the profile of a crawl; `None` if the crawl is not defined. Returns `true` if it changed.
    pub(crate) fn set(&mut self, crawl: &CrawlName, profile: Option<&FetchProfile>, config: &FetcherConfig) -> bool {
        let own = profile.filter(|profile| **profile != FetchProfile::default());
        let own = own.map(|profile| Arc::new(RequestProfile::of_crawl(config, profile)));
        if own.as_ref().unwrap_or(&self.configured) == self.of(crawl) {
            return false;
        }
        match own {
            Some(own) => self.own.insert(crawl.clone(), own),
            None => self.own.remove(crawl),
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crawl_has_its_own_settings_and_otherwise_those_of_the_service() {
        let config = FetcherConfig {
            user_agent: "Testbot/1.0".into(),
            contact: Some("mailto:a@example.org".to_owned()),
            headers: vec![("x-team".to_owned(), "one".to_owned()), ("x-other".to_owned(), "two".to_owned())],
            max_body_bytes: 1000,
            ..FetcherConfig::default()
        };
        let text = |profile: &RequestProfile, name: &str| profile.headers[name].to_str().unwrap().to_owned();
        let plain = RequestProfile::of(&config);
        assert_eq!(text(&plain, "user-agent"), "Testbot/1.0 (+mailto:a@example.org)");
        assert_eq!(text(&plain, "accept"), "text/html,application/xhtml+xml,*/*;q=0.1");
        assert_eq!((&*plain.token, plain.max_body_bytes, plain.page_agent.as_deref()), ("testbot", 1000, None));

        let own = FetchProfile {
            user_agent: Some("ShopBot/2".to_owned()),
            headers: [("X-Team".to_owned(), "three".to_owned())].into(),
            interval_ms: Some(2000),
            max_body_bytes: Some(2000),
            accept: vec!["application/pdf".to_owned()],
            ..FetchProfile::default()
        };
        let own = RequestProfile::of_crawl(&config, &own);
        assert_eq!(text(&own, "accept"), "text/html,application/xhtml+xml,application/pdf;q=0.9,*/*;q=0.1");
        assert_eq!(text(&own, "user-agent"), "ShopBot/2 (+mailto:a@example.org)");
        assert_eq!((text(&own, "x-team"), text(&own, "x-other")), ("three".to_owned(), "two".to_owned()));
        assert_eq!((own.max_body_bytes, own.interval_ms, own.page_agent.as_deref()), (1000, 2000, Some("shopbot")));
        assert_eq!(accept_header(&[ANY_TYPE.to_owned()]), "text/html,application/xhtml+xml,*/*;q=0.9");
        let url = Url::parse("https://a.example:8443/x?y").unwrap();
        assert_eq!(&*own.robots_key(&url), "https://a.example:8443 shopbot");
        assert_eq!(token_of(&own.robots_key(&url)), "shopbot");
    }

    #[test]
    fn a_crawl_has_its_own_proxy_that_of_the_service_or_none() {
        let shown = |configured: Option<&str>, own: Option<&str>| {
            let config = FetcherConfig { proxy: configured.map(str::to_owned), ..FetcherConfig::default() };
            let own = FetchProfile { proxy: own.map(|url| url.to_owned().into()), ..FetchProfile::default() };
            RequestProfile::of_crawl(&config, &own).proxy.map(|proxy| proxy.to_string())
        };
        let (first, second) = ("http://a.example", "socks5://b.example");
        assert_eq!(shown(None, None), None);
        assert_eq!(shown(Some(first), None).as_deref(), Some(first));
        assert_eq!(shown(Some(first), Some(second)).as_deref(), Some(second));
        assert_eq!(shown(Some(first), Some("none")), None);
        assert_eq!(shown(Some("none"), Some(second)).as_deref(), Some(second));
    }

    #[test]
    fn a_profile_applies_to_its_crawl_alone_until_it_is_removed() {
        let config = FetcherConfig::default();
        let mut profiles = Profiles::new(&config);
        let (docs, news): (CrawlName, CrawlName) = ("docs".parse().unwrap(), "news".parse().unwrap());
        let own = FetchProfile { html: Some(true), ..FetchProfile::default() };
        assert!(!profiles.set(&docs, Some(&FetchProfile::default()), &config));
        assert!(profiles.set(&docs, Some(&own), &config));
        assert!(!profiles.set(&docs, Some(&own), &config));
        assert_eq!((profiles.of(&docs).html, profiles.of(&news).html), (Some(true), None));
        assert!(profiles.set(&docs, None, &config) && profiles.own.is_empty());
    }
}
