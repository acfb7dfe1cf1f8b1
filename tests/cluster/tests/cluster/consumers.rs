//! Users' consumer groups, which prevent the deletion of documents.

use std::time::Duration;

use anyhow::{Result, ensure};
use orbweaver_cluster_tests::{Cluster, Plan, Service};
use orbweaver_log::{Log as _, Offset, Record, TopicPartition};
use orbweaver_messages::topic::DOCUMENTS;
use orbweaver_pipeline_tests::Output;
use orbweaver_stage::{Clock as _, SystemClock};
use orbweaver_toyweb::{Logging, Serving, ToyWeb, WebConfig};
use tokio::time::{Instant, sleep};

use crate::{
    PATIENCE,
    commands::{lines, orbweaver},
};

/// Waits until exactly the records below an offset are deleted.
async fn until_deleted(cluster: &Cluster, tp: TopicPartition, below: Offset) -> Result<()> {
    let begun = Instant::now();
    loop {
        let start = cluster.log.bounds(tp).await?.start;
        ensure!(start <= below, "{tp} begins at {start}, above {below}");
        if start == below {
            return Ok(());
        }
        ensure!(begun.elapsed() < PATIENCE, "{tp} still begins at {start}, not at {below}");
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn a_declared_group_keeps_documents_an_undeclared_one_does_not_and_a_removed_one_no_more() -> Result<()> {
    let plan = Plan::on_shared_servers(2)
        .with("ORBWEAVER_DOCUMENTS__RETENTION", "1s")
        .with("ORBWEAVER_FRONTIER__DELETE_INTERVAL", "200ms");
    let mut cluster = Cluster::start(plan).await?;
    let tp = TopicPartition::new(DOCUMENTS, 1);
    let minute_ago = SystemClock.now() - 60_000;
    let document = Record { tp, key: None, value: Some("{}".into()), headers: vec![], timestamp_ms: minute_ago };
    cluster.log.append(vec![document; 10]).await?;
    let listed = orbweaver(&cluster, "consumers list").await?;
    ensure!(listed.stdout.contains("no group is declared"), "{}", listed.stdout);

    // A declared group, with its start committed; another group commits, but is not declared.
    let added = orbweaver(&cluster, "consumers add indexer").await?;
    added.expect(0, &[])?;
    ensure!(added.stdout.contains(&format!("group.id={}.indexer", cluster.prefix())), "{}", added.stdout);
    orbweaver(&cluster, "consumers add indexer").await?.expect(0, &[])?;
    let committed = cluster.log.committed("indexer", &[TopicPartition::new(DOCUMENTS, 0), tp]).await?;
    ensure!(committed.iter().flatten().all(|commit| commit.offset == 0) && committed.len() == 2, "{committed:?}");
    cluster.log.begin_group("curious", vec![(tp, 0)]).await?;
    let mut frontier = cluster.add(Service::Frontier).await?;
    frontier.ready(PATIENCE).await?;

    // Regardless of their age, exactly the records that the group has committed are deleted.
    for commit in [4, 7] {
        cluster.log.begin_group("indexer", vec![(tp, commit)]).await?;
        until_deleted(&cluster, tp, commit).await?;
    }
    let listed = orbweaver(&cluster, "consumers list --json").await?;
    let [group] = &lines(&listed)?[..] else { anyhow::bail!("not one group: {}", listed.stdout) };
    ensure!(group["group"] == "indexer" && group["lag"] == 3 && group["without_commit"] == 0, "{group}");

    // Groups of changes are apart: a group of documents that never reads them keeps none.
    let added = orbweaver(&cluster, "consumers add watcher --topic changes").await?;
    added.expect(0, &[])?;
    ensure!(added.stdout.contains(".changes"), "{}", added.stdout);
    let listed = orbweaver(&cluster, "consumers list --json").await?;
    ensure!(lines(&listed)?.len() == 2, "{}", listed.stdout);

    // Once removed, the group retains nothing, and the time limit applies.
    orbweaver(&cluster, "consumers remove indexer").await?.expect(0, &[])?;
    until_deleted(&cluster, tp, 10).await?;
    orbweaver(&cluster, "consumers remove indexer").await?.expect(64, &["indexer", "not declared"])?;
    frontier.kill().await?;
    cluster.remove().await
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn a_collector_that_ended_at_its_crawls_cap_keeps_nothing() -> Result<()> {
    let plan = Plan::on_shared_servers(4).with("ORBWEAVER_FRONTIER__DELETE_INTERVAL", "200ms");
    let mut cluster = Cluster::start(plan).await?;
    let config = WebConfig { pages: 400, bytes: 1_000, ..WebConfig::default() };
    let web = ToyWeb::start(config, &Serving { port: 0, logging: Logging::Count })?;
    let mut instances = cluster.add_all(PATIENCE).await?;
    let out = tempfile::tempdir()?;
    // The same command with a raised cap, and at last with none, continues the same files.
    for max_pages in ["20", "80", "none"] {
        let (start, out) = (web.start_url(), out.path());
        let crawl = format!("crawl {start} --scope any --max-pages {max_pages} --out {}", out.display());
        let at_cap = if max_pages == "none" { "complete after" } else { "`default` is at its cap" };
        orbweaver(&cluster, &crawl).await?.expect(0, &[at_cap])?;
        let documents = Output::documents(out)?.len();
        let all = web.truth().len();
        let least = max_pages.parse().unwrap_or(all);
        ensure!((least..=all).contains(&documents), "{documents} documents of {all} at a cap of {max_pages}");
        let listed = orbweaver(&cluster, "consumers list").await?;
        ensure!(listed.stdout.contains("no group is declared"), "at a cap of {max_pages}: {}", listed.stdout);
    }
    instances.iter_mut().try_for_each(|instance| instance.still_runs())?;
    cluster.remove().await
}
