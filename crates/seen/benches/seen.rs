//! Cost of a look-up in the recent cache, and of a restore. `filters` measures the look-ups in an index.

#![allow(clippy::expect_used, reason = "a benchmark is a test")]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use orbweaver_messages::{SeenBatch, SeenEntry};
use orbweaver_seen::{IndexCheckpoint, Recent, SeenIndex};
use orbweaver_url::Fingerprint;

const KNOWN: u32 = 1_000_000;

fn fingerprint(number: u32) -> Fingerprint {
    Fingerprint::of("bench", &number.to_string())
}

fn record(offset: u32) -> (IndexCheckpoint, SeenBatch) {
    let entries = (offset * 1000..(offset + 1) * 1000)
        .map(|number| SeenEntry { slot: 0, depth: 1, fingerprint: fingerprint(number) })
        .collect();
    let batch = SeenBatch { entries };
    (IndexCheckpoint::of(u64::from(offset), 0, &batch.encode()), batch)
}

fn tiers(criterion: &mut Criterion) {
    let mut recent = Recent::new(786_432);
    let fingerprints = (0..500_000).map(fingerprint).collect::<Vec<_>>();
    fingerprints.iter().for_each(|fingerprint| recent.insert(*fingerprint, 1));
    let mut numbers = (0..).map(|number: usize| number.wrapping_mul(7919) % 500_000);
    criterion.bench_function("recent: hit", |bencher| {
        bencher.iter(|| recent.get(black_box(fingerprints[numbers.next().unwrap_or_default()])));
    });

    let directory = tempfile::tempdir().expect("a directory");
    let index = SeenIndex::open(directory.path()).expect("the disk");
    let mut partition = index.partition(0).expect("the disk");
    for offset in 0..KNOWN / 1000 {
        let (position, batch) = record(offset);
        partition.read_back(position, &batch).expect("the disk");
    }
    partition.serve().expect("the disk");
    let mut group = criterion.benchmark_group("restore");
    group.sample_size(10).throughput(Throughput::Elements(u64::from(KNOWN)));
    group.bench_function("open the index of a million", |bencher| {
        bencher.iter(|| index.partition(0).expect("the disk"));
    });
    let records = (0..KNOWN / 1000).map(record).collect::<Vec<_>>();
    group.bench_function("replay a million without an index", |bencher| {
        bencher.iter_batched(
            || tempfile::tempdir().expect("a directory"),
            |directory| {
                let index = SeenIndex::open(directory.path()).expect("the disk");
                let mut partition = index.partition(0).expect("the disk");
                for (position, batch) in &records {
                    partition.read_back(*position, batch).expect("the disk");
                }
                partition.serve().expect("the disk");
                directory
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, tiers);
criterion_main!(benches);
