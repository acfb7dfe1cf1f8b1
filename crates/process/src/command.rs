//! Command line of a service.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    path::PathBuf,
};

use clap::{Arg, ArgAction, ArgMatches, Command as Clap, error::ErrorKind};

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

/// Parsed command line of a service.
#[derive(Debug, Default)]
pub(crate) struct Command {
    /// `--config`.
    pub(crate) file: Option<PathBuf>,
    /// Flags that set keys, as (flag, key, value).
    pub(crate) flags: Vec<(&'static str, String, String)>,
    pub(crate) check_config: bool,
    pub(crate) list_config: bool,
}

/// Dedicated flags for the most common keys; all others use `--set`.
const FLAGS: [(&str, &str, &str, &str); 3] = [
    ("--brokers", "brokers", "kafka.brokers", "Brokers for the first connection, as HOST:PORT[,HOST:PORT…]"),
    ("--cql", "cql", "cql.nodes", "Nodes of the store for the first connection, as HOST:PORT[,HOST:PORT…]"),
    ("--listen", "listen", "http.listen", "IP address and port of /livez, /readyz and /metrics"),
];

impl Command {
    /// Parses the command line. Help, version and usage errors are printed before this returns `Err`.
    pub(crate) fn read(program: Program, arguments: impl IntoIterator<Item = OsString>) -> Result<Self, ExitReason> {
        Self::parse(program, arguments).map_err(|error| {
            let _ = error.print();
            if error.use_stderr() { ExitReason::Usage } else { ExitReason::Success }
        })
    }

    fn parse(program: Program, arguments: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut command = clap(program);
        let matches = command.try_get_matches_from_mut(arguments)?;
        let wrong = "--set must be SECTION.KEY=VALUE";
        Self::of(&matches).ok_or_else(|| command.error(ErrorKind::ValueValidation, wrong))
    }

    /// Returns `None` if a `--set` is malformed.
    fn of(matches: &ArgMatches) -> Option<Self> {
        let texts = matches.get_many::<String>("set").into_iter().flatten();
        let mut flags = texts.map(|text| key_value(text)).collect::<Option<Vec<_>>>()?;
        // After `--set`: the more specific flag wins.
        for (flag, id, key, _) in FLAGS {
            flags.extend(matches.get_one::<String>(id).map(|value| (flag, key.to_owned(), value.clone())));
        }
        Some(Self {
            file: matches.get_one("config").cloned(),
            flags,
            check_config: matches.get_flag("check-config"),
            list_config: matches.get_flag("list-config"),
        })
    }
}

/// Parses the text of a `--set` as (flag, key, value). Not a value parser of clap, whose errors repeat the text, which
/// may be a secret.
fn key_value(text: &str) -> Option<(&'static str, String, String)> {
    let (key, value) = text.split_once('=').filter(|(key, _)| key.contains('.'))?;
    Some(("--set", key.trim().to_owned(), value.to_owned()))
}

fn clap(Program { name, about }: Program) -> Clap {
    let path = || clap::builder::PathBufValueParser::new();
    let flag = |id: &'static str, help| Arg::new(id).long(id).action(ArgAction::SetTrue).help(help);
    let mut command = Clap::new(name)
        .version(VERSION_AND_GIT)
        .about(about)
        .after_help(AFTER_HELP)
        .max_term_width(110)
        .arg(
            Arg::new("config").long("config").value_name("FILE").value_parser(path()).help("Configuration file (TOML)"),
        )
        .arg(
            Arg::new("set")
                .long("set")
                .value_name("SECTION.KEY=VALUE")
                .action(ArgAction::Append)
                .help("Sets a key that is not secret (may be repeated)"),
        );
    for (_, id, _, help) in FLAGS {
        command = command.arg(Arg::new(id).long(id).value_name("ADDRESS").help(help));
    }
    command
        .arg(flag("check-config", "Prints the effective configuration with the origin of each value, and exits"))
        .arg(flag("list-config", "Prints every key with its default and allowed values, and exits"))
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
