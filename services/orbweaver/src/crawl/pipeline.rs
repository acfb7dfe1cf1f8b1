//! All services of a crawl, in one process.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use orbweaver_archiver::CloseFiles;
use orbweaver_extractor::{BlockingWorker, ExtractorConfig, ExtractorMetrics, ExtractorStage};
use orbweaver_frontier::{FrontierConfig, FrontierIndex, FrontierStage, FrontierView, metrics::FrontierMetrics};
use orbweaver_log::{EmbeddedLog, Log, LogError, Options, Partition, TopicSpec};
use orbweaver_messages::{Topic, topic};
use orbweaver_normalizer_dedup::{DedupStats, LinkOutcome, NormalizerDedup};
use orbweaver_stage::{
    Clock as _, Limits, NoEffects, NoJobs, Perform, Runner, RunnerConfig, Stage, SystemClock, Trials, Worker,
    metrics::Metrics,
    panics,
    retention::{Retention, TopicRetention},
};
use orbweaver_store::{FjallOptions, FjallStore, Store, StoreError, StoreWriter};
use orbweaver_url::WideDomains;
use prometheus::Registry;
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{archive_to, headers, prepare::Prepared, settings::Settings};
use crate::{
    exit::{Failure, failed},
    export::{self, CheckpointWorker, ExportStage, ExportView, Source},
};

/// Partitions per topic. Few are enough for a crawl of many sites to keep two cores busy; more only cost open files.
const PARTITIONS: Partition = 4;

/// Directory of the WARC files, in that of the results.
pub(crate) const ARCHIVE: &str = "warc";

/// Memory for bodies being fetched, in bytes. All services share one process.
const BODY_MEMORY: usize = 32 << 20;
/// Memory for pages being extracted, in bytes.
const PAGE_MEMORY: usize = 48 << 20;
/// Bytes of records in flight per service.
const RECORD_MEMORY: usize = 16 << 20;

/// Size and age at which a file of the archive is closed. Until then its responses also take space in the log, without
/// compression.
const ARCHIVE_FILE_BYTES: u64 = 256 << 20;
const ARCHIVE_FILE_AGE: Duration = Duration::from_mins(10);

/// Interval at which consumed records are deleted from the log.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// Time that a service has to finish its work at shutdown; unfinished work is repeated at the next start.
const STOP_WITHIN: Duration = Duration::from_secs(3);

/// A task of the pipeline.
struct Running {
    name: &'static str,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

/// All services of a crawl. They stop in the order in which they start: those that create work first, those that end it
/// last.
pub struct Pipeline {
    /// Log for all messages.
    pub log: Arc<EmbeddedLog>,
    /// Figures of the exporter.
    pub exported: Arc<ExportView>,
    /// Figures of the frontier.
    pub frontier: Arc<FrontierView>,
    /// Requests in flight.
    pub in_flight: Arc<AtomicU64>,
    /// Figures of the rate-limiter.
    pub limiter: Arc<orbweaver_rate_limiter::SiteView>,
    dedup: Arc<DedupStats>,
    store: Arc<dyn Store>,
    sync_store: Box<dyn Fn() -> Result<(), StoreError> + Send + Sync>,
    exporter: Option<ExportStage>,
    close_files: CloseFiles,
    state: std::path::PathBuf,
    /// Directory of the WARC files.
    archive: std::path::PathBuf,
    registry: Registry,
    metrics: Metrics,
    trials: Trials,
    running: Vec<Running>,
    failures: (mpsc::UnboundedSender<String>, mpsc::UnboundedReceiver<String>),
}

impl Pipeline {
    /// Opens the log, the store and the result files of a crawl.
    pub async fn open(prepared: &Prepared) -> Result<Self, Failure> {
        let state = &prepared.state;
        let options = Options { record_limit: prepared.record_limit, ..Options::default() };
        let log = Arc::new(EmbeddedLog::open(state.join("log"), options, &specs()).map_err(failed)?);
        let store = FjallStore::open(state.join("store"), store_options()).map_err(failed)?;
        let sync = store.syncer();
        log.sync_before_checkpoints(move || sync().map_err(|error| error.to_string()));
        let sync_store = Box::new(store.syncer());
        let exported = Arc::new(ExportView::default());
        let exporter = ExportStage::open(&*log, &prepared.out, Arc::clone(&exported), Source::default());
        let exporter = exporter.await.map_err(failed)?;
        let registry = Registry::new();
        let metrics = Metrics::register(&registry).map_err(failed)?;
        Ok(Self {
            log,
            exported,
            frontier: Arc::default(),
            in_flight: Arc::default(),
            limiter: Arc::default(),
            dedup: Arc::default(),
            store: Arc::new(store),
            sync_store,
            exporter: Some(exporter),
            close_files: CloseFiles::default(),
            state: state.clone(),
            archive: prepared.out.join(ARCHIVE),
            registry,
            metrics,
            trials: Trials::default(),
            running: vec![],
            failures: mpsc::unbounded_channel(),
        })
    }

