//! Configuration: one scheme for all services.
//!
//! [`Given`] values come from a TOML file, the environment and flags, in increasing order of precedence, on top of the
//! defaults of [`KEYS`], the single description of every key. [`Settings::resolve`] turns them into settings or names
//! every fault at once. It is pure: [`Inputs`] reads files and the environment.
//!
//! | module | contents |
//! |---|---|
//! | `key`, `keys` | description of a key; all keys |
//! | `kind`, `value` | kinds of values; parsed values |
//! | `given`, `file`, `environment` | values as supplied, each with its origin |
//! | `settings` | resolved settings |
//! | `fault` | faults: problem, origin, allowed values |
//! | `describe` | the effective configuration and the list of keys as text |

mod describe;
mod environment;
mod fault;
mod file;
mod given;
mod key;
mod keys;
mod kind;
mod settings;
mod value;

pub use describe::{effective, listed, table};
pub use fault::SettingError;
pub use given::{Given, Inputs, Origin, Raw};
pub use key::Key;
pub use keys::KEYS;
pub use kind::Kind;
pub use settings::{Setting, Settings};
pub use value::{Rate, Value};
