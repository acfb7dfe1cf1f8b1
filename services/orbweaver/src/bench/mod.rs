//! `orbweaver bench crawl`: the whole crawler on a generated web, which this process serves, alternating with wget2.

mod child;

use std::{
    collections::BTreeSet,
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
    let mut crawls: Vec<(&str, Vec<&str>, Vec<Run>)> = vec![("orbweaver", vec![], vec![])];
    crawls.extend(args.with.iter().map(|options| (options.as_str(), options.split_whitespace().collect(), vec![])));
    let mut theirs = vec![];
    for _ in 0..args.runs {
        for (_, options, runs) in &mut crawls {
            runs.push(on_web(&|web| run_orbweaver(args, options, web, &dir))?);
        }
        if wget2 {
            theirs.push(on_web(&|web| run_wget2(web, &dir))?);
        }
    }
    crawls.extend(wget2.then(|| ("wget2", vec![], theirs)));
    let mut mine = None;
    for (name, _, runs) in &crawls {
        let other = report(name, runs)?;
        report_services(runs)?;
        let (speed, cpu) = *mine.get_or_insert(other);
        if *name != "orbweaver" {
            show(format_args!(
                "ratio to {name}: {:.2} of its pages/s, {:.2} of its CPU per page",
                speed / other.0,
                cpu / other.1
            ))?;
        }
    }
    if !wget2 && !args.alone {
        show(format_args!("wget2 is not installed: no comparison"))?;
    }
    Ok(())
}

fn show(line: fmt::Arguments<'_>) -> Result<(), Failure> {
    to_stdout(|out| writeln!(out, "{line}"))
}

fn run_orbweaver(args: &BenchCrawlArgs, options: &[&str], web: &ToyWeb, dir: &Path) -> Result<Run, Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("the crawler cannot be started: {error}"));
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(["crawl", web.start_url(), "--allow-private", "--rate", "unlimited"]);
    command.args(["--concurrency", CONCURRENCY]).args(options).arg("--out").arg(dir);
    let (used, status) = run_measured(&mut command).map_err(failed)?;
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
fn report_services(runs: &[Run]) -> Result<(), Failure> {
    let summaries: Vec<_> = runs.iter().filter_map(|run| run.summary.as_ref()).collect();
    let per_page = |seconds: &dyn Fn(&Summary) -> f64| {
        median(summaries.iter().map(|summary| seconds(summary) * 1e6 / summary.pages.max(1) as f64))
    };
    let names: BTreeSet<_> = summaries.iter().flat_map(|summary| summary.cpu_seconds_by_service.keys()).collect();
    let of = |summary: &Summary, name| summary.cpu_seconds_by_service.get(name).copied().unwrap_or_default();
    let mut services: Vec<_> =
        names.iter().map(|name| (name.as_str(), per_page(&|summary| of(summary, *name)))).collect();
    services.sort_by(|a, b| b.1.total_cmp(&a.1));
    if !services.is_empty() {
        let known = |summary: &Summary| summary.cpu_seconds_by_service.values().sum::<f64>();
        services
            .push(("the rest of the process", per_page(&|summary| (summary.cpu_seconds - known(summary)).max(0.0))));
    }
    for (name, cpu) in services {
        show(format_args!("{name:>24} {cpu:>6.1} µs CPU per page"))?;
    }
    Ok(())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