    /// Installs the panic hook. A panic that is not caught, such as that of a job, ends all services: otherwise the
    /// record would be in flight until the watchdog ends the crawl, and no crash would be counted.
    pub fn report_panics(&self) {
        let trials = self.trials.clone();
        panics::listen(move || trials.report_panic());
    }

    /// Returns the registry of the metrics of all services.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the store of all services.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// Starts all services.
    ///
    /// # Errors
    /// Fails if a service cannot be created, or the result files cannot be brought up to date.
    pub async fn start(&mut self, settings: &Settings) -> Result<(), Failure> {
        let exporter = self.exporter.take().ok_or_else(|| Failure::Failed("the crawl was started twice".to_owned()))?;
        self.run(exporter, CheckpointWorker, NoEffects);
        // Before anything else runs, so that the figures of earlier runs are exact.
        self.catch_up().await?;
        self.start_frontier(settings)?;
        self.start_limiter(settings)?;
        self.start_fetcher(settings)?;
        if settings.warc {
            self.start_archiver(settings)?;
        }
        self.start_extractor(settings)?;
        self.start_dedup(settings).await?;
        // It ends last.
        self.running.rotate_left(1);
        self.start_retention(settings);
        Ok(())
    }

    /// Waits until the files contain all results of the log.
    async fn catch_up(&mut self) -> Result<(), Failure> {
        tokio::select! {
            error = self.failures.1.recv() => Err(Failure::Failed(error.unwrap_or_default())),
            caught_up = export::caught_up(&*self.log, export::GROUP, Duration::MAX) => caught_up.map(drop).map_err(failed),
        }
    }

    /// Waits until a service fails, and returns its error.
    pub async fn failure(&mut self) -> String {
        // The channel cannot be closed, since `self` holds a sender.
        self.failures.1.recv().await.unwrap_or_default()
    }

    /// Stops all services in order. Each finishes its work in flight, within the shutdown budget.
    pub async fn stop(&mut self) -> Result<(), String> {
        for running in self.running.drain(..) {
            if running.name == export::GROUP {
                // Missing results are collected at the next start.
                let _ = export::caught_up(&*self.log, export::GROUP, STOP_WITHIN).await;
            }
            running.shutdown.cancel();
            let mut task = running.task;
            if tokio::time::timeout(STOP_WITHIN + Duration::from_secs(1), &mut task).await.is_err() {
                tracing::warn!(
                    service = running.name,
                    "service did not stop in time; its unfinished work will be repeated at the next start"
                );
                task.abort();
            }
        }
        self.failures.1.try_recv().map_or(Ok(()), Err)
    }

    /// Makes everything durable that the services wrote. They have stopped, so blocking delays none of them.
    pub fn flush(&self) -> Result<(), String> {
        // The log syncs the store only if it has changed itself.
        (self.sync_store)().map_err(|error| error.to_string())?;
        self.log.flush().map_err(|error| error.to_string())
    }

    /// Returns the results of this run's links, by kind.
    #[must_use]
    pub fn links(&self) -> BTreeMap<String, u64> {
        LinkOutcome::ALL.iter().map(|end| (end.name().to_owned(), self.dedup.get(*end))).collect()
    }

    /// Returns the CPU time by service, in seconds.
    #[must_use]
    pub fn cpu_seconds(&self) -> BTreeMap<String, f64> {
        let services = ["frontier", "rate-limiter", "fetcher", "extractor", "archiver", "normalizer-dedup", "exporter"];
        services.into_iter().map(|service| (service.to_owned(), self.metrics.cpu(service).seconds())).collect()
    }

    fn start_frontier(&mut self, settings: &Settings) -> Result<(), Failure> {
        let config = FrontierConfig { default_interval_ms: settings.rate.interval_ms(), ..FrontierConfig::default() };
        let metrics = FrontierMetrics::register(&self.registry).map_err(failed)?;
        let index = FrontierIndex::open(&self.state.join("frontier")).map_err(failed)?;
        let stage = FrontierStage::new(config, metrics, Arc::clone(&self.frontier)).with_index(index);
        self.run(stage, NoJobs, NoEffects);
        Ok(())
    }

