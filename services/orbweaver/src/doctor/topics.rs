//! Check of the topics and their replicas (pure).

use orbweaver_log::kafka::{Replicas, topics::TopicProblem};

use super::finding::{Finding, Level, count, listed};

/// A topic on the brokers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSeen {
    /// Name on the brokers.
    pub name: String,
    pub partitions: Vec<Replicas>,
    /// Number of replicas in sync that an append needs.
    pub min_in_sync: usize,
}

/// Returns the findings about settings and commits. `expected` is the number of topics of the pipeline, `brokers` the
/// number of brokers.
#[must_use]
pub fn settings(problems: &[TopicProblem], expected: usize, brokers: usize) -> Vec<Finding> {
    if problems.is_empty() {
        return vec![Finding::ok("topics", format!("all {expected} topics have the required settings"))];
    }
    let mut found = vec![];
    let mut missing = vec![];
    let mut wanted = 16;
    let mut without_commit = vec![];
    for problem in problems {
        match problem {
            TopicProblem::Missing { name, partitions } => {
                missing.push(name.as_str());
                wanted = *partitions;
            }
            TopicProblem::NoCommit { group, name, partitions } => {
                without_commit.push(format!("{group} on {name} ({})", count(*partitions as u64, "partition")));
            }
            problem => found.push(one(problem)),
        }
    }
    if !missing.is_empty() {
        let replication = if brokers >= 3 { " --replication 3" } else { "" };
        found.insert(
            0,
            Finding::bad(
                "topics",
                format!("{} of {expected} topics are missing: {}", missing.len(), listed(&missing)),
                format!("orbweaver topics create --partitions {wanted}{replication}"),
            ),
        );
    }
    if !without_commit.is_empty() {
        found.push(Finding::bad(
            "commits",
            format!("groups without a first commit: {}", listed(&without_commit)),
            "orbweaver topics create, which commits offset 0 for them and changes nothing else",
        ));
    }
    found
}

/// Returns the finding about one problem, with the remedy as its advice.
fn one(problem: &TopicProblem) -> Finding {
    let all = problem.to_string();
    match problem {
        TopicProblem::Setting { name, key, found, wanted, reason, brokers } => Finding::bad(
            format!("topic {name}"),
            format!("{key}={found}, {reason}"),
            format!(
                "kafka-configs.sh --bootstrap-server {brokers} --alter --entity-type topics --entity-name {name} --add-config {key}={wanted}"
            ),
        ),
        TopicProblem::RecordLimit { name, limit, found, wanted, brokers, lower, .. } => Finding::bad(
            format!("topic {name}"),
            format!("max.message.bytes={found}, but records of {limit} bytes (`kafka.record_limit`) need {wanted}"),
            format!(
                "kafka-configs.sh --bootstrap-server {brokers} --alter --entity-type topics --entity-name {name} --add-config max.message.bytes={wanted}{lower}"
            ),
        ),
        TopicProblem::RequestLimit { limit, found, wanted, lower, .. } => Finding::bad(
            "topics",
            format!("socket.request.max.bytes={found}, but a request with a record of {limit} bytes needs {wanted}"),
            format!("raise it in the configuration of each broker, and restart the broker{lower}"),
        ),
        TopicProblem::Uneven { name, found, other, wanted } => Finding::bad(
            format!("topic {name}"),
            format!("{found} partitions, but `{other}` has {wanted}: all topics must have the same number"),
            format!("delete `{name}`, then: orbweaver topics create --partitions {wanted}"),
        ),
        // The text names problem and remedy, separated by the last of these.
        _ => match all.rsplit_once("; ").or_else(|| all.rsplit_once(": ")) {
            Some((seen, advice)) => Finding::bad("topics", seen, advice),
            None => Finding::bad("topics", &all, "orbweaver topics check"),
        },
    }
}

