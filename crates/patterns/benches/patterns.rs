//! The cost of a URL and of a page.
#![allow(clippy::unwrap_used, reason = "a bench may")]
#![allow(missing_docs, reason = "criterion's macros make public items")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use orbweaver_messages::{Traps, Waiting, decode};
use orbweaver_patterns::{Patterns, digest};

fn waiting(url: &str) -> Waiting {
    let text = format!(
        r#"{{"crawl":"c","fingerprint":"{:032x}","url":"{url}","site":"example.org","depth":3,"sighting":"link",
            "via":"http://www.example.org/a","admitted_at_ms":0,"trail":[[1,2],[3,4],[5,6]],"content":7}}"#,
        0
    );
    Waiting { traps: Traps::Strict, ..decode("waiting", Some(&text.into())).unwrap() }
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
        c.bench_function(&format!("trail/{name}"), |b| b.iter(|| black_box(&waiting).trail.through(pattern)));
    }
}

fn pages(c: &mut Criterion) {
    let text = "The quick brown fox jumps over 13 lazy dogs, and so does everybody else in the town. ".repeat(60);
    let links = ["https://www.example.org/article/1234?page=2"; 30];
    let url = "https://www.example.org/article/1234";
    c.bench_function(&format!("digest/{}_bytes", text.len()), |b| {
        b.iter(|| digest(&["A title", black_box(&text)], url, links));
    });
}

criterion_group!(benches, urls, pages);
criterion_main!(benches);
