//! The brokers.

use std::{collections::BTreeMap, time::Duration};

use orbweaver_log::kafka::{KafkaConfig, KafkaLog};

use super::args::Kafka;
use crate::exit::Failure;

/// How long a command waits for brokers that are away.
const PATIENCE: Duration = Duration::from_secs(15);

/// What variables with properties of librdkafka begin with; the services read them, too.
const VARIABLE: &str = "ORBWEAVER_KAFKA__PROPERTIES__";

/// The configuration of a client of these brokers. Properties of the command line go before those of the environment.
#[must_use]
pub fn config(brokers: &str, kafka: &Kafka) -> KafkaConfig {
    let variables =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let mut properties: BTreeMap<String, String> = variables.filter_map(property).collect();
    properties.extend(kafka.property.iter().cloned());
    KafkaConfig {
        brokers: brokers.to_owned(),
        prefix: kafka.prefix.clone(),
        protocol: kafka.group_protocol,
        connect_patience: PATIENCE,
        properties,
        ..KafkaConfig::default()
    }
}

/// `ORBWEAVER_KAFKA__PROPERTIES__SASL__PASSWORD` is `sasl.password`.
fn property((name, value): (String, String)) -> Option<(String, String)> {
    let name = name.strip_prefix(VARIABLE)?;
    Some((name.replace("__", ".").to_lowercase(), value))
}

/// Connects to the log of a pipeline.
///
/// # Errors
/// When the brokers cannot be reached, a setting is wrong, or a topic is missing.
pub async fn connect(brokers: &str, kafka: &Kafka) -> Result<KafkaLog, Failure> {
    tell();
    KafkaLog::connect(config(brokers, kafka)).await.map_err(|error| Failure::Failed(error.to_string()))
}

/// Runs what a command does, on a small runtime of its own.
///
/// # Errors
/// Those of the command.
pub fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("the runtime cannot be started: {error}")))?;
    let result = runtime.block_on(command);
    // Clients of brokers that are away take long to close; nobody waits for them.
    runtime.shutdown_timeout(Duration::from_secs(1));
    result
}

/// Warnings go to stderr; `ORBWEAVER_LOG` sets what else.
fn tell() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("ORBWEAVER_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    // Set already when a command connects twice.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_read_from_the_variables_that_the_services_read() {
        let given = |name: &str| property((name.to_owned(), "x".to_owned()));
        assert_eq!(given("ORBWEAVER_KAFKA__PROPERTIES__SASL__PASSWORD"), Some(("sasl.password".into(), "x".into())));
        assert_eq!(given("ORBWEAVER_KAFKA__PREFIX"), None);
    }
}
