//! Client connections to the brokers and the store of a cluster.

use std::time::Duration;

use orbweaver_log::kafka::{KafkaConfig, KafkaLog};
use orbweaver_process::configuration::SettingError;
use orbweaver_settings::Section as _;
use orbweaver_store::CqlConfig;

use super::args::{Cluster, Kafka};
use crate::{
    exit::{Failure, failed},
    logging,
};

/// Time for which a command waits for unavailable brokers at its start.
const CONNECT_PATIENCE: Duration = Duration::from_secs(15);
/// Time for which a request is retried while the brokers are unavailable.
const PATIENCE: Duration = Duration::from_mins(5);

/// Returns the client configuration for these brokers. Properties of the command line override those of the
/// environment.
pub fn config(brokers: &str, kafka: &Kafka) -> Result<KafkaConfig, Failure> {
    let flags = kafka.property.iter().map(|text| property(text)).collect::<Result<_, Failure>>()?;
    let properties = orbweaver_process::kafka_properties(flags).map_err(|faults| usage(&faults))?;
    let config = KafkaConfig {
        brokers: brokers.to_owned(),
        prefix: kafka.prefix.clone(),
        protocol: kafka.group_protocol,
        record_limit: kafka.record_limit,
        connect_patience: CONNECT_PATIENCE,
        patience: PATIENCE,
        properties,
        ..KafkaConfig::default()
    };
    config.check().map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(config)
}

/// Parses the text of a `-X` as (flag, key, value). The error does not repeat the text, which may be a secret.
fn property(text: &str) -> Result<(&'static str, String, String), Failure> {
    let wrong = || Failure::Usage("-X is given as KEY=VALUE".to_owned());
    let (key, value) = text.split_once('=').ok_or_else(wrong)?;
    Ok(("-X", format!("kafka.properties.{}", key.trim()), value.to_owned()))
}

/// Returns the client configuration for the store; login, TLS and the rest come from the environment, as for services.
///
/// # Errors
/// Returns the invalid settings, each with its origin.
pub fn cql_config(nodes: &str, keyspace: &str, replication: u8) -> Result<CqlConfig, Failure> {
    let flags = vec![
        ("--cql", "cql.nodes".to_owned(), nodes.to_owned()),
        ("--keyspace", "cql.keyspace".to_owned(), keyspace.to_owned()),
        ("--cql-replication", "cql.replication_factor".to_owned(), replication.to_string()),
    ];
    orbweaver_process::cql_settings(flags).map_err(|faults| usage(&faults))
}

/// Returns the client configuration for the store, without the settings that only matter when it is created; nodes are
/// those of the environment if `None`.
///
/// # Errors
/// Returns the invalid settings, each with its origin.
pub fn cql_settings(nodes: Option<&str>, keyspace: &str) -> Result<CqlConfig, Failure> {
    let mut flags = vec![("--keyspace", "cql.keyspace".to_owned(), keyspace.to_owned())];
    flags.extend(nodes.map(|nodes| ("--cql", "cql.nodes".to_owned(), nodes.to_owned())));
    orbweaver_process::cql_settings(flags).map_err(|faults| usage(&faults))
}

fn usage(faults: &[SettingError]) -> Failure {
    Failure::Usage(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

/// Connects to the log of a pipeline.
///
/// # Errors
/// Fails if the brokers cannot be reached, a setting is invalid, or a topic is missing.
pub async fn connect(brokers: &str, kafka: &Kafka) -> Result<KafkaLog, Failure> {
    logging::to_stderr()?;
    KafkaLog::connect(config(brokers, kafka)?).await.map_err(failed)
}

impl Cluster {
    /// Connects to the log of this pipeline.
    pub(super) async fn connect(&self) -> Result<KafkaLog, Failure> {
        connect(&self.brokers, &self.kafka).await
    }
}

/// Runs a command on a small runtime of its own.
pub fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    // Clients of unavailable brokers take long to close; do not wait for them.
    crate::block_on(2, Duration::from_secs(1), command)
}
