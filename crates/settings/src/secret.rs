//! Values that are not shown: [`Serialize`](serde::Serialize) writes `…` in their place.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Deserializer, Serialize, de::Visitor};

use crate::kind::kind;

/// Placeholder for a secret.
const REDACTED: &str = "…";
/// Allowed values of a secret, which is not trimmed: a PEM key spans several lines.
const ANY_TEXT: &str = "text without NUL";
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

/// Rule for redacting values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HiddenBy {
    /// All values, all of them secrets.
    Kind,
    /// Values whose name marks them as secret.
    Name,
    /// All values. Only those whose name marks them as secret are secrets.
    Caution,
}

impl HiddenBy {
    /// Returns the rule that a description's [`HIDDEN`](crate::HIDDEN) names.
    #[must_use]
    pub fn of(keyword: &str) -> Self {
        match keyword {
            "name" => Self::Name,
            "caution" => Self::Caution,
            _ => Self::Kind,
        }
    }

    /// Returns `true` if the value at `path` must be redacted.
    #[must_use]
    pub fn hides(self, path: &str) -> bool {
        self != Self::Name || is_named_secret(path)
    }

    /// Returns `true` if the value at `path` is a secret.
    #[must_use]
    pub fn is_secret(self, path: &str) -> bool {
        self == Self::Kind || is_named_secret(path)
    }

    /// Returns the allowed values at `path`, if they depend on it.
    #[must_use]
    pub fn allowed(self, path: &str) -> Option<&'static str> {
        (self == Self::Name && is_named_secret(path)).then_some(ANY_TEXT)
    }
}

fn is_named_secret(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|name| path.contains(name))
}

/// Text as it was given. Formats that trim texts pass bytes on unchanged.
struct Untrimmed(String);

impl<'de> Deserialize<'de> for Untrimmed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl Visitor<'_> for Bytes {
            type Value = Untrimmed;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Untrimmed, E> {
                Ok(Untrimmed(String::from_utf8_lossy(bytes).into_owned()))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

impl Untrimmed {
    fn secret(&self) -> Option<String> {
        (!self.0.contains('\0')).then(|| self.0.clone())
    }

    /// Returns a text that is shown.
    fn text(&self) -> Option<String> {
        let text = self.0.trim();
        (!text.contains(char::is_control)).then(|| text.to_owned())
    }
}

/// Secret: any text without NUL, not trimmed.
pub struct Secret;
/// Texts by name. Those whose name marks them as secret are redacted, and may be any text without NUL.
pub struct Properties;
/// Texts by name. All are redacted; those whose name marks them as secret may not be in a flag.
pub struct Headers;

type Texts = BTreeMap<String, String>;

kind! {
    [] Secret, Untrimmed => String,
    read: Untrimmed::secret,
    show: |_| REDACTED,
    allowed: ANY_TEXT.to_owned(),
    hidden: "kind"
}

kind! {
    [] Properties, BTreeMap<String, Untrimmed> => Texts,
    read: |texts| read(texts, |name, text| if is_named_secret(name) { text.secret() } else { text.text() }),
    show: |texts| redacted(texts, HiddenBy::Name),
    allowed: "text without control characters".to_owned(),
    hidden: "name", map: "true"
}

kind! {
    [] Headers, BTreeMap<String, Untrimmed> => Texts,
    read: |texts| read(texts, |_, text| text.text()),
    show: |texts| redacted(texts, HiddenBy::Caution),
    allowed: "text without control characters".to_owned(),
    hidden: "caution", map: "true"
}

fn read(texts: &BTreeMap<String, Untrimmed>, read: fn(&str, &Untrimmed) -> Option<String>) -> Option<Texts> {
    texts.iter().map(|(name, text)| Some((name.clone(), read(name, text)?))).collect()
}

fn redacted(mut texts: Texts, hidden: HiddenBy) -> Texts {
    texts.iter_mut().filter(|(name, _)| hidden.hides(name)).for_each(|(_, text)| *text = REDACTED.to_owned());
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_hidden_by_what_their_names_say_and_headers_always() {
        for (name, secret) in [("sasl.password", true), ("ssl.key.PEM", true), ("sasl.mechanism", false)] {
            assert_eq!((HiddenBy::Name.hides(name), HiddenBy::Name.is_secret(name)), (secret, secret), "{name}");
        }
        for (name, secret) in [("Authorization", true), ("x-api-key", true), ("accept-language", false)] {
            assert_eq!((HiddenBy::Caution.hides(name), HiddenBy::Caution.is_secret(name)), (true, secret), "{name}");
        }
    }
}
