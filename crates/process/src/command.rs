//! Command line of a service.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    path::PathBuf,
};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, error::ErrorKind};

use crate::{ExitReason, version::VERSION_AND_GIT};

const AFTER_HELP: &str = "\
Flags override the environment (ORBWEAVER_SECTION__KEY), the environment the file, and the file the defaults.
--list-config describes every key.

Exit codes: 0 ended by SIGTERM or SIGINT with everything committed, 64 usage error, 70 panic, 74 log or store failed,
75 halted, stalled or ended with unfinished work (a restart resumes it), 78 invalid configuration.";

/// Name and purpose of the binary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
}

/// The options, as clap reads them.
#[derive(Debug, Parser)]
#[command(version = VERSION_AND_GIT, after_help = AFTER_HELP, max_term_width = 110)]
struct Options {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Sets a key that is not secret (may be repeated)
    // Parsed later: an error of clap repeats the text, which may be a secret.
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// Brokers for the first connection, as HOST:PORT[,HOST:PORT…]
    #[arg(long, value_name = "ADDRESS")]
    brokers: Option<String>,
    /// Nodes of the store for the first connection, as HOST:PORT[,HOST:PORT…]
    #[arg(long, value_name = "ADDRESS")]
    cql: Option<String>,
    /// IP address and port of /livez, /readyz and /metrics
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Prints the effective configuration with the origin of each value, and exits
    #[arg(long)]
    check_config: bool,
    /// Prints whether the service that runs with this configuration on this machine is ready, and exits: 0 if it is, 75 if not,
    /// 74 without an answer
    #[arg(long, conflicts_with_all = ["check_config", "list_config"])]
    probe: bool,
    /// Prints every key with its default and allowed values, and exits
    #[arg(long)]
    list_config: bool,
}

/// Parsed command line of a service.
#[derive(Debug, Default)]
pub(crate) struct Command {
    /// `--config`.
    pub(crate) file: Option<PathBuf>,
    /// Flags that set keys, as (flag, key, value).
    pub(crate) flags: Vec<(&'static str, String, String)>,
    pub(crate) check_config: bool,
    pub(crate) probe: bool,
    pub(crate) list_config: bool,
}

impl Command {
    /// Parses the command line. Help, version and usage errors are printed before this returns `Err`.
    pub(crate) fn read(program: Program, arguments: impl IntoIterator<Item = OsString>) -> Result<Self, ExitReason> {
        Self::parse(program, arguments).map_err(|error| {
            let _ = error.print();
            if error.use_stderr() { ExitReason::Usage } else { ExitReason::Success }
        })
    }

    fn parse(program: Program, arguments: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut command = Options::command().name(program.name).about(program.about);
        let options = Options::from_arg_matches(&command.try_get_matches_from_mut(arguments)?)?;
        let wrong = "--set must be SECTION.KEY=VALUE";
        let flags = options.set.iter().map(|text| key_value(text)).collect::<Option<Vec<_>>>();
        let mut flags = flags.ok_or_else(|| command.error(ErrorKind::ValueValidation, wrong))?;
        // After `--set`: the more specific flag wins.
        for (flag, key, value) in [
            ("--brokers", "kafka.brokers", options.brokers),
            ("--cql", "cql.nodes", options.cql),
            ("--listen", "http.listen", options.listen),
        ] {
            flags.extend(value.map(|value| (flag, key.to_owned(), value)));
        }
        let Options { config: file, check_config, probe, list_config, .. } = options;
        Ok(Self { file, flags, check_config, probe, list_config })
    }
}

/// Parses the text of a `--set` as (flag, key, value).
fn key_value(text: &str) -> Option<(&'static str, String, String)> {
    let (key, value) = text.split_once('=').filter(|(key, _)| key.contains('.'))?;
    Some(("--set", key.trim().to_owned(), value.to_owned()))
}

/// Prints a text to stdout, ignoring errors such as a closed pipe.
pub(crate) fn print(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: Program = Program { name: "orbweaver-fetcher", about: "" };

    fn read(arguments: &[&str]) -> Result<Command, ExitReason> {
        Command::read(PROGRAM, ["orbweaver-fetcher"].iter().chain(arguments).map(OsString::from))
    }

    #[test]
    fn flags_are_keys_and_those_of_their_own_win() {
        let command = read(&["--set", "kafka.brokers=a:1", "--brokers", "b:2", "--set", "log.level=a=b"]).unwrap();
        let flags: Vec<_> = command.flags.iter().map(|(_, key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(flags, [("kafka.brokers", "a:1"), ("log.level", "a=b"), ("kafka.brokers", "b:2")]);
        assert!(!command.check_config && command.file.is_none());
    }

    #[test]
    fn a_wrong_command_line_is_usage_and_help_is_not() {
        assert_eq!(read(&["--brokrs", "x"]).unwrap_err(), ExitReason::Usage);
        assert_eq!(read(&["--set", "brokers=x"]).unwrap_err(), ExitReason::Usage);
        assert_eq!(read(&["--help"]).unwrap_err(), ExitReason::Success);
        assert_eq!(read(&["--version"]).unwrap_err(), ExitReason::Success);
    }

    #[test]
    fn a_malformed_key_is_refused_without_repeating_what_may_be_a_secret() {
        let arguments = ["orbweaver-fetcher", "--set", "password=hunter2"].map(OsString::from);
        let said = Command::parse(PROGRAM, arguments).unwrap_err().to_string();
        assert!(said.contains("--set must be SECTION.KEY=VALUE") && !said.contains("hunter2"), "{said}");
    }
}