/// Returns the findings about replicas.
#[must_use]
pub fn replicas(topics: &[TopicSeen], brokers: usize) -> Vec<Finding> {
    let named = |is: &dyn Fn(&TopicSeen, &Replicas) -> bool| -> Vec<String> {
        let of = |topic: &TopicSeen| {
            let partitions = topic.partitions.iter().filter(|at| is(topic, at));
            partitions.map(|at| format!("{}/{}", topic.name, at.partition)).collect::<Vec<_>>()
        };
        topics.iter().flat_map(of).collect()
    };
    let leaderless = named(&|_, at| at.leader.is_none());
    let refusing = named(&|topic, at| at.leader.is_some() && at.in_sync.len() < topic.min_in_sync);
    let behind = named(&|topic, at| {
        at.leader.is_some() && at.in_sync.len() >= topic.min_in_sync && at.in_sync.len() < at.replicas.len()
    });
    let mut found = vec![];
    for (partitions, level, state, advice) in [
        (
            leaderless,
            Level::Bad,
            "without a leader",
            "start the brokers that hold them: nothing can be read or written there",
        ),
        (
            refusing,
            Level::Bad,
            "with fewer replicas in sync than `min.insync.replicas`",
            "start the missing brokers: these partitions refuse every append",
        ),
        (
            behind,
            Level::Warn,
            "with replicas that are not in sync",
            "start the missing brokers, or wait until they have caught up",
        ),
    ] {
        if !partitions.is_empty() {
            let seen = format!("{} {state}: {}", count(partitions.len() as u64, "partition"), listed(&partitions));
            found.push(Finding { level, ..Finding::warn("replicas", seen, advice) });
        }
    }
    let single: Vec<&str> = topics
        .iter()
        .filter(|topic| topic.partitions.iter().any(|at| at.replicas.len() == 1))
        .map(|topic| topic.name.as_str())
        .collect();
    if brokers > 1 && !single.is_empty() {
        found.push(Finding::warn(
            "replication",
            format!("{} with one replica on {brokers} brokers: {}", count(single.len() as u64, "topic"), listed(&single)),
            "a broker that fails takes its partitions with it: add replicas with kafka-reassign-partitions.sh, and set min.insync.replicas=2",
        ));
    }
    if found.is_empty() && !topics.is_empty() {
        let partitions: usize = topics.iter().map(|topic| topic.partitions.len()).sum();
        let least =
            topics.iter().flat_map(|topic| &topic.partitions).map(|at| at.replicas.len()).min().unwrap_or_default();
        let (partitions, least) = (count(partitions as u64, "partition"), count(least as u64, "replica"));
        found.push(Finding::ok("replicas", format!("{partitions} with a leader and at least {least}, all in sync")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str, min_in_sync: usize, partitions: &[(Option<i32>, &[i32], &[i32])]) -> TopicSeen {
        let partitions = partitions.iter().zip(0..).map(|((leader, replicas, in_sync), partition)| Replicas {
            partition,
            leader: *leader,
            replicas: replicas.to_vec(),
            in_sync: in_sync.to_vec(),
        });
        TopicSeen { name: name.to_owned(), partitions: partitions.collect(), min_in_sync }
    }

    fn levels(found: &[Finding]) -> Vec<Level> {
        found.iter().map(|finding| finding.level).collect()
    }

    #[test]
    fn missing_topics_are_one_finding_with_the_command_that_creates_them() {
        let missing = |name: &str| TopicProblem::Missing { name: name.to_owned(), partitions: 8 };
        let found = settings(&[missing("crawl.seeds"), missing("crawl.pages")], 17, 3);
        assert_eq!(levels(&found), [Level::Bad]);
        assert_eq!(found[0].seen, "2 of 17 topics are missing: crawl.seeds, crawl.pages");
        assert_eq!(found[0].advice.as_deref(), Some("orbweaver topics create --partitions 8 --replication 3"));
        let found = settings(&[missing("crawl.seeds")], 17, 2);
        assert_eq!(found[0].advice.as_deref(), Some("orbweaver topics create --partitions 8"), "two brokers");
        assert_eq!(levels(&settings(&[], 17, 1)), [Level::Ok]);
    }

    #[test]
    fn a_wrong_setting_is_bad_with_the_command_that_corrects_it() {
        let wrong = TopicProblem::Setting {
            name: "crawl.pages".to_owned(),
            key: "retention.ms",
            found: "60000".to_owned(),
            wanted: "-1".to_owned(),
            reason: "so records may be deleted before they are consumed",
            brokers: "kafka:9092".to_owned(),
        };
        let commit =
            TopicProblem::NoCommit { group: "crawl.fetcher".to_owned(), name: "crawl.ready".to_owned(), partitions: 2 };
        let even = TopicProblem::NoPowerOfTwo { name: "crawl.ready".to_owned(), found: 3 };
        let lower = "; or set `kafka.record_limit` to 5 at most".to_owned();
        let limit = 16 << 20;
        let (name, max_message_bytes) = ("crawl.pages".to_owned(), "9".to_owned());
        let request = TopicProblem::RequestLimit { name, limit, max_message_bytes, found: 7, wanted: 8, lower };
        let found = &settings(&[request], 17, 1)[0];
        assert!(found.seen.ends_with("needs 8"), "{found:?}");
        assert!(
            found.advice.as_ref().is_some_and(|advice| advice.starts_with("raise it") && advice.ends_with("at most"))
        );
        let found = settings(&[wrong, commit, even], 17, 1);
        assert_eq!(levels(&found), [Level::Bad; 3]);
        assert!(
            found[0]
                .advice
                .as_ref()
                .is_some_and(|advice| advice.ends_with("--entity-name crawl.pages --add-config retention.ms=-1"))
        );
        assert!(found[1].advice.as_ref().is_some_and(|advice| advice.contains("orbweaver topics create")), "{found:?}");
        assert_eq!(
            (&*found[2].check, found[2].seen.contains("crawl.fetcher on crawl.ready (2 partitions)")),
            ("commits", true)
        );
    }

    #[test]
    fn partitions_without_a_leader_or_enough_replicas_in_sync_are_bad() {
        let three: &[i32] = &[1, 2, 3];
        assert_eq!(levels(&replicas(&[topic("a", 2, &[(Some(1), three, three)])], 3)), [Level::Ok]);
        assert_eq!(
            levels(&replicas(&[topic("a", 2, &[(Some(1), three, &[1, 2])])], 3)),
            [Level::Warn],
            "one is behind"
        );
        assert_eq!(levels(&replicas(&[topic("a", 2, &[(Some(1), three, &[1])])], 3)), [Level::Bad]);
        let found = replicas(&[topic("a", 2, &[(Some(1), three, three), (None, three, &[])])], 3);
        assert_eq!((levels(&found), found[0].seen.contains("a/1")), (vec![Level::Bad], true), "{found:?}");
    }

    #[test]
    fn one_replica_is_a_warning_only_if_there_are_several_brokers() {
        let single = [topic("a", 1, &[(Some(1), &[1], &[1])])];
        assert_eq!(levels(&replicas(&single, 1)), [Level::Ok]);
        assert_eq!(levels(&replicas(&single, 2)), [Level::Warn]);
        assert!(replicas(&[], 3).is_empty());
    }
}
