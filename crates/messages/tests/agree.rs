//! Checks that the message types, `schemas/` and the examples agree, in both directions.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "the functions that tests share are tests, too")]

mod full;

use std::path::PathBuf;

use full::messages;
use jsonschema::{Registry, Validator};
use orbweaver_messages::topic::topics;
use orbweaver_messages::{
    BodyEncoding, ChangeKind, CrawlEventKind, DiscoveryKind, LinkKind, Markdown, OutcomeKind, PageKind, Scope,
    SeenBatch, Traps, decode,
};
use orbweaver_url::{Fingerprint, slot_of};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Object that several messages contain; no topic carries it by itself.
const CONTEXT: &str = "url-context";

fn schemas() -> PathBuf {
    PathBuf::from("../../schemas")
}

/// Returns the version of a schema; that of an object that several messages contain is 1.
fn version(name: &str) -> u32 {
    let known = topics().iter().flat_map(|topic| topic.schemas).find(|schema| schema.name == name);
    known.map_or(1, |schema| schema.version)
}

fn schema(name: &str) -> Value {
    let path = schemas().join(format!("{name}.v{}.schema.json", version(name)));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn registry() -> Registry<'static> {
    let mut registry = Registry::new();
    for name in messages().into_iter().map(|(name, _)| name).chain([CONTEXT]) {
        registry = registry.add(format!("urn:orbweaver:{name}:{}", version(name)), schema(name)).unwrap();
    }
    registry.prepare().unwrap()
}

