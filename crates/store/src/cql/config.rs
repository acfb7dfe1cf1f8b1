//! Settings of the CQL store, and their limits.

use std::fmt;
use std::time::Duration;

/// Settings of the connection to the servers.
#[derive(Clone, PartialEq, Eq)]
pub struct CqlConfig {
    /// Initial contact points, each `HOST:PORT`; further nodes are discovered.
    pub nodes: Vec<String>,
    /// Keyspace; created if it is missing.
    pub keyspace: String,
    /// Replicas of each row per data center, for a keyspace that is created. An existing keyspace is unchanged. With
    /// fewer nodes than a majority of the replicas, no write at `local_quorum` succeeds.
    pub replication_factor: u8,
    /// Data center whose nodes are used. Required if there are several: `local_quorum` refers to it.
    pub datacenter: Option<String>,
    /// User name, for servers that require one; with `password`.
    pub username: Option<String>,
    /// Password, for servers that require one; with `username`.
    pub password: Option<String>,
    /// Encrypts connections and verifies the certificates of the nodes. Without it, a password is sent unencrypted.
    pub tls: bool,
    /// File with the certificates (PEM) of trusted authorities; if not set, those of the operating system are used.
    pub tls_ca: Option<String>,
    /// File with the client's certificate chain (PEM), for servers that require one; with `tls_key`.
    pub tls_certificate: Option<String>,
    /// File with the client's private key (PEM); with `tls_certificate`.
    pub tls_key: Option<String>,
    /// Name or address that every node's certificate must contain, instead of the node's own address.
    pub tls_name: Option<String>,
    /// Number of replicas that acknowledge a write and answer a read.
    pub consistency: CqlConsistency,
    /// Maximum number of concurrent requests.
    pub concurrency: usize,
    /// Timeout per request, in milliseconds.
    pub request_timeout_ms: u64,
}

/// Number of replicas that acknowledge a request. A write acknowledged by fewer than half of them may be lost with a
/// node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CqlConsistency {
    /// One replica. For keyspaces with one replica.
    One,
    /// One replica in the nearest data center.
    LocalOne,
    /// More than half of the replicas.
    Quorum,
    /// More than half of the replicas in the nearest data center.
    LocalQuorum,
    /// All replicas.
    All,
}

/// Error of a setting that is out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("setting `cql.{key}` is `{value}`; allowed: {allowed}")]
pub struct CqlConfigError {
    /// Name of the setting.
    pub key: &'static str,
    pub value: String,
    pub allowed: String,
}

impl Default for CqlConfig {
    fn default() -> Self {
        Self {
            nodes: vec!["127.0.0.1:9042".to_owned()],
            keyspace: "orbweaver".to_owned(),
            replication_factor: 3,
            datacenter: None,
            username: None,
            password: None,
            tls: false,
            tls_ca: None,
            tls_certificate: None,
            tls_key: None,
            tls_name: None,
            consistency: CqlConsistency::LocalQuorum,
            concurrency: 256,
            request_timeout_ms: 10_000,
        }
    }
}

/// Omits the password.
impl fmt::Debug for CqlConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CqlConfig")
            .field("nodes", &self.nodes)
            .field("keyspace", &self.keyspace)
            .field("replication_factor", &self.replication_factor)
            .field("datacenter", &self.datacenter)
            .field("username", &self.username)
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("tls", &self.tls)
            .field("tls_ca", &self.tls_ca)
            .field("tls_certificate", &self.tls_certificate)
            .field("tls_key", &self.tls_key)
            .field("tls_name", &self.tls_name)
            .field("consistency", &self.consistency)
            .field("concurrency", &self.concurrency)
            .field("request_timeout_ms", &self.request_timeout_ms)
            .finish()
    }
}

