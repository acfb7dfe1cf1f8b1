//! The archive of a crawl on a cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use orbweaver_cluster_tests::{Cluster, Plan, Service};
use orbweaver_log::{Log as _, topic_partitions};
use orbweaver_messages::topic;
use orbweaver_pipeline_tests::{Dice, archived, normalized};
use orbweaver_toyweb::{Logging, Serving, ToyWeb, WebConfig};
use tokio::time::{Duration, Instant, sleep};

use crate::{
    PATIENCE,
    crawls::{done, more},
    scope::{orbweaver, said},
};

/// Number of times that an archiver is killed.
const KILLS: usize = 6;

/// Returns the names of the files of an archive, without indexes, closed ones or all.
fn files(archive: &Path, closed: bool) -> Vec<String> {
    let files = std::fs::read_dir(archive.join("web")).into_iter().flatten().flatten();
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains(".warc.gz") && (!closed || !name.ends_with(".open"))).collect()
}

/// Returns file, offset and length of the lines of an archive's indexes, without those of robots.txt files.
fn indexed(archive: &Path) -> Result<BTreeSet<(String, i64, i64)>> {
    let mut indexed = BTreeSet::new();
    for file in files(archive, true) {
        let index = archive.join("web").join(file.replace(".warc.gz", ".cdxj"));
        for line in std::fs::read_to_string(index)?.lines() {
            let fields: serde_json::Value = serde_json::from_str(&line[line.find('{').context("no fields")?..])?;
            let [url, offset, length] =
                ["url", "offset", "length"].map(|name| fields[name].as_str().unwrap_or_default());
            if !url.contains("/robots") {
                indexed.insert((format!("web/{file}"), offset.parse()?, length.parse()?));
            }
        }
    }
    Ok(indexed)
}

