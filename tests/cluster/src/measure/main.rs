//! Measures a whole pipeline of real processes on dedicated real servers: speed, cost of a killed process, scaling,
//! server outages, moved partitions. Every run checks that nothing was lost before it prints a figure.
//!
//! `tests/cluster/measure speed` builds what it needs and runs this; `--help` lists the measurements.

mod away;
mod bed;
mod kill;
mod moved;
mod prefilled;
mod process;
mod scale;
mod speed;

use anyhow::Result;
use clap::{Parser, ValueEnum};

use crate::bed::Bed;

/// Measure a pipeline of real processes on Kafka and a CQL server, all on this machine
#[derive(Debug, Parser)]
#[command(name = "tests/cluster/measure")]
struct Options {
    /// Measurements to run
    #[arg(required = true, value_enum)]
    what: Vec<What>,
    /// Number of pages of the generated web
    #[arg(long, default_value_t = 10_000)]
    pages: u64,
    /// Number of partitions of every topic
    #[arg(long, default_value_t = 8)]
    partitions: u32,
    /// Number of records of the runs on prefilled topics
    #[arg(long, default_value_t = 1_000_000)]
    records: u64,
    /// Duration of a server outage, in seconds
    #[arg(long, default_value_t = 60)]
    away: u64,
    /// Rounds of the speed measurement; the servers are warm from the second on
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// First of ten loopback ports for the servers
    #[arg(long, default_value_t = 30_092)]
    port: u16,
    /// Sync mode of Cassandra's commit log: before each acknowledgement (batch), or every second (periodic)
    #[arg(long, default_value = "periodic", value_parser = ["batch", "periodic"])]
    sync: String,
    /// Additional variable of every instance, such as ORBWEAVER_FETCHER__CONCURRENCY=32
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Pages per second, and CPU per page of every process, servers included
    Speed,
    /// SIGKILL of each service in turn: time until its partitions are open again, and until full speed
    Kill,
    /// 1, 3, 1 instances of each service during a crawl
    Scale,
    /// Outages of the broker, then of the CQL server, during a crawl
    Away,
    /// A moved partition of normalizer-dedup and frontier, with and without the local index
    Moved,
    /// normalizer-dedup and rate-limiter on prefilled topics
    Prefilled,
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    let bed = Bed::up(&options)?;
    for what in &options.what {
        match what {
            What::Speed => speed::run(&bed, &options).await?,
            What::Kill => kill::run(&bed, &options).await?,
            What::Scale => scale::run(&bed, &options).await?,
            What::Away => away::run(&bed, &options).await?,
            What::Moved => moved::run(&bed, &options).await?,
            What::Prefilled => prefilled::run(&bed, &options).await?,
        }
    }
    Ok(())
}
