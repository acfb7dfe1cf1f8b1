//! The public face: what a runner is made of, and how it starts and ends.

use std::{sync::Arc, time::Duration};

use orbweaver_log::{Log, LogError, Partition};
use orbweaver_messages::topic;
use tokio_util::sync::CancellationToken;

use crate::{
    Clock, Limits, Perform, Pulse, Stage, StageError, SystemClock, Trials, Worker, assignment::TopicSet,
    metrics::Metrics, turn::Turns,
};

/// How a stage is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunnerConfig {
    /// The consumer group; the name of the service by default.
    pub group: Option<String>,
    /// What may be uncommitted and not parked at a time.
    pub limits: Limits,
    /// The shortest time between two commits while records are in flight. 50 ms suits the embedded log; on Kafka, where a
    /// commit is a round trip, one or two seconds do.
    pub commit_interval: Duration,
    /// A commit that is not answered for so long counts as refused.
    pub commit_timeout: Duration,
    /// Commits may be refused for so long before the stage ends.
    pub commit_patience: Duration,
    /// How often the stage's clock ticks at least.
    pub tick_interval: Duration,
    /// How long a partition that is wanted back may finish what is in flight. Stay well below the group's rebalance or
    /// session timeout: past it the partition is lost, and its last commit with it.
    pub drain_budget: Duration,
    /// The same when the process ends. Stay below what the process' supervisor allows (Kubernetes: 30 s).
    pub shutdown_budget: Duration,
    /// Work that is due may stand still for so long.
    pub stall_after: Duration,
    /// A gap of so long between two turns means that the process was frozen: it does nothing more before a commit is
    /// accepted (rule 21); and a stage that needs proof begins nothing when the last accepted commit is as old. Half of the
    /// group's session timeout at most; the longest request and this are within that timeout.
    pub frozen_after: Duration,
    /// How many partitions are restored at a time.
    pub restores_at_once: usize,
    /// A restore may wait for a record that must be there for so long.
    pub restore_patience: Duration,
    /// After a record killed its reader, so many records are taken one at a time (rule 17).
    pub alone_records: usize,
}

impl Default for RunnerConfig {
    fn default() -> Self {
        Self {
            group: None,
            limits: Limits { records: 10_000, bytes: 64 << 20, low_water_percent: 70 },
            commit_interval: Duration::from_millis(50),
            commit_timeout: Duration::from_secs(20),
            commit_patience: Duration::from_secs(60),
            tick_interval: Duration::from_millis(100),
            drain_budget: Duration::from_secs(25),
            shutdown_budget: Duration::from_secs(20),
            stall_after: Duration::from_secs(120),
            frozen_after: Duration::from_secs(20),
            restores_at_once: 4,
            restore_patience: Duration::from_secs(60),
            alone_records: 1000,
        }
    }
}

impl RunnerConfig {
    /// Names the first setting that makes no sense.
    fn fault(&self) -> Option<String> {
        let Limits { records, bytes, low_water_percent } = self.limits;
        let zero = |name: &str| Some(format!("`{name}` is 0; allowed is 1 and above"));
        match () {
            () if records == 0 => zero("limits.records"),
            () if bytes == 0 => zero("limits.bytes"),
            () if self.restores_at_once == 0 => zero("restores_at_once"),
            () if self.tick_interval.is_zero() => zero("tick_interval"),
            () if !(1..100).contains(&low_water_percent) => {
                Some(format!("`limits.low_water_percent` is {low_water_percent}; allowed are 1 to 99"))
            }
            () => None,
        }
    }
}

/// A stage, and what it runs on.
pub struct Runner<S: Stage> {
    pub(crate) stage: S,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) worker: Arc<dyn Worker<S::Job, S::Done>>,
    pub(crate) perform: Arc<dyn Perform<S::Effect>>,
    pub(crate) config: RunnerConfig,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Metrics,
    pub(crate) pulse: Arc<Pulse>,
    pub(crate) trials: Trials,
}

impl<S: Stage> Runner<S> {
    /// A runner of `stage` on `log`, with the system's clock and the metrics of the process.
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

    /// With another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// With metrics of another registry.
    #[must_use]
    pub fn with_metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = metrics.clone();
        self
    }

    /// With signs of life that others look at.
    #[must_use]
    pub fn with_pulse(mut self, pulse: Arc<Pulse>) -> Self {
        self.pulse = pulse;
        self
    }

    /// Shares `trials` with the other stages of its process, so that one record at a time is tried alone (rule 17).
    #[must_use]
    pub fn with_trials(mut self, trials: &Trials) -> Self {
        self.trials = trials.clone();
        self
    }

    /// Runs until `shutdown`: joins the group, serves what it is given, and at the end finishes what is in flight, commits
    /// and leaves, within [`RunnerConfig::shutdown_budget`].
    ///
    /// # Errors
    /// When the configuration is wrong, the log or an effect failed, or the stage halted or stalled. Nothing that was in
    /// flight has completed then; whoever starts next repeats it.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), StageError> {
        let service = self.stage.service();
        if let Some(reason) = self.config.fault().or(self.uneven_topics()?) {
            return Err(StageError::Halted { service, reason });
        }
        let meter = self.metrics.cpu(service);
        let turns = Turns::join(self)?;
        // Boxed: the future of the loop is large, and callers nest it.
        meter.wrap(Box::pin(turns.run(shutdown))).await
    }

    /// Partition N of one topic leads to N of another, so all topics need the same number.
    fn uneven_topics(&self) -> Result<Option<String>, LogError> {
        let topics = self.stage.topics();
        if !(1..=TopicSet::MOST).contains(&topics.len()) {
            return Ok(Some(format!("a stage of {} topics; allowed are 1 to {}", topics.len(), TopicSet::MOST)));
        }
        let mut counts: Vec<(topic::Topic, Partition)> = vec![];
        for &topic in topics.iter().chain(self.stage.claims()).chain([&topic::DEAD_LETTERS]) {
            counts.push((topic, self.log.partitions(topic)?));
        }
        let (first, partitions) = counts[0];
        Ok(counts.iter().find(|(_, count)| *count != partitions).map(|(other, count)| {
            format!("{first} has {partitions} partitions, {other} has {count}: create {other} anew with {partitions}")
        }))
    }
}
