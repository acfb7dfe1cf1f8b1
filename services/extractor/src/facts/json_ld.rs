//! JSON-LD scripts: their objects, unchanged.

use serde_json::{Map, Value};

use super::Budget;

pub(super) type Object = Map<String, Value>;

/// Maximum depth of an object. Readers of JSON take 128 levels, and documents add a few.
const MAX_DEPTH: usize = 64;

/// Returns `true` for the type of JSON-LD scripts.
pub(super) fn is_type(media_type: &str) -> bool {
    media_type.split(';').next().is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/ld+json"))
}

/// Returns the objects of a script; those of an invalid script are unknown.
pub(super) fn objects(script: &[u8], budget: &mut Budget) -> Vec<Object> {
    let script = without_marks(&String::from_utf8_lossy(script));
    if script.is_empty() || !budget.take(script.len()) {
        return Vec::new();
    }
    let objects = match serde_json::from_str(&script) {
        Ok(Value::Object(object)) => vec![object],
        Ok(Value::Array(values)) => values.into_iter().filter_map(object).collect(),
        _ => Vec::new(),
    };
    let whole = objects.len();
    let kept: Vec<Object> = objects.into_iter().filter(|object| object.values().all(|value| fits(value, 1))).collect();
    budget.is_exceeded |= kept.len() < whole;
    kept
}

fn object(value: Value) -> Option<Object> {
    if let Value::Object(object) = value { Some(object) } else { None }
}

/// Returns `true` if a value at this depth is not too deep. The parser bounds the recursion.
fn fits(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(values) => depth < MAX_DEPTH && values.iter().all(|value| fits(value, depth + 1)),
        Value::Object(object) => depth < MAX_DEPTH && object.values().all(|value| fits(value, depth + 1)),
        _ => true,
    }
}

/// Removes the errors that pages often have around and in JSON: marks of comments and CDATA, semicolons at the end, line
/// breaks within strings.
fn without_marks(script: &str) -> String {
    let mut rest = script.trim();
    for mark in ["<!--", "//", "<![CDATA[", "/*<![CDATA[*/"] {
        rest = rest.strip_prefix(mark).unwrap_or(rest).trim_start();
    }
    for mark in ["-->", "]]>", "/*]]>*/", "//", ";"] {
        rest = rest.strip_suffix(mark).unwrap_or(rest).trim_end();
    }
    rest.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}
