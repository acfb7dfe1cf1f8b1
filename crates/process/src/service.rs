//! Interface between a service and its process.

use std::{path::Path, sync::Arc};

use orbweaver_log::{Log, kafka::KafkaLog};
use orbweaver_messages::Topic;
use orbweaver_stage::{Perform, Runner, RunnerConfig, Stage, StageError, Trials, Worker, metrics::Metrics};
use orbweaver_store::{Store, StoreMetrics, StoreWriter};
use orbweaver_url::WideDomains;
use prometheus::Registry;
use tokio_util::sync::CancellationToken;

use crate::{
    configuration::Settings,
    declared_groups::{self, StartAt},
    every_second::{self, EverySecond},
    health::Health,
    retention::{self, Deleting},
};

/// Failure of a service.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The stage failed.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// The service could not start.
    #[error("cannot start: {0}")]
    Start(String),
    /// The configuration does not match the servers, or the settings that a crawl pins.
    #[error("cannot start: {0}")]
    Configuration(String),
    /// The clock differs from those of all active processes.
    #[error("cannot start: {0}")]
    Clock(String),
}

impl ServiceError {
    /// Creates a [`Self::Start`] caused by `error`.
    #[must_use]
    pub fn start(error: impl std::fmt::Display) -> Self {
        Self::Start(error.to_string())
    }
}

/// Service-specific part of a binary.
pub trait Service: Sized + Send + 'static {
    /// Name in metrics, logs, consumer groups and directories.
    const NAME: &'static str;
    /// Name of the binary.
    const BINARY: &'static str;
    /// Purpose, as one sentence.
    const ABOUT: &'static str;
    /// Default address of probes and metrics; ports differ so that one machine can run all services.
    const LISTEN: &'static str;
    /// Default limit on outstanding records, if it differs from that of the runner.
    const RECORDS: Option<&'static str> = None;
    /// Whether the service uses the log. One without it has no stage either, and calls [`ServiceContext::answer`].
    const HAS_LOG: bool = true;
    /// Whether the service uses the store.
    const HAS_STORE: bool = false;

    /// Reads the sections of the service, and checks the dependencies of their settings. Faults are added to `settings`.
    /// `record_limit` is that of the log, in bytes; of a service without one, the default. Pure.
    fn configure(settings: &mut Settings, record_limit: usize) -> Self;

    /// Returns the setting that bounds the longest request to a site, with its value; `None` if the service sends none.
    fn longest_request(&self) -> Option<(&'static str, std::time::Duration)> {
        None
    }

    /// Returns the wide domains, which are compared with those that crawls pin; `None` for a service that determines no
    /// sites or checks them itself.
    fn wide_domains(&self) -> Option<WideDomains> {
        None
    }

    /// Returns the directory with the files of the service, whose disk has metrics.
    fn directory(&self) -> Option<&Path> {
        None
    }

    /// Serves until [`ServiceContext::run`] returns at shutdown.
    fn serve(self, shell: ServiceContext) -> impl Future<Output = Result<(), ServiceError>> + Send;
}

/// Components that a service runs on.
pub struct ServiceContext {
    /// `None` for a service without a log.
    pub(crate) log: Option<Arc<KafkaLog>>,
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) registry: Registry,
    pub(crate) metrics: Metrics,
    pub(crate) store_metrics: StoreMetrics,
    pub(crate) runner: RunnerConfig,
    pub(crate) health: Arc<Health>,
    pub(crate) stop: CancellationToken,
    pub(crate) trials: Trials,
}

impl ServiceContext {
    pub fn log(&self) -> Result<Arc<dyn Log>, ServiceError> {
        Ok(self.kafka()?.clone())
    }

    fn kafka(&self) -> Result<&Arc<KafkaLog>, ServiceError> {
        self.log.as_ref().ok_or_else(|| ServiceError::Start("this service has no log".to_owned()))
    }

    pub fn store(&self) -> Result<Arc<dyn Store>, ServiceError> {
        self.store.clone().ok_or_else(|| ServiceError::Start("this service has no store".to_owned()))
    }

    /// Returns the executor of the stage's writes to the store.
    pub fn store_writer(&self) -> Result<StoreWriter, ServiceError> {
        Ok(StoreWriter::new(self.store()?).with_metrics(self.store_metrics.clone()))
    }

    /// Returns the registry of metrics.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the metrics of the runtime.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Declares the group of this service, which is not one that every pipeline has: from now on, records of these topics
    /// are retained until it has committed them, also while no instance runs. To be called before [`Self::run`].
    ///
    /// # Errors
    /// If the log fails, or the group has members and no start position.
    pub async fn retain(&self, group: &'static str, topics: &[Topic]) -> Result<(), ServiceError> {
        let announce = |left: std::time::Duration| {
            tracing::info!(group, seconds = left.as_secs() + 1, "waits for deletions in progress before it starts");
        };
        let retained = declared_groups::retain(self.kafka()?, group, topics, StartAt::Start, announce);
        tokio::select! {
            retained = retained => retained.map_err(ServiceError::start),
            // The caller runs its stage next, which ends at once.
            () = self.stop.cancelled() => Ok(()),
        }
    }

    /// Runs the stage until the process shuts down.
    pub async fn run<S, W, P>(&self, stage: S, worker: W, perform: P) -> Result<(), ServiceError>
    where
        S: Stage,
        W: Worker<S::Job, S::Done>,
        P: Perform<S::Effect>,
    {
        let runner = Runner::new(stage, self.log()?, worker, perform, self.runner.clone())
            .with_metrics(&self.metrics)
            .with_pulse(self.health.pulse())
            .with_trials(&self.trials);
        self.health.joins();
        Ok(runner.run_on_own_thread(self.stop.clone()).await?)
    }

    /// Waits for the end of `running`, and acts every second meanwhile. An error is logged, and the action is repeated.
    ///
    /// # Errors
    /// Those of `running`.
    pub async fn with_every_second<T>(
        &self,
        running: impl Future<Output = Result<T, ServiceError>>,
        mut action: impl EverySecond,
    ) -> Result<T, ServiceError> {
        let log = self.kafka()?;
        tokio::select! {
            result = running => result,
            never = every_second::repeat(&**log, &mut action) => match never {},
        }
    }

    /// Serves requests until the process shuts down, in a service without a stage: it is ready from now on. `serve` ends
    /// once its token is cancelled and the requests in progress have been answered.
    pub async fn answer<F: Future<Output = ()>>(&self, serve: impl FnOnce(CancellationToken) -> F) {
        self.health.joins();
        serve(self.stop.clone()).await;
    }

    /// Runs the stage and deletes consumed records in its open partitions meanwhile.
    ///
    /// # Errors
    /// See [`Self::run`]. A failed deletion is not an error: it is logged and retried.
    pub async fn run_and_delete<S, W, P>(
        &self,
        deleting: Deleting,
        stage: S,
        worker: W,
        perform: P,
    ) -> Result<(), ServiceError>
    where
        S: Stage,
        W: Worker<S::Job, S::Done>,
        P: Perform<S::Effect>,
    {
        let sweep = retention::sweep(self.kafka()?.clone(), self.health.pulse(), deleting);
        tokio::select! {
            result = self.run(stage, worker, perform) => result,
            never = sweep => match never {},
        }
    }
}
