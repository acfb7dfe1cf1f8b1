//! Configuration: one scheme for all services.
//!
//! A section is a serde struct ([`Section`](orbweaver_settings::Section)): its fields are the keys, each with its type,
//! range, default and meaning. [`Given`] values come from a TOML file, the environment and flags, in increasing order of
//! precedence. [`Settings`] reads sections from them and collects every fault. It is pure: [`Inputs`] reads files and
//! the environment.
//!
//! | module | contents |
//! |---|---|
//! | `given`, `file`, `environment` | values as supplied, each with its origin |
//! | `values` | supplied values as the input of serde |
//! | `field` | description of a key, from the JSON Schema of its section |
//! | `settings` | sections read from supplied values |
//! | `fault` | faults: problem, origin, allowed values |
//! | `describe` | the effective configuration and the list of keys as text |

mod describe;
mod environment;
mod fault;
mod field;
mod file;
mod given;
mod settings;
mod values;

pub use describe::{effective, listed, table};
pub use fault::SettingError;
pub use given::{Given, Inputs, Origin, Raw};
pub use settings::{Key, SECTIONS, Settings};