    fn start_limiter(&mut self, settings: &Settings) -> Result<(), Failure> {
        let config = orbweaver_rate_limiter::RateLimiterConfig {
            rate: orbweaver_settings::Rate { interval_ms: settings.rate.interval_ms() },
            // The rate on the command line is an explicit choice; the help of `--rate` says what it means.
            allow_above_ten_per_second: true,
            ..orbweaver_rate_limiter::RateLimiterConfig::default()
        };
        let metrics = orbweaver_rate_limiter::RateLimiterMetrics::register(&self.registry).map_err(failed)?;
        let stage = orbweaver_rate_limiter::RateLimiterStage::new(config, metrics);
        self.limiter = stage.view();
        self.run(stage, NoJobs, NoEffects);
        Ok(())
    }

    fn start_fetcher(&mut self, settings: &Settings) -> Result<(), Failure> {
        use orbweaver_fetcher::{FetchWorker, FetcherConfig, FetcherMetrics, FetcherStage, HttpClient};
        let config = FetcherConfig {
            user_agent: settings.user_agent.as_str().into(),
            headers: headers::read(&settings.header)?,
            concurrency: settings.concurrency.into(),
            body_memory: BODY_MEMORY,
            ignore_robots: settings.ignore_robots,
            purpose: settings.purpose.clone(),
            proxy: settings.proxy_url.as_ref().map(|proxy| proxy.as_str().to_owned()),
            sitemaps: settings.sitemaps,
            feeds: settings.feeds,
            archive: settings.warc,
            requisites: settings.requisites,
            allow_private: settings.allow_private,
            allow_networks: settings.allow_networks.clone().into(),
            tls_ca: settings.ca_file.clone(),
            default_interval_ms: settings.rate.interval_ms(),
            wide_domains: wide(settings)?,
            record_limit: self.log.record_limit(),
            ..FetcherConfig::default()
        };
        let metrics = FetcherMetrics::register(&self.registry).map_err(failed)?;
        let clock = Arc::new(SystemClock);
        let client = HttpClient::new(&config, clock.clone()).map_err(failed)?;
        let stage = FetcherStage::new(config, metrics, Arc::clone(&self.in_flight));
        let worker = FetchWorker::new(Arc::new(client), Arc::clone(&self.store), clock, stage.memory());
        let worker = worker.without_compression().with_meter(self.metrics.cpu("fetcher"));
        let writer = StoreWriter::new(Arc::clone(&self.store));
        self.run(stage, worker, writer);
        Ok(())
    }

    fn start_extractor(&mut self, settings: &Settings) -> Result<(), Failure> {
        let config = ExtractorConfig {
            agent: orbweaver_politeness::robots::agent_token(&settings.user_agent),
            follow_nofollow: settings.follow_nofollow,
            html: settings.html,
            main_text: settings.main_text,
            markdown: settings.markdown,
            facts: settings.facts,
            other_links: settings.other_links,
            near_duplicates: settings.near_duplicates,
            wide_domains: wide(settings)?,
            record_limit: self.log.record_limit(),
            memory: PAGE_MEMORY,
            ..ExtractorConfig::default()
        };
        let metrics = ExtractorMetrics::register(&self.registry).map_err(failed)?;
        let worker = BlockingWorker::new(config.clone(), metrics.clone()).with_meter(self.metrics.cpu("extractor"));
        let writer = StoreWriter::new(Arc::clone(&self.store));
        self.run(ExtractorStage::new(config, metrics), worker, writer);
        Ok(())
    }

    /// The archiver reads `crawl.pages` only as long as it runs: the retention counts it with `--warc` alone.
    fn start_archiver(&mut self, settings: &Settings) -> Result<(), Failure> {
        use orbweaver_archiver::{ArchiverConfig, ArchiverMetrics, ArchiverStage, FileWorker};
        let config = ArchiverConfig {
            max_file_bytes: ARCHIVE_FILE_BYTES,
            max_file_age: ARCHIVE_FILE_AGE,
            ..archive_to::destination(settings, self.archive.clone(), &self.state)
        };
        let metrics = ArchiverMetrics::register(&self.registry).map_err(failed)?;
        let stage = ArchiverStage::new(&config, metrics.clone());
        self.close_files = stage.closer();
        let worker = FileWorker::open(&config, metrics)
            .map_err(archive_to::failure)?
            .with_meter(self.metrics.cpu(orbweaver_archiver::SERVICE));
        self.run(stage, worker, StoreWriter::new(Arc::clone(&self.store)));
        Ok(())
    }

