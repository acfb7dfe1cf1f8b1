//! Pages that overload a careless crawler, on real servers: large bodies, many links, deep nesting.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use orbweaver_cluster_tests::{Cluster, Found, Plan, requested_pages};
use orbweaver_log::{Log, TopicPartition};
use orbweaver_messages::{Discovered, Document, Topic, decode, topic};
use orbweaver_toyweb::{Logging, Serving, ToyWeb, heavy_links, heavy_paths};
use serde::de::DeserializeOwned;

use crate::{
    PATIENCE,
    scope::{orbweaver, said},
};

/// Crawls the heavy web, where the pages `cut` are cut before their links. Returns its documents by path.
async fn crawl(plan: Plan, cut: &[&str]) -> Result<BTreeMap<String, Document>> {
    let plan = plan.with("ORBWEAVER_NORMALIZER_DEDUP__DEFAULT_SCOPE", "host");
    // The records of discovered URLs are read at the end.
    let mut cluster = Cluster::start(plan.with("ORBWEAVER_FRONTIER__DELETE_INTERVAL", "1h")).await?;
    let dir = tempfile::tempdir()?;
    let log = dir.path().join("requests");
    let web = ToyWeb::start_heavy(&Serving { port: 0, logging: Logging::File(log.clone()) })?;
    let mut instances = cluster.add_all(PATIENCE).await?;
    let begun = Instant::now();
    cluster.seed(&[web.start_url()]).await?;
    let status = orbweaver(&cluster, &["status", "--wait", "--max-time", "100s"])?;
    ensure!(status.status.success(), "{}", said(&status));
    println!("complete after {:?}", begun.elapsed());
    for instance in &mut instances {
        instance.still_runs()?;
    }

    let base = web.start_url().trim_end_matches('/');
    let paths = heavy_paths();
    let urls: BTreeSet<String> = paths.iter().map(|path| format!("{base}{path}")).collect();
    let found = Found::read(&cluster.log).await?;
    ensure!(found.dead_letters == 0, "{} dead letters", found.dead_letters);
    ensure!(found.documents.keys().eq(&urls), "documents of {:?}", found.documents.keys());
    ensure!(found.documents.values().all(|times| *times == 1), "{:?}", found.documents);
    let requested = requested_pages(&log)?;
    ensure!(requested.keys().eq(&urls) && requested.values().all(|times| *times == 1), "{requested:?}");

    let discovered = records::<Discovered>(&cluster.log, topic::DISCOVERED, "discovered").await?;
    let discovered: BTreeSet<String> = discovered.into_iter().flat_map(|record| record.urls).collect();
    let (lost, read): (Vec<&String>, Vec<&String>) = paths.iter().partition(|path| cut.contains(&path.as_str()));
    let outside: BTreeSet<String> = read.into_iter().flat_map(|path| heavy_links(path)).collect();
    let missing = outside.difference(&discovered).count();
    ensure!(missing == 0, "{missing} of {} links were not discovered", outside.len());
    let behind = lost.into_iter().flat_map(|path| heavy_links(path)).find(|link| discovered.contains(link));
    ensure!(behind.is_none(), "{behind:?} was discovered behind the cut of its page");

    let documents = records::<Document>(&cluster.log, topic::DOCUMENTS, "document").await?;
    let by_path = documents.into_iter().map(|document| {
        let path = document.url.strip_prefix(base).with_context(|| document.url.clone())?.to_owned();
        Ok((path, document))
    });
    let by_path = by_path.collect();
    drop(instances);
    cluster.remove().await?;
    by_path
}

/// Reads and decodes all records of a topic.
async fn records<T: DeserializeOwned>(log: &dyn Log, topic: Topic, name: &'static str) -> Result<Vec<T>> {
    let mut found = vec![];
    for partition in 0..log.partitions(topic)? {
        let tp = TopicPartition::new(topic, partition);
        let bounds = log.bounds(tp).await?;
        let mut reader = log.reader(tp, bounds.start).await?;
        while reader.position() < bounds.end {
            let before = reader.position();
            for record in reader.read(Duration::from_secs(5)).await? {
                found.push(decode(name, record.value.as_ref())?);
            }
            ensure!(reader.position() > before, "{tp}: nothing to read at {before} below {}", bounds.end);
        }
    }
    Ok(found)
}

fn check(documents: &BTreeMap<String, Document>, cut_bodies: &[&str], cut_links: &[&str]) -> Result<()> {
    for (path, document) in documents {
        let (kept, outside, marks) = (document.links.len(), heavy_links(path), document.truncated);
        println!("{path}: {kept} links of {:?}, {} bytes, {marks:?}", document.links_total, document.bytes);
        ensure!(marks.body == cut_bodies.contains(&path.as_str()), "{path}: {marks:?}");
        ensure!(marks.links == cut_links.contains(&path.as_str()), "{path}: {marks:?}");
        ensure!(marks.text == document.text_bytes.is_some(), "{path}: {marks:?}");
        if marks.links {
            ensure!(document.links_total == Some(outside.len() as u64) && kept < outside.len(), "{path}");
        }
        let links = document.links.iter().map(|link| &link.url);
        ensure!(outside.is_empty() || links.eq(&outside[..kept]), "{path}: other links than the page has");
        let expected = if marks.body { 0 } else { outside.len() };
        ensure!(outside.is_empty() || marks.links || kept == expected, "{path}: {kept} links of {expected}");
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn every_heavy_page_has_a_document_and_all_its_links_are_discovered() -> Result<()> {
    // The fetcher reads 8 MiB of a body.
    let cut = ["/pictures-20mb"];
    check(&crawl(Plan::on_shared_servers(4), &cut).await?, &cut, &[])
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn with_a_record_limit_of_one_mebibyte_heavy_pages_are_cut_and_marked_and_all_links_are_discovered() -> Result<()>
{
    let plan = Plan { record_limit: 1 << 20, ..Plan::on_shared_servers(4) };
    let links = ["/links-20000", "/links-60000", "/controls"];
    // Pictures do not fit when compressed; the links behind them are lost with the rest of the body.
    let cut = ["/pictures-6mb", "/pictures-20mb"];
    check(&crawl(plan, &cut).await?, &cut, &links)
}
