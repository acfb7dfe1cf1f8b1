//! Store that is measured: pages of sites with a thousand pages each.

use std::{error::Error, path::Path};

use orbweaver_store::{FjallOptions, FjallStore, LinksOut, PageRow, Store as _, Write};
use orbweaver_url::{CrawlName, Fingerprint};

/// Pages per site.
const PER_SITE: u64 = 1000;
/// Pages that are written at once.
const AT_ONCE: u64 = 500;

/// Hashes a number (finalizer of splitmix64).
pub(crate) fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

pub(crate) fn site(number: u64) -> String {
    format!("site{}.example", number / PER_SITE)
}

pub(crate) fn url(number: u64) -> String {
    format!("https://www.{}/articles/2026/page-{:x}", site(number), mix(number) & 0xffff_ffff)
}

/// Fills a store with the pages of these numbers, each with two fetches and 30 links.
#[tokio::main]
pub(crate) async fn fill(dir: &Path, urls: u64) -> Result<(), Box<dyn Error>> {
    let store = FjallStore::open(dir, FjallOptions::default())?;
    for first in (0..urls).step_by(AT_ONCE as usize) {
        store.write((first..urls.min(first + AT_ONCE)).flat_map(writes).collect()).await?;
    }
    Ok(())
}

fn writes(number: u64) -> [Write; 3] {
    let key = url(number);
    let fingerprint = Fingerprint::of(&CrawlName::default(), &key);
    let page = PageRow {
        fingerprint,
        url: key.clone(),
        key,
        site: site(number).into(),
        fetched_at_ms: 1_767_225_600_000,
        status: Some(if number.is_multiple_of(20) { 404 } else { 200 }),
        outcome: "fetched".to_owned(),
        reason: None,
        content_type: Some("text/html; charset=utf-8".to_owned()),
        etag: Some(format!("\"{:x}\"", mix(number))),
        last_modified: Some("Thu, 17 Oct 2024 07:18:26 GMT".to_owned()),
        bytes: mix(number) % 60_000,
        content_hash: Some(fingerprint.to_string()),
        depth: 3,
        via: Some(url(number / 30)),
    };
    let links = (0..30).map(|link| (url(number / PER_SITE * PER_SITE + mix(number * 31 + link) % PER_SITE), false));
    let links = LinksOut { fingerprint, at_ms: page.fetched_at_ms, links: links.collect(), canonical: None };
    let again = PageRow { fetched_at_ms: page.fetched_at_ms + 86_400_000, ..page.clone() };
    let write = |row| Write::Page { crawl: CrawlName::default(), row: Box::new(row) };
    [write(page), write(again), Write::Links(links)]
}
