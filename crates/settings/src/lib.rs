//! Values of settings: what a field of a configuration may hold, how it is written, and how that is described.
//!
//! A section of the configuration is a plain struct. Its fields have ordinary types; the attribute names the kind, which
//! checks the range, reads and writes the text form, and describes the allowed values in the JSON Schema of the struct:
//!
//! ```
//! use std::time::Duration;
//!
//! use orbweaver_settings::{Count, MINUTE, Time};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize, JsonSchema)]
//! #[serde(default, deny_unknown_fields)]
//! struct Example {
//!     /// Meaning of the key.
//!     #[serde(with = "Count::<1, 100>")]
//!     attempts: u8,
//!     /// Meaning of the key.
//!     #[serde(with = "Time::<1, MINUTE>")]
//!     timeout: Duration,
//! }
//!
//! impl Default for Example {
//!     fn default() -> Self {
//!         Self { attempts: 3, timeout: Duration::from_secs(10) }
//!     }
//! }
//! ```
//!
//! A field without a kind is a `bool`, a `String` without control characters, a list of them, or an enum of words. The
//! first paragraph of a field's documentation is the meaning of the key in READMEs and `--list-config`.
//!
//! | module | contents |
//! |---|---|
//! | `kind` | numbers, durations, sizes, names, addresses |
//! | `held` | types of fields that can hold the value of a kind |
//! | `rate` | request rates |
//! | `secret` | values that are not shown |

mod held;
mod kind;
mod rate;
mod secret;

pub use held::Held;
pub use kind::{Address, Cores, Count, Name, Servers, Size, Time};
pub use rate::Rate;
pub use secret::{Headers, HiddenBy, Properties, Secret};

pub const SECOND: u64 = 1000;
pub const MINUTE: u64 = 60 * SECOND;
pub const HOUR: u64 = 60 * MINUTE;
pub const DAY: u64 = 24 * HOUR;
pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;

/// Keyword of the JSON Schema with the allowed values as text.
pub const ALLOWED: &str = "allowed";
/// Keyword of the JSON Schema with the text of a default that depends on the machine.
pub const DEFAULT_TEXT: &str = "default_text";
/// Keyword of the JSON Schema that marks values to be redacted, a [`HiddenBy`].
pub const HIDDEN: &str = "hidden";
/// Keyword of the JSON Schema of values by name.
pub const MAP: &str = "map";

/// Section of the configuration.
pub trait Section: Default + serde::Serialize + serde::de::DeserializeOwned + schemars::JsonSchema {
    /// Name of the section.
    const NAME: &'static str;
    /// Keys that must be set.
    const REQUIRED: &'static [&'static str] = &[];

    /// Returns what the kinds of the values cannot express: values that conflict with others, and unusable texts.
    fn conflicts(&self) -> Vec<Conflict> {
        vec![]
    }

    /// Checks a section that was not read from a configuration.
    ///
    /// # Errors
    /// Returns the first conflict.
    fn check(&self) -> Result<(), Conflict> {
        self.conflicts().into_iter().next().map_or(Ok(()), Err)
    }
}

/// A value that conflicts with others, or that its kind cannot exclude.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}`: {problem}")]
pub struct Conflict {
    /// Name of the key, without its section.
    pub key: String,
    /// Problem, with the allowed values.
    pub problem: String,
}

impl Conflict {
    /// Creates a conflict of `key`.
    pub fn new(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { key: key.into(), problem: problem.into() }
    }

    /// Creates a conflict of a key whose value is outside of `allowed`.
    pub fn allowed(key: impl Into<String>, allowed: impl std::fmt::Display) -> Self {
        Self::new(key, format!("allowed: {allowed}"))
    }
}
