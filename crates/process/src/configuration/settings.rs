//! Sections read from supplied values.

use std::collections::BTreeMap;

use orbweaver_settings::{Conflict, HiddenBy, Section};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::{
    Given, Origin, Raw, SettingError, environment,
    fault::nearest,
    field::Field,
    values::{Node, Problem},
};

/// All sections of the product: one file may serve all services. Each service checks those that it reads.
pub const SECTIONS: [&str; 14] = [
    "kafka",
    "cql",
    "http",
    "log",
    "runtime",
    "state",
    "normalizer_dedup",
    "frontier",
    "documents",
    "rate_limiter",
    "fetcher",
    "extractor",
    "archiver",
    "urlstore",
];

/// Placeholder for a secret.
const REDACTED: &str = "\"…\"";

/// A key that was read, with its values.
#[derive(Debug, Clone)]
pub struct Key {
    pub section: &'static str,
    pub(super) field: Field,
    /// Whether the key must be set.
    pub required: bool,
    /// The default as text.
    pub default: Option<String>,
    pub(super) set: Vec<Setting>,
}

/// Effective value.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub(super) path: String,
    /// Value as TOML, redacted if it is a secret.
    pub(super) shown: String,
    pub(super) origin: Origin,
}

impl Key {
    /// Returns the full name, `section.name`, with `.*` for any name.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.field.listed())
    }

    /// Returns the environment variable.
    #[must_use]
    pub fn variable(&self) -> String {
        environment::variable(&self.path().replace(".*", ".NAME"))
    }

    /// Returns the meaning.
    #[must_use]
    pub fn meaning(&self) -> &str {
        &self.field.meaning
    }

    /// Returns the rule for redacting its values.
    #[must_use]
    pub fn hidden(&self) -> Option<HiddenBy> {
        self.field.hidden
    }
}

/// Reader of sections. It remembers every key that was read and every fault.
#[derive(Debug)]
pub struct Settings {
    /// Lowest precedence first.
    given: Vec<Given>,
    keys: Vec<Key>,
    /// Faults, each with the position of its value in `given`.
    faults: Vec<(usize, SettingError)>,
}

/// Position of faults without a value: after all others.
const NOT_SET: usize = usize::MAX - 1;
const CONFLICT: usize = usize::MAX;

impl Settings {
    /// Creates a reader of these values, lowest precedence first, on top of the defaults of the sections and those given
    /// here, as (path, value).
    #[must_use]
    pub fn new(given: Vec<Given>, defaults: &[(&str, &str)]) -> Self {
        let default = |(path, text): &(&str, &str)| {
            let raw = Raw::Scalar((*text).to_owned());
            Given { path: (*path).to_owned(), raw, origin: Origin::Default }
        };
        let given = defaults.iter().map(default).chain(given).collect();
        Self { given, keys: vec![], faults: vec![] }
    }

    /// Reads and checks a section. Every value is checked, even if it is overridden; a key with a fault keeps its previous value.
    pub fn section<S: Section>(&mut self) -> S {
        let parse = |values: &[(&str, &Raw)]| S::deserialize(Node::section(values.iter().copied()));
        let shown = |section: &S| serde_json::to_value(section).unwrap_or_default();
        let value = self.read(S::NAME, &Field::all::<S>(), parse, shown);
        self.find_unknown(S::NAME);
        for key in self.keys.iter_mut().filter(|key| key.section == S::NAME && S::REQUIRED.contains(&&*key.field.name))
        {
            key.required = true;
            let path = key.path();
            let given = key.set.iter().any(|setting| setting.origin != Origin::Default);
            if !given && !self.faults.iter().any(|(_, fault)| fault.path() == path) {
                let Field { name, allowed, .. } = &key.field;
                let variable = key.variable();
                let section = S::NAME;
                let problem = format!(
                    "it is not set; set {variable} or `{name}` under [{section}] in the file; allowed: {allowed}"
                );
                self.faults.push((NOT_SET, SettingError::new(path, problem)));
            }
        }
        self.check(S::NAME, value.conflicts());
        value
    }

