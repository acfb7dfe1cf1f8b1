//! Log output on stderr: one JSON object per line, or text.

use std::io::{IsTerminal as _, Stderr, stderr};

use tracing_subscriber::{
    EnvFilter,
    fmt::{
        SubscriberBuilder,
        format::{DefaultFields, Format as Lines},
    },
};

use crate::{
    configuration::{Inputs, Origin, Settings},
    sections::{Format, LogOutput},
};

/// Starts logging. `rust_log` applies if the level is not set.
pub(crate) fn start(log: &LogOutput, settings: &Settings, rust_log: Option<&str>) {
    let rust_log = rust_log.filter(|directives| !is_set(settings, "log.level") && !directives.is_empty());
    let filter = rust_log.and_then(|directives| EnvFilter::try_new(directives).ok());
    // The level was checked with the configuration.
    let filter = filter.unwrap_or_else(|| EnvFilter::new(&log.level));
    match log.format {
        Format::Json => json(filter),
        Format::Text => {
            // Already set only if several services run in one process, as in tests.
            let _ = lines(filter).try_init();
        }
    }
}

/// Starts logging JSON.
pub(crate) fn json(filter: EnvFilter) {
    let lines = lines(filter).json().flatten_event(true).with_current_span(false).with_span_list(false);
    let _ = lines.try_init();
}

/// Creates a log of lines on stderr. A line that cannot be written is omitted, and the service runs without its log: by
/// default the error goes to stderr, with a panic if that is closed.
fn lines(filter: EnvFilter) -> SubscriberBuilder<DefaultFields, Lines, EnvFilter, fn() -> Stderr> {
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr as fn() -> Stderr)
        .with_ansi(false)
        .log_internal_errors(false)
}

/// Returns `true` if configuration faults are logged as JSON: as set by `log.format`. They are text if that key is
/// itself faulty, or if it is not set and stderr is a terminal.
pub(crate) fn is_json_before(inputs: &Inputs) -> bool {
    is_json(inputs, stderr().is_terminal())
}

fn is_json(inputs: &Inputs, terminal: bool) -> bool {
    let (given, mut faults) = inputs.read();
    let mut settings = Settings::new(given, &[]);
    let log: LogOutput = settings.section();
    faults.extend(settings.faults());
    let is_faulty = faults.iter().any(|fault| fault.path() == "log.format");
    !is_faulty && (is_set(&settings, "log.format") || !terminal) && log.format == Format::Json
}

fn is_set(settings: &Settings, path: &str) -> bool {
    settings.origin(path).is_some_and(|origin| *origin != Origin::Default)
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
        let json = |format, terminal| is_json(&inputs(format), terminal);
        assert!(json(Some("json"), true) && json(Some("json"), false));
        assert!(!json(Some("text"), false) && !json(Some("xml"), false));
        assert!(json(None, false), "the default, in a container");
        assert!(!json(None, true), "a person reads along");
    }
}
