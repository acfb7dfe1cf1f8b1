//! Settings of commands that connect to the servers but are not services.

use std::collections::BTreeMap;

use orbweaver_log::kafka::KafkaConfig;
use orbweaver_settings::Section;
use orbweaver_store::CqlConfig;

use crate::configuration::{Inputs, SettingError, Settings};

/// Reads the settings of the store from flags, as (flag, key, value), and the environment: the same variables that
/// services read, including `…_FILE`.
///
/// # Errors
/// Every invalid value, with its origin and the allowed values.
pub fn cql_settings(flags: Vec<(&'static str, String, String)>) -> Result<CqlConfig, Vec<SettingError>> {
    of_process("cql.", flags)
}

/// Reads the properties of librdkafka from flags and the environment.
///
/// # Errors
/// Every invalid value, with its origin and the allowed values.
pub fn kafka_properties(
    flags: Vec<(&'static str, String, String)>,
) -> Result<BTreeMap<String, String>, Vec<SettingError>> {
    of_process("kafka.properties.", flags).map(|config: KafkaConfig| config.properties)
}

/// Reads the keys of a section that begin with `prefix`.
fn of_process<S: Section>(prefix: &str, flags: Vec<(&'static str, String, String)>) -> Result<S, Vec<SettingError>> {
    // No file is named, so none can be unreadable.
    let (mut given, mut faults) = Inputs::of_process(None, flags).0.read();
    given.retain(|given| given.path.starts_with(prefix));
    let mut settings = Settings::new(given, &[]);
    let section = settings.section();
    faults.extend(settings.faults());
    faults.retain(|fault| fault.path().starts_with(prefix));
    if faults.is_empty() { Ok(section) } else { Err(faults) }
}
