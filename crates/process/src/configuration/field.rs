//! Description of a key, from the JSON Schema of its section.

use orbweaver_settings::{ALLOWED, DEFAULT_TEXT, HIDDEN, HiddenBy, MAP, Section};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

use super::{
    Raw,
    values::{Node, Problem},
};

/// Description of a key.
#[derive(Debug, Clone)]
pub(super) struct Field {
    /// Name below the section.
    pub(super) name: String,
    /// Whether any names may follow after a dot.
    pub(super) is_map: bool,
    pub(super) hidden: Option<HiddenBy>,
    pub(super) meaning: String,
    pub(super) allowed: String,
    /// Text of a default that depends on the machine.
    pub(super) default_text: Option<String>,
}

impl Field {
    /// Returns the fields of a section, in the order of their declaration.
    pub(super) fn all<S: Section>() -> Vec<Self> {
        let schema = schema::<S>();
        // serde names all fields, in order, when it meets an unknown one; a schema sorts them.
        let unknown = Raw::List(vec![]);
        let names = match S::deserialize(Node::section([("", &unknown)].into_iter())) {
            Err(Problem::Unknown(names)) => names,
            _ => &[],
        };
        names.iter().map(|name| Self::of(name, &schema["properties"][*name])).collect()
    }

    /// Returns a field that another service's section declares.
    pub(super) fn one<T: JsonSchema>(name: &str) -> Self {
        Self::of(name, &schema::<T>())
    }

    fn of(name: &str, schema: &Value) -> Self {
        let text = |keyword: &str| schema[keyword].as_str();
        // The first paragraph is for users; others are for readers of the code.
        let meaning = text("description").and_then(|text| text.split("\n\n").next()).unwrap_or_default();
        Self {
            name: name.to_owned(),
            is_map: schema["additionalProperties"].is_object() || text(MAP).is_some(),
            hidden: text(HIDDEN).map(HiddenBy::of),
            meaning: meaning.split_whitespace().collect::<Vec<_>>().join(" "),
            allowed: allowed(schema),
            default_text: text(DEFAULT_TEXT).map(str::to_owned),
        }
    }

    /// Returns `true` if `name` (below the section) is this key.
    pub(super) fn matches(&self, name: &str) -> bool {
        match name.strip_prefix(&*self.name) {
            Some("") => !self.is_map,
            Some(rest) => self.is_map && rest.starts_with('.') && rest.len() > 1,
            None => false,
        }
    }

    /// Returns the name for a list: `name.*` for a map.
    pub(super) fn listed(&self) -> String {
        if self.is_map { format!("{}.*", self.name) } else { self.name.clone() }
    }

    /// Returns the allowed values at `path`.
    pub(super) fn allowed_at(&self, path: &str) -> &str {
        self.hidden.and_then(|hidden| hidden.allowed(path)).unwrap_or(&self.allowed)
    }

    /// Returns `true` if the value at `path` must be redacted.
    pub(super) fn hides(&self, path: &str) -> bool {
        self.hidden.is_some_and(|hidden| hidden.hides(path))
    }

    /// Returns `true` if the value at `path` is a secret. Headers are redacted in any case, but only some are secrets.
    pub(super) fn is_secret(&self, path: &str) -> bool {
        self.hidden.is_some_and(|hidden| hidden.is_secret(path))
    }
}

fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// Returns the allowed values of a schema as text.
fn allowed(schema: &Value) -> String {
    if schema["additionalProperties"].is_object() {
        return allowed(&schema["additionalProperties"]);
    }
    if let Some(text) = schema[ALLOWED].as_str() {
        return text.to_owned();
    }
    let variants = schema["oneOf"].as_array().into_iter().flatten().map(|variant| &variant["const"]);
    let words: Vec<_> =
        schema["enum"].as_array().into_iter().flatten().chain(variants).filter_map(Value::as_str).collect();
    match schema["type"].as_str() {
        _ if !words.is_empty() => format!("`{}`", words.join("` or `")),
        Some("boolean") => "`true` or `false`".to_owned(),
        Some("array") => "texts, several separated by commas".to_owned(),
        _ => "text without control characters".to_owned(),
    }
}
