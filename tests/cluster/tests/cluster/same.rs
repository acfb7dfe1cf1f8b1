//! One crawl yields the same documents in one process and by processes on the servers.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, ensure};
use orbweaver_cluster_tests::{Cluster, Plan};
use orbweaver_pipeline_tests::{Orbweaver, Output, cppreference, outside};
use orbweaver_toyweb::{Logging, Serving, ToyWeb, WebConfig};
use serde_json::Value;

use crate::{PATIENCE, commands::orbweaver};

/// Fields that depend on the time and the path by which a page was reached, and so differ between runs.
const OF_THE_RUN: [&str; 4] = ["fetched_at", "depth", "via", "redirects"];

/// Returns the documents of a crawl without [`OF_THE_RUN`].
fn documents(out: &Path) -> Result<BTreeMap<String, Value>> {
    let mut documents = Output::documents(out)?;
    for document in documents.values_mut().filter_map(Value::as_object_mut) {
        OF_THE_RUN.iter().for_each(|field| drop(document.remove(*field)));
    }
    Ok(documents)
}

/// Crawls `start` both ways and compares every field of every document. Returns the number of documents.
async fn same_both_ways(start: &str, options: &[&str]) -> Result<usize> {
    let (alone, together) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let command = |out: &Path, further: &[&str]| -> Result<Orbweaver> {
        let base = ["crawl", start, "--out"].into_iter().map(str::to_owned);
        let rest = options.iter().chain(further).map(|word| (*word).to_owned());
        Orbweaver::new(base.chain([out.display().to_string()]).chain(rest))
    };
    command(alone.path(), &["--allow-private", "--rate", "unlimited"])?.end(PATIENCE).await?.expect(0, &[])?;

    let plan = Plan::on_shared_servers(4);
    let brokers = plan.brokers.clone();
    let mut cluster = Cluster::start(plan).await?;
    let mut instances = cluster.add_all(PATIENCE).await?;
    let prefix = cluster.prefix().to_owned();
    command(together.path(), &["--brokers", &brokers, "--prefix", &prefix])?.end(PATIENCE).await?.expect(0, &[])?;
    instances.iter_mut().try_for_each(|instance| instance.still_runs())?;
    let listed = orbweaver(&cluster, "consumers list").await?;
    ensure!(listed.stdout.contains("no group is declared"), "the collector is done: {}", listed.stdout);

    let (alone, together) = (documents(alone.path())?, documents(together.path())?);
    let missing: Vec<_> = alone.keys().filter(|url| !together.contains_key(*url)).take(20).collect();
    let further: Vec<_> = together.keys().filter(|url| !alone.contains_key(*url)).take(20).collect();
    ensure!(
        missing.is_empty() && further.is_empty(),
        "only in one process: {missing:?}\nonly on the servers: {further:?}"
    );
    let differs: Vec<_> =
        alone.iter().filter(|(url, document)| together.get(*url) != Some(*document)).take(3).collect();
    ensure!(
        differs.is_empty(),
        "in one process: {differs:?}\non the servers: {:?}",
        differs.iter().map(|(url, _)| &together[*url]).collect::<Vec<_>>()
    );
    cluster.remove().await?;
    Ok(alone.len())
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn one_process_and_the_servers_make_the_same_documents_of_a_web_with_every_feature() -> Result<()> {
    let config = WebConfig {
        seed: 5,
        links: 8,
        pages: 300,
        bytes: 6_000,
        address_hosts: 4,
        named_hosts: 5,
        named_sites: 2,
        ..WebConfig::default()
    };
    let web = ToyWeb::start(config.with_every_special(3), &Serving { port: 0, logging: Logging::Count })?;
    let outside = outside(&web.truth());
    let count = same_both_ways(web.start_url(), &["--scope", "any", "--exclude", &outside]).await?;
    ensure!(count >= 300, "{count} documents");
    Ok(())
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn one_process_and_the_servers_make_the_same_documents_of_a_real_tree() -> Result<()> {
    let Some(tree) = cppreference().await? else { return Ok(()) };
    let web = ToyWeb::start_directory(&tree.root, &Serving { port: 0, logging: Logging::Count })?;
    let start = format!("{}{}", web.start_url(), tree.start);
    let count = same_both_ways(&start, &["--scope", "host"]).await?;
    ensure!(count == tree.reachable.len(), "{count} documents of {} pages", tree.reachable.len());
    Ok(())
}
