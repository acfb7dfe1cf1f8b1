//! Destination of an export, as given on the command line.

use std::{ffi::OsString, fmt, path::PathBuf};

use orbweaver_bucket::{Address, AddressError};

/// Directory or prefix in a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// Directory on a local disk.
    Directory(PathBuf),
    /// Objects of an S3-compatible store.
    Bucket(Address),
}

impl Destination {
    /// Parses a directory, or `s3://bucket/prefix`.
    ///
    /// # Errors
    /// Fails for other URLs, and for names that a bucket or an object cannot have.
    pub fn parse(text: OsString) -> Result<Self, String> {
        // A slash too few would otherwise create a directory.
        if text.to_str().is_some_and(|text| text.starts_with("s3:/") && !text.starts_with("s3://")) {
            return Err("expected a directory, such as `./s3:`, or `s3://bucket/prefix`".to_owned());
        }
        let url = text.to_str().and_then(|text| Some((text, text.split_once("://")?.0)));
        let Some((text, scheme)) = url.filter(|(_, scheme)| !scheme.contains('/')) else {
            return Ok(Self::Directory(text.into()));
        };
        text.parse().map(Self::Bucket).map_err(|error| match error {
            AddressError::Scheme => format!("expected a directory, or `s3://bucket/prefix`, not `{scheme}://`"),
            error => error.to_string(),
        })
    }

    /// Returns the name of a file or object in the destination, for messages.
    #[must_use]
    pub fn join(&self, name: &str) -> String {
        match self {
            Self::Directory(path) => path.join(name).display().to_string(),
            Self::Bucket(_) => format!("{self}/{name}"),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => path.display().fmt(f),
            Self::Bucket(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_a_directory_or_a_prefix_in_a_bucket() {
        for (given, shown) in [
            ("s3://results/a/b", "s3://results/a/b"),
            ("s3://results/a/", "s3://results/a"),
            ("s3://my-results.test", "s3://my-results.test"),
            ("s3://results/", "s3://results"),
        ] {
            let destination = Destination::parse(given.into()).unwrap();
            assert!(matches!(destination, Destination::Bucket(_)), "{given}");
            assert_eq!(destination.to_string(), shown);
            assert_eq!(destination.join("manifest.json"), format!("{shown}/manifest.json"));
        }
        for given in ["out", "/srv/out", "s3", "s3:", "a/b://c", "./s3:/results"] {
            assert_eq!(Destination::parse(given.into()), Ok(Destination::Directory(given.into())));
        }
    }

    #[test]
    fn other_urls_and_names_that_a_store_refuses_are_refused() {
        for given in ["gs://results/a", "https://results.test/a", "S3://results", "://a", "s3:/results"] {
            assert!(Destination::parse(given.into()).unwrap_err().contains("expected a directory"), "{given}");
        }
        for given in ["s3://", "s3:///a", "s3://key:secret@results/a", "s3://a b/c", "s3://results?versions"] {
            assert!(Destination::parse(given.into()).unwrap_err().contains("with a bucket of"), "{given}");
        }
        for given in ["s3://results//a", "s3://results/a/../b", "s3://results/./a"] {
            assert!(Destination::parse(given.into()).unwrap_err().contains("in the prefix"), "{given}");
        }
    }
}
