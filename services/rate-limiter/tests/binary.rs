//! Tests of the binary that need no servers. Cargo builds it only for a test like this one.
#![cfg(feature = "cluster")]
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::process::Command;

#[test]
fn the_configuration_that_applies_is_shown_with_its_origins_and_nothing_is_started() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orbweaver-rate-limiter"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ORBWEAVER_")) {
        command.env_remove(name);
    }
    let output = command.args(["--brokers", "kafka.example:9092", "--check-config"]).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{shown}");
    assert!(shown.contains("brokers = [\"kafka.example:9092\"]  # --brokers\n"), "{shown}");
    assert!(shown.contains("\n[rate_limiter]\n"), "{shown}");
}
