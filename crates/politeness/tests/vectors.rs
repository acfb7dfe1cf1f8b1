//! Vectors of other implementations (sources: `tests/vectors/README.md`), and intentional differences from them.
//!
//! `tests/vectors/expected_failures.jsonl` lists every row with a different verdict, and the reason. A row that is not
//! listed must pass, and a listed row must fail, so the list is always accurate.
//!
//! `tests/vectors/real_sample.jsonl` holds robots.txt of real sites with the verdicts of Google's parser, one file per
//! row. It includes all small files of the whole corpus on which the verdicts differ. Set `ROBOTS_CORPUS` to the
//! absolute path of a file of the same form to check another corpus.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{collections::BTreeMap, path::Path};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use orbweaver_politeness::{
    AgentRules,
    robots::{RobotsPolicy, path_and_query},
};
use serde_json::Value;

fn rows(file: impl AsRef<Path>) -> Vec<Value> {
    let text = std::fs::read_to_string(Path::new("tests/vectors").join(file)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn robots_txt(row: &Value) -> Vec<u8> {
    if let Some(text) = row["robots_txt"].as_str() {
        text.as_bytes().to_vec()
    } else if let Some(text) = row["robots_txt_latin1"].as_str() {
        text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect()
    } else {
        BASE64_STANDARD.decode(row["robots_txt_b64"].as_str().unwrap()).unwrap()
    }
}

/// Returns the agent of a row; of several names the first, since a verdict takes one.
fn agent(row: &Value) -> &str {
    row["user_agent"].as_str().or_else(|| row["user_agent"][0].as_str()).unwrap_or("*")
}

/// Returns the difference of a row from the expectation, if any.
fn complaint(row: &Value) -> Option<String> {
    let rules = AgentRules::parse(&robots_txt(row), agent(row));
    let differs =
        |own: String, theirs: String| (own != theirs).then(|| format!("this parser: {own}, the other: {theirs}"));
    match row["kind"].as_str() {
        Some("crawl_delay") => {
            differs(format!("{:?}", rules.crawl_delay_ms()), format!("{:?}", row["crawl_delay_ms"].as_u64()))
        }
        Some("sitemaps") => {
            let own: Vec<&str> = rules.sitemaps().iter().map(|url| &**url).collect();
            let theirs: Vec<&str> = row["sitemaps"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            differs(format!("{own:?}"), format!("{theirs:?}"))
        }
        _ => {
            let verdict = rules.verdict(path_and_query(row["url"].as_str().unwrap()));
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
        "crawler_commons_delay.jsonl",
        "protego_delay.jsonl",
        "crawler_commons_sitemaps.jsonl",
        "protego_sitemaps.jsonl",
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
fn verdicts_on_real_files_are_those_of_google_but_for_the_known_differences() {
    let corpus = std::env::var_os("ROBOTS_CORPUS").unwrap_or_else(|| "real_sample.jsonl".into());
    let (mut verdicts, mut wrong) = (0, vec![]);
    for row in rows(corpus) {
        let rules = AgentRules::parse(&robots_txt(&row), "examplebot");
        let known: Vec<&str> = row["differs"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for verdict in row["verdicts"].as_array().unwrap() {
            let url = verdict[0].as_str().unwrap();
            let own = rules.verdict(path_and_query(url));
            verdicts += 1;
            if (own.allowed == verdict[1].as_bool().unwrap()) == known.contains(&url) {
                wrong.push(format!("{} {url}: {own:?}", row["host"]));
            }
        }
    }
    assert!(verdicts > 500, "{verdicts}");
    assert!(wrong.is_empty(), "{} of {verdicts} verdicts:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_status_of_the_answer_says_what_holds() {
    let mut checked = 0;
    for row in rows("fetch_status.jsonl") {
        let (status, redirects) = match (row["case"].as_u64(), row["case"].as_str()) {
            (Some(status), _) => (u16::try_from(status).unwrap(), 0),
            (_, Some("redirect x5")) => (301, 4),
            (_, Some("redirect x6")) => (301, 5),
            // Failures, times and sizes: see the fetcher, the constants of `robots`, and the test of the size limit.
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
        assert_eq!(RobotsPolicy::of(status, redirects), expected, "{row}");
        checked += 1;
    }
    assert_eq!(checked, 12);
}
