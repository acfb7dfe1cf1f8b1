//! Latency of the API over an embedded store, at a fixed rate of requests. Linux only.
//!
//! `cargo run --release -p orbweaver-urlstore --no-default-features --example latency -- [URLS] [RATE] [SECONDS]`
//!
//! The rate has to keep all connections in use: the server closes one that is idle for ten seconds.
//!
//! Fills a store, serves it from a process of its own, and sends requests on an open loop: each has a time at which it is
//! due, whether or not earlier ones are answered, and its latency counts from then. First every request is `/v1/url` with
//! `resolve=no`, which reads one row, then `/v1/url`, then other routes are among them.

mod client;
mod data;

use std::{
    error::Error,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use orbweaver_store::{FjallOptions, FjallStore};
use orbweaver_url::Policy;
use orbweaver_urlstore::{Api, Sources, UrlstoreConfig, UrlstoreMetrics, server};
use tokio_util::sync::CancellationToken;

use crate::client::{Load, Route};

/// Routes of the second run, of a hundred requests.
const MIXED: [(Route, u64); 6] = [
    (Route::Url, 84),
    (Route::Absent, 5),
    (Route::History, 5),
    (Route::Links, 4),
    (Route::Pages, 1),
    (Route::Batch, 1),
];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [command, dir] = &*arguments
        && command == "serve"
    {
        return serve(Path::new(dir));
    }
    let number = |position: usize, default: u64| arguments.get(position).map_or(Ok(default), |text| text.parse());
    let (urls, rate, seconds) = (number(0, 200_000)?, number(1, 2000)?, number(2, 30)?);
    let dir = tempfile::tempdir()?;
    data::fill(dir.path(), urls)?;
    let (mut server, address) = start(dir.path())?;
    let process = server.id();
    let measured = [&[(Route::Own, 100)][..], &[(Route::Url, 100)], &MIXED].into_iter().try_for_each(|mix| {
        let load = Load { address, process, urls, rate, seconds, mix };
        println!("{urls} URLs, {rate} requests/s for {seconds} s, load {}", client::load_average());
        load.run().map(|report| println!("{report}"))
    });
    server.kill()?;
    server.wait()?;
    Ok(measured?)
}

/// Starts the server; returns its process and address.
fn start(dir: &Path) -> Result<(Child, SocketAddr), Box<dyn Error>> {
    let program = std::env::current_exe()?;
    let mut server = Command::new(program).arg("serve").arg(dir).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(server.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    Ok((server, line.trim().parse()?))
}

/// Serves a store as `orbweaver serve` does, and prints the address.
#[tokio::main]
async fn serve(dir: &Path) -> Result<(), Box<dyn Error>> {
    let config = UrlstoreConfig { listen: SocketAddr::from(([127, 0, 0, 1], 0)), ..UrlstoreConfig::default() };
    let store = Arc::new(FjallStore::open(dir, FjallOptions::default())?);
    let metrics = UrlstoreMetrics::register(&prometheus::Registry::new())?;
    let api = Api::new(&config, Sources { store, archive: None, policy: Policy::STANDARD, live: None }, metrics);
    let (listener, address) = server::listen(config.listen).await?;
    println!("{address}");
    server::serve(listener, api, None, CancellationToken::new()).await;
    Ok(())
}
