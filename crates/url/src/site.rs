//! The site of a URL: the unit of politeness and of partitioning.

use std::borrow::Cow;

use url::{Host, Url};

use crate::canonical::without_root_dot;

/// Version of the public suffix list that the code was built with, pinned when a crawl is created. The list is compiled
/// into the crate `psl`, whose version `Cargo.lock` holds; a test compares the two.
pub const SUFFIX_LIST_VERSION: &str = "psl-2.1.247";

/// The registrable domain (public suffix list, private section too), or the host or IP address where there is none; an
/// IPv6 address stands in brackets, as in the URL. The root's dot does not count, so that `example.com.` is no second
/// site. Borrows from `url`.
#[must_use]
pub fn site_of(url: &Url) -> Cow<'_, str> {
    let host = url.host_str().unwrap_or_default();
    match url.host() {
        Some(Host::Domain(domain)) => {
            let name = without_root_dot(domain);
            Cow::Borrowed(psl::domain_str(name).unwrap_or(name))
        }
        _ => Cow::Borrowed(host),
    }
}
