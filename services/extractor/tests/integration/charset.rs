//! Choice of an encoding, tested with the vectors of html5lib, w3lib and WHATWG.

use std::cell::Cell;

use orbweaver_extractor::charset::{CharsetSource, choose, decode};

use crate::vectors::{bytes, check_all, rows};

/// Maps Python's names of encodings to those of WHATWG.
fn whatwg_name(python: &str) -> String {
    match python {
        "gb18030" => "gbk".to_owned(),
        "big5hkscs" => "big5".to_owned(),
        "cp1252" => "windows-1252".to_owned(),
        "cp1251" => "windows-1251".to_owned(),
        "utf-16-be" => "utf-16be".to_owned(),
        "utf-16-le" => "utf-16le".to_owned(),
        "utf8" | "ascii" => "utf-8".to_owned(),
        other => other.strip_prefix("iso8859-").map_or_else(|| other.to_owned(), |part| format!("iso-8859-{part}")),
    }
}

#[test]
fn every_label_of_the_standard_is_known() {
    for row in rows("whatwg_labels.jsonl") {
        let label = row["label"].as_str().unwrap();
        let (encoding, source) = choose(b"", Some(&format!("text/html; charset=\"{label}\"")), None);
        assert_eq!((encoding.name(), source), (row["expected_encoding"].as_str().unwrap(), CharsetSource::Header));
    }
}

#[test]
fn html5lib_chooses_the_same_encoding() {
    let guessed_ascii = Cell::new(0);
    check_all("html5lib_encoding.jsonl", &[], |row| {
        let body = bytes(row, "html");
        let (encoding, source) = choose(&body, None, None);
        let expected = row["expected_encoding"].as_str().unwrap();
        // Without a declaration html5lib expects windows-1252; ASCII is the same text in a detected UTF-8.
        let is_ascii =
            source == CharsetSource::Detected && expected.eq_ignore_ascii_case("windows-1252") && body.is_ascii();
        guessed_ascii.set(guessed_ascii.get() + usize::from(is_ascii));
        let good = is_ascii || encoding.name().eq_ignore_ascii_case(expected);
        let problem = || format!("{} ({source:?}), expected {expected}: {}", encoding.name(), row["html_preview"]);
        Some(good.then_some(()).ok_or_else(problem))
    });
    assert!(guessed_ascii.get() < 60);
}

#[test]
fn w3lib_chooses_the_same_encoding_and_reads_the_same_text() {
    let utf32 = "UTF-32 is no encoding of the web: WHATWG Encoding has none";
    let sloppy = "a sloppy header is read as it was meant";
    let broken = "`< meta` is text, not a tag";
    let body = "WHATWG's prescan does not stop at `body`";
    let pragma = "only http-equiv=content-type declares an encoding";
    let listed = [
        (3, utf32),
        (4, utf32),
        (13, sloppy),
        (14, sloppy),
        (15, sloppy),
        (16, sloppy),
        (22, sloppy),
        (23, sloppy),
        (42, broken),
        (47, body),
        (48, pragma),
        (49, pragma),
        (59, broken),
        (63, body),
        (64, pragma),
        (66, "`Latin-1` is no label of the standard, `latin1` is"),
        (90, utf32),
        (91, utf32),
        (92, utf32),
        (93, utf32),
        (94, "`utf-16` without a byte order mark is little-endian in WHATWG Encoding"),
        (95, utf32),
    ];
    check_all("w3lib_encoding.jsonl", &listed, |row| {
        let body = bytes(row, "input");
        let (encoding, source) = match row["function"].as_str().unwrap() {
            "http_content_type_encoding" => choose(b"", row["input"].as_str(), None),
            "resolve_encoding" => {
                choose(b"", Some(&format!("text/html; charset=\"{}\"", row["input"].as_str().unwrap())), None)
            }
            _ => choose(&body, row["content_type"].as_str(), None),
        };
        let expected = row["expected_python_codec"].as_str().map(whatwg_name);
        let found = (source != CharsetSource::Detected).then(|| encoding.name().to_ascii_lowercase());
        let good = match row["expected_text"].as_str() {
            Some(text) => decode(&body, encoding) == text,
            None => found == expected.as_deref().map(str::to_ascii_lowercase),
        };
        let text = String::from_utf8_lossy(&body);
        let problem = || format!("{} ({source:?}), expected {expected:?}: {text}", encoding.name());
        Some(good.then_some(()).ok_or_else(problem))
    });
}
