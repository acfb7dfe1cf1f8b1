//! The stage in isolation: plans become durable at once, or on demand, and responses are scripted.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use futures::FutureExt;
use orbweaver_log::{Record, TopicPartition};
use orbweaver_messages::{
    CrawlDefinition, CrawlPurpose, Discovered, DiscoveryKind, OutcomeKind, Page, SiteSettings, crawl_key, decode,
    encode, site_key,
};
use orbweaver_settings::Section as _;
use orbweaver_stage::ScriptedClock;
use orbweaver_url::{Fingerprint, partition_of, slot_of};
use tokio::sync::Semaphore;

use super::*;
use crate::{
    classify,
    client::{Body, Client as _, Destination, FetchError, HttpResponse, ScriptedClient},
    worker,
};

mod addresses;
mod archive;
mod clocks;
mod dispatches;
mod external;
mod holds;
mod loopback;
mod profiles;
mod purposes;
mod redirects;
mod robots;
mod robots_reports;
mod sitemaps;
mod substitutes;
mod unknown_hosts;

const START: Millis = 10_000_000;
const PARTITIONS: Partition = 4;
const ROBOTS: &str = "https://a.example/robots.txt";

/// A stage and its simulated environment.
struct Surroundings {
    stage: FetcherStage,
    clock: Arc<ScriptedClock>,
    client: ScriptedClient,
    stored_robots: BTreeMap<String, RobotsRow>,
    /// All rows and records that became durable, in order.
    durable: Vec<Durable>,
    /// Number of completions of each offset.
    completed: BTreeMap<(Partition, Offset), usize>,
    parked: Vec<Origin>,
    rejected: Vec<String>,
    jobs: VecDeque<Job>,
    /// Plans that are not yet durable, while `holds_plans` is set.
    plans: VecDeque<Plan<Write>>,
    holds_plans: bool,
    /// Whether lookups of addresses are among `jobs`; otherwise they end at once.
    holds_lookups: bool,
    next_offset: Offset,
}

#[derive(Debug, Clone, PartialEq)]
enum Durable {
    Row(Write),
    Record(Record),
}

impl Surroundings {
    fn new(config: FetcherConfig) -> Self {
        config.check().unwrap();
        let clock = Arc::new(ScriptedClock::at(START));
        let metrics = FetcherMetrics::register(&prometheus::Registry::new()).unwrap();
        let mut around = Self {
            stage: FetcherStage::new(config, metrics, Arc::default()),
            client: ScriptedClient::new(clock.clone()),
            clock,
            stored_robots: BTreeMap::new(),
            durable: vec![],
            completed: BTreeMap::new(),
            parked: vec![],
            rejected: vec![],
            jobs: VecDeque::new(),
            plans: VecDeque::new(),
            holds_plans: false,
            holds_lookups: false,
            next_offset: 0,
        };
        around.stage.owns_until(Millis::MAX);
        (0..PARTITIONS).for_each(|partition| around.open(partition, 1));
        around
    }

    fn unlimited() -> Self {
        Self::new(unlimited())
    }

    fn open(&mut self, partition: Partition, assignment_epoch: u32) {
        let opening =
            PartitionContext { partition, partitions: PARTITIONS, assignment_epoch, owner_epoch: 0, commits: [0; 3] };
        self.stage.open(opening, self.now());
    }

    /// Reads the outcomes of another fetcher back from the log.
    fn restore(&mut self, outcomes: Vec<Record>) {
        for Record { tp, value, .. } in outcomes {
            self.stage.restore(tp.partition, &delivered(tp, 0, value)).unwrap();
        }
    }

    /// Delivers the record of `crawl.control` at this offset that freezes or thaws `a.example`.
    fn control(&mut self, offset: Offset, frozen: bool, replaces: &[u64]) {
        let settings = SiteSettings { frozen, replaces: replaces.into(), ..SiteSettings::of("a.example".into(), 0) };
        let mut record = delivered(TopicPartition::new(topic::CONTROL, 0), offset, Some(encode(&settings)));
        record.key = Some(Bytes::from(site_key("a.example")));
        self.call(|stage, now, acts| stage.receive_tailed(&record, now, acts));
        self.settle();
    }

    /// Delivers the record of `crawl.control` at this offset that pauses or resumes a crawl.
    fn pause(&mut self, offset: Offset, crawl: &str, paused: bool) {
        self.define(offset, crawl, |definition| definition.paused = paused);
    }

