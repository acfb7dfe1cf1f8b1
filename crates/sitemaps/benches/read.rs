//! Throughput of reading a sitemap of 50,000 URLs, as it is and from gzip.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::{fmt::Write as _, hint::black_box, io::Write as _, ops::ControlFlow};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flate2::{Compression, write::GzEncoder};
use orbweaver_sitemaps::{read, sniff};

fn sitemap() -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n",
    );
    for number in 0..50_000 {
        writeln!(
            text,
            "  <url>\n    <loc>https://www.example.com/catalogue/item-{number}?view=full&amp;page=2</loc>\n    \
             <lastmod>2024-10-19T11:21:53+00:00</lastmod>\n    <changefreq>weekly</changefreq>\n    \
             <priority>0.8</priority>\n  </url>"
        )
        .unwrap();
    }
    text + "</urlset>\n"
}

fn benchmark(criterion: &mut Criterion) {
    let plain = sitemap().into_bytes();
    let mut encoder = GzEncoder::new(vec![], Compression::default());
    encoder.write_all(&plain).unwrap();
    let gzip = encoder.finish().unwrap();
    let mut group = criterion.benchmark_group("read");
    group.throughput(Throughput::Bytes(plain.len() as u64)).sample_size(20);
    for (name, body) in [("plain", &plain), ("gzip", &gzip)] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                read(body, |entry| {
                    black_box(entry);
                    ControlFlow::Continue(())
                })
            });
        });
    }
    group.finish();
    criterion.bench_function("sniff", |bencher| bencher.iter(|| sniff(black_box(&plain))));
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
