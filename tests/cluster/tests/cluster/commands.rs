//! Commands for clusters, run as by a user.

use anyhow::{Context as _, Result, ensure};
use orbweaver_cluster_tests::{Cluster, Found, Plan};
use orbweaver_log::{Log as _, Record, TopicPartition};
use orbweaver_messages::{
    DeadLetter, encode,
    topic::{DEAD_LETTERS, SEEDS},
};
use orbweaver_pipeline_tests::{Ended, Orbweaver};
use orbweaver_stage::DEAD_LETTER_HEADER;
use orbweaver_toyweb::{Logging, Serving, ToyWeb, WebConfig};
use serde_json::Value;

use crate::PATIENCE;

/// Runs a command on a cluster; `words` are split at spaces.
pub(crate) async fn orbweaver(cluster: &Cluster, words: &str) -> Result<Ended> {
    let brokers = orbweaver_testkit::brokers();
    let on = ["--brokers", &brokers, "--prefix", cluster.prefix()];
    Orbweaver::new(words.split(' ').chain(on))?.end(PATIENCE).await
}

pub(crate) fn lines(ended: &Ended) -> Result<Vec<Value>> {
    ended.stdout.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn topics_seeds_status_and_dead_letters_do_what_they_say() -> Result<()> {
    let mut cluster = Cluster::start(Plan::on_shared_servers(4)).await?;
    let webs = [(1, 30), (2, 20)].map(|(seed, pages)| {
        let config = WebConfig { seed, pages, bytes: 1_000, ..WebConfig::default() };
        ToyWeb::start(config, &Serving { port: 0, logging: Logging::Count })
    });
    let [web, later] = webs;
    let (web, later) = (web?, later?);

    // There is no crawl yet, and existing topics keep their number of partitions.
    let seed = format!("seed {}", web.start_url());
    orbweaver(&cluster, &seed).await?.expect(64, &["no crawl `default`", "orbweaver topics create"])?;
    orbweaver(&cluster, "topics create --partitions 8").await?.expect(74, &["8", "4"])?;
    let created = orbweaver(&cluster, "topics create --partitions 4 --replication 1").await?;
    created.expect(0, &[])?;
    ensure!(created.stdout.contains("defined the crawl `default`"), "{}", created.stdout);
    orbweaver(&cluster, "topics check").await?.expect(0, &[])?;
    let listed = orbweaver(&cluster, "topics list").await?;
    ensure!(listed.stdout.contains(&format!("{}.seeds", cluster.prefix())), "{}", listed.stdout);

    // A seed is pending, and no process consumes it.
    orbweaver(&cluster, &seed).await?.expect(0, &["1 seeds"])?;
    orbweaver(&cluster, "seed ftp://example.org/").await?.expect(64, &["ftp"])?;
    let status = orbweaver(&cluster, "status --json").await?;
    let status = lines(&status)?.pop().context("a status")?;
    ensure!(status["complete"] == false && status["stages"][0]["lag"] == 1, "{status}");
    orbweaver(&cluster, "status --wait --max-time 2s").await?.expect(75, &["not complete"])?;

    // A seed of a crawl that does not exist yet.
    let early = format!("{{\"url\":\"{}\",\"crawl\":\"later\"}}", later.start_url());
    cluster.seed(&[&early]).await?;
    let mut instances = cluster.add_all(PATIENCE).await?;
    let wait = "status --wait --max-time 100s";
    orbweaver(&cluster, wait).await?.expect(65, &["1 dead letter", "orbweaver dead-letters list"])?;
    let letters = orbweaver(&cluster, "dead-letters list").await?;
    let [letter] = &lines(&letters)?[..] else { anyhow::bail!("not one dead letter: {}", letters.stdout) };
    ensure!(letter["value"] == early && letter["reason"].to_string().contains("no crawl `later`"), "{letter}");
    orbweaver(&cluster, "dead-letters replay 9:9").await?.expect(64, &["9:9"])?;

    // After its cause is fixed, the dead letter is replayed once, and not a second time.
    orbweaver(&cluster, &format!("crawl {} --crawl later --scope host --max-depth 0", web.start_url()))
        .await?
        .expect(0, &[])?;
    orbweaver(&cluster, "crawl --crawl later --max-depth 50").await?.expect(0, &[])?;
    orbweaver(&cluster, "dead-letters replay --all").await?.expect(0, &["1 records replayed"])?;
    orbweaver(&cluster, "dead-letters replay --all").await?.expect(0, &["0 records replayed"])?;
    orbweaver(&cluster, wait).await?.expect(0, &[])?;
    cluster.complete(PATIENCE, &mut instances).await?;
    let found = Found::read(&cluster.log).await?;
    for expected in later.truth() {
        ensure!(
            found.documents.get(&expected.url) == Some(&1),
            "{}: {:?}",
            expected.url,
            found.documents.get(&expected.url)
        );
    }
    cluster.remove().await
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn a_dead_letter_that_was_replayed_by_its_id_is_not_replayed_again_by_all() -> Result<()> {
    let cluster = Cluster::start(Plan::on_shared_servers(2)).await?;
    let letter = DeadLetter {
        service: "normalizer-dedup".to_owned(),
        reason: "not a URL".to_owned(),
        topic: SEEDS.0.to_owned(),
        partition: 1,
        offset: 0,
        rejected_at_ms: 0,
    };
    let record = Record {
        tp: TopicPartition::new(DEAD_LETTERS, 1),
        key: None,
        value: Some("example.org".into()),
        headers: vec![(DEAD_LETTER_HEADER, encode(&letter))],
        timestamp_ms: 0,
    };
    cluster.log.append(vec![record; 4]).await?;
    let left = async || -> Result<Value> {
        let status = lines(&orbweaver(&cluster, "status --json").await?)?.pop().context("a status")?;
        Ok(status["dead_letters"].clone())
    };
    orbweaver(&cluster, "dead-letters replay 1:2 1:1").await?.expect(0, &["2 records replayed"])?;
    let counted = left().await?;
    ensure!(counted == 2, "{counted} are left");
    orbweaver(&cluster, "dead-letters replay --all").await?.expect(0, &["2 records replayed"])?;
    orbweaver(&cluster, "dead-letters replay --all").await?.expect(0, &["0 records replayed"])?;
    let (counted, seeds) = (left().await?, cluster.log.bounds(TopicPartition::new(SEEDS, 1)).await?.end);
    ensure!(counted == 0 && seeds == 4, "{counted} are left, and {seeds} were replayed");
    cluster.remove().await
}
