//! Wall time per page. `cargo run --release --example cost` measures the CPU time per page, including compaction.

#![allow(clippy::unwrap_used, reason = "a benchmark ends at the first failure")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use orbweaver_store::contract::{links, page};
use orbweaver_store::{FjallOptions, FjallStore, Store, Write};
use orbweaver_url::Fingerprint;

const PAGES: u64 = 64;

fn fingerprint(number: u64) -> Fingerprint {
    Fingerprint::of("bench", &number.to_string())
}

fn writes(number: u64) -> Vec<Write> {
    let (page, links) = (page(fingerprint(number), 1000), links(fingerprint(number), 1000, 30));
    vec![Write::Page(Box::new(page)), Write::Links(links)]
}

fn store(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let store = FjallStore::open(dir.path(), FjallOptions::default()).unwrap();
    let mut next = 0;
    let mut group = criterion.benchmark_group("store");
    group.throughput(Throughput::Elements(PAGES));
    group.bench_function("64 first visits at once, page and 30 links each", |bencher| {
        bencher.iter_batched(
            || {
                next += PAGES;
                (next - PAGES..next).map(writes).collect::<Vec<_>>()
            },
            |pages| {
                let writes = futures::future::try_join_all(pages.into_iter().map(|page| store.write(page)));
                runtime.block_on(writes).unwrap();
            },
            criterion::BatchSize::SmallInput,
        );
    });
    group.throughput(Throughput::Elements(1));
    let mut number = 0;
    let mut some = move || {
        number = (number + 7919) % next;
        fingerprint(number)
    };
    group.bench_function("page", |b| b.iter(|| runtime.block_on(store.page(some())).unwrap().unwrap()));
    group.bench_function("page that is not there", |b| {
        b.iter(|| runtime.block_on(store.page(Fingerprint::of("other", &some().to_string()))).unwrap());
    });
    group.bench_function("links", |b| b.iter(|| runtime.block_on(store.links(some())).unwrap().unwrap()));
    group.bench_function("history", |b| b.iter(|| runtime.block_on(store.history(some(), 10)).unwrap()));
    group.finish();
}

criterion_group!(benches, store);
criterion_main!(benches);
