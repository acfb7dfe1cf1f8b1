//! Crawls with fetch profiles of their own run at the same sites at once, and change while they run.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use orbweaver_cluster_tests::{Cluster, Found, Plan};
use orbweaver_toyweb::{Entry, Logging, Serving, ToyWeb, WebConfig};
use serde_json::json;
use tokio::time::{Duration, Instant, sleep};

use crate::{PATIENCE, crawls::done, scope::orbweaver};

/// A crawl, and what its profile requires of its requests.
struct Crawl {
    name: &'static str,
    /// Options of its profile.
    profile: &'static [&'static str],
    /// Complete user agent of its requests.
    agent: &'static str,
    /// Minimum time between two of its requests to a site, in microseconds.
    interval_us: u64,
}

/// The slowest first: it is still running when the others begin. The last one has the settings of the services.
const CRAWLS: [Crawl; 3] = [
    Crawl {
        name: "slow",
        profile: &["--user-agent", "SlowBot/1", "--contact", "mailto:slow@example.org", "--rate", "2/s"],
        agent: "SlowBot/1 (+mailto:slow@example.org)",
        interval_us: 500_000,
    },
    Crawl {
        name: "medium",
        profile: &["--user-agent", "MediumBot/2", "--rate", "5/s"],
        agent: "MediumBot/2",
        interval_us: 200_000,
    },
    Crawl {
        name: "plain",
        profile: &[],
        agent: concat!("Orbweaver/", env!("CARGO_PKG_VERSION")),
        interval_us: FASTEST_US,
    },
];
/// Interval of the services' rate, and the shortest that a profile can have.
const FASTEST_US: u64 = 100_000;
const ROBOTS: &str = "/robots.txt";

/// Starts a web on two hosts, which are two sites.
fn web() -> Result<ToyWeb> {
    let config = WebConfig { pages: 240, links: 12, bytes: 2_000, address_hosts: 2, ..WebConfig::default() };
    Ok(ToyWeb::start(config, &Serving { port: 0, logging: Logging::Memory(100_000) })?)
}

async fn start() -> Result<Cluster> {
    Cluster::start(Plan::on_shared_servers(4).with("ORBWEAVER_RATE_LIMITER__RATE", "10/s")).await
}

/// Returns the number of requests with this user agent.
fn count(web: &ToyWeb, agent: &str) -> usize {
    web.log().entries().iter().filter(|entry| entry.agent == agent).count()
}

/// Waits until this number of requests had this user agent.
async fn requests(web: &ToyWeb, agent: &str, number: usize) -> Result<()> {
    let begun = Instant::now();
    while count(web, agent) < number {
        ensure!(begun.elapsed() < PATIENCE, "{} of {number} requests of {agent}", count(web, agent));
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Returns the shortest time between two successive requests to one site, in microseconds, with the later of the two.
fn shortest_gap<'a>(requests: impl Iterator<Item = &'a Entry>) -> Option<(u64, &'a Entry)> {
    let mut last = BTreeMap::new();
    let gaps = requests.filter_map(|entry| {
        let before = last.insert(&entry.host, entry.at_us)?;
        Some((entry.at_us - before, entry))
    });
    gaps.min_by_key(|(gap_us, _)| *gap_us)
}

fn ensure_gap<'a>(requests: impl Iterator<Item = &'a Entry>, interval_us: u64, of: &str) -> Result<()> {
    let (gap_us, later) = shortest_gap(requests).with_context(|| format!("no two requests of {of}"))?;
    println!("{of}: shortest gap {gap_us} us");
    ensure!(gap_us >= interval_us, "{of}: {gap_us} us before {later:?}");
    Ok(())
}

