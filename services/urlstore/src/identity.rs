//! Identity of a URL within a crawl. Pure.

use orbweaver_url::{Fingerprint, Keying, Url, UrlError, parse_seed};
use serde::Serialize;
use utoipa::ToSchema;

/// A URL and the key under which the store knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Identity {
    /// URL as it would be requested: absolute, without fragment.
    pub url: String,
    /// Canonical form under the policy of the crawl: the key of the page.
    pub canonical: String,
    /// Fingerprint of crawl and canonical form: 32 hexadecimal digits.
    #[schema(value_type = String)]
    pub fingerprint: Fingerprint,
}

impl Identity {
    /// Reads a URL as users give it: a bare host means https.
    ///
    /// # Errors
    /// Fails if the text is not a URL that can be crawled.
    pub fn read(text: &str, keying: &Keying) -> Result<Self, UrlError> {
        parse_seed(text).map(|url| Self::of(url, keying))
    }

    pub(crate) fn of(url: Url, keying: &Keying) -> Self {
        let canonical = keying.policy.canonical_text(&url).into_owned();
        let fingerprint = Fingerprint::of(&keying.crawl, &canonical);
        Self { url: url.into(), canonical, fingerprint }
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_url::{CrawlName, Policy};

    use super::*;

    #[test]
    fn a_url_has_the_key_that_the_crawl_gave_it() {
        let standard = Keying::default();
        let read = |text: &str| Identity::read(text, &standard).unwrap();
        let canonical = |text: &str| read(text).canonical;
        assert_eq!(canonical("https://Example.com:443/%7ea/./b?#x"), canonical("example.com/~a/b"));
        assert_eq!(read("https://example.com/%7ea#x").url, "https://example.com/%7ea");
        assert_eq!(read("example.com").fingerprint.to_string(), "06c5fc90cf900edbc22963582c5aa0e8");
        let other = Keying { crawl: CrawlName::new("docs").unwrap(), ..Keying::default() };
        assert_ne!(Identity::read("example.com", &other).unwrap().fingerprint, read("example.com").fingerprint);
        let sorted = Keying { policy: "standard,sort-query".parse::<Policy>().unwrap(), ..Keying::default() };
        assert_eq!(Identity::read("https://a.example/?b&a", &sorted).unwrap().canonical, "https://a.example/?a&b");
    }

    #[test]
    fn a_text_that_is_no_url_is_refused() {
        for text in ["", "ftp://a.example/", "https://", "https://a..example/", "::"] {
            assert!(Identity::read(text, &Keying::default()).is_err(), "{text}");
        }
    }
}
