//! The public interface: configuration, construction, start and end of a runner.

use std::{sync::Arc, time::Duration};

use orbweaver_log::{Log, LogError, Partition};
use orbweaver_messages::topic;
use tokio_util::sync::CancellationToken;

use crate::{
    Clock, Limits, Perform, RunnerStatus, Stage, StageError, SystemClock, Trials, Worker, event_loop::EventLoop,
    metrics::Metrics, own_thread::run_on_own_thread,
};

/// Configuration of a runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunnerConfig {
    /// Consumer group; by default the name of the service.
    pub group: Option<String>,
    /// Limits on uncommitted work that is not parked.
    pub limits: Limits,
    /// Minimum time between two commits while records are in flight. 50 ms suits the embedded log; on Kafka, where a
    /// commit is a round trip, one or two seconds suffice.
    pub commit_interval: Duration,
    /// Maximum time for which commits may be refused before the stage ends.
    pub commit_patience: Duration,
    /// Maximum time between two ticks of the stage.
    pub tick_interval: Duration,
    /// Time for a revoked partition to finish its work in flight. Must be well below the group's rebalance or session
    /// timeout: after that the partition is lost, and its last commit with it.
    pub drain_budget: Duration,
    /// Time for all partitions to finish their work at shutdown. Must be below the grace period of the process
    /// supervisor (Kubernetes: 30 s by default; `k8s/` sets 45 s).
    pub shutdown_budget: Duration,
    /// Maximum time for which due work may make no progress.
    pub stall_after: Duration,
    /// A gap of this length between two loop iterations means that the process was suspended: it does nothing until a
    /// commit is accepted (docs/protocol.md#fenced-requests). A stage that needs proof starts no work if its last
    /// accepted commit is this old. At most half of the group's session timeout; the sum of this and the longest
    /// request is within that timeout.
    pub frozen_after: Duration,
    /// Maximum number of concurrent restores.
    pub restores_at_once: usize,
    /// Maximum time for which a restore waits for a record that must exist.
    pub restore_patience: Duration,
    /// Number of records delivered one at a time after a crash loop (docs/protocol.md#quarantine).
    pub quarantine_records: usize,
}

impl Default for RunnerConfig {
    fn default() -> Self {
        Self {
            group: None,
            limits: Limits { records: 10_000, bytes: 64 << 20 },
            commit_interval: Duration::from_millis(50),
            commit_patience: Duration::from_secs(60),
            tick_interval: Duration::from_millis(100),
            drain_budget: Duration::from_secs(25),
            shutdown_budget: Duration::from_secs(20),
            stall_after: Duration::from_secs(120),
            frozen_after: Duration::from_secs(20),
            restores_at_once: 4,
            restore_patience: Duration::from_secs(60),
            quarantine_records: 1000,
        }
    }
}

impl RunnerConfig {
    /// Returns the first invalid setting.
    fn fault(&self) -> Option<String> {
        let Limits { records, bytes } = self.limits;
        let zero = |name: &str| Some(format!("`{name}` is 0; allowed: 1 and above"));
        match () {
            () if records == 0 => zero("limits.records"),
            () if bytes == 0 => zero("limits.bytes"),
            () if self.restores_at_once == 0 => zero("restores_at_once"),
            () if self.tick_interval.is_zero() => zero("tick_interval"),
            () => None,
        }
    }
}

/// A stage with the services that it runs on.
pub struct Runner<S: Stage> {
    pub(crate) stage: S,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) worker: Arc<dyn Worker<S::Job, S::Done>>,
    pub(crate) perform: Arc<dyn Perform<S::Effect>>,
    pub(crate) config: RunnerConfig,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Metrics,
    pub(crate) pulse: Arc<RunnerStatus>,
    pub(crate) trials: Trials,
}

impl<S: Stage> Runner<S> {
    /// Creates a runner of `stage` on `log`, with the system clock and the process's metrics.
    pub fn new(
        stage: S,
        log: Arc<dyn Log>,
        worker: impl Worker<S::Job, S::Done>,
        perform: impl Perform<S::Effect>,
        config: RunnerConfig,
    ) -> Self {
        let metrics = Metrics::of_process().clone();
        let (worker, perform) = (Arc::new(worker), Arc::new(perform));
        let (clock, pulse, trials) = (Arc::new(SystemClock), Arc::default(), Trials::default());
        Self { stage, log, worker, perform, config, clock, metrics, pulse, trials }
    }

    /// Replaces the clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Uses the metrics of another registry.
    #[must_use]
    pub fn with_metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = metrics.clone();
        self
    }

    /// Publishes the state of the runner to `pulse`, for other tasks to read.
    #[must_use]
    pub fn with_pulse(mut self, pulse: Arc<RunnerStatus>) -> Self {
        self.pulse = pulse;
        self
    }

    /// Shares `trials` with the other stages of the process, so that one record at a time is tried while nothing else
    /// is in flight (docs/protocol.md#quarantine).
    #[must_use]
    pub fn with_trials(mut self, trials: &Trials) -> Self {
        self.trials = trials.clone();
        self
    }

    /// Runs like [`Self::run`], on a thread of its own with a current-thread runtime: an index that reads from disk then
    /// blocks no other task. Jobs run where the worker starts them.
    ///
    /// # Errors
    /// See [`Self::run`].
    pub async fn run_on_own_thread(self, shutdown: CancellationToken) -> Result<(), StageError> {
        let service = self.stage.service();
        let ended = run_on_own_thread(service, self.run(shutdown)).await;
        ended.unwrap_or_else(|reason| Err(StageError::Halted { service, reason }))
    }

    /// Runs until `shutdown`: joins the group and processes the assigned partitions; at the end finishes work in
    /// flight, commits and leaves, within [`RunnerConfig::shutdown_budget`].
    ///
    /// # Errors
    /// When the configuration is invalid, the log or an effect failed, or the stage halted or stalled. Nothing in
    /// flight has completed then; the next start repeats it.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), StageError> {
        let service = self.stage.service();
        if let Some(reason) = self.config.fault().or(self.uneven_topics()?) {
            return Err(StageError::Halted { service, reason });
        }
        let meter = self.metrics.cpu(service);
        let event_loop = EventLoop::join(self, shutdown)?;
        meter.wrap(event_loop.run()).await
    }

    /// Checks that all topics have the same number of partitions, since partition N of one leads to N of another.
    fn uneven_topics(&self) -> Result<Option<String>, LogError> {
        let topics = self.stage.topics();
        if topics.is_empty() {
            return Ok(Some("the stage has 0 topics; allowed: 1 and above".to_owned()));
        }
        let mut counts: Vec<(topic::Topic, Partition)> = vec![];
        for &topic in topics.iter().chain(self.stage.claimed_topics()).chain([&topic::DEAD_LETTERS]) {
            counts.push((topic, self.log.partitions(topic)?));
        }
        let (first, partitions) = counts[0];
        Ok(counts.iter().find(|(_, count)| *count != partitions).map(|(other, count)| {
            format!("{first} has {partitions} partitions, {other} has {count}: recreate {other} with {partitions}")
        }))
    }
}