    /// Reads one key of a section that another service owns and checks.
    pub fn one<T>(&mut self, section: &'static str, name: &str) -> T
    where
        T: Default + Serialize + DeserializeOwned + JsonSchema,
    {
        let parse = |values: &[(&str, &Raw)]| match values {
            [(_, raw), ..] => T::deserialize(Node::Value(raw)),
            [] => Ok(T::default()),
        };
        let shown = |value: &T| json!({ name: serde_json::to_value(value).unwrap_or_default() });
        self.read(section, &[Field::one::<T>(name)], parse, shown)
    }

    fn read<T: Default>(
        &mut self,
        section: &'static str,
        fields: &[Field],
        parse: impl Fn(&[(&str, &Raw)]) -> Result<T, Problem>,
        shown: impl Fn(&T) -> Value,
    ) -> T {
        let Self { given, keys, faults } = self;
        let (mut defaults, mut accepted) = (BTreeMap::new(), BTreeMap::new());
        for (position, given) in given.iter().enumerate() {
            let Some(name) = name_in(section, &given.path) else { continue };
            let Some(field) = fields.iter().find(|field| field.matches(name)) else { continue };
            match check(given, field, |raw| parse(&[(name, raw)]).map(drop)) {
                Ok(()) => {
                    if given.origin == Origin::Default {
                        defaults.insert(name, given);
                    }
                    accepted.insert(name, given);
                }
                Err(fault) => faults.push((position, fault)),
            }
        }
        let of = |values: &BTreeMap<&str, &Given>| {
            let values: Vec<_> = values.iter().map(|(name, given)| (*name, &given.raw)).collect();
            parse(&values)
        };
        let value = of(&accepted).unwrap_or_else(|problem| {
            faults.push((CONFLICT, SettingError::new(section, problem.to_string())));
            T::default()
        });
        let (effective, default) = (shown(&value), shown(&of(&defaults).unwrap_or_default()));
        for field in fields {
            let origin = |name: &str| accepted.get(name).map_or(Origin::Default, |given| given.origin.clone());
            let set = values_of(field, &effective[&field.name]).map(|(name, value)| Setting {
                path: format!("{section}.{name}"),
                shown: toml(value),
                origin: origin(&name),
            });
            let default = field.default_text.clone().or_else(|| text(&default[&field.name]));
            keys.push(Key { section, field: field.clone(), required: false, default, set: set.collect() });
        }
        value
    }

    /// Adds a fault for each value of a section whose key does not exist.
    fn find_unknown(&mut self, section: &'static str) {
        let of_section = || self.keys.iter().filter(|key| key.section == section).map(|key| &key.field);
        for (position, given) in self.given.iter().enumerate() {
            let Some(name) = name_in(section, &given.path) else { continue };
            if !of_section().any(|field| field.matches(name)) {
                let names = || of_section().map(|field| &*field.name);
                let nearest = nearest(name, names()).or_else(|| nearest(name.split('.').next()?, names()));
                self.faults.push((position, unknown(given, &format!("there is no such key in [{section}]"), nearest)));
            }
        }
    }

    /// Adds the faults of a check between settings.
    pub fn check(&mut self, section: &str, conflicts: impl IntoIterator<Item = Conflict>) {
        for Conflict { key, problem } in conflicts {
            self.fault(SettingError::new(format!("{section}.{key}"), problem));
        }
    }

    /// Adds a fault, with the value and the origin of its key. One fault per key: consequential faults are not reported.
    pub fn fault(&mut self, fault: SettingError) {
        if self.faults.iter().any(|(_, known)| known.path() == fault.path()) {
            return;
        }
        let mut settings = self.keys.iter().flat_map(|key| &key.set);
        let fault = match settings.find(|setting| setting.path == fault.path()) {
            Some(setting) => fault.with_value(setting.shown.clone()).at(setting.origin.clone()),
            None => fault,
        };
        self.faults.push((CONFLICT, fault));
    }

    /// Returns the faults in the order of the supplied values. All sections must have been read.
    #[must_use]
    pub fn faults(&self) -> Vec<SettingError> {
        let mut faults = self.faults.clone();
        for (position, given) in self.given.iter().enumerate() {
            let section = given.path.split('.').next().unwrap_or_default();
            if !SECTIONS.contains(&section) {
                let nearest = nearest(section, SECTIONS.into_iter());
                faults.push((position, unknown(given, "there is no such section", nearest)));
            }
        }
        faults.sort_by_key(|(position, _)| *position);
        faults.into_iter().map(|(_, fault)| fault).collect()
    }

    /// Returns the keys that were read, in order.
    #[must_use]
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Returns the origin of the value of a key; `None` if it has none.
    #[must_use]
    pub fn origin(&self, path: &str) -> Option<&Origin> {
        self.keys.iter().flat_map(|key| &key.set).find(|setting| setting.path == path).map(|setting| &setting.origin)
    }
}

/// Returns the name below the section.
fn name_in<'a>(section: &str, path: &'a str) -> Option<&'a str> {
    path.strip_prefix(section)?.strip_prefix('.')
}

