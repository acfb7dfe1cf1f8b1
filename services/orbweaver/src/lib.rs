//! The command `orbweaver`: a crawl in one process, cluster commands, and small tools.
//!
//! | module | contents |
//! |---|---|
//! | [`crawl`] | `orbweaver crawl`: all services on the embedded log and store |
//! | [`export`] | results as files, each line exactly once |
//! | `cluster` | `orbweaver crawl --brokers`, `seed`, `status`, `crawls`, `site`, `topics`, `consumers`, `dead-letters` |
//! | `doctor` | `orbweaver doctor`: checks of everything that a cluster needs, with remedies |
//! | [`tools`] | `orbweaver url`, `extract`, `robots` |
//! | [`report`] | `orbweaver report links`: broken links, redirects and titles of a crawl |
//! | [`rank`] | `orbweaver rank`: importance of sites by the links between them, as weights |
//! | [`serve`] | `orbweaver serve`: the API of urlstore and the console over the results of a crawl |
//! | [`shards`] | `orbweaver export`: results as compressed shards with a manifest |
//! | `results`, `interrupt` | result files as read by other commands; work that a signal stops |
//! | [`replay`] | `orbweaver replay`: measures the deduplication with URLs whose correct results are known |
//! | [`mod@bench`] | `orbweaver bench` |
//! | [`durable`] | files and directories that survive a power cut |
//! | [`logging`] | logging to `orbweaver.log` or stderr |
//! | [`cli`], `output`, [`exit`] | command line, output, exit codes |
//!
//! `cluster` and `doctor` require the feature `cluster`.

// A closed pipe must not end a command: see `output`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

// Before the modules that use its macro.
#[macro_use]
mod output;

pub mod bench;
pub mod cli;
#[cfg(feature = "cluster")]
pub mod cluster;
pub mod crawl;
#[cfg(feature = "cluster")]
pub mod doctor;
pub mod durable;
pub mod exit;
pub mod export;
mod interrupt;
pub mod logging;
pub mod rank;
pub mod replay;
pub mod report;
mod results;
pub mod serve;
pub mod shards;
pub mod tools;

use std::{ffi::OsString, process::ExitCode, time::Duration};

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};

/// Runs the command line; `arguments` start with the program's name.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let matches = cli::Cli::command().try_get_matches_from(arguments);
    let parsed = matches.and_then(|matches| Ok((cli::Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help and version are not errors; everything else is wrong usage.
            let code = if error.use_stderr() { 64 } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let result = match &cli.command {
        cli::Command::Crawl(args) => run_crawl(args, &matches),
        #[cfg(feature = "cluster")]
        cli::Command::Cluster(command) => cluster::run(command),
        #[cfg(feature = "cluster")]
        cli::Command::Doctor(args) => doctor::run(args),
        cli::Command::Report(command) => report::run(command),
        cli::Command::Export(args) => shards::run(args),
        cli::Command::Rank(args) => rank::run(args),
        cli::Command::Serve(args) => serve::run(args),
        cli::Command::Url(args) => tools::url::run(args),
        cli::Command::Extract(args) => tools::extract::run(args),
        cli::Command::Robots(args) => tools::robots::run(args),
        cli::Command::Replay(args) => replay::run(args),
        cli::Command::Bench(args) => bench::run(args),
    };
    result.map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS)
}

/// Runs a command on a runtime of its own with this number of threads. Work that still blocks them at its end is
/// abandoned after `patience`.
fn block_on<T>(
    threads: usize,
    patience: Duration,
    command: impl Future<Output = Result<T, exit::Failure>>,
) -> Result<T, exit::Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let runtime = runtime.map_err(|error| exit::failed(format!("the runtime cannot be started: {error}")))?;
    let result = runtime.block_on(command);
    runtime.shutdown_timeout(patience);
    result
}

/// Crawls in this process, or on a cluster.
fn run_crawl(args: &cli::CrawlArgs, matches: &ArgMatches) -> Result<(), exit::Failure> {
    #[cfg(feature = "cluster")]
    if let Some(brokers) = &args.cluster.brokers {
        return cluster::crawl::run(args, brokers);
    }
    if let Some(option) = cluster_option(matches) {
        return Err(exit::Failure::Usage(format!(
            "{option} requires --brokers: without it the crawl runs in this process"
        )));
    }
    crawl::run::run(args)
}

/// Returns the first option on the command line that only applies to a cluster. Environment variables do not count,
/// since they may be set for other commands.
fn cluster_option(matches: &ArgMatches) -> Option<&'static str> {
    const OPTIONS: [(&str, &str); 5] = [
        ("prefix", "--prefix"),
        ("group_protocol", "--group-protocol"),
        ("property", "-X"),
        ("keyspace", "--keyspace"),
        ("cql_replication", "--cql-replication"),
    ];
    let crawl = matches.subcommand_matches("crawl")?;
    let given = |id: &str| {
        let known = crawl.ids().any(|known| known == id);
        known && crawl.value_source(id) == Some(clap::parser::ValueSource::CommandLine)
    };
    OPTIONS.iter().find(|(id, _)| given(id)).map(|(_, option)| *option)
}
