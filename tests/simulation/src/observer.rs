//! Polls for completion, as `orbweaver status --wait` does, and checks the result against the truth.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use orbweaver_log::{Log as _, MemoryLog, Offset, TopicPartition};
use orbweaver_messages::topic;
use orbweaver_stage::{
    completion::{GroupTopic, OffsetSnapshot},
    crawl_completion::{CrawlCompletion, CrawlProgress},
};
use orbweaver_url::CrawlName;
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    broken::{Broken, Rule},
    network::{ProcessLog, lock},
    random::Random,
    settings::Service,
    time::Time,
    web::Expectation,
};

/// Observations so far.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// Number of offset snapshots.
    pub readings: u64,
    /// Time of the first proof of completion, in milliseconds from the start.
    pub first_ms: Option<u64>,
    /// Time since which completion has been proved without interruption, in milliseconds from the start.
    pub since_ms: Option<u64>,
    /// Time of the first proof that the crawl is complete, in milliseconds from the start.
    pub crawl_ms: Option<u64>,
    /// Violations of the invariants.
    pub violations: Vec<String>,
}

/// Returns the groups that do the work of a crawl, each with its topics.
fn declared() -> Vec<GroupTopic> {
    let names = Service::ALL.map(Service::name);
    let groups = topic::groups().iter().filter(|(group, _)| names.contains(group));
    groups
        .flat_map(|(group, topics)| topics.iter().map(|&topic| GroupTopic { group: (*group).to_owned(), topic }))
        .collect()
}

/// Observer of completion; runs until the schedule ends.
pub(crate) struct Observer {
    pub(crate) log: ProcessLog,
    pub(crate) expected: Arc<Expectation>,
    pub(crate) memory: MemoryLog,
    pub(crate) broken: Broken,
    pub(crate) time: Time,
    pub(crate) random: Random,
    pub(crate) observed: Arc<Mutex<Observed>>,
}

impl Observer {
    pub(crate) async fn watch(mut self) {
        let declared = declared();
        let mut last: Option<OffsetSnapshot> = None;
        let (mut crawl, mut read) = (CrawlCompletion::new(CrawlName::default()), BTreeMap::new());
        loop {
            sleep(Duration::from_millis(self.random.between(200, 3_000))).await;
            self.prove(&mut crawl, &mut read).await;
            let reading = match OffsetSnapshot::take(&self.log, &declared).await {
                Ok(reading) => reading,
                Err(error) => {
                    lock(&self.observed).violations.push(format!("completion cannot be read: {error}"));
                    return;
                }
            };
            let is_proven = if self.broken.is_off(Rule::TwoReadings) {
                reading.is_caught_up()
            } else {
                last.as_ref().is_some_and(|first| reading.confirms_completion(first))
            };
            self.note(is_proven);
            last = Some(reading);
        }
    }

    /// Takes a step of the proof that the crawl is complete, independently of everything else in the pipeline.
    async fn prove(&self, crawl: &mut CrawlCompletion, read: &mut BTreeMap<TopicPartition, Offset>) {
        for tp in tps(&self.memory, topic::CONTROL) {
            let next = read.entry(tp).or_default();
            for record in self.memory.records(tp).into_iter().filter(|record| record.offset >= *next) {
                crawl.apply(&record);
            }
            *next = self.memory.bounds(tp).await.map_or(*next, |bounds| bounds.end);
        }
        // Without the brokers, the step is repeated.
        let Ok(CrawlProgress::Complete { .. }) = crawl.step(&self.log, self.time.now(), false).await else { return };
        let now = self.time.elapsed_ms();
        let violations = self.incomplete(&format!("the crawl was reported complete at {now} ms"));
        let mut observed = lock(&self.observed);
        observed.violations.extend(violations);
        observed.crawl_ms.get_or_insert(now);
    }

    fn note(&self, is_proven: bool) {
        let mut observed = lock(&self.observed);
        observed.readings += 1;
        if !is_proven {
            observed.since_ms = None;
            return;
        }
        let now = self.time.elapsed_ms();
        if observed.since_ms.is_none() {
            observed.violations.extend(self.incomplete(&format!("completion was reported at {now} ms")));
        }
        observed.first_ms.get_or_insert(now);
        observed.since_ms.get_or_insert(now);
    }

    /// Describes the work that is left, although the end was `reported`.
    fn incomplete(&self, reported: &str) -> Vec<String> {
        let documents = documents(&self.memory);
        let missing: Vec<_> =
            self.expected.truth().documents.into_iter().filter(|url| !documents.contains(url)).collect();
        let shown = missing.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
        let missing =
            (!missing.is_empty()).then(|| format!("{reported} although {} pages are missing: {shown}", missing.len()));
        let waiting = waiting(&self.memory).into_iter().take(3);
        missing
            .into_iter()
            .chain(waiting.map(|key| format!("{reported} although {key} waits in crawl.frontier")))
            .collect()
    }
}

pub(crate) fn tps(log: &MemoryLog, of: orbweaver_messages::Topic) -> Vec<TopicPartition> {
    let partitions = orbweaver_log::Log::partitions(log, of).unwrap_or(0);
    (0..partitions).map(|partition| TopicPartition::new(of, partition)).collect()
}

/// Returns the URLs, as fetched, of all documents.
pub(crate) fn documents(log: &MemoryLog) -> BTreeSet<String> {
    let records = tps(log, topic::DOCUMENTS).into_iter().flat_map(|tp| log.records(tp));
    records
        .filter_map(|record| {
            let document: Value = serde_json::from_slice(record.value.as_deref()?).ok()?;
            Some(document["fetched_url"].as_str()?.to_owned())
        })
        .collect()
}

/// Returns the keys of `crawl.frontier` whose last record is not a tombstone.
pub(crate) fn waiting(log: &MemoryLog) -> Vec<String> {
    let mut waiting = BTreeSet::new();
    for record in tps(log, topic::FRONTIER).into_iter().flat_map(|tp| log.records(tp)) {
        let key = String::from_utf8_lossy(record.key.as_deref().unwrap_or_default()).into_owned();
        if record.header(orbweaver_stage::CLAIM_HEADER).is_some() {
            continue;
        }
        if record.value.is_some() {
            waiting.insert(key)
        } else {
            waiting.remove(&key)
        };
    }
    waiting.into_iter().collect()
}
