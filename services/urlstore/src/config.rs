//! Configuration of urlstore.

#[cfg(feature = "cluster")]
use std::path::Path;
use std::{net::SocketAddr, time::Duration};

use orbweaver_bucket::Address as Prefix;
use orbweaver_settings::{Address, Conflict, Count, GIB, MINUTE, SECOND, Secret, Section, Size, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tokens::{Tokens, TokensError};

/// Settings of urlstore: the section `urlstore` of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct UrlstoreConfig {
    /// Address of the API; port 0 selects a free port. An address that is not on loopback requires `token_sha256`.
    #[serde(with = "Address")]
    pub listen: SocketAddr,
    /// Bearer tokens, of which each request must have one: the SHA-256 of a token as 64 hexadecimal digits, or
    /// `NAME SCOPE SHA256` with the scope `read` or `admin`, separated by commas. Not set: none is required.
    #[serde(with = "Secret")]
    pub token_sha256: Option<String>,
    /// Maximum rate of each token, in requests per second; each URL of a batch counts. 0: unlimited.
    #[serde(with = "Count::<0, 1_000_000>")]
    pub token_rate: usize,
    /// PEM file with the certificate of the API, and those of its authorities after it. Not set: no TLS.
    ///
    /// A renewed file applies within a minute.
    pub tls_certificate: Option<String>,
    /// PEM file with the private key of the certificate.
    pub tls_key: Option<String>,
    /// Archive with the responses: the directory of the archiver, or its `s3://bucket/prefix`. Not set: no content is served.
    ///
    /// The environment has the credentials and the URL of the store, such as `AWS_ENDPOINT_URL`.
    pub archive: Option<String>,
    /// Maximum size of a content; a larger one is refused.
    #[serde(with = "Size::<1, GIB>")]
    pub max_content_bytes: usize,
    /// Maximum number of requests that are answered concurrently; more wait.
    #[serde(with = "Count::<1, 1024>")]
    pub concurrency: usize,
    /// Time after which a request is answered with 503.
    #[serde(with = "Time::<SECOND, { 10 * MINUTE }>")]
    pub timeout: Duration,
}

impl Section for UrlstoreConfig {
    const NAME: &'static str = "urlstore";

    fn conflicts(&self) -> Vec<Conflict> {
        let mut conflicts = vec![];
        if self.is_exposed() && self.token_sha256.is_none() {
            let problem = "`urlstore.token_sha256` must be set, since the address is not on loopback";
            conflicts.push(Conflict::new("listen", problem));
        }
        if let Err(error) = self.tokens() {
            conflicts.push(Conflict::new("token_sha256", error.to_string()));
        }
        match (&self.tls_certificate, &self.tls_key) {
            (Some(_), None) => conflicts.push(Conflict::new("tls_key", "must be set with `urlstore.tls_certificate`")),
            (None, Some(_)) => conflicts.push(Conflict::new("tls_certificate", "must be set with `urlstore.tls_key`")),
            _ => {}
        }
        let bucket = self.archive.as_deref().filter(|archive| archive.contains("://"));
        if let Some(Err(error)) = bucket.map(str::parse::<Prefix>) {
            conflicts.push(Conflict::new("archive", error.to_string()));
        }
        conflicts
    }
}

impl Default for UrlstoreConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 9480)),
            token_sha256: None,
            token_rate: 0,
            tls_certificate: None,
            tls_key: None,
            archive: None,
            max_content_bytes: 16 << 20,
            concurrency: 64,
            timeout: Duration::from_secs(10),
        }
    }
}

impl UrlstoreConfig {
    /// Returns the tokens, if one is required.
    pub(crate) fn tokens(&self) -> Result<Option<Tokens>, TokensError> {
        self.token_sha256.as_deref().map(str::parse).transpose()
    }

    /// Returns the files of the certificate and its key, if connections are encrypted.
    #[cfg(feature = "cluster")]
    pub(crate) fn tls_files(&self) -> Option<(&Path, &Path)> {
        self.tls_certificate.as_deref().map(Path::new).zip(self.tls_key.as_deref().map(Path::new))
    }

    /// Returns `true` if other machines can reach the address.
    pub(crate) fn is_exposed(&self) -> bool {
        !self.listen.ip().is_loopback()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflicts(listen: &str, token: Option<&str>, archive: Option<&str>) -> Vec<String> {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let config = UrlstoreConfig {
            listen: listen.parse().unwrap(),
            token_sha256: owned(token),
            archive: owned(archive),
            ..UrlstoreConfig::default()
        };
        config.conflicts().into_iter().map(|conflict| conflict.key).collect()
    }

    #[test]
    fn an_address_that_others_can_reach_requires_a_token() {
        let hash = "0".repeat(64);
        for exposed in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(conflicts(exposed, None, None), ["listen"], "{exposed}");
            assert_eq!(conflicts(exposed, Some(&hash), None), [""; 0], "{exposed}");
        }
        for own in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1"] {
            assert_eq!(conflicts(own, None, None), [""; 0], "{own}");
        }
    }

    #[test]
    fn a_certificate_needs_its_key_and_a_key_its_certificate() {
        let file = || Some("file.pem".to_owned());
        for (tls_certificate, tls_key, expected) in
            [(file(), None, &["tls_key"][..]), (None, file(), &["tls_certificate"]), (file(), file(), &[])]
        {
            let config = UrlstoreConfig { tls_certificate, tls_key, ..UrlstoreConfig::default() };
            let keys: Vec<_> = config.conflicts().into_iter().map(|conflict| conflict.key).collect();
            assert_eq!(keys, expected);
        }
    }

    #[test]
    fn a_token_is_given_as_its_hash_and_an_archive_is_a_directory_or_a_prefix() {
        assert_eq!(conflicts("127.0.0.1:1", Some("secret"), Some("ftp://a")), ["token_sha256", "archive"]);
        assert_eq!(conflicts("127.0.0.1:1", None, Some("s3://bucket/prefix")), [""; 0]);
        assert_eq!(conflicts("127.0.0.1:1", None, Some("/var/lib/archive")), [""; 0]);
    }
}
