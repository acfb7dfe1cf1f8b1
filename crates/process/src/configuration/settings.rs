//! Resolved settings.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use orbweaver_url::WideDomains;

use super::{
    Given, KEYS, Key, Origin, Raw, SettingError, Value, environment,
    fault::nearest,
    value::{Rate, quoted},
};
use crate::service::ServiceId;

/// Placeholder for a secret.
pub(crate) const REDACTED: &str = "\"…\"";

/// Value of a key, with its origin.
#[derive(Debug, Clone)]
pub struct Setting {
    pub key: &'static Key,
    pub value: Value,
    pub origin: Origin,
}

/// Effective configuration of a service: a value for each key that is set or has a default.
#[derive(Debug, Clone)]
pub struct Settings {
    service: ServiceId,
    set: BTreeMap<String, Setting>,
}

impl Settings {
    /// Applies the given values, lowest precedence first, on top of the defaults. Every value is checked, even if it is
    /// overridden or belongs to another service, since one file may serve all. A key with a fault keeps its previous
    /// value. Pure.
    #[must_use]
    pub fn resolve(service: ServiceId, given: &[Given]) -> (Self, Vec<SettingError>) {
        let mut settings = Self { service, set: BTreeMap::new() };
        let mut faults = vec![];
        for key in KEYS.iter().filter(|key| !key.is_open()) {
            if let Some(value) = key.default_for(service).and_then(|text| key.kind.read(&Raw::Scalar(text.to_owned())))
            {
                settings.set.insert(key.path(), Setting { key, value, origin: Origin::Default });
            }
        }
        for given in given {
            match check(given) {
                Ok((key, value)) => {
                    let setting = Setting { key, value, origin: given.origin.clone() };
                    settings.set.insert(given.path.clone(), setting);
                }
                Err(fault) => faults.push(fault),
            }
        }
        for key in KEYS.iter().filter(|key| key.is_required() && key.is_read_by(service)) {
            let path = key.path();
            if !settings.set.contains_key(&path) && !faults.iter().any(|fault| fault.path() == path) {
                let problem = format!(
                    "it is not set; set {} or `{}` under [{}] in the file; allowed: {}",
                    key.variable(),
                    key.name,
                    key.section,
                    key.kind
                );
                faults.push(SettingError::new(path, problem));
            }
        }
        (settings, faults)
    }

    /// Returns the service of these settings.
    #[must_use]
    pub fn service(&self) -> ServiceId {
        self.service
    }

