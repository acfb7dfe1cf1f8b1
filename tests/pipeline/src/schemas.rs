//! Schemas of the result files. A field that a schema does not have is an error here: it would not be documented.

use std::{collections::BTreeMap, sync::LazyLock};

use anyhow::{Context as _, Result, anyhow};
use jsonschema::Validator;
use serde_json::Value;

const SCHEMAS: [(&str, &str); 4] = [
    ("documents.jsonl", include_str!("../../../schemas/document.v1.schema.json")),
    ("urls.jsonl", include_str!("../../../schemas/results/urls.v1.schema.json")),
    ("changes.jsonl", include_str!("../../../schemas/results/changes.v1.schema.json")),
    ("summary.json", include_str!("../../../schemas/results/summary.v1.schema.json")),
];

static VALIDATORS: LazyLock<BTreeMap<&str, Validator>> = LazyLock::new(|| SCHEMAS.map(validator).into());

#[allow(clippy::expect_used, reason = "constants that the tests parse")]
fn validator((file, text): (&'static str, &str)) -> (&'static str, Validator) {
    let mut schema = serde_json::from_str(text).expect("JSON");
    close(&mut schema);
    (file, jsonschema::validator_for(&schema).expect("a schema"))
}

/// Refuses other fields than those that a schema lists, in all its objects.
fn close(part: &mut Value) {
    match part {
        Value::Object(fields) => {
            if fields.get("properties").is_some_and(Value::is_object) {
                fields.entry("additionalProperties").or_insert(Value::Bool(false));
            }
            fields.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

/// Checks a line of a result file, or `summary.json`, against its schema.
pub(crate) fn conforms(file: &str, value: &Value) -> Result<()> {
    let validator = VALIDATORS.get(file).with_context(|| format!("{file} has no schema"))?;
    validator.validate(value).map_err(|error| anyhow!("{file} breaks its schema: {error}: {value}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_missing_a_wrong_and_an_undocumented_field_are_found() {
        let line = json!({
            "url": "http://a.test/", "change": "new", "visit": 0, "status": 200, "time": "2026-01-01T00:00:00Z",
        });
        conforms("changes.jsonl", &line).unwrap();
        for (field, value) in [("change", json!("lost")), ("visit", Value::Null), ("colour", json!("red"))] {
            let mut broken = line.clone();
            broken[field] = value;
            let error = conforms("changes.jsonl", &broken).unwrap_err().to_string();
            assert!(error.starts_with("changes.jsonl breaks its schema: "), "{error}");
        }
    }

    #[test]
    fn every_example_of_a_result_file_is_valid() {
        for (file, name) in [("urls.jsonl", "urls"), ("changes.jsonl", "changes"), ("summary.json", "summary")] {
            let dir = format!("../../schemas/results/examples/{name}");
            let mut examples = 0;
            for entry in std::fs::read_dir(dir).unwrap() {
                let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
                conforms(file, &serde_json::from_str(&text).unwrap()).unwrap();
                examples += 1;
            }
            assert!(examples >= 2, "{name} has {examples} examples");
        }
    }
}