/// Checks a supplied value of a known key.
fn check(given: &Given, field: &Field, parse: impl FnOnce(&Raw) -> Result<(), Problem>) -> Result<(), SettingError> {
    let path = &given.path;
    let fault = |problem: String| SettingError::new(shortened(path), problem).at(given.origin.clone());
    if matches!(given.origin, Origin::Flag(_)) && field.is_secret(path) {
        let variable = environment::variable(&shortened(path));
        return Err(fault(format!(
            "every user of this machine can see a secret on a command line; set {variable}, or {variable}_FILE to a \
             file that contains it"
        )));
    }
    parse(&given.raw).map_err(|problem| {
        let problem = match problem {
            Problem::Said(text) => text,
            _ => format!("allowed: {}", field.allowed_at(path)),
        };
        let shown = if field.hides(path) { REDACTED.to_owned() } else { shown(&given.raw) };
        fault(problem).with_value(shown)
    })
}

fn unknown(given: &Given, what: &str, nearest: Option<&str>) -> SettingError {
    let problem = match nearest {
        Some(nearest) => format!("{what}; the nearest is `{nearest}`"),
        None => format!("{what}; --list-config lists all keys"),
    };
    SettingError::new(shortened(&given.path), problem).at(given.origin.clone())
}

/// Returns the values of a field, as (name below the section, value): several for a map, none if it is not set.
fn values_of<'a>(field: &'a Field, value: &'a Value) -> Box<dyn Iterator<Item = (String, &'a Value)> + 'a> {
    match value {
        Value::Null => Box::new(std::iter::empty()),
        Value::Object(map) => Box::new(map.iter().map(|(name, value)| (format!("{}.{name}", field.name), value))),
        Value::Array(values) if values.is_empty() => Box::new(std::iter::empty()),
        value => Box::new(std::iter::once((field.name.clone(), value))),
    }
}

/// Returns a default as text; `None` if there is none.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Array(_) | Value::Object(Map { .. }) => None,
        Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    }
}

/// Formats a value as TOML.
fn toml(value: &Value) -> String {
    match value {
        Value::Array(values) => format!("[{}]", values.iter().map(toml).collect::<Vec<_>>().join(", ")),
        value => value.to_string(),
    }
}

/// Formats a TOML basic string, which JSON's escapes suit.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn shown(raw: &Raw) -> String {
    match raw {
        Raw::Scalar(text) => quoted(&shortened(text)),
        Raw::List(texts) => {
            let texts: Vec<String> = texts.iter().take(8).map(|text| quoted(&shortened(text))).collect();
            format!("[{}]", texts.join(", "))
        }
    }
}

/// Truncates a text of arbitrary length.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
