//! One run: a web, a fleet, a schedule, a verdict.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use orbweaver_cluster_tests::{Cluster, Found, Plan, Service, binary};
use orbweaver_stage::{Clock as _, SystemClock};
use orbweaver_testkit::{SESSION, Stack};
use orbweaver_toyweb::{Entry, Expected, Kind, Logging, Serving, ToyWeb, Web, WebConfig};
use serde_json::json;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep_until, timeout};

use crate::clock::FakedClock;
use crate::commits;
use crate::crawls::{FIRST, FOURTH, GateCrawl, NEWS, SECOND, THIRD, create_news, create_second, end_revisits};
use crate::fault::{Fault, Server, Slot};
use crate::fleet::Fleet;
use crate::journal::Journal;
use crate::kept::{Keepsakes, keepsakes};
use crate::news::News;
use crate::proxy::Network;
use crate::schedule::{Extent, Step, schedule};
use crate::share::{links_of, site_time};
use crate::stored::{Rows, Stored};
use crate::usage::Usage;
use crate::verdict::{Evidence, Rules, Verdict};
use crate::watch::{Watch, lags, read};

/// Time allowed for operations of servers and processes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time allowed for completion after the last fault: more than two leases; multiplied by [`Extent::stretch`].
const COMPLETES_WITHIN: Duration = Duration::from_secs(360);
/// Name of the directory of the servers.
pub const SERVERS: &str = "servers";
/// Name of the request log.
pub(crate) const REQUESTS: &str = "requests.jsonl";
/// Maximum number of pages in flight per fetcher.
const CONCURRENCY: u64 = 8;
/// Additional requests for one URL within a dispatch.
const WITHIN_A_DISPATCH: u64 = 5;
/// Default of `runtime.shutdown_budget`, in seconds; five seconds later unfinished work is aborted.
const SHUTDOWN_BUDGET_S: u64 = 20;
/// Tolerance for a busy machine, in seconds.
const MARGIN_S: u64 = 10;

/// Offset of the CQL server's proxy from the first port of `tests/stack --proxied`; brokers and their proxies take six
/// ports.
const CQL_PROXY: u16 = 6;

/// Settings of a run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Seed of web and faults.
    pub seed: u64,
    /// Number of ordinary pages of the web.
    pub pages: u64,
    /// Number of sites they are spread over.
    pub sites: u32,
    /// Minimum time between requests to a site, in milliseconds; at least 100.
    pub interval_ms: u64,
    /// First of seven ports: listeners of the brokers for proxies, and proxies.
    pub proxied_port: u16,
    /// Extent of the schedule, and number of brokers.
    pub extent: Extent,
    /// Mount point of a small disk for the states of all instances.
    pub small_disk: Option<PathBuf>,
    /// Path of libfaketime, by which the clocks of all instances can be set.
    pub clock_library: Option<PathBuf>,
    /// Output directory of journal, request log, truth and process logs.
    pub out: PathBuf,
}

/// Scales a default, which is meant for a session of 45 s, to the session of the test servers.
fn in_proportion(shipped: Duration) -> String {
    format!("{}ms", (shipped * u32::try_from(SESSION.as_secs()).unwrap_or(u32::MAX) / 45).as_millis())
}

