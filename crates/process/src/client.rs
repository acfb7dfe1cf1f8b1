//! Settings of a command that is a client of the servers without being a service.

use std::collections::BTreeMap;

use orbweaver_store::CqlConfig;

use crate::{
    configuration::{Fault, Inputs, Settings},
    prepare,
    service::ServiceId,
};

/// Sections and keys that concern a client.
const READ: [&str; 2] = ["cql.", "kafka.properties."];

/// How the servers are reached, as flags and the environment have it: the same variables that services read, `…_FILE` included.
#[derive(Debug)]
pub struct ClientSettings(Settings);

impl ClientSettings {
    /// Reads the environment; flags, as (flag, key, value), override it.
    ///
    /// # Errors
    /// Every wrong value, with its origin and what is allowed.
    pub fn of_process(flags: Vec<(&'static str, String, String)>) -> Result<Self, Vec<Fault>> {
        let of_client = |path: &str| READ.iter().any(|section| path.starts_with(section));
        // No file is named, so none can be unreadable.
        let (given, mut faults) = Inputs::of_process(None, flags).0.read();
        let given: Vec<_> = given.into_iter().filter(|given| of_client(&given.path)).collect();
        let (settings, more) = Settings::resolve(ServiceId::Extractor, &given);
        // Required keys that are absent are not a client's concern.
        faults.extend(more.into_iter().filter(|fault| given.iter().any(|given| given.path == fault.path())));
        faults.retain(|fault| of_client(fault.path()));
        if faults.is_empty() { Ok(Self(settings)) } else { Err(faults) }
    }

    /// Returns the settings of the store; `cql.nodes` has to be set.
    ///
    /// # Errors
    /// The first setting that does not go with another.
    pub fn cql(&self) -> Result<CqlConfig, Fault> {
        prepare::cql(&self.0).map_err(|fault| self.0.complete(fault))
    }

    /// Returns the properties of librdkafka, by name.
    #[must_use]
    pub fn kafka_properties(&self) -> BTreeMap<String, String> {
        self.0.texts_below("kafka.properties").collect()
    }
}
