//! The inputs that the engine found, checked again: one per line, in Base64.

#![allow(clippy::unwrap_used, reason = "a test")]

use base64::{Engine, engine::general_purpose::STANDARD};
use orbweaver_fuzz_tests::TARGETS;

#[test]
fn every_input_of_the_corpus_has_the_properties_of_its_target() {
    for (name, check) in TARGETS {
        let path = format!("corpus/{name}.txt");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut inputs = 0;
        for (number, line) in text.lines().enumerate() {
            let input = STANDARD.decode(line).unwrap_or_else(|error| panic!("{path}:{}: {error}", number + 1));
            // The engine's message on a failure names the line.
            let passes = std::panic::catch_unwind(|| check(&input));
            assert!(passes.is_ok(), "{path}:{}: {:?}", number + 1, String::from_utf8_lossy(&input));
            inputs += 1;
        }
        assert!(inputs > 0, "{path} is empty");
    }
}
