//! The brokers.

use std::{collections::BTreeMap, time::Duration};

use orbweaver_log::kafka::{KafkaConfig, KafkaLog};

use super::args::Kafka;
use crate::exit::Failure;

/// How long a command waits for brokers that are away.
const PATIENCE: Duration = Duration::from_secs(15);

/// The configuration of a client of these brokers.
#[must_use]
pub fn config(brokers: &str, kafka: &Kafka) -> KafkaConfig {
    let properties: BTreeMap<String, String> = kafka.property.iter().cloned().collect();
    KafkaConfig {
        brokers: brokers.to_owned(),
        prefix: kafka.prefix.clone(),
        protocol: kafka.group_protocol,
        connect_patience: PATIENCE,
        properties,
        ..KafkaConfig::default()
    }
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
