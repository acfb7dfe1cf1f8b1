//! Proxy of a crawl.

use std::fmt;

use orbweaver_url::Url;
use serde::{Deserialize, Serialize};

/// Schemes of proxies.
const SCHEMES: [&str; 4] = ["http", "https", "socks5", "socks5h"];
/// Maximum length of a URL, in bytes: it is part of a record that every service keeps in memory.
const MAX_BYTES: usize = 1024;

/// URL of the proxy of a crawl, or `none`. The URL may contain a password, which only [`ProxyUrl::as_str`] and the
/// serialized form have.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProxyUrl(String);

impl ProxyUrl {
    /// Values that are allowed.
    pub const ALLOWED: &str =
        "`none`, or `http://`, `https://`, `socks5://` or `socks5h://` with `[USER:PASSWORD@]HOST[:PORT]` alone";
    /// Value of no proxy.
    const NONE: &str = "none";

    /// Returns `true` for `none`.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0 == Self::NONE
    }

    /// Returns the URL, with its password; `None` if it is no URL of a proxy.
    #[must_use]
    pub fn url(&self) -> Option<Url> {
        let url = Url::parse(&self.0).ok().filter(|_| self.0.len() <= MAX_BYTES)?;
        let is_bare = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
        let has_host = url.host_str().is_some_and(|host| !host.is_empty());
        (is_bare && has_host && SCHEMES.contains(&url.scheme())).then_some(url)
    }

    /// Returns `true` for `none` and the URL of a proxy.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.is_none() || self.url().is_some()
    }

    /// Returns `true` if the URL has a password.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.url().is_some_and(|url| url.password().is_some())
    }

    /// Returns the text, with its password.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for ProxyUrl {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(mut url) = self.url() else { return f.write_str(if self.is_none() { Self::NONE } else { "…" }) };
        if url.password().is_some() {
            // A URL with a password can have another one.
            let _ = url.set_password(Some("***"));
        }
        f.write_str(url.as_str().trim_end_matches('/'))
    }
}

impl fmt::Debug for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_a_bare_url_of_a_known_scheme_and_its_password_is_not_shown() {
        for (text, shown) in [
            ("http://proxy.example:3128", "http://proxy.example:3128"),
            ("https://me@proxy.example/", "https://me@proxy.example"),
            ("http://me:hunter2@proxy.example:3128", "http://me:***@proxy.example:3128"),
            ("socks5://:hunter2@[2001:db8::1]:1080", "socks5://:***@[2001:db8::1]:1080"),
            ("socks5h://proxy.example", "socks5h://proxy.example"),
            ("none", "none"),
        ] {
            let proxy = ProxyUrl::from(text.to_owned());
            assert!(proxy.is_valid(), "{text}");
            assert_eq!((format!("{proxy}"), format!("{proxy:?}")), (shown.to_owned(), shown.to_owned()));
        }
        let long = format!("http://{}.example", "a".repeat(MAX_BYTES));
        for text in ["", "proxy:3128", "hunter2", "socks4://a", "http://", "http://a/x", "http://a?b", "ftp://a", &long]
        {
            let proxy = ProxyUrl::from(text.to_owned());
            assert!(!proxy.is_valid(), "{text}");
            assert_eq!(format!("{proxy}"), "…");
        }
    }
}
