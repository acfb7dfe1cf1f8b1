//! Reads the sections of the service, the runtime, the log and the store. Pure.

use orbweaver_log::kafka::KafkaConfig;
use orbweaver_stage::RunnerConfig;
use orbweaver_store::CqlConfig;

use crate::{
    Service,
    configuration::{Inputs, SettingError, Settings},
    sections::{Http, LogOutput, Runtime},
};

/// Settings that are complete before anything is bound or connected.
pub(crate) struct Prepared<S> {
    pub(crate) settings: Settings,
    pub(crate) service: S,
    /// `None` for a service without a log.
    pub(crate) kafka: Option<KafkaConfig>,
    /// `None` for a service without a store.
    pub(crate) cql: Option<CqlConfig>,
    pub(crate) http: Http,
    pub(crate) log: LogOutput,
    pub(crate) runner: RunnerConfig,
    pub(crate) worker_threads: usize,
}

/// Reads all sections of a service, and returns every fault.
pub fn configure<S: Service>(inputs: &Inputs) -> (S, Settings, Vec<SettingError>) {
    let (prepared, faults) = read::<S>(inputs);
    (prepared.service, prepared.settings, faults)
}

/// Reads all sections, or returns every fault.
pub(crate) fn prepare<S: Service>(inputs: &Inputs) -> Result<Prepared<S>, Vec<SettingError>> {
    let (prepared, faults) = read(inputs);
    if faults.is_empty() { Ok(prepared) } else { Err(faults) }
}

fn read<S: Service>(inputs: &Inputs) -> (Prepared<S>, Vec<SettingError>) {
    let (given, mut faults) = inputs.read();
    let mut defaults = vec![("http.listen", S::LISTEN)];
    defaults.extend(S::RECORDS.map(|records| ("runtime.records", records)));
    let mut settings = Settings::new(given, &defaults);
    let kafka = S::HAS_LOG.then(|| settings.section::<KafkaConfig>());
    let defaults_of_log = KafkaConfig::default();
    let of_log = kafka.as_ref().unwrap_or(&defaults_of_log);
    let cql = S::HAS_STORE.then(|| settings.section::<CqlConfig>());
    let http = settings.section();
    let log = settings.section();
    let runtime: Runtime = settings.section();
    let service = S::configure(&mut settings, of_log.record_limit);
    settings.check("runtime", runtime.misfits(of_log.session_timeout, service.longest_request()));
    faults.extend(settings.faults());
    let (runner, worker_threads) = (runtime.runner(of_log.patience), runtime.worker_threads);
    (Prepared { settings, service, kafka, cql, http, log, runner, worker_threads }, faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_pem_form_and_a_password_with_a_space_at_its_end_arrive_as_their_files_have_them() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, content).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let pem = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2Vw\n-----END PRIVATE KEY-----";
        let (key, password) = (file("key.pem", &format!("{pem}\n")), file("password", " hunter2 \n"));
        let read = |variables: &[(&str, &str)]| {
            let environment = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
            let (given, _) = Inputs { environment, ..Inputs::default() }.read();
            let mut settings = Settings::new(given, &[]);
            let (kafka, cql): (KafkaConfig, CqlConfig) = (settings.section(), settings.section());
            let faults = settings.faults().iter().map(ToString::to_string).collect::<Vec<_>>();
            (kafka.properties, cql.password, faults)
        };
        let (properties, secret, faults) = read(&[
            ("ORBWEAVER_KAFKA__PROPERTIES__SSL__KEY__PEM_FILE", &key),
            ("ORBWEAVER_CQL__PASSWORD_FILE", &password),
            ("ORBWEAVER_CQL__USERNAME", "u"),
        ]);
        assert_eq!(faults.len(), 2, "brokers and nodes are missing: {faults:?}");
        assert_eq!(secret.as_deref(), Some(" hunter2 "));
        assert_eq!(properties.into_iter().collect::<Vec<_>>(), [("ssl.key.pem".to_owned(), pem.to_owned())]);

        // Rules remain for values that are shown, or cannot be a C string.
        let (.., faults) =
            read(&[("ORBWEAVER_CQL__PASSWORD", "a\0b"), ("ORBWEAVER_KAFKA__PROPERTIES__CLIENT__RACK", "a\nb")]);
        assert!(faults[0].ends_with("allowed: text without NUL"), "{faults:?}");
        assert!(faults[1].ends_with("allowed: text without control characters"), "{faults:?}");
    }
}
