//! Secrets are in no argument and no output.

use std::path::Path;

use super::command_line::program;

/// Runs `orbweaver` in a directory. Returns the exit code and all output.
fn run(arguments: &[&str], variables: &[(&str, &str)], dir: &Path) -> (Option<i32>, String) {
    let mut command = program(env!("CARGO_BIN_EXE_orbweaver"));
    let output = command.args(arguments).envs(variables.iter().copied()).current_dir(dir).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

/// Runs `orbweaver status`; no broker is needed.
#[cfg(feature = "cluster")]
fn status(options: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    run(&[&["status", "--brokers", "127.0.0.1:9"], options].concat(), variables, Path::new("."))
}

#[test]
fn a_secret_in_a_header_of_the_command_line_is_refused_and_not_repeated() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["Authorization", "cookie", "Proxy-Authorization", "X-Api-Key"] {
        let header = format!("{name}: hunter2");
        for arguments in [&["--header", &*header], &["--demo", &*format!("--header={header}")]] {
            let arguments = [&["crawl", "http://example.org/"], &arguments[..]].concat();
            let (code, said) = run(&arguments, &[], dir.path());
            assert_eq!(code, Some(64), "{said}");
            assert!(said.contains(name) && said.contains("--header @FILE") && !said.contains("hunter2"), "{said}");
        }
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is created");
}

#[cfg(feature = "cluster")]
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

#[cfg(feature = "cluster")]
#[test]
fn a_misspelt_property_is_named_without_its_value() {
    let (code, said) = status(&[], &[("ORBWEAVER_KAFKA__PROPERTIES__SASL_PASSWORD", "hunter2")]);
    assert_eq!(code, Some(74), "{said}");
    assert!(said.contains("sasl_password") && !said.contains("hunter2"), "{said}");
    let (code, said) = status(&["-X", "sasl.pasword=hunter2"], &[]);
    assert_eq!(code, Some(74), "{said}");
    assert!(said.contains("sasl.pasword") && !said.contains("hunter2"), "{said}");
}
