//! Cost of a page on a running CQL server: pages per second, CPU of this process and of the server. Linux only.
//!
//! `cargo run --release -p orbweaver-store --features cql --example cql_cost -- HOST:PORT KEYSPACE [PAGES] [AT ONCE]
//! [PID OF THE SERVER]`

mod sample;

use std::time::Instant;

use futures::stream::{self, StreamExt};
use orbweaver_store::{CqlConfig, CqlStore, Store, StoreMetrics};
use orbweaver_url::{CrawlName, Fingerprint};
use prometheus::Registry;
use sample::{cost_of_making, cpu, cpu_of, memory, mix, write_pages};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let node = arguments.next().unwrap_or_else(|| "127.0.0.1:9042".to_owned());
    let keyspace = arguments.next().unwrap_or_else(|| "orbweaver_cost".to_owned());
    let pages: u64 = arguments.next().map_or(Ok(20_000), |text| text.parse())?;
    let at_once: usize = arguments.next().map_or(Ok(256), |text| text.parse())?;
    let server = arguments.next().unwrap_or_else(|| "self".to_owned());
    let config =
        CqlConfig { nodes: vec![node], keyspace, replication_factor: 1, concurrency: at_once, ..CqlConfig::default() };
    let store = CqlStore::connect(config, StoreMetrics::register(&Registry::new())?).await?;
    let store = &store;

    let making = cost_of_making() * pages as f64;
    let each = 1e6 / pages as f64;
    let (before, server_before, since) = (cpu(), cpu_of(&server), Instant::now());
    let took = write_pages(store, pages, at_once, u64::MAX).await;
    let seconds = since.elapsed().as_secs_f64();
    println!(
        "{pages} pages with 30 links, {at_once} at once: {:.0} pages/s, memory {} MB",
        pages as f64 / seconds,
        memory()
    );
    println!(
        "CPU {:.0} us a page, of the server {:.0}",
        (cpu() - before - making) * each,
        (cpu_of(&server) - server_before) * each
    );
    println!("a page took {} us, 99 of 100 at most {}", took[took.len() / 2], took[took.len() * 99 / 100]);

    let since = Instant::now();
    stream::iter(0..pages.min(20_000))
        .map(|number| async move {
            let fingerprint = Fingerprint::of(&CrawlName::default(), &(mix(number) % pages).to_string());
            store.page(fingerprint).await
        })
        .buffer_unordered(at_once)
        .for_each(|page| async { assert!(page.unwrap_or_else(|error| panic!("{error}")).is_some()) })
        .await;
    println!("{:.0} reads/s of a page", pages.min(20_000) as f64 / since.elapsed().as_secs_f64());
    Ok(())
}
