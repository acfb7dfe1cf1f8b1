//! Derives the settings of the service, the runtime, the log and the store. Pure.

use std::time::Duration;

use orbweaver_log::kafka::KafkaConfig;
use orbweaver_stage::{Limits, RunnerConfig};
use orbweaver_store::{CqlConfig, CqlConsistency};

use crate::{
    Service,
    configuration::{Inputs, KEYS, SettingError, Settings},
    logging,
};

/// Settings that are complete before anything is bound or connected.
pub(crate) struct Prepared<S> {
    pub(crate) settings: Settings,
    pub(crate) service: S,
    pub(crate) kafka: KafkaConfig,
    /// `None` for a service without a store.
    pub(crate) cql: Option<CqlConfig>,
    pub(crate) runner: RunnerConfig,
}

/// Derives all settings, or returns every fault.
pub(crate) fn prepare<S: Service>(inputs: &Inputs) -> Result<Prepared<S>, Vec<SettingError>> {
    let (given, mut faults) = inputs.read();
    let (settings, more) = Settings::resolve(S::ID, &given);
    faults.extend(more);
    let has_store = KEYS.iter().any(|key| key.path() == "cql.nodes" && key.is_read_by(S::ID));
    let service = S::configure(&settings);
    let kafka = kafka(&settings).map_err(|fault| vec![fault]);
    let cql = has_store.then(|| cql(&settings).map_err(|fault| vec![fault])).transpose();
    let runner = runner(&settings);
    let logging = logging::check(&settings).map_err(|fault| vec![fault]);
    if let (Ok(service), Ok(runner)) = (&service, &runner) {
        let fault = too_short_a_drain(runner.drain_budget, service.longest_request());
        faults.extend(fault.map(|fault| settings.complete(fault)));
    }
    let others = [
        service.as_ref().err(),
        kafka.as_ref().err(),
        cql.as_ref().err(),
        runner.as_ref().err(),
        logging.as_ref().err(),
    ];
    for fault in others.into_iter().flatten().flatten() {
        // One fault per key: consequential faults are not reported.
        if !faults.iter().any(|known| known.path() == fault.path()) {
            faults.push(settings.complete(fault.clone()));
        }
    }
    match (service, kafka, cql, runner) {
        (Ok(service), Ok(kafka), Ok(cql), Ok(runner)) if faults.is_empty() => {
            Ok(Prepared { settings, service, kafka, cql, runner })
        }
        _ => Err(faults),
    }
}

