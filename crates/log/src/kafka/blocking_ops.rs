//! Blocking operations of a member, on librdkafka or the brokers; they run on the blocking pool.

use std::{collections::HashMap, sync::Arc, time::Duration};

use orbweaver_messages::Topic;
use rdkafka::{
    ClientConfig, TopicPartitionList,
    config::FromClientConfigAndContext,
    consumer::{BaseConsumer, CommitMode, Consumer as _},
    error::{KafkaError, KafkaResult},
    types::RDKafkaErrorCode as Code,
};
use tokio::{
    sync::Notify,
    task::{JoinError, JoinHandle},
    time::Instant,
};

use super::{
    GroupProtocol, KafkaConfig,
    broker_queries::{Named, bounds, committed, position, raw_partition},
    client::{MAX_POLL_INTERVAL, Names, invalid, reading, to_log_error},
    member_partitions::Seek,
    rebalance::{RebalanceContext, assign_unless_lost, release_partitions},
};
use crate::{Commit, LogError, Offset, TopicPartition};

/// Timeout of a seek before it is retried.
const SEEK_TIMEOUT: Duration = Duration::from_secs(5);

/// librdkafka client of a member.
pub(super) type Client = BaseConsumer<RebalanceContext>;
/// Seeks and their results.
pub(super) type Sought = Vec<(Seek, Through)>;

/// Result of a seek.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Through {
    Yes,
    NotYet,
    /// The position is not in the log, and never will be unless a new leader lags.
    OutOfRange,
}

/// Operation in progress on the blocking pool.
pub(super) enum BlockingTask {
    /// Assignment of partitions; `false` if they were lost before.
    Take(JoinHandle<Result<bool, LogError>>),
    Seeks(JoinHandle<Sought>),
    /// Search for positions outside the log; returns the partitions with records to read.
    Probe(JoinHandle<Result<Vec<TopicPartition>, LogError>>, RejectedPosition),
}

/// A rejected position; the event does not name the partition.
#[derive(Debug)]
pub(super) struct RejectedPosition {
    /// Time of the next probe.
    pub(super) look_at: Instant,
    /// Positions of readable partitions at the previous probe, if any. librdkafka has abandoned a partition that is
    /// still at the same position although it has records to read.
    pub(super) rejected_at: Option<Vec<(TopicPartition, Offset)>>,
    /// librdkafka has abandoned the partition: it reported the rejection of a fetch, and accepts no further seek.
    pub(super) abandoned: bool,
}

/// Partitions assigned by the brokers and not yet accepted.
#[derive(Clone, Default)]
pub(super) struct PendingAssignment {
    pub(super) tps: Named,
    /// Number of losses before this assignment.
    pub(super) losses: u64,
}

/// Returns the error for a panic on the blocking pool.
pub(super) fn broken(error: &JoinError) -> LogError {
    LogError::Fatal(error.to_string())
}

/// Returns the properties of a member of `group`.
pub(super) fn membership(config: &KafkaConfig, group: &str) -> ClientConfig {
    let names = Names::new(&config.prefix);
    let mut properties = reading(config);
    properties.set("group.id", names.group(group));
    match config.protocol {
        GroupProtocol::Consumer => {
            properties.set("group.protocol", "consumer").set("group.remote.assignor", "range");
        }
        GroupProtocol::Classic => {
            let session = config.session_timeout;
            properties
                .set("group.protocol", "classic")
                .set("partition.assignment.strategy", "range")
                .set("session.timeout.ms", session.as_millis().to_string())
                .set("heartbeat.interval.ms", (session.as_millis() / 10).to_string());
        }
    }
    if let Some(interval) = config.properties.get(MAX_POLL_INTERVAL) {
        properties.set(MAX_POLL_INTERVAL, interval);
    }
    if let Some(id) = &config.instance_id {
        properties.set("group.instance.id", id);
    }
    properties
}

/// Returns the partitions with records to read at these positions; fails if a position is not in the log.
pub(super) fn probe(
    client: &Client,
    positions: &[(TopicPartition, Offset)],
    named: &[(TopicPartition, Arc<str>)],
    timeout: Duration,
) -> Result<Vec<TopicPartition>, LogError> {
    let mut readable = vec![];
    for ((tp, offset), bounds) in positions.iter().zip(bounds(client, named, timeout)?) {
        bounds.check(*tp, *offset)?;
        readable.extend((*offset < bounds.end).then_some(*tp));
    }
    Ok(readable)
}

/// Creates a client that joins the group.
pub(super) fn member(
    properties: &ClientConfig,
    group: &str,
    topics: &[(Topic, Arc<str>)],
    ready: &Arc<Notify>,
) -> Result<Arc<Client>, LogError> {
    let wrong = |error: KafkaError| invalid(format_args!("a consumer of the group `{group}`"), &error);
    let mut client = Client::from_config_and_context(properties, RebalanceContext::default()).map_err(wrong)?;
    let ready = ready.clone();
    client.set_nonempty_callback(move || ready.notify_one());
    let listed: Vec<&str> = topics.iter().map(|(_, name)| &**name).collect();
    client.subscribe(&listed).map_err(wrong)?;
    Ok(Arc::new(client))
}

