//! Command that runs schedules and prints their results.

use std::{
    collections::BTreeMap,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use anyhow::{Context, bail};
use clap::Parser;
use orbweaver_simulation_tests::{
    counts::Counts,
    scenario::Scenario,
    schedule::{Report, run},
    time::VirtualTimer,
};

/// Run schedules of the simulation; print faults by kind, and violations.
#[derive(Debug, Parser)]
struct Args {
    /// Seeds to run: FIRST..END or one number.
    #[arg(long, default_value = "0..1000")]
    seeds: String,
    /// Number of threads; each runs one schedule at a time.
    #[arg(long, default_value_t = std::thread::available_parallelism().map_or(1, std::num::NonZero::get))]
    threads: usize,
    /// Print each schedule with its faults.
    #[arg(long)]
    verbose: bool,
    /// Print every event, down to each record, with its virtual time; meant for one seed.
    #[arg(long)]
    log: bool,
}

#[derive(Debug, Default)]
struct Sum {
    schedules: u64,
    happened: BTreeMap<&'static str, u64>,
    pages: usize,
    requests: usize,
    repeats: usize,
    virtual_ms: u64,
    failed: Vec<u64>,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    if args.log {
        let log = tracing_subscriber::fmt().with_timer(VirtualTimer).with_ansi(false).with_writer(std::io::stderr);
        log.with_max_level(tracing::Level::DEBUG).init();
    }
    let (first, end) = seeds(&args.seeds)?;
    let (next, sum, begun) = (AtomicU64::new(first), Mutex::new(Sum::default()), Instant::now());
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..args.threads.max(1)).map(|_| scope.spawn(|| work(&args, (&next, end), &sum))).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(_) => bail!("a thread panicked"),
        })
    })?;
    let mut sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    sum.failed.sort_unstable();
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{} schedules in {seconds:.1} s, {:.1} h of virtual time",
        sum.schedules,
        sum.virtual_ms as f64 / 3_600_000.0
    );
    println!("{} pages, {} requests, {} of them repeated", sum.pages, sum.requests, sum.repeats);
    for (kind, count) in &sum.happened {
        println!("  {kind}: {count}");
    }
    println!("{} with violations {:?}", sum.failed.len(), sum.failed);
    Ok(if sum.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn seeds(text: &str) -> anyhow::Result<(u64, u64)> {
    let number = |text: &str| {
        text.parse::<u64>().with_context(|| format!("`{text}` is no seed; seeds are FIRST..END or a number"))
    };
    match text.split_once("..") {
        Some((first, end)) => Ok((number(first)?, number(end)?)),
        None => Ok((number(text)?, number(text)?.saturating_add(1))),
    }
}

fn work(args: &Args, (next, end): (&AtomicU64, u64), sum: &Mutex<Sum>) -> anyhow::Result<()> {
    let counts = Counts::new()?;
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return Ok(());
        }
        let report = run(Scenario::of(seed), &counts);
        let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
        if args.verbose || !report.violations.is_empty() {
            println!("{}", described(&report));
        }
        sum.schedules += 1;
        sum.pages += report.pages;
        sum.requests += report.requests;
        sum.repeats += report.repeats.all;
        sum.virtual_ms += report.virtual_ms;
        for (kind, count) in report.happened {
            *sum.happened.entry(kind).or_default() += count;
        }
        if !report.violations.is_empty() {
            sum.failed.push(seed);
        }
    }
}

fn described(report: &Report) -> String {
    let mut lines = vec![format!(
        "seed {}: {} partitions, depth {:?}; {} pages, {} requests, {} repeated, {} s of virtual time, trace {:016x}",
        report.scenario.seed,
        report.scenario.settings.partitions,
        report.scenario.web.max_depth,
        report.pages,
        report.requests,
        report.repeats.all,
        report.virtual_ms / 1000,
        report.trace
    )];
    lines.extend(report.scenario.faults.iter().map(|planned| format!("  {planned}")));
    lines.extend(report.ended.iter().map(|error| format!("  a process ended: {error}")));
    lines.extend(report.violations.iter().take(12).map(|violation| format!("  VIOLATION {violation}")));
    lines.join("\n")
}
