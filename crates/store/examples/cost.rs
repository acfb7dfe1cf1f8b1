//! Cost of a page in the embedded store, including flushes and compaction: CPU, memory and disk. Linux only.
//!
//! `cargo run --release -p orbweaver-store --example cost -- [PAGES] [PAGES AT ONCE] [PAGES PER SECOND]`

mod sample;

use std::time::Instant;

use orbweaver_store::{FjallOptions, FjallStore, Store};
use orbweaver_url::{CrawlName, Fingerprint};
use sample::{cost_of_making, cpu, memory, mix, write_pages};

fn disk(dir: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => disk(&entry.path()),
        Ok(data) if entry.path().extension().is_none_or(|extension| extension != "jnl") => data.len(),
        _ => 0,
    };
    entries.map(size).sum()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let pages = arguments.next().transpose()?.unwrap_or(300_000);
    let at_once = arguments.next().transpose()?.unwrap_or(64);
    let rate = arguments.next().transpose()?.unwrap_or(u64::MAX);
    let dir = tempfile::tempdir()?;
    let store = FjallStore::open(dir.path(), FjallOptions::default())?;

    // Exclude the cost of generating the writes.
    let making = cost_of_making() * pages as f64;

    let (before, since) = (cpu(), Instant::now());
    write_pages(&store, pages, at_once as usize, rate).await;
    let each = 1e6 / pages as f64;
    println!("{pages} pages with 30 links, {at_once} at once, memory {} MB", memory());
    println!(
        "wall {:.1} us a page, CPU {:.1} us a page",
        since.elapsed().as_secs_f64() * each,
        (cpu() - before - making) * each
    );
    println!("disk {} bytes per page, and journals", disk(dir.path()) / pages);

    let (before, since) = (cpu(), Instant::now());
    let mut slowest = vec![];
    for number in 0..20_000 {
        let at = Instant::now();
        let there = store.page(Fingerprint::of(&CrawlName::default(), &(mix(number) % pages).to_string())).await?;
        slowest.push(at.elapsed().as_micros());
        assert!(there.is_some());
    }
    slowest.sort_unstable();
    println!("page: wall {:.1} us, CPU {:.1} us", since.elapsed().as_secs_f64() * 50.0, (cpu() - before) * 50.0);
    println!("      99 of 100 within {} us, 999 of 1000 within {} us", slowest[19_800], slowest[19_980]);
    let since = Instant::now();
    for number in 0..20_000 {
        assert!(store.page(Fingerprint::of(&CrawlName::default(), &format!("absent {number}"))).await?.is_none());
    }
    println!("page that is not there: {:.1} us", since.elapsed().as_secs_f64() * 50.0);
    Ok(())
}
