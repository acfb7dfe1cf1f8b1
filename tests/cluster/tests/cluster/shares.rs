//! Crawls with shares of their own run at the same sites at once.

use anyhow::{Result, ensure};
use orbweaver_cluster_tests::{Cluster, Plan};
use orbweaver_toyweb::{Logging, Serving, ToyWeb, WebConfig};
use tokio::time::{Duration, Instant, sleep};

use crate::{PATIENCE, crawls::done};

/// Crawls with their shares.
const CRAWLS: [(&str, u64); 2] = [("light", 100), ("heavy", 300)];
/// Requests of each crawl before they are counted, and those of both that are counted.
const BEFORE: usize = 40;
const COUNTED: usize = 600;

/// Returns the number of requests of each crawl.
fn requests(web: &ToyWeb) -> [usize; 2] {
    let entries = web.log().entries();
    CRAWLS.map(|(name, _)| entries.iter().filter(|entry| *entry.agent == *agent(name)).count())
}

fn agent(crawl: &str) -> String {
    format!("{crawl}Bot/1")
}

/// Waits until the web has had these requests.
async fn until(web: &ToyWeb, is_reached: impl Fn([usize; 2]) -> bool) -> Result<[usize; 2]> {
    let begun = Instant::now();
    loop {
        let found = requests(web);
        if is_reached(found) {
            return Ok(found);
        }
        ensure!(begun.elapsed() < PATIENCE, "only {found:?} requests");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn crawls_at_the_same_sites_have_requests_in_proportion_to_their_shares() -> Result<()> {
    let plan = Plan::on_shared_servers(4).with("ORBWEAVER_RATE_LIMITER__RATE", "10/s");
    let mut cluster = Cluster::start(plan).await?;
    let config = WebConfig { pages: 100_000, links: 12, bytes: 2_000, address_hosts: 2, ..WebConfig::default() };
    let web = ToyWeb::start(config, &Serving { port: 0, logging: Logging::Memory(100_000) })?;
    let mut instances = cluster.add_all(PATIENCE).await?;
    for (name, share) in CRAWLS {
        let (agent, share) = (agent(name), share.to_string());
        let create = ["crawls", "create", name, "--scope", "any", "--user-agent", &agent, "--share", &share];
        done(&cluster, &create)?;
        done(&cluster, &["seed", web.start_url(), "--crawl", name])?;
    }
    let before = until(&web, |found| found.iter().all(|found| *found >= BEFORE)).await?;
    let begun = Instant::now();
    let after = until(&web, |found| found.iter().sum::<usize>() >= before.iter().sum::<usize>() + COUNTED).await?;
    let counted = [after[0] - before[0], after[1] - before[1]];
    println!("requests of {CRAWLS:?}: {counted:?} in {:?}", begun.elapsed());
    let ratio = counted[1] as f64 / counted[0] as f64;
    ensure!((2.4..=3.75).contains(&ratio), "{counted:?}: {ratio}");
    for instance in &mut instances {
        instance.still_runs()?;
    }
    cluster.remove().await
}