    /// Iterates over all keys that are set or have a default, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.set.iter().map(|(path, setting)| (path.as_str(), setting))
    }

    /// Adds the known value (redacted if secret) and origin of the fault's key, unless the fault has an origin.
    #[must_use]
    pub fn complete(&self, fault: SettingError) -> SettingError {
        match self.set.get(fault.path()) {
            Some(setting) if !fault.has_origin() => {
                let value = setting.shown(fault.path());
                fault.with_value(value).at(setting.origin.clone())
            }
            _ => fault,
        }
    }

    fn get<T>(&self, path: &str, of: impl Fn(&Value) -> Option<T>) -> Result<T, SettingError> {
        self.find(path, of)?.ok_or_else(|| SettingError::new(path, "it is not set"))
    }

    fn find<T>(&self, path: &str, of: impl Fn(&Value) -> Option<T>) -> Result<Option<T>, SettingError> {
        match self.set.get(path) {
            None if known(path).is_some() => Ok(None),
            None => Err(SettingError::new(path, "there is no such key")),
            Some(setting) => match of(&setting.value) {
                None => Err(SettingError::new(path, "its value has another type")),
                some => Ok(some),
            },
        }
    }

    pub fn text(&self, path: &str) -> Result<String, SettingError> {
        self.get(path, text)
    }

    pub fn optional_text(&self, path: &str) -> Result<Option<String>, SettingError> {
        self.find(path, text)
    }

    /// Returns a number.
    pub fn count<T: TryFrom<u64>>(&self, path: &str) -> Result<T, SettingError> {
        self.get(path, |value| count(value).and_then(|count| T::try_from(count).ok()))
    }

    /// Returns a number, if set.
    pub fn optional_count<T: TryFrom<u64>>(&self, path: &str) -> Result<Option<T>, SettingError> {
        self.find(path, |value| count(value).and_then(|count| T::try_from(count).ok()))
    }

    /// Returns a number of bytes.
    pub fn size(&self, path: &str) -> Result<usize, SettingError> {
        self.count(path)
    }

    pub fn time(&self, path: &str) -> Result<Duration, SettingError> {
        self.get(path, |value| if let Value::Time(time) = value { Some(*time) } else { None })
    }

    pub fn optional_time(&self, path: &str) -> Result<Option<Duration>, SettingError> {
        self.find(path, |value| if let Value::Time(time) = value { Some(*time) } else { None })
    }

    /// Returns a duration in milliseconds.
    pub fn time_ms<T: TryFrom<u128>>(&self, path: &str) -> Result<T, SettingError> {
        self.get(path, |value| if let Value::Time(time) = value { T::try_from(time.as_millis()).ok() } else { None })
    }

    pub fn switch(&self, path: &str) -> Result<bool, SettingError> {
        self.get(path, |value| if let Value::Switch(on) = value { Some(*on) } else { None })
    }

    /// Returns a list of texts; empty if not set.
    pub fn list(&self, path: &str) -> Result<Vec<String>, SettingError> {
        let list = self.find(path, |value| if let Value::List(texts) = value { Some(texts.clone()) } else { None })?;
        Ok(list.unwrap_or_default())
    }

    /// Returns the domains whose hosts are separate sites.
    pub fn wide_domains(&self) -> Result<WideDomains, SettingError> {
        const KEY: &str = "normalizer_dedup.wide_domains";
        WideDomains::new(self.list(KEY)?).map_err(|error| SettingError::new(KEY, error.to_string()))
    }

    /// Returns the maximum request rate to a site.
    pub fn rate(&self, path: &str) -> Result<Rate, SettingError> {
        self.get(path, |value| if let Value::Rate(rate) = value { Some(*rate) } else { None })
    }

    /// Returns an address to listen on.
    pub fn address(&self, path: &str) -> Result<SocketAddr, SettingError> {
        self.get(path, |value| if let Value::Address(address) = value { Some(*address) } else { None })
    }

    /// Iterates over all texts set below `path`, as (name, text), in order.
    pub fn texts_below(&self, path: &str) -> impl Iterator<Item = (String, String)> {
        self.below(path).filter_map(|(name, value)| Some((name.to_owned(), text(value)?)))
    }

    /// Iterates over all values set below `path`, as (name, value), in order.
    pub fn below(&self, path: &str) -> impl Iterator<Item = (&str, &Value)> {
        let from = format!("{path}.");
        let length = from.len();
        let end = from.clone();
        let range = self.set.range(from..).take_while(move |(name, _)| name.starts_with(&end));
        range.map(move |(name, setting)| (&name[length..], &setting.value))
    }
}

impl Setting {
    /// Returns the value as TOML, redacted if it is a secret.
    pub(crate) fn shown(&self, path: &str) -> String {
        if self.key.hides(path) { REDACTED.to_owned() } else { self.value.toml() }
    }
}

fn text(value: &Value) -> Option<String> {
    if let Value::Text(text) = value { Some(text.clone()) } else { None }
}

fn count(value: &Value) -> Option<u64> {
    match value {
        Value::Count(count) | Value::Size(count) => Some(*count),
        _ => None,
    }
}

fn known(path: &str) -> Option<&'static Key> {
    let (section, name) = path.split_once('.')?;
    KEYS.iter().find(|key| key.section == section && key.matches(name))
}

/// Returns the key and parsed value of a supplied value.
fn check(given: &Given) -> Result<(&'static Key, Value), SettingError> {
    let fault = |problem: String| SettingError::new(shortened(&given.path), problem).at(given.origin.clone());
    let Some(key) = known(&given.path) else { return Err(fault(unknown(&given.path))) };
    if matches!(given.origin, Origin::Flag(_)) && key.is_secret(&given.path) {
        let variable = environment::variable(&shortened(&given.path));
        return Err(fault(format!(
            "every user of this machine can see a secret on a command line; set {variable}, or {variable}_FILE to a \
             file that contains it"
        )));
    }
    let kind = key.kind_at(&given.path);
    kind.read(&given.raw).map(|value| (key, value)).ok_or_else(|| {
        let shown = if key.hides(&given.path) { REDACTED.to_owned() } else { shown(&given.raw) };
        fault(format!("allowed: {kind}")).with_value(shown)
    })
}

fn unknown(path: &str) -> String {
    let (section, name) = path.split_once('.').unwrap_or((path, ""));
    let of_section = || KEYS.iter().filter(|key| key.section == section).map(|key| key.name.trim_end_matches(".*"));
    let (what, nearest) = if of_section().next().is_some() {
        let whole = nearest(name, of_section());
        (
            format!("there is no such key in [{section}]"),
            whole.or_else(|| nearest(name.split('.').next()?, of_section())),
        )
    } else {
        ("there is no such section".to_owned(), nearest(section, KEYS.iter().map(|key| key.section)))
    };
    match nearest {
        Some(nearest) => format!("{what}; the nearest is `{nearest}`"),
        None => format!("{what}; --list-config lists all keys"),
    }
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
