//! Crawls with shares of their own run at the same sites at once.

use anyhow::{Context as _, Result, ensure};
use orbweaver_cluster_tests::{Cluster, Instance, Plan};
use orbweaver_toyweb::{Logging, Serving, ToyWeb, WebConfig};
use tokio::time::{Duration, Instant, sleep};

use crate::{PATIENCE, crawls::done};

/// Returns the number of requests of each crawl.
fn requests(web: &ToyWeb, crawls: &[(String, u64)]) -> Vec<usize> {
    let entries = web.log().entries();
    let of = |name: &str| entries.iter().filter(|entry| *entry.agent == *agent(name)).count();
    crawls.iter().map(|(name, _)| of(name)).collect()
}

fn agent(crawl: &str) -> String {
    format!("{crawl}Bot/1")
}

/// Waits until the web has had these requests.
async fn until(web: &ToyWeb, crawls: &[(String, u64)], is_reached: impl Fn(&[usize]) -> bool) -> Result<Vec<usize>> {
    let begun = Instant::now();
    loop {
        let found = requests(web, crawls);
        if is_reached(&found) {
            return Ok(found);
        }
        ensure!(begun.elapsed() < PATIENCE, "only {found:?} requests");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Requests of crawls at the same sites.
struct Counted {
    /// By crawl.
    requests: Vec<usize>,
    /// Deferred dispatches for each that was scheduled.
    deferred: f64,
}

/// Crawls `hosts` sites of ten requests per second with several crawls, each with its share, and counts as many requests once
/// each crawl has had `before`.
async fn count(crawls: &[(String, u64)], hosts: u32, before: usize, counted: usize) -> Result<Counted> {
    let plan = Plan::on_shared_servers(4).with("ORBWEAVER_RATE_LIMITER__RATE", "10/s");
    let mut cluster = Cluster::start(plan).await?;
    let config = WebConfig { pages: 100_000, links: 12, bytes: 2_000, address_hosts: hosts, ..WebConfig::default() };
    let web = ToyWeb::start(config, &Serving { port: 0, logging: Logging::Memory(100_000) })?;
    let mut instances = cluster.add_all(PATIENCE).await?;
    for (name, share) in crawls {
        let (agent, share) = (agent(name), share.to_string());
        let create = ["crawls", "create", name, "--scope", "any", "--user-agent", &agent, "--share", &share];
        done(&cluster, &create)?;
        done(&cluster, &["seed", web.start_url(), "--crawl", name])?;
    }
    let before = until(&web, crawls, |found| found.iter().all(|found| *found >= before)).await?;
    let begun = Instant::now();
    let first = dispatches(&instances).await?;
    let after =
        until(&web, crawls, |found| found.iter().sum::<usize>() >= before.iter().sum::<usize>() + counted).await?;
    let last = dispatches(&instances).await?;
    let requests: Vec<usize> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    let deferred = (last.1 - first.1) / (last.0 - first.0);
    println!("requests: {requests:?} in {:?}, {deferred:.2} deferred for each", begun.elapsed());
    for instance in &mut instances {
        instance.still_runs()?;
    }
    cluster.remove().await?;
    Ok(Counted { requests, deferred })
}

/// Returns the number of dispatches that were scheduled, and that were deferred because of intervals.
async fn dispatches(instances: &[Instance]) -> Result<(f64, f64)> {
    let limiter = instances.iter().find(|instance| instance.name() == "rate-limiter").context("no rate-limiter")?;
    let deferred = limiter.metric("orbweaver_rate_limiter_deferred_dispatches_total{reason=\"interval\"}").await?;
    Ok((limiter.metric("orbweaver_rate_limiter_passed_dispatches_total").await?, deferred))
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn crawls_at_the_same_sites_have_requests_in_proportion_to_their_shares() -> Result<()> {
    let crawls = [("light".to_owned(), 100), ("heavy".to_owned(), 300)];
    let Counted { requests, deferred } = count(&crawls, 2, 40, 600).await?;
    ensure!(deferred < 2.0, "{deferred} deferrals for each request");
    let ratio = requests[1] as f64 / requests[0] as f64;
    ensure!((2.4..=3.75).contains(&ratio), "{requests:?}: {ratio}");
    Ok(())
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn sixty_crawls_at_one_site_have_as_many_requests_each_and_few_deferrals() -> Result<()> {
    let crawls: Vec<_> = (0..60).map(|number| (format!("crawl{number}"), 100)).collect();
    let Counted { requests, deferred } = count(&crawls, 1, 2, 600).await?;
    ensure!(requests.iter().all(|requests| (5..=15).contains(requests)), "{requests:?}");
    ensure!(deferred < 10.0, "{deferred} deferrals for each request");
    Ok(())
}
