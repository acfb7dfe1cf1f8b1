//! Cost per link.

#![allow(clippy::expect_used, reason = "a benchmark is a test")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use orbweaver_url::{CrawlName, Fingerprint, Keying, Policy, describe, parse, resolve, site_of, slot_of};

const LINKS: [&str; 6] = [
    "https://en.example.org/wiki/Orb-weaver_spider",
    "https://docs.example.com/stable/library/functions.html?highlight=sorted",
    "http://www.example.co.uk/products/garden/tools/item-23818.html",
    "https://example.github.io/project/api/struct.Thing.html",
    "https://cdn.example.net/a/b/c/%7Euser/index.html?x=1&y=2",
    "https://blog.example.de/2024/05/17/eine-sehr-lange-ueberschrift-mit-vielen-worten/",
];

/// Returns links of real pages: a file with one absolute URL per line, named by `ORBWEAVER_BENCH_URLS`
/// (`tests/differential/links.py` makes one from a tree of pages); without it, the links above.
fn links() -> Vec<String> {
    match std::env::var("ORBWEAVER_BENCH_URLS") {
        Ok(path) => {
            let text = std::fs::read_to_string(path).expect("the file of links");
            text.lines().filter(|line| parse(line).is_ok()).map(str::to_owned).collect()
        }
        Err(_) => LINKS.iter().map(|link| (*link).to_owned()).collect(),
    }
}

fn each_link(criterion: &mut Criterion) {
    let real = links();
    let mut group = criterion.benchmark_group("links");
    group.throughput(Throughput::Elements(real.len() as u64));
    for policy in Policy::PRESETS {
        group.bench_function(format!("parse + canonical {policy} + site + fingerprint"), |bencher| {
            bencher.iter(|| {
                for link in &real {
                    let url = parse(black_box(link)).expect("a url");
                    let fingerprint = Fingerprint::of(&CrawlName::default(), &policy.canonical_text(&url));
                    black_box((fingerprint, slot_of(&site_of(&url))));
                }
            });
        });
        let urls: Vec<_> = real.iter().filter_map(|link| parse(link).ok()).collect();
        group.bench_function(format!("canonical {policy}"), |bencher| {
            bencher.iter(|| urls.iter().for_each(|url| drop(black_box(policy.canonical_text(black_box(url))))));
        });
    }
    group.finish();
    let mut group = criterion.benchmark_group("url");
    group.throughput(Throughput::Elements(LINKS.len() as u64));
    let urls = LINKS.map(|link| parse(link).expect("a url"));
    group.bench_function("parse", |bencher| {
        bencher.iter(|| LINKS.iter().for_each(|link| drop(black_box(parse(black_box(link))))));
    });
    group.bench_function("site", |bencher| {
        bencher.iter(|| urls.iter().for_each(|url| drop(black_box(site_of(black_box(url))))));
    });
    group.bench_function("resolve a relative link", |bencher| {
        let links = ["../a/b.html", "c.html#d", "/x/y?z=1", "#top", "mailto:a@b.c", "e/f/g/"];
        bencher.iter(|| links.iter().for_each(|link| drop(black_box(resolve(&urls[1], black_box(link))))));
    });
    let keying = Keying { crawl: CrawlName::default(), ..Keying::default() };
    group.bench_function("describe as json", |bencher| {
        bencher.iter(|| {
            for link in LINKS {
                black_box(serde_json::to_string(&describe(black_box(link), &keying)).expect("json"));
            }
        });
    });
    group.finish();
}

criterion_group!(benches, each_link);
criterion_main!(benches);
