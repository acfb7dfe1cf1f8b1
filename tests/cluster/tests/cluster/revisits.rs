//! A crawl with revisits of a web whose pages change.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use orbweaver_cluster_tests::{Cluster, Found, Plan, Service};
use orbweaver_log::{Log as _, topic_partitions};
use orbweaver_messages::{ChangeKind, PageChange, decode, topic::CHANGES};
use orbweaver_pipeline_tests::sent_versions;
use orbweaver_toyweb::{Logging, Serving, ToyWeb, WebConfig};
use tokio::time::Duration;

use crate::{
    PATIENCE,
    crawls::{done, more},
};

const READ_WAIT: Duration = Duration::from_secs(5);
const PAGES: u64 = 80;

/// Returns the changes of each URL, by visit.
async fn changes(cluster: &Cluster) -> Result<BTreeMap<String, BTreeMap<u32, PageChange>>> {
    let mut found: BTreeMap<String, BTreeMap<u32, PageChange>> = BTreeMap::new();
    for tp in topic_partitions(&cluster.log, &[CHANGES])? {
        let bounds = cluster.log.bounds(tp).await?;
        let mut reader = cluster.log.reader(tp, bounds.start).await?;
        while reader.position() < bounds.end {
            for record in reader.read(READ_WAIT).await? {
                let change: PageChange = decode("page-change", record.value.as_ref())?;
                let (url, visit) = (change.context.url.clone(), change.context.visit);
                // The successor of a frontier that has ended may write a change again.
                let known = found.entry(url.clone()).or_default().entry(visit).or_insert_with(|| change.clone());
                ensure!(known.version == change.version, "{url}: visit {visit} has two changes");
            }
        }
    }
    Ok(found)
}

/// Checks that the changes are exactly those between the versions that the server sent. Returns their number.
fn check(web: &ToyWeb, changes: &BTreeMap<String, BTreeMap<u32, PageChange>>) -> Result<usize> {
    let versions = sent_versions(&web.log().entries());
    ensure!(versions.len() as u64 == PAGES, "{} pages were sent", versions.len());
    for (url, sent) in &versions {
        let found: Vec<&PageChange> = changes.get(url).context("no change")?.values().collect();
        let kinds = found.iter().map(|change| change.kind);
        let expected = (0..sent.len()).map(|number| if number == 0 { ChangeKind::New } else { ChangeKind::Changed });
        ensure!(kinds.eq(expected), "{url}: versions {sent:?}, changes {found:?}");
        // Some pages have no validator.
        let etags: Vec<u64> =
            found.iter().filter_map(|change| change.version.etag.as_deref()?.trim_matches('"').parse().ok()).collect();
        ensure!(etags.is_empty() || etags == *sent, "{url}: versions {sent:?}, changes to {etags:?}");
    }
    Ok(changes.values().map(BTreeMap::len).sum())
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn pages_are_visited_again_and_their_changes_are_those_that_the_server_sent_also_by_the_next_frontier()
-> Result<()> {
    let plan = Plan::on_shared_servers(4).with("ORBWEAVER_RATE_LIMITER__RATE", "10/s");
    let mut cluster = Cluster::start(plan).await?;
    let config =
        WebConfig { pages: PAGES, links: 8, bytes: 1_000, address_hosts: 4, version_ms: 2_500, ..WebConfig::default() };
    let web = ToyWeb::start(config, &Serving { port: 0, logging: Logging::Memory(1 << 20) })?;
    let mut instances = cluster.add_all(PATIENCE).await?;
    done(&cluster, &["crawls", "create", "news", "--scope", "any", "--revisit", "3s..9s"])?;
    done(&cluster, &["seed", web.start_url(), "--crawl", "news"])?;
    more(&web, 2 * PAGES).await?;
    let frontier = instances.iter().position(|instance| instance.name() == Service::Frontier.name());
    let ended = instances.swap_remove(frontier.context("a frontier")?);
    ensure!(ended.terminate(PATIENCE).await?.success(), "the frontier");
    instances.push(cluster.add(Service::Frontier).await?);
    more(&web, 3 * PAGES).await?;
    let shown = done(&cluster, &["crawls", "show", "news"])?;
    ensure!(shown.contains("revisits     3s..9s"), "{shown}");

    done(&cluster, &["crawls", "set", "news", "--revisit", "never"])?;
    cluster.complete(PATIENCE, &mut instances).await?;
    let changes = changes(&cluster).await?;
    let count = check(&web, &changes)?;
    let unchanged = web.log().entries().iter().filter(|entry| entry.status == 304).count();
    println!("{} requests, {count} changes, {unchanged} answers were 304", web.log().count());
    ensure!(count as u64 > PAGES + PAGES / 4 && unchanged > 0, "{count} changes, {unchanged} answers were 304");
    let found = Found::of_crawl(&cluster.log, "news").await?;
    for (url, changes) in &changes {
        let documents = found.documents.get(url).copied().unwrap_or_default();
        ensure!(documents as usize == changes.len(), "{url}: {documents} documents of {} versions", changes.len());
    }
    for instance in &mut instances {
        instance.still_runs()?;
    }
    cluster.remove().await
}
