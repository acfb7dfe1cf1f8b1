//! `orbweaver doctor` on real servers, without services.

use anyhow::{Context as _, Result, ensure};
use orbweaver_cluster_tests::{Cluster, Plan};
use orbweaver_log::{Log as _, Record, TopicPartition};
use orbweaver_messages::{
    DeadLetter, Topic, encode,
    topic::{DEAD_LETTERS, DISCOVERED, PAGES},
};
use orbweaver_pipeline_tests::{Ended, Orbweaver};
use orbweaver_stage::DEAD_LETTER_HEADER;
use serde_json::Value;

use crate::{
    PATIENCE,
    commands::{lines, orbweaver},
};

/// Runs the command with the keyspace of a cluster. Returns its end and its findings.
async fn doctor(cluster: &Cluster) -> Result<(Ended, Vec<Value>)> {
    let (cql, keyspace) = (orbweaver_testkit::cql(), cluster.keyspace());
    let words = format!("doctor --json --wait 1s --cql {cql} --keyspace {keyspace}");
    let ended = orbweaver(cluster, &words).await?;
    let findings = lines(&ended)?;
    Ok((ended, findings))
}

/// Returns the level and the observation of a check.
fn level<'a>(findings: &'a [Value], check: &str) -> Result<(&'a str, &'a str)> {
    let found = findings.iter().find(|finding| finding["check"] == check);
    let found = found.with_context(|| format!("no check `{check}` in {findings:?}"))?;
    let text = |key: &str| found[key].as_str().with_context(|| found.to_string());
    ensure!(found["advice"].is_null() == (found["level"] == "ok"), "advice where it is due: {found}");
    Ok((text("level")?, text("seen")?))
}

fn record(topic: Topic) -> Record {
    Record::new(TopicPartition::new(topic, 1), None, Some("{}".into()), 1)
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn the_doctor_finds_lag_without_instances_and_dead_letters_and_creates_nothing() -> Result<()> {
    let cluster = Cluster::start(Plan::on_shared_servers(2)).await?;
    let (ended, found) = doctor(&cluster).await?;
    for (check, expected) in [
        ("version", "ok"),
        ("topics", "ok"),
        ("replicas", "ok"),
        ("instances of extractor", "warn"),
        ("extractor on crawl.pages", "ok"),
        ("dead letters", "ok"),
        ("crawls", "warn"),
        ("store nodes", "ok"),
        ("store keyspace", "warn"),
    ] {
        let (level, seen) = level(&found, check)?;
        ensure!(level == expected, "{check}: {level}, not {expected}: {seen}");
    }
    ended.expect(0, &[])?;

    let letter = DeadLetter {
        service: "extractor".to_owned(),
        reason: "not a page".to_owned(),
        topic: PAGES.0.to_owned(),
        partition: 1,
        offset: 0,
        rejected_at_ms: 0,
    };
    let headers = vec![(DEAD_LETTER_HEADER, encode(&letter))];
    let letter = Record { headers, ..record(DEAD_LETTERS) };
    let records = vec![record(PAGES), letter, record(DISCOVERED), record(DISCOVERED)];
    cluster.log.append(records).await?;
    cluster.log.delete_below(TopicPartition::new(DISCOVERED, 1), 1).await?;
    let (ended, found) = doctor(&cluster).await?;
    ended.expect(1, &["bad"])?;
    for (check, expected, part) in [
        ("instances of extractor", "bad", "none runs, with a lag of 1"),
        ("extractor on crawl.pages", "bad", "lag 1; nothing moved"),
        ("normalizer-dedup on crawl.discovered", "bad", "0 to 1 of partition 1"),
        ("instances of fetcher", "warn", "none runs"),
        ("dead letters", "warn", "1 record"),
        ("store keyspace", "warn", "does not exist"),
    ] {
        let (level, seen) = level(&found, check)?;
        ensure!(level == expected && seen.contains(part), "{check}: {level}, not {expected}: {seen}");
    }
    cluster.remove().await
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn the_doctor_names_the_command_for_missing_topics_and_reports_brokers_that_do_not_answer() -> Result<()> {
    let prefix = orbweaver_testkit::unique("doctor");
    let on = async |brokers: &str| -> Result<Ended> {
        let words = ["doctor", "--json", "--brokers", brokers, "--prefix", &prefix];
        Orbweaver::new(words)?.end(PATIENCE).await
    };
    // Twice: the first one has created nothing.
    for _ in 0..2 {
        let ended = on(&orbweaver_testkit::brokers()).await?;
        let found = lines(&ended)?;
        ended.expect(1, &["bad"])?;
        let (level, seen) = level(&found, "topics")?;
        ensure!(level == "bad" && seen.contains("topics are missing"), "{seen}");
        ensure!(
            found.iter().any(|finding| finding["advice"].to_string().contains("orbweaver topics create")),
            "{found:?}"
        );
    }
    let ended = on("127.0.0.1:9").await?;
    let found = lines(&ended)?;
    ended.expect(1, &["bad"])?;
    ensure!(level(&found, "brokers")?.0 == "bad" && level(&found, "store")?.0 == "warn", "{found:?}");
    Ok(())
}
