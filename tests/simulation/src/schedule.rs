//! One schedule: a web, crawls, processes, faults, an observer and a judge, all from one seed, in one thread and in virtual
//! time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use orbweaver_log::{Cleanup, Log, MemoryLog, Record, TopicPartition, TopicSpec};
use orbweaver_messages::{CrawlEventKind, Millis, Topic, crawl_key, encode, topic};
use orbweaver_stage::retention::{Bound, Retention, TopicRetention};
use orbweaver_store::MemoryStore;
use orbweaver_url::CrawlName;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    broken::Broken,
    changes::{judge_changes, judge_visits},
    counts::Counts,
    crawls::Crawl,
    faults::{Fault, Planned},
    fleet::{Ended, Fleet, Ground},
    gate::Gate,
    groups::Groups,
    judge::{
        Losses, Repeats, count_repeats, judge_dead_letters, judge_pages, judge_politeness, judge_revisions,
        outdated_rows,
    },
    network::{Line, ProcessLog, lock},
    observer::{Observed, Observer, documents, tps},
    pages::PageTruth,
    process::{Outside, SharedStore},
    random::Random,
    scenario::{Scenario, set_back_ms},
    settings::Service,
    site_pages::SitePagesTruth,
    time::Time,
    web::{Asked, Served},
};

/// Interval of deletion and compaction of the log.
const SWEEP_EVERY: Duration = Duration::from_secs(15);
/// Result of a schedule.
#[derive(Debug, Clone)]
pub struct Report {
    /// The scenario that was run.
    pub scenario: Scenario,
    /// Violations of the invariants.
    pub violations: Vec<String>,
    /// Number of applied faults, by kind.
    pub happened: BTreeMap<&'static str, u64>,
    /// Errors of the processes that ended with one.
    pub ended: Vec<String>,
    /// Number of pages with a document.
    pub pages: usize,
    /// Number of requests that the web received.
    pub requests: usize,
    /// Requests for pages beyond the necessary ones.
    pub repeats: Repeats,
    /// Largest number of pages beyond a cap.
    pub over_cap: u64,
    /// All requests, as the web received them.
    pub asked: Vec<Asked>,
    /// Rows of the store that do not match the last response for their page.
    pub outdated_rows: Vec<String>,
    /// Time of the first proof of completion, in milliseconds from the start.
    pub told_ms: Option<u64>,
    /// Time of the first proof that a crawl is complete, in milliseconds from the start.
    pub crawl_ms: BTreeMap<CrawlName, u64>,
    /// Kind of the last event of each crawl.
    pub events: BTreeMap<CrawlName, CrawlEventKind>,
    /// Largest number of offsets between a commit point and the log end of `crawl.frontier`.
    pub longest_span: u64,
    /// Largest number of dispatches without an outcome in one partition.
    pub most_outstanding: u64,
    /// Duration, in virtual milliseconds.
    pub virtual_ms: u64,
    /// Hash of duration and requests, equal for two runs of the same schedule.
    pub trace: u64,
}

/// Runs a schedule.
///
/// # Panics
/// When the runtime or the temporary directory cannot be created.
#[must_use]
#[allow(clippy::expect_used, reason = "a simulation that cannot begin has nothing to say")]
pub fn run(scenario: Scenario, counts: &Counts) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime of one thread");
    let dir = tempfile::tempdir_in(scratch()).expect("a directory");
    runtime.block_on(async { Schedule::begin(scenario, counts.clone(), dir.path()).run().await })
}