/// Accepts assigned partitions at their log ends (see `rebalance::take`); returns `false` if they were lost meanwhile.
pub(super) fn take_at_ends(client: &Client, given: &PendingAssignment, timeout: Duration) -> Result<bool, LogError> {
    let ends = bounds(client, &given.tps, timeout)?.into_iter().map(|bounds| bounds.end);
    take(client, given, ends).map_err(|error| to_log_error("accepting an assignment", &error))
}

fn take(client: &Client, given: &PendingAssignment, at: impl IntoIterator<Item = Offset>) -> KafkaResult<bool> {
    let mut list = TopicPartitionList::with_capacity(given.tps.len());
    for ((tp, name), at) in given.tps.iter().zip(at) {
        list.add_partition_offset(name, raw_partition(tp.partition), position(at))?;
    }
    assign_unless_lost(client, &list, given.losses)
}

/// Shuts a client down. An unanswered rebalance would keep it alive indefinitely.
pub(super) fn end(client: Arc<Client>, going: &TopicPartitionList, given: &PendingAssignment) {
    client.context().leave();
    if !given.tps.is_empty()
        && let Err(error) = take(&client, given, std::iter::repeat(0))
    {
        tracing::debug!(%error, "partitions could not be accepted before leaving the group");
    }
    if going.count() > 0
        && let Err(error) = release_partitions(&client, going)
    {
        tracing::debug!(%error, "partitions could not be released before leaving the group");
    }
    drop(client);
}

/// Moves partitions to their start positions. A partition assigned a moment ago may not be ready; its seek is retried.
/// The range is checked first: librdkafka abandons a partition for good when the brokers reject its position
/// (`rd_kafka_offset_reset`), and accepts no further seek for it.
pub(super) fn seek(client: &Client, seeks: Vec<(Seek, Arc<str>)>, timeout: Duration) -> Sought {
    let named: Vec<_> = seeks.iter().map(|(seek, name)| (seek.tp, name.clone())).collect();
    let bounds = match bounds(client, &named, timeout) {
        Ok(bounds) => bounds,
        Err(error) => {
            tracing::debug!(%error, "log bounds unavailable; retrying to start partitions");
            return seeks.into_iter().map(|(seek, _)| (seek, Through::NotYet)).collect();
        }
    };
    let mut list = TopicPartitionList::with_capacity(seeks.len());
    let mut sought = Vec::with_capacity(seeks.len());
    let mut within = HashMap::with_capacity(seeks.len());
    for ((seek, name), bounds) in seeks.into_iter().zip(bounds) {
        let partition = raw_partition(seek.tp.partition);
        match bounds.check(seek.tp, seek.from) {
            Err(error) => {
                tracing::debug!(%error, "a start offset is not in the log");
                sought.push((seek, Through::OutOfRange));
            }
            Ok(()) => {
                let _ = list.add_partition_offset(&name, partition, position(seek.from));
                within.insert((name.to_string(), partition), seek);
            }
        }
    }
    match client.seek_partitions(list, SEEK_TIMEOUT) {
        Err(error) => tracing::debug!(%error, "a seek failed; retrying"),
        Ok(list) => {
            for element in list.elements().iter().filter(|element| element.error().is_ok()) {
                let is_accepted = within.remove(&(element.topic().to_owned(), element.partition()));
                sought.extend(is_accepted.map(|seek| (seek, Through::Yes)));
            }
        }
    }
    sought.extend(within.into_values().map(|seek| (seek, Through::NotYet)));
    sought
}

/// Commits and verifies the result. librdkafka reports an error of a synchronous commit only if *all* partitions failed
/// (`rd_kafka_handle_OffsetCommit`), so a commit of several is read back.
pub(super) fn commit(
    client: &Client,
    group: &str,
    commits: &[(TopicPartition, Arc<str>, Commit)],
    timeout: Duration,
) -> Result<(), LogError> {
    let what = || format!("a commit of the group `{group}`");
    let mut list = TopicPartitionList::with_capacity(commits.len());
    for (tp, name, commit) in commits {
        let mut element = list.add_partition(name, raw_partition(tp.partition));
        element.set_offset(position(commit.offset)).map_err(|error| to_log_error(what(), &error))?;
        if !commit.metadata.is_empty() {
            element.set_metadata(&commit.metadata);
        }
    }
    let Some((first, _, _)) = commits.first() else { return Ok(()) };
    if let Err(error) = client.commit(&list, CommitMode::Sync) {
        return Err(match error.rdkafka_error_code() {
            Some(
                Code::UnknownMemberId
                | Code::IllegalGeneration
                | Code::FencedMemberEpoch
                | Code::FencedInstanceId
                | Code::AssignmentLost,
            ) => LogError::NotAssigned(*first),
            _ => to_log_error(what(), &error),
        });
    }
    if commits.len() == 1 {
        return Ok(());
    }
    let named: Vec<_> = commits.iter().map(|(tp, name, _)| (*tp, name.clone())).collect();
    // After any error here the commit may still have been accepted; it is retried.
    let unread = |error: LogError| LogError::Unavailable(format!("{}: it could not be verified: {error}", what()));
    let found = committed(client, &named, timeout).map_err(unread)?;
    for ((tp, _, wanted), found) in commits.iter().zip(found) {
        if found.as_ref() != Some(wanted) {
            let (offset, found) = (wanted.offset, found.map(|found| found.offset));
            let what = what();
            return Err(LogError::Unavailable(format!("{what}: {tp} has {found:?} instead of {offset}")));
        }
    }
    Ok(())
}
