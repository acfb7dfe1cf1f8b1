//! What a page costs the embedded store, flushing and merging included: CPU, memory and disk. Linux only.
//!
//! `cargo run --release -p orbweaver-store --example cost -- [PAGES] [PAGES AT ONCE] [PAGES A SECOND]`

use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use orbweaver_store::{FjallOptions, FjallStore, LinksOut, PageRow, Store, Write};
use orbweaver_url::Fingerprint;

/// Spreads a number (the finaliser of splitmix64).
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

fn url(number: u64) -> String {
    const WORDS: [&str; 8] = ["articles", "guide", "2026", "category", "products", "blog", "archive", "en"];
    let (word, more) = (WORDS[(number & 7) as usize], WORDS[((mix(number) >> 3) & 7) as usize]);
    format!("https://www.site{}.example/{word}/{more}/page-{:x}", number / 1000, mix(number) & 0xff_ffff)
}

fn writes(number: u64) -> [Vec<Write>; 2] {
    let fingerprint = Fingerprint::of("cost", &number.to_string());
    let (key, at_ms) = (url(number), 1000);
    let page = PageRow {
        fingerprint,
        url: key.clone(),
        key,
        site: format!("site{}.example", number / 1000),
        fetched_at_ms: at_ms,
        status: Some(200),
        outcome: "fetched".into(),
        reason: None,
        content_type: Some("text/html; charset=utf-8".into()),
        etag: Some(format!("\"{:x}\"", mix(number))),
        last_modified: Some("Thu, 17 Oct 2024 07:18:26 GMT".into()),
        bytes: mix(number) % 60_000,
        content_hash: Some(fingerprint.to_string()),
        depth: 3,
        via: Some(url(number / 30)),
    };
    let link = |i| (url(if i < 24 { number / 1000 * 1000 + mix(number * 31 + i) % 1000 } else { mix(i) }), i % 9 == 0);
    let links = LinksOut { fingerprint, at_ms, links: (0..30).map(link).collect() };
    [vec![Write::Page(Box::new(page))], vec![Write::Links(links)]]
}

/// CPU time of this process so far, in seconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// The most memory that this process had so far, in MB.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kb| kb.parse::<u64>().ok()).unwrap_or_default() / 1024
}

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
    let store = &store;

    // What making the writes costs is no cost of the store.
    let before = cpu();
    (0..pages / 10).for_each(|number| drop(std::hint::black_box(writes(number))));
    let making = (cpu() - before) * 10.0;

    let (before, since) = (cpu(), Instant::now());
    stream::iter(0..pages)
        .map(|number| async move {
            let due = Duration::from_secs_f64(number as f64 / rate as f64);
            tokio::time::sleep_until((since + due).into()).await;
            let [page, links] = writes(number);
            store.write(page).await?;
            store.write(links).await
        })
        .buffer_unordered(at_once as usize)
        .for_each(|written| async { written.unwrap_or_else(|error| panic!("{error}")) })
        .await;
    let each = 1e6 / pages as f64;
    println!("{pages} pages with 30 links, {at_once} at once, memory {} MB", memory());
    println!(
        "wall {:.1} us a page, CPU {:.1} us a page",
        since.elapsed().as_secs_f64() * each,
        (cpu() - before - making) * each
    );
    println!("disk {} bytes a page, and journals", disk(dir.path()) / pages);

    let (before, since) = (cpu(), Instant::now());
    let mut slowest = vec![];
    for number in 0..20_000 {
        let at = Instant::now();
        let there = store.page(Fingerprint::of("cost", &(mix(number) % pages).to_string())).await?;
        slowest.push(at.elapsed().as_micros());
        assert!(there.is_some());
    }
    slowest.sort_unstable();
    println!("page: wall {:.1} us, CPU {:.1} us", since.elapsed().as_secs_f64() * 50.0, (cpu() - before) * 50.0);
    println!("      99 of 100 within {} us, 999 of 1000 within {} us", slowest[19_800], slowest[19_980]);
    let since = Instant::now();
    for number in 0..20_000 {
        assert!(store.page(Fingerprint::of("none", &number.to_string())).await?.is_none());
    }
    println!("page that is not there: {:.1} us", since.elapsed().as_secs_f64() * 50.0);
    Ok(())
}
