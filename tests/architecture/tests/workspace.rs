//! The workspace follows its own rules.

use std::path::{Path, PathBuf};

use orbweaver_architecture_tests::{
    Package, Prose, Protocol, arrows_that_point_up, dead_links, fields_named_as_log_keys, files_below, forbidden_names,
    libraries_of_others, metrics_without_alert, missing_tests, packages, root, too_long, unfinished,
};

fn none(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

fn own_packages() -> Vec<Package> {
    let packages = packages().unwrap_or_else(|error| panic!("{error}"));
    assert!(packages.len() >= 14, "cargo names {} packages", packages.len());
    packages
}

fn sources() -> Vec<(PathBuf, String)> {
    let files = ["crates", "services", "tests"].into_iter().flat_map(files_below);
    let rust = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let read: Vec<_> = rust
        .map(|path| {
            let text =
                std::fs::read_to_string(root().join(&path)).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            (path, text)
        })
        .collect();
    assert!(read.len() > 100, "{} source files were found", read.len());
    read
}

/// Returns the Markdown pages.
fn pages() -> Vec<(PathBuf, String)> {
    let dirs = ["charts", "crates", "docs", "examples", "k8s", "schemas", "services", "tests"]
        .into_iter()
        .flat_map(files_below);
    let pages = dirs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let pages = pages
        .chain(["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"].map(PathBuf::from));
    let read: Vec<_> =
        pages.filter_map(|path| Some((path.clone(), std::fs::read_to_string(root().join(path)).ok()?))).collect();
    assert!(read.len() > 50, "{} pages were found", read.len());
    read
}

#[test]
fn dependencies_point_down_and_services_do_not_know_each_other() {
    none(&arrows_that_point_up(&own_packages()));
}

#[test]
fn a_library_that_stands_for_an_effect_is_named_by_its_owner_alone() {
    none(&libraries_of_others(&own_packages()));
}

#[test]
fn no_source_file_is_longer_than_a_reader_can_hold() {
    none(&sources().iter().filter_map(|(path, text)| too_long(path, text)).collect::<Vec<_>>());
}

#[test]
fn every_directory_and_file_is_named_after_what_it_has() {
    none(&sources().iter().flat_map(|(path, _)| forbidden_names(path)).collect::<Vec<_>>());
}

#[test]
fn comments_messages_and_pages_are_in_plain_english() {
    let prose = Prose::new();
    let data = ["charts", "docs", "schemas", "k8s", "monitoring"].into_iter().flat_map(files_below);
    let data = data
        .filter(|path| path.extension().is_some_and(|kind| ["yaml", "yml", "tpl", "cql"].iter().any(|of| kind == *of)));
    // Grafana has a key of its own for a directory.
    let data = data.filter(|path| !path.starts_with("monitoring/grafana"));
    let data = data.filter_map(|path| Some((path.clone(), std::fs::read_to_string(root().join(path)).ok()?)));
    let files = sources().into_iter().chain(pages()).chain(data);
    // The patterns themselves, and the history, which is not rewritten.
    let files = files.filter(|(path, _)| !path.ends_with("prose.rs") && !path.ends_with("CHANGELOG.md"));
    none(&files.flat_map(|(path, text)| prose.banned(&path, &text)).collect::<Vec<_>>());
}

#[test]
fn every_package_with_a_program_has_integration_tests_since_cargo_builds_it_for_these_alone() {
    let without = own_packages().into_iter().filter(|package| {
        let dir = root().join(&package.dir);
        dir.join("src/main.rs").exists() && !dir.join("tests").is_dir()
    });
    none(&without.map(|package| package.name).collect::<Vec<_>>());
}

#[test]
fn nothing_is_left_to_be_done_later() {
    none(&sources().iter().flat_map(|(path, text)| unfinished(path, text)).collect::<Vec<_>>());
}

#[test]
fn no_field_of_a_log_line_hides_a_key_of_the_line() {
    none(&sources().iter().flat_map(|(path, text)| fields_named_as_log_keys(path, text)).collect::<Vec<_>>());
}

#[test]
fn a_rule_of_the_protocol_is_cited_by_its_name_and_has_a_test() {
    let protocol = Protocol::parse(&std::fs::read_to_string(root().join("docs/protocol.md")).unwrap_or_default());
    assert!(protocol.rules.len() > 20, "{:?}", protocol.rules);
    let sources = sources();
    let missing = protocol.missing_tests(sources.iter().map(|(_, text)| &**text));
    none(&missing.union(&protocol.untested).cloned().collect::<Vec<_>>());
    let files = sources.into_iter().chain(pages());
    none(&files.flat_map(|(path, text)| protocol.broken_links(&path, &text)).collect::<Vec<_>>());
}

#[test]
fn links_between_pages_lead_somewhere() {
    let read = |path: &Path| match std::fs::read_to_string(root().join(path)) {
        // A directory, or a picture.
        Err(_) if root().join(path).exists() => Some(String::new()),
        text => text.ok(),
    };
    none(&pages().iter().flat_map(|(path, text)| dead_links(path, text, read)).collect::<Vec<_>>());
}

#[test]
fn every_test_that_a_page_names_exists() {
    let read = |path: &Path| std::fs::read_to_string(root().join(path)).ok();
    none(&pages().iter().flat_map(|(path, text)| missing_tests(path, text, read)).collect::<Vec<_>>());
    let hostile = std::fs::read_to_string(root().join("docs/hostile.md")).unwrap_or_default();
    assert!(hostile.matches(".rs::").count() > 80, "the tests of docs/hostile.md were not found");
}

#[test]
fn every_metric_of_a_service_says_when_to_alert() {
    let services: Vec<Package> = own_packages()
        .into_iter()
        .filter(|package| package.dir.starts_with("services") && package.name != "orbweaver")
        .collect();
    assert!(services.len() >= 5);
    let mut findings = vec![];
    for service in services {
        let path = service.dir.join("src/metrics.rs");
        match std::fs::read_to_string(root().join(&path)) {
            Ok(text) => {
                let prefix = format!("{}_", service.name.replace('-', "_"));
                assert!(text.contains(&prefix), "{}: no metric was found", path.display());
                findings.extend(metrics_without_alert(&path, &text, &prefix));
            }
            Err(error) => findings.push(format!("{}: {error}", path.display())),
        }
    }
    none(&findings);
}

#[test]
fn every_package_says_what_it_is_and_takes_the_lints_of_the_workspace() {
    let mut findings = vec![];
    for package in own_packages() {
        let manifest = std::fs::read_to_string(root().join(&package.dir).join("Cargo.toml")).unwrap_or_default();
        if !manifest.contains("[lints]\nworkspace = true") {
            findings.push(format!("{}: the lints of the workspace are not taken", package.dir.display()));
        }
        let readme = root().join(&package.dir).join("README.md");
        if !package.dir.starts_with("tests") && !readme.exists() {
            findings.push(format!("{}: there is no README.md", package.dir.display()));
        }
        let entry = ["src/lib.rs", "src/main.rs"].map(|file| root().join(&package.dir).join(file));
        for entry in entry.iter().filter(|entry| entry.exists()) {
            let text = std::fs::read_to_string(entry).unwrap_or_default();
            if !text.starts_with("//!") {
                findings.push(format!("{}: it does not begin by saying what it is", short(entry).display()));
            }
        }
    }
    none(&findings);
}

fn short(path: &Path) -> PathBuf {
    path.strip_prefix(root()).unwrap_or(path).to_path_buf()
}
