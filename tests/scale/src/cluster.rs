//! Measured cost per page, and the cluster that a rate takes. `docs/scale.md` has the sources.

use crate::chart::grouped;

/// Pages per second at 10^9 pages per day.
pub const PAGES_PER_SECOND: f64 = 1e9 / 86_400.0;
/// Copies of each record and row.
const REPLICAS: f64 = 3.0;
/// Topics of a pipeline (`schemas/topics`).
const TOPICS: f64 = 12.0;
/// CPU of the five services per page, in cores × seconds: fourth round of `docs/measured.md`, "Speed".
const SERVICES_CPU: f64 = 661e-6;
/// CPU of one broker per page, without replication, in the same round.
const BROKER_CPU: f64 = 221e-6;
/// Bytes per second from producers that three brokers accepted with three replicas, per broker (cited).
const BROKER_BYTES: f64 = 605e6 / 3.0;
/// Recommended maximum of replicas of partitions per broker (cited).
const BROKER_PARTITIONS: f64 = 4_000.0;
/// Operations per second per physical core of ScyllaDB (cited).
const STORE_OPERATIONS: f64 = 12_500.0;
/// Bytes of a stored page with 30 links, on the embedded store (ADR 5).
const STORED_BYTES: f64 = 1_144.0;
/// Disk of a broker and of a node of the store, in bytes (assumed).
const DISK: f64 = 5e12;
/// New URLs per page: 41 billion unique URLs of 6.3 billion pages (IRLbot, cited).
const NEW_URLS: f64 = 6.5;

/// Cost of a page in one topic: measured by the command `records`.
#[derive(Debug, Clone, Copy)]
pub struct Topic {
    pub name: &'static str,
    /// Records per page.
    pub records: f64,
    /// Keys, values and headers per page in bytes; bodies as zstd, as on Kafka.
    pub bytes: f64,
    /// These, as LZ4 in full batches.
    pub packed: f64,
}

const fn topic(name: &'static str, records: f64, bytes: f64, packed: f64) -> Topic {
    Topic { name, records, bytes, packed }
}

/// Web of 500 sites and 100,000 pages, 16 KiB each, with 30 links to any of them; 1,500 pages fetched, and 23 new URLs per page.
pub const WIDE: [Topic; 8] = [
    topic("crawl.discovered", 29.14, 10_761.0, 1_937.0),
    topic("crawl.frontier", 24.36, 11_327.0, 2_492.0),
    topic("crawl.seen", 0.11, 471.0, 466.0),
    topic("crawl.scheduled", 1.0, 540.0, 124.0),
    topic("crawl.ready", 1.0, 596.0, 131.0),
    topic("crawl.outcomes", 1.0, 628.0, 157.0),
    topic("crawl.pages", 1.0, 6_972.0, 6_430.0),
    topic("crawl.documents", 1.0, 17_269.0, 7_944.0),
];
/// The C++ reference, a real tree of one site: 41,508 bytes and 80 links per page; 1,200 pages fetched, 2.8 new URLs per page.
pub const TREE: [Topic; 8] = [
    topic("crawl.discovered", 2.04, 8_264.0, 661.0),
    topic("crawl.frontier", 3.80, 1_347.0, 242.0),
    topic("crawl.seen", 0.03, 57.0, 54.0),
    topic("crawl.scheduled", 1.0, 498.0, 80.0),
    topic("crawl.ready", 1.0, 554.0, 89.0),
    topic("crawl.outcomes", 1.0, 571.0, 91.0),
    topic("crawl.pages", 1.0, 8_724.0, 8_125.0),
    topic("crawl.documents", 1.0, 13_774.0, 2_893.0),
];

/// Returns the sum over all topics.
#[must_use]
pub fn sum(topics: &[Topic], of: impl Fn(&Topic) -> f64) -> f64 {
    topics.iter().map(of).sum()
}

/// A resource at 10^9 pages per day.
#[derive(Debug, Clone)]
pub struct Need {
    pub resource: String,
    pub demand: String,
    pub limit: &'static str,
    /// Number of the units named in `limit`, at full load.
    pub takes: f64,
    pub source: &'static str,
}

/// Returns the replicas of partitions of a pipeline.
#[must_use]
pub fn replicas(partitions: u32) -> f64 {
    TOPICS * f64::from(partitions) * REPLICAS
}

/// Returns the needs, with the number of partitions of each pipeline to compare.
#[must_use]
pub fn needs(partitions: &[u32]) -> Vec<Need> {
    let rate = PAGES_PER_SECOND;
    let mut needs = vec![];
    let mut need = |resource: &str, demand: String, limit, takes, source| {
        needs.push(Need { resource: resource.to_owned(), demand, limit, takes, source });
    };
    let cores = rate * SERVICES_CPU;
    need("CPU of the five services", format!("{cores:.1} cores"), "instance of 1 core", cores, "measured, scaled");
    need("requests in flight, 1 s each", grouped(rate as u64), "1,024 per fetcher", rate / 1_024.0, "assumed 1 s");
    for (topics, name) in [(&TREE, "Kafka, bytes: real tree"), (&WIDE, "Kafka, bytes: wide web")] {
        let bytes = sum(topics, |topic| topic.bytes) * rate;
        let demand = format!("{:.0} MB/s, three copies", bytes / 1e6);
        need(name, demand, "202 MB/s per broker", bytes / BROKER_BYTES, "measured, scaled; limit cited");
    }
    let cores = rate * BROKER_CPU * REPLICAS;
    need("Kafka, CPU", format!("{cores:.1} cores"), "broker of 8 cores", cores / 8.0, "measured without replicas, × 3");
    for &partitions in partitions {
        let replicas = replicas(partitions);
        let name = format!("Kafka, {} partitions", grouped(partitions.into()));
        need(
            &name,
            format!("{} replicas", grouped(replicas as u64)),
            "4,000 per broker",
            replicas / BROKER_PARTITIONS,
            "limit cited",
        );
    }
    let queued = WIDE[1].bytes / WIDE[1].records * (NEW_URLS - 1.0);
    for (name, bytes, source) in [
        ("Kafka disk, documents of a day", WIDE[7].bytes, "measured, scaled; disk assumed"),
        ("Kafka disk, queue of a day", queued, "measured, scaled; new URLs cited; disk assumed"),
    ] {
        let disk = bytes * REPLICAS * 1e9;
        let demand = format!("{:.1} TB uncompressed", disk / 1e12);
        need(name, demand, "broker of 5 TB", disk / DISK, source);
    }
    let operations = rate * 2.0 * REPLICAS;
    let takes = operations / STORE_OPERATIONS / 4.0;
    need(
        "ScyllaDB, writes",
        format!("{}/s", grouped(operations as u64)),
        "node of 4 physical cores",
        takes,
        "limit cited",
    );
    let disk = 1e9 * STORED_BYTES * REPLICAS * 2.0;
    let demand = format!("{:.1} TB per 10^9 pages kept", disk / 1e12);
    need(
        "ScyllaDB, disk",
        demand,
        "node of 5 TB",
        disk / DISK,
        "measured on the embedded store; half kept free; disk assumed",
    );
    needs
}
