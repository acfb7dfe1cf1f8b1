//! Broker queries: bounds, timestamps, commits. They wait while the brokers are unavailable, off the runtime's threads.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rdkafka::{
    ClientConfig, TopicPartitionList,
    admin::{AdminClient, AdminOptions, ConfigResourceResult, ResourceSpecifier},
    config::FromClientConfigAndContext,
    consumer::{BaseConsumer, CommitMode, Consumer as _},
    error::KafkaError,
    topic_partition_list::{Offset as Position, TopicPartitionListElem},
};
use tokio::{
    sync::Semaphore,
    task::spawn_blocking,
    time::{Instant, sleep},
};

use super::{
    KafkaConfig,
    client::{
        EMPTY_POLLS, LoggingContext, Names, invalid, is_transient, properties, reading, to_log_error, to_log_error_at,
    },
};
use crate::{Bounds, Commit, LogError, Offset, Partition, TopicPartition};

/// Maximum number of concurrent queries; each occupies a thread while it waits.
const AT_ONCE: usize = 8;
/// Retry delays while the brokers are unavailable: doubled from the first to the second value.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Maximum number of cached group clients, one per group.
const GROUPS_KEPT: usize = 32;

pub(super) type Client = BaseConsumer<LoggingContext>;

/// Topic-partitions with their topic names on the brokers.
pub(super) type Named = Vec<(TopicPartition, Arc<str>)>;

/// Client for broker queries.
pub(super) struct BrokerQueries {
    names: Names,
    reading: ClientConfig,
    client: Arc<Client>,
    groups: Mutex<HashMap<String, Arc<Client>>>,
    admin: AdminClient<LoggingContext>,
    permits: Semaphore,
    /// Whether a query was answered, and so the credentials accepted.
    accepted: AtomicBool,
    timeout: Duration,
    patience: Duration,
}

impl BrokerQueries {
    pub(super) fn new(config: &KafkaConfig) -> Result<Self, LogError> {
        let reading = reading(config);
        let wrong = |error: KafkaError| invalid("a Kafka client", &error);
        Ok(Self {
            names: Names::new(&config.prefix),
            client: Arc::new(Client::from_config_and_context(&reading, LoggingContext::default()).map_err(wrong)?),
            groups: Mutex::default(),
            admin: AdminClient::from_config_and_context(&properties(config), LoggingContext::default())
                .map_err(wrong)?,
            permits: Semaphore::new(AT_ONCE),
            accepted: AtomicBool::new(false),
            timeout: config.request_timeout,
            patience: config.patience,
            reading,
        })
    }

    pub(super) fn admin(&self) -> &AdminClient<LoggingContext> {
        &self.admin
    }

    pub(super) fn admin_options(&self) -> AdminOptions {
        AdminOptions::new().request_timeout(Some(self.timeout)).operation_timeout(Some(self.timeout))
    }

