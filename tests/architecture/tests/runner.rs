//! `tests/run` itself, in a scratch tree whose tools are stand-ins: a build that takes longer than the servers live.

#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Mutex, PoisonError},
};

use orbweaver_architecture_tests::root;

/// Builds for longer than [`LIFETIME`]; its tests on servers pass only while the servers live.
const CARGO: &str = r#"
case "$*" in
  *--no-run*) sleep 8 ;;
  *nextest*--run-ignored* | *--ignored*)
    (( EPOCHSECONDS < $(cat ends_at) )) || exit 1
    echo "test result: ok. 2 passed; 0 failed"
    echo "Summary 2 tests run: 2 passed" ;;
  *"test --workspace"*) echo "test result: ok. 3 passed; 0 failed" ;;
esac
"#;
/// Starts servers that live for their lifetime.
const STACK: &str = r#"
case "$1" in
  up)
    echo $((EPOCHSECONDS + ORBWEAVER_STACK_SECONDS)) >ends_at
    echo "export ORBWEAVER_TEST_KAFKA=127.0.0.1:9" ;;
  down) touch down ;;
esac
"#;
/// Lifetime of the servers in seconds: shorter than the build, longer than the tests on them.
const LIFETIME: &str = "7";

fn stand_in(path: &Path, body: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/usr/bin/env bash\n{body}")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Lays out the scratch tree.
fn tree() -> tempfile::TempDir {
    let scratch = tempfile::tempdir().unwrap();
    let runner: PathBuf = scratch.path().join("tests/run");
    fs::create_dir_all(runner.parent().unwrap()).unwrap();
    fs::copy(root().join("tests/run"), runner).unwrap();
    stand_in(&scratch.path().join("bin/cargo"), CARGO);
    stand_in(&scratch.path().join("tests/stack"), STACK);
    for tool in
        ["python3", "node", "java", "mvn", "wget2", "kcat", "jq", "zstd", "curl", "openssl", "perl", "make", "faketime"]
    {
        stand_in(&scratch.path().join("bin").join(tool), "");
    }
    for check in ["tests/corpora/fetch", "tests/chaos/run", "crates/url/tests/differential/run"] {
        stand_in(&scratch.path().join(check), "");
    }
    let counted = ["deployment", "monitoring", "handbook", "interface", "console", "release"]
        .map(|part| format!("tests/{part}/check"));
    for counted in counted {
        stand_in(&scratch.path().join(counted), "echo '1 passed'\n");
    }
    scratch
}

/// Held while files are written and a process starts: a process that another test starts meanwhile inherits the open files,
/// and these cannot be run while it has them ("text file busy").
static STARTS: Mutex<()> = Mutex::new(());

/// Runs `tests/run` in a scratch tree.
fn run(stack_seconds: &str) -> (tempfile::TempDir, Output) {
    let (scratch, runner) = {
        let _alone = STARTS.lock().unwrap_or_else(PoisonError::into_inner);
        let scratch = tree();
        let runner = start(scratch.path(), stack_seconds);
        (scratch, runner)
    };
    (scratch, runner.wait_with_output().unwrap())
}

fn start(scratch: &Path, stack_seconds: &str) -> Child {
    let tools = format!("{}:/usr/local/bin:/usr/bin:/bin", scratch.join("bin").display());
    Command::new(scratch.join("tests/run"))
        .current_dir(scratch)
        .env("PATH", tools)
        .env("HOME", scratch)
        .env("ORBWEAVER_NO_INSTALL", "1")
        .env("ORBWEAVER_STACK_SECONDS", stack_seconds)
        .env_remove("ORBWEAVER_WITHOUT_SERVERS")
        .env_remove("ORBWEAVER_WITHOUT_CORPORA")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn servers_outlive_a_build_that_takes_longer_than_they_live() {
    let (scratch, ended) = run(LIFETIME);
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{said}\n{}", String::from_utf8_lossy(&ended.stderr));
    assert!(said.trim_end().ends_with(" 0 failed"), "{said}");
    assert!(said.contains("ok. 2 passed"), "the tests on servers did not run:\n{said}");
    assert!(scratch.path().join("down").exists(), "the servers were not stopped");
}

#[test]
fn each_step_prints_its_seconds() {
    let said = String::from_utf8(run(LIFETIME).1.stdout).unwrap();
    let steps: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("== ")).collect();
    assert!(steps.len() > 10, "{said}");
    for step in steps {
        let seconds = |line: &str| line.starts_with("-- ") && line.ends_with(&format!(" s: {step}"));
        assert!(said.lines().any(seconds), "{step} has no seconds:\n{said}");
    }
    assert!(said.contains(" s: servers' files"), "{said}");
}

#[test]
fn a_test_that_fails_on_servers_fails_the_run() {
    // The servers end at once.
    let (_, ended) = run("0");
    assert!(!ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
}
