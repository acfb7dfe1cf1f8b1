//! The gate's command. Cargo builds a program only for a test like this one.

#![allow(clippy::unwrap_used, reason = "a failed assumption fails the test")]

use std::process::Command;

#[test]
fn the_help_lists_the_options() {
    let output = Command::new(env!("CARGO_BIN_EXE_orbweaver-chaos-tests")).arg("--help").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && said.contains("--seed") && said.contains("--max-seconds"), "{said}");
}
