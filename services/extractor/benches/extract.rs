//! Extraction of a page of 16 KB with 30 links, by part and as a whole. The target: 100 µs of CPU for all of it.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

use std::{fmt::Write, hint::black_box};

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use orbweaver_extractor::body::BodyReader;
use orbweaver_extractor::job::{PageVerdict, process};
use orbweaver_extractor::pass::PagePass;
use orbweaver_extractor::{ExtractorConfig, PageInput, charset, document, extract};
use orbweaver_messages::{BodyEncoding, Page, encode};
use orbweaver_url::Url;

#[path = "../tests/integration/fixture.rs"]
#[allow(dead_code, reason = "the tests need more of it")]
mod fixture;

const URL: &str = "https://www.example.com/section/page.html";

/// Makes a page of 16 KB with 30 links, about half of it markup.
fn html() -> String {
    let mut html = String::from(
        "<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>A page &amp; more</title>\
         <meta name=description content='What the page says of itself'><link rel=canonical href=/section/page>\
         <script>var markup = '<a href=x>';</script><style>p { margin: 0 }</style></head><body>",
    );
    for item in 0..30 {
        let host = if item % 10 == 9 { "https://www.example.org" } else { "" };
        let _ = writeln!(
            html,
            "<div class=\"item item-{item}\" id=\"i{item}\"><h2>Heading number {item}</h2><p class=\"lead\">Some text with \
             <b>bold</b> &amp; entities, and <a class=\"link\" href=\"{host}/section/{item}/page.html?x=1&amp;y={item}\" \
             title=\"t\">the link text {item}</a> in between. {}</p></div>",
            "Lorem ipsum dolor sit amet, consectetur adipiscing elit. ".repeat(5)
        );
    }
    html.push_str("</body></html>");
    html
}

fn page_header(body: &[u8]) -> Page {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Page {
        content_type: Some("text/html; charset=utf-8".into()),
        headers: vec![header("server", "nginx"), header("last-modified", "Mon, 01 Jan 2024 00:00:00 GMT")],
        ..fixture::page(URL, body, BodyEncoding::Zstd)
    }
}

fn parts(criterion: &mut Criterion) {
    let html = html();
    let frame = zstd::bulk::compress(html.as_bytes(), 3).unwrap();
    let config = ExtractorConfig::default();
    let mut bodies = BodyReader::default();
    let header = page_header(html.as_bytes());
    let url = Url::parse(URL).unwrap();
    let content_type = header.content_type.as_deref();
    let input = PageInput {
        url: &url,
        site: Some("example.com"),
        content_type,
        headers: &header.headers,
        body: html.as_bytes(),
    };
    let extracted = extract(&input, &config);
    assert_eq!((extracted.links.len(), extracted.sites.len()), (30, 2));
    let record = PagePass::first(fixture::delivered(0, Some(&header), Some(&frame)).1);
    assert!(matches!(process(&record, (16, 0), &mut bodies, &config), PageVerdict::Extracted(_)));

    let mut group = criterion.benchmark_group("extract");
    group.throughput(Throughput::Bytes(html.len() as u64));
    group.bench_function("zstd", |bencher| {
        bencher.iter(|| bodies.open(Some(black_box(&frame)), BodyEncoding::Zstd, 1 << 24).unwrap().0.len());
    });
    group.bench_function("charset and decoding", |bencher| {
        bencher.iter(|| {
            let body = black_box(html.as_bytes());
            charset::decode(body, charset::choose(body, content_type, Some("com")).0).len()
        });
    });
    // Without links nothing is resolved.
    let unlinked = html.replace(" href=", " name=");
    let unlinked = PageInput { body: unlinked.as_bytes(), ..input };
    group.bench_function("charset, decoding, markup, text", |bencher| {
        bencher.iter(|| extract(black_box(&unlinked), &config));
    });
    group.bench_function("charset, decoding, markup, text, resolving", |bencher| {
        bencher.iter(|| extract(black_box(&input), &config));
    });
    let with_facts = ExtractorConfig { facts: true, ..config.clone() };
    group.bench_function("charset, decoding, markup, text, resolving, facts", |bencher| {
        bencher.iter(|| extract(black_box(&input), &with_facts));
    });
    let with_others = ExtractorConfig { other_links: true, ..config.clone() };
    group.bench_function("charset, decoding, markup, text, resolving, other links", |bencher| {
        bencher.iter(|| extract(black_box(&input), &with_others));
    });
    group.bench_function("targets for the store", |bencher| {
        bencher.iter(|| document::links_out(&header, black_box(&extracted)));
    });
    group.bench_function("discovered and its json", |bencher| {
        bencher.iter(|| {
            let found = document::discovered(&header, black_box(&extracted), None, 0, &config);
            found.iter().map(encode).collect::<Vec<Bytes>>()
        });
    });
    group.bench_function("document and its json, with two clones", |bencher| {
        bencher.iter(|| encode(&document::document(header.clone(), black_box(extracted.clone()))));
    });
    group.bench_function("whole record", |bencher| {
        bencher.iter(|| process(black_box(&record), (16, 0), &mut bodies, &config));
    });
    group.finish();
}

criterion_group!(benches, parts);
criterion_main!(benches);
