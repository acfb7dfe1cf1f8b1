//! Logs: one JSON object a line on stderr, or text.

use tracing_subscriber::{EnvFilter, fmt};

use crate::configuration::{Fault, Origin, Settings};

/// Checks the directives of `log.level`.
///
/// # Errors
/// When they are none.
pub(crate) fn check(settings: &Settings) -> Result<(), Fault> {
    filter(&settings.text("log.level")?).map(drop)
}

fn filter(directives: &str) -> Result<EnvFilter, Fault> {
    EnvFilter::try_new(directives).map_err(|error| {
        let allowed = "`error`, `warn`, `info`, `debug`, `trace`, or directives such as `info,orbweaver_fetcher=debug`";
        Fault::new("log.level", format!("{error}; allowed is {allowed}"))
    })
}

/// Begins to log. `rust_log` applies where the level was not set.
///
/// # Errors
/// When the directives are none.
pub(crate) fn start(settings: &Settings, rust_log: Option<&str>) -> Result<(), Fault> {
    let own = settings.text("log.level")?;
    let level_is_set = settings.iter().any(|(path, set)| path == "log.level" && set.origin != Origin::Default);
    let filter = match rust_log.filter(|directives| !level_is_set && !directives.is_empty()) {
        Some(directives) => EnvFilter::try_new(directives).or_else(|_| filter(&own))?,
        None => filter(&own)?,
    };
    let lines = fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    // Set already only when several services run in one process, as tests do.
    let _ = match settings.text("log.format")?.as_str() {
        "text" => lines.try_init(),
        _ => lines.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init(),
    };
    Ok(())
}
