//! Comparison of filters for a set of fingerprints: time, memory and false positives (docs/adr/0016). The argument is
//! the number of elements: `cargo bench -p orbweaver-seen --bench filters -- 10000000`.

#![allow(clippy::expect_used, clippy::cast_precision_loss, reason = "a benchmark is a test")]

use std::{
    collections::HashSet,
    hash::{BuildHasherDefault, Hasher},
    hint::black_box,
    time::Instant,
};

use fastbloom::BloomFilter;
use growable_bloom_filter::GrowableBloom;
use orbweaver_messages::{SeenBatch, SeenEntry};
use orbweaver_seen::{IndexCheckpoint, IndexStats, SeenIndex};
use orbweaver_url::{CrawlName, Fingerprint};

const ASKED: usize = 1_000_000;
const BATCH: usize = 1000;

fn fingerprints(from: usize, count: usize) -> Vec<Fingerprint> {
    (from..from + count).map(|number| Fingerprint::of(&CrawlName::default(), &number.to_string())).collect()
}

fn half(fingerprint: &Fingerprint) -> u64 {
    fingerprint.0.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Hasher that uses eight bytes as their own hash.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

struct Row<'a> {
    name: &'a str,
    elements: &'a [Fingerprint],
    unknown: &'a [Fingerprint],
}

impl Row<'_> {
    fn print(&self, insert_ns: f64, bytes: f64, mut contains: impl FnMut(&Fingerprint) -> bool) {
        let step = (self.elements.len() / ASKED).max(1) * 7919;
        let at = |number: usize| &self.elements[number.wrapping_mul(step) % self.elements.len()];
        let begun = Instant::now();
        let found = (0..ASKED).filter(|number| black_box(contains(at(*number)))).count();
        let hit = begun.elapsed().as_nanos() as f64 / ASKED as f64;
        assert_eq!(found, ASKED, "{}: nothing that was taken in may be denied", self.name);
        let begun = Instant::now();
        let wrong = self.unknown.iter().filter(|fingerprint| black_box(contains(fingerprint))).count();
        let miss = begun.elapsed().as_nanos() as f64 / self.unknown.len() as f64;
        println!(
            "| {} | {insert_ns:.0} | {hit:.0} | {miss:.0} | {:.2} | {:.1e} |",
            self.name,
            bytes / self.elements.len() as f64,
            wrong as f64 / self.unknown.len() as f64,
        );
    }
}

fn timed<T>(elements: &[Fingerprint], make: impl FnOnce() -> T) -> (T, f64) {
    let begun = Instant::now();
    let made = make();
    (made, begun.elapsed().as_nanos() as f64 / elements.len() as f64)
}

fn rss() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse::<f64>().unwrap_or_default() * 1024.0
}

fn growable(row: &Row<'_>, rate: f64, sized: usize) {
    let before = rss();
    let (filter, insert) = timed(row.elements, || {
        let mut filter = GrowableBloom::new(rate, sized);
        for fingerprint in row.elements {
            filter.insert(fingerprint.0);
        }
        filter
    });
    let bytes = rss() - before;
    row.print(insert, bytes, |fingerprint| filter.contains(fingerprint.0));
}

fn fast(row: &Row<'_>, rate: f64) {
    let (filter, insert) = timed(row.elements, || {
        let mut filter = BloomFilter::with_false_pos(rate).expected_items(row.elements.len());
        for fingerprint in row.elements {
            filter.insert(&fingerprint.0);
        }
        filter
    });
    row.print(insert, filter.num_bits() as f64 / 8.0, |fingerprint| filter.contains(&fingerprint.0));
}

fn exact(row: &Row<'_>) {
    let before = rss();
    let (set, insert) = timed(row.elements, || {
        let mut set = HashSet::<u64, BuildHasherDefault<AsIs>>::default();
        row.elements.iter().for_each(|fingerprint| _ = set.insert(half(fingerprint)));
        set
    });
    row.print(insert, rss() - before, |fingerprint| set.contains(&half(fingerprint)));
}

/// The complete index: with its disk lookups and all of its SSTables.
fn index(row: &Row<'_>, index: &SeenIndex) {
    let (mut partition, insert) = timed(row.elements, || {
        let mut partition = index.partition(0).expect("the disk");
        for (offset, batch) in row.elements.chunks(BATCH).enumerate() {
            let entry = |fingerprint: &Fingerprint| SeenEntry { slot: 0, depth: 1, fingerprint: *fingerprint };
            let batch = SeenBatch { entries: batch.iter().map(entry).collect() };
            partition.read_back(IndexCheckpoint::of(offset as u64, 0, b""), &batch).expect("the disk");
        }
        partition.serve().expect("the disk");
        partition
    });
    partition.depth_of(Fingerprint([1; 16])).expect("the disk");
    let bytes = partition.stats().filter_bytes as f64;
    row.print(insert, bytes, |fingerprint| partition.depth_of(*fingerprint).expect("the disk").is_some());
    let IndexStats { tables, lookups, .. } = partition.stats();
    println!("| … {tables} SSTables, {} disk lookups, {} fruitless | | | | | |", lookups.disk, lookups.false_positives);
}

fn main() {
    let count = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(1_000_000);
    let (elements, unknown) = (fingerprints(0, count), fingerprints(count, 4 * ASKED));
    println!(
        "{count} elements; nanoseconds an insertion, a hit, a miss; bytes an element; share of the unknown that is found"
    );
    println!("| filter | insert | hit | miss | bytes | mistakes |\n|---|---|---|---|---|---|");
    let row = |name| Row { name, elements: &elements, unknown: &unknown };
    growable(&row("growable-bloom-filter, from its default size, 1e-2"), 0.01, 1000);
    growable(&row("growable-bloom-filter, sized, 1e-2"), 0.01, count);
    growable(&row("growable-bloom-filter, sized, 1e-6"), 1e-6, count);
    fast(&row("fastbloom, 1e-2"), 0.01);
    fast(&row("fastbloom, 1e-6"), 1e-6);
    exact(&row("set of 64 bits"));
    let directory = tempfile::tempdir().expect("a directory");
    index(&row("exact index"), &SeenIndex::open(directory.path()).expect("the disk"));
    index(&row("bloom index, sized by the log"), &SeenIndex::Bloom(vec![count.div_ceil(BATCH) as u64]));
    index(&row("bloom index, grown from an empty log"), &SeenIndex::Bloom(vec![0]));
}
