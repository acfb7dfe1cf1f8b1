//! Common part of the service processes: configuration, logs, probes, metrics, ordered shutdown.
//!
//! A binary is `fn main() -> ExitCode { orbweaver_process::main::<ItsService>() }`. Lifecycle:
//!
//! 1. The command line, the file and the environment become [`configuration::Settings`]. All faults are reported at
//!    once, before anything is bound or connected (78). `--check-config`, `--probe` and `--list-config` end here.
//! 2. Logging starts with the version and the effective configuration. The HTTP port is bound; probes are answered from
//!    now on.
//! 3. Log and store are connected; unavailable brokers and nodes are awaited. The clock is compared with those of the
//!    active processes, and the settings with those that crawls pin.
//! 4. The [`Service`] runs its stage. The availability of log and store is checked every few seconds.
//! 5. On SIGTERM or SIGINT readiness turns false; the stage stops reading, drains, commits and leaves its group; the
//!    producer is flushed; the HTTP port closes last. A second signal ends the process at once. A panic in a task, or a
//!    failed stage, ends the process with its exit code ([`ExitReason`]).
//!
//! | module | contents |
//! |---|---|
//! | [`configuration`] | sections, values, their origins and faults (pure, except for reading them) |
//! | `command`, `exit` | the command line; exit codes |
//! | `probe` | the readiness of a running service, for `--probe` |
//! | `client` | settings of commands that are not services |
//! | `service` | interface between a service and its process |
//! | `prepare`, `sections` | settings of the components (pure) |
//! | `run`, `signals` | the process lifecycle |
//! | `connect`, `session` | connections to log and store, and availability checks; check of the session timeout |
//! | `clock`, `clock_difference` | detection of wall-clock steps; comparison with the clocks of others at the start |
//! | `pins` | check of the settings that crawls pin |
//! | `health`, `readiness`, `http` | probes (decisions are pure) and metrics of them, on one port |
//! | `disk` | metrics of the disk with the files of the service |
//! | `logging`, `version` | log output; build information |
//! | `retention`, [`declared_groups`] | deletion of consumed records; groups that retain them |

// They panic if the pipe is closed.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod client;
mod clock;
mod clock_difference;
mod command;
pub mod configuration;
mod connect;
pub mod declared_groups;
mod disk;
mod every_second;
mod exit;
mod health;
mod http;
mod logging;
mod pins;
mod prepare;
mod probe;
mod readiness;
mod retention;
mod run;
mod sections;
mod service;
mod session;
mod signals;
mod version;

pub use client::{cql_settings, kafka_properties};
pub use disk::{DISK, DISK_FREE, disk_space};
pub use every_second::EverySecond;
pub use exit::ExitReason;
pub use prepare::configure;
pub use readiness::{REACHED, READY};
pub use retention::Deleting;
pub use run::main;
pub use sections::State;
pub use service::{Service, ServiceContext, ServiceError};
pub use version::{BUILD_INFO, GIT, VERSION};
