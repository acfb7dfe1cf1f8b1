//! Texts with a type of their own, so that one is not taken for the other: the name of a crawl and a site.

use std::{borrow::Borrow, borrow::Cow, fmt, ops::Deref, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// Maximum length of the name of a crawl, in bytes: every record of its URLs carries the name.
pub const MAX_CRAWL_NAME_BYTES: usize = 200;

/// Name of a crawl: 1 to [`MAX_CRAWL_NAME_BYTES`] bytes without control characters. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema)]
#[schemars(with = "String")]
#[serde(try_from = "Cow<'_, str>")]
pub struct CrawlName(Arc<str>);

/// Site of a URL: its registrable domain, host or IP address ([`crate::site_of`]). Cheap to clone.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(from = "Cow<'_, str>")]
pub struct SiteName(Arc<str>);

/// Error of a text that is not the name of a crawl.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CrawlNameError {
    /// The name is empty or too long.
    #[error("the name of a crawl has {0} bytes; allowed: 1 to {max}", max = MAX_CRAWL_NAME_BYTES)]
    Length(usize),
    /// The name has a control character.
    #[error("the name of a crawl has the control character {0:?}; allowed: all others")]
    ControlCharacter(char),
}

/// Separates the name of a deleted crawl from the number of a later crawl that was created with it.
const INCARNATION: char = '#';

impl CrawlName {
    /// Returns the name, if it is allowed.
    ///
    /// # Errors
    /// Returns an error that names the limit.
    pub fn new(name: &str) -> Result<Self, CrawlNameError> {
        if name.is_empty() || name.len() > MAX_CRAWL_NAME_BYTES {
            return Err(CrawlNameError::Length(name.len()));
        }
        match name.chars().find(|character| character.is_control()) {
            Some(character) => Err(CrawlNameError::ControlCharacter(character)),
            None => Ok(Self(name.into())),
        }
    }

    /// Returns the name as users give it, and the incarnation: of crawls that were created one after the other with the name
    /// `docs`, each after the deletion of the one before, the first is named `docs`, the second `docs#2`, and so on.
    #[must_use]
    pub fn incarnation(&self) -> (&str, u32) {
        let numbered =
            self.0.rsplit_once(INCARNATION).filter(|(name, digits)| !name.is_empty() && !digits.starts_with('0'));
        let number =
            numbered.and_then(|(name, digits)| Some((name, digits.parse().ok().filter(|number| *number > 1)?)));
        number.unwrap_or((&self.0, 1))
    }

    /// Returns the name of the crawl that is created after the deletion of this one.
    ///
    /// # Errors
    /// Returns an error that names the limit if it is too long.
    pub fn next_incarnation(&self) -> Result<Self, CrawlNameError> {
        let (name, number) = self.incarnation();
        Self::new(&format!("{name}{INCARNATION}{}", number.saturating_add(1)))
    }
}

/// `default`: the crawl of seeds that name none.
impl Default for CrawlName {
    fn default() -> Self {
        Self("default".into())
    }
}

impl TryFrom<Cow<'_, str>> for CrawlName {
    type Error = CrawlNameError;

    fn try_from(name: Cow<'_, str>) -> Result<Self, CrawlNameError> {
        Self::new(&name)
    }
}

impl std::str::FromStr for CrawlName {
    type Err = CrawlNameError;

    fn from_str(name: &str) -> Result<Self, CrawlNameError> {
        Self::new(name)
    }
}

impl From<&str> for SiteName {
    fn from(site: &str) -> Self {
        Self(site.into())
    }
}

impl From<String> for SiteName {
    fn from(site: String) -> Self {
        Self(site.into())
    }
}

impl From<Cow<'_, str>> for SiteName {
    fn from(site: Cow<'_, str>) -> Self {
        Self(site.into())
    }
}

/// Implements for a name what a text can do.
macro_rules! text {
    ($name:ty) => {
        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                &*self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                &*self.0 == *other
            }
        }

        impl PartialEq<$name> for str {
            fn eq(&self, other: &$name) -> bool {
                *self == *other.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
    };
}

text!(CrawlName);
text!(SiteName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_crawl_is_short_and_without_control_characters() {
        assert_eq!(CrawlName::new(""), Err(CrawlNameError::Length(0)));
        assert_eq!(CrawlName::new(&"a".repeat(201)), Err(CrawlNameError::Length(201)));
        // A NUL separates the crawl from the URL in what a fingerprint is the hash of.
        assert_eq!(CrawlName::new("a\0b"), Err(CrawlNameError::ControlCharacter('\0')));
        assert_eq!(CrawlName::new("Bücher 2026/1").unwrap(), "Bücher 2026/1");
    }

    #[test]
    fn the_crawls_that_were_created_with_one_name_are_numbered() {
        let name = |text: &str| CrawlName::new(text).unwrap();
        for (text, expected) in
            [("docs", ("docs", 1)), ("docs#2", ("docs", 2)), ("a#b#12", ("a#b", 12)), ("#3", ("#3", 1))]
        {
            assert_eq!(name(text).incarnation(), expected);
        }
        for text in ["docs#", "docs#1", "docs#02", "docs#x", "docs#99999999999"] {
            assert_eq!(name(text).incarnation(), (text, 1), "it is the name itself");
        }
        let second = name("docs").next_incarnation().unwrap();
        assert_eq!((&*second, &*second.next_incarnation().unwrap()), ("docs#2", "docs#3"));
        assert_eq!(name(&"a".repeat(199)).next_incarnation(), Err(CrawlNameError::Length(201)));
    }

    #[test]
    fn names_read_back_from_json_and_an_invalid_one_is_refused_with_the_limit() {
        let crawl: CrawlName = serde_json::from_str(r#""a\"b""#).unwrap();
        assert_eq!((serde_json::to_string(&crawl).unwrap().as_str(), &*crawl), (r#""a\"b""#, "a\"b"));
        let site: SiteName = serde_json::from_str(r#""example.org""#).unwrap();
        assert_eq!(serde_json::to_string(&site).unwrap(), r#""example.org""#);
        let error = serde_json::from_str::<CrawlName>("\"\"").unwrap_err().to_string();
        assert!(error.contains("has 0 bytes; allowed: 1 to 200"), "{error}");
    }
}
