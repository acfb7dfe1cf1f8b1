//! The site of a URL: the unit of politeness and of partitioning.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use url::{Host, Url};

/// Version of the public suffix list that the code was built with, pinned when a crawl is created. The list is compiled
/// into the crate `psl`, whose version `Cargo.lock` holds; a test compares the two.
pub const SUFFIX_LIST_VERSION: &str = "psl-2.1.247";

/// The most wide domains: they are pinned in the definition of each crawl.
pub const MAX_WIDE_DOMAINS: usize = 1000;

/// The site of a URL where no domain is wide, as [`WideDomains::site_of`] has it.
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

/// The registrable domain of a name: public suffix list, private section too.
pub(crate) fn registrable(name: &str) -> Option<&str> {
    psl::domain_str(name)
}

/// The host without the dot that stands for the root. A host of empty labels (`a..`) is left alone: it names nothing, and
/// what would be left of it could read as another host.
pub(crate) fn without_root_dot(host: &str) -> &str {
    match host.strip_suffix('.') {
        Some(name) if !name.is_empty() && !name.ends_with('.') => name,
        _ => host,
    }
}

/// Domains whose hosts are sites of their own, though the public suffix list does not have them: those of hosters and of
/// institutions, whose hosts belong to different people and machines. All crawls and services of a pipeline have the same,
/// since a host must not be asked in the time of two sites. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WideDomains(Arc<BTreeSet<String>>);

/// The list of wide domains cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WideDomainsError {
    /// One is no domain.
    #[error("`{0}` is no domain; a wide domain is a name such as `example.edu`, without scheme, port and path")]
    Domain(String),
    /// There are too many.
    #[error("{0} wide domains are given; allowed are {max}", max = MAX_WIDE_DOMAINS)]
    TooMany(usize),
}

impl WideDomains {
    /// Reads a list of domains, in any case and order; international names in either form.
    ///
    /// # Errors
    /// When one is no domain, or there are too many.
    pub fn new<T: AsRef<str>>(domains: impl IntoIterator<Item = T>) -> Result<Self, WideDomainsError> {
        let mut names = BTreeSet::new();
        for domain in domains {
            let text = domain.as_ref().trim();
            let wrong = || WideDomainsError::Domain(text[..text.floor_char_boundary(100)].to_owned());
            let url = crate::parse(&format!("http://{text}/")).map_err(|_| wrong())?;
            let Some(Host::Domain(name)) = url.host() else { return Err(wrong()) };
            let name = without_root_dot(name);
            if text.contains(['/', '\\', ':', '@', '?', '#']) || name.split('.').any(str::is_empty) {
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

    /// The domains, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The site of a URL: the host, without `www.` before it, if it is a wide domain or lies below one; else the registrable
    /// domain (public suffix list, private section too); else the host or IP address. An IPv6 address stands in brackets, as
    /// in the URL. The root's dot does not count, so that `example.com.` is no second site. Borrows from `url`.
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

    /// The site of a name that is wide or lies below a wide domain.
    fn wide<'a>(&self, name: &'a str) -> Option<&'a str> {
        let labels = name.match_indices('.').map(|(dot, _)| &name[dot + 1..]);
        let domain = std::iter::once(name).chain(labels).find(|domain| self.0.contains(*domain))?;
        let mut site = name;
        // So that a policy that takes `www.` for nothing does not move a URL to another site.
        while let Some(rest) = site.strip_prefix("www.").filter(|rest| rest.len() >= domain.len()) {
            site = rest;
        }
        Some(site)
    }
}
