//! Vectors of other implementations: each row passes unless it is listed in `expected_failures.jsonl`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{collections::BTreeMap, ops::ControlFlow};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use orbweaver_sitemaps::{Format, milliseconds, read, sniff};
use serde_json::Value;

fn rows(file: &str) -> Vec<Value> {
    let path = format!("tests/vectors/{file}");
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Runs the rows of a file, and compares the failures with the list.
fn run(file: &str, count: usize, check: impl Fn(&Value) -> Result<(), String>) {
    let mut expected: BTreeMap<u64, String> = rows("expected_failures.jsonl")
        .iter()
        .filter(|row| row["file"] == file)
        .map(|row| (row["line"].as_u64().unwrap(), row["reason"].as_str().unwrap().to_owned()))
        .collect();
    let rows = rows(file);
    assert_eq!(rows.len(), count);
    let mut wrong = vec![];
    for (line, row) in (1..).zip(&rows) {
        match (check(row), expected.remove(&line)) {
            (Ok(()), None) | (Err(_), Some(_)) => {}
            (Ok(()), Some(reason)) => wrong.push(format!("{file}:{line} passes, and is listed: {reason}")),
            (Err(failure), None) => wrong.push(format!("{file}:{line}: {failure}")),
        }
    }
    wrong.extend(expected.keys().map(|line| format!("{file}:{line} is listed, and does not exist")));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn same<T: PartialEq + std::fmt::Debug>(name: &str, found: &T, expected: &T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{name}: {found:?} instead of {expected:?}")) }
}

/// Returns the milliseconds of a date of a vector: a day or a time in UTC.
fn time(expected: &Value) -> Option<i64> {
    let date = expected.as_str()?;
    let time = if date.contains('T') { date.to_owned() } else { format!("{date}T00:00:00Z") };
    Some(time.parse::<jiff::Timestamp>().unwrap().as_millisecond())
}

fn check_sitemap(row: &Value) -> Result<(), String> {
    let body = match row["content_b64"].as_str() {
        Some(text) => STANDARD.decode(text).unwrap(),
        None => row["content"].as_str().unwrap().as_bytes().to_vec(),
    };
    let mut entries = vec![];
    let mut are_sitemaps = true;
    let report = read(&body, |entry| {
        // The suites report translations apart from the list of URLs.
        if !entry.is_alternate {
            are_sitemaps &= entry.is_sitemap;
            entries.push((entry.url.into_owned(), entry.modified_ms));
        }
        ControlFlow::Continue(())
    });
    let report = match (report, row.get("expected_error")) {
        (Ok(report), None) => report,
        (Ok(report), Some(_)) => return Err(format!("no error: {report:?}")),
        (Err(_), Some(_)) => return Ok(()),
        (Err(error), None) => return Err(error.to_string()),
    };
    let expected = row["expected_urls"].as_array().unwrap();
    let expected: Vec<_> = expected.iter().map(|url| url.as_str().unwrap().to_owned()).collect();
    same("URLs", &entries.iter().map(|(url, _)| url.clone()).collect(), &expected)?;
    let index = row["index"].as_bool().unwrap();
    same("index", &(report.format == Format::Index), &index)?;
    same("entries of the index", &are_sitemaps, &(index || entries.is_empty()))?;
    same("sniffed format", &sniff(&body), &Some(report.format))?;
    if let Some(kind) = row["type"].as_str() {
        let name = match report.format {
            Format::Sitemap => "XML",
            Format::Index => "INDEX",
            Format::Text => "TEXT",
            Format::Rss => "RSS",
            Format::Atom => "ATOM",
            Format::JsonFeed => "JSON",
        };
        same("type", &name, &kind)?;
    }
    for ((url, modified), entry) in entries.iter().zip(row["entries"].as_array().into_iter().flatten()) {
        same("URL of the entry", &url.as_str(), &entry["url"].as_str().unwrap())?;
        same(url, modified, &time(&entry["lastmod"]))?;
    }
    Ok(())
}

#[test]
fn sitemaps_of_other_suites_have_the_same_urls_formats_and_dates() {
    run("sitemaps.jsonl", 62, check_sitemap);
}

#[test]
fn dates_of_other_suites_have_the_same_time() {
    run("dates.jsonl", 21, |row| same("time", &milliseconds(row["input"].as_str().unwrap()), &time(&row["expected"])));
}