/// Returns the variables of all instances: those required by a web on loopback, few servers and their short session.
/// All other settings are defaults.
fn plan(stack: &Stack, proxies: Proxies, settings: &Settings, clock: Option<&FakedClock>) -> Plan {
    let rate = format!("{}ms", settings.interval_ms);
    let request = in_proportion(Duration::from_secs(20));
    let variables = [
        // Services connect through the proxies, the gate itself does not.
        ("ORBWEAVER_KAFKA__BROKERS", proxies.brokers),
        ("ORBWEAVER_CQL__NODES", proxies.cql),
        ("ORBWEAVER_FETCHER__ALLOW_PRIVATE", "true".to_owned()),
        // Requests in flight at a fault may be repeated.
        ("ORBWEAVER_FETCHER__CONCURRENCY", CONCURRENCY.to_string()),
        ("ORBWEAVER_RATE_LIMITER__RATE", rate),
        ("ORBWEAVER_NORMALIZER_DEDUP__DEFAULT_SCOPE", "any".to_owned()),
        ("ORBWEAVER_CQL__REPLICATION_FACTOR", "1".to_owned()),
        ("ORBWEAVER_RUNTIME__FROZEN_AFTER", in_proportion(Duration::from_secs(20))),
        ("ORBWEAVER_FETCHER__CONNECT_TIMEOUT", request.clone()),
        ("ORBWEAVER_FETCHER__HEADERS_TIMEOUT", request.clone()),
        ("ORBWEAVER_FETCHER__REQUEST_TIMEOUT", request),
    ];
    Plan {
        brokers: stack.brokers.clone(),
        cql: stack.cql.clone(),
        partitions: 4,
        replication: u16::from(settings.extent.brokers),
        record_limit: orbweaver_log::RECORD_LIMIT,
        properties: vec![],
        variables: variables
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .chain(clock.into_iter().flat_map(FakedClock::variables))
            .collect(),
    }
}

/// Addresses that the services use for the servers.
struct Proxies {
    brokers: String,
    cql: String,
}

/// Starts a proxy in front of each server.
async fn proxied(stack: &Stack, settings: &Settings) -> Result<(Network, Proxies)> {
    let first = settings.proxied_port;
    let broker = |node: u8| (Server::Broker(node), first + u16::from(node) + 2, first + u16::from(node) - 1);
    let mut links: Vec<_> = (1..=settings.extent.brokers).map(broker).collect();
    let address = |port: u16| format!("127.0.0.1:{port}");
    let brokers: Vec<_> = links.iter().map(|(_, from, _)| address(*from)).collect();
    let (_, cql) = stack.cql.rsplit_once(':').context("the port of the CQL server")?;
    links.push((Server::Cql, first + CQL_PROXY, cql.parse()?));
    let network = Network::start(&links).await.context("the proxies of the servers")?;
    Ok((network, Proxies { brokers: brokers.join(","), cql: address(first + CQL_PROXY) }))
}

/// Returns the web of a run: its seed, ordinary pages and sites.
#[must_use]
pub fn web(seed: u64, pages: u64, sites: u32) -> WebConfig {
    let specials = [
        (Kind::Tree, 2),
        (Kind::Pictures, 1),
        (Kind::ManyLinks, 1),
        (Kind::LongLinks, 1),
        (Kind::Chain, 4),
        (Kind::Loop, 1),
        (Kind::Respelled, 2),
        // Few, since each lengthens the interval of its site, for each crawl, and hundreds of seconds are needed to undo that.
        (Kind::Slow, 4),
        (Kind::Flaky, 3),
        (Kind::Busy, 3),
        (Kind::BusyHost, 2),
        (Kind::Dead, 3),
        (Kind::Gzip, 2),
        (Kind::Spellings, 2),
        (Kind::Resource, 1),
        (Kind::Disallowed, 1),
        (Kind::RobotsRefusing, 1),
    ];
    WebConfig {
        seed,
        pages,
        links: 20,
        bytes: 4_000,
        address_hosts: sites,
        specials: specials.into(),
        slow_ms: 1_500,
        retry_after_s: 4,
        ..WebConfig::default()
    }
}