    /// Delivers the definition of a crawl at this offset of `crawl.control`.
    fn define(&mut self, offset: Offset, crawl: &str, change: impl Fn(&mut CrawlDefinition)) {
        let definition = include_str!("../../../../schemas/examples/crawl-definition/1/host.json");
        let mut definition: CrawlDefinition =
            decode("crawl definition", Some(&Bytes::from_static(definition.as_bytes()))).unwrap();
        definition.name = crawl.parse().unwrap();
        change(&mut definition);
        let key = crawl_key(&definition.name);
        let mut record = delivered(TopicPartition::new(topic::CONTROL, 0), offset, Some(encode(&definition)));
        record.key = Some(Bytes::from(key));
        self.call(|stage, now, acts| stage.receive_tailed(&record, now, acts));
        self.settle();
    }

    /// Stores a robots.txt of `a.example` that refuses `/no`.
    fn store_robots(&mut self, fetched_at_ms: Millis, expires_ms: Millis) {
        let (authority, body) = ("https://a.example testbot".to_owned(), "User-agent: *\nDisallow: /no".into());
        let row = RobotsRow { authority, fetched_at_ms, status: Some(200), body, expires_ms };
        self.stored_robots.insert(row.authority.clone(), row);
    }

    fn now(&self) -> Millis {
        use orbweaver_stage::Clock;
        self.clock.now()
    }

    /// Returns a dispatch of a URL that may be requested at once.
    fn ready(&self, url: &str, sequence: u64) -> ReadyDispatch {
        let dispatch = classify::tests::dispatch(url, sequence, self.now());
        ReadyDispatch { not_before_ms: self.now(), interval_ms: 0, crawl_interval_ms: 0, dispatch }
    }

    /// Returns such a dispatch, of a site that is requested at this interval.
    fn ready_every(&self, interval_ms: u64, url: &str, sequence: u64) -> ReadyDispatch {
        ReadyDispatch { interval_ms, ..self.ready(url, sequence) }
    }

    /// Delivers a dispatch of a URL that may be requested at once, and performs all work that is possible.
    fn request(&mut self, url: &str, sequence: u64) {
        self.deliver(&self.ready(url, sequence));
        self.settle();
    }

    fn deliver(&mut self, ready: &ReadyDispatch) -> Origin {
        let partition = partition_of(slot_of(&ready.dispatch.context.site), PARTITIONS);
        self.deliver_value(partition, Some(encode(ready)))
    }

    fn deliver_value(&mut self, partition: Partition, value: Option<Bytes>) -> Origin {
        let tp = TopicPartition::new(topic::READY, partition);
        let origin = Origin { tp, offset: self.next_offset, assignment_epoch: 1 };
        self.next_offset += 1;
        self.call(|stage, now, acts| stage.receive(vec![(origin, delivered(tp, origin.offset, value))], now, acts));
        origin
    }

    fn call(&mut self, call: impl FnOnce(&mut FetcherStage, Millis, &mut Acts) -> Result<(), StageError>) {
        let (now, mut acts) = (self.now(), Actions::default());
        call(&mut self.stage, now, &mut acts).unwrap();
        self.perform(acts);
    }

    fn perform(&mut self, mut acts: Acts) {
        for origin in acts.completes.drain(..) {
            self.complete(origin);
        }
        for (origin, reason) in acts.rejects.drain(..) {
            self.complete(origin);
            self.rejected.push(reason);
        }
        self.parked.append(&mut acts.parked);
        self.plans.extend(acts.plans);
        for job in acts.jobs {
            match job {
                Job::Locate { site, host } if !self.holds_lookups => {
                    let located = self.client.locate(&host).now_or_never().unwrap();
                    let mut acts = Actions::default();
                    self.stage.job_done(Done::Located { site, host, located }, self.now(), &mut acts).unwrap();
                    self.perform(acts);
                }
                job => self.jobs.push_back(job),
            }
        }
    }

    fn complete(&mut self, origin: Origin) {
        *self.completed.entry((origin.tp.partition, origin.offset)).or_default() += 1;
    }

    fn land(&mut self, plan: Plan<Write>) {
        for step in plan.steps {
            match step {
                Step::Produce(records) => self.durable.extend(records.into_iter().map(Durable::Record)),
                Step::Perform(rows) => self.durable.extend(rows.into_iter().map(Durable::Row)),
            }
        }
        for origin in plan.completes {
            self.complete(origin);
        }
        if let Some(token) = plan.token {
            self.call(|stage, now, acts| stage.plan_durable(token, &[], now, acts));
        }
    }

