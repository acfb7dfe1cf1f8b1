//! Logging of the services and clients to `orbweaver.log` or stderr. `ORBWEAVER_LOG` sets the level.

use std::{fs::File, io, io::IsTerminal as _, path::Path};

use tracing_subscriber::EnvFilter;

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
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(file).try_init();
    Ok(())
}

/// Logs to stderr, by default `warn` and above.
pub fn to_stderr() -> Result<(), Failure> {
    let filter = filter("warn")?;
    let ansi = colors(io::stderr().is_terminal(), std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()));
    // Already set if a command connects twice.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(ansi).with_writer(io::stderr).try_init();
    Ok(())
}

/// Returns whether to use colors: only on a terminal, and not if `NO_COLOR` is set and not empty
/// (<https://no-color.org>).
fn colors(terminal: bool, no_color: bool) -> bool {
    terminal && !no_color
}

fn filter(default: &str) -> Result<EnvFilter, Failure> {
    let wanted = std::env::var("ORBWEAVER_LOG").unwrap_or_else(|_| default.to_owned());
    EnvFilter::try_new(&wanted).map_err(|error| {
        Failure::Usage(format!("ORBWEAVER_LOG is `{wanted}`: {error}; give a level or a filter, such as `{default}`"))
    })
}

#[cfg(test)]
mod tests {
    use super::colors;

    #[test]
    fn a_log_is_coloured_only_on_a_terminal_that_does_not_refuse_colours() {
        for (terminal, no_color, expected) in
            [(true, false, true), (true, true, false), (false, false, false), (false, true, false)]
        {
            assert_eq!(colors(terminal, no_color), expected, "terminal: {terminal}, NO_COLOR: {no_color}");
        }
    }
}
