//! The command `orbweaver`: a crawl in one process, and small tools around it.
//!
//! | module | what it does |
//! |---|---|
//! | [`crawl`] | `orbweaver crawl`: all services on the embedded log and store |
//! | [`export`] | the results as files, each line once |
//! | `cluster` | the same on a cluster: `orbweaver crawl --brokers`, `seed`, `status`, `scope`, `topics`, `dead-letters` (feature `cluster`) |
//! | [`tools`] | `orbweaver url`, `extract`, `robots` |
//! | [`replay`] | `orbweaver replay`: URLs whose truth is known through the deduplication |
//! | [`mod@bench`] | `orbweaver bench` |
//! | [`durable`] | files and folders that survive a power cut |
//! | [`logging`] | `orbweaver.log`, or stderr |
//! | [`cli`], [`exit`] | the command line, the exit codes |

pub mod bench;
pub mod cli;
#[cfg(feature = "cluster")]
pub mod cluster;
pub mod crawl;
pub mod durable;
pub mod exit;
pub mod export;
pub mod logging;
pub mod replay;
pub mod tools;

use std::{ffi::OsString, process::ExitCode};

use clap::Parser as _;

/// Runs the command line; `arguments` begin with the program's name.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match cli::Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; anything else is wrong usage.
            let code = if error.use_stderr() { 64 } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let result = match &cli.command {
        cli::Command::Crawl(args) => run_crawl(args),
        #[cfg(feature = "cluster")]
        cli::Command::Seed(args) => cluster::seed::run(args),
        #[cfg(feature = "cluster")]
        cli::Command::Status(args) => cluster::status::run(args),
        #[cfg(feature = "cluster")]
        cli::Command::Scope(args) => cluster::scope::run(args),
        #[cfg(feature = "cluster")]
        cli::Command::Topics(args) => cluster::topics::run(args),
        #[cfg(feature = "cluster")]
        cli::Command::DeadLetters(args) => cluster::dead_letters::run(args),
        cli::Command::Url(args) => tools::url::run(args),
        cli::Command::Extract(args) => tools::extract::run(args),
        cli::Command::Robots(args) => tools::robots::run(args),
        cli::Command::Replay(args) => replay::run(args),
        cli::Command::Bench(args) => bench::run(args),
    };
    result.map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS)
}

/// In this process, or on a cluster.
fn run_crawl(args: &cli::CrawlArgs) -> Result<(), exit::Failure> {
    #[cfg(feature = "cluster")]
    if let Some(brokers) = &args.brokers {
        return cluster::crawl::run(args, brokers);
    }
    crawl::run::run(args)
}
