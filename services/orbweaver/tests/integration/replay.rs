//! `orbweaver replay` admits each URL exactly once, even if the process is killed repeatedly.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

/// Number of times that the process is killed.
const KILLS: u64 = 20;
/// New URLs that may be in flight to `crawl.seen` while they are in `crawl.frontier` already: those of one plan batch
/// and of the one that starts while it completes, of all polls of one loop iteration.
const IN_FLIGHT: u64 = 20_000;
const URLS: u64 = 300_000;

fn replay(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orbweaver"));
    command.arg("replay").args(arguments);
    command
}

fn figures(command: &mut Command) -> Value {
    let output = command.output().expect("the command");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("figures")
}

#[test]
fn each_url_passes_exactly_once_on_any_number_of_partitions_and_instances() {
    for (partitions, instances, repeat) in [("1", "1", "0.65"), ("4", "2", "0.9"), ("2", "1", "0")] {
        let arguments = ["--urls", "60000", "--partitions", partitions, "--instances", instances, "--repeat", repeat];
        let figures = figures(&mut replay(&arguments));
        assert_eq!(figures["urls"], 60_000);
        assert_eq!((&figures["false_positives"], &figures["false_negatives"]), (&Value::from(0), &Value::from(0)));
        assert_eq!(figures["accuracy"], 1.0);
        assert!(figures["disk_bytes_per_url"].as_f64().unwrap() > 20.0, "the log holds the seen URLs");
    }
}

/// Starts the replay, and kills it after `wait` unless it has ended. Returns whether it was killed.
fn kill_after(out: &Path, wait: Duration) -> bool {
    let mut child = replay(&["--urls", &URLS.to_string(), "--out", out.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command");
    let deadline = Instant::now() + wait;
    while Instant::now() < deadline {
        if child.try_wait().expect("the child").is_some() {
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(2));
    }
    child.kill().expect("SIGKILL");
    child.wait().expect("the child");
    true
}

#[test]
fn killed_at_twenty_moments_it_loses_nothing_and_repeats_at_most_what_was_in_flight() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("replay");
    let mut random = u64::from(std::process::id());
    let mut kills = 0;
    for _ in 0..KILLS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        kills += u64::from(kill_after(&out, Duration::from_millis(20 + (random >> 33) % 400)));
    }
    let figures = figures(&mut replay(&["--urls", &URLS.to_string(), "--out", out.to_str().unwrap()]));
    assert!(kills > 0, "it was never killed on its way");
    assert_eq!(figures["resumed"], true);
    assert_eq!(figures["false_positives"], 0, "nothing is lost");
    let twice = figures["false_negatives"].as_u64().unwrap();
    println!("{kills} kills, {twice} of {} URLs passed twice", figures["distinct"]);
    assert!(twice <= kills * IN_FLIGHT, "{twice} passed twice");
}
