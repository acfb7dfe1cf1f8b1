//! Reports on small results, and on random ones in comparison with a computation in memory.

mod naive;

use std::{fs, path::Path};

use clap::Parser as _;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::cli::{Cli, Command};

/// Results of a crawl.
#[derive(Debug, Default, Clone)]
struct Crawl {
    urls: Vec<Value>,
    documents: Vec<Value>,
}

impl Crawl {
    fn ended(mut self, url: &str, outcome: &str, more: &Value) -> Self {
        let mut line = json!({"url": url, "outcome": outcome, "status": null, "via": null, "bytes": 0});
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.urls.push(line);
        self
    }

    fn page(mut self, url: &str, title: &str, links: &[&str]) -> Self {
        let links: Vec<_> = links.iter().map(|link| json!({"url": link, "text": "Text"})).collect();
        let site = url.split('/').nth(2);
        self.documents.push(json!({
            "url": url, "fetched_url": url, "redirects": [], "site": site, "title": title, "links": links,
        }));
        self.ended(url, "fetched", &json!({"status": 200}))
    }

    fn write(&self, dir: &Path) {
        let lines = |lines: &[Value]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        fs::write(dir.join("urls.jsonl"), lines(&self.urls)).unwrap();
        fs::write(dir.join("documents.jsonl"), lines(&self.documents)).unwrap();
    }
}

fn args(dir: &Path, options: &[&str]) -> LinksArgs {
    let arguments = ["orbweaver", "report", "links", dir.to_str().unwrap()];
    match Cli::parse_from(arguments.iter().chain(options)).command {
        Command::Report(ReportCommand::Links(args)) => args,
        _ => unreachable!("it is `report links`"),
    }
}

/// Returns the report on the results in a directory, and checks that no temporary file remains.
fn report_on(dir: &Path, options: &[&str]) -> Result<(String, Totals), ReportError> {
    let mut out = vec![];
    let result = report(&args(dir, options), &AtomicBool::new(false), &mut out);
    let remaining = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let remaining: Vec<_> = remaining.filter(|name| name.starts_with('.')).collect();
    assert!(remaining.is_empty(), "{remaining:?}");
    Ok((String::from_utf8(out).unwrap(), result?))
}

fn lines(crawl: &Crawl) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    crawl.write(dir.path());
    let (text, _) = report_on(dir.path(), &["--format", "jsonl"]).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn small() -> Crawl {
    Crawl::default()
        .page("http://a.test/", "Home", &["http://a.test/gone", "http://a.test/old", "http://elsewhere.test/"])
        .page("http://a.test/b", "Home", &["http://a.test/%67one", "http://a.test/moved"])
        .page("http://a.test/c", "", &[])
        .ended("http://a.test/gone", "gone", &json!({"reason": "http_404", "status": 404, "via": "http://a.test/"}))
        .ended("http://a.test/old", "redirected", &json!({"status": 301, "location": "http://a.test/gone"}))
        .ended("http://a.test/moved", "redirected", &json!({"status": 302, "location": "http://a.test/c"}))
        .ended("http://seed.test/", "gone", &json!({"reason": "dns"}))
        .ended("http://a.test/private", "refused", &json!({"reason": "robots"}))
        .ended("http://a.test/slow.pdf", "fetched", &json!({"status": 200, "bytes": 1234, "fetch_ms": 2000}))
        .ended("http://a.test/slower", "unchanged", &json!({"status": 304, "fetch_ms": 12_345}))
        .ended("http://a.test/quick", "fetched", &json!({"status": 200, "fetch_ms": 1999}))
        .ended("http://elsewhere.test/", "fetched", &json!({"status": 200, "fetch_ms": 5000, "external": true}))
}

const SMALL: &str = r#"== Broken links ==

http://a.test/gone
    404, 2 links on 2 pages
        http://a.test/   "Text"
        http://a.test/b  "Text"  as http://a.test/%67one

http://a.test/old
    301 -> http://a.test/gone
    404 after 1 redirect, 1 link on 1 page
        http://a.test/  "Text"

http://seed.test/
    dns, no page links to it

== Redirects ==

http://a.test/moved
    302 -> http://a.test/c
    200 after 1 redirect, 1 link on 1 page

http://a.test/old
    301 -> http://a.test/gone
    404 after 1 redirect, 1 link on 1 page

== Titles ==

no title, a.test
    http://a.test/c

"Home", a.test
    http://a.test/
    http://a.test/b

== Slow pages ==

http://a.test/slower
    12,345 ms, 304, 0 bytes

http://a.test/slow.pdf
    2,000 ms, 200, 1,234 bytes

== Summary ==

broken     3 URLs, 3 links
redirects  2 URLs, 2 links
titles     1 title on 2 pages, 1 page without a title
slow       2 pages
"#;

#[test]
fn the_text_has_all_sections_and_a_summary() {
    let dir = tempfile::tempdir().unwrap();
    small().write(dir.path());
    let (text, totals) = report_on(dir.path(), &[]).unwrap();
    assert_eq!(text, SMALL);
    assert_eq!((totals.broken, totals.broken_links, totals.redirects), (3, 3, 2));
    let slow = |least: &str| report_on(dir.path(), &["--only", "slow", "--slow", least]).unwrap().1.slow;
    assert_eq!(["1ms", "1999ms", "1min"].map(slow), [3, 3, 0]);
}