/// Checks that each agent has requested robots.txt once from each host.
fn ensure_robots(entries: &[Entry], agents: &[&str]) -> Result<()> {
    let mut found: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.target == ROBOTS) {
        *found.entry((&entry.agent, &entry.host)).or_default() += 1;
    }
    ensure!(found.len() == 2 * agents.len() && found.values().all(|count| *count == 1), "{found:?}");
    ensure!(found.keys().all(|(agent, _)| agents.contains(agent)), "{found:?}");
    Ok(())
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn crawls_at_the_same_sites_have_their_own_agents_and_rates_and_share_the_clocks_of_the_sites() -> Result<()> {
    let mut cluster = start().await?;
    let web = web()?;
    let mut instances = cluster.add_all(PATIENCE).await?;
    // Each crawl has every third page as a seed and follows no link, so that a page has one agent.
    let truth = web.truth();
    let pages = |number: usize| truth.iter().skip(number).step_by(CRAWLS.len()).map(|page| &*page.url);
    for crawl in &CRAWLS {
        let create = ["crawls", "create", crawl.name, "--scope", "any", "--max-depth", "0"];
        done(&cluster, &[&create, crawl.profile].concat())?;
    }
    for (crawl, number) in CRAWLS.iter().zip(0..) {
        let seeds: Vec<&str> = pages(number).collect();
        done(&cluster, &[&["seed", "--crawl", crawl.name], &*seeds].concat())?;
    }
    for crawl in &CRAWLS {
        let waited = done(&cluster, &["status", "--crawl", crawl.name, "--wait", "--max-time", "5m"])?;
        ensure!(waited.contains(&format!("crawl `{}`: complete", crawl.name)), "{waited}");
    }

    Found::read(&cluster.log).await?.check(&truth, true)?;
    let entries = web.log().entries();
    let requested = entries.iter().filter(|entry| entry.target != ROBOTS);
    let mut agents: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for entry in requested {
        agents.entry(format!("http://{}{}", entry.host, entry.target)).or_default().push(&entry.agent);
    }
    for (crawl, number) in CRAWLS.iter().zip(0..) {
        for page in pages(number) {
            let sent = agents.remove(page).unwrap_or_default();
            ensure!(sent == [crawl.agent], "{page} of `{}`: requests of {sent:?}", crawl.name);
        }
    }
    ensure!(agents.is_empty(), "requests of no crawl: {agents:?}");

    let of = |agent: &'static str| entries.iter().filter(move |entry| entry.agent == agent);
    for crawl in &CRAWLS {
        ensure_gap(of(crawl.agent), crawl.interval_us, crawl.name)?;
    }
    ensure_gap(entries.iter(), FASTEST_US, "all crawls")?;
    ensure_robots(&entries, &CRAWLS.map(|crawl| crawl.agent))?;
    let begun = CRAWLS.iter().filter_map(|crawl| of(crawl.agent).map(|entry| entry.at_us).min()).max();
    let ended = CRAWLS.iter().filter_map(|crawl| of(crawl.agent).map(|entry| entry.at_us).max()).min();
    ensure!(begun < ended, "the crawls did not run at once: the last began at {begun:?}, the first ended at {ended:?}");
    for instance in &mut instances {
        instance.still_runs()?;
    }
    cluster.remove().await
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn no_request_has_the_former_user_agent_of_a_crawl_one_second_after_the_answer_of_the_command() -> Result<()> {
    let (former, new, interval_us) = ("FormerBot/1", "NewBot/2", 200_000);
    let mut cluster = start().await?;
    let web = web()?;
    let mut instances = cluster.add_all(PATIENCE).await?;
    let profile = ["--user-agent", former, "--rate", "5/s", "--header", "X-Team: search"];
    done(&cluster, &[&["crawls", "create", "docs", "--scope", "any"], &profile[..]].concat())?;
    done(&cluster, &["seed", web.start_url(), "--crawl", "docs"])?;
    requests(&web, former, 30).await?;

    let set = done(&cluster, &["crawls", "set", "docs", "--user-agent", new])?;
    ensure!(set.contains("applies, in place of"), "{set}");
    sleep(Duration::from_secs(1)).await;
    let before = count(&web, former);
    requests(&web, new, 30).await?;
    let shown = orbweaver(&cluster, &["crawls", "show", "docs", "--json"])?;
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout)?;
    let expected = json!({"user_agent": new, "interval_ms": 200, "headers": {"x-team": "search"}});
    ensure!(shown["definition"]["profile"] == expected, "{shown}");
    let text = done(&cluster, &["crawls", "show", "docs"])?;
    ensure!(text.contains("user agent   NewBot/2") && !text.contains("contact"), "{text}");

    cluster.complete(PATIENCE, &mut instances).await?;
    ensure!(count(&web, former) == before, "{} late requests of {former}", count(&web, former) - before);
    Found::read(&cluster.log).await?.check(&web.truth(), true)?;
    let entries = web.log().entries();
    ensure_gap(entries.iter(), interval_us, "both agents")?;
    ensure_robots(&entries, &[former, new])?;
    for instance in &mut instances {
        instance.still_runs()?;
    }
    cluster.remove().await
}
