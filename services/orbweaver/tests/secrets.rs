//! Secrets for a cluster are in no output.
#![cfg(feature = "cluster")]
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::process::Command;

/// Runs `orbweaver status`; no broker is needed. Returns the exit code and all output.
fn status(options: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orbweaver"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ORBWEAVER_")) {
        command.env_remove(name);
    }
    command.args(["status", "--brokers", "127.0.0.1:9"]).args(options).envs(variables.iter().copied());
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

#[test]
fn a_secret_in_a_property_of_the_command_line_is_refused_and_not_repeated() {
    for key in [
        "sasl.password",
        "ssl.key.pem",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.assertion.private.key.passphrase",
    ] {
        let (code, said) = status(&["-X", &format!("{key}=hunter2")], &[]);
        assert_eq!(code, Some(64), "{said}");
        assert!(said.contains(key) && said.contains("_FILE") && !said.contains("hunter2"), "{said}");
    }
    for text in ["sasl.password:hunter2", "hunter2"] {
        let (code, said) = status(&["-X", text], &[]);
        assert_eq!(code, Some(64), "{said}");
        assert!(said.contains("KEY=VALUE") && !said.contains("hunter2"), "{said}");
    }
}

#[test]
fn a_misspelt_property_is_named_without_its_value() {
    let (code, said) = status(&[], &[("ORBWEAVER_KAFKA__PROPERTIES__SASL_PASSWORD", "hunter2")]);
    assert_eq!(code, Some(74), "{said}");
    assert!(said.contains("sasl_password") && !said.contains("hunter2"), "{said}");
    let (code, said) = status(&["-X", "sasl.pasword=hunter2"], &[]);
    assert_eq!(code, Some(74), "{said}");
    assert!(said.contains("sasl.pasword") && !said.contains("hunter2"), "{said}");
}
