//! `orbweaver topics`: creates, checks and lists the topics of a pipeline.

use orbweaver_log::{
    Log,
    kafka::{KafkaLog, topics},
};
use orbweaver_messages::{Scope, topic, topic::CONTROL};
use orbweaver_stage::{Clock as _, SystemClock};
use orbweaver_url::{CrawlName, Policy};

use super::{
    args::{Cluster, TopicsVerb},
    connection::block_on,
};
use crate::{
    crawl::{definition, progress::number},
    exit::{Failure, failed},
    output::to_stdout,
};

/// Runs `orbweaver topics`.
///
/// # Errors
/// Fails if the brokers cannot be reached, a number is not allowed, or the topics have a problem.
pub fn run(verb: &TopicsVerb) -> Result<(), Failure> {
    block_on(async {
        match verb {
            TopicsVerb::Create { partitions, replication, cluster } => create(cluster, *partitions, *replication).await,
            TopicsVerb::Check { cluster } => check(&cluster.connect().await?).await,
            TopicsVerb::List { cluster } => list(cluster).await,
        }
    })
}

async fn create(cluster: &Cluster, partitions: u32, replication: Option<u16>) -> Result<(), Failure> {
    let log = cluster.connect().await?;
    let created = topics::create(&log, partitions, replication).await.map_err(failed)?;
    to_stdout(|out| created.made.iter().try_for_each(|topic| writeln!(out, "created {topic}")))?;
    check(&log).await?;
    define_default(&log).await
}

/// Makes sure that there is a crawl for seeds that name none, so that any Kafka client can write seeds.
async fn define_default(log: &dyn Log) -> Result<(), Failure> {
    let crawl = CrawlName::default();
    if definition::find(log, &crawl).await?.is_some() {
        return Ok(());
    }
    let now = SystemClock.now();
    let partitions = log.partitions(CONTROL).map_err(failed)?;
    let wide = definition::wide_domains(log).await?.unwrap_or_default();
    let pins = definition::pins(partitions, Policy::STANDARD, wide);
    definition::write(log, &definition::new(&crawl, Scope::Host, pins, now), now).await?;
    to_stdout(|out| writeln!(out, "defined the crawl `{crawl}` with the scope `host`"))
}

async fn check(log: &KafkaLog) -> Result<(), Failure> {
    let faults = topics::check(log).await.map_err(failed)?;
    if faults.is_empty() {
        return to_stdout(|out| writeln!(out, "all {} topics are configured correctly", topic::topics().len()));
    }
    let list = faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let of_configuration = faults.iter().any(topics::TopicProblem::is_of_configuration);
    Err(if of_configuration { Failure::Usage(list) } else { Failure::Failed(list) })
}

async fn list(cluster: &Cluster) -> Result<(), Failure> {
    let log = cluster.connect().await?;
    let mut lines = vec![format!("{:<26}{:>11}{:>16}  {}", "topic", "partitions", "offsets", "purpose")];
    for listed in topics::list(&log).await.map_err(failed)? {
        let purpose = topic::describe(listed.topic).map_or("", |described| described.purpose);
        let (partitions, records) = (listed.bounds.len(), number(listed.records()));
        lines.push(format!("{:<26}{partitions:>11}{records:>16}  {purpose}", listed.name));
    }
    to_stdout(|out| lines.iter().try_for_each(|line| writeln!(out, "{line}")))
}
