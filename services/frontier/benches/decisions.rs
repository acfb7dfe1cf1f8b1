//! The decisions of one partition on the index on disk, without a log and without JSON: admission, dispatch, restart, and
//! the time from a due moment to the dispatch. `ORBWEAVER_BENCH_URLS` and `ORBWEAVER_BENCH_SITES` set the size (a million
//! URLs at ten thousand sites), `ORBWEAVER_BENCH_DIR` the directory of the index. With the argument `sleeping` all URLs sleep
//! until their next visit, and some are woken. With `crowd` there is only the last measurement: the URLs at their sites, then with
//! `ORBWEAVER_BENCH_HUGE` more at one other site (nine times as many).
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark may panic, and prints what it measured")]

#[allow(dead_code, reason = "the other benchmark uses the rest")]
mod measured;

use std::{
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::{Duration, Instant},
};

use measured::{Began, Measured, peak_mib, percentile, process_cpu, resident_kib};
use orbweaver_frontier::{
    CrawlScopes, FrontierConfig, FrontierIndex,
    decision::{Decision, DecisionContext, Tombstone},
    pages::PageCaps,
    partition::PartitionFrontier,
};
use orbweaver_log::TopicPartition;
use orbweaver_messages::{
    DiscoveryKind, Dispatch, FrontierUrl, Millis, Outcome, OutcomeKind, UrlContext,
    topic::{FRONTIER, OUTCOMES},
};
use orbweaver_stage::{Clock as _, IndexCheckpoint, Origin, PartitionContext, SystemClock};
use orbweaver_url::CrawlName;

/// As in the service.
#[cfg(all(target_os = "linux", target_env = "gnu", feature = "cluster"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Records per call, as in a poll.
const BATCH: u64 = 1000;
/// Time after which each site is due again, and the length of that measurement.
const AGAIN_MS: Millis = 10_000;
const DUE_PER_SECOND: u64 = 5_000;
const DUE_FOR: Duration = Duration::from_secs(50);
/// Time until the sites are due one by one: at the start all of them are at once.
const SETTLE: Duration = Duration::from_secs(25);

fn env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |value| value.parse().unwrap())
}

fn now_ms() -> Millis {
    SystemClock.now()
}

/// A partition, and its surroundings.
struct Bench {
    partition: PartitionFrontier,
    pages: PageCaps,
    scopes: CrawlScopes,
    out: Vec<Decision>,
    /// Next offset of `crawl.outcomes`.
    outcomes: u64,
}

impl Bench {
    /// Opens the index in this directory with all of its URLs.
    fn open(dir: &Path, default_interval_ms: u64) -> Self {
        let config = FrontierConfig {
            default_interval_ms,
            min_outstanding: 8192,
            max_outstanding: 8192,
            reappend_above: 1 << 40,
            ..FrontierConfig::default()
        };
        let index = FrontierIndex::open(dir).unwrap().partition(0).unwrap();
        let mut partition = PartitionFrontier::new(0, config, Box::new(index));
        let mut pages = PageCaps::default();
        pages.serve(0, 0, 1);
        let opening =
            PartitionContext { partition: 0, partitions: 1, assignment_epoch: 1, owner_epoch: 0, commits: [0; 3] };
        partition.open(opening, now_ms(), &mut pages).unwrap();
        Self { partition, pages, scopes: CrawlScopes::default(), out: vec![], outcomes: 0 }
    }

