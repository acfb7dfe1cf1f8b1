//! Configuration: one scheme for all services.
//!
//! [`Given`] values come from a TOML file, the environment and flags, in this order of precedence, lowest first; under them are
//! the defaults of [`KEYS`], the one place where a key is described. [`Settings::resolve`] makes settings of them or names every
//! fault at once. It is pure: what reads files and the environment is [`Inputs`].
//!
//! | module | contents |
//! |---|---|
//! | `key`, `keys` | what a key is; every key |
//! | `kind`, `value` | what a value may be, and reading it |
//! | `given`, `file`, `environment` | values on their way in, each with its origin |
//! | `settings` | what applies |
//! | `fault` | what is wrong, where, and what is allowed |
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
pub use fault::Fault;
pub use given::{Given, Inputs, Origin, Raw};
pub use key::Key;
pub use keys::KEYS;
pub use kind::Kind;
pub use settings::{Setting, Settings};
pub use value::{Rate, Value};