fn validator(name: &str, registry: &Registry<'_>) -> Validator {
    jsonschema::options().with_registry(registry).build(&schema(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the examples of a message with one file extension, sorted by name.
fn examples(name: &str, extension: &str) -> Vec<(String, String)> {
    let dir = schemas().join("examples").join(name).join(version(name).to_string());
    let entries = std::fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let paths = entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().unwrap() == extension);
    let mut found: Vec<_> =
        paths.map(|path| (path.display().to_string(), std::fs::read_to_string(&path).unwrap())).collect();
    found.sort();
    found
}

fn json_examples(name: &str) -> Vec<(String, Value)> {
    let read = |(path, text): (String, String)| {
        let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
        (path, value)
    };
    examples(name, "json").into_iter().map(read).collect()
}

#[test]
fn every_example_is_valid_and_survives_the_type() {
    let registry = registry();
    for (name, message) in messages() {
        let validator = validator(name, &registry);
        let examples = json_examples(name);
        assert!(examples.len() >= 3, "{name} has {} examples", examples.len());
        for (path, example) in examples {
            validator.validate(&example).unwrap_or_else(|error| panic!("{path}: {error}"));
            let written = (message.round_trip)(&example).unwrap_or_else(|error| panic!("{path}: {error}"));
            validator.validate(&written).unwrap_or_else(|error| panic!("{path}, written again: {error}"));
            assert_same_but_for_defaults(&path, &example, &written, &schema(name));
        }
    }
}

/// Asserts that `written` equals `example`, except that either may omit a value that is the schema's default.
fn assert_same_but_for_defaults(path: &str, example: &Value, written: &Value, schema: &Value) {
    let schema = follow(schema);
    if let (Value::Object(example), Value::Object(written)) = (example, written) {
        for key in example.keys().chain(written.keys()) {
            let property = follow(&schema["properties"][key.as_str()]);
            let default = property.get("default").cloned().unwrap_or(Value::Null);
            let place = format!("{path}: {key}");
            let sides = (example.get(key).unwrap_or(&default), written.get(key).unwrap_or(&default));
            assert_same_but_for_defaults(&place, sides.0, sides.1, &property);
        }
    } else if let (Value::Array(example), Value::Array(written)) = (example, written) {
        assert_eq!(example.len(), written.len(), "{path}");
        for (left, right) in example.iter().zip(written) {
            assert_same_but_for_defaults(path, left, right, &schema["items"]);
        }
    } else {
        assert_eq!(example, written, "{path}");
    }
}

/// Resolves a `$ref`; returns any other schema unchanged.
fn follow(part: &Value) -> Value {
    match part.get("$ref").and_then(Value::as_str) {
        Some(reference) => schema(reference.split(':').nth(2).unwrap_or_default()),
        None => part.clone(),
    }
}

#[test]
fn schema_and_type_have_the_same_fields() {
    let registry = registry();
    for (name, message) in messages() {
        let full = (message.value)();
        validator(name, &registry).validate(&full).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_same_fields(name, &full, &schema(name));
    }
}

fn assert_same_fields(place: &str, full: &Value, part: &Value) {
    let part = follow(part);
    match full {
        Value::Object(entries) if part["additionalProperties"].is_object() => {
            assert!(!entries.is_empty(), "{place}: the full instance has an empty map");
        }
        Value::Object(fields) => {
            let mut in_type: Vec<&String> = fields.keys().collect();
            let mut in_schema: Vec<&String> = part["properties"].as_object().unwrap().keys().collect();
            in_type.sort();
            in_schema.sort();
            assert_eq!(in_type, in_schema, "{place}: fields of the type, properties of the schema");
            for (key, value) in fields {
                let property = &part["properties"][key.as_str()];
                let described = follow(property)["description"].is_string();
                assert!(described, "{place}.{key} has no description");
                assert_same_fields(&format!("{place}.{key}"), value, property);
            }
        }
        Value::Array(items) => {
            assert!(!items.is_empty(), "{place}: the full instance has an empty list");
            assert!(part["items"].is_object(), "{place}: the schema says nothing of the items");
            assert_same_fields(&format!("{place}[]"), &items[0], &tuple_free(&part["items"]));
        }
        Value::Null => panic!("{place}: the full instance leaves it out"),
        _ => {}
    }
}

/// Replaces tuple items (header pairs), which have no field names to compare, by plain strings.
fn tuple_free(items: &Value) -> Value {
    if items.get("prefixItems").is_some() { json!({ "items": { "type": "string" } }) } else { items.clone() }
}

#[test]
fn schema_and_type_refuse_the_same_values() {
    let replacements = [
        Value::Null,
        json!(true),
        json!(-1),
        json!(0),
        json!(255),
        json!(256),
        json!(65_535),
        json!(65_536),
        json!(u32::MAX),
        json!(u64::from(u32::MAX) + 1),
        json!(i64::MIN),
        json!(i64::MAX),
        json!(i64::MAX as u64 + 1),
        json!(u64::MAX),
        json!(1.5),
        json!(""),
        json!("no such variant"),
        json!("a\0b"),
        json!("x".repeat(201)),
        json!("12-34-56"),
        json!([]),
        json!([1]),
        json!([["a"]]),
        json!({}),
    ];
    let registry = registry();
    let mut refused = 0;
    for (name, message) in messages() {
        let validator = validator(name, &registry);
        let full = (message.value)();
        for pointer in places(&full, "") {
            let mut mutants: Vec<Value> = vec![];
            for replacement in &replacements {
                let mut mutant = full.clone();
                let place = mutant.pointer_mut(&pointer).unwrap();
                // A derived `Deserialize` accepts a list for a struct, field by field. No producer writes that.
                if !(place.is_object() && replacement.is_array()) {
                    *place = replacement.clone();
                    mutants.push(mutant);
                }
            }
            mutants.extend(without(&full, &pointer));
            for mutant in mutants {
                let by_schema = validator.is_valid(&mutant);
                let by_type = (message.round_trip)(&mutant);
                let sides = format!("schema {by_schema}, type {by_type:?}");
                assert_eq!(by_schema, by_type.is_ok(), "{name}{pointer}: {sides}: {mutant}");
                refused += usize::from(!by_schema);
            }
        }
    }
    assert!(refused > 1000, "only {refused} of the altered messages were refused");
}

/// Returns a copy without the field at `pointer`; `None` for an element of a list.
fn without(full: &Value, pointer: &str) -> Option<Value> {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let mut mutant = full.clone();
    mutant.pointer_mut(parent).unwrap().as_object_mut()?.remove(key);
    Some(mutant)
}

/// Returns JSON pointers to all nested values.
fn places(value: &Value, at: &str) -> Vec<String> {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(key, value)| (format!("{at}/{key}"), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(i, value)| (format!("{at}/{i}"), value)).collect(),
        _ => vec![],
    };
    inner.into_iter().flat_map(|(at, value)| std::iter::once(at.clone()).chain(places(value, &at))).collect()
}

/// Returns the variants of an enum, as listed by the error of its own deserializer.
fn variants<T: DeserializeOwned>() -> Vec<String> {
    let error = serde_json::from_value::<T>(json!("")).err().unwrap().to_string();
    let list = error.split("expected").nth(1).unwrap();
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn enums_have_the_same_variants() {
    let cases = [
        ("discovered", "sighting", variants::<DiscoveryKind>()),
        (CONTEXT, "sighting", variants::<DiscoveryKind>()),
        ("page", "encoding", variants::<BodyEncoding>()),
        ("page", "kind", variants::<PageKind>()),
        ("outcome", "kind", variants::<OutcomeKind>()),
        ("page-change", "kind", variants::<ChangeKind>()),
        ("crawl-event", "kind", variants::<CrawlEventKind>()),
        ("crawl-definition", "scope", variants::<Scope>()),
        ("crawl-definition", "traps", variants::<Traps>()),
        ("waiting", "traps", variants::<Traps>()),
        ("page", "markdown", variants::<Markdown>()),
    ];
    for (name, field, variants) in cases {
        assert!(variants.len() > 1, "{name}.{field}: {variants:?}");
        let mut listed = schema(name)["properties"][field]["enum"].take();
        listed.as_array_mut().unwrap().retain(|variant| !variant.is_null());
        assert_eq!(listed, json!(variants), "{name}.{field}");
    }
    for field in ["links", "other_links"] {
        let listed = &schema("document")["properties"][field]["items"]["properties"]["kind"]["enum"];
        assert_eq!(listed, &json!(variants::<LinkKind>()), "document.{field}");
    }
    let kinds: Vec<Value> = json_examples("outcome").into_iter().map(|(_, example)| example["kind"].clone()).collect();
    for kind in variants::<OutcomeKind>() {
        assert!(kinds.contains(&json!(kind)), "there is no example of the outcome `{kind}`");
    }
}

#[test]
fn fingerprints_of_examples_are_those_of_crawl_and_canonical_url() {
    let mut checked = 0;
    for name in ["waiting", "dispatch", "outcome", "page", "document"] {
        for (path, example) in json_examples(name) {
            let example = example.get("context").unwrap_or(&example);
            let key = example.get("key").unwrap_or(&example["url"]).as_str().unwrap();
            let expected = Fingerprint::of(&example["crawl"].as_str().unwrap().parse().unwrap(), key).to_string();
            assert_eq!(example["fingerprint"], json!(expected), "{path}");
            checked += 1;
        }
    }
    assert!(checked >= 20);
}

#[test]
fn examples_of_bare_seeds_are_urls_and_no_json() {
    let bare = examples("seed", "txt");
    assert!(bare.len() >= 2);
    for (path, text) in bare {
        assert_eq!(text.trim().lines().count(), 1, "{path}");
        let read = decode::<orbweaver_messages::Seed>("seed", Some(&text.clone().into()));
        assert!(read.is_err(), "{path} could be taken for JSON");
    }
}

#[test]
fn hexadecimal_examples_of_seen_survive_the_type() {
    let hex = examples("seen", "hex");
    assert!(hex.len() >= 3);
    for (path, text) in hex {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        let bytes = bytes::Bytes::from(digits.chunks(2).map(pair).collect::<Vec<u8>>());
        let batch = SeenBatch::decode(Some(&bytes)).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(batch.entries.len(), text.split_whitespace().count(), "{path}: one entry per line");
        assert_eq!(batch.encode(), bytes, "{path}");
        assert!(batch.entries.first().is_none_or(|entry| entry.slot == slot_of("example.org")), "{path}: slot");
        for (entry, line) in batch.entries.iter().zip(text.split_whitespace()) {
            assert!(line.ends_with(&entry.fingerprint.to_string()), "{path}: {line}");
        }
    }
}

#[test]
fn a_damaged_batch_of_seen_is_refused() {
    let bytes = bytes::Bytes::from_static(&[0; 19]);
    let error = SeenBatch::decode(Some(&bytes)).unwrap_err().to_string();
    assert_eq!(error, "not a valid seen message: 19 bytes is not a multiple of the entry size of 20 bytes");
    assert!(SeenBatch::decode(None).is_err());
}

#[test]
fn topics_and_schemas_name_each_other() {
    let known: Vec<&str> = messages().into_iter().map(|(name, _)| name).collect();
    let mut carried: Vec<&str> = vec![];
    let mut files = vec![format!("{CONTEXT}.v1.schema.json")];
    for topic in topics() {
        for carries in topic.schemas {
            if known.contains(&carries.name) {
                files.push(format!("{}.v{}.schema.json", carries.name, carries.version));
            } else {
                assert_eq!(carries.name, "seen", "{}: the only message that is not JSON", topic.topic);
            }
            carried.push(carries.name);
        }
    }
    for name in known {
        assert!(carried.contains(&name), "no topic carries `{name}`");
    }
    files.iter().for_each(|file| assert!(schemas().join(file).exists(), "schemas/{file} is missing"));
    for entry in std::fs::read_dir(schemas()).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        assert!(!file.ends_with(".schema.json") || files.contains(&file), "schemas/{file} belongs to no topic");
    }
}
