//! Cost per URL and per page.
#![allow(clippy::unwrap_used, reason = "a bench may")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use orbweaver_messages::{FrontierUrl, Traps, decode};
use orbweaver_patterns::{Patterns, digest};

fn waiting(url: &str) -> FrontierUrl {
    let text = format!(
        r#"{{"context":{{"crawl":"c","fingerprint":"{:032x}","url":"{url}","site":"example.org","depth":3,
            "sighting":"link","via":"http://www.example.org/a","trail":[[1,2],[3,4],[5,6]]}},"admitted_at_ms":0,
            "content":7}}"#,
        0
    );
    FrontierUrl { traps: Traps::Strict, ..decode("waiting", Some(&text.into())).unwrap() }
}

fn urls(c: &mut Criterion) {
    for (name, url) in [
        ("short", "https://www.example.org/article/1234"),
        (
            "long",
            "https://www.example.org/en/shop/2026/11/blue-suede-shoes-1234.html?lang=en&page=7&sort=price&q=shoes",
        ),
    ] {
        let (mut patterns, waiting) = (Patterns::new(1 << 20), waiting(url));
        c.bench_function(&format!("judge/{name}"), |b| b.iter(|| patterns.judge(black_box(&waiting))));
        c.bench_function(&format!("learn/{name}"), |b| b.iter(|| patterns.learn(black_box(&waiting))));
        let pattern = patterns.judge(&waiting).0;
        c.bench_function(&format!("trail/{name}"), |b| b.iter(|| black_box(&waiting).context.trail.through(pattern)));
    }
}

/// Cost per URL when each is of another site, and there are more sites than fit: those of a broad crawl.
fn sites(c: &mut Criterion) {
    let of_site = |number: usize| {
        let mut waiting = waiting(&format!("https://www.s{number}.test/en/shop/blue-suede-shoes-1234.html?page=7"));
        waiting.context.site = format!("s{number}.test").as_str().into();
        waiting
    };
    let (mut patterns, urls) = (Patterns::new(1 << 20), (0..20_000).map(of_site).collect::<Vec<_>>());
    let mut urls = urls.iter().cycle();
    c.bench_function("judge/another_site", |b| b.iter(|| patterns.judge(black_box(urls.next().unwrap()))));
}

fn pages(c: &mut Criterion) {
    // Words of all lengths in random order, and another page each time: the branch predictor would learn a text that
    // repeats itself or recurs.
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 33
    };
    let mut page = || {
        let mut text = String::new();
        while text.len() < 16 << 10 {
            text.extend(
                (0..1 + next() % 4 + next() % 8).map(|_| char::from(b'a' + u8::try_from(next() % 26).unwrap())),
            );
            text.push_str(if next() % 9 == 0 { ". " } else { " " });
        }
        text
    };
    let pages: Vec<String> = (0..256).map(|_| page()).collect();
    let mut pages = pages.iter().cycle();
    let links = ["https://www.example.org/article/1234?page=2"; 30];
    let url = "https://www.example.org/article/1234";
    c.bench_function("digest/16_kib", |b| {
        b.iter(|| digest(&["A title", black_box(pages.next().unwrap())], url, links));
    });
}

criterion_group!(benches, urls, sites, pages);
criterion_main!(benches);
