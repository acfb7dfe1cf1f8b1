//! Settings of commands that connect to the servers but are not services.

use std::collections::BTreeMap;

use orbweaver_store::CqlConfig;

use crate::{
    configuration::{Inputs, SettingError, Settings},
    prepare,
    service::ServiceId,
};

/// Sections and keys that apply to a client.
const READ: [&str; 2] = ["cql.", "kafka.properties."];

/// Connection settings from flags and the environment: the same variables that services read, including `…_FILE`.
#[derive(Debug)]
pub struct ClientSettings(Settings);

impl ClientSettings {
    /// Reads the environment; flags, as (flag, key, value), override it.
    ///
    /// # Errors
    /// Every invalid value, with its origin and the allowed values.
    pub fn of_process(flags: Vec<(&'static str, String, String)>) -> Result<Self, Vec<SettingError>> {
        let of_client = |path: &str| READ.iter().any(|section| path.starts_with(section));
        // No file is named, so none can be unreadable.
        let (given, mut faults) = Inputs::of_process(None, flags).0.read();
        let given: Vec<_> = given.into_iter().filter(|given| of_client(&given.path)).collect();
        let (settings, more) = Settings::resolve(ServiceId::Extractor, &given);
        // Missing required keys, which have no origin, do not concern a client.
        faults.extend(more.into_iter().filter(SettingError::has_origin));
        faults.retain(|fault| of_client(fault.path()));
        if faults.is_empty() { Ok(Self(settings)) } else { Err(faults) }
    }

    /// Returns the settings of the store; requires `cql.nodes`.
    ///
    /// # Errors
    /// The first setting that conflicts with another.
    pub fn cql(&self) -> Result<CqlConfig, SettingError> {
        prepare::cql(&self.0).map_err(|fault| self.0.complete(fault))
    }

    /// Returns the properties of librdkafka by name.
    #[must_use]
    pub fn kafka_properties(&self) -> BTreeMap<String, String> {
        self.0.texts_below("kafka.properties").collect()
    }
}
