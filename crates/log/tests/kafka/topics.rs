//! Creating, checking and listing topics.

use std::time::Instant;

use orbweaver_log::{
    Commit, Log, LogError, TopicPartition,
    kafka::{
        KafkaConfig, KafkaLog,
        topics::{self, TopicProblem},
    },
};
use orbweaver_messages::{Topic, topic};
use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
};

use crate::fixture::{Member, PATIENCE, append, config, with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn topics_are_made_once_with_a_commit_for_every_group_and_are_well_then() {
    with(config(), &[], |log| async move {
        let all = topic::topics().len();
        let faults = topics::check(&log).await.unwrap();
        assert_eq!(faults.len(), all, "{faults:?}");
        assert!(faults.iter().all(|fault| matches!(fault, TopicProblem::Missing { .. })), "{faults:?}");
        assert_eq!(topics::list(&log).await.unwrap().iter().filter(|listed| listed.bounds.is_empty()).count(), all);

        let created = topics::create(&log, 4, None).await.unwrap();
        assert_eq!((created.made.len(), created.present.len()), (all, 0));
        assert_eq!(created.committed.len(), topic::groups().len());
        assert_eq!(topics::check(&log).await.unwrap(), []);
        let tps: Vec<_> = (0..4).map(|partition| TopicPartition::new(topic::FRONTIER, partition)).collect();
        let zero = Commit::default();
        assert_eq!(log.committed("frontier", &tps).await.unwrap(), vec![Some(zero); 4]);

        append(&log, tps[1], 0..10).await;
        let listed = topics::list(&log).await.unwrap();
        let frontier = listed.iter().find(|listed| listed.topic == topic::FRONTIER).unwrap();
        assert_eq!((frontier.bounds.len(), frontier.records()), (4, 10));
        assert_eq!(frontier.name, format!("{}.frontier", log.config().prefix));

        let again = topics::create(&log, 4, None).await.unwrap();
        assert_eq!((again.made.len(), again.present.len(), again.committed.len()), (0, all, 0));
        for (partitions, part) in
            [(8, "already has 4 partitions, not 8"), (3, "power of two"), (0, "power of two"), (1 << 15, "up to 16384")]
        {
            let refused = topics::create(&log, partitions, None).await.unwrap_err();
            assert!(matches!(&refused, LogError::Invalid(reason) if reason.contains(part)), "{refused}");
        }

        // A group with an initial commit can be joined: what the commit created does not prevent it.
        let member = Member::holding(&log, "frontier", &[topic::FRONTIER], 4).await;
        member.consumer.close().await.unwrap();
    })
    .await;
}

/// Creates a topic with wrong settings.
async fn make(log: &KafkaLog, topic: Topic, partitions: i32, settings: &[(&str, &str)]) {
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", &log.config().brokers).create().unwrap();
    let name = log.topic_name(topic);
    let new = NewTopic::new(&name, partitions, TopicReplication::Fixed(1));
    let new = settings.iter().fold(new, |new, (key, value)| new.set(key, value));
    for made in admin.create_topics(&[new], &AdminOptions::new()).await.unwrap() {
        made.unwrap();
    }
    // The controller has the topic; the broker learns of it a moment later.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = admin.inner().fetch_metadata(Some(&name), PATIENCE).unwrap();
        if seen.topics().iter().any(|topic| topic.partitions().len() == usize::try_from(partitions).unwrap()) {
            return;
        }
        assert!(Instant::now() < deadline, "`{name}` never came");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn every_fault_of_the_topics_is_told_at_once_with_how_to_mend_it() {
    with(config(), &[], |log| async move {
        make(
            &log,
            topic::FRONTIER,
            4,
            &[
                ("cleanup.policy", "delete"),
                ("retention.ms", "-1"),
                ("max.message.bytes", "17000000"),
                ("delete.retention.ms", "86400000"),
                ("min.compaction.lag.ms", "600000"),
            ],
        )
        .await;
        make(
            &log,
            topic::PAGES,
            4,
            &[("max.message.bytes", "1048588"), ("retention.ms", "604800000"), ("retention.bytes", "1000000")],
        )
        .await;
        make(&log, topic::SEEDS, 8, &[("retention.ms", "-1"), ("max.message.bytes", "17000000")]).await;
        let faults: Vec<String> = topics::check(&log).await.unwrap().iter().map(ToString::to_string).collect();
        let all = faults.join("\n");
        let name = |topic| log.topic_name(topic);
        for part in [
            format!("`{}` has 8 partitions, but `{}` has 4", name(topic::SEEDS), name(topic::FRONTIER)),
            format!("`{}` is missing: create it with `orbweaver topics create --partitions 4`", name(topic::OUTCOMES)),
            format!("`{}` has cleanup.policy=delete", name(topic::FRONTIER)),
            format!("--entity-name {} --add-config cleanup.policy=compact", name(topic::FRONTIER)),
            format!(
                "the record limit is 16777216 bytes (`kafka.record_limit`), but the topic `{}` has max.message.bytes=1048588 where \
                 it needs 16842752, and the brokers have message.max.bytes=",
                name(topic::PAGES)
            ),
            "set `kafka.record_limit` to 851980 at most".to_owned(),
            format!("`{}` has retention.ms=604800000", name(topic::PAGES)),
            format!("`{}` has retention.bytes=1000000", name(topic::PAGES)),
            format!(
                "the group `{}` has no commit for 4 partitions of the topic `{}`",
                log.group_name("extractor"),
                name(topic::PAGES)
            ),
        ] {
            assert!(all.contains(&part), "{part}\nis not in\n{all}");
        }
        let missing = topic::topics().len() - 3;
        // Plus the missing topics: uneven, cleanup, three of pages, and one group each for frontier, pages and seeds.
        assert_eq!(faults.len(), missing + 1 + 1 + 3 + 3, "{all}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn two_prefixes_on_one_cluster_know_nothing_of_each_other() {
    let one = config();
    let two = KafkaConfig { prefix: format!("{}x", one.prefix), ..one.clone() };
    with(one, &[], |log| async move {
        topics::create(&log, 1, None).await.unwrap();
        let other = KafkaLog::connect(two).await.unwrap();
        assert!(matches!(other.partitions(topic::SEEDS), Err(LogError::UnknownTopic(_))));
        assert_eq!(log.partitions(topic::SEEDS).unwrap(), 1);
    })
    .await;
}
