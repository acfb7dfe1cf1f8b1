//! Interface between a service and its process.

use std::sync::Arc;

use orbweaver_log::Log;
use orbweaver_stage::{Perform, Runner, RunnerConfig, Stage, StageError, Trials, Worker, metrics::Metrics};
use orbweaver_store::{Store, StoreMetrics, StoreWriter};
use prometheus::Registry;
use tokio_util::sync::CancellationToken;

use crate::{
    configuration::{SettingError, Settings},
    health::Health,
    retention::{self, Deleting},
};

/// Services that run as separate processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ServiceId {
    /// `orbweaver-normalizer-dedup`.
    NormalizerDedup,
    /// `orbweaver-frontier`.
    Frontier,
    /// `orbweaver-rate-limiter`.
    RateLimiter,
    /// `orbweaver-fetcher`.
    Fetcher,
    /// `orbweaver-extractor`.
    Extractor,
}

impl ServiceId {
    /// All services, in the order of the flow.
    pub const ALL: [Self; 5] =
        [Self::NormalizerDedup, Self::Frontier, Self::RateLimiter, Self::Fetcher, Self::Extractor];

    /// Returns the name used in metrics, logs, consumer groups and directories.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NormalizerDedup => "normalizer-dedup",
            Self::Frontier => "frontier",
            Self::RateLimiter => "rate-limiter",
            Self::Fetcher => "fetcher",
            Self::Extractor => "extractor",
        }
    }

    /// Returns the name of the binary.
    #[must_use]
    pub const fn binary(self) -> &'static str {
        match self {
            Self::NormalizerDedup => "orbweaver-normalizer-dedup",
            Self::Frontier => "orbweaver-frontier",
            Self::RateLimiter => "orbweaver-rate-limiter",
            Self::Fetcher => "orbweaver-fetcher",
            Self::Extractor => "orbweaver-extractor",
        }
    }

    /// Returns the default address of probes and metrics; ports differ so that one machine can run all services.
    #[must_use]
    pub const fn default_listen(self) -> &'static str {
        match self {
            Self::NormalizerDedup => "127.0.0.1:9461",
            Self::Frontier => "127.0.0.1:9462",
            Self::RateLimiter => "127.0.0.1:9463",
            Self::Fetcher => "127.0.0.1:9464",
            Self::Extractor => "127.0.0.1:9465",
        }
    }

    /// Returns the default limit on outstanding records. A record of normalizer-dedup holds the links of a page (10,000
    /// took 570 MB); a record of the rate-limiter only waits until it is appended.
    #[must_use]
    pub const fn default_records(self) -> &'static str {
        match self {
            Self::NormalizerDedup => "2500",
            Self::RateLimiter => "40000",
            Self::Frontier | Self::Fetcher | Self::Extractor => "10000",
        }
    }
}

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
    /// Identity of the service.
    const ID: ServiceId;

    /// Reads the settings of the service and checks their dependencies. Pure.
    ///
    /// # Errors
    /// All faults at once.
    fn configure(settings: &Settings) -> Result<Self, Vec<SettingError>>;

    /// Returns the setting that bounds the longest request to a site, with its value; `None` if the service sends none.
    fn longest_request(&self) -> Option<(&'static str, std::time::Duration)> {
        None
    }

    /// Serves until [`ServiceContext::run`] returns at shutdown.
    fn serve(self, shell: ServiceContext) -> impl Future<Output = Result<(), ServiceError>> + Send;
}

/// Components that a service runs on.
pub struct ServiceContext {
    pub(crate) log: Arc<dyn Log>,
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
    #[must_use]
    pub fn log(&self) -> Arc<dyn Log> {
        self.log.clone()
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

    /// Runs the stage until the process shuts down.
    pub async fn run<S, W, P>(&self, stage: S, worker: W, perform: P) -> Result<(), ServiceError>
    where
        S: Stage,
        W: Worker<S::Job, S::Done>,
        P: Perform<S::Effect>,
    {
        let runner = Runner::new(stage, self.log.clone(), worker, perform, self.runner.clone())
            .with_metrics(&self.metrics)
            .with_pulse(self.health.pulse())
            .with_trials(&self.trials);
        self.health.joins();
        Ok(runner.run(self.stop.clone()).await?)
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
        let sweep = retention::sweep(self.log.clone(), self.health.pulse(), deleting);
        tokio::select! {
            result = self.run(stage, worker, perform) => result,
            never = sweep => match never {},
        }
    }
}