/// Waits until the archiver's group has committed all pages, and no file is open.
async fn all_archived(cluster: &Cluster, archives: &[&Path]) -> Result<()> {
    let begun = Instant::now();
    loop {
        let tps = topic_partitions(&cluster.log, &[topic::PAGES])?;
        let commits = cluster.log.committed("archiver", &tps).await?;
        let bounds = cluster.log.all_bounds(&tps).await?;
        let committed = commits.iter().map(|commit| commit.as_ref().map_or(0, |commit| commit.offset));
        let lag: u64 = bounds.iter().zip(committed).map(|(bounds, commit)| bounds.end - commit).sum();
        let open: usize = archives.iter().map(|archive| files(archive, false).len() - files(archive, true).len()).sum();
        if lag == 0 && open == 0 {
            return Ok(());
        }
        ensure!(begun.elapsed() < PATIENCE, "{lag} pages are not archived, and {open} files are open");
        sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn two_archivers_that_are_killed_repeatedly_archive_every_response_once() -> Result<()> {
    let config = WebConfig { seed: 5, pages: 2_500, bytes: 2_000, address_hosts: 8, ..WebConfig::default() };
    let web = ToyWeb::start(config, &Serving { port: 0, logging: Logging::Memory(100_000) })?;
    let plan = Plan::on_shared_servers(8)
        .with("ORBWEAVER_RATE_LIMITER__RATE", "10/s")
        .with("ORBWEAVER_FRONTIER__DELETE_INTERVAL", "200ms")
        .with("ORBWEAVER_ARCHIVER__MAX_FILE_AGE", "1s")
        .with("ORBWEAVER_ARCHIVER__MAX_FILE_RESPONSES", "20");
    let mut cluster = Cluster::start(plan).await?;
    let mut instances = cluster.add_all(PATIENCE).await?;
    let create = ["crawls", "create", "web", "--scope", "any", "--warc"];
    let refused = orbweaver(&cluster, &create)?;
    ensure!(
        refused.status.code() == Some(64) && said(&refused).contains("start orbweaver-archiver first"),
        "{refused:?}"
    );
    let dirs = [cluster.dir_of(100), cluster.dir_of(101)];
    let mut archiver = cluster.start_in(Service::Archiver, dirs[0].clone()).await?;
    archiver.ready(PATIENCE).await?;
    ensure!(archiver.terminate(PATIENCE).await?.success(), "the archiver did not end in order");
    done(&cluster, &create)?;
    ensure!(done(&cluster, &["crawls", "show", "web"])?.contains("archive      yes"), "no line for the archive");
    done(&cluster, &["seed", web.start_url(), "--crawl", "web"])?;
    // The extractor consumes pages before an archiver starts again: only the declared group retains them.
    more(&web, 300).await?;

    let mut dice = Dice(20_261_129);
    let archives = dirs.each_ref().map(|dir| dir.join("archive"));
    let mut archivers = vec![];
    for dir in &dirs {
        archivers.push(cluster.start_in(Service::Archiver, dir.clone()).await?);
    }
    let mut open_files = 0;
    for kill in 0..KILLS {
        let closed = || archives.iter().map(|archive| files(archive, true).len()).sum::<usize>();
        let has_open = |archive: &PathBuf| files(archive, false).iter().any(|name| name.ends_with(".open"));
        let (before, begun) = (closed(), Instant::now());
        // Alternately one that has an open file, and any one just after files were closed. The group may need the timeout of
        // its sessions until one of them has partitions again.
        let mut victim = None;
        while victim.is_none() && begun.elapsed() < Duration::from_secs(20) {
            sleep(Duration::from_millis(5)).await;
            victim = match kill % 2 {
                0 => archives.iter().position(has_open),
                _ if closed() > before => Some(usize::try_from(dice.roll(0, 1))?),
                _ => None,
            };
        }
        let victim = victim.unwrap_or_default();
        if kill % 2 > 0 {
            sleep(Duration::from_micros(dice.roll(0, 50_000))).await;
        }
        archivers.remove(victim).kill().await?;
        open_files += files(&archives[victim], false).len() - files(&archives[victim], true).len();
        archivers.insert(victim, cluster.start_in(Service::Archiver, dirs[victim].clone()).await?);
    }
    ensure!(open_files > 0, "no archiver was killed while it had an open file");
    cluster.complete(PATIENCE, &mut instances).await?;
    let archives = archives.each_ref().map(|archive| &**archive);
    all_archived(&cluster, &archives).await?;
    instances.append(&mut archivers);
    for instance in &mut instances {
        instance.still_runs()?;
    }

    let mut counts = BTreeMap::<(String, u16), [usize; 2]>::new();
    for entry in web.log().entries().iter().filter(|entry| entry.status != 0) {
        counts.entry((normalized(&entry.host, &entry.target), entry.status)).or_default()[0] += 1;
    }
    for archive in archives {
        for response in archived(archive)? {
            let (host, target) = response.url["http://".len()..].split_at(response.url[7..].find('/').unwrap_or(0));
            counts.entry((normalized(host, target), response.status)).or_default()[1] += 1;
        }
    }
    let different: Vec<_> = counts.iter().filter(|(_, [sent, kept])| sent != kept).take(10).collect();
    ensure!(different.is_empty() && counts.len() > 2_500, "{}: sent and archived: {different:?}", counts.len());
    let mut indexed_in_all = BTreeSet::new();
    for archive in archives {
        indexed_in_all.append(&mut indexed(archive)?);
    }
    let located = cluster.locations().await?;
    let different: Vec<_> = located.symmetric_difference(&indexed_in_all).take(10).collect();
    ensure!(
        different.is_empty() && located.len() >= 2_500,
        "{}: located or indexed alone: {different:?}",
        located.len()
    );
    let closed = archives.map(|archive| files(archive, true).len());
    println!("{} responses in {closed:?} files; {open_files} were open at a kill", counts.len());
    cluster.remove().await
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn an_archived_crawl_pauses_while_the_archiver_is_too_far_behind_and_completes_once_it_runs() -> Result<()> {
    let config = WebConfig { seed: 6, pages: 800, bytes: 20_000, address_hosts: 4, ..WebConfig::default() };
    let web = ToyWeb::start(config, &Serving { port: 0, logging: Logging::Memory(100_000) })?;
    let plan = Plan::on_shared_servers(4)
        .with("ORBWEAVER_RATE_LIMITER__RATE", "10/s")
        .with("ORBWEAVER_FETCHER__MAX_ARCHIVE_LAG", "100KiB")
        .with("ORBWEAVER_ARCHIVER__MAX_FILE_AGE", "1s");
    let mut cluster = Cluster::start(plan).await?;
    let mut instances = cluster.add_all(PATIENCE).await?;
    let dir = cluster.dir_of(100);
    let mut archiver = cluster.start_in(Service::Archiver, dir.clone()).await?;
    archiver.ready(PATIENCE).await?;
    ensure!(archiver.terminate(PATIENCE).await?.success(), "the archiver did not end in order");
    done(&cluster, &["crawls", "create", "web", "--scope", "any", "--warc"])?;
    done(&cluster, &["seed", web.start_url(), "--crawl", "web"])?;
    // Without the archiver requests end, although most URLs are still queued.
    let (begun, mut last) = (Instant::now(), (0, Instant::now()));
    while last.0 == 0 || last.1.elapsed() < Duration::from_secs(15) {
        ensure!(begun.elapsed() < PATIENCE, "requests do not end: {}", web.log().count());
        if web.log().count() != last.0 {
            last = (web.log().count(), Instant::now());
        }
        sleep(Duration::from_millis(200)).await;
    }
    let paused_at = last.0;
    ensure!(paused_at < 700, "{paused_at} requests were sent");
    instances.push(cluster.start_in(Service::Archiver, dir.clone()).await?);
    cluster.complete(PATIENCE, &mut instances).await?;
    all_archived(&cluster, &[&*dir.join("archive")]).await?;
    println!("{} requests, of which {paused_at} were sent before the archiver ran", web.log().count());
    cluster.remove().await
}