    /// Performs all work that is possible at the present time.
    fn settle(&mut self) {
        loop {
            let plan = if self.holds_plans { None } else { self.plans.pop_front() };
            if let Some(plan) = plan {
                self.land(plan);
            } else if let Some(job) = self.jobs.pop_front() {
                let done = match job {
                    Job::Locate { .. } => panic!("a lookup is held"),
                    Job::Load { key } => Done::Loaded { row: self.stored_robots.get(&*key).cloned(), key },
                    Job::Ask { number, request, room } => {
                        let job = (request, room, self.stage.memory().reservation());
                        let large = Semaphore::new(1);
                        let asked = worker::ask(&self.client, job, &large, true, None);
                        let (attempt, body) = asked.now_or_never().unwrap();
                        Done::Asked { number, attempt: Box::new(attempt), body }
                    }
                };
                self.call(|stage, now, acts| stage.job_done(done, now, acts));
            } else {
                return;
            }
        }
    }

    /// Advances the clock to each time at which the stage requests a call.
    fn pass(&mut self, millis: Millis) {
        let end = self.now() + millis;
        self.settle();
        while self.now() < end {
            let next = self.stage.next_tick().unwrap_or(end).clamp(self.now() + 1, end);
            self.clock.advance(next - self.now());
            self.call(FetcherStage::tick);
            self.settle();
        }
    }

    fn outcomes(&self) -> Vec<Outcome> {
        self.records(topic::OUTCOMES).iter().map(|record| decode("outcome", record.value.as_ref()).unwrap()).collect()
    }

    fn kinds(&self) -> Vec<(OutcomeKind, Option<String>)> {
        self.outcomes().into_iter().map(|outcome| (outcome.kind, outcome.reason)).collect()
    }

    fn records(&self, topic: Topic) -> Vec<Record> {
        let record = |durable: &'_ Durable| match durable {
            Durable::Record(record) if record.tp.topic == topic => Some(record.clone()),
            _ => None,
        };
        self.durable.iter().filter_map(record).collect()
    }

    fn asked(&self) -> Vec<String> {
        self.client.asked().into_iter().map(|request| request.url.into()).collect()
    }

    /// Asserts that every delivered record was completed exactly once, and that no state remains.
    fn assert_all_complete(&self) {
        assert_eq!(self.completed.len() as u64, self.next_offset, "{:?}", self.completed);
        assert!(self.completed.values().all(|&times| times == 1), "{:?}", self.completed);
        let FetcherStage { requests, gates, .. } = &self.stage;
        assert_eq!((requests.slots, requests.in_flight.len(), gates.queued), (0, 0, 0));
        assert!(self.stage.dispatches.is_empty() && self.stage.lookups.is_empty());
    }
}

fn delivered(tp: TopicPartition, offset: Offset, value: Option<Bytes>) -> ConsumerRecord {
    ConsumerRecord { tp, offset, timestamp_ms: START, key: None, value, headers: vec![] }
}

fn unlimited() -> FetcherConfig {
    FetcherConfig { ignore_robots: true, allow_private: true, ..FetcherConfig::default() }
}

fn polite() -> Surroundings {
    Surroundings::new(FetcherConfig { user_agent: "Testbot/1.0".into(), ..FetcherConfig::default() })
}

/// Returns polite surroundings in which this is the first answer to the robots.txt of `a.example`.
fn with_robots(answer: Result<HttpResponse, FetchError>) -> Surroundings {
    let around = polite();
    around.client.on(ROBOTS, answer);
    around
}

fn page(text: &str) -> Result<HttpResponse, FetchError> {
    Ok(HttpResponse {
        status: 200,
        content_type: Some("text/html".into()),
        headers: vec![("content-type".into(), "text/html".into())],
        etag: Some("\"e\"".into()),
        body: Body::Read { bytes: text.into(), truncated: false },
        ..HttpResponse::default()
    })
}

fn robots(text: &str) -> Result<HttpResponse, FetchError> {
    let body = Body::Read { bytes: text.into(), truncated: false };
    Ok(HttpResponse { status: 200, content_type: Some("text/plain".into()), body, ..HttpResponse::default() })
}

fn status(status: u16) -> Result<HttpResponse, FetchError> {
    refusal(status, None)
}

fn refusal(status: u16, retry_after: Option<&str>) -> Result<HttpResponse, FetchError> {
    Ok(HttpResponse { status, retry_after: retry_after.map(str::to_owned), ..HttpResponse::default() })
}

fn moved(location: &str, cookies: &[&str]) -> Result<HttpResponse, FetchError> {
    let set_cookie = cookies.iter().map(|&cookie| cookie.to_owned()).collect();
    Ok(HttpResponse { status: 302, location: Some(location.into()), set_cookie, ..HttpResponse::default() })
}

fn some(kind: OutcomeKind, reason: &str) -> (OutcomeKind, Option<String>) {
    (kind, Some(reason.to_owned()))
}
