//! Observations of brokers and store, each with a bounded wait.

use std::{collections::BTreeMap, fmt::Display, time::Duration};

use orbweaver_log::{
    Log as _,
    kafka::{ClusterView, KafkaConfig, KafkaLog, topics as log_topics},
};
use orbweaver_messages::{
    topic,
    topic::{CONTROL, DEAD_LETTERS},
};
use orbweaver_stage::{Clock as _, SystemClock};
use orbweaver_store::{CqlConfig, inspect};
use tokio::time::{Instant, sleep, timeout};

use super::{
    Report,
    brokers::{BrokerSeen, brokers as check_brokers},
    crawls,
    finding::Finding,
    instances::{GroupSeen, Members, instances},
    progress::{Reading, StageSeen, Waits, progress, stages},
    readings::{self, Pairs},
    store as check_store,
    topics::{self, TopicSeen},
};
use crate::{cluster::dead_letters, exit::Failure};

/// Timeout of a request, and time for which requests are retried.
const REQUEST: Duration = Duration::from_secs(5);
/// Maximum duration of one observation.
const LIMIT: Duration = Duration::from_secs(60);
/// Remedy for an observation that failed although a broker answered.
const READABLE: &str = "check the brokers above and the permissions of this client";

/// Awaits an observation for at most [`LIMIT`].
async fn within<T, E: Display>(observation: impl Future<Output = Result<T, E>>) -> Result<T, String> {
    match timeout(LIMIT, observation).await {
        Ok(observed) => observed.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", LIMIT.as_secs())),
    }
}

/// Checks brokers, topics, stages, dead letters and crawls. The stages are observed twice, `apart` from each other.
pub(super) async fn brokers(config: KafkaConfig, apart: Duration, report: &mut Report) -> Result<(), Failure> {
    let named = config.brokers.clone();
    let config = KafkaConfig { connect_patience: REQUEST, patience: REQUEST, request_timeout: REQUEST, ..config };
    let seen = within(async {
        let log = KafkaLog::connect(config).await?;
        let view = log.cluster_view().await?;
        Ok::<_, orbweaver_log::LogError>((log, view))
    });
    let (log, view) = match seen.await {
        Ok(seen) => seen,
        Err(error) => {
            let advice = format!(
                "check --brokers, that {named} can be reached from here, and TLS and log-in (-X KEY=VALUE, or \
                 ORBWEAVER_KAFKA__PROPERTIES__…); nothing else of the brokers was checked"
            );
            return report.add(&[Finding::bad("brokers", error, advice)]);
        }
    };
    let mut seen = vec![];
    for broker in &view.brokers {
        let begun = Instant::now();
        let answer = within(log.broker_answers(broker.id)).await.map(|()| begun.elapsed());
        seen.push(BrokerSeen { id: broker.id, address: broker.address.clone(), answer });
    }
    report.add(&check_brokers(&seen))?;
    report.add(&topics_of(&log, &view).await)?;
    if view.topics.is_empty() {
        return Ok(());
    }
    let exists = |topic| log.partitions(topic).is_ok();
    let control = if exists(CONTROL) { Some(within(readings::crawls(&log)).await) } else { None };
    if view.has_commits {
        let waits = control.as_ref().and_then(|seen| seen.as_ref().ok()).map(|seen| seen.waits.clone());
        report.add(&stages_of(&log, apart, &waits.unwrap_or_default()).await)?;
        if exists(DEAD_LETTERS) {
            report.add(&[dead_letters_of(&log).await])?;
        }
    } else {
        let advice = "orbweaver topics create commits the first offset of each group";
        report.add(&[Finding::bad("commits", "no group has ever committed on these brokers", advice)])?;
    }
    match control {
        None => Ok(()),
        Some(Ok(seen)) => report.add(&crawls::crawls(&seen)),
        Some(Err(error)) => report.add(&[Finding::bad("crawls", error, READABLE)]),
    }
}