/// Runs one seed on servers of its own and judges it. Returns the verdict and its summary line, for the caller to
/// print.
pub async fn run(settings: &Settings, stack: Stack) -> Result<(String, Verdict)> {
    let config = web(settings.seed, settings.pages, settings.sites);
    let out = &settings.out;
    let log = out.join(REQUESTS);
    let journal = Journal::create(&out.join("journal.jsonl"))?;
    let steps = schedule(settings.seed, settings.extent);
    journal.note("settings", json!({ "run": format!("{settings:?}"), "web": format!("{config:?}") }));
    journal.note("schedule", steps.iter().map(|step| format!("{} ms: {}", step.at_ms, step.fault)).collect());
    let rules = |twice_at_most| Rules {
        interval_us: settings.interval_ms * 1_000,
        retry_after_us: u64::from(config.retry_after_s) * 1_000_000,
        slow_us: config.slow_ms * 1_000,
        twice_at_most,
        ends_within_ms: (SHUTDOWN_BUDGET_S + 5 + MARGIN_S) * 1_000,
    };
    let web = ToyWeb::start(config.clone(), &Serving { port: 0, logging: Logging::File(log.clone()) })?;
    let truth = web.truth();
    write_truth(&out.join("truth.jsonl"), &truth)?;
    let generated = Web::new(config.clone(), web.address().port())?;
    let (kept, links) = (keepsakes(&generated, &truth), links_of(&generated, &truth));
    let news = News::start((settings.seed, settings.sites), out.join("news.jsonl"))?;

    let (network, proxies) = proxied(&stack, settings).await?;
    let clock = settings.clock_library.as_ref().map(|library| FakedClock::new(library, out)).transpose()?;
    let cluster = Cluster::start(plan(&stack, proxies, settings, clock.as_ref())).await?;
    let fleet = Arc::new(
        Fleet::new(cluster, stack, network, journal, out.join("instances"))
            .with_disk(settings.small_disk.clone())
            .with_clock(clock)
            .with_start(web.start_url()),
    );
    for service in Service::ALL {
        for number in 1..=settings.extent.instances {
            fleet.start(Slot { service, number }, None).await?;
        }
    }
    fleet.ready(PATIENCE).await?;
    fleet.cluster.seed(&[web.start_url()]).await?;
    create_second(&fleet, web.start_url()).await?;
    create_news(&fleet, &news.urls()).await?;
    fleet.journal.note("seeded", json!(web.start_url()));

    let (watch, usage, servers) = (Watch::default(), Usage::default(), out.join(SERVERS));
    let complete = tokio::select! {
        () = usage.run(&fleet, &servers) => Ok(false),
        never = watch.run(&fleet.cluster.log, &fleet.journal) => never.map(|()| false),
        complete = disturb(&fleet, &news, steps, &watch, COMPLETES_WITHIN * settings.extent.stretch) => complete,
    }?;
    let complete = complete && status_says_complete(&fleet).await?;
    fleet.end().await;
    let reading = read(&fleet.cluster.log).await?;
    fleet.journal.note("at the end", json!({ "lags": lags(&reading) }));

    let failures = web.log().failures() + news.failures();
    ensure!(failures == 0, "{failures} requests are missing in the logs of the webs");
    let start_url = web.start_url().to_owned();
    web.stop();
    let mut tally = std::mem::take(&mut *fleet.tally().await);
    let mut requests = read_requests(&log)?;
    let time = site_time(&links, &truth, &requests, settings.interval_ms * 1_000);
    let (news, mut revisits) = news.observed(&fleet.cluster.log, &requests).await?;
    let mut of = |crawl: GateCrawl| requests.extract_if(.., |entry| crawl.sends(&entry.agent)).collect::<Vec<_>>();
    let (of_second, of_third, of_fourth) = (of(SECOND), of(THIRD), of(FOURTH));
    // Woken by a frontier with that time, and by the one after it.
    let clocks_set = ["clock_ahead", "clock_back"].into_iter().filter_map(|kind| tally.faults.get(kind));
    revisits.excused = 2 * usize::try_from(clocks_set.sum::<u32>())?;
    let common = Evidence {
        truth,
        kept,
        completions_ms: watch.completions_ms(),
        complete_at_the_end: complete && reading.is_caught_up(),
        faults_ms: std::mem::take(&mut tally.faults_ms),
        clocks_ms: std::mem::take(&mut tally.clocks_ms),
        ..Evidence::default()
    };
    let completions_ms = common.completions_ms.clone();
    let mut news = of_crawl(&fleet, NEWS, Evidence { completions_ms, ..news }).await?;
    let mut second = of_crawl(&fleet, SECOND, common.clone()).await?;
    second.paused_ms = std::mem::take(&mut tally.paused_ms);
    second.requests = of_second;
    let mut evidence = of_crawl(&fleet, FIRST, common).await?;
    evidence.requests = requests;
    evidence.deleted = deleted(&fleet, &evidence.kept, [&of_third, &of_fourth], &start_url).await?;
    evidence.others = [second.requests.clone(), of_third, of_fourth, news.requests.clone()].concat();
    let is_news = |url: &String| news.kept.urls.contains_key(url);
    (news.stored.pages, evidence.stored.pages) = fleet.cluster.stored_pages().await?.into_iter().partition(is_news);
    evidence.stored.crawls = 2;
    // That of the fourth crawl.
    let fourth = evidence.stored.pages.iter().position(|url| *url == start_url);
    fourth.map(|at| evidence.stored.pages.swap_remove(at));
    (evidence.exits, evidence.troubles) = (std::mem::take(&mut tally.exits), std::mem::take(&mut tally.troubles));
    let at_most = (CONCURRENCY + WITHIN_A_DISPATCH) * (tally.fetchers_hurt + tally.fetchers_cut_off);
    let rules = rules(at_most);
    let verdict = Verdict::on(&evidence, &rules)
        .and(SECOND.name, Verdict::on(&second, &rules))
        .and(NEWS.name, Verdict::on(&news, &rules))
        .and(NEWS.name, Verdict::on_revisits(&news.requests, &revisits));
    tally.faults.insert("failed_commits", commits::failed(&out.join("instances"))?);
    let faults: Vec<_> = tally.faults.iter().map(|(kind, count)| format!("{kind}={count}")).collect();
    let usage = usage.by_thirds(*evidence.completions_ms.last().unwrap_or(&SystemClock.now()));
    let share = time.percent(settings.interval_ms * 1_000).map(|share| format!("share={share:.1}% "));
    let (seed, share) = (settings.seed, share.unwrap_or_default());
    let line = format!("seed {seed}: faults {}; {usage}; {share}{verdict}", faults.join(" "));
    fleet.journal.note("verdict", json!({ "line": line, "findings": verdict.findings().collect::<Vec<_>>() }));
    if let Some(fleet) = Arc::into_inner(fleet) {
        fleet.cluster.remove().await?;
    }
    Ok((line, verdict))
}

