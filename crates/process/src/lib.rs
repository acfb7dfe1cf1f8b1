//! The shell of a service: configuration, logs, probes and metrics, ordered shutdown.
//!
//! A binary is `fn main() -> ExitCode { orbweaver_process::main::<ItsService>() }`. What happens then, in this order:
//!
//! 1. The command line, the file and the environment become [`configuration::Settings`]; every fault is told at once, and
//!    nothing was bound or connected by then (78). `--check-config` and `--list-config` end here.
//! 2. Logs begin, with version and effective configuration. The HTTP port is bound: from now on probes are answered.
//! 3. Log and store are connected; brokers and nodes that are away are waited for.
//! 4. The [`Service`] runs its stage. Beside it the log and the store are asked every few seconds whether they are there.
//! 5. SIGTERM or SIGINT: readiness turns false; the stage takes nothing more, drains, commits and leaves its group; the
//!    producer is flushed; the HTTP port closes last. A second signal ends at once. A panic in a task, or a stage that
//!    failed, ends the process with its exit code ([`End`]).
//!
//! | module | contents |
//! |---|---|
//! | [`configuration`] | keys, values, their origins and faults (pure, save for reading them) |
//! | `command`, `exit` | the command line; exit codes |
//! | `client` | settings of commands that are no service |
//! | `service` | what a service is to its shell, and the other way round |
//! | `prepare` | from settings to what runs (pure) |
//! | `run`, `signals`, `panics` | the order of things |
//! | `connect`, `session` | log and store: connecting, and asking whether they are there; whether requests end within a session |
//! | `clock` | a wall clock that is set while the process runs |
//! | `health`, `readiness`, `http` | probes (deciding is pure), and metrics of them, on one port |
//! | `logging`, `version` | log lines; which build this is |
//! | `retention` | deleting what is worked off |

mod client;
mod clock;
mod command;
pub mod configuration;
mod connect;
mod exit;
mod health;
mod http;
mod logging;
mod panics;
mod prepare;
mod readiness;
mod retention;
mod run;
mod service;
mod session;
mod signals;
mod version;

pub use client::ClientSettings;
pub use exit::End;
pub use readiness::{REACHED, READY};
pub use retention::Deleting;
pub use run::main;
pub use service::{Service, ServiceError, ServiceId, Shell};
pub use version::{BUILD_INFO, GIT, VERSION};
