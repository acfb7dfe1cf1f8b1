//! Crawls with fetch profiles of their own run at the same sites at once, and change while they run.

use std::{collections::BTreeMap, io::Write as _};

use anyhow::{Context as _, Result, ensure};
use orbweaver_cluster_tests::{Cluster, Found, Plan};
use orbweaver_log::{Log as _, TopicPartition};
use orbweaver_messages::{Page, PageKind, decode, topic};
use orbweaver_toyweb::{Entry, Fate, Kind, Logging, Serving, ToyWeb, WebConfig};
use serde_json::json;
use tokio::time::{Duration, Instant, sleep};

use crate::{PATIENCE, crawls::done, scope::orbweaver};

/// A crawl, and what its profile requires of its requests.
struct Crawl {
    name: String,
    /// Options of its profile.
    profile: Vec<String>,
    /// Complete user agent of its requests.
    agent: String,
    /// Minimum time between two of its requests to a site, in microseconds.
    interval_us: u64,
}

/// Returns ten crawls, the first of which also has a contact, and the last of which has the settings of the services.
fn crawls() -> Vec<Crawl> {
    let own = |number: u64| {
        let name = format!("crawl{number}");
        let (agent, rate) = (format!("{name}Bot/{number}"), format!("{}/s", number + 1));
        let mut profile = ["--user-agent", &agent, "--rate", &rate].map(str::to_owned).to_vec();
        let mut complete = agent;
        if number == 1 {
            profile.extend(["--contact", "mailto:one@example.org"].map(str::to_owned));
            complete.push_str(" (+mailto:one@example.org)");
        }
        Crawl { name, profile, agent: complete, interval_us: (1_000 / (number + 1)) * 1_000 }
    };
    let agent = concat!("Orbweaver/", env!("CARGO_PKG_VERSION")).to_owned();
    let plain = Crawl { name: "plain".to_owned(), profile: vec![], agent, interval_us: FASTEST_US };
    (1..10).map(own).chain([plain]).collect()
}

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
    let (mut cluster, crawls) = (start().await?, crawls());
    let web = web()?;
    let mut instances = cluster.add_all(PATIENCE).await?;
    for Crawl { name, profile, .. } in &crawls {
        let create = ["crawls", "create", name, "--scope", "any", "--max-depth", "0"];
        done(&cluster, &[&create[..], &profile.iter().map(String::as_str).collect::<Vec<_>>()].concat())?;
    }
    // Each page is a seed of one crawl, which follows no link, so that it has one agent. One command seeds all, so that
    // they begin at the same time.
    let truth = web.truth();
    let pages = |number: usize| truth.iter().skip(number).step_by(crawls.len()).map(|page| &*page.url);
    let mut seeds = tempfile::NamedTempFile::new()?;
    for (crawl, number) in crawls.iter().zip(0..) {
        for url in pages(number) {
            writeln!(seeds, "{}", json!({"url": url, "crawl": crawl.name}))?;
        }
    }
    let file = seeds.path().to_str().context("a path that is no text")?;
    done(&cluster, &["seed", "--crawl", &crawls[0].name, "--seeds", file])?;
    for Crawl { name, .. } in &crawls {
        let waited = done(&cluster, &["status", "--crawl", name, "--wait", "--max-time", "5m"])?;
        ensure!(waited.contains(&format!("crawl `{name}`: complete")), "{waited}");
    }

    Found::read(&cluster.log).await?.check(&truth, true)?;
    let entries = web.log().entries();
    let requested = entries.iter().filter(|entry| entry.target != ROBOTS);
    let mut agents: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for entry in requested {
        agents.entry(format!("http://{}{}", entry.host, entry.target)).or_default().push(&entry.agent);
    }
    for (crawl, number) in crawls.iter().zip(0..) {
        for page in pages(number) {
            let sent = agents.remove(page).unwrap_or_default();
            ensure!(sent == [&*crawl.agent], "{page} of `{}`: requests of {sent:?}", crawl.name);
        }
    }
    ensure!(agents.is_empty(), "requests of no crawl: {agents:?}");

    let of = |agent: &str| entries.iter().filter(|entry| entry.agent == agent).collect::<Vec<_>>();
    for Crawl { name, agent, interval_us, .. } in &crawls {
        ensure_gap(of(agent).into_iter(), *interval_us, name)?;
    }
    ensure_gap(entries.iter(), FASTEST_US, "all crawls")?;
    ensure_robots(&entries, &crawls.iter().map(|crawl| &*crawl.agent).collect::<Vec<_>>())?;
    let times = |crawl: &Crawl| of(&crawl.agent).iter().map(|entry| entry.at_us).collect::<Vec<_>>();
    let begun = crawls.iter().filter_map(|crawl| times(crawl).into_iter().min()).max();
    let ended = crawls.iter().filter_map(|crawl| times(crawl).into_iter().max()).min();
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

/// Returns the pages in the log that are not HTML, by URL, each with its content type and its body.
async fn other_pages(cluster: &Cluster) -> Result<BTreeMap<String, (Option<String>, Vec<u8>)>> {
    let mut found = BTreeMap::new();
    for partition in 0..cluster.log.partitions(topic::PAGES)? {
        let tp = TopicPartition::new(topic::PAGES, partition);
        let bounds = cluster.log.bounds(tp).await?;
        let mut reader = cluster.log.reader(tp, bounds.start).await?;
        while reader.position() < bounds.end {
            for record in reader.read(PATIENCE).await? {
                let page: Page = decode("page", record.header("page"))?;
                if page.kind == PageKind::Other {
                    let body = record.value.map(Vec::from).unwrap_or_default();
                    found.insert(page.context.url, (page.content_type, body));
                }
            }
        }
    }
    Ok(found)
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn bodies_of_the_types_that_a_crawl_accepts_are_in_the_log_and_have_no_document() -> Result<()> {
    let mut cluster = start().await?;
    let config = WebConfig { pages: 20, specials: [(Kind::Resource, 2)].into(), ..WebConfig::default() };
    let web = ToyWeb::start(config, &Serving { port: 0, logging: Logging::Memory(10_000) })?;
    let mut instances = cluster.add_all(PATIENCE).await?;
    let accept = ["--accept", "application/pdf,text/*"];
    done(&cluster, &[&["crawls", "create", "docs", "--scope", "any"], &accept[..]].concat())?;
    let shown = done(&cluster, &["crawls", "show", "docs"])?;
    ensure!(shown.contains("also accepts application/pdf, text/*"), "{shown}");
    done(&cluster, &["seed", web.start_url(), "--crawl", "docs"])?;
    cluster.complete(PATIENCE, &mut instances).await?;

    let truth = web.truth();
    Found::read(&cluster.log).await?.check(&truth, true)?;
    let types = [("paper.pdf", "application/pdf"), ("notes.txt", "text/plain")];
    let others = truth.iter().filter(|expected| expected.fate == Fate::NotHtml);
    let expected: BTreeMap<_, _> = others
        .filter_map(|expected| {
            let (name, content_type) = types.iter().find(|(name, _)| expected.url.ends_with(name))?;
            Some((expected.url.clone(), (Some((*content_type).to_owned()), name.as_bytes().to_vec())))
        })
        .collect();
    let found = other_pages(&cluster).await?;
    ensure!(expected.len() == 4 && found == expected, "found {found:?} in place of {expected:?}");
    for instance in &mut instances {
        instance.still_runs()?;
    }
    cluster.remove().await
}
