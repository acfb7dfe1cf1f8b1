//! `orbweaver bench crawl`: the whole crawler on a generated web, which this process serves, alternating with wget2.

mod child;

use std::{
    fmt,
    path::Path,
    process::{Command, Stdio},
};

use orbweaver_toyweb::{Logging, Serving, ToyWeb, WebConfig};

use crate::{
    cli::{BenchCommand, BenchCrawlArgs},
    crawl::summary::Summary,
    durable::read_whole,
    exit::{Failure, failed},
    output::to_stdout,
};
use child::{Used, run_measured};

/// Requests in flight, of each crawler.
const CONCURRENCY: &str = "64";

/// Result of one crawler in one run.
struct Run {
    used: Used,
    pages: u64,
    summary: Option<Summary>,
}

/// Runs the selected benchmark.
pub fn run(command: &BenchCommand) -> Result<(), Failure> {
    let BenchCommand::Crawl(args) = command;
    let dir = std::env::temp_dir().join(format!("orbweaver-bench-{}", std::process::id()));
    let wget2 = !args.alone && Command::new("wget2").arg("--version").stdout(Stdio::null()).status().is_ok();
    let config = WebConfig { pages: args.pages, alike: args.alike, ..WebConfig::default() };
    show(format_args!(
        "web: {} pages of {} bytes and {} links on one host{}, {CONCURRENCY} requests in flight, no rate limit; \
         durability: written to the system before each acknowledgement, synced to disk every second",
        config.pages,
        config.bytes,
        config.links,
        if config.alike { ", which differ only in numbers" } else { "" },
    ))?;
    let on_web = |run: &dyn Fn(&ToyWeb) -> Result<Run, Failure>| {
        let serving = Serving { port: 0, logging: Logging::Count };
        let web = ToyWeb::start(config.clone(), &serving).map_err(failed)?;
        let result = run(&web);
        web.stop();
        let _ = std::fs::remove_dir_all(&dir);
        result
    };
    let mut runs = vec![];
    let mut untrapped = vec![];
    let mut theirs = vec![];
    for _ in 0..args.runs {
        runs.push(on_web(&|web| run_orbweaver(args, "learn", web, &dir))?);
        if args.traps_off {
            untrapped.push(on_web(&|web| run_orbweaver(args, "off", web, &dir))?);
        }
        if wget2 {
            theirs.push(on_web(&|web| run_wget2(web, &dir))?);
        }
    }
    let mine = report("orbweaver", &runs)?;
    if let Some(summary) = runs.last().and_then(|run| run.summary.as_ref()) {
        report_services(summary)?;
    }
    for (name, runs) in [("traps off", &untrapped), ("wget2", &theirs)].into_iter().filter(|(_, runs)| !runs.is_empty())
    {
        let other = report(name, runs)?;
        show(format_args!(
            "ratio to {name}: {:.2} of its pages/s, {:.2} of its CPU per page",
            mine.0 / other.0,
            mine.1 / other.1
        ))?;
    }
    if !wget2 && !args.alone {
        show(format_args!("wget2 is not installed: no comparison"))?;
    }
    Ok(())
}

fn show(line: fmt::Arguments<'_>) -> Result<(), Failure> {
    to_stdout(|out| writeln!(out, "{line}"))
}

fn run_orbweaver(args: &BenchCrawlArgs, traps: &str, web: &ToyWeb, dir: &Path) -> Result<Run, Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("the crawler cannot be started: {error}"));
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(["crawl", web.start_url(), "--allow-private", "--rate", "unlimited", "--traps", traps]);
    let (used, status) =
        run_measured(command.args(["--concurrency", CONCURRENCY, "--out"]).arg(dir)).map_err(failed)?;
    let summary: Option<Summary> = read_whole(&dir.join("summary.json")).unwrap_or_default();
    let pages = summary.as_ref().map(|summary| summary.pages).unwrap_or_default();
    if pages != args.pages {
        return Err(Failure::Failed(format!(
            "{pages} pages of {} were fetched; the crawler ended with {status}",
            args.pages
        )));
    }
    Ok(Run { used, pages, summary })
}

fn run_wget2(web: &ToyWeb, dir: &Path) -> Result<Run, Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("wget2 cannot be started: {error}"));
    let mut command = Command::new("wget2");
    command.args(["--recursive", "--level=0", "--no-robots", "--quiet", "--no-config"]);
    command.args([&format!("--max-threads={CONCURRENCY}"), "--directory-prefix"]).arg(dir).arg(web.start_url());
    let (used, _) = run_measured(&mut command).map_err(failed)?;
    Ok(Run { used, pages: web.log().count(), summary: None })
}

/// Prints the medians of a crawler's runs. Returns pages per second and µs of CPU time per page.
#[allow(clippy::cast_precision_loss, reason = "human-readable figures")]
fn report(name: &str, runs: &[Run]) -> Result<(f64, f64), Failure> {
    let speed = median(runs.iter().map(|run| run.pages as f64 / run.used.wall.as_secs_f64()));
    let cpu = median(runs.iter().map(|run| run.used.cpu.as_secs_f64() * 1e6 / run.pages.max(1) as f64));
    let rss = median(runs.iter().map(|run| run.used.peak_rss_bytes as f64 / 1e6));
    let pages = runs.first().map(|run| run.pages).unwrap_or_default();
    show(format_args!(
        "{name:>10}: {speed:>8.0} pages/s  {cpu:>6.0} µs CPU per page  {rss:>5.0} MB  \
         ({pages} pages, median of {} runs)",
        runs.len()
    ))?;
    Ok((speed, cpu))
}

#[allow(clippy::cast_precision_loss, reason = "human-readable figures")]
fn report_services(summary: &Summary) -> Result<(), Failure> {
    let mut services: Vec<_> = summary.cpu_seconds_by_service.iter().collect();
    services.sort_by(|a, b| b.1.total_cmp(a.1));
    let known: f64 = services.iter().map(|(_, seconds)| **seconds).sum();
    let line = |name: &str, seconds: f64| {
        show(format_args!("{name:>24} {:>6.1} µs CPU per page", seconds * 1e6 / summary.pages.max(1) as f64))
    };
    for (name, seconds) in services {
        line(name, *seconds)?;
    }
    line("the rest of the process", (summary.cpu_seconds - known).max(0.0))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
