//! Logging of the services and clients to `orbweaver.log` or stderr. `ORBWEAVER_LOG` sets the level.

use std::{fs::File, io, io::IsTerminal as _, path::Path};

use tracing_subscriber::{
    EnvFilter,
    fmt::{
        SubscriberBuilder,
        format::{DefaultFields, Format},
    },
};

use crate::exit::Failure;

/// Appends to `orbweaver.log` in this directory, by default `info` and above.
pub fn to_file(dir: &Path) -> Result<(), Failure> {
    let path = dir.join("orbweaver.log");
    let file = File::options()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(|error| Failure::Output(format!("{}: {error}", path.display())))?;
    let filter = filter("info")?;
    // Already set only if several crawls run in one process, as in tests.
    let _ = lines(filter).with_ansi(false).with_writer(file).try_init();
    Ok(())
}

/// Logs to stderr, by default `warn` and above.
pub fn to_stderr() -> Result<(), Failure> {
    to_stderr_from("warn")
}

/// Logs to stderr if `ORBWEAVER_LOG` is set: for a command that reports the failures of its clients itself.
#[cfg(feature = "cluster")]
pub fn to_stderr_on_request() -> Result<(), Failure> {
    to_stderr_from("off")
}

fn to_stderr_from(level: &str) -> Result<(), Failure> {
    let filter = filter(level)?;
    // <https://no-color.org>
    let ansi = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    // Already set if a command connects twice.
    let _ = lines(filter).with_ansi(ansi).with_writer(io::stderr).try_init();
    Ok(())
}

/// Creates a log of lines. A line that cannot be written is omitted: by default its error goes to stderr, with a panic
/// if stderr is closed.
fn lines(filter: EnvFilter) -> SubscriberBuilder<DefaultFields, Format, EnvFilter> {
    tracing_subscriber::fmt().with_env_filter(filter).log_internal_errors(false)
}

fn filter(default: &str) -> Result<EnvFilter, Failure> {
    let wanted = std::env::var("ORBWEAVER_LOG").unwrap_or_else(|_| default.to_owned());
    EnvFilter::try_new(&wanted).map_err(|error| {
        Failure::Usage(format!("ORBWEAVER_LOG is `{wanted}`: {error}; give a level or a filter, such as `{default}`"))
    })
}
