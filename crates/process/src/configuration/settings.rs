//! What applies.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use orbweaver_url::WideDomains;

use super::{
    Fault, Given, KEYS, Key, Origin, Raw, Value,
    fault::nearest,
    value::{Rate, quoted},
};
use crate::service::ServiceId;

/// What is shown in place of a secret.
pub(crate) const REDACTED: &str = "\"…\"";

/// The value of a key, and where it came from.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The key.
    pub key: &'static Key,
    /// The value.
    pub value: Value,
    /// Where it came from.
    pub origin: Origin,
}

/// The effective configuration of a service: a value for each key that is set or has a default.
#[derive(Debug, Clone)]
pub struct Settings {
    service: ServiceId,
    set: BTreeMap<String, Setting>,
}

impl Settings {
    /// Puts together what was given, the least first, on top of the defaults. Every value is checked, also one that another
    /// overrides, and also one of another service: one file may serve all. A key with a fault keeps what it had before. Pure.
    #[must_use]
    pub fn resolve(service: ServiceId, given: &[Given]) -> (Self, Vec<Fault>) {
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
                    "it is not set; set {} or `{}` under [{}] in the file; allowed is {}",
                    key.variable(),
                    key.name,
                    key.section,
                    key.kind
                );
                faults.push(Fault::new(path, problem));
            }
        }
        (settings, faults)
    }

    /// The service whose settings these are.
    #[must_use]
    pub fn service(&self) -> ServiceId {
        self.service
    }

    /// Every key that is set or has a default, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.set.iter().map(|(path, setting)| (path.as_str(), setting))
    }

    /// Adds to a fault what these settings know of its key: the value, as it may be shown, and where it came from.
    #[must_use]
    pub fn complete(&self, fault: Fault) -> Fault {
        match self.set.get(fault.path()) {
            Some(setting) if !fault.has_origin() => {
                let value = setting.shown(fault.path());
                fault.with_value(value).at(setting.origin.clone())
            }
            _ => fault,
        }
    }

    fn get<T>(&self, path: &str, of: impl Fn(&Value) -> Option<T>) -> Result<T, Fault> {
        self.find(path, of)?.ok_or_else(|| Fault::new(path, "it is not set"))
    }

    fn find<T>(&self, path: &str, of: impl Fn(&Value) -> Option<T>) -> Result<Option<T>, Fault> {
        match self.set.get(path) {
            None if known(path).is_some() => Ok(None),
            None => Err(Fault::new(path, "there is no such key")),
            Some(setting) => match of(&setting.value) {
                None => Err(Fault::new(path, "its value is of another kind")),
                some => Ok(some),
            },
        }
    }

    /// A text.
    ///
    /// # Errors
    /// When it is not set. So for all of the following.
    pub fn text(&self, path: &str) -> Result<String, Fault> {
        self.get(path, text)
    }

    /// A text, if it is set.
    ///
    /// # Errors
    /// When there is no such key, as for all that may be unset.
    pub fn optional_text(&self, path: &str) -> Result<Option<String>, Fault> {
        self.find(path, text)
    }

    /// A number.
    ///
    /// # Errors
    /// When it is not set, or larger than `T` holds.
    pub fn count<T: TryFrom<u64>>(&self, path: &str) -> Result<T, Fault> {
        self.get(path, |value| count(value).and_then(|count| T::try_from(count).ok()))
    }

    /// A number, if it is set.
    ///
    /// # Errors
    /// When there is no such key, or it is larger than `T` holds.
    pub fn optional_count<T: TryFrom<u64>>(&self, path: &str) -> Result<Option<T>, Fault> {
        self.find(path, |value| count(value).and_then(|count| T::try_from(count).ok()))
    }

    /// A number of bytes.
    ///
    /// # Errors
    /// When it is not set.
    pub fn size(&self, path: &str) -> Result<usize, Fault> {
        self.count(path)
    }

    /// A time.
    ///
    /// # Errors
    /// When it is not set.
    pub fn time(&self, path: &str) -> Result<Duration, Fault> {
        self.get(path, |value| if let Value::Time(time) = value { Some(*time) } else { None })
    }

    /// A time, if it is set.
    ///
    /// # Errors
    /// When there is no such key.
    pub fn optional_time(&self, path: &str) -> Result<Option<Duration>, Fault> {
        self.find(path, |value| if let Value::Time(time) = value { Some(*time) } else { None })
    }

    /// A time in milliseconds.
    ///
    /// # Errors
    /// When it is not set.
    pub fn time_ms<T: TryFrom<u128>>(&self, path: &str) -> Result<T, Fault> {
        self.get(path, |value| if let Value::Time(time) = value { T::try_from(time.as_millis()).ok() } else { None })
    }

    /// Yes or no.
    ///
    /// # Errors
    /// When it is not set.
    pub fn switch(&self, path: &str) -> Result<bool, Fault> {
        self.get(path, |value| if let Value::Switch(on) = value { Some(*on) } else { None })
    }

    /// Several texts; none when it is not set.
    ///
    /// # Errors
    /// When there is no such key.
    pub fn list(&self, path: &str) -> Result<Vec<String>, Fault> {
        let list = self.find(path, |value| if let Value::List(texts) = value { Some(texts.clone()) } else { None })?;
        Ok(list.unwrap_or_default())
    }

    /// The domains whose hosts are sites of their own.
    ///
    /// # Errors
    /// When one is no domain.
    pub fn wide_domains(&self) -> Result<WideDomains, Fault> {
        const KEY: &str = "normalizer_dedup.wide_domains";
        WideDomains::new(self.list(KEY)?).map_err(|error| Fault::new(KEY, error.to_string()))
    }

    /// How often a site may be asked.
    ///
    /// # Errors
    /// When it is not set.
    pub fn rate(&self, path: &str) -> Result<Rate, Fault> {
        self.get(path, |value| if let Value::Rate(rate) = value { Some(*rate) } else { None })
    }

    /// Where to listen.
    ///
    /// # Errors
    /// When it is not set.
    pub fn address(&self, path: &str) -> Result<SocketAddr, Fault> {
        self.get(path, |value| if let Value::Address(address) = value { Some(*address) } else { None })
    }

    /// All texts that are set below `path`, as (name, text), in order.
    pub fn texts_below(&self, path: &str) -> impl Iterator<Item = (String, String)> {
        self.below(path).filter_map(|(name, value)| Some((name.to_owned(), text(value)?)))
    }

    /// All that is set below `path`, as (name, value), in order.
    pub fn below(&self, path: &str) -> impl Iterator<Item = (&str, &Value)> {
        let from = format!("{path}.");
        let length = from.len();
        let end = from.clone();
        let range = self.set.range(from..).take_while(move |(name, _)| name.starts_with(&end));
        range.map(move |(name, setting)| (&name[length..], &setting.value))
    }
}

impl Setting {
    /// The value as TOML, or that it is a secret.
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

/// The key and value of what was given.
fn check(given: &Given) -> Result<(&'static Key, Value), Fault> {
    let fault = |problem: String| Fault::new(shortened(&given.path), problem).at(given.origin.clone());
    let Some(key) = known(&given.path) else { return Err(fault(unknown(&given.path))) };
    key.kind.read(&given.raw).map(|value| (key, value)).ok_or_else(|| {
        let shown = if key.hides(&given.path) { REDACTED.to_owned() } else { shown(&given.raw) };
        fault(format!("allowed is {}", key.kind)).with_value(shown)
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
        None => format!("{what}; --list-config lists all"),
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

/// The beginning of what may be very long.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
