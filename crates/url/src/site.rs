//! The site of a URL: the unit of politeness and of partitioning.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

/// Version of the public suffix list in this build, pinned when a crawl is created. The list is compiled into the crate
/// `psl`, whose version is in `Cargo.lock`; a test compares the two.
pub const SUFFIX_LIST_VERSION: &str = "psl-2.1.247";

/// Maximum number of wide domains: the definition of each crawl pins them.
pub const MAX_WIDE_DOMAINS: usize = 1000;

/// Returns the site of a URL if no domain is wide; see [`WideDomains::site_of`].
#[must_use]
pub fn site_of(url: &Url) -> Cow<'_, str> {
    let host = url.host_str().unwrap_or_default();
    match url.host() {
        Some(Host::Domain(domain)) => {
            let name = without_root_dot(domain);
            Cow::Borrowed(registrable(name).unwrap_or(name))
        }
        _ => Cow::Borrowed(host),
    }
}

/// Returns the registrable domain of a name: public suffix list, including its private section.
pub(crate) fn registrable(name: &str) -> Option<&str> {
    psl::domain_str(name)
}

/// Returns the host without the trailing dot of the DNS root. A host that ends with an empty label (`a..`) is
/// unchanged: it names nothing, and the rest could be read as another host.
pub(crate) fn without_root_dot(host: &str) -> &str {
    match host.strip_suffix('.') {
        Some(name) if !name.is_empty() && !name.ends_with('.') => name,
        _ => host,
    }
}

/// Returns `true` if DNS can hold a host: labels of 1 to 63 bytes, at most 253 in all (RFC 1035 section 2.3.4). The URL
/// Standard accepts others too, such as `a..b`.
#[must_use]
pub fn is_dns_name(host: &str) -> bool {
    let name = without_root_dot(host);
    name.len() <= 253 && name.split('.').all(|label| (1..=63).contains(&label.len()))
}

/// Domains whose hosts are separate sites although the public suffix list does not contain them: domains of hosting
/// providers and institutions, whose hosts belong to different people and machines. All crawls and services of a
/// pipeline use the same list, since a host must not belong to two sites. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
#[schemars(
    description = "Domains whose hosts are separate sites although the public suffix list does not contain them: \
                   `example.edu`. All services of a pipeline need the same value; a crawl pins it when it is created."
)]
pub struct WideDomains(Arc<BTreeSet<String>>);

/// Error of an unusable list of wide domains.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WideDomainsError {
    /// An entry is not a domain.
    #[error("`{0}` is not a domain; a wide domain is a name such as `example.edu`, without scheme, port or path")]
    Domain(String),
    /// There are too many entries.
    #[error("{0} wide domains are given; allowed: {max}", max = MAX_WIDE_DOMAINS)]
    TooMany(usize),
}

impl TryFrom<Vec<String>> for WideDomains {
    type Error = WideDomainsError;

    fn try_from(domains: Vec<String>) -> Result<Self, WideDomainsError> {
        Self::new(domains)
    }
}

impl From<WideDomains> for Vec<String> {
    fn from(domains: WideDomains) -> Self {
        domains.0.iter().cloned().collect()
    }
}

impl WideDomains {
    /// Parses a list of domains, in any case and order; international names in either form.
    pub fn new<T: AsRef<str>>(domains: impl IntoIterator<Item = T>) -> Result<Self, WideDomainsError> {
        let mut names = BTreeSet::new();
        for domain in domains {
            let text = domain.as_ref().trim();
            let wrong = || WideDomainsError::Domain(text[..text.floor_char_boundary(100)].to_owned());
            let url = crate::parse(&format!("http://{text}/")).map_err(|_| wrong())?;
            let Some(Host::Domain(name)) = url.host() else { return Err(wrong()) };
            let name = without_root_dot(name);
            if text.contains(['/', '\\', ':', '@', '?', '#']) || !is_dns_name(name) {
                return Err(wrong());
            }
            names.insert(name.to_owned());
        }
        if names.len() > MAX_WIDE_DOMAINS {
            Err(WideDomainsError::TooMany(names.len()))
        } else {
            Ok(Self(Arc::new(names)))
        }
    }

    /// Returns the domains, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns `true` if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the site of a URL: the host, without leading `www.`, if it is a wide domain or below one; else the
    /// registrable domain (public suffix list, including its private section); else the host or IP address. An IPv6
    /// address is in brackets, as in the URL. The dot of the DNS root is ignored, so that `example.com.` is not a
    /// second site. Borrows from `url`.
    #[must_use]
    pub fn site_of<'a>(&self, url: &'a Url) -> Cow<'a, str> {
        if !self.is_empty()
            && let Some(Host::Domain(domain)) = url.host()
            && let Some(name) = self.wide(without_root_dot(domain))
        {
            return Cow::Borrowed(name);
        }
        site_of(url)
    }

    /// Returns the site of a name that is a wide domain or below one.
    fn wide<'a>(&self, name: &'a str) -> Option<&'a str> {
        let labels = name.match_indices('.').map(|(dot, _)| &name[dot + 1..]);
        let domain = std::iter::once(name).chain(labels).find(|domain| self.0.contains(*domain))?;
        let mut site = name;
        // Without this, a policy that drops `www.` would move a URL to another site.
        while let Some(rest) = site.strip_prefix("www.").filter(|rest| rest.len() >= domain.len()) {
            site = rest;
        }
        Some(site)
    }
}