    /// Closes the files of the archive, so that their records complete.
    pub fn close_archive(&self) {
        self.close_files.request();
    }

    async fn start_dedup(&mut self, settings: &Settings) -> Result<(), Failure> {
        let config = orbweaver_normalizer_dedup::Config {
            wide_domains: wide(settings)?,
            ..orbweaver_normalizer_dedup::Config::new(self.state.join("seen"))
        };
        let stage = NormalizerDedup::open(config, &*self.log).await.map_err(failed)?;
        self.dedup = stage.tally();
        orbweaver_normalizer_dedup::metrics::register(&self.registry, stage.tally()).map_err(failed)?;
        self.run(stage, NoJobs, NoEffects);
        Ok(())
    }

    /// Deletes consumed records, and compacts, every `SWEEP_EVERY`.
    fn start_retention(&mut self, settings: &Settings) {
        let log = Arc::clone(&self.log);
        let topics = TopicRetention::in_one_process(collectors(settings));
        let mut retention = Retention::new(log.clone(), topics);
        let frontier = Arc::clone(&self.frontier);
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        self.spawn("retention", shutdown, async move {
            let mut every = tokio::time::interval(SWEEP_EVERY);
            loop {
                tokio::select! {
                    () = stop.cancelled() => return Ok(()),
                    _ = every.tick() => {}
                }
                // While it starts, the frontier resumes its page counts from outcomes that others have already
                // consumed.
                if frontier.figures().partitions < u64::from(PARTITIONS) {
                    continue;
                }
                retention.sweep(SystemClock.now()).await.map_err(|error| error.to_string())?;
                let log = log.clone();
                let maintained = tokio::task::spawn_blocking(move || log.maintain(SystemClock.now())).await;
                maintained.map_err(|error| error.to_string())?.map_err(|error: LogError| error.to_string())?;
            }
        });
    }

    fn run<S, W, P>(&mut self, stage: S, worker: W, perform: P)
    where
        S: Stage,
        W: Worker<S::Job, S::Done>,
        P: Perform<S::Effect>,
    {
        let name = stage.service();
        let limits = Limits { bytes: RECORD_MEMORY, ..RunnerConfig::default().limits };
        let config = RunnerConfig { shutdown_budget: STOP_WITHIN, limits, ..RunnerConfig::default() };
        let log: Arc<dyn Log> = self.log.clone();
        let runner = Runner::new(stage, log, worker, perform, config);
        let runner = runner.with_metrics(&self.metrics).with_trials(&self.trials);
        let shutdown = CancellationToken::new();
        let run = runner.run_on_own_thread(shutdown.clone());
        self.spawn(name, shutdown, async move { run.await.map_err(|error| error.to_string()) });
    }

    fn spawn(
        &mut self,
        name: &'static str,
        shutdown: CancellationToken,
        run: impl Future<Output = Result<(), String>> + Send + 'static,
    ) {
        let failures = self.failures.0.clone();
        let stopping = shutdown.clone();
        let task = tokio::spawn(async move {
            let result = run.await;
            let error = match result {
                Err(error) => error,
                Ok(()) if stopping.is_cancelled() => return,
                Ok(()) => "it stopped unexpectedly".to_owned(),
            };
            tracing::error!(service = name, error, "service failed; stopping the crawl");
            // At shutdown there is no receiver any more; the error is logged above.
            let _ = failures.send(if error.starts_with(name) { error } else { format!("{name}: {error}") });
        });
        self.running.push(Running { name, shutdown, task });
    }
}

/// Returns the groups that collect results of a crawl, each with its topics.
pub(super) fn collectors(settings: &Settings) -> impl Iterator<Item = (&'static str, &'static [Topic])> {
    let is_run = |group: &str| settings.warc || group != orbweaver_archiver::SERVICE;
    topic::collectors().iter().map(|(group, topics)| (*group, &**topics)).filter(move |(group, _)| is_run(group))
}

fn wide(settings: &Settings) -> Result<WideDomains, Failure> {
    WideDomains::new(&settings.wide_domains).map_err(failed)
}

/// Returns the topics as described in `schemas/topics`.
pub(crate) fn specs() -> Vec<TopicSpec> {
    topic::topics().iter().map(|topic| TopicSpec::new(topic.topic, PARTITIONS, topic.cleanup)).collect()
}

/// Returns options with little memory: the store of a crawl is written often and read rarely.
fn store_options() -> FjallOptions {
    FjallOptions { memtable_bytes: 8 << 20, block_cache_bytes: 2 << 20 }
}
