//! Settings of the CQL store, and their limits.

use std::time::Duration;

use orbweaver_settings::{Conflict, Count, MINUTE, Name, Secret, Section, Servers, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Connection to the servers: the section `cql` of the configuration. Not `Debug`: it has a password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CqlConfig {
    /// Nodes for the first connection; they report the others.
    #[serde(with = "Servers")]
    pub nodes: Vec<String>,
    /// Keyspace; created if it does not exist.
    #[serde(with = "Name")]
    pub keyspace: String,
    /// Copies of each row in each data center; used only when the keyspace is created. At most the number of nodes.
    ///
    /// With fewer nodes than a majority of the copies, no write at `local_quorum` succeeds.
    #[serde(with = "Count::<1, 9>")]
    pub replication_factor: u8,
    /// Data center whose nodes receive the requests; required if there are several.
    pub datacenter: Option<String>,
    /// Role for the login; requires `password`.
    pub username: Option<String>,
    /// Password of the role.
    #[serde(with = "Secret")]
    pub password: Option<String>,
    /// Encrypt connections and verify the certificates of the nodes.
    pub tls: bool,
    /// File with the certificates (PEM) of the trusted authorities. Not set: those of the operating system.
    pub tls_ca: Option<String>,
    /// File with the client's certificate chain (PEM), for servers that require one; requires `tls_key`.
    pub tls_certificate: Option<String>,
    /// File with the client's private key (PEM); requires `tls_certificate`.
    pub tls_key: Option<String>,
    /// Name or address that the certificate of every node must contain, instead of the node's own address.
    pub tls_name: Option<String>,
    /// Number of copies that must answer a request.
    pub consistency: CqlConsistency,
    /// Maximum number of concurrent requests.
    #[serde(with = "Count::<1, 10_000>")]
    pub concurrency: usize,
    /// Timeout per request.
    #[serde(with = "Time::<100, { 10 * MINUTE }>")]
    pub request_timeout: Duration,
}

impl Section for CqlConfig {
    const NAME: &'static str = "cql";
    const REQUIRED: &'static [&'static str] = &["nodes"];

    fn conflicts(&self) -> Vec<Conflict> {
        let keyspace =
            "1 to 48 of a-z, 0-9 and _, a letter first, and not `system` or a name that begins with `system_`";
        let alone = |one: &Option<String>, other: &Option<String>| one.is_some() && other.is_none();
        let without_tls = |value: &Option<String>| value.is_some() && !self.tls;
        [
            (self.nodes.is_empty(), "nodes", "at least one HOST:PORT"),
            (!is_keyspace(&self.keyspace), "keyspace", keyspace),
            (
                self.datacenter.as_ref().is_some_and(|name| name.is_empty() || name.contains('\'')),
                "datacenter",
                "the name of a data center without `'`, or no value",
            ),
            (alone(&self.username, &self.password), "username", "a name along with `cql.password`"),
            (alone(&self.password, &self.username), "password", "a password along with `cql.username`"),
            (alone(&self.tls_certificate, &self.tls_key), "tls_certificate", "a file along with `cql.tls_key`"),
            (alone(&self.tls_key, &self.tls_certificate), "tls_key", "a file along with `cql.tls_certificate`"),
            (without_tls(&self.tls_ca), "tls_ca", "a value along with `cql.tls = true`"),
            (without_tls(&self.tls_certificate), "tls_certificate", "a value along with `cql.tls = true`"),
            (without_tls(&self.tls_name), "tls_name", "a value along with `cql.tls = true`"),
        ]
        .into_iter()
        .filter(|(conflicts, ..)| *conflicts)
        .map(|(_, key, allowed)| Conflict::allowed(key, allowed))
        .collect()
    }
}

/// Number of replicas that acknowledge a request. A write acknowledged by fewer than half of them may be lost with a
/// node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
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

impl Default for CqlConfig {
    fn default() -> Self {
        Self {
            nodes: vec![],
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
            request_timeout: Duration::from_secs(10),
        }
    }
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

    fn good() -> CqlConfig {
        CqlConfig { nodes: vec!["localhost:9042".to_owned()], ..CqlConfig::default() }
    }

    #[test]
    fn a_conflict_is_named_with_what_is_allowed() {
        assert_eq!(good().check(), Ok(()));
        let keyspace = |name: &str| CqlConfig { keyspace: name.to_owned(), ..good() };
        let bad = [
            (CqlConfig { nodes: vec![], ..good() }, "nodes"),
            (keyspace(""), "keyspace"),
            (keyspace("Crawl"), "keyspace"),
            (keyspace("9x"), "keyspace"),
            (keyspace("a;b"), "keyspace"),
            (keyspace("system_schema"), "keyspace"),
            (keyspace(&"a".repeat(49)), "keyspace"),
            (CqlConfig { datacenter: Some("a'b".into()), ..good() }, "datacenter"),
            (CqlConfig { username: Some("u".into()), ..good() }, "username"),
            (CqlConfig { password: Some("secret".into()), ..good() }, "password"),
            (CqlConfig { tls_ca: Some("ca.pem".into()), ..good() }, "tls_ca"),
            (CqlConfig { tls: true, tls_key: Some("key.pem".into()), ..good() }, "tls_key"),
        ];
        for (config, key) in bad {
            let conflict = config.check().unwrap_err();
            assert_eq!(conflict.key, key);
            assert!(conflict.problem.starts_with("allowed: ") && !conflict.problem.contains("secret"), "{conflict}");
        }
    }
}