    fn decide<T>(
        &mut self,
        now: Millis,
        call: impl FnOnce(&mut PartitionFrontier, &mut DecisionContext<'_>) -> T,
    ) -> T {
        let Self { partition, pages, scopes, out, .. } = self;
        call(partition, &mut DecisionContext { now, pages, scopes, out })
    }

    fn admit(&mut self, from: u64, batch: &[FrontierUrl], now: Millis) {
        self.decide(now, |partition, turn| {
            for (waiting, offset) in batch.iter().zip(from..) {
                partition.waiting(origin(offset), waiting, turn).unwrap();
            }
        });
        self.out.clear();
        let offset = from + batch.len() as u64 - 1;
        self.partition.applied(IndexCheckpoint { offset, timestamp_ms: now, hash: offset }).unwrap();
    }

    fn dispatch(&mut self, now: Millis) -> Vec<Dispatch> {
        self.decide(now, |partition, turn| partition.dispatch(turn)).unwrap();
        let dispatch =
            |decision| if let Decision::Dispatch { dispatch, .. } = decision { Some(*dispatch) } else { None };
        self.out.drain(..).filter_map(dispatch).collect()
    }

    fn answer(&mut self, outcome: &Outcome, now: Millis) {
        let origin = Origin { tp: TopicPartition::new(OUTCOMES, 0), offset: self.outcomes, assignment_epoch: 1 };
        self.outcomes += 1;
        self.decide(now, |partition, turn| partition.outcome(origin, outcome, turn)).unwrap();
    }

    /// Ends URLs: with an outcome, and with the tombstone that follows.
    fn end(&mut self, ended: &[Dispatch], now: Millis) {
        for dispatch in ended {
            let mut outcome = Outcome::of(dispatch, OutcomeKind::Fetched, None, now);
            (outcome.status, outcome.requested_at_ms) = (Some(200), Some(now));
            self.answer(&outcome, now);
        }
        for decision in std::mem::take(&mut self.out) {
            let Decision::End { fingerprint, depth, ends, .. } = decision else { continue };
            let tombstone = Tombstone { epoch: 0, ends, depth };
            self.decide(now, |partition, turn| partition.tombstone(origin(ends), fingerprint, tombstone, turn))
                .unwrap();
        }
        self.out.clear();
    }
}

fn origin(offset: u64) -> Origin {
    Origin { tp: TopicPartition::new(FRONTIER, 0), offset, assignment_epoch: 1 }
}

/// Returns the URL of this number: they are spread over the sites as links are found, a few of a site at a time.
fn url(number: u64, sites: u64) -> FrontierUrl {
    url_at(&format!("site-{}.example", (number / 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) % sites), number)
}

fn url_at(site: &str, number: u64) -> FrontierUrl {
    let url = format!("https://www.{site}/catalogue/section-{}/a-page-with-a-name-{number}.html", number % 97);
    let context = UrlContext {
        via: Some(format!("https://www.{site}/catalogue/")),
        depth: u16::try_from(number % 8).unwrap(),
        sighting: DiscoveryKind::Link,
        ..UrlContext::of_seed(CrawlName::default(), url, site.into())
    };
    FrontierUrl::admitted(context, 1_790_000_000_000)
}

/// Each site is due once in [`AGAIN_MS`]. Returns the time from there to each dispatch, in milliseconds.
fn due(bench: &mut Bench, sites: u64) -> Vec<f64> {
    let (mut late, began) = (vec![], Instant::now());
    let mut due_at = std::collections::HashMap::<_, Millis>::new();
    while began.elapsed() < DUE_FOR {
        for dispatch in bench.dispatch(now_ms()) {
            let now = now_ms();
            let site = dispatch.context.site.clone();
            let spread = (due_at.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % AGAIN_MS.unsigned_abs();
            let again = match due_at.get(&site) {
                Some(due) => {
                    #[allow(clippy::cast_precision_loss, reason = "milliseconds")]
                    if began.elapsed() > SETTLE {
                        late.push((now - due) as f64);
                    }
                    due + AGAIN_MS
                }
                None => now + 1 + spread.cast_signed(),
            };
            due_at.insert(site, again);
            let mut outcome = Outcome::of(&dispatch, OutcomeKind::Deferred, Some("rate"), now);
            outcome.retry_at_ms = Some(again);
            bench.answer(&outcome, now);
        }
        // A stage sleeps until then; this measures the decisions, not the timer of the runtime.
        while bench.partition.next_moment_ms().is_some_and(|next| next > now_ms()) {
            std::hint::spin_loop();
        }
    }
    println!("  {} of {sites} sites, {} dispatches", due_at.len(), late.len());
    late
}

/// Queues `urls` at `sites`, each with one request per second, and `huge` at a single other site, spread between them. Returns
/// the virtual seconds until the last of the former is dispatched.
fn last_of_the_others(dir: &Path, urls: u64, sites: u64, huge: u64) -> f64 {
    let (mut bench, mut now) = (Bench::open(dir, 1000), 1_790_000_000_000);
    let (began, all, each) = (now, urls + huge, 1 + huge / urls);
    for from in (0..all).step_by(BATCH.try_into().unwrap()) {
        let of = |number: u64| match number % each {
            0 if number / each < urls => url(number / each, sites),
            _ => url_at("huge.example", number),
        };
        let batch: Vec<_> = (from..all.min(from + BATCH)).map(of).collect();
        bench.admit(from, &batch, now);
    }
    bench.partition.write().unwrap();
    println!("  {all} queued: {} MiB on disk; {}", disk_bytes(dir) >> 20, so_far());
    let (mut left, mut flying) = (urls, std::collections::VecDeque::new());
    while left > 0 {
        let ended: Vec<_> = std::iter::from_fn(|| flying.pop_front_if(|(until, _)| *until <= now)).collect();
        bench.end(&ended.into_iter().map(|(_, dispatch)| dispatch).collect::<Vec<_>>(), now);
        for dispatch in bench.dispatch(now) {
            left -= u64::from(*dispatch.context.site != *"huge.example");
            flying.push_back((now + 1000, dispatch));
        }
        now += 100;
    }
    #[allow(clippy::cast_precision_loss, reason = "milliseconds")]
    let seconds = (now - began) as f64 / 1000.0;
    seconds
}

/// Compares the time until all URLs at `sites` are dispatched without and with `huge` URLs at one other site.
fn crowd(dir: &Path, urls: u64, sites: u64, huge: u64) {
    let after = |huge: u64| last_of_the_others(&dir.join(huge.to_string()), urls, sites, huge);
    let (alone, crowded) = (after(0), after(huge));
    println!(
        "crowd:     {urls} URLs at {sites} sites, dispatched after {alone:.1} s; with {huge} more at one site {crowded:.1} s; {}",
        so_far()
    );
}

/// Size of the files in a directory.
fn disk_bytes(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| match entry.metadata().unwrap() {
        directory if directory.is_dir() => disk_bytes(&entry.path()),
        file => file.blocks() * 512,
    };
    entries.map(size).sum()
}

/// URLs that sleep, [`DUE_PER_SECOND`] of which are due per second: what they take, and what waking each tenth of them costs.
fn sleeping(dir: &Path, urls: u64, sites: u64) {
    let (mut bench, start, before) = (Bench::open(dir, 0), 1_790_000_000_000, resident_kib());
    let due_ms = |number: u64| start + 1 + (number * 1000 / DUE_PER_SECOND).cast_signed();
    for from in (0..urls).step_by(BATCH.try_into().unwrap()) {
        // In another order than that in which they are due.
        let sleeping = |number: u64| FrontierUrl {
            visits: Some(Box::default()),
            not_before_ms: due_ms(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % urls),
            ..url(number, sites)
        };
        let batch: Vec<_> = (from..urls.min(from + BATCH)).map(sleeping).collect();
        bench.admit(from, &batch, start);
    }
    bench.partition.write().unwrap();
    println!(
        "sleeping:  {urls} URLs at {sites} sites, {} more MiB resident, {} bytes on disk each",
        resident_kib().saturating_sub(before) / 1024,
        disk_bytes(dir) / urls
    );
    let mut now = start;
    for part in 1..=5 {
        let (mut wake, mut left) = (Measured::default(), bench.partition.asleep());
        while now < due_ms(urls / 10 * part) {
            now += 100;
            let began = Began::now();
            while bench.partition.next_due_ms().is_some_and(|due| due <= now) {
                bench.decide(now, |partition, turn| partition.tick(turn)).unwrap();
            }
            let awake = left - bench.partition.asleep();
            wake.end(awake.try_into().unwrap(), &began);
            left -= awake;
        }
        println!("  wake-up: {wake}");
    }
    println!("  {}", so_far());
}

/// Returns what the process has taken so far.
fn so_far() -> String {
    format!("{:.1} s of all threads, {} MiB resident at most", process_cpu().as_secs_f64(), peak_mib())
}

fn main() {
    let (urls, sites) = (env("ORBWEAVER_BENCH_URLS", 1_000_000), env("ORBWEAVER_BENCH_SITES", 10_000));
    let temporary = tempfile::tempdir().unwrap();
    if std::env::args().any(|argument| argument == "sleeping") {
        return sleeping(&temporary.path().join("index"), urls, sites);
    }
    if std::env::args().any(|argument| argument == "crowd") {
        return crowd(temporary.path(), urls, sites, env("ORBWEAVER_BENCH_HUGE", 9 * urls));
    }
    let dir = std::env::var_os("ORBWEAVER_BENCH_DIR").map_or_else(|| temporary.path().join("index"), Into::into);
    println!("{urls} URLs at {sites} sites in one partition");

    let mut bench = Bench::open(&dir, 0);
    let mut admission = Measured::default();
    for from in (0..urls).step_by(BATCH.try_into().unwrap()) {
        let batch: Vec<_> = (from..urls.min(from + BATCH)).map(|number| url(number, sites)).collect();
        // While dispatches are at their limit, as with a queue of this size.
        admission.of(batch.len(), || bench.admit(from, &batch, 1_790_000_000_000));
    }
    admission.of(0, || bench.partition.write().unwrap());
    println!("admission: {admission}; {}", so_far());

    let (mut dispatch, mut end) = (Measured::default(), Measured::default());
    let (mut flying, mut dispatched) = (vec![], 0);
    while dispatched < urls / 10 {
        let now = now_ms();
        end.of(flying.len(), || bench.end(&flying, now));
        let began = Began::now();
        flying = bench.dispatch(now);
        dispatch.end(flying.len(), &began);
        dispatched += flying.len() as u64;
    }
    println!("dispatch:  {dispatch}\noutcome and tombstone: {end}; {}", so_far());

    bench.end(&flying, now_ms());
    bench.partition.write().unwrap();
    drop(bench);
    let began = Instant::now();
    let mut bench = Bench::open(&dir, 1000);
    let first = bench.dispatch(now_ms()).len();
    println!("restart:   {:.2} s to the first {first} dispatches", began.elapsed().as_secs_f64());

    println!("due:       each site every {AGAIN_MS} ms");
    drop(bench);
    let mut bench = Bench::open(&dir, 1000);
    let late = due(&mut bench, sites);
    let of = |share| percentile(&late, share);
    println!("  late by {} ms (P50), {} ms (P99), {} ms (P99.9); {}", of(0.5), of(0.99), of(0.999), so_far());

    drop(bench);
    crowd(temporary.path(), urls / 10, sites, urls - urls / 10);
}
