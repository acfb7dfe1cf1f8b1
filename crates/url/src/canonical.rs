//! The canonical form of a URL.

use url::Url;

/// Name and version of the rules below, pinned when a crawl is created.
pub const CANONICAL_POLICY: &str = "standard/1";

/// A URL in canonical form: the key under which a page is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CanonicalUrl(String);

impl CanonicalUrl {
    /// The canonical form as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The canonical form as an owned text.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

/// Why a text is not a URL that can be crawled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// The text is not an absolute URL.
    #[error("not a url: {0}")]
    Malformed(String),
    /// The scheme is neither http nor https.
    #[error("scheme `{0}` is not crawled; allowed are http and https")]
    Scheme(String),
    /// The URL is longer than can be crawled.
    #[error("the url has {0} bytes; allowed are {max}", max = MAX_URL_BYTES)]
    TooLong(usize),
}

/// The longest URL that is crawled, in bytes.
pub const MAX_URL_BYTES: usize = 8192;

/// Reads an absolute http or https URL as it was found: resolved and serialised, without its fragment, otherwise untouched.
///
/// # Errors
/// When the text is no URL, has another scheme or is too long.
pub fn parse(text: &str) -> Result<Url, UrlError> {
    let _ = text;
    Err(UrlError::Malformed("to be built".into()))
}

/// The canonical form of a URL.
#[must_use]
pub fn canonicalize(url: &Url) -> CanonicalUrl {
    CanonicalUrl(url.as_str().to_owned())
}
