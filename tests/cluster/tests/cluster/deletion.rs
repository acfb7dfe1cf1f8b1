//! A crawl is deleted while another one runs.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use orbweaver_cluster_tests::{Cluster, Found, Plan};
use orbweaver_log::{Log as _, TopicPartition, read_up_to, topic_partitions};
use orbweaver_messages::{
    CRAWL_HEADER, CrawlEvent,
    CrawlEventKind::{Complete, Created, Deleted, Paused, Resumed, Stopped},
    SeenBatch, decode,
    topic::{CONTROL, EVENTS, FRONTIER, SEEN, SIGNATURES, SITE_PAGES, SITES},
};
use orbweaver_pipeline_tests::{Output, check};
use orbweaver_toyweb::{Kind, Logging, Serving, ToyWeb, WebConfig};
use orbweaver_url::Fingerprint;
use tokio::time::{Duration, Instant, sleep};

use crate::{
    PATIENCE, commands,
    crawls::{done, more},
    scope::{orbweaver, said},
};

const READ_WAIT: Duration = Duration::from_secs(5);

/// Returns the URLs of a crawl in `crawl.seen`.
async fn admitted(cluster: &Cluster, crawl: &str) -> Result<BTreeSet<Fingerprint>> {
    let mut found = BTreeSet::new();
    for tp in topic_partitions(&cluster.log, &[SEEN])? {
        let bounds = cluster.log.bounds(tp).await?;
        let mut reader = cluster.log.reader(tp, bounds.start).await?;
        while reader.position() < bounds.end {
            for record in reader.read(READ_WAIT).await? {
                if record.header(CRAWL_HEADER).is_some_and(|name| **name == *crawl.as_bytes()) {
                    let batch = SeenBatch::decode(record.value.as_ref())?;
                    found.extend(batch.entries.into_iter().map(|entry| entry.fingerprint));
                }
            }
        }
    }
    Ok(found)
}

/// Returns the keys in compacted topics whose last record names this URL or crawl.
async fn compacted(cluster: &Cluster, text: &str) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for tp in topic_partitions(&cluster.log, &[FRONTIER, CONTROL, SITES, SITE_PAGES, SIGNATURES])? {
        let bounds = cluster.log.bounds(tp).await?;
        let mut reader = cluster.log.reader(tp, bounds.start).await?;
        while reader.position() < bounds.end {
            for record in reader.read(READ_WAIT).await? {
                let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let key = format!("{tp}: {}", record.key.as_deref().map(lossy).unwrap_or_default());
                let value = record.value.as_deref().map(lossy);
                if value.is_some_and(|value| value.contains(text) || key.contains(text)) {
                    found.insert(key);
                } else {
                    found.remove(&key);
                }
            }
        }
    }
    Ok(found)
}

/// Returns the events of a crawl.
async fn events(cluster: &Cluster, crawl: &str) -> Result<Vec<CrawlEvent>> {
    let mut found = vec![];
    let tp = TopicPartition::new(EVENTS, 0);
    let add =
        |record: orbweaver_log::ConsumerRecord| found.extend(decode::<CrawlEvent>("event", record.value.as_ref()));
    read_up_to(&cluster.log, tp, 0, cluster.log.bounds(tp).await?, add).await?;
    found.retain(|event| &*event.crawl == crawl);
    Ok(found)
}

/// Checks the events of all crawls, as soon as the last one of each is written.
async fn ensure_events(cluster: &Cluster, finite_pages: usize) -> Result<()> {
    let begun = Instant::now();
    for (crawl, expected) in [
        ("finite", &[Created, Complete][..]),
        ("endless", &[Created, Paused, Resumed, Stopped, Deleted]),
        ("endless#2", &[Created, Complete]),
    ] {
        let found = loop {
            let found = events(cluster, crawl).await?;
            if found.last().map(|event| event.kind) == expected.last().copied() || begun.elapsed() > PATIENCE {
                break found;
            }
            sleep(Duration::from_millis(500)).await;
        };
        let mut kinds: Vec<_> = found.iter().map(|event| event.kind).collect();
        // The end of a stopped crawl may be found before it is deleted.
        kinds.retain(|kind| crawl != "endless" || *kind != Complete);
        ensure!(kinds == expected, "events of the crawl `{crawl}`: {found:?}");
        if let Some(complete) = found.iter().find(|event| crawl == "finite" && event.kind == Complete) {
            let CrawlEvent { pages, queued, in_flight, complete, .. } = complete;
            ensure!((*pages, *queued, *in_flight, *complete) == (finite_pages as u64, 0, 0, true), "{found:?}");
        }
    }
    Ok(())
}

/// Checks that the tables have no row of these URLs.
async fn ensure_no_row(cluster: &Cluster, urls: &BTreeSet<Fingerprint>) -> Result<()> {
    for table in ["pages", "fetches", "links", "redirects"] {
        let stored = cluster.stored_urls(table).await?;
        ensure!(!stored.is_empty(), "{table} has no row of the other crawl");
        let left = stored.intersection(urls).count();
        ensure!(left == 0, "{left} of {} URLs of a deleted crawl have rows in {table}", urls.len());
    }
    Ok(())
}

