//! Process lifecycle, from the command line to the exit code.

use std::{
    io::{self, Write as _},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use orbweaver_stage::{SystemClock, Trials, metrics::Metrics, panics};
use orbweaver_store::StoreMetrics;
use prometheus::{Registry, process_collector::ProcessCollector};
use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::{
    ExitReason, Service, ServiceContext, ServiceError, clock, clock_difference,
    command::{self, Command, Program},
    configuration::{Inputs, SettingError, effective, listed},
    connect::{self, Connected},
    disk,
    health::Health,
    http, logging, pins,
    prepare::{Prepared, configure, prepare},
    probe, readiness,
    session::{self, Fence},
    signals::Signals,
    version::{self, GIT, VERSION},
};

/// Time after the shutdown budget for the last commit, leaving the group and flushing.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);
/// Time for a stage to commit that the process crashed, after a panic outside of its loop.
const NOTE_WITHIN: Duration = Duration::from_secs(6);
/// Timeout for threads blocked in a name lookup or in a closing client.
const RUNTIME_ENDS_WITHIN: Duration = Duration::from_millis(200);

/// Runs the process of a service.
pub fn main<S: Service>() -> ExitCode {
    let program = Program { name: S::BINARY, about: S::ABOUT };
    let command = match Command::read(program, std::env::args_os()) {
        Ok(command) => command,
        Err(end) => return end.code(),
    };
    if command.list_config {
        command::print(&listed(&configure::<S>(&Inputs::default()).1));
        return ExitReason::Success.code();
    }
    let (inputs, unreadable) = Inputs::of_process(command.file.as_deref(), command.flags);
    let prepared = match unreadable.map_or_else(|| prepare::<S>(&inputs), |fault| Err(vec![fault])) {
        Ok(prepared) => prepared,
        Err(faults) => {
            // These are interactive: they answer in text.
            let answers = command.check_config || command.probe;
            report_faults(S::BINARY, &faults, !answers && logging::is_json_before(&inputs));
            return ExitReason::Configuration.code();
        }
    };
    if command.check_config {
        command::print(&effective(&prepared.settings));
        return ExitReason::Success.code();
    }
    if command.probe {
        let (reason, line) = probe::readiness(prepared.http.listen);
        command::print(&line);
        return reason.code();
    }
    let rust_log = std::env::var("RUST_LOG").ok();
    logging::start(&prepared.log, &prepared.settings, rust_log.as_deref());
    match begin(prepared) {
        Ok(end) => end.code(),
        Err(error) => {
            tracing::error!(error, "the service cannot start");
            ExitReason::Failed.code()
        }
    }
}

/// Writes every fault to stderr: one JSON line per fault, or all as text.
fn report_faults(binary: &str, faults: &[SettingError], json: bool) {
    if json {
        logging::json(EnvFilter::new("info"));
        for fault in faults {
            tracing::error!(%fault, "the configuration is invalid");
        }
        return;
    }
    let count = if faults.len() == 1 { "a fault".to_owned() } else { format!("{} faults", faults.len()) };
    let list: String = faults.iter().map(|fault| format!("\n  {fault}")).collect();
    let _ = writeln!(io::stderr(), "{binary}: the configuration has {count}:{list}");
}

/// Starts the runtime and runs the service. An error means that it could not start.
fn begin<S: Service>(prepared: Prepared<S>) -> Result<ExitReason, String> {
    let (panicked, panics) = unbounded_channel();
    panics::listen(move || {
        let _ = panicked.send(());
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(prepared.worker_threads)
        .enable_all()
        .build()
        .map_err(|error| format!("the runtime cannot be started: {error}"))?;
    let end = runtime.block_on(live(prepared, panics));
    runtime.shutdown_timeout(RUNTIME_ENDS_WITHIN);
    end
}

/// Runs the process from the first probe to the last.
async fn live<S: Service>(prepared: Prepared<S>, panics: UnboundedReceiver<()>) -> Result<ExitReason, String> {
    let Prepared { settings, service, kafka, cql, http, runner, .. } = prepared;
    let signals = Signals::listen().map_err(|error| format!("signals cannot be received: {error}"))?;
    tracing::info!(service = S::NAME, version = VERSION, git = GIT, configuration = effective(&settings), "starts");
    let health = Arc::new(Health::new(runner.stall_after, kafka.is_some(), cql.is_some()));
    let registry = Registry::new();
    let (metrics, store_metrics) = register(&registry, &service, health.clone())
        .map_err(|error| format!("the metrics cannot be registered: {error}"))?;
    let (listener, address) = http::bind(http.listen).await?;
    tracing::info!(%address, "listening");
    let http_stop = CancellationToken::new();
    let http = tokio::spawn(http::serve(listener, health.clone(), registry.clone(), http_stop.clone()));

    let budget = runner.shutdown_budget + LEAVE_WITHIN;
    let stop = CancellationToken::new();
    let (work_stop, work_health) = (stop.clone(), health.clone());
    let trials = Trials::default();
    let work_trials = trials.clone();
    let assumed_session = kafka.as_ref().map(|kafka| kafka.session_timeout);
    let wide = service.wide_domains();
    let work = tokio::spawn(async move {
        let connecting = connect::connect(kafka, cql, &store_metrics, &work_health);
        let Connected { log, store } = tokio::select! {
            connected = connecting => connected?,
            () = work_stop.cancelled() => return Ok(()),
        };
        let fence = Fence { frozen_after: runner.frozen_after, longest: service.longest_request() };
        // All checks precede joining the group: a member that differs would already act on its partitions.
        let checks = async {
            let (Some(log), Some(assumed)) = (&log, assumed_session) else { return Ok(None) };
            let misfit = session::check(log, S::NAME, assumed, fence).await;
            if let Some(reason) = misfit.map_err(ServiceError::start)? {
                return Err(ServiceError::Configuration(reason));
            }
            clock_difference::agrees(&**log, &SystemClock).await?;
            pins::begin(&**log, wide).await
        };
        let pins = tokio::select! {
            checked = checks => checked?,
            () = work_stop.cancelled() => return Ok(()),
        };
        let watch = connect::watch(log.clone(), store.clone(), work_health.clone());
        let shell = ServiceContext {
            log: log.clone(),
            store,
            registry,
            metrics,
            store_metrics,
            runner,
            health: work_health,
            stop: work_stop,
            trials: work_trials,
        };
        let result = tokio::select! {
            result = service.serve(shell) => result,
            () = watch => Err(ServiceError::start("the checks of log and store ended")),
            error = pins::differ(pins) => Err(error),
        };
        // Even after a failure: unacknowledged appends get a chance to be acknowledged.
        let Some(log) = log else { return result };
        let flushed = log.close(LEAVE_WITHIN).await.map_err(|error| ServiceError::Stage(error.into()));
        result.and(flushed)
    });
    let ending = Ending { stop, health, budget, trials };
    let end = ending.of(work, signals, panics).await;
    http_stop.cancel();
    let _ = timeout(Duration::from_secs(1), http).await;
    tracing::info!(?end, "ends");
    Ok(end)
}

fn register<S: Service>(
    registry: &Registry,
    service: &S,
    health: Arc<Health>,
) -> Result<(Metrics, StoreMetrics), prometheus::Error> {
    version::register(registry, S::NAME)?;
    readiness::register(registry, health)?;
    registry.register(Box::new(ProcessCollector::for_self()))?;
    service.directory().map_or(Ok(()), |directory| disk::register(registry, directory.to_owned()))?;
    // Without a stage its metrics, such as that of open partitions, would be 0 rather than absent.
    let of_stage = if S::HAS_LOG { registry.clone() } else { Registry::new() };
    Ok((Metrics::register(&of_stage)?, StoreMetrics::register(registry)?))
}

/// Shutdown of a running process.
struct Ending {
    stop: CancellationToken,
    health: Arc<Health>,
    budget: Duration,
    trials: Trials,
}

impl Ending {
    /// Starts the ordered shutdown and returns its deadline.
    fn begin_end(&self) -> Instant {
        self.health.stops();
        self.stop.cancel();
        Instant::now() + self.budget
    }

    /// Waits for the end of the work or a panic. A signal or a persistent clock step starts the shutdown, whose end is
    /// awaited in turn.
    async fn of(
        self,
        mut work: JoinHandle<Result<(), ServiceError>>,
        mut signals: Signals,
        mut panics: UnboundedReceiver<()>,
    ) -> ExitReason {
        let mut deadline: Option<Instant> = None;
        let mut clock_stays_set = std::pin::pin!(clock::stays_set());
        let mut begin_again = false;
        loop {
            let late = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(_) = panics.recv() => {
                    // The hook has logged it. A stage that is trying a record commits that the process crashed.
                    self.trials.report_panic();
                    self.begin_end();
                    let _ = timeout(NOTE_WITHIN, &mut work).await;
                    return ExitReason::Panicked;
                }
                result = &mut work => {
                    let end = ended(result, deadline.is_some());
                    return if begin_again && end == ExitReason::Success { ExitReason::TempFail } else { end };
                }
                step_ms = &mut clock_stays_set, if deadline.is_none() => {
                    tracing::error!(step_ms, "the system clock remains changed; a restart is needed: shutting down");
                    begin_again = true;
                    deadline = Some(self.begin_end());
                }
                signal = signals.next() => {
                    if deadline.is_some() {
                        tracing::warn!(signal, "second signal: exiting now; unfinished work will be repeated");
                        return ExitReason::TempFail;
                    }
                    tracing::info!(signal, "signal received: shutting down after work in flight is finished");
                    deadline = Some(self.begin_end());
                }
                () = late => {
                    tracing::error!("shutdown timed out: exiting now; unfinished work will be repeated");
                    return ExitReason::TempFail;
                }
            }
        }
    }
}

fn ended(result: Result<Result<(), ServiceError>, tokio::task::JoinError>, requested: bool) -> ExitReason {
    match result {
        Ok(Ok(())) if requested => ExitReason::Success,
        Ok(Ok(())) => {
            tracing::error!("the service ended without a signal");
            ExitReason::TempFail
        }
        Ok(Err(error)) => {
            tracing::error!(%error, "the service failed");
            ExitReason::from(&error)
        }
        Err(error) => {
            tracing::error!(%error, "the service panicked");
            ExitReason::Panicked
        }
    }
}
