//! Seeds from another client, `kcat`.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use orbweaver_cluster_tests::{Cluster, Found, Plan};
use orbweaver_messages::topic;
use orbweaver_toyweb::{Logging, Serving, ToyWeb, WebConfig};
use tokio::{io::AsyncWriteExt as _, process::Command, time::timeout};

use crate::PATIENCE;

/// Lines that are invalid as seeds, each for a different reason.
const RUBBISH: [&[u8]; 6] = [
    b"no url at all",
    b"ftp://example.org/",
    b"{",
    b"{\"uri\": 1}",
    b"http://example.org/\xff",
    b"{\"url\": \"http://example.org/\", \"crawl\": \"never-created\"}",
];

/// Produces `lines`, one record per line, to the seeds of a cluster.
async fn kcat(cluster: &Cluster, options: &[&str], lines: &[u8]) -> Result<()> {
    let (brokers, topic) = (orbweaver_testkit::brokers(), format!("{}.seeds", cluster.prefix()));
    let mut command = Command::new("kcat");
    command.args(["-P", "-b", &brokers, "-t", &topic]).args(options).stdin(Stdio::piped()).kill_on_drop(true);
    let mut kcat = command.spawn().context("kcat (Debian package kcat) cannot be started")?;
    let mut input = kcat.stdin.take().context("its input")?;
    input.write_all(lines).await?;
    drop(input);
    let status = timeout(PATIENCE, kcat.wait()).await.context("kcat does not end")??;
    ensure!(status.success(), "kcat ended with {status}");
    Ok(())
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn seeds_of_kcat_are_crawled_whatever_their_form_and_rubbish_goes_to_the_dead_letters() -> Result<()> {
    let mut cluster = Cluster::start(Plan::on_shared_servers(4)).await?;
    let webs = (0..5).map(|seed| {
        let config = WebConfig { seed, pages: 20, bytes: 1_000, ..WebConfig::default() };
        ToyWeb::start(config, &Serving { port: 0, logging: Logging::Count })
    });
    let webs = webs.collect::<Result<Vec<_>, _>>()?;
    let [bare, keyed, json, json_keyed, within] = webs.iter().map(ToyWeb::start_url).collect::<Vec<_>>()[..] else {
        anyhow::bail!("five webs were started")
    };
    let mut instances = cluster.add_all(PATIENCE).await?;

    kcat(&cluster, &[], format!("{bare}\n").as_bytes()).await?;
    kcat(&cluster, &["-K", "|"], format!("any key|{keyed}\n").as_bytes()).await?;
    kcat(&cluster, &[], format!("{{\"url\": \"{json}\"}}\n").as_bytes()).await?;
    kcat(&cluster, &["-K", "|"], format!("k|{{\"url\": \"{json_keyed}\", \"crawl\": \"default\"}}\n").as_bytes())
        .await?;
    kcat(&cluster, &[], &RUBBISH.join(&b'\n')).await?;
    kcat(&cluster, &["-K", "|", "-Z"], b"a key alone|\n").await?;
    // The last offset of its partition is then the transaction's control marker, which is never delivered and cannot be
    // committed on its own.
    let transaction = format!("transactional.id={}", cluster.prefix());
    kcat(&cluster, &["-X", &transaction], format!("{within}\n").as_bytes()).await?;

    cluster.complete(PATIENCE, &mut instances).await?;
    let mut found = Found::read(&cluster.log).await?;
    ensure!(
        found.dead_letters == RUBBISH.len() as u64 + 1,
        "{} dead letters in {}",
        found.dead_letters,
        topic::DEAD_LETTERS
    );
    found.dead_letters = 0;
    found.check(&webs.iter().flat_map(ToyWeb::truth).collect::<Vec<_>>(), true)?;
    cluster.remove().await
}
