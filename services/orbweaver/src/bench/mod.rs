//! `orbweaver bench crawl`: the whole crawler on a generated web, which another process serves, alternating with wget2.

mod child;

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
};

use orbweaver_toyweb::{Logging, Serving, ToyWeb, WebConfig};

use crate::{
    cli::{BenchArgs, BenchCommand, BenchCrawlArgs},
    crawl::summary::Summary,
    exit::Failure,
};
use child::{Used, run_measured};

/// Runs the selected benchmark.
pub fn run(args: &BenchArgs) -> Result<(), Failure> {
    match &args.what {
        BenchCommand::Crawl(args) => crawl(args),
        BenchCommand::Serve(args) => serve(args),
    }
}

/// Result of one crawler in one run.
struct Run {
    used: Used,
    pages: u64,
    summary: Option<Summary>,
}

fn crawl(args: &BenchCrawlArgs) -> Result<(), Failure> {
    let dir = std::env::temp_dir().join(format!("orbweaver-bench-{}", std::process::id()));
    let wget2 = !args.alone && Command::new("wget2").arg("--version").stdout(Stdio::null()).status().is_ok();
    println!(
        "web: {} pages of {} bytes and {} links on one host{}, {} requests in flight, no rate limit; durability: \
         written to the system before each acknowledgement, synced to disk every second",
        args.pages,
        args.bytes,
        args.links,
        if args.alike { ", which differ only in numbers" } else { "" },
        args.concurrency
    );
    let mut runs = vec![];
    let mut untrapped = vec![];
    let mut theirs = vec![];
    for _ in 0..args.runs {
        runs.push(with_server(args, |url| run_orbweaver(args, "learn", url, &dir))?);
        if args.traps_off {
            untrapped.push(with_server(args, |url| run_orbweaver(args, "off", url, &dir))?);
        }
        if wget2 {
            theirs.push(with_server(args, |url| run_wget2(args, url, &dir))?);
        }
    }
    let mine = report("orbweaver", &runs);
    if let Some(summary) = runs.last().and_then(|run| run.summary.as_ref()) {
        report_services(summary);
    }
    for (name, runs) in [("traps off", &untrapped), ("wget2", &theirs)].into_iter().filter(|(_, runs)| !runs.is_empty())
    {
        let other = report(name, runs);
        println!(
            "ratio to {name}: {:.2} of its pages/s, {:.2} of its CPU per page",
            mine.0 / other.0,
            mine.1 / other.1
        );
    }
    if !wget2 && !args.alone {
        println!("wget2 is not installed: no comparison");
    }
    Ok(())
}

/// Serves a generated web until stdin closes.
fn serve(args: &BenchCrawlArgs) -> Result<(), Failure> {
    let config = WebConfig {
        seed: args.seed,
        pages: args.pages,
        links: args.links,
        bytes: args.bytes,
        alike: args.alike,
        ..WebConfig::default()
    };
    let serving = Serving { port: 0, logging: Logging::Count };
    let web = ToyWeb::start(config, &serving).map_err(|error| Failure::Failed(error.to_string()))?;
    let failed = |error: std::io::Error| Failure::Failed(format!("stdin or stdout: {error}"));
    let mut out = std::io::stdout();
    writeln!(out, "{}", web.start_url()).and_then(|()| out.flush()).map_err(failed)?;
    std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()).map_err(failed)?;
    web.stop();
    Ok(())
}

