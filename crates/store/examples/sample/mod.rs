//! Sample data of the measurements: pages and their links, as found by a crawl of large sites.

#![allow(dead_code, reason = "each measurement takes what it needs")]

use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use orbweaver_store::{LinksOut, PageRow, Store, Write};
use orbweaver_url::{CrawlName, Fingerprint};

/// Hashes a number (finalizer of splitmix64).
pub(crate) fn mix(number: u64) -> u64 {
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

/// Returns the writes of a page: its fetch, and its links.
pub(crate) fn writes(number: u64) -> [Vec<Write>; 2] {
    let fingerprint = Fingerprint::of(&CrawlName::default(), &number.to_string());
    let (key, at_ms) = (url(number), 1000);
    let page = PageRow {
        fingerprint,
        url: key.clone(),
        key,
        site: format!("site{}.example", number / 1000).into(),
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
    let links = LinksOut { fingerprint, at_ms, links: (0..30).map(link).collect(), canonical: None };
    [vec![Write::Page { crawl: CrawlName::default(), row: Box::new(page) }], vec![Write::Links(links)]]
}

/// Writes pages, at most `rate` per second. Returns how long each of them took, in microseconds, sorted.
pub(crate) async fn write_pages(store: &dyn Store, pages: u64, at_once: usize, rate: u64) -> Vec<u128> {
    let since = Instant::now();
    let write = |number: u64| async move {
        tokio::time::sleep_until((since + Duration::from_secs_f64(number as f64 / rate as f64)).into()).await;
        let at = Instant::now();
        for writes in writes(number) {
            store.write(writes).await.unwrap_or_else(|error| panic!("{error}"));
        }
        at.elapsed().as_micros()
    };
    let mut took: Vec<u128> = stream::iter(0..pages).map(write).buffer_unordered(at_once).collect().await;
    took.sort_unstable();
    took
}

/// Returns the CPU time of generating the writes of a page, in seconds.
pub(crate) fn cost_of_making() -> f64 {
    const PAGES: u64 = 20_000;
    let before = cpu();
    (0..PAGES).for_each(|number| drop(std::hint::black_box(writes(number))));
    (cpu() - before) / PAGES as f64
}

/// Returns the CPU time of this process so far, in seconds.
pub(crate) fn cpu() -> f64 {
    cpu_of("self")
}

/// Returns the CPU time of a process so far, in seconds.
pub(crate) fn cpu_of(process: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Returns the peak memory of this process so far, in MB.
pub(crate) fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kb| kb.parse::<u64>().ok()).unwrap_or_default() / 1024
}
