//! Log output on stderr: one JSON object per line, or text.

use std::io::IsTerminal as _;

use tracing_subscriber::{EnvFilter, fmt};

use crate::{
    configuration::{Inputs, Origin, SettingError, Settings},
    service::ServiceId,
};

/// Checks the directives of `log.level`.
pub(crate) fn check(settings: &Settings) -> Result<(), SettingError> {
    filter(&settings.text("log.level")?).map(drop)
}

fn filter(directives: &str) -> Result<EnvFilter, SettingError> {
    EnvFilter::try_new(directives).map_err(|error| {
        let allowed = "`error`, `warn`, `info`, `debug`, `trace`, or directives such as `info,orbweaver_fetcher=debug`";
        SettingError::new("log.level", format!("{error}; allowed: {allowed}"))
    })
}

/// Starts logging. `rust_log` applies if the level is not set.
pub(crate) fn start(settings: &Settings, rust_log: Option<&str>) -> Result<(), SettingError> {
    let own = settings.text("log.level")?;
    let level_is_set = settings.iter().any(|(path, set)| path == "log.level" && set.origin != Origin::Default);
    let filter = match rust_log.filter(|directives| !level_is_set && !directives.is_empty()) {
        Some(directives) => EnvFilter::try_new(directives).or_else(|_| filter(&own))?,
        None => filter(&own)?,
    };
    if settings.text("log.format")? == "text" {
        let lines = fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
        // Already set only if several services run in one process, as in tests.
        let _ = lines.try_init();
    } else {
        json(filter);
    }
    Ok(())
}

/// Starts logging JSON, for a process that ends before its configuration applies.
pub(crate) fn start_json() {
    json(EnvFilter::new("info"));
}

fn json(filter: EnvFilter) {
    let lines = fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).json();
    let _ = lines.flatten_event(true).with_current_span(false).with_span_list(false).try_init();
}

/// Returns `true` if configuration faults are logged as JSON: as set by `log.format`. They are text if that key is
/// itself faulty, or if it is not set and stderr is a terminal.
pub(crate) fn is_json_before(service: ServiceId, inputs: &Inputs) -> bool {
    is_json(service, inputs, std::io::stderr().is_terminal())
}

fn is_json(service: ServiceId, inputs: &Inputs, terminal: bool) -> bool {
    let (given, mut faults) = inputs.read();
    let (settings, more) = Settings::resolve(service, &given);
    faults.extend(more);
    let is_set = settings.iter().any(|(path, set)| path == "log.format" && set.origin != Origin::Default);
    let is_faulty = faults.iter().any(|fault| fault.path() == "log.format");
    !is_faulty && (is_set || !terminal) && settings.text("log.format").is_ok_and(|format| format == "json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_logged_in_the_format_that_is_configured_as_far_as_it_can_be_read() {
        let inputs = |format: Option<&str>| Inputs {
            flags: format.map(|format| ("--set", "log.format".to_owned(), format.to_owned())).into_iter().collect(),
            ..Inputs::default()
        };
        let json = |format, terminal| is_json(ServiceId::Fetcher, &inputs(format), terminal);
        assert!(json(Some("json"), true) && json(Some("json"), false));
        assert!(!json(Some("text"), false) && !json(Some("xml"), false));
        assert!(json(None, false), "the default, in a container");
        assert!(!json(None, true), "a person reads along");
    }
}
