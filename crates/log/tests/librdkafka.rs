//! The workarounds for three librdkafka bugs, which are applied in the build (`librdkafka/orbweaver_librdkafka.h`).

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rdkafka::{
    ClientConfig, ClientContext, Statistics,
    config::FromClientConfigAndContext as _,
    consumer::BaseConsumer,
    mocking::MockCluster,
    producer::{BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer},
};

#[test]
fn librdkafka_is_built_with_memory_that_is_filled() {
    // Links librdkafka and, with it, the marker.
    let (_, version) = rdkafka::util::get_rdkafka_version();
    let marker = b"orbweaver: memory of librdkafka is filled";
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    // The marker occurs once in this test, and once per source file of librdkafka.
    let found = program.windows(marker.len()).filter(|window| window == marker).count();
    let hint = "was it built outside of the repository, with other CPPFLAGS, or without `.cargo/config.toml`?";
    assert!(found > 2, "librdkafka {version} lacks crates/log/librdkafka: {hint}");
}

#[test]
fn another_librdkafka_is_asked_whether_it_still_needs_that() {
    let (_, version) = rdkafka::util::get_rdkafka_version();
    let todo = "are its issues 5280 and 2565 fixed, and do its waits go by a monotonic clock? Then remove \
                crates/log/librdkafka and its lines in `.cargo/config.toml`";
    assert_eq!(version, "2.12.1", "{todo}");
}

/// Counts wake-ups of a producer's broker threads, and acknowledged records.
#[derive(Default)]
struct Counts {
    wakeups: AtomicU64,
    acknowledged: AtomicU64,
}

impl ClientContext for Counts {
    fn stats(&self, statistics: Statistics) {
        let wakeups = statistics.brokers.values().filter_map(|broker| broker.wakeups).sum();
        self.wakeups.store(wakeups, Ordering::Relaxed);
    }
}

impl ProducerContext for Counts {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        self.acknowledged.fetch_add(u64::from(result.is_ok()), Ordering::Relaxed);
    }
}

/// Polls until `condition` holds.
async fn until(condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    while !condition() {
        assert!(Instant::now() < end, "not in time");
        ticks.tick().await;
    }
}

#[tokio::test]
async fn a_producer_that_waits_for_an_acknowledgement_wakes_up_once_a_millisecond_at_most() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("slow", 1, 1).unwrap();
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", cluster.bootstrap_servers()).set("enable.idempotence", "true");
    config.set("linger.ms", "5").set("statistics.interval.ms", "100");
    let producer: ThreadedProducer<Counts> =
        ThreadedProducer::from_config_and_context(&config, Counts::default()).unwrap();
    let send = |count| {
        for _ in 0..count {
            let sent = producer.send(BaseRecord::<(), _>::to("slow").payload("x"));
            sent.map_err(|(error, _)| error).unwrap();
        }
    };
    let acknowledged = || producer.context().acknowledged.load(Ordering::Relaxed);
    let wakeups = || producer.context().wakeups.load(Ordering::Relaxed);
    send(1);
    until(|| acknowledged() == 1).await;

    cluster.broker_round_trip_time(1, Duration::from_secs(1)).unwrap();
    let begun = Instant::now();
    // More than may be in flight, then others that must wait for them.
    send(10);
    until(|| begun.elapsed() > Duration::from_millis(100)).await;
    send(10);
    until(|| acknowledged() == 21).await;
    let last = wakeups();
    until(|| wakeups() > last).await;
    let (wakeups, elapsed_ms) = (wakeups(), begun.elapsed().as_millis());
    // Two threads, one of them for the broker, and as many wake-ups again for other causes.
    assert!(u128::from(wakeups) < 4 * elapsed_ms, "{wakeups} wake-ups in {elapsed_ms} ms");
}

/// Returns the path of the library that sets the clock of a process (Debian package `faketime`), if installed.
fn faketime() -> Option<PathBuf> {
    let dirs = std::fs::read_dir("/usr/lib").ok()?.chain(std::fs::read_dir("/usr/local/lib").ok()?);
    let mut libraries = dirs.flatten().map(|dir| dir.path().join("faketime/libfaketimeMT.so.1"));
    libraries.find(|library| library.exists())
}

#[test]
#[ignore = "a child process of the next test"]
fn a_consumer_without_brokers_polls_for_a_tenth_of_a_second() {
    let consumer: BaseConsumer = ClientConfig::new().set("group.id", "test").create().unwrap();
    assert!(consumer.poll(Duration::from_millis(100)).is_none());
}

#[tokio::test]
async fn a_wait_ends_in_time_although_the_system_clock_is_set() {
    let Some(library) = faketime() else {
        eprintln!("skipped: libfaketime is missing (Debian package faketime)");
        return;
    };
    // The library shifts the clock that librdkafka reads, but not that of the wait, as if the clock was set in between.
    for shift in ["+1h", "-1h"] {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--ignored", "--exact", "a_consumer_without_brokers_polls_for_a_tenth_of_a_second"]);
        child.env("LD_PRELOAD", &library).env("FAKETIME", shift).env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        let child = Mutex::new(child.stdout(Stdio::null()).spawn().unwrap());
        let ended = tokio::time::timeout(
            Duration::from_secs(20),
            until(|| child.lock().unwrap().try_wait().unwrap().is_some()),
        );
        if ended.await.is_err() {
            child.lock().unwrap().kill().unwrap();
        }
        let status = child.lock().unwrap().wait().unwrap();
        assert!(status.success(), "with the clock at {shift}: {status}");
    }
}
