//! Recovery from a killed process and from a full disk. Each test starts this same binary as a child process, which
//! runs one of the ignored tests.

#![allow(clippy::unwrap_used, reason = "the functions that tests share are tests, too")]

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use orbweaver_store::contract::{long_links, page};
use orbweaver_store::{FjallOptions, FjallStore, Store, Write};
use orbweaver_url::{CrawlName, Fingerprint};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const DIR: &str = "ORBWEAVER_STORE_TEST_DIR";

fn tiny() -> FjallOptions {
    FjallOptions { memtable_bytes: 1 << 20, block_cache_bytes: 1 << 20 }
}

fn fingerprint(number: u64) -> Fingerprint {
    Fingerprint::of(&CrawlName::default(), &number.to_string())
}

fn writes(number: u64) -> Vec<Write> {
    let (page, links) = (page(fingerprint(number), 1000), long_links(fingerprint(number), 1000, 1));
    vec![Write::Page { crawl: CrawlName::default(), row: Box::new(page) }, Write::Links(links)]
}

/// Starts the ignored test `name` of this binary. There, a write beyond a file size limit is an error, not a signal.
fn child(name: &str, dir: &Path) -> Child {
    let script = r#"trap "" XFSZ; exec "$0" "$@""#;
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(DIR, dir).stdout(Stdio::piped()).spawn().unwrap()
}

#[tokio::test]
async fn a_killed_process_loses_nothing_that_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut before = 0;
    for round in 0..3 {
        let mut child = child("writes_until_killed", dir.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let number =
            |line: String| line.trim().strip_prefix("acknowledged ").map(|number| number.parse::<u64>().unwrap());
        let enough = before + 400 + 333 * round;
        let mut acknowledged = lines.by_ref().filter_map(number).find(|number| *number >= enough).unwrap();
        child.kill().unwrap();
        acknowledged = lines.filter_map(number).last().unwrap_or(acknowledged);
        child.wait().unwrap();
        let store = FjallStore::open(dir.path(), tiny()).unwrap();
        for number in 0..=acknowledged {
            assert!(store.page(fingerprint(number)).await.unwrap().is_some(), "round {round}: page {number}");
            assert!(store.links(fingerprint(number)).await.unwrap().is_some(), "round {round}: links {number}");
        }
        before = acknowledged;
    }
}

/// Child of the test above: continues where the store ends.
#[tokio::test]
#[ignore = "started by a_killed_process_loses_nothing_that_was_acknowledged"]
async fn writes_until_killed() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let store = FjallStore::open(dir, tiny()).unwrap();
    for number in 0.. {
        if store.page(fingerprint(number)).await.unwrap().is_none() {
            store.write(writes(number)).await.unwrap();
        }
        // One call, so that a line is printed completely or not at all.
        std::io::stdout().write_all(format!("acknowledged {number}\n").as_bytes()).unwrap();
    }
}

#[test]
fn a_full_disk_is_a_clear_error_and_the_store_goes_on_when_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let output = child("writes_until_the_disk_is_full_and_then_on", dir.path()).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("resumed"), "{text}");
}

/// Child of the test above. A limit on the file size of this process simulates a full disk.
#[tokio::test]
#[ignore = "started by a_full_disk_is_a_clear_error_and_the_store_goes_on_when_there_is_room"]
async fn writes_until_the_disk_is_full_and_then_on() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let store = FjallStore::open(dir, tiny()).unwrap();
    let unlimited = getrlimit(Resource::Fsize);
    let limit = Rlimit { current: Some(600_000), maximum: unlimited.maximum };
    setrlimit(Resource::Fsize, limit).unwrap();
    let mut acknowledged = 0;
    let error = loop {
        match store.write(writes(acknowledged)).await {
            Ok(()) => acknowledged += 1,
            Err(error) => break error.to_string(),
        }
    };
    assert!(acknowledged > 10, "{acknowledged} pages were written");
    assert!(error.contains("the disk is full") && error.contains("free some space"), "{error}");
    for _ in 0..3 {
        let error = store.write(writes(acknowledged)).await.unwrap_err().to_string();
        assert!(error.contains("full"), "{error}");
    }
    setrlimit(Resource::Fsize, unlimited).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while let Err(error) = store.write(writes(acknowledged)).await {
        assert!(Instant::now() < deadline, "{error}");
    }
    for number in 0..=acknowledged {
        assert!(store.page(fingerprint(number)).await.unwrap().is_some(), "page {number} of {acknowledged}");
        assert!(store.links(fingerprint(number)).await.unwrap().is_some(), "links {number} of {acknowledged}");
    }
    println!("resumed");
}