    /// Runs a query with `client`, retrying for up to `patience` while the brokers are unavailable.
    async fn query<T: Send + 'static>(
        &self,
        client: Arc<Client>,
        patience: Duration,
        request: impl Fn(&Client, Duration) -> Result<T, LogError> + Send + Sync + 'static,
    ) -> Result<T, LogError> {
        let request = Arc::new(request);
        self.retry(patience, || async {
            let _permit = self.permits.acquire().await;
            let (client, request, timeout) = (client.clone(), request.clone(), self.timeout);
            let answer = spawn_blocking(move || {
                let answer = request(&client, timeout);
                // Drains log and error events from the client's queue.
                let mut empty = 0;
                while empty < EMPTY_POLLS {
                    empty = if client.poll(Duration::ZERO).is_some() { 0 } else { empty + 1 };
                }
                answer
            });
            answer.await.unwrap_or_else(|error| Err(LogError::Fatal(error.to_string())))
        })
        .await
    }

    /// Runs a query with the client that belongs to no group.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        request: impl Fn(&Client, Duration) -> Result<T, LogError> + Send + Sync + 'static,
    ) -> Result<T, LogError> {
        self.query(self.client.clone(), self.patience, request).await
    }

    /// Repeats a query for up to `patience` while the brokers are unavailable.
    async fn retry<T, F>(&self, patience: Duration, query: impl Fn() -> F) -> Result<T, LogError>
    where
        F: Future<Output = Result<T, LogError>>,
    {
        let (begun, mut pause) = (Instant::now(), BACK_OFF.0);
        loop {
            match query().await {
                Err(LogError::Unavailable(reason)) => {
                    if let Some(rejection) = self.rejection() {
                        return Err(LogError::Invalid(format!("the brokers reject the credentials: {rejection}")));
                    }
                    if begun.elapsed() >= patience {
                        return Err(LogError::Unavailable(reason));
                    }
                    tracing::warn!(reason, ?pause, "brokers unavailable; retrying");
                    sleep(pause).await;
                    pause = (pause * 2).min(BACK_OFF.1);
                }
                other => {
                    self.accepted.fetch_or(other.is_ok(), Ordering::Relaxed);
                    return other;
                }
            }
        }
    }

    /// Returns the settings of topics, brokers or groups, or for each the code with which the brokers refuse them.
    pub(super) async fn settings(&self, of: &[ResourceSpecifier<'_>]) -> Result<Vec<ConfigResourceResult>, LogError> {
        let options = self.admin_options();
        self.retry(self.patience, || async {
            let answers = self.admin.describe_configs(of, &options).await;
            let answers = answers.map_err(|error| to_log_error("reading settings", &error))?;
            match answers.iter().filter_map(|answer| answer.as_ref().err()).find(|code| is_transient(**code)) {
                Some(code) => Err(LogError::Unavailable(format!("reading settings: {code}"))),
                None => Ok(answers),
            }
        })
        .await
    }

    /// Returns the text of a rejected login, if no login has succeeded yet. Later ones are retried: a broker that has
    /// just started may not know the credentials.
    fn rejection(&self) -> Option<String> {
        if self.accepted.load(Ordering::Relaxed) { None } else { self.client.context().rejection() }
    }

    /// Returns the topics of the prefix with their partition counts.
    pub(super) async fn partitions(&self, patience: Duration) -> Result<HashMap<Arc<str>, Partition>, LogError> {
        let names = self.names.clone();
        self.query(self.client.clone(), patience, move |client, timeout| {
            let metadata =
                client.fetch_metadata(None, timeout).map_err(|error| to_log_error("listing topics", &error))?;
            let own = metadata.topics().iter().filter(|topic| topic.error().is_none() && names.is_own(topic.name()));
            let counted =
                own.map(|topic| (Arc::from(topic.name()), u32::try_from(topic.partitions().len()).unwrap_or(u32::MAX)));
            Ok(counted.collect())
        })
        .await
    }

    /// Returns the ID of any broker.
    pub(super) async fn any_broker(&self) -> Result<i32, LogError> {
        self.query(self.client.clone(), self.patience, |client, timeout| {
            let metadata =
                client.fetch_metadata(None, timeout).map_err(|error| to_log_error("listing brokers", &error))?;
            let broker = metadata.brokers().first().map(rdkafka::metadata::MetadataBroker::id);
            broker.ok_or_else(|| LogError::Unavailable("no broker is known".to_owned()))
        })
        .await
    }

    /// Returns log starts and log ends, in two requests per broker.
    pub(super) async fn bounds(&self, tps: Named) -> Result<Vec<Bounds>, LogError> {
        self.query(self.client.clone(), self.patience, move |client, timeout| bounds(client, &tps, timeout)).await
    }

    /// Returns the offset of the first record at or after a timestamp; `None` if there is none.
    pub(super) async fn offset_at(
        &self,
        tp: TopicPartition,
        name: Arc<str>,
        timestamp_ms: i64,
    ) -> Result<Option<Offset>, LogError> {
        let tps = vec![(tp, name)];
        self.query(self.client.clone(), self.patience, move |client, timeout| {
            Ok(offsets(client, &tps, Position::Offset(timestamp_ms.max(0)), timeout)?.pop().flatten())
        })
        .await
    }

    /// Returns a group's commits, without joining it.
    pub(super) async fn committed(&self, group: &str, tps: Named) -> Result<Vec<Option<Commit>>, LogError> {
        if tps.is_empty() {
            return Ok(vec![]);
        }
        let client = self.of_group(group)?;
        self.query(client, self.patience, move |client, timeout| committed(client, &tps, timeout)).await
    }

    /// Commits for a group without members.
    pub(super) async fn commit(&self, group: &str, commits: Vec<(Arc<str>, u32, Offset)>) -> Result<(), LogError> {
        let (client, name) = (self.of_group(group)?, self.names.group(group));
        self.query(client, self.patience, move |client, _| {
            let mut list = TopicPartitionList::with_capacity(commits.len());
            for (topic, partition, offset) in &commits {
                let wrong = |error: KafkaError| LogError::Invalid(format!("offset {offset} of {topic}: {error}"));
                list.add_partition_offset(topic, raw_partition(*partition), position(*offset)).map_err(wrong)?;
            }
            let what = || format!("the first commit of the group `{name}`");
            client.commit(&list, CommitMode::Sync).map_err(|error| to_log_error(what(), &error))
        })
        .await
    }

    /// Deletes records below `before`.
    pub(super) async fn delete_below(&self, tp: TopicPartition, name: &str, before: Offset) -> Result<(), LogError> {
        let what = "deleting records";
        let mut list = TopicPartitionList::with_capacity(1);
        list.add_partition_offset(name, raw_partition(tp.partition), position(before))
            .map_err(|error| to_log_error_at(what, tp, &error))?;
        let answer = self.admin.delete_records(&list, &self.admin_options()).await;
        let deleted = answer.map_err(|error| to_log_error_at(what, tp, &error))?;
        for element in deleted.elements() {
            element.error().map_err(|error| to_log_error_at(what, tp, &error))?;
        }
        Ok(())
    }

    /// Returns the client for queries about a group; it never joins the group.
    fn of_group(&self, group: &str) -> Result<Arc<Client>, LogError> {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = groups.get(group) {
            return Ok(client.clone());
        }
        let mut config = self.reading.clone();
        config.set("group.id", self.names.group(group));
        let client = Client::from_config_and_context(&config, LoggingContext::default())
            .map_err(|error| invalid(format_args!("a Kafka client of the group `{group}`"), &error))?;
        let client = Arc::new(client);
        if groups.len() < GROUPS_KEPT {
            groups.insert(group.to_owned(), client.clone());
        }
        Ok(client)
    }
}

