//! Exports at the end of a crawl, of the real command.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
};

use serde_json::Value;

use super::command_line::program;

/// A working directory with the crawl `demo` of the demonstration web.
struct Demo {
    dir: tempfile::TempDir,
}

impl Demo {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs the crawl with these options; returns its exit code and what it printed.
    fn crawl(&self, options: &[&str]) -> (Option<i32>, String) {
        let base = ["crawl", "--demo", "--rate", "unlimited", "--out", "demo"];
        let mut command = program(env!("CARGO_BIN_EXE_orbweaver"));
        let Output { status, stderr, .. } =
            command.args(base).args(options).current_dir(self.dir.path()).output().unwrap();
        (status.code(), String::from_utf8(stderr).unwrap())
    }

    /// Returns the manifest of an export, whose counts are those of the results of the crawl.
    fn exported(&self, to: &str) -> Value {
        let manifest: Value = serde_json::from_slice(&fs::read(self.path(to).join("manifest.json")).unwrap()).unwrap();
        let records = |kind: &str| -> u64 {
            let shards = manifest["kinds"][kind]["shards"].as_array().unwrap();
            shards.iter().map(|shard| shard["records"].as_u64().unwrap()).sum()
        };
        let documents = lines(&self.path("demo/documents.jsonl"));
        let links: usize = documents.iter().map(|document| document["links"].as_array().map_or(0, Vec::len)).sum();
        let pages = lines(&self.path("demo/urls.jsonl"));
        assert!(documents.len() > 1 && links > 1 && pages.len() > 1);
        let expected = [documents.len(), links, pages.len()].map(|count| count as u64);
        assert_eq!(["documents", "links", "pages"].map(records), expected);
        manifest
    }
}

fn lines(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_crawl_that_ends_exports_all_results_and_each_run_those_that_are_new() {
    let demo = Demo::new();
    let (code, printed) = demo.crawl(&["--max-pages", "3", "--export"]);
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("export: demo/shards\n  documents  3 records in 1 shard"), "{printed}");
    let at_cap = demo.exported("demo/shards");

    // Resumed, to the end of the crawl.
    let (code, printed) = demo.crawl(&["--max-pages", "none", "--export"]);
    assert_eq!(code, Some(0), "{printed}");
    let whole = demo.exported("demo/shards");
    let shards = |manifest: &Value| manifest["kinds"]["documents"]["shards"].as_array().unwrap().clone();
    assert!(shards(&whole).len() > 1 && shards(&whole).starts_with(&shards(&at_cap)), "{whole}");

    // Complete: nothing is crawled, and all is exported elsewhere.
    let (code, printed) = demo.crawl(&["--export=elsewhere"]);
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("nothing left to do\nexport: elsewhere\n"), "{printed}");
    demo.exported("elsewhere");
    assert!(demo.crawl(&["--export"]).1.contains("nothing new"));
    assert_eq!(demo.exported("demo/shards"), whole);
}

#[test]
fn a_crawl_that_is_stopped_before_its_end_is_not_exported() {
    let demo = Demo::new();
    let (code, printed) = demo.crawl(&["--max-time", "0s", "--export"]);
    assert_eq!(code, Some(75), "{printed}");
    assert!(!demo.path("demo/shards").exists());
}

#[test]
fn a_destination_that_cannot_be_used_is_refused_before_the_crawl_begins() {
    let demo = Demo::new();
    fs::create_dir(demo.path("other")).unwrap();
    fs::write(demo.path("other/notes.txt"), "of another program").unwrap();
    for (option, code, expected) in [
        ("--export=other", 73, "--export: other: it is not empty and has no export; give another destination"),
        ("--export=demo", 64, "--export: demo has or will have files of the crawl itself"),
        ("--export=demo/state/a", 64, "--export: demo/state/a has or will have files of the crawl itself"),
        ("--export=gs://results/a", 64, "not `gs://`"),
    ] {
        let (found, printed) = demo.crawl(&[option]);
        assert_eq!(found, Some(code), "{option}: {printed}");
        assert!(printed.contains(expected), "{option}: {printed}");
        assert!(!demo.path("demo").exists(), "{option}");
    }
    assert_eq!(fs::read_dir(demo.path("other")).unwrap().count(), 1);
}

#[test]
fn an_export_that_fails_leaves_a_crawl_that_has_ended_and_names_the_command_that_exports_it() {
    let demo = Demo::new();
    fs::write(demo.path("file"), "").unwrap();
    let (code, printed) = demo.crawl(&["--max-pages", "3", "--export=file/shards"]);
    assert_eq!(code, Some(73), "{printed}");
    let ended = "\nthe crawl itself has ended; `orbweaver export demo --to file/shards` exports its results\n";
    assert!(printed.contains("3 pages") && printed.ends_with(ended), "{printed}");
    // Once the cause is fixed.
    fs::remove_file(demo.path("file")).unwrap();
    let (code, printed) = demo.crawl(&["--max-pages", "3", "--export=file/shards"]);
    assert_eq!(code, Some(0), "{printed}");
    demo.exported("file/shards");
}

#[cfg(feature = "cluster")]
#[test]
fn on_a_cluster_an_export_requires_collected_results() {
    let demo = Demo::new();
    let arguments = ["crawl", "http://example.org/", "--brokers", "127.0.0.1:9", "--export=out"];
    let output =
        program(env!("CARGO_BIN_EXE_orbweaver")).args(arguments).current_dir(demo.dir.path()).output().unwrap();
    let printed = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64), "{printed}");
    assert!(printed.contains("--export requires --out"), "{printed}");
}