/// Reads the documents and rows of a crawl.
async fn of_crawl(fleet: &Fleet, crawl: GateCrawl, evidence: Evidence) -> Result<Evidence> {
    let found = Found::of_crawl(&fleet.cluster.log, crawl.name).await?;
    let stored = Stored::read((&fleet.stack.cql, fleet.cluster.keyspace()), &evidence.kept, crawl).await?;
    let Found { documents, contents, dead_letters } = found;
    Ok(Evidence { documents, contents, dead_letters, stored, ..evidence })
}

/// Returns the findings about the deleted crawl, and about the one that has its name.
async fn deleted(fleet: &Fleet, kept: &Keepsakes, requests: [&[Entry]; 2], start_url: &str) -> Result<Vec<String>> {
    let mut found = vec![];
    let stored = Stored::read((&fleet.stack.cql, fleet.cluster.keyspace()), kept, THIRD).await?;
    let left = stored.urls.into_iter().filter(|(_, rows)| *rows != Rows::default());
    found.extend(left.map(|(url, rows)| format!("{url}: a row of the deleted crawl: {rows:?}")));
    for (crawl, requests) in [THIRD, FOURTH].into_iter().zip(requests) {
        if requests.iter().all(|entry| entry.target == "/robots.txt") {
            found.push(format!("no page was requested for the crawl `{}`", crawl.name));
        }
    }
    let documents = Found::of_crawl(&fleet.cluster.log, FOURTH.name).await?.documents;
    if documents.keys().ne([start_url]) {
        found.push(format!("documents of the crawl `{}`: {documents:?}", FOURTH.name));
    }
    Ok(found)
}

