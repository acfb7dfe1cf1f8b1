//! Restarts of a frontier on its log: with its index, and with one that is missing, damaged, or of another log.

use std::{collections::BTreeSet, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use orbweaver_frontier::{FrontierConfig, FrontierIndex, FrontierStage, FrontierView, metrics::FrontierMetrics};
use orbweaver_log::{Cleanup, Log, MemoryLog, Record, TopicPartition, TopicSpec};
use orbweaver_messages::{
    DiscoveryKind, Dispatch, FrontierUrl, Outcome, OutcomeKind, Topic, UrlContext, decode, encode, topic,
};
use orbweaver_stage::{NoEffects, NoJobs, Runner, RunnerConfig, StageError, metrics::Metrics};
use prometheus::Registry;
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

const WAITING: u32 = 500;

fn log() -> MemoryLog {
    let topics =
        [topic::CONTROL, topic::FRONTIER, topic::OUTCOMES, topic::SCHEDULED, topic::SITE_PAGES, topic::DEAD_LETTERS];
    MemoryLog::new(&topics.map(|topic: Topic| TopicSpec::new(topic, 2, Cleanup::Compact)))
}

/// Appends queued URLs to both partitions.
async fn admit(log: &MemoryLog, crawl: &str, numbers: std::ops::Range<u32>) {
    let record = |number: u32| {
        let url = format!("http://{}.example/{number}", number % 7);
        let context = UrlContext {
            depth: 1,
            sighting: DiscoveryKind::Link,
            ..UrlContext::of_seed(crawl.parse().unwrap(), url, format!("{}.example", number % 7).into())
        };
        let waiting = FrontierUrl::admitted(context, 1);
        let key = Some(Bytes::from(waiting.context.fingerprint.to_string()));
        // The present time, so that the index's checkpoint is not too old.
        let timestamp_ms = orbweaver_stage::Clock::now(&orbweaver_stage::SystemClock);
        let tp = TopicPartition::new(topic::FRONTIER, number % 7 % 2);
        Record { tp, key, value: Some(encode(&waiting)), headers: vec![], timestamp_ms }
    };
    log.append(numbers.map(record).collect()).await.unwrap();
}

struct Running {
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), StageError>>,
    view: Arc<FrontierView>,
    registry: Registry,
}

/// Starts a frontier, and waits until this number of URLs is queued.
async fn start(log: &MemoryLog, index: &Path, waiting: u32) -> Running {
    let registry = Registry::new();
    let view = Arc::<FrontierView>::default();
    let stage =
        FrontierStage::new(FrontierConfig::default(), FrontierMetrics::register(&registry).unwrap(), view.clone())
            .with_index(FrontierIndex::open(index).unwrap());
    let metrics = Metrics::register(&registry).unwrap();
    let runner =
        Runner::new(stage, Arc::new(log.clone()), NoJobs, NoEffects, RunnerConfig::default()).with_metrics(&metrics);
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(runner.run(shutdown.clone()));
    let running = Running { shutdown, task, view, registry };
    running.until_waiting(waiting).await;
    running
}

impl Running {
    async fn until_waiting(&self, expected: u32) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.view.figures().waiting != u64::from(expected) {
            assert!(Instant::now() < deadline, "{} wait, not {expected}", self.view.figures().waiting);
            assert!(!self.task.is_finished(), "the stage has ended");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Returns the number of records replayed from all logs.
    fn restored(&self) -> u64 {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == orbweaver_stage::metrics::RESTORED).unwrap();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        family.get_metric().iter().map(|metric| metric.get_counter().get_value() as u64).sum()
    }

    async fn end(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }

    async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

#[tokio::test]
async fn with_its_index_at_hand_a_frontier_replays_only_what_came_since() {
    let (log, dir) = (log(), tempfile::tempdir().unwrap());
    let index = dir.path().join("frontier");
    admit(&log, "a", 0..WAITING).await;
    let running = start(&log, &index, WAITING).await;
    assert!(running.restored() >= u64::from(WAITING));
    running.end().await;

    admit(&log, "a", WAITING..WAITING + 20).await;
    let running = start(&log, &index, WAITING + 20).await;
    let dispatches = 2 * 7 * 2;
    assert!(running.restored() <= 20 + dispatches, "{} records were replayed", running.restored());
    // After an abort, the index may lack the last records; nothing else is missing.
    running.kill().await;
    let running = start(&log, &index, WAITING + 20).await;
    running.end().await;
}

#[tokio::test]
async fn an_index_that_is_gone_damaged_or_of_another_log_costs_a_replay_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let index = dir.path().join("frontier");
    let log = log();
    admit(&log, "a", 0..WAITING).await;
    type Damage = fn(&Path);
    let breaks: [(&str, Damage); 4] = [
        ("not there yet", |_| {}),
        ("deleted", |index| std::fs::remove_dir_all(index).unwrap()),
        ("damaged", |index| std::fs::write(index.join("version"), "nonsense").unwrap()),
        ("condemned", |index| std::fs::write(index.join("condemned"), "").unwrap()),
    ];
    for (what, break_it) in breaks {
        break_it(&index);
        let running = start(&log, &index, WAITING).await;
        assert!(running.restored() >= u64::from(WAITING), "{what}: {} records were replayed", running.restored());
        running.end().await;
    }

    // Another crawl in place of the first, in a log that is shorter than the index has read; then in a longer one.
    for waiting in [WAITING / 2, WAITING * 2] {
        let other = self::log();
        admit(&other, "b", 0..waiting).await;
        let running = start(&other, &index, waiting).await;
        assert!(running.restored() >= u64::from(waiting));
        running.end().await;
    }
}

#[tokio::test]
async fn an_index_that_missed_how_urls_ended_goes_by_the_commit_point() {
    let (log, dir) = (log(), tempfile::tempdir().unwrap());
    let (outdated, other) = (dir.path().join("outdated"), dir.path().join("other"));
    admit(&log, "a", 0..WAITING).await;
    let running = start(&log, &outdated, WAITING).await;
    running.end().await;

    // On another machine URLs end, the first one of the log among them, and their tombstones are compacted away.
    let running = start(&log, &other, WAITING).await;
    let dispatched = log.records(TopicPartition::new(topic::SCHEDULED, 0));
    let mut ended = BTreeSet::new();
    for record in dispatched {
        let dispatch: Dispatch = decode("dispatch", record.value.as_ref()).unwrap();
        if ended.insert(dispatch.context.fingerprint) {
            let outcome = Outcome::of(&dispatch, OutcomeKind::Gone, Some("http_404"), 1);
            let tp = TopicPartition::new(topic::OUTCOMES, 0);
            let record = Record { tp, key: None, value: Some(encode(&outcome)), headers: vec![], timestamp_ms: 1 };
            log.append(vec![record]).await.unwrap();
        }
    }
    let left = WAITING - u32::try_from(ended.len()).unwrap();
    assert!(left < WAITING);
    running.until_waiting(left).await;
    running.end().await;
    let tp = TopicPartition::new(topic::FRONTIER, 0);
    let commit = log.committed("frontier", &[tp]).await.unwrap().remove(0).unwrap().offset;
    assert!(commit > 0, "the first of the log ended");
    log.compact(tp).unwrap();

    for _ in 0..2 {
        let running = start(&log, &outdated, left).await;
        running.end().await;
    }
}
