//! A crawl by several processes finds every page, once.

use anyhow::{Result, ensure};
use orbweaver_cluster_tests::{Cluster, Found, Plan, requested_pages};
use orbweaver_toyweb::{Logging, Serving, ToyWeb, WebConfig};

use crate::PATIENCE;

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn seeds_alone_make_five_processes_fetch_every_page_once_and_then_it_is_complete() -> Result<()> {
    let mut cluster = Cluster::start(Plan::on_shared_servers(4)).await?;
    let dir = tempfile::tempdir()?;
    let log = dir.path().join("requests");
    let config = WebConfig { pages: 1_000, bytes: 4_000, address_hosts: 8, ..WebConfig::default() };
    let web = ToyWeb::start(config, &Serving { port: 0, logging: Logging::File(log.clone()) })?;
    let mut instances = cluster.add_all(PATIENCE).await?;
    // An empty pipeline is complete once no log end moves any more: claims are records, too.
    cluster.complete(PATIENCE, &mut instances).await?;

    let begun = std::time::Instant::now();
    cluster.seed(&[web.start_url()]).await?;
    ensure!(!cluster.is_complete().await?, "complete although a seed waits");
    cluster.complete(PATIENCE, &mut instances).await?;
    println!("complete after {:?}, with {} requests", begun.elapsed(), web.log().count());

    Found::read(&cluster.log).await?.check(&web.truth(), true)?;
    let requested = requested_pages(&log)?;
    let twice: Vec<_> = requested.iter().filter(|(_, count)| **count > 1).collect();
    ensure!(twice.is_empty(), "requested more than once: {twice:?}");
    ensure!(requested.len() == web.truth().len(), "{} of {} pages requested", requested.len(), web.truth().len());

    for instance in instances {
        let (name, status) = (instance.name(), instance.terminate(PATIENCE).await?);
        ensure!(status.code() == Some(0), "{name} ended with {status}");
    }
    ensure!(cluster.is_complete().await? && cluster.is_complete().await?, "complete is complete always");
    cluster.remove().await
}