impl Drop for BrokerQueries {
    /// Shutting down group clients takes a moment and must not block the runtime.
    fn drop(&mut self) {
        let groups = std::mem::take(self.groups.get_mut().unwrap_or_else(PoisonError::into_inner));
        std::thread::spawn(move || drop(groups));
    }
}

/// Converts a partition number for librdkafka.
pub(super) fn raw_partition(partition: u32) -> i32 {
    i32::try_from(partition).unwrap_or(i32::MAX)
}

/// Converts an offset for librdkafka.
pub(super) fn position(offset: Offset) -> Position {
    Position::Offset(i64::try_from(offset).unwrap_or(i64::MAX))
}

/// Returns log starts and log ends, using any consuming client.
pub(super) fn bounds<C: rdkafka::consumer::ConsumerContext>(
    client: &BaseConsumer<C>,
    tps: &[(TopicPartition, Arc<str>)],
    timeout: Duration,
) -> Result<Vec<Bounds>, LogError> {
    // Start first: a deletion in between then only makes the range look larger.
    let starts = offsets(client, tps, Position::Beginning, timeout)?;
    let ends = offsets(client, tps, Position::End, timeout)?;
    let mut bounds = Vec::with_capacity(tps.len());
    for ((tp, _), found) in tps.iter().zip(starts.into_iter().zip(ends)) {
        let (Some(start), Some(end)) = found else {
            return Err(LogError::Unavailable(format!("the log bounds of {tp}: the broker returned none")));
        };
        bounds.push(Bounds { start, end });
    }
    Ok(bounds)
}

