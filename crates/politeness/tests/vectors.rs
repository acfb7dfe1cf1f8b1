//! Vectors of other implementations (sources: `tests/vectors/README.md`), and intentional differences from them.
//!
//! `tests/vectors/expected_failures.jsonl` lists every row with a different verdict, and the reason. A row that is not
//! listed must pass, and a listed row must fail, so the list is always accurate.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{collections::BTreeMap, path::PathBuf};

use orbweaver_politeness::{
    Limits, Robots,
    robots::{RobotsAnswer, RobotsPolicy, path_and_query},
};
use serde_json::Value;

fn dir() -> PathBuf {
    PathBuf::from("tests/vectors")
}

fn rows(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(dir().join(file)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn robots_txt(row: &Value) -> Vec<u8> {
    match row["robots_txt"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => base64(row["robots_txt_b64"].as_str().unwrap()),
    }
}

/// Decodes Base64 (RFC 4648 section 4).
fn base64(text: &str) -> Vec<u8> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|&c| c != b'=').map(value).collect();
    digits
        .chunks(4)
        .flat_map(|four| {
            let bits =
                four.iter().enumerate().fold(0u32, |bits, (at, &digit)| bits | u32::from(digit) << (18 - 6 * at));
            bits.to_be_bytes()[1..four.len()].to_vec()
        })
        .collect()
}

/// Returns the agent of a row; of several names the first, since a verdict takes one.
fn agent(row: &Value) -> &str {
    row["user_agent"].as_str().or_else(|| row["user_agent"][0].as_str()).unwrap_or("*")
}

/// Returns the difference of a row from the expectation, if any.
fn complaint(row: &Value) -> Option<String> {
    let robots = Robots::parse(&robots_txt(row), &Limits::default());
    let differs =
        |own: String, theirs: String| (own != theirs).then(|| format!("this parser: {own}, the other: {theirs}"));
    match row["kind"].as_str() {
        Some("crawl_delay") => {
            differs(format!("{:?}", robots.crawl_delay_ms(agent(row))), format!("{:?}", row["crawl_delay_ms"].as_u64()))
        }
        Some("sitemaps") => {
            let theirs: Vec<_> = row["sitemaps"].as_array().unwrap().iter().map(|url| url.as_str().unwrap()).collect();
            differs(format!("{:?}", robots.sitemaps()), format!("{theirs:?}"))
        }
        _ => {
            let verdict = robots.verdict(agent(row), path_and_query(row["url"].as_str().unwrap()));
            differs(verdict.allowed.to_string(), row["allowed"].as_bool().unwrap().to_string())
        }
    }
}

#[test]
fn what_all_implementations_agree_on_holds() {
    for (file, expected) in [("AGREE_all.jsonl", 562), ("rfc9309.jsonl", 57)] {
        let rows = rows(file);
        assert_eq!(rows.len(), expected, "{file}");
        let complaints: Vec<_> = rows
            .iter()
            .enumerate()
            .filter_map(|(at, row)| Some(format!("{file}:{} {row}: {}", at + 1, complaint(row)?)))
            .collect();
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }
}

#[test]
fn other_suites_differ_exactly_where_the_list_says() {
    let mut listed: BTreeMap<(String, u64), String> = rows("expected_failures.jsonl")
        .iter()
        .map(|row| {
            let reason = row["reason"].as_str().unwrap().to_owned();
            assert!(!reason.is_empty(), "{row} has no reason");
            ((row["file"].as_str().unwrap().to_owned(), row["line"].as_u64().unwrap()), reason)
        })
        .collect();
    let mut unlisted = vec![];
    let mut passing = vec![];
    for file in [
        "google_robots_test.jsonl",
        "protego.jsonl",
        "crawler_commons.jsonl",
        "crawler_commons_delay_sitemaps.jsonl",
        "protego_delay_sitemaps.jsonl",
    ] {
        for (line, row) in (1..).zip(rows(file)) {
            match (complaint(&row), listed.remove(&(file.to_owned(), line))) {
                (Some(complaint), None) => unlisted.push(format!("{file}:{line} {complaint} {row}")),
                (None, Some(reason)) => passing.push(format!("{file}:{line} passes, but is listed: {reason}")),
                _ => {}
            }
        }
    }
    assert!(unlisted.is_empty(), "{} rows fail and are not listed:\n{}", unlisted.len(), unlisted.join("\n"));
    assert!(passing.is_empty(), "{}", passing.join("\n"));
    assert!(listed.is_empty(), "listed, but there are no such rows: {listed:?}");
}

#[test]
fn the_status_of_the_answer_says_what_holds() {
    let failures = ["timeout", "connection refused", "dns failure", "tls failure"];
    let mut checked = 0;
    for row in rows("fetch_status.jsonl") {
        let answer = match (&row["case"], row["case"].as_str()) {
            (Value::Number(status), _) => {
                RobotsAnswer::Status { status: u16::try_from(status.as_u64().unwrap()).unwrap(), redirects: 0 }
            }
            (_, Some("redirect x5")) => RobotsAnswer::Status { status: 301, redirects: 4 },
            (_, Some("redirect x6")) => RobotsAnswer::Status { status: 301, redirects: 5 },
            (_, Some(case)) if failures.contains(&case) => RobotsAnswer::Failed,
            // Times and sizes: see the constants of `robots`, and the test of the size limit.
            _ => continue,
        };
        let expected = match row["expected"].as_str().unwrap() {
            "parse" => RobotsPolicy::Parse,
            "allow_all" | "allow_all_or_policy" => RobotsPolicy::AllowAll,
            "disallow_all" => RobotsPolicy::DisallowAll,
            "follow" => RobotsPolicy::Follow,
            // 429: the same choice as Google.
            "policy" => RobotsPolicy::DisallowAll,
            other => panic!("unknown expectation {other}"),
        };
        assert_eq!(answer.policy(), expected, "{row}");
        checked += 1;
    }
    assert_eq!(checked, 16);
}