/// Starts a web in a separate process, passes its address to `run`, and stops it.
fn with_server(args: &BenchCrawlArgs, run: impl FnOnce(&str) -> Result<Run, Failure>) -> Result<Run, Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("the generated web cannot be started: {error}"));
    let program = std::env::current_exe().map_err(failed)?;
    let mut server = Command::new(program)
        .args(["bench", "serve"])
        .args(["--pages", &args.pages.to_string(), "--links", &args.links.to_string()])
        .args(["--bytes", &args.bytes.to_string(), "--seed", &args.seed.to_string()])
        .args(args.alike.then_some("--alike"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut url = String::new();
    if let Some(stdout) = server.stdout.take() {
        BufReader::new(stdout).read_line(&mut url).map_err(failed)?;
    }
    let result = run(url.trim());
    stop(&mut server);
    result
}

/// Closes the server's stdin, which ends it, and kills it in case it does not end.
fn stop(server: &mut Child) {
    drop(server.stdin.take());
    let _ = server.kill();
    let _ = server.wait();
}

fn run_orbweaver(args: &BenchCrawlArgs, traps: &str, url: &str, dir: &Path) -> Result<Run, Failure> {
    let _ = std::fs::remove_dir_all(dir);
    let failed = |error: std::io::Error| Failure::Failed(format!("the crawler cannot be started: {error}"));
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(["crawl", url, "--allow-private", "--rate", "unlimited", "--traps", traps]);
    command.args(["--concurrency", &args.concurrency.to_string(), "--out"]).arg(dir);
    let (used, status) = run_measured(command.stdout(Stdio::null()).stderr(Stdio::null())).map_err(failed)?;
    let summary =
        std::fs::read(dir.join("summary.json")).ok().and_then(|text| serde_json::from_slice::<Summary>(&text).ok());
    let pages = summary.as_ref().map(|summary| summary.pages).unwrap_or_default();
    let _ = std::fs::remove_dir_all(dir);
    if pages != args.pages {
        return Err(Failure::Failed(format!(
            "{pages} pages of {} were fetched; the crawler ended with {status}",
            args.pages
        )));
    }
    Ok(Run { used, pages, summary })
}

fn run_wget2(args: &BenchCrawlArgs, url: &str, dir: &Path) -> Result<Run, Failure> {
    let _ = std::fs::remove_dir_all(dir);
    let failed = |error: std::io::Error| Failure::Failed(format!("wget2 cannot be started: {error}"));
    let mut command = Command::new("wget2");
    command.args(["--recursive", "--level=0", "--no-robots", "--quiet", "--no-config"]);
    command.args([&format!("--max-threads={}", args.concurrency), "--directory-prefix"]).arg(dir).arg(url);
    let (used, _) = run_measured(command.stdout(Stdio::null()).stderr(Stdio::null())).map_err(failed)?;
    let pages = count_files(dir);
    let _ = std::fs::remove_dir_all(dir);
    Ok(Run { used, pages, summary: None })
}

fn count_files(dir: &Path) -> u64 {
    let mut dirs = vec![dir.to_owned()];
    let mut files = 0;
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => dirs.push(entry.path()),
                Ok(_) => files += 1,
                Err(_) => {}
            }
        }
    }
    files
}

/// Prints the medians of a crawler's runs. Returns pages per second and µs of CPU time per page.
#[allow(clippy::cast_precision_loss, reason = "human-readable figures")]
fn report(name: &str, runs: &[Run]) -> (f64, f64) {
    let speed = median(runs.iter().map(|run| run.pages as f64 / run.used.wall.as_secs_f64()));
    let cpu = median(runs.iter().map(|run| run.used.cpu.as_secs_f64() * 1e6 / run.pages.max(1) as f64));
    let rss = median(runs.iter().map(|run| run.used.peak_rss_bytes as f64 / 1e6));
    let pages = runs.first().map(|run| run.pages).unwrap_or_default();
    println!(
        "{name:>10}: {speed:>8.0} pages/s  {cpu:>6.0} µs CPU per page  {rss:>5.0} MB  \
         ({pages} pages, median of {} runs)",
        runs.len()
    );
    (speed, cpu)
}

#[allow(clippy::cast_precision_loss, reason = "human-readable figures")]
fn report_services(summary: &Summary) {
    let mut services: Vec<_> = summary.cpu_seconds_by_service.iter().collect();
    services.sort_by(|a, b| b.1.total_cmp(a.1));
    let known: f64 = services.iter().map(|(_, seconds)| **seconds).sum();
    let line = |name: &str, seconds: f64| {
        println!("{name:>24} {:>6.1} µs CPU per page", seconds * 1e6 / summary.pages.max(1) as f64);
    };
    for (name, seconds) in services {
        line(name, *seconds);
    }
    line("the rest of the process", (summary.cpu_seconds - known).max(0.0));
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
