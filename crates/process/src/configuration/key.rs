//! Description of a configuration key.

use super::kind::Kind;
use crate::service::ServiceId;

/// Default of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Default {
    /// None: the key may stay unset.
    Unset,
    /// None: the key must be set.
    Required,
    /// This value, as it would be written in the environment.
    Is(&'static str),
    /// Per service: [`ServiceId::default_listen`].
    Listen,
    /// Per service: [`ServiceId::default_records`].
    Records,
}

/// Single description of a key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub(crate) section: &'static str,
    /// Name below the section. A name that ends in `.*` matches any name in place of the `*`.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) default: Default,
    pub(crate) readers: &'static [ServiceId],
    pub(crate) secret: Secret,
    pub(crate) meaning: &'static str,
}

/// Rule for redacting values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Secret {
    /// No value is redacted.
    Never,
    /// All values are redacted.
    Always,
    /// Values whose name (in place of the `*`) marks them as secret are redacted.
    ByName,
}

/// Substrings that mark librdkafka properties and headers as secret.
const SECRET_NAMES: [&str; 12] = [
    "password",
    "passphrase",
    "secret",
    "token",
    "credential",
    "jaas",
    "oauth",
    "pem",
    "authorization",
    "cookie",
    "api-key",
    "apikey",
];

impl Key {
    pub(crate) const fn new(
        (section, name): (&'static str, &'static str),
        kind: Kind,
        readers: &'static [ServiceId],
        meaning: &'static str,
    ) -> Self {
        Self { section, name, kind, default: Default::Unset, readers, secret: Secret::Never, meaning }
    }

    pub(crate) const fn is(self, default: &'static str) -> Self {
        Self { default: Default::Is(default), ..self }
    }

    pub(crate) const fn required(self) -> Self {
        Self { default: Default::Required, ..self }
    }

    pub(crate) const fn listens(self) -> Self {
        Self { default: Default::Listen, ..self }
    }

    pub(crate) const fn counts_records(self) -> Self {
        Self { default: Default::Records, ..self }
    }

    pub(crate) const fn secret(self, secret: Secret) -> Self {
        Self { secret, ..self }
    }

    /// Returns the full name, `section.name`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }

    /// Returns the environment variable.
    #[must_use]
    pub fn variable(&self) -> String {
        let name = self.name.replace(".*", "__NAME").to_uppercase();
        format!("ORBWEAVER_{}__{name}", self.section.to_uppercase())
    }

    #[must_use]
    pub fn is_read_by(&self, service: ServiceId) -> bool {
        self.readers.contains(&service)
    }

    /// Returns the default for `service` as text.
    #[must_use]
    pub fn default_for(&self, service: ServiceId) -> Option<&'static str> {
        match self.default {
            Default::Unset | Default::Required => None,
            Default::Is(text) => Some(text),
            Default::Listen => Some(service.default_listen()),
            Default::Records => Some(service.default_records()),
        }
    }

    pub(crate) fn is_required(&self) -> bool {
        self.default == Default::Required
    }

    /// Returns `true` if the key matches any name in place of a `*`.
    pub(crate) fn is_open(&self) -> bool {
        self.name.ends_with(".*")
    }

    /// Returns `true` if `name` (below the section) is this key.
    pub(crate) fn matches(&self, name: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(prefix) => name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty()),
            None => self.name == name,
        }
    }

    /// Returns `true` if the value at `path` must be redacted.
    pub(crate) fn hides(&self, path: &str) -> bool {
        match self.secret {
            Secret::Never => false,
            Secret::Always => true,
            Secret::ByName => is_named_secret(path),
        }
    }

    /// Returns `true` if the value at `path` is a secret. Headers are redacted in any case, but only some are secrets.
    pub(crate) fn is_secret(&self, path: &str) -> bool {
        self.hides(path) && (self.kind == Kind::Secret || is_named_secret(path))
    }

    /// Returns the kind of the value at `path`: a value that is shown may have no control characters.
    pub(crate) fn kind_at(&self, path: &str) -> Kind {
        if self.kind == Kind::Secret && !self.hides(path) { Kind::Text } else { self.kind }
    }
}

fn is_named_secret(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|name| path.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: Key = Key::new(("kafka", "properties.*"), Kind::Secret, &ServiceId::ALL, "").secret(Secret::ByName);

    #[test]
    fn an_open_key_stands_for_any_name_but_none() {
        assert!(OPEN.matches("properties.sasl.mechanism"));
        assert!(!OPEN.matches("properties.") && !OPEN.matches("properties") && !OPEN.matches("property.x"));
        assert_eq!(OPEN.variable(), "ORBWEAVER_KAFKA__PROPERTIES__NAME");
    }

    #[test]
    fn properties_are_hidden_by_what_their_names_say() {
        assert!(OPEN.hides("kafka.properties.sasl.password") && OPEN.hides("kafka.properties.ssl.key.PEM"));
        assert!(!OPEN.hides("kafka.properties.sasl.mechanism"));
    }

    #[test]
    fn a_header_is_always_hidden_and_only_some_are_secrets() {
        let headers = Key::new(("fetcher", "headers.*"), Kind::Text, &ServiceId::ALL, "").secret(Secret::Always);
        for (name, secret) in [("Authorization", true), ("x-api-key", true), ("accept-language", false)] {
            let path = format!("fetcher.headers.{name}");
            assert_eq!((headers.hides(&path), headers.is_secret(&path)), (true, secret), "{path}");
            assert_eq!(headers.kind_at(&path), Kind::Text, "it is sent as a header");
        }
    }
}