/// Applies the schedule, then waits for completion. The revisits end with the last fault, except for the deletion, which
/// lasts longer: from then on all crawls may complete. Returns `true` if completion was reported after the last fault.
async fn disturb(fleet: &Arc<Fleet>, news: &News, steps: Vec<Step>, watch: &Watch, within: Duration) -> Result<bool> {
    let (begun, mut waited) = (Instant::now(), Duration::ZERO);
    let mut before = begun;
    let (mut faults, mut deletions, mut revisits) = (JoinSet::new(), 0, true);
    let mut steps = steps.into_iter().peekable();
    let mut ticks = interval(Duration::from_millis(200));
    while steps.peek().is_some() || !faults.is_empty() || revisits {
        ticks.tick().await;
        let now = Instant::now();
        if fleet.waits_for_server() {
            waited += now - before;
        }
        before = now;
        while let Some(step) = steps.next_if(|step| now - begun >= waited + Duration::from_millis(step.at_ms)) {
            let fleet = Arc::clone(fleet);
            deletions += usize::from(step.fault == Fault::Delete);
            faults.spawn(async move {
                fleet.suffer(step.fault).await;
                step.fault
            });
        }
        while let Some(done) = faults.try_join_next() {
            deletions -= usize::from(done.context("a fault")? == Fault::Delete);
        }
        if revisits && steps.peek().is_none() && faults.len() == deletions && news.is_visited_twice() {
            end_revisits(fleet).await?;
            fleet.journal.note("no more revisits", json!(null));
            revisits = false;
        }
        fleet.supervise().await?;
    }
    let over = SystemClock.now();
    fleet.journal.note("all faults are over", json!(null));
    let end = Instant::now() + within;
    // Both offset snapshots of the proof must be later.
    let mut reported = None;
    while reported.is_none() && Instant::now() < end {
        ticks.tick().await;
        fleet.supervise().await?;
        reported = watch.completions_ms().into_iter().filter(|at| *at > over).nth(1);
    }
    // Leaves time for remaining work to show up.
    sleep_until(Instant::now() + Duration::from_secs(2)).await;
    Ok(reported.is_some())
}

/// Returns whether `orbweaver status --wait`, the command for users, reports completion.
async fn status_says_complete(fleet: &Fleet) -> Result<bool> {
    let mut command = Command::new(binary("orbweaver")?);
    command.args(["status", "--wait", "--max-time", "60s", "--brokers", &fleet.stack.brokers]);
    command.args(["--prefix", fleet.cluster.prefix()]).kill_on_drop(true).stdin(Stdio::null());
    let output = timeout(PATIENCE, command.output()).await.context("`orbweaver status --wait` does not end")??;
    let said = String::from_utf8_lossy(&output.stderr);
    fleet.journal.note("status", json!({ "code": output.status.code(), "said": said }));
    // 65: complete, with dead letters, for which the verdict has its own rules.
    Ok(matches!(output.status.code(), Some(0 | 65)))
}

fn write_truth(path: &Path, truth: &[Expected]) -> Result<()> {
    let text: String = truth.iter().map(|expected| format!("{}\n", json!(expected))).collect();
    std::fs::write(path, text).with_context(|| format!("{}", path.display()))
}

/// Reads a request log. An incomplete last line, as of an interrupted run, is ignored.
pub(crate) fn read_requests(path: &Path) -> Result<Vec<Entry>> {
    let text = std::fs::read_to_string(path)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
}
