//! Fuzz targets: each reads bytes as strangers may write them, and panics if a property of the result does not hold.
//!
//! `libfuzzer/` runs them with the engine (`tests/fuzz/run`), `tests/corpus.rs` with the inputs that it found.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a target panics when a property does not hold")]

mod message;
mod page;
mod robots;
mod sitemap;
mod url;

/// Fuzz target.
pub type Target = fn(&[u8]);

/// All targets, by name.
pub const TARGETS: [(&str, Target); 6] = [
    ("url", url::check),
    ("robots", robots::check),
    ("page", page::check),
    ("main-text", page::check_main_text),
    ("sitemap", sitemap::check),
    ("message", message::check),
];

/// Returns the target of this name.
///
/// # Panics
/// Panics if there is none.
#[must_use]
pub fn target(name: &str) -> Target {
    let names = TARGETS.map(|(name, _)| name).join(", ");
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("`{name}` is not a fuzz target; allowed: {names}")).1
}

/// Splits the input at its first zero byte; without one the second part is empty.
fn split(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|&byte| byte == 0) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &[]),
    }
}
