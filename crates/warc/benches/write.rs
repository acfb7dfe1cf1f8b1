//! Throughput of writing the capture of a page, and of compressing the same bytes alone.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::{
    fmt::Write as _,
    hint::black_box,
    io::{Write as _, sink},
};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flate2::{Compression, write::GzEncoder};
use orbweaver_warc::{Capture, Info, Protocol, WarcWriter, payload_digest};

fn page(bytes: usize) -> Vec<u8> {
    let mut page = String::from("<!doctype html><html><head><title>Catalogue</title></head><body>\n");
    let mut random = 1_u64;
    while page.len() < bytes {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (id, price) = (random >> 40, random >> 52);
        writeln!(page, "<p><a href=\"/catalogue/item-{id}?view=full\">Item {id:x}</a>, {price} pieces in stock</p>")
            .unwrap();
    }
    page.truncate(bytes);
    page.into_bytes()
}

fn benchmark(criterion: &mut Criterion) {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let request = [pair("Host", "www.example.com"), pair("User-Agent", "orbweaver/0.1"), pair("Accept", "*/*")];
    let headers = [
        pair("Content-Type", "text/html; charset=utf-8"),
        pair("Content-Encoding", "br"),
        pair("Server", "nginx"),
        pair("Cache-Control", "max-age=600"),
    ];
    let info = Info { filename: "bench.warc.gz", date_ms: 0, fields: &[] };
    for (name, bytes) in [("page of 32 KiB", 32 << 10), ("body of 16 MiB", 16 << 20)] {
        let body = page(bytes);
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Bytes(body.len() as u64)).sample_size(10);
        for (name, request) in [("response", None), ("response and request", Some(&request[..]))] {
            let capture = Capture {
                url: "https://www.example.com/catalogue?page=2",
                date_ms: 1_700_000_000_000,
                ip: None,
                protocol: Protocol::Http2,
                request,
                status: 200,
                reason: None,
                headers: &headers,
                body: &body,
                truncated: None,
                revisit: None,
                metadata: &[],
            };
            let mut writer = WarcWriter::new(sink(), &info).unwrap();
            group.bench_function(name, |bencher| bencher.iter(|| writer.write(black_box(&capture)).unwrap()));
        }
        group.bench_function("gzip alone", |bencher| {
            bencher.iter(|| {
                let mut encoder = GzEncoder::new(sink(), Compression::default());
                encoder.write_all(black_box(&body)).unwrap();
                encoder.finish().unwrap()
            });
        });
        group.bench_function("digest alone", |bencher| bencher.iter(|| payload_digest(black_box(&body))));
        group.finish();
    }
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