/// Returns one offset per topic-partition. `ListOffsets` takes a timestamp or a constant for the log start or log end
/// (KIP-396), and librdkafka accepts all three: one request per broker, where `fetch_watermarks` takes two per
/// partition.
fn offsets<C: rdkafka::consumer::ConsumerContext>(
    client: &BaseConsumer<C>,
    tps: &[(TopicPartition, Arc<str>)],
    at: Position,
    timeout: Duration,
) -> Result<Vec<Option<Offset>>, LogError> {
    let Some((first, _)) = tps.first() else { return Ok(vec![]) };
    let mut list = TopicPartitionList::with_capacity(tps.len());
    for (tp, name) in tps {
        list.add_partition_offset(name, raw_partition(tp.partition), at)
            .map_err(|error| to_log_error_at("an offset", *tp, &error))?;
    }
    let what = "the offsets";
    let found = client.offsets_for_times(list, timeout).map_err(|error| to_log_error_at(what, *first, &error))?;
    Ok(in_order(&found, tps, what)?.iter().map(offset_of).collect())
}

/// Returns the elements of `list` in the order of `tps`. Fails if one is missing or has an error; `what` describes it.
fn in_order<'a>(
    list: &'a TopicPartitionList,
    tps: &[(TopicPartition, Arc<str>)],
    what: &str,
) -> Result<Vec<TopicPartitionListElem<'a>>, LogError> {
    // The list's own lookup is a linear search.
    let keyed = list.elements().into_iter().map(|element| ((element.topic().to_owned(), element.partition()), element));
    let mut by_tp: HashMap<_, _> = keyed.collect();
    let take = |(tp, name): &(TopicPartition, Arc<str>)| {
        let element = by_tp.remove(&(name.to_string(), raw_partition(tp.partition)));
        let element = element.ok_or(LogError::UnknownPartition(*tp))?;
        element.error().map_err(|error| to_log_error_at(what, *tp, &error))?;
        Ok(element)
    };
    tps.iter().map(take).collect()
}

fn offset_of(element: &TopicPartitionListElem<'_>) -> Option<Offset> {
    if let Position::Offset(offset) = element.offset() { Offset::try_from(offset).ok() } else { None }
}

/// Returns the commits of the client's group.
pub(super) fn committed<C: rdkafka::consumer::ConsumerContext>(
    client: &BaseConsumer<C>,
    tps: &[(TopicPartition, Arc<str>)],
    timeout: Duration,
) -> Result<Vec<Option<Commit>>, LogError> {
    let mut list = TopicPartitionList::with_capacity(tps.len());
    for (tp, name) in tps {
        list.add_partition(name, raw_partition(tp.partition));
    }
    let found = client.committed_offsets(list, timeout).map_err(|error| to_log_error("reading commits", &error))?;
    let commit = |element: &TopicPartitionListElem<'_>| {
        Some(Commit { offset: offset_of(element)?, metadata: element.metadata().to_owned() })
    };
    Ok(in_order(&found, tps, "the commit")?.iter().map(commit).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_query_is_repeated_until_it_is_answered_refused_or_out_of_patience() {
        let queries = BrokerQueries::new(&KafkaConfig::default()).unwrap();
        let ask = async |patience_s, answered_at, refused_at| {
            let asked = AtomicU64::new(0);
            let query = || async {
                match asked.fetch_add(1, Ordering::Relaxed) {
                    number if number == answered_at => Ok(number),
                    number if number == refused_at => Err(LogError::Fatal("refused".to_owned())),
                    _ => Err(LogError::Unavailable("no broker".to_owned())),
                }
            };
            queries.retry(Duration::from_secs(patience_s), query).await
        };
        assert!(matches!(ask(60, 5, u64::MAX).await, Ok(5)));
        assert!(matches!(ask(60, 5, 2).await, Err(LogError::Fatal(_))));
        assert!(matches!(ask(2, 50, u64::MAX).await, Err(LogError::Unavailable(_))));
    }
}