/// Returns a fault if a request may outlast the drain of its partition: it would still be in flight when the next owner
/// sends its own.
fn too_short_a_drain(drain_budget: Duration, longest: Option<(&'static str, Duration)>) -> Option<SettingError> {
    let (key, request) = longest.filter(|(_, request)| *request > drain_budget)?;
    let least = humantime::format_duration(request);
    Some(SettingError::allowed("runtime.drain_budget", format!("at least {least}, as much as `{key}`")))
}

fn kafka(settings: &Settings) -> Result<KafkaConfig, SettingError> {
    let config = KafkaConfig {
        brokers: settings.list("kafka.brokers")?.join(","),
        prefix: settings.text("kafka.prefix")?,
        protocol: settings.text("kafka.group_protocol")?.parse().map_err(|error| of_log("group_protocol", &error))?,
        instance_id: settings.optional_text("kafka.instance_id")?,
        session_timeout: settings.time("kafka.session_timeout")?,
        linger: settings.time("kafka.linger")?,
        record_limit: settings.size("kafka.record_limit")?,
        producer_bytes: settings.size("kafka.producer_bytes")?,
        fetch_bytes: settings.size("kafka.fetch_bytes")?,
        connect_patience: settings.time("kafka.connect_patience")?,
        request_timeout: settings.time("kafka.request_timeout")?,
        patience: settings.time("kafka.patience")?,
        properties: settings.texts_below("kafka.properties").collect(),
    };
    if config.brokers.is_empty() {
        return Err(SettingError::new("kafka.brokers", "it is not set"));
    }
    config.check().map_err(|error| {
        // The first back-quoted word of the message is the key.
        let text = error.to_string();
        let named = text.split('`').nth(1).unwrap_or_default();
        match config.properties.contains_key(named) {
            true => of_log(&format!("properties.{named}"), &error),
            false => of_log(named, &error),
        }
    })?;
    Ok(config)
}

fn of_log(key: &str, error: &orbweaver_log::LogError) -> SettingError {
    let text = match error {
        orbweaver_log::LogError::Invalid(text) => text.clone(),
        error => error.to_string(),
    };
    SettingError::new(format!("kafka.{key}"), text)
}

pub(crate) fn cql(settings: &Settings) -> Result<CqlConfig, SettingError> {
    let consistency = match settings.text("cql.consistency")?.as_str() {
        "one" => CqlConsistency::One,
        "local_one" => CqlConsistency::LocalOne,
        "quorum" => CqlConsistency::Quorum,
        "all" => CqlConsistency::All,
        _ => CqlConsistency::LocalQuorum,
    };
    let config = CqlConfig {
        nodes: settings.list("cql.nodes")?,
        keyspace: settings.text("cql.keyspace")?,
        replication_factor: settings.count("cql.replication_factor")?,
        datacenter: settings.optional_text("cql.datacenter")?,
        username: settings.optional_text("cql.username")?,
        password: settings.optional_text("cql.password")?,
        tls: settings.switch("cql.tls")?,
        tls_ca: settings.optional_text("cql.tls_ca")?,
        tls_certificate: settings.optional_text("cql.tls_certificate")?,
        tls_key: settings.optional_text("cql.tls_key")?,
        tls_name: settings.optional_text("cql.tls_name")?,
        consistency,
        concurrency: settings.count("cql.concurrency")?,
        request_timeout_ms: settings.time_ms("cql.request_timeout")?,
    };
    config.validate().map_err(|error| {
        let key = error.key.strip_suffix("_ms").unwrap_or(error.key);
        SettingError::allowed(format!("cql.{key}"), error.allowed)
    })?;
    Ok(config)
}

/// Returns the configuration of the runner, with checks between dependent keys.
fn runner(settings: &Settings) -> Result<RunnerConfig, Vec<SettingError>> {
    let one = |fault| vec![fault];
    let time = |name: &str| settings.time(name).map_err(one);
    let session = time("kafka.session_timeout")?;
    let config = RunnerConfig {
        limits: Limits {
            records: settings.count("runtime.records").map_err(one)?,
            bytes: settings.size("runtime.bytes").map_err(one)?,
            ..RunnerConfig::default().limits
        },
        commit_interval: time("runtime.commit_interval")?,
        // Commits and restores wait for the brokers as long as all other requests do.
        commit_patience: time("kafka.patience")?,
        restore_patience: time("kafka.patience")?,
        drain_budget: time("runtime.drain_budget")?,
        shutdown_budget: time("runtime.shutdown_budget")?,
        stall_after: time("runtime.stall_after")?,
        frozen_after: time("runtime.frozen_after")?,
        restores_at_once: settings.count("runtime.restores_at_once").map_err(one)?,
        ..RunnerConfig::default()
    };
    let mut faults = vec![];
    let mut at_most = |key: &str, value: Duration, most: Duration, why: &str| {
        if value > most {
            let most = humantime::format_duration(most);
            faults.push(SettingError::allowed(key, format!("at most {most}: {why}")));
        }
    };
    let half = session / 2;
    at_most(
        "runtime.frozen_after",
        config.frozen_after,
        half,
        "half of `kafka.session_timeout`, after which partitions may move",
    );
    let stall = config.stall_after / 2;
    at_most("runtime.commit_interval", config.commit_interval, stall, "half of `runtime.stall_after`");
    at_most("runtime.drain_budget", config.drain_budget, stall, "half of `runtime.stall_after`");
    if faults.is_empty() { Ok(config) } else { Err(faults) }
}
