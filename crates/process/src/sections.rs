//! Sections that every service reads, in addition to those of the log and the store.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use orbweaver_settings::{Address, Conflict, Cores, Count, DAY, GIB, MIB, MINUTE, SECOND, Section, Size, Time};
use orbweaver_stage::{Limits, RunnerConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

/// `http`: the listener.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Http {
    /// Address of `/livez`, `/readyz` and `/metrics`; port 0 selects a free port. There is no access control: do not
    /// expose it publicly.
    #[serde(with = "Address")]
    pub(crate) listen: SocketAddr,
}

impl Default for Http {
    /// Replaced by [`Service::LISTEN`](crate::Service::LISTEN).
    fn default() -> Self {
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 0)) }
    }
}

impl Section for Http {
    const NAME: &'static str = "http";
}

/// `log`: output on stderr.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LogOutput {
    /// `error`, `warn`, `info`, `debug`, `trace`, or directives such as `info,orbweaver_fetcher=debug`. If it is not set,
    /// `RUST_LOG` applies.
    pub(crate) level: String,
    /// One JSON object per line, or human-readable text.
    pub(crate) format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Format {
    Json,
    Text,
}

impl Default for LogOutput {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: Format::Json }
    }
}

impl Section for LogOutput {
    const NAME: &'static str = "log";

    fn conflicts(&self) -> Vec<Conflict> {
        let allowed = "`error`, `warn`, `info`, `debug`, `trace`, or directives such as `info,orbweaver_fetcher=debug`";
        let error = EnvFilter::try_new(&self.level).err();
        error.map(|error| Conflict::new("level", format!("{error}; allowed: {allowed}"))).into_iter().collect()
    }
}

/// `runtime`: threads, and limits of the stage.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Runtime {
    /// Threads of the runtime. `auto` respects the CPU quota of a container.
    #[serde(with = "Cores")]
    pub(crate) worker_threads: usize,
    /// Maximum time to finish work in flight after SIGTERM. Keep it some seconds below the limit of the supervisor.
    #[serde(with = "Time::<100, { 10 * MINUTE }>")]
    shutdown_budget: Duration,
    /// Maximum time to finish work in flight in a revoked partition. At least `fetcher.request_timeout`.
    #[serde(with = "Time::<100, { 2 * MINUTE }>")]
    drain_budget: Duration,
    /// Time without progress on due work after which the process exits with 75. Set it longer than the outages of Kafka
    /// and the store that the process should survive.
    #[serde(with = "Time::<{ 10 * SECOND }, DAY>")]
    stall_after: Duration,
    /// Minimum time between two commits. After a crash, up to this much work is repeated.
    #[serde(with = "Time::<10, MINUTE>")]
    commit_interval: Duration,
    /// A process that was suspended for this long does nothing until a commit is accepted. At most half of the group's
    /// session timeout (45 s).
    #[serde(with = "Time::<SECOND, { 10 * MINUTE }>")]
    frozen_after: Duration,
    /// Maximum number of partitions whose index is restored concurrently.
    #[serde(with = "Count::<1, 1024>")]
    restores_at_once: usize,
    /// Maximum number of records in flight; above it, reading pauses.
    #[serde(with = "Count::<1, 10_000_000>")]
    records: usize,
    /// Maximum size of the records in flight; above it, reading pauses.
    #[serde(with = "Size::<MIB, { 64 * GIB }>")]
    bytes: usize,
}

impl Default for Runtime {
    /// The defaults of the runner, except for those that suit a cluster better.
    fn default() -> Self {
        let RunnerConfig { limits, shutdown_budget, drain_budget, frozen_after, restores_at_once, .. } =
            RunnerConfig::default();
        Self {
            worker_threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            shutdown_budget,
            drain_budget,
            stall_after: Duration::from_mins(5),
            commit_interval: Duration::from_secs(1),
            frozen_after,
            restores_at_once,
            records: limits.records,
            bytes: limits.bytes,
        }
    }
}

impl Section for Runtime {
    const NAME: &'static str = "runtime";
}

impl Runtime {
    /// Returns the configuration of the runner. Commits and restores wait for the brokers as long as all other requests
    /// do: for `patience`.
    pub(crate) fn runner(&self, patience: Duration) -> RunnerConfig {
        let default = RunnerConfig::default();
        RunnerConfig {
            limits: Limits { records: self.records, bytes: self.bytes },
            commit_interval: self.commit_interval,
            commit_patience: patience,
            restore_patience: patience,
            drain_budget: self.drain_budget,
            shutdown_budget: self.shutdown_budget,
            stall_after: self.stall_after,
            frozen_after: self.frozen_after,
            restores_at_once: self.restores_at_once,
            ..default
        }
    }

    /// Checks the settings against each other, the session timeout, and the setting that bounds the longest request: a
    /// request that outlasted the drain of its partition would still be in flight when the next owner sends its own.
    pub(crate) fn misfits(&self, session: Duration, longest: Option<(&str, Duration)>) -> Vec<Conflict> {
        let show = humantime::format_duration;
        let mut conflicts = vec![];
        let mut at_most = |key: &str, value: Duration, most: Duration, why: &str| {
            if value > most {
                conflicts.push(Conflict::allowed(key, format!("at most {}: {why}", show(most))));
            }
        };
        let half = "half of `kafka.session_timeout`, after which partitions may move";
        at_most("frozen_after", self.frozen_after, session / 2, half);
        let stall = self.stall_after / 2;
        at_most("commit_interval", self.commit_interval, stall, "half of `runtime.stall_after`");
        at_most("drain_budget", self.drain_budget, stall, "half of `runtime.stall_after`");
        if let Some((key, request)) = longest.filter(|(_, request)| *request > self.drain_budget) {
            conflicts
                .push(Conflict::allowed("drain_budget", format!("at least {}, as much as `{key}`", show(request))));
        }
        conflicts
    }
}

/// `state`: indexes over the log.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct State {
    /// Directory of the indexes over the log, with a subdirectory per service; may be deleted while the service is
    /// stopped. Instances of a service must not share it.
    #[schemars(extend("allowed" = "a path"))]
    pub dir: PathBuf,
}

impl Default for State {
    fn default() -> Self {
        Self { dir: "orbweaver-state".into() }
    }
}

impl Section for State {
    const NAME: &'static str = "state";
}
