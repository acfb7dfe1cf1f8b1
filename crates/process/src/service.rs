//! What a service is to its shell.

use std::sync::Arc;

use orbweaver_log::Log;
use orbweaver_stage::{Perform, Runner, RunnerConfig, Stage, StageError, Worker, metrics::Metrics};
use orbweaver_store::{Store, StoreMetrics, StoreWriter};
use prometheus::Registry;
use tokio_util::sync::CancellationToken;

use crate::{
    configuration::{Fault, Settings},
    health::Health,
    retention::{self, Deleting},
};

/// The services that are processes of their own.
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
    /// All of them, in the order of the flow.
    pub const ALL: [Self; 5] =
        [Self::NormalizerDedup, Self::Frontier, Self::RateLimiter, Self::Fetcher, Self::Extractor];

    /// Its name: in metrics, logs, consumer groups and folders.
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

    /// The name of its binary.
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

    /// Where its probes and metrics are by default: another port for each, so that one machine can run all.
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

    /// How many records it has in work by default. One of normalizer-dedup holds the links of a page (10,000 took 570 MB); what
    /// the rate-limiter does with one is to wait until it is appended.
    #[must_use]
    pub const fn default_records(self) -> &'static str {
        match self {
            Self::NormalizerDedup => "2500",
            Self::RateLimiter => "40000",
            Self::Frontier | Self::Fetcher | Self::Extractor => "10000",
        }
    }
}

/// Why a service could not be served to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// Its stage ended.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// It could not be started.
    #[error("cannot start: {0}")]
    Start(String),
    /// Its configuration does not fit the servers.
    #[error("cannot start: {0}")]
    Configuration(String),
}

impl ServiceError {
    /// It could not be started, because of `error`.
    #[must_use]
    pub fn start(error: impl std::fmt::Display) -> Self {
        Self::Start(error.to_string())
    }
}

/// A service: what the binaries differ in.
pub trait Service: Sized + Send + 'static {
    /// Which one.
    const ID: ServiceId;

    /// Takes its settings, and checks what they have to do with each other. Pure.
    ///
    /// # Errors
    /// All faults at once.
    fn configure(settings: &Settings) -> Result<Self, Vec<Fault>>;

    /// The setting that bounds its longest request to a site, and its value; `None`: it makes none.
    fn longest_request(&self) -> Option<(&'static str, std::time::Duration)> {
        None
    }

    /// Serves until the shell says that it is time to end.
    fn serve(self, shell: Shell) -> impl Future<Output = Result<(), ServiceError>> + Send;
}

/// What a service runs on.
pub struct Shell {
    pub(crate) log: Arc<dyn Log>,
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) registry: Registry,
    pub(crate) metrics: Metrics,
    pub(crate) store_metrics: StoreMetrics,
    pub(crate) runner: RunnerConfig,
    pub(crate) health: Arc<Health>,
    pub(crate) stop: CancellationToken,
}

impl Shell {
    /// The log.
    #[must_use]
    pub fn log(&self) -> Arc<dyn Log> {
        self.log.clone()
    }

    /// The store.
    ///
    /// # Errors
    /// When the service is not one of those that have a store.
    pub fn store(&self) -> Result<Arc<dyn Store>, ServiceError> {
        self.store.clone().ok_or_else(|| ServiceError::Start("this service has no store".to_owned()))
    }

    /// Writes of the stage on their way into the store.
    ///
    /// # Errors
    /// As for [`Self::store`].
    pub fn store_writer(&self) -> Result<StoreWriter, ServiceError> {
        Ok(StoreWriter::new(self.store()?).with_metrics(self.store_metrics.clone()))
    }

    /// Where its metrics are registered.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The metrics of the runtime.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Runs the stage until the process is to end.
    ///
    /// # Errors
    /// When the log or an effect failed, or the stage halted or stalled.
    pub async fn run<S, W, P>(&self, stage: S, worker: W, perform: P) -> Result<(), ServiceError>
    where
        S: Stage,
        W: Worker<S::Job, S::Done>,
        P: Perform<S::Effect>,
    {
        let runner = Runner::new(stage, self.log.clone(), worker, perform, self.runner.clone())
            .with_metrics(&self.metrics)
            .with_pulse(self.health.pulse());
        self.health.joins();
        Ok(runner.run(self.stop.clone()).await?)
    }

    /// Runs the stage, and deletes meanwhile what is worked off in the partitions that it serves.
    ///
    /// # Errors
    /// As [`Self::run`]. That something cannot be deleted is no error: it is told, and tried again.
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
