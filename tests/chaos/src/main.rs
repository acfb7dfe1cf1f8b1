//! Command that runs the chaos gate for one seed; see `tests/chaos/run`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;
use orbweaver_chaos_tests::{Extent, Faults, SERVERS, Settings, run, schedule, share_of, web};
use orbweaver_testkit::Stack;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

#[derive(Debug, Parser)]
#[command(about = "Crawls a web with real processes on real servers while faults come from a seed.")]
struct Options {
    /// Seed of web and faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of ordinary pages of the web
    #[arg(long, default_value_t = 1_200)]
    pages: u64,
    /// Number of sites they are spread over
    #[arg(long, default_value_t = 8)]
    sites: u32,
    /// Minimum time between requests to a site, in milliseconds
    #[arg(long, default_value_t = 250, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    interval_ms: u64,
    /// Number of brokers, each of which is unavailable once: 1, or 3 that replicate
    #[arg(long, default_value_t = 3, value_parser = brokers)]
    brokers: u8,
    /// Stop the fetchers for longer than a lease, and cut off all servers for more than a minute three times in a row
    #[arg(long)]
    long: bool,
    /// Factor for the time between two faults
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=60))]
    stretch: u32,
    /// Number of instances of each service at the start
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=9))]
    instances: u32,
    /// Faults that happen: all, those of single processes, or none; the third crawl is deleted in any case
    #[arg(long, value_enum, default_value = "all")]
    faults: Faults,
    /// Directory for journal and logs; must be empty or absent
    #[arg(long, value_name = "DIR", required_unless_present_any = ["plan", "share_of"])]
    out: Option<PathBuf>,
    /// Mount point of a small disk, which holds the states of all instances and is full for a while
    #[arg(long, value_name = "DIR")]
    small_disk: Option<PathBuf>,
    /// Path of libfaketime, by which the clocks of all instances are an hour behind or ahead for a while
    #[arg(long, value_name = "FILE")]
    clock_library: Option<PathBuf>,
    /// First of seventeen ports, for the servers and the proxies in front of them
    #[arg(long, default_value_t = 26_092, value_parser = clap::value_parser!(u16).range(1_024..=65_500))]
    port: u16,
    /// Time limit of the run, in seconds
    #[arg(long, value_name = "S", default_value_t = 900)]
    max_seconds: u64,
    /// Only print the schedule
    #[arg(long)]
    plan: bool,
    /// Only print the share of the permitted throughput in a run with these options, which need not have ended: DIR is its
    /// directory
    #[arg(long, value_name = "DIR")]
    share_of: Option<PathBuf>,
}

impl Options {
    fn extent(&self) -> Extent {
        let Self { brokers, long, stretch, instances, faults, .. } = *self;
        Extent { brokers, long, stretch, instances, faults }
    }
}

/// Parses a number of brokers that `tests/stack` can start.
fn brokers(value: &str) -> Result<u8, String> {
    value.parse().ok().filter(|count| [1, 3].contains(count)).ok_or_else(|| "allowed: 1 and 3".to_owned())
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    if options.plan {
        for step in schedule(options.seed, options.extent()) {
            println!("{:>7} ms: {}", step.at_ms, step.fault);
        }
        return ExitCode::SUCCESS;
    }
    if let Some(dir) = &options.share_of {
        return match share_of(dir, web(options.seed, options.pages, options.sites), options.interval_ms * 1_000) {
            Ok(share) => {
                println!("share={share:.1}%");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("{}: {error:?}", dir.display());
                ExitCode::from(74)
            }
        };
    }
    match bounded(options).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("the run could not be made: {error:?}");
            ExitCode::from(74)
        }
    }
}

/// Runs with a time limit. Servers and processes are stopped in every case, because their owners are dropped here.
async fn bounded(options: Options) -> Result<bool> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let limit = Duration::from_secs(options.max_seconds);
    tokio::select! {
        done = timeout(limit, Box::pin(one(options))) => done.with_context(|| format!("not done within {limit:?}"))?,
        _ = terminate.recv() => bail!("terminated"),
        _ = interrupt.recv() => bail!("interrupted"),
    }
}

async fn one(options: Options) -> Result<bool> {
    let extent = options.extent();
    let out = options.out.context("--out")?;
    ensure!(
        std::env::var_os("ORBWEAVER_TEST_CQL").is_none(),
        "ORBWEAVER_TEST_CQL is set, and the gate must not kill that server"
    );
    std::fs::create_dir_all(&out)?;
    ensure!(is_empty(&out)?, "{} is not empty", out.display());
    let out = out.canonicalize()?;
    let (dir, port, count) = (out.join(SERVERS), options.port, options.brokers.to_string());
    let proxied_port = port + 10;
    let proxied = proxied_port.to_string();
    let up = move || Stack::up(&dir, port, &["--sync", "batch", "--brokers", &count, "--proxied", &proxied]);
    let stack = tokio::task::spawn_blocking(up).await??;
    let Options { seed, pages, sites, interval_ms, small_disk, clock_library, .. } = options;
    let settings = Settings { seed, pages, sites, interval_ms, proxied_port, extent, small_disk, clock_library, out };
    let (line, verdict) = run(&settings, stack).await?;
    for finding in verdict.findings() {
        println!("{finding}");
    }
    println!("{line}");
    Ok(verdict.is_ok())
}

fn is_empty(dir: &Path) -> Result<bool> {
    Ok(std::fs::read_dir(dir)?.next().is_none())
}
