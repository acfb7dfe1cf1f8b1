//! The Rust side of the differential test (`tests/differential`): mutates real URLs, and prints this crate's form of
//! each.
//!
//! Usage: `differential FILE COUNT SEED`. FILE has one absolute URL per line. Prints one JSON array per line: the
//! mutated URL, and its form under `raw`, or null if it is refused. The same arguments give the same lines.
//!
//! Also checks that each form under every preset parses to itself and is its own form.

#![allow(clippy::expect_used, reason = "a test says what it expects")]

use std::io::Write as _;

use orbweaver_url::{Policy, parse};

/// Texts inserted into URLs: special characters and sequences, and common mistakes of real pages.
const PIECES: [&str; 56] = [
    "/", "//", "/./", "/../", "/%2e%2E/", "?", "&", "&&", "=", ";", "#", "#!", ":", "@", "%", "%2", "%zz", "%7e",
    "%2F", "%20", "%C3%A9", "%c3%a9", "%u20AC", "+", " ", "\u{a0}", "\t", "\\", "|", "^", "`", "{", "}", "[", "]",
    "\"", "'", "<", "~", "!", "*", "(", ")", ",", "é", "日本", "ß", "\u{200d}", ".", "..", "www.", ":80", ":443", ":0",
    "XN--", "A",
];

/// SplitMix64 generator (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap_or_default()
    }
}

/// Applies one to four changes: inserts a piece or replaces a character by it, drops a character or changes its case,
/// repeats a part of the URL, reverses the parameters.
fn mutate(url: &str, random: &mut Random) -> String {
    let mut characters: Vec<char> = url.chars().collect();
    for _ in 0..=random.below(4) {
        let at = random.below(characters.len() + 1);
        let piece = PIECES[random.below(PIECES.len())].chars();
        match random.below(8) {
            0..=2 => drop(characters.splice(at..at, piece)),
            3 => drop(characters.splice(at..(at + 1).min(characters.len()), piece)),
            4 if at < characters.len() => drop(characters.remove(at)),
            5 if at < characters.len() => {
                let character = characters[at];
                let other = if character.is_ascii_lowercase() {
                    character.to_ascii_uppercase()
                } else {
                    character.to_ascii_lowercase()
                };
                characters[at] = other;
            }
            6 => {
                let end = (at + random.below(12)).min(characters.len());
                let part = characters[at..end].to_vec();
                drop(characters.splice(at..at, part));
            }
            _ => {
                let text: String = characters.iter().collect();
                characters = swapped(&text).chars().collect();
            }
        }
    }
    characters.into_iter().collect()
}

/// Returns the URL with its parameters reversed; adds parameters if there are none.
fn swapped(text: &str) -> String {
    match text.split_once('?') {
        Some((before, query)) => format!("{before}?{}", query.split('&').rev().collect::<Vec<_>>().join("&")),
        None => format!("{text}?b=2&a=1"),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, count, seed] = arguments.as_slice() else { panic!("usage: differential FILE COUNT SEED") };
    let text = std::fs::read_to_string(file).expect("the file of URLs");
    let urls: Vec<&str> = text.lines().filter(|line| parse(line).is_ok()).collect();
    assert!(!urls.is_empty(), "{file} has no URL");
    let count: u64 = count.parse().expect("COUNT is a number");
    let mut random = Random(seed.parse().expect("SEED is a number"));
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for _ in 0..count {
        let url = mutate(urls[random.below(urls.len())], &mut random);
        let parsed = parse(&url).ok();
        for policy in Policy::PRESETS {
            let Some(form) = parsed.as_ref().map(|parsed| policy.canonical_text(parsed)) else { continue };
            let again = parse(&form).expect(&url);
            assert_eq!(again.as_str(), form, "{policy} of {url:?}");
            assert_eq!(policy.canonical_text(&again), form, "{policy} of {url:?}");
        }
        let raw = parsed.as_ref().map(|parsed| Policy::RAW.canonical_text(parsed));
        serde_json::to_writer(&mut out, &(url, raw)).expect("stdout");
        out.write_all(b"\n").expect("stdout");
    }
}