/// Returns the parent of the index directories: memory if available, because the directories are many and short-lived.
fn scratch() -> std::path::PathBuf {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

struct Schedule {
    scenario: Scenario,
    random: Random,
    time: Time,
    log: MemoryLog,
    groups: Groups,
    served: Arc<Served>,
    store: Arc<MemoryStore>,
    counts: Counts,
    repeated_before: f64,
    fleet: Fleet,
    observed: Arc<Mutex<Observed>>,
    retention: Retention,
    swept: Instant,
    crawls: Vec<Crawl>,
    pages: PageTruth,
    site_pages: SitePagesTruth,
    longest_span: u64,
    most_outstanding: u64,
    /// Holders of the frontier's partitions at the last sweep.
    held: BTreeSet<(u32, usize)>,
}

impl Schedule {
    fn begin(scenario: Scenario, counts: Counts, dir: &std::path::Path) -> Self {
        let random = Random::new(scenario.seed);
        let time = Time::begin();
        let log = MemoryLog::scripted(&specs(scenario.settings.partitions)).with_record_limit(scenario.record_limit);
        let groups = Groups::new(log.clone(), scenario.assigned_at_once);
        let served = Arc::new(Served::new(scenario.web.clone()));
        let crawls: Vec<_> = scenario.crawls().into_iter().map(|plan| Crawl::of(plan, &scenario, &served)).collect();
        let store = SharedStore::default();
        let outside = Outside {
            served: served.clone(),
            store: store.clone(),
            settings: Arc::new(scenario.settings.clone().without(&scenario.broken)),
            counts: counts.clone(),
            broken: scenario.broken.clone(),
            poison: scenario.poison.map(|page| scenario.web.pages[page].url.as_str().into()),
            index_within: Duration::from_millis(scenario.tombstones_kept_ms.unsigned_abs() / 2),
        };
        let ground = Ground {
            log: log.clone(),
            groups: groups.clone(),
            outside,
            time,
            broken: scenario.broken.clone(),
            weather: scenario.weather,
            readers_lag: Duration::from_millis(scenario.readers_lag_ms),
            dir: dir.to_owned(),
        };
        let observed = Arc::<Mutex<Observed>>::default();
        let line = Line {
            process: usize::MAX,
            gate: Arc::new(Gate::default()),
            groups: groups.clone(),
            broken: Broken::default(),
            weather: scenario.weather,
            readers_lag: Duration::ZERO,
        };
        let observer = Observer {
            log: ProcessLog::new(log.clone(), line, random.split("observer's log")),
            expected: crawls.iter().map(|crawl| crawl.expected.clone()).collect(),
            memory: log.clone(),
            broken: scenario.broken.clone(),
            time,
            random: random.split("observer"),
            observed: observed.clone(),
        };
        tokio::spawn(observer.watch());
        let shared: Arc<dyn Log> = Arc::new(log.clone());
        Self {
            fleet: Fleet::start(ground, random.split("fleet")),
            retention: Retention::new(shared, TopicRetention::in_a_cluster(Bound::default())),
            random: random.split("schedule"),
            swept: Instant::now(),
            crawls,
            pages: PageTruth::default(),
            site_pages: SitePagesTruth::default(),
            longest_span: 0,
            most_outstanding: 0,
            held: BTreeSet::new(),
            repeated_before: counts.repeated(),
            time,
            log,
            groups,
            served,
            store: store.store,
            counts,
            observed,
            scenario,
        }
    }

    async fn run(mut self) -> Report {
        self.sow().await;
        let mut faults = std::mem::take(&mut self.scenario.faults);
        let planned = faults.clone();
        let linger_ms = self.random.pick(&[10_000, 60_000, 150_000]);
        let mut quiet_since = None;
        let mut violations = vec![];
        let within_ms = self.scenario.within_ms + set_back_ms(&planned);
        loop {
            sleep(Duration::from_millis(self.random.between(20, 400))).await;
            let now_ms = self.time.elapsed_ms();
            while faults.first().is_some_and(|planned| planned.at_ms <= now_ms) {
                let Planned { fault, .. } = faults.remove(0);
                self.fleet.happens(fault);
            }
            self.pages.look(&self.log);
            self.revise(now_ms).await;
            self.fleet.step().await;
            self.groups.step(&mut self.random);
            self.sweep().await;
            self.measure().await;
            // Start of the time without faults, pending changes or rebalancing.
            let is_settled = self.crawls.iter().all(Crawl::is_settled);
            if !faults.is_empty() || !is_settled || !self.fleet.is_well() || !self.groups.are_at_rest() {
                quiet_since = None;
            } else {
                quiet_since.get_or_insert(now_ms);
            }
            let since = lock(&self.observed).since_ms;
            if let (Some(quiet), Some(since)) = (quiet_since, since)
                && now_ms >= quiet.max(since) + linger_ms
            {
                break;
            }
            if now_ms >= within_ms {
                violations.push(format!("not complete after {now_ms} ms"));
                break;
            }
        }
        self.scenario.faults = planned;
        self.judge(violations)
    }

    /// Writes the definitions of the crawls and their seeds.
    async fn sow(&mut self) {
        let now = self.time.now();
        let mut records = vec![];
        for crawl in &mut self.crawls {
            let definition = crawl.define(&self.scenario, now);
            records.push(record(topic::CONTROL, 0, (&crawl_key(crawl.name()), encode(&definition)), now));
            for (page, url) in crawl.seeds() {
                let partition = u32::try_from(page).unwrap_or(0) % self.scenario.settings.partitions;
                let seed = encode(&json!({"url": url, "crawl": crawl.name()}));
                records.push(record(topic::SEEDS, partition, (url, seed), now));
            }
        }
        let sown = self.log.append(records).await;
        for tp in tps(&self.log, topic::SEEDS).into_iter().filter(|_| self.scenario.seeds_expired) {
            if let Ok(bounds) = self.log.bounds(tp).await {
                let _ = self.log.delete_below(tp, bounds.end).await;
            }
        }
        self.pages.limit(&self.log, self.scenario.first.max_pages);
        debug_assert!(sown.is_ok());
    }

    /// Writes the definitions that are due.
    async fn revise(&mut self, now_ms: u64) {
        let now = self.time.now();
        for crawl in &mut self.crawls {
            while let Some(definition) = crawl.revise(&self.scenario, now_ms, now) {
                if definition.name == CrawlName::default() {
                    self.pages.limit(&self.log, definition.max_pages);
                }
                let record = record(topic::CONTROL, 0, (&crawl_key(crawl.name()), encode(&definition)), now);
                let revised = self.log.append(vec![record]).await;
                debug_assert!(revised.is_ok());
            }
        }
    }

    /// Deletes consumed records and compacts old ones.
    async fn sweep(&mut self) {
        if self.swept.elapsed() < SWEEP_EVERY {
            return;
        }
        self.swept = Instant::now();
        let now = self.time.now();
        // A frontier deletes only in partitions that it serves: those held since the last sweep.
        let held = self.groups.held(Service::Frontier.name());
        let served: Vec<_> = held.intersection(&self.held).map(|(partition, _)| *partition).collect();
        self.held = held;
        self.pages.look(&self.log);
        if let Some(capped) = self.crawls.iter().find(|crawl| crawl.max_pages_per_site().is_some()) {
            self.site_pages.look(&self.log, capped);
        }
        let swept = self.retention.sweep_of(&served, now).await;
        debug_assert!(swept.is_ok());
        for of in [topic::FRONTIER, topic::SITES, topic::SITE_PAGES, topic::CONTROL, topic::EVENTS] {
            for tp in tps(&self.log, of) {
                let before = self.log.offset_at(tp, now - self.scenario.compaction_lag_ms).await;
                let tombstones = self.log.offset_at(tp, now - self.scenario.tombstones_kept_ms).await;
                if let (Ok(before), Ok(tombstones)) = (before, tombstones) {
                    let _ = self.log.compact_below(tp, before, tombstones);
                }
            }
        }
    }

    /// Measures the lag of the frontier's commit points and the number of outstanding dispatches.
    async fn measure(&mut self) {
        let tps = tps(&self.log, topic::FRONTIER);
        let Ok(commits) = self.log.committed(Service::Frontier.name(), &tps).await else { return };
        for (tp, commit) in tps.into_iter().zip(commits) {
            if let Ok(bounds) = self.log.bounds(tp).await {
                let span = bounds.end.saturating_sub(commit.map_or(0, |commit| commit.offset));
                self.longest_span = self.longest_span.max(span);
            }
            let end = async |topic| {
                let bounds = self.log.bounds(TopicPartition::new(topic, tp.partition)).await;
                bounds.map_or(0, |bounds| bounds.end)
            };
            let outstanding = end(topic::SCHEDULED).await.saturating_sub(end(topic::OUTCOMES).await);
            self.most_outstanding = self.most_outstanding.max(outstanding);
        }
    }

    fn judge(mut self, mut violations: Vec<String>) -> Report {
        let observed = lock(&self.observed).clone();
        violations.extend(observed.violations);
        violations.extend(self.crawls.iter().flat_map(|crawl| judge_pages(&self.log, &crawl.expected)));
        let revisited = self.crawls.iter().filter(|crawl| crawl.expected.has_revisits);
        violations.extend(revisited.flat_map(|crawl| judge_changes(&self.log, crawl)));
        let sets_clocks = |planned: &&Planned| matches!(planned.fault, Fault::SetClock(..) | Fault::SetClocks(_));
        let excused = 2 * self.scenario.faults.iter().filter(sets_clocks).count();
        violations.extend(self.crawls.iter().flat_map(|crawl| judge_visits(&self.log, crawl, excused)));
        violations.extend(judge_dead_letters(&self.log, &self.served, &self.scenario.rejected));
        violations.extend(self.pages.judge(&self.log));
        violations.extend(self.crawls.iter().flat_map(|crawl| self.site_pages.judge(&self.log, crawl)));
        let mut losses: Losses = vec![];
        let moment = |at: Instant| self.time.now() - Millis::try_from(at.elapsed().as_millis()).unwrap_or(0);
        losses.extend(self.fleet.ended.iter().map(|ended| (ended.process, moment(ended.at))));
        losses.extend(self.groups.expelled().iter().map(|expelled| (expelled.process, moment(expelled.at))));
        violations.extend(judge_politeness(&self.served, &losses, &self.crawls));
        violations.extend(judge_revisions(&self.served, &self.crawls, self.scenario.revised_within_ms));
        let by_poison = |ended: &Ended| {
            self.scenario.poison.is_some() && ended.error.as_deref().is_some_and(|error| error.contains("poison"))
        };
        let faults = self.fleet.ended.iter().filter(|ended| ended.is_fault && !by_poison(ended));
        violations.extend(faults.map(|ended| {
            format!("process {} ended: {}", ended.process, ended.error.as_deref().unwrap_or("in order, unasked"))
        }));
        let repeated = self.counts.repeated() - self.repeated_before;
        if repeated > 0.0 {
            violations.push(format!("{repeated} records were completed twice under one assignment"));
        }
        let mut repeats = Repeats::default();
        self.crawls.iter().for_each(|crawl| count_repeats(&mut repeats, &crawl.expected));
        violations.extend(self.judge_repeats(&repeats, losses.len()));
        let rows = self.crawls.iter().map(|crawl| outdated_rows(&self.store, &crawl.expected));
        let ended = self.fleet.ended.iter().filter_map(|ended| ended.error.clone()).collect();
        let asked = self.served.asked();
        let trace = asked.iter().fold(self.time.elapsed_ms(), |trace, asked| {
            Random::new(trace ^ asked.arrived_ms.unsigned_abs()).split(&asked.url).number()
        });
        Report {
            violations,
            happened: self.fleet.happened,
            ended,
            pages: self.crawls.iter().map(|crawl| documents(&self.log, crawl.name()).len()).sum(),
            requests: asked.len(),
            repeats,
            over_cap: self.pages.over,
            outdated_rows: rows.flatten().collect(),
            told_ms: observed.first_ms,
            crawl_ms: observed.crawl_ms,
            events: observed.events,
            longest_span: self.longest_span,
            most_outstanding: self.most_outstanding,
            virtual_ms: self.time.elapsed_ms(),
            trace,
            asked,
            scenario: self.scenario,
        }
    }

    /// Checks the number of repeated requests. A page is requested once, and once more after each loss of a process
    /// that had it in flight. With a depth limit, a page that is discovered at a lesser depth is requested again.
    fn judge_repeats(&self, repeats: &Repeats, losses: usize) -> Option<String> {
        let (most, url) = repeats.most.as_ref()?;
        let depths = self.crawls.iter().filter_map(|crawl| crawl.expected.web.max_depth).max().map_or(0, usize::from);
        let faults: u64 = self.fleet.happened.values().sum();
        // A pause between the two requests of a cookie wall lets it begin again.
        let pauses =
            self.crawls.iter().flat_map(|crawl| &crawl.revised).filter(|(_, revision)| revision.paused).count();
        let bound = 2 * (losses + depths + usize::try_from(faults).unwrap_or(usize::MAX)) + pauses;
        (*most > bound).then(|| format!("{url} was requested {most} times more than it needed; allowed: {bound}"))
    }
}

fn record(to: Topic, partition: u32, (key, value): (&str, Bytes), timestamp_ms: Millis) -> Record {
    let key = Some(Bytes::copy_from_slice(key.as_bytes()));
    Record { tp: TopicPartition::new(to, partition), key, value: Some(value), headers: vec![], timestamp_ms }
}

fn specs(partitions: u32) -> Vec<TopicSpec> {
    topic::topics().iter().map(|described| TopicSpec::new(described.topic, partitions, Cleanup::Keep)).collect()
}
