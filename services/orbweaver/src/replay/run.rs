//! One replay, from the arguments to the figures.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use orbweaver_normalizer_dedup::{Config, IndexKind, NormalizerDedup};
use orbweaver_seen::IndexStats;
use orbweaver_stage::{NoEffects, NoJobs, Runner, RunnerConfig, Stage as _, StageError, metrics::Metrics};
use prometheus::Registry;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{
    args::{Asked, ReplayArgs},
    feed::{Feed, Progress, lock},
    state::State,
    truth::Truth,
};
use crate::{
    crawl::usage,
    exit::{Failure, failed},
    output::to_stdout,
};

/// Interval at which completion is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Runs `orbweaver replay`.
///
/// # Errors
/// Fails if the arguments are invalid, the directory cannot be used, the log failed, or a URL was lost or admitted
/// twice.
pub fn run(args: &ReplayArgs) -> Result<(), Failure> {
    let (partitions, instances) = (args.asked.plan.partitions, args.asked.instances);
    if !partitions.is_power_of_two() || instances > partitions {
        return Err(Failure::Usage(
            "--partitions must be a power of two, and --instances at most as many: a partition has one owner"
                .to_owned(),
        ));
    }
    crate::block_on(instances.max(2) as usize, Duration::from_secs(1), replay(args))
}

async fn replay(args: &ReplayArgs) -> Result<(), Failure> {
    let state = State::open(args.out.as_deref(), &args.asked).await?;
    let truth = Arc::new(Truth::of(args.asked.plan));
    if state.resumed {
        state.read_back(&truth).await.map_err(failed)?;
    }
    let result = run_on(args, &state, &truth).await;
    let ended = state.end().await;
    // The first failure is the cause.
    result.and(ended)
}

/// Runs all instances until every record is complete, and prints the figures.
#[allow(clippy::cast_precision_loss, reason = "human-readable figures")]
async fn run_on(args: &ReplayArgs, state: &State, truth: &Arc<Truth>) -> Result<(), Failure> {
    let asked = &args.asked;
    let (begun, cpu) = (Instant::now(), usage::cpu_time());
    let (progress, shutdown) = (Arc::<Mutex<Progress>>::default(), CancellationToken::new());
    let (mut instances, mut stats) = (JoinSet::new(), vec![]);
    for instance in 0..asked.instances {
        let mut config = Config::new(state.index_of(instance));
        if let Some(entries) = args.recent_entries {
            config.recent_entries = entries as usize;
        }
        config.index = if args.bloom { IndexKind::Bloom } else { IndexKind::Exact };
        let stage = NormalizerDedup::open(config, &*state.log.get()).await.map_err(failed)?;
        stats.push(stage.tally());
        let metrics = Metrics::register(&Registry::new()).map_err(failed)?;
        let feed = Feed {
            inner: state.log.get(),
            plan: asked.plan,
            commits: state.commits.clone(),
            truth: truth.clone(),
            partitions: (instance..asked.plan.partitions).step_by(asked.instances as usize).collect(),
            frontier: asked.frontier,
            completed: metrics.completed(stage.service()),
            progress: progress.clone(),
            begun,
        };
        let runner = Runner::new(stage, Arc::new(feed), NoJobs, NoEffects, RunnerConfig::default());
        instances.spawn(runner.with_metrics(&metrics).run_on_own_thread(shutdown.clone()));
    }
    let rates = watch(asked, &mut instances, &progress).await?;
    let (took, cpu) = (begun.elapsed(), usage::cpu_time().saturating_sub(cpu));
    shutdown.cancel();
    while let Some(ended) = instances.join_next().await {
        ended.map_err(failed)?.map_err(failed)?;
    }
    let mut progress = lock(&progress);
    let (of_run, distinct) = (progress.urls, truth.ids);
    let (lost, twice) = (truth.lost(), truth.wrong());
    let accuracy = 1.0 - (lost + twice) as f64 / asked.plan.urls as f64;
    let sum = |value: fn(&IndexStats) -> u64| stats.iter().map(|stats| value(&stats.tiers().1)).sum::<u64>();
    let per_url = |bytes: u64| bytes as f64 / distinct.max(1) as f64;
    let [p50, p99, longest] = progress.quantiles_ms([0.5, 0.99, 1.0]);
    let figures = json!({
        // In all runs of this replay.
        "urls": asked.plan.urls,
        "distinct": distinct,
        // New URLs that were not admitted: lost.
        "false_positives": lost,
        // Repeats that were admitted.
        "false_negatives": twice,
        // Share of correct decisions.
        "accuracy": accuracy,
        // In this run, from the first batch to the last commit.
        "urls_per_second": of_run as f64 / took.as_secs_f64(),
        // In each tenth of the URLs.
        "urls_per_second_by_tenth": rates,
        // Of all threads, in this run; includes generating and checking.
        "cpu_us_per_url": cpu.as_secs_f64() * 1e6 / of_run.max(1) as f64,
        // Times until a batch of 1,000 URLs was decided and durable.
        "batch_p50_ms": p50,
        "batch_p99_ms": p99,
        "longest_wait_ms": longest,
        // Per distinct URL; on disk are the indexes and `crawl.seen`.
        "filter_bytes_per_url": per_url(sum(|index| index.filter_bytes)),
        "disk_bytes_per_url": per_url(state.disk_bytes(asked.instances)),
        "peak_rss_bytes": usage::peak_rss_bytes(),
        // Whether an earlier run started this replay.
        "resumed": state.resumed,
        // Until all partitions were open, in this run.
        "opened_after_seconds": progress.opened_after.as_secs_f64(),
        // In the index on disk.
        "disk_lookups": sum(|index| index.lookups.disk),
    });
    to_stdout(|out| writeln!(out, "{figures:#}"))?;
    // After a crash, URLs in flight may be admitted again, which is not an error. A Bloom filter loses a
    // few URLs.
    let lost_by_filters = args.bloom && accuracy >= 1.0 - 1e-6;
    if (lost > 0 && !lost_by_filters) || (twice > 0 && !state.resumed) {
        return Err(failed(format!("{lost} URLs were lost and {twice} admitted twice")));
    }
    Ok(())
}

/// Waits until every record is complete, and shows the progress. Returns the URLs per second in each tenth of the URLs.
#[allow(clippy::cast_precision_loss, reason = "human-readable figures")]
async fn watch(
    asked: &Asked,
    instances: &mut JoinSet<Result<(), StageError>>,
    progress: &Mutex<Progress>,
) -> Result<Vec<f64>, Failure> {
    let urls = asked.plan.urls;
    let (mut rates, mut last) = (vec![], (Instant::now(), 0));
    let mut every = tokio::time::interval(CHECK_INTERVAL);
    while lock(progress).ended < asked.instances {
        tokio::select! {
            ended = instances.join_next() => return Err(match ended {
                Some(Ok(Err(error))) => failed(error),
                Some(Err(error)) => failed(error),
                Some(Ok(Ok(()))) | None => failed("an instance of the service stopped unexpectedly"),
            }),
            _ = every.tick() => {}
            _ = tokio::signal::ctrl_c() => {
                let message = "stopped before completion; with --out the same command resumes it";
                return Err(Failure::Stopped(message.to_owned()));
            }
        }
        let now = (Instant::now(), lock(progress).urls);
        if now.1 - last.1 >= urls.div_ceil(10) {
            let rate = (now.1 - last.1) as f64 / (now.0 - last.0).as_secs_f64();
            notice!("{} of {urls} URLs, {rate:.0}/s", now.1);
            rates.push(rate);
            last = now;
        }
    }
    Ok(rates)
}