impl CqlConfig {
    /// Validates all settings.
    ///
    /// # Errors
    /// Returns the first setting that is out of range.
    pub fn validate(&self) -> Result<(), CqlConfigError> {
        let fail = |key, value: &dyn fmt::Display, allowed: &str| {
            Err(CqlConfigError { key, value: value.to_string(), allowed: allowed.to_owned() })
        };
        if self.nodes.is_empty() {
            return fail("nodes", &"", "at least one HOST:PORT");
        }
        if let Some(node) = self.nodes.iter().find(|node| !is_node(node)) {
            return fail("nodes", node, "HOST:PORT, with an IPv6 address in brackets; several are separated by commas");
        }
        if !is_keyspace(&self.keyspace) {
            let allowed =
                "1 to 48 of a-z, 0-9 and _, a letter first, and not `system` or a name that begins with `system_`";
            return fail("keyspace", &self.keyspace, allowed);
        }
        if !(1..=9).contains(&self.replication_factor) {
            return fail("replication_factor", &self.replication_factor, "1 to 9");
        }
        if let Some(name) = self.datacenter.as_ref().filter(|name| name.is_empty() || name.contains('\'')) {
            return fail("datacenter", name, "the name of a data center without `'`, or no value");
        }
        match (&self.username, &self.password) {
            (Some(name), None) => return fail("username", name, "a name along with `cql.password`"),
            (None, Some(_)) => return fail("password", &"***", "a password along with `cql.username`"),
            _ => {}
        }
        match (&self.tls_certificate, &self.tls_key) {
            (Some(file), None) => return fail("tls_certificate", file, "a file along with `cql.tls_key`"),
            (None, Some(file)) => return fail("tls_key", file, "a file along with `cql.tls_certificate`"),
            _ => {}
        }
        let tls = [("tls_ca", &self.tls_ca), ("tls_certificate", &self.tls_certificate), ("tls_name", &self.tls_name)];
        if let Some((key, value)) =
            tls.iter().find_map(|(key, value)| Some((*key, value.as_ref()?))).filter(|_| !self.tls)
        {
            return fail(key, value, "a value along with `cql.tls = true`");
        }
        if !(1..=10_000).contains(&self.concurrency) {
            return fail("concurrency", &self.concurrency, "1 to 10000");
        }
        if !(100..=600_000).contains(&self.request_timeout_ms) {
            return fail("request_timeout_ms", &self.request_timeout_ms, "100 to 600000");
        }
        Ok(())
    }

    /// Returns `true` if the password is sent over connections that are not encrypted.
    pub(super) fn exposes_password(&self) -> bool {
        self.password.is_some() && !self.tls
    }

    pub(super) fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms)
    }
}

fn is_node(node: &str) -> bool {
    let Some((host, port)) = node.rsplit_once(':') else { return false };
    let host_is_good = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')),
    };
    host_is_good && port.parse::<u16>().is_ok_and(|port| port > 0)
}

/// Returns `true` for a valid keyspace name: lower case only, since CQL folds unquoted names.
fn is_keyspace(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    (1..=48).contains(&name.len())
        && begins
        && name.chars().all(allowed)
        && name != "system"
        && !name.starts_with("system_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_allowed() {
        assert_eq!(CqlConfig::default().validate(), Ok(()));
    }

    #[test]
    fn a_bad_setting_is_named_with_its_value_and_what_is_allowed() {
        let good = CqlConfig::default;
        let nodes = |node: &str| CqlConfig { nodes: vec![node.to_owned()], ..good() };
        let keyspace = |name: &str| CqlConfig { keyspace: name.to_owned(), ..good() };
        let bad = [
            (CqlConfig { nodes: vec![], ..good() }, "nodes", ""),
            (nodes("localhost"), "nodes", "localhost"),
            (nodes("localhost:0"), "nodes", "localhost:0"),
            (nodes("local host:9042"), "nodes", "local host:9042"),
            (nodes("::1:9042"), "nodes", "::1:9042"),
            (nodes(""), "nodes", ""),
            (keyspace(""), "keyspace", ""),
            (keyspace("Crawl"), "keyspace", "Crawl"),
            (keyspace("9x"), "keyspace", "9x"),
            (keyspace("a;b"), "keyspace", "a;b"),
            (keyspace("system_schema"), "keyspace", "system_schema"),
            (CqlConfig { replication_factor: 0, ..good() }, "replication_factor", "0"),
            (CqlConfig { datacenter: Some("a'b".into()), ..good() }, "datacenter", "a'b"),
            (CqlConfig { username: Some("u".into()), ..good() }, "username", "u"),
            (CqlConfig { password: Some("secret".into()), ..good() }, "password", "***"),
            (CqlConfig { tls_ca: Some("ca.pem".into()), ..good() }, "tls_ca", "ca.pem"),
            (CqlConfig { tls: true, tls_key: Some("key.pem".into()), ..good() }, "tls_key", "key.pem"),
            (CqlConfig { concurrency: 0, ..good() }, "concurrency", "0"),
            (CqlConfig { request_timeout_ms: 5, ..good() }, "request_timeout_ms", "5"),
        ];
        for (config, key, value) in bad {
            let error = config.validate().unwrap_err();
            assert_eq!((error.key, error.value.as_str()), (key, value));
            assert!(error.to_string().contains("; allowed: "), "{error}");
        }
        assert_eq!(nodes("[::1]:9042").validate(), Ok(()));
        assert_eq!(keyspace(&"a".repeat(49)).validate().unwrap_err().key, "keyspace");
    }

    #[test]
    fn a_password_without_tls_is_exposed() {
        let with = |password: Option<&str>, tls| {
            CqlConfig { password: password.map(str::to_owned), tls, ..CqlConfig::default() }.exposes_password()
        };
        assert!(with(Some("secret"), false));
        assert!(!with(Some("secret"), true) && !with(None, false));
    }

    #[test]
    fn the_password_is_not_printed() {
        let config = CqlConfig { username: Some("u".into()), password: Some("secret".into()), ..CqlConfig::default() };
        let text = format!("{config:?}");
        assert!(!text.contains("secret") && text.contains("***"), "{text}");
    }
}