#[test]
fn a_section_is_the_same_alone_and_in_a_file() {
    let dir = tempfile::tempdir().unwrap();
    small().write(dir.path());
    let to = dir.path().join("reports/new");
    for (format, extension) in [("text", "txt"), ("csv", "csv"), ("jsonl", "jsonl")] {
        let (summary, _) = report_on(dir.path(), &["--format", format, "--to", to.to_str().unwrap()]).unwrap();
        assert!(SMALL.ends_with(&summary) && summary.starts_with("== Summary"), "{summary}");
        for section in Section::ALL.map(Section::name) {
            let (alone, _) = report_on(dir.path(), &["--format", format, "--only", section]).unwrap();
            let file = fs::read_to_string(to.join(format!("{section}.{extension}"))).unwrap();
            assert!(file.len() > 20 && alone.starts_with(&file), "{section}: {alone}\n{file}");
        }
    }
}

#[test]
fn a_table_needs_one_section_or_files_and_fail_needs_the_broken_ones() {
    for options in
        [&["--format", "csv"][..], &["--format", "csv", "--only", "broken,titles"], &["--fail", "--only", "titles"]]
    {
        let command = ReportCommand::Links(args(Path::new("."), options));
        assert_eq!(run(&command).unwrap_err().code(), 64, "{options:?}");
    }
}

#[test]
fn links_are_joined_under_the_policy_of_the_crawl() {
    let crawl = Crawl::default().page("http://a.test/", "Home", &["https://www.a.test/x?b=1&a=2"]).ended(
        "http://a.test/x?a=2&b=1",
        "gone",
        &json!({"reason": "http_410", "status": 410}),
    );
    let dir = tempfile::tempdir().unwrap();
    crawl.write(dir.path());
    let links = |options: &[&str]| report_on(dir.path(), options).unwrap().1.broken_links;
    assert_eq!((links(&[]), links(&["--canonical", "aggressive"])), (0, 1));
    fs::create_dir(dir.path().join("state")).unwrap();
    fs::write(dir.path().join("state/crawl.json"), r#"{"format": 2, "canonical": "aggressive/1"}"#).unwrap();
    assert_eq!(links(&[]), 1);
    let error = report_on(dir.path(), &["--canonical", "standard"]).unwrap_err();
    assert_eq!(Failure::from(error).code(), 64);
}

#[test]
fn only_the_last_visit_counts() {
    let mut crawl = Crawl::default()
        .page("http://a.test/", "Old", &["http://a.test/gone", "http://a.test/back"])
        .page("http://a.test/removed", "Old", &["http://a.test/gone"])
        .ended("http://a.test/gone", "gone", &json!({"reason": "http_404", "status": 404}))
        .ended("http://a.test/back", "gone", &json!({"reason": "http_500", "status": 500}))
        .page("http://a.test/", "New", &["http://a.test/gone", "http://a.test/gone"])
        .ended("http://a.test/back", "fetched", &json!({"status": 200}))
        .ended("http://a.test/removed", "gone", &json!({"reason": "http_410", "status": 410}));
    crawl.documents[2]["visit"] = json!(3);
    let lines = lines(&crawl);
    let rows: Vec<_> = lines.iter().map(|line| (line["url"].as_str(), line["page"].as_str())).collect();
    let (gone, page) = (Some("http://a.test/gone"), Some("http://a.test/"));
    assert_eq!(rows, [(gone, page), (gone, page), (Some("http://a.test/removed"), None)]);
}

#[test]
fn results_that_are_none_are_named_and_a_line_that_a_crawl_has_not_completed_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let error = report_on(dir.path(), &[]).unwrap_err();
    assert!(error.to_string().contains("urls.jsonl"), "{error}");
    assert_eq!(Failure::from(error).code(), 66);
    let none = args(&dir.path().join("none"), &[]);
    let error = report(&none, &AtomicBool::new(false), &mut vec![]).unwrap_err();
    assert_eq!(Failure::from(error).code(), 66);
    small().write(dir.path());
    let urls = fs::read_to_string(dir.path().join("urls.jsonl")).unwrap();
    fs::write(dir.path().join("urls.jsonl"), format!("{urls}{}", r#"{"url":"http://a.test/cut","outco"#)).unwrap();
    assert_eq!(report_on(dir.path(), &[]).unwrap().0, SMALL);
    for (file, line) in [
        ("urls.jsonl", r#"{"url":"http://a.test/cut","outco"#),
        ("urls.jsonl", r#"{"url":"http://a.test/","outcome":"vanished"}"#),
        ("documents.jsonl", r#"{"id":1,"text":"of another program"}"#),
        ("documents.jsonl", "\u{feff}"),
        ("urls.jsonl", r#"{"url":"","outcome":"gone"}"#),
    ] {
        small().write(dir.path());
        let good = fs::read_to_string(dir.path().join(file)).unwrap();
        fs::write(dir.path().join(file), format!("{good}{line}\n{good}")).unwrap();
        let error = report_on(dir.path(), &[]).unwrap_err();
        let expected = format!("{file}, line {}: ", good.lines().count() + 1);
        assert!(error.to_string().contains(&expected), "{error}");
        assert_eq!(Failure::from(error).code(), 66);
    }
}

#[test]
fn an_interrupted_report_removes_its_temporary_files() {
    let dir = tempfile::tempdir().unwrap();
    small().write(dir.path());
    let error = report(&args(dir.path(), &[]), &AtomicBool::new(true), &mut vec![]).unwrap_err();
    assert_eq!(Failure::from(error).code(), 75);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn a_directory_for_temporary_files_that_does_not_exist_is_named() {
    let dir = tempfile::tempdir().unwrap();
    small().write(dir.path());
    let error = report_on(dir.path(), &["--temp", "/nonexistent/dir"]).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/dir"), "{error}");
    assert_eq!(Failure::from(error).code(), 74);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_report_equals_a_computation_in_memory(crawl in naive::crawl()) {
        prop_assert_eq!(lines(&crawl), naive::lines(&crawl));
    }
}
