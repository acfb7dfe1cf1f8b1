//! One replay, from the arguments to the figures.

use std::{
    collections::BTreeMap,
    io::IsTerminal as _,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use orbweaver_log::{Log, LogError, Offset, Partition};
use orbweaver_normalizer_dedup::{Config, DedupStats, IndexKind, NormalizerDedup};
use orbweaver_stage::{NoEffects, NoJobs, Runner, RunnerConfig};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{
    args::ReplayArgs,
    feed::{Feed, Make, Progress},
    generate::Plan,
    measured::{Measured, Times},
    report::Report,
    source::{self, OfFiles},
    state::{Asked, State},
    truth::Truth,
};
use crate::{
    crawl::usage,
    exit::{Failure, failed},
};

/// Interval at which completion is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Interval between two samples.
const SAMPLE_EVERY: Duration = Duration::from_millis(250);

/// Runs `orbweaver replay`.
///
/// # Errors
/// Fails if the arguments are invalid, the directory cannot be used, the log failed, or a URL was lost or admitted
/// twice.
pub fn run(args: &ReplayArgs) -> Result<(), Failure> {
    if !args.partitions.is_power_of_two() || args.instances > args.partitions {
        return Err(Failure::Usage(
            "--partitions must be a power of two, and --instances at most as many: a partition has one owner"
                .to_owned(),
        ));
    }
    if args.from.is_empty() && args.urls.is_none() {
        return Err(Failure::Usage("give the number of URLs with --urls, or files of URLs with --from".to_owned()));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(args.instances.max(2) as usize)
        .enable_all()
        .build()
        .map_err(|error| failed(format!("the runtime cannot be started: {error}")))?;
    let report = runtime.block_on(replay(args));
    runtime.shutdown_timeout(Duration::from_secs(1));
    let report = report?;
    if args.json {
        println!("{}", serde_json::to_string(&report).map_err(failed)?);
    } else {
        print!("{}", report.text());
    }
    // After a crash, URLs in flight may be admitted again, which is not an error. A Bloom filter loses a
    // few URLs.
    let lost_by_filters = args.bloom && report.accuracy >= 1.0 - 1e-6;
    if (report.false_positives > 0 && !lost_by_filters) || (report.false_negatives > 0 && !report.resumed) {
        return Err(failed(format!(
            "{} URLs were lost and {} admitted twice",
            report.false_positives, report.false_negatives
        )));
    }
    Ok(())
}

async fn replay(args: &ReplayArgs) -> Result<Report, Failure> {
    let asked = asked(args);
    let state = State::open(args.out.as_deref(), &asked).await?;
    let plan = Plan {
        urls: args.urls.unwrap_or(u64::MAX),
        new_ppm: asked.new_ppm,
        seed: asked.seed,
        partitions: asked.partitions,
    };
    let truth = Arc::new(if args.from.is_empty() { Truth::of_plan(plan) } else { Truth::of_files() });
    if state.resumed {
        state.read_back(&truth).await.map_err(failed)?;
    }
    let report = run_on(args, &state, plan, &truth).await;
    let ended = state.end().await;
    // The first failure is the cause.
    report.and_then(|report| ended.map(|()| report))
}

async fn run_on(args: &ReplayArgs, state: &State, plan: Plan, truth: &Arc<Truth>) -> Result<Report, Failure> {
    let begun = Instant::now();
    let cpu = usage::cpu_time();
    let mut running = Running::start(args, state, plan, truth).await?;
    let (samples, shared) = watch(args, &mut running, begun).await?;
    let took = begun.elapsed();
    let cpu = usage::cpu_time().saturating_sub(cpu);
    running.stop().await?;
    Ok(running.report(args, state, truth, &Spent { took, cpu, samples, shared }))
}

fn asked(args: &ReplayArgs) -> Asked {
    Asked {
        urls: args.urls,
        new_ppm: args.new_ppm(),
        seed: args.seed,
        from: args.from.clone(),
        partitions: args.partitions,
        instances: args.instances,
        frontier: !args.no_frontier,
        #[cfg(feature = "cluster")]
        brokers: args.brokers.clone(),
        #[cfg(not(feature = "cluster"))]
        brokers: None,
    }
}

/// Progress at one time of a run.
#[derive(Debug, Clone, Copy)]
struct Sample {
    /// Seconds since the start.
    at: f64,
    /// URLs so far.
    urls: u64,
}

/// Resources used by a run.
struct Spent {
    took: Duration,
    cpu: Duration,
    samples: Vec<Sample>,
    /// Number of samples taken while all instances had work; after that, fewer cores are used.
    shared: usize,
}

/// The instances of the service.
struct Running {
    instances: JoinSet<Result<(), String>>,
    shutdown: CancellationToken,
    progress: Arc<Progress>,
    tallies: Vec<Arc<DedupStats>>,
    times: Vec<Arc<Mutex<Times>>>,
}

impl Running {
    async fn start(args: &ReplayArgs, state: &State, plan: Plan, truth: &Arc<Truth>) -> Result<Self, Failure> {
        let (progress, shutdown) = (Arc::new(Progress::new(args.instances)), CancellationToken::new());
        let mut running = Self { instances: JoinSet::new(), shutdown, progress, tallies: vec![], times: vec![] };
        for instance in 0..args.instances {
            let mut config = Config::new(state.index_of(instance));
            if let Some(entries) = args.recent_entries {
                config.recent_entries = entries as usize;
            }
            config.index = if args.bloom { IndexKind::Bloom } else { IndexKind::Exact };
            let stage = NormalizerDedup::open(config, &*state.log.log()).await.map_err(failed)?;
            let times = Arc::<Mutex<Times>>::default();
            running.tallies.push(stage.tally());
            running.times.push(times.clone());
            let feed = Feed {
                inner: state.log.log(),
                make: make(args, plan, truth),
                commits: state.commits.clone(),
                truth: truth.clone(),
                partitions: (0..args.partitions).filter(|partition| partition % args.instances == instance).collect(),
                frontier: !args.no_frontier,
                progress: running.progress.clone(),
            };
            let measured = Measured::new(stage, times, running.progress.clone());
            let log: Arc<dyn Log> = Arc::new(feed);
            let run = Runner::new(measured, log, NoJobs, NoEffects, RunnerConfig::default());
            let run = run.run_on_own_thread(running.shutdown.clone());
            running.instances.spawn(async move { run.await.map_err(|error| error.to_string()) });
        }
        Ok(running)
    }

    /// Returns the reason why an instance ended before all work was done.
    async fn ended(&mut self) -> Failure {
        match self.instances.join_next().await {
            Some(Ok(Err(error))) => failed(error),
            Some(Err(error)) => failed(error),
            Some(Ok(Ok(()))) | None => failed("an instance of the service stopped unexpectedly"),
        }
    }

    async fn stop(&mut self) -> Result<(), Failure> {
        self.shutdown.cancel();
        while let Some(ended) = self.instances.join_next().await {
            ended.map_err(failed)?.map_err(failed)?;
        }
        Ok(())
    }

    #[allow(clippy::cast_precision_loss, reason = "human-readable figures")]
    fn report(&self, args: &ReplayArgs, state: &State, truth: &Truth, spent: &Spent) -> Report {
        let verdict = truth.verdict();
        let mut times = Times::default();
        for other in &self.times {
            times.merge(&other.lock().unwrap_or_else(PoisonError::into_inner));
        }
        let of_run = self.progress.urls();
        let urls = if args.from.is_empty() { args.urls.unwrap_or_default() } else { of_run };
        let wrong = verdict.false_positives + verdict.false_negatives;
        let per_url = |value: f64| value / verdict.distinct.max(1) as f64;
        let sum = |value: fn(&DedupStats) -> u64| self.tallies.iter().map(|tally| value(tally)).sum::<u64>();
        Report {
            urls,
            distinct: verdict.distinct,
            accuracy: 1.0 - wrong as f64 / urls.max(1) as f64,
            false_positives: verdict.false_positives,
            false_negatives: verdict.false_negatives,
            urls_per_second: of_run as f64 / spent.took.as_secs_f64(),
            urls_per_second_at_the_end: at_the_end(&spent.samples[..spent.shared]),
            cpu_us_per_url: spent.cpu.as_secs_f64() * 1e6 / of_run.max(1) as f64,
            batch_p50_ms: times.quantile_ms(0.5),
            batch_p99_ms: times.quantile_ms(0.99),
            longest_wait_ms: times.longest_ms(),
            filter_bytes_per_url: per_url(sum(DedupStats::filter_bytes) as f64),
            disk_bytes_per_url: per_url(state.disk_bytes(args.instances) as f64),
            peak_rss_bytes: usage::peak_rss_bytes(),
            frontier: !args.no_frontier,
            resumed: state.resumed,
            opened_after_seconds: self.progress.opened_after().as_secs_f64(),
            disk_lookups: sum(DedupStats::disk_lookups),
            rejected: sum(|tally| tally.snapshot().rejected),
            refused: sum(|tally| tally.snapshot().refused()),
        }
    }
}

/// Returns the URLs per second in the last tenth of the samples' time span; a busy machine takes samples at uneven
/// intervals.
#[allow(clippy::cast_precision_loss, reason = "human-readable figures")]
fn at_the_end(samples: &[Sample]) -> f64 {
    let Some(last) = samples.last() else { return 0.0 };
    let Some(first) = samples.iter().rfind(|sample| sample.at <= last.at * 0.9) else { return 0.0 };
    (last.urls - first.urls) as f64 / (last.at - first.at).max(1e-9)
}

fn make(args: &ReplayArgs, plan: Plan, truth: &Arc<Truth>) -> Arc<Make> {
    let (files, truth, partitions) = (args.from.clone(), truth.clone(), args.partitions);
    Arc::new(move |from: BTreeMap<Partition, Offset>| {
        if files.is_empty() {
            return Ok(Box::new(source::generated(plan, from)));
        }
        let opened = OfFiles::open(&files, plan.urls, partitions, from, truth.clone());
        opened.map(|made| Box::new(made) as Box<_>).map_err(|error| LogError::Invalid(error.to_string()))
    })
}

/// Waits until every record is complete, and shows the progress. Returns the samples, and their number while all
/// instances had work.
async fn watch(args: &ReplayArgs, running: &mut Running, begun: Instant) -> Result<(Vec<Sample>, usize), Failure> {
    let bar = bar(args);
    let progress = running.progress.clone();
    let take = || Sample { at: begun.elapsed().as_secs_f64(), urls: progress.urls() };
    let (mut samples, mut shared) = (vec![take()], 0);
    let mut sampled = begun;
    let mut every = tokio::time::interval(CHECK_INTERVAL);
    while !progress.is_done() {
        tokio::select! {
            failure = running.ended() => return Err(failure),
            _ = every.tick() => {}
            _ = tokio::signal::ctrl_c() => {
                let message = "stopped before completion; with --out the same command resumes it";
                return Err(Failure::Stopped(message.to_owned()));
            }
        }
        bar.set_position(progress.urls());
        if sampled.elapsed() >= SAMPLE_EVERY {
            sampled = Instant::now();
            samples.push(take());
            if progress.have_all_work() {
                shared = samples.len();
            }
        }
    }
    samples.push(take());
    bar.finish_and_clear();
    // A run that ended before its first such sample counts as a whole.
    let shared = if shared == 0 { samples.len() } else { shared };
    Ok((samples, shared))
}

fn bar(args: &ReplayArgs) -> ProgressBar {
    if args.json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(args.urls, ProgressDrawTarget::stderr_with_hz(5));
    let style = "{bar:40} {human_pos} of {human_len} URLs  {per_sec}  {eta}";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar
}
