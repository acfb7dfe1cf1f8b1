//! robots.txt of real sites: comparison of verdicts with those of Google's parser.
//!
//! `tests/vectors/real_sample.jsonl` holds a sample, one file per row. It includes all small files of the whole corpus
//! on which the verdicts differ. Set `ROBOTS_CORPUS` to a file of the same form to check another corpus.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::PathBuf;

use orbweaver_politeness::{Limits, Robots, robots::path_and_query};
use serde_json::Value;

fn bytes(row: &Value) -> Vec<u8> {
    match row["robots_txt"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => {
            row["robots_txt_latin1"].as_str().unwrap().chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect()
        }
    }
}

#[test]
fn verdicts_on_real_files_are_those_of_google_but_for_the_known_differences() {
    let sample = PathBuf::from("tests/vectors/real_sample.jsonl");
    let corpus = std::env::var_os("ROBOTS_CORPUS").map_or(sample, Into::into);
    let text = std::fs::read_to_string(&corpus).unwrap();
    let (mut verdicts, mut wrong) = (0, vec![]);
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let robots = Robots::parse(&bytes(&row), &Limits::default());
        let again = Robots::parse(robots.render().as_bytes(), &Limits { max_bytes: usize::MAX, ..Limits::default() });
        assert!(again == robots, "{}: the parse of its rendering differs", row["host"]);
        let rules = robots.rules_for("examplebot");
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