/// Checks that no compacted topic has a record of the crawls of this web, except their definitions.
async fn ensure_no_record(cluster: &Cluster, web: &ToyWeb) -> Result<()> {
    let address = web.start_url().split('/').nth(2).context("an address")?;
    let port = address.split(':').nth(1).context("a port")?;
    // The frontiers remove the numbers of pages once they have read the deletion.
    let begun = Instant::now();
    for text in ["endless", &format!(":{port}/")] {
        let left = loop {
            let mut left = compacted(cluster, text).await?;
            left.retain(|key| !key.contains(": crawl/endless"));
            if left.is_empty() || begun.elapsed() > READ_WAIT {
                break left;
            }
        };
        ensure!(left.is_empty(), "records with `{text}`: {left:?}");
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn an_endless_crawl_is_paused_resumed_and_deleted_while_another_one_completes_and_its_name_begins_anew()
-> Result<()> {
    let plan = Plan::on_shared_servers(4).with("ORBWEAVER_RATE_LIMITER__RATE", "10/s");
    let mut cluster = Cluster::start(plan).await?;
    let web = |config| ToyWeb::start(config, &Serving { port: 0, logging: Logging::Count });
    let shared =
        WebConfig { bytes: 2_000, address_hosts: 4, specials: [(Kind::Chain, 4)].into(), ..WebConfig::default() };
    let endless = web(WebConfig { pages: 1_000_000, links: 12, ..shared.clone() })?;
    let finite = web(WebConfig { seed: 2, pages: 300, ..shared })?;
    let mut instances = cluster.add_all(PATIENCE).await?;
    let options = ["--scope", "any", "--max-pages-per-site", "1000000", "--near-duplicates"];
    done(&cluster, &[&["crawls", "create", "endless"], &options[..]].concat())?;
    done(&cluster, &["seed", endless.start_url(), "--crawl", "endless"])?;
    more(&endless, 60).await?;

    let out = tempfile::tempdir()?;
    let collect = format!("crawl {} --crawl finite --scope any --out {}", finite.start_url(), out.path().display());
    let collected = commands::orbweaver(&cluster, &collect);
    let paused = async {
        more(&finite, 20).await?;
        done(&cluster, &["crawls", "pause", "endless"])?;
        sleep(Duration::from_secs(1)).await;
        let before = endless.log().count();
        more(&finite, 40).await?;
        ensure!(endless.log().count() == before, "{} requests of a paused crawl", endless.log().count() - before);
        done(&cluster, &["crawls", "resume", "endless"])?;
        more(&endless, 20).await
    };
    let (collected, paused) = tokio::join!(collected, paused);
    paused?;
    collected?.expect(0, &[])?;
    let output = Output::of_cluster(out.path())?;
    check(&finite.truth(), &output)?;
    let listed = done(&cluster, &["consumers", "list"])?;
    ensure!(listed.contains("no group is declared"), "after the end of the collector: {listed}");
    more(&endless, 20).await?;

    done(&cluster, &["crawls", "stop", "endless"])?;
    done(&cluster, &["status", "--crawl", "endless", "--wait", "--max-time", "3m"])?;
    let kept = compacted(&cluster, "endless").await?;
    for topic in [SITE_PAGES, SIGNATURES] {
        ensure!(kept.iter().any(|key| key.starts_with(topic.0)), "nothing of the crawl in {topic}");
    }
    let (urls, before) = (admitted(&cluster, "endless").await?, endless.log().count());
    ensure!(urls.len() > 500, "{} URLs", urls.len());
    let store = ["--cql", &*orbweaver_testkit::cql(), "--keyspace", cluster.keyspace()];
    let delete = |name| [&["crawls", "delete", name, "--max-time", "3m"], &store[..]].concat();
    let deleted = done(&cluster, &delete("endless"))?;
    ensure!(deleted.contains("crawl `endless`: deleted: "), "{deleted}");
    ensure!(deleted.contains("still there: 0 URLs of deleted crawls in crawl.seen"), "{deleted}");
    ensure_no_row(&cluster, &urls).await?;
    ensure!(admitted(&cluster, "endless").await?.is_empty(), "URLs of a deleted crawl in crawl.seen");
    ensure!(!admitted(&cluster, "finite").await?.is_empty(), "no URLs of the other crawl in crawl.seen");
    ensure_no_record(&cluster, &endless).await?;

    done(&cluster, &delete("endless")).context("again")?;
    ensure!(!done(&cluster, &["crawls", "list"])?.contains("endless"), "a deleted crawl is listed");
    let seed = ["seed", endless.start_url(), "--crawl", "endless"];
    for (arguments, reason) in [
        (&["crawls", "show", "endless"][..], "no crawl `endless`"),
        (&delete("absent")[..], "no crawl `absent`"),
        (&delete("default")[..], "cannot be deleted"),
        (&seed[..], "no crawl `endless"),
        (&["crawls", "create", "endless#7"][..], "a number after `#`"),
    ] {
        let refused = orbweaver(&cluster, arguments)?;
        ensure!(refused.status.code() == Some(64) && said(&refused).contains(reason), "{}", said(&refused));
    }
    let created = done(&cluster, &["crawls", "create", "endless", "--scope", "any", "--max-depth", "1"])?;
    ensure!(created.contains("crawl `endless#2`: created"), "{created}");
    let seed = format!(r#"{{"url": "{}", "crawl": "endless"}}"#, endless.start_url());
    cluster.seed(&[&seed]).await?;
    let complete = done(&cluster, &["status", "--crawl", "endless", "--wait", "--max-time", "3m"])?;
    ensure!(complete.contains("crawl `endless#2`: complete"), "{complete}");
    let (again, found) = (endless.log().count() - before, Found::of_crawl(&cluster.log, "endless#2").await?);
    ensure!(again >= 2, "{again} requests of the second crawl");
    ensure!(
        found.documents.contains_key(endless.start_url()),
        "no document of a page that the first crawl had fetched"
    );
    ensure_no_row(&cluster, &urls).await?;
    let fetched = output.urls.values().filter(|url| url["outcome"] == "fetched").count();
    ensure_events(&cluster, fetched).await?;
    cluster.complete(PATIENCE, &mut instances).await?;
    for instance in &mut instances {
        instance.still_runs()?;
    }
    cluster.remove().await
}
