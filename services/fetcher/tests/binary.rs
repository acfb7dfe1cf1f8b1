//! Tests of the binary that need no servers.
#![cfg(feature = "cluster")]
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::process::{Command, Output};

fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    command(arguments, variables).output().unwrap()
}

fn command(arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orbweaver-fetcher"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ORBWEAVER_")) {
        command.env_remove(name);
    }
    command.args(arguments).envs(variables.iter().copied());
    command
}

const SERVERS: [&str; 4] = ["--brokers", "kafka.example:9092", "--set", "cql.nodes=cql.example:9042"];

#[test]
fn a_wrong_configuration_ends_with_78_and_names_every_fault() {
    let output = run(
        &["--set", "log.format=xml"],
        &[("ORBWEAVER_FETCHER__CONNECT_TIMEOUT", "31s"), ("ORBWEAVER_HTTP__PORT", "1")],
    );
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(78), "{said}");
    for part in [
        "fetcher.connect_timeout = \"31s\" (from ORBWEAVER_FETCHER__CONNECT_TIMEOUT): allowed: more than 0 and at most 20s",
        "http.port (from ORBWEAVER_HTTP__PORT): there is no such key in [http]",
        "log.format = \"xml\" (from --set): allowed: `json` or `text`",
        "kafka.brokers: it is not set",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
}

#[test]
fn a_log_that_cannot_be_written_does_not_change_the_exit_code() {
    for (setting, code) in [("log.format=xml", 78), ("log.format=json", 78), ("http.listen=192.0.2.1:1", 74)] {
        let servers: &[&str] = if code == 78 { &[] } else { &SERVERS };
        let (_, closed) = std::io::pipe().unwrap();
        let arguments = [servers, &["--set", setting]].concat();
        let status = command(&arguments, &[]).stderr(closed).status().unwrap();
        assert_eq!(status.code(), Some(code), "{setting}");
    }
}

#[test]
fn a_partition_that_moves_is_drained_for_as_long_as_a_request_may_take_or_nothing_starts() {
    let check = |more: &[&str]| run(&[&SERVERS[..], &["--check-config"], more].concat(), &[]);
    let output = check(&["--set", "fetcher.request_timeout=30s"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(78), "{said}");
    assert!(said.contains("runtime.drain_budget"), "{said}");
    assert!(said.contains("allowed: at least 30s, as much as `fetcher.request_timeout`"), "{said}");
    let output = check(&["--set", "fetcher.request_timeout=30s", "--set", "runtime.drain_budget=30s"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stdout).unwrap().contains("\n[fetcher]\n"));
}