async fn topics_of(log: &KafkaLog, view: &ClusterView) -> Vec<Finding> {
    let (expected, brokers) = (topic::topics().len(), view.brokers.len());
    let problems = within(async {
        let mut problems = log_topics::check_settings(log).await?;
        if view.has_commits {
            problems.extend(log_topics::check_commits(log).await?);
        }
        Ok::<_, orbweaver_log::LogError>(problems)
    });
    let mut found = match problems.await {
        Ok(problems) => topics::settings(&problems, expected, brokers),
        Err(error) => vec![Finding::bad("topics", error, READABLE)],
    };
    match within(log_topics::min_in_sync(log)).await {
        Ok(min_in_sync) => {
            let own = topic::topics().iter().filter_map(|described| {
                let name = log.topic_name(described.topic);
                let partitions = view.topics.get(&name)?.clone();
                let min_in_sync = min_in_sync.get(&name).copied().unwrap_or(1);
                Some(TopicSeen { name, partitions, min_in_sync })
            });
            found.extend(topics::replicas(&own.collect::<Vec<_>>(), brokers));
        }
        Err(error) => found.push(Finding::bad("replicas", error, READABLE)),
    }
    found
}

async fn stages_of(log: &KafkaLog, apart: Duration, waits: &Waits) -> Vec<Finding> {
    let observed = async {
        let pairs = within(Pairs::read(log)).await?;
        let first = within(readings::reading(log, &pairs.pairs)).await?;
        let begun = Instant::now();
        sleep(apart).await;
        let second = within(readings::reading(log, &pairs.pairs)).await?;
        Ok::<(Reading, Reading, Duration, Pairs), String>((first, second, begun.elapsed(), pairs))
    };
    let (first, second, apart, pairs) = match observed.await {
        Ok(observed) => observed,
        Err(error) => return vec![Finding::bad("stages", error, READABLE)],
    };
    let seen = stages(&first, &second, |group| pairs.declared.contains(group));
    let mut found = match within(log.group_views()).await {
        Ok(views) => {
            let views = views.into_iter().map(|view| (view.name, view.members)).collect();
            instances(&groups(log, &seen, &views))
        }
        Err(error) => vec![Finding::bad("instances", error, READABLE)],
    };
    found.extend(progress(&seen, waits, apart));
    found
}

/// Returns the groups of services with their members.
fn groups(log: &KafkaLog, seen: &[StageSeen], views: &BTreeMap<String, Option<usize>>) -> Vec<GroupSeen> {
    let mut groups: Vec<GroupSeen> = vec![];
    for stage in seen.iter().filter(|stage| !stage.is_declared) {
        let lag = if stage.has_records { stage.lag } else { 0 };
        if let Some(group) = groups.iter_mut().find(|group| group.service == stage.service) {
            group.lag += lag;
            continue;
        }
        let members = match views.get(&log.group_name(&stage.service)) {
            None => Members::Unlisted,
            Some(None) => Members::Unreported,
            Some(Some(members)) => Members::Known(*members),
        };
        let partitions = log.partitions(stage.topic).unwrap_or_default();
        groups.push(GroupSeen { service: stage.service.clone(), members, lag, partitions });
    }
    groups
}

async fn dead_letters_of(log: &KafkaLog) -> Finding {
    match within(dead_letters::left(log)).await {
        Ok(spans) => crawls::dead_letters(spans.iter().map(|(_, from, end)| end - from).sum()),
        Err(error) => Finding::bad("dead letters", error, READABLE),
    }
}

/// Checks the store, if its nodes are known.
pub(super) async fn store(config: Option<CqlConfig>) -> Vec<Finding> {
    let Some(config) = config else {
        let seen = "not checked: no nodes are given";
        let advice = "give them with --cql HOST:PORT, or set ORBWEAVER_CQL__NODES as for the services";
        return vec![Finding::warn("store", seen, advice)];
    };
    match within(inspect(&config, || SystemClock.now())).await {
        Ok(seen) => check_store::store(&config.keyspace, &seen),
        Err(error) => {
            let nodes = config.nodes.join(", ");
            let advice =
                format!("check that {nodes} can be reached from here, and ORBWEAVER_CQL__… for TLS and log-in");
            vec![Finding::bad("store", error, advice)]
        }
    }
}
