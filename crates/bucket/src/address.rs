//! Prefix in a bucket, as given by users.

use std::{fmt, str::FromStr};

use object_store::path::Path as Key;

const SCHEME: &str = "s3://";

/// Prefix in a bucket of an S3-compatible store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    bucket: String,
    /// Common prefix of the objects, without the slash after it; may be empty.
    prefix: Key,
}

/// Text that is no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// A path, or a URL of another scheme.
    #[error("expected `s3://bucket/prefix`")]
    Scheme,
    /// No bucket, or characters that the name of a bucket cannot have.
    #[error("expected `s3://bucket/prefix`, with a bucket of letters, digits, `.`, `-` and `_`")]
    Bucket,
    /// A prefix that objects cannot have.
    #[error("expected `s3://bucket/prefix`, without empty parts, `.` or `..` in the prefix")]
    Prefix,
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let rest = text.strip_prefix(SCHEME).ok_or(AddressError::Scheme)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if bucket.is_empty() || !bucket.chars().all(is_valid) {
            return Err(AddressError::Bucket);
        }
        // The parser accepts a slash at the start.
        let prefix = Some(prefix).filter(|prefix| !prefix.starts_with('/')).and_then(|prefix| Key::parse(prefix).ok());
        Ok(Self { bucket: bucket.to_owned(), prefix: prefix.ok_or(AddressError::Prefix)? })
    }
}

impl Address {
    /// Returns the name of the bucket.
    #[must_use]
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// Returns the common prefix of the objects, without the slash after it; may be empty.
    #[must_use]
    pub fn prefix(&self) -> &Key {
        &self.prefix
    }

    /// Returns the key of an object below the prefix; slashes separate the parts of `name`.
    #[must_use]
    pub fn key(&self, name: &str) -> Key {
        name.split('/').fold(self.prefix.clone(), |key, part| key.join(part))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bucket, prefix } = self;
        if prefix.as_ref().is_empty() { write!(f, "{SCHEME}{bucket}") } else { write!(f, "{SCHEME}{bucket}/{prefix}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_as_it_is_given_without_a_slash_at_the_end() {
        for (given, shown, key) in [
            ("s3://results/a/b", "s3://results/a/b", "a/b/docs/x"),
            ("s3://results/a/", "s3://results/a", "a/docs/x"),
            ("s3://my-results.test", "s3://my-results.test", "docs/x"),
            ("s3://results/", "s3://results", "docs/x"),
        ] {
            let address: Address = given.parse().unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(address.key("docs/x").as_ref(), key);
        }
    }

    #[test]
    fn names_that_a_store_refuses_are_refused() {
        for (given, expected) in [
            ("S3://results/a", AddressError::Scheme),
            ("results/a", AddressError::Scheme),
            ("s3://", AddressError::Bucket),
            ("s3:///a", AddressError::Bucket),
            ("s3://key:secret@results/a", AddressError::Bucket),
            ("s3://results//a", AddressError::Prefix),
            ("s3://results/a/../b", AddressError::Prefix),
            ("s3://results/./a", AddressError::Prefix),
        ] {
            assert_eq!(given.parse::<Address>(), Err(expected), "{given}");
        }
    }
}
