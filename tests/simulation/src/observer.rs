//! Polls for completion, as `orbweaver status --wait` does, and checks the result against the truth.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use orbweaver_log::{Log as _, MemoryLog, Offset, TopicPartition};
use orbweaver_messages::{CrawlEvent, CrawlEventKind, FrontierUrl, decode, topic};
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
    /// Kind of the last event of each crawl.
    pub events: BTreeMap<CrawlName, CrawlEventKind>,
    /// Time of the first proof that a crawl is complete, in milliseconds from the start.
    pub crawl_ms: BTreeMap<CrawlName, u64>,
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
    pub(crate) expected: Vec<Arc<Expectation>>,
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
        let completion = |expected: &Arc<Expectation>| (expected.clone(), CrawlCompletion::new(expected.crawl.clone()));
        let (mut crawls, mut read): (Vec<_>, _) = (self.expected.iter().map(completion).collect(), BTreeMap::new());
        loop {
            sleep(Duration::from_millis(self.random.between(200, 3_000))).await;
            self.prove(&mut crawls, &mut read).await;
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

    /// Takes a step of the proof that each crawl is complete, independently of everything else in the pipeline.
    async fn prove(
        &self,
        crawls: &mut [(Arc<Expectation>, CrawlCompletion)],
        read: &mut BTreeMap<TopicPartition, Offset>,
    ) {
        for tp in tps(&self.memory, topic::CONTROL) {
            let next = read.entry(tp).or_default();
            for record in self.memory.records(tp).into_iter().filter(|record| record.offset >= *next) {
                crawls.iter_mut().for_each(|(_, crawl)| crawl.apply(&record));
            }
            *next = self.memory.bounds(tp).await.map_or(*next, |bounds| bounds.end);
        }
        self.read_events(crawls, read).await;
        for (expected, crawl) in crawls {
            // Without the brokers, the step is repeated.
            let progress = crawl.step(&self.log, self.time.now(), false).await;
            let Ok(CrawlProgress::Complete(_)) = progress else { continue };
            let now = self.time.elapsed_ms();
            let reported = format!("the crawl `{}` was reported complete at {now} ms", expected.crawl);
            let violations = self.incomplete(expected, expected.has_revisits, &reported);
            let mut observed = lock(&self.observed);
            observed.violations.extend(violations);
            observed.crawl_ms.entry(expected.crawl.clone()).or_insert(now);
        }
    }

    /// Compares the events of crawls that have been written with the truth.
    async fn read_events(
        &self,
        crawls: &[(Arc<Expectation>, CrawlCompletion)],
        read: &mut BTreeMap<TopicPartition, Offset>,
    ) {
        for tp in tps(&self.memory, topic::EVENTS) {
            let next = read.entry(tp).or_default();
            for record in self.memory.records(tp).into_iter().filter(|record| record.offset >= *next) {
                let Ok(event) = decode::<CrawlEvent>("event", record.value.as_ref()) else { continue };
                let expected = crawls.iter().find(|(expected, _)| expected.crawl == event.crawl);
                let is_round = event.kind == CrawlEventKind::RoundComplete;
                let mut observed = lock(&self.observed);
                if let Some((expected, _)) = expected.filter(|_| is_round || event.kind == CrawlEventKind::Complete) {
                    let reported = format!("the event {:?} of the crawl `{}` was written", event.kind, event.crawl);
                    observed.violations.extend(self.incomplete(expected, is_round, &reported));
                }
                observed.events.insert(event.crawl, event.kind);
            }
            *next = self.memory.bounds(tp).await.map_or(*next, |bounds| bounds.end);
        }
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
            let reported = format!("completion was reported at {now} ms");
            let violations = self.expected.iter().flat_map(|expected| self.incomplete(expected, false, &reported));
            observed.violations.extend(violations);
        }
        observed.first_ms.get_or_insert(now);
        observed.since_ms.get_or_insert(now);
    }

    /// Describes the work of a crawl that is left, although the end was `reported`. If they `may_sleep`, URLs that have been
    /// visited are none.
    fn incomplete(&self, expected: &Expectation, may_sleep: bool, reported: &str) -> Vec<String> {
        let documents = documents(&self.memory, &expected.crawl);
        let missing: Vec<_> = expected.truth().documents.into_iter().filter(|url| !documents.contains(url)).collect();
        let shown = missing.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
        let missing =
            (!missing.is_empty()).then(|| format!("{reported} although {} pages are missing: {shown}", missing.len()));
        let waiting = waiting(&self.memory, &expected.crawl, may_sleep).into_iter().take(3);
        missing
            .into_iter()
            .chain(waiting.map(|url| format!("{reported} although {url} waits in crawl.frontier")))
            .collect()
    }
}

pub(crate) fn tps(log: &MemoryLog, of: orbweaver_messages::Topic) -> Vec<TopicPartition> {
    let partitions = orbweaver_log::Log::partitions(log, of).unwrap_or(0);
    (0..partitions).map(|partition| TopicPartition::new(of, partition)).collect()
}

/// Returns the URLs, as fetched, of all documents of a crawl.
pub(crate) fn documents(log: &MemoryLog, crawl: &CrawlName) -> BTreeSet<String> {
    let records = tps(log, topic::DOCUMENTS).into_iter().flat_map(|tp| log.records(tp));
    records
        .filter_map(|record| {
            let document: Value = serde_json::from_slice(record.value.as_deref()?).ok()?;
            let is_of_crawl = document["crawl"].as_str() == Some(crawl);
            Some(document["fetched_url"].as_str().filter(|_| is_of_crawl)?.to_owned())
        })
        .collect()
}

/// Returns the URLs of a crawl whose last record in `crawl.frontier` is not a tombstone; without those that were visited if
/// they `may_sleep`.
fn waiting(log: &MemoryLog, crawl: &CrawlName, may_sleep: bool) -> Vec<String> {
    let mut last = BTreeMap::new();
    for record in tps(log, topic::FRONTIER).into_iter().flat_map(|tp| log.records(tp)) {
        if record.header(orbweaver_stage::CLAIM_HEADER).is_none() {
            last.insert(record.key, record.value);
        }
    }
    let queued = last.into_values().flatten().filter_map(|value| decode::<FrontierUrl>("frontier", Some(&value)).ok());
    let queued = queued.filter(|queued| !may_sleep || queued.visits.is_none());
    queued.filter(|queued| queued.context.crawl == *crawl).map(|queued| queued.context.url).collect()
}
