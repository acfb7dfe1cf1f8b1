//! The log on Kafka, and the only module that names its client library.
//!
//! [`KafkaLog::connect`] waits for the brokers and loads the topics of the prefix; [`topics`] creates and checks them.
//! The guarantees of the traits:
//!
//! - **Appends** go through one idempotent producer with `acks=all` and no timeout: an unacknowledged append waits as
//!   long as the brokers are unavailable, in bounded memory.
//! - **Members** of a group accept their assignment paused, and seek when the caller sets a position. Revoked
//!   partitions are released when the caller does so. A brief pause costs nothing: prefetched records are kept.
//! - **Commits** are synchronous, off the runtime's threads, one at a time. A commit of several is read back, because
//!   librdkafka does not report the error of one partition among many.
//! - **Readers** share a few consumers outside of any group. A gap at the end of a partition (transaction markers,
//!   compaction) is skipped up to the end that the broker being read from reports, and no further.
//!
//! | module | contents |
//! |---|---|
//! | `config` | connection settings and their validation |
//! | [`topics`] | creating, checking and listing the topics |
//! | `client` | names, properties, log lines, error classification |
//! | `producer`, `acknowledged` | appends; their offsets (pure) |
//! | `consumer`, `blocking_ops` | a member; its blocking operations |
//! | `rebalance`, `member_partitions`, `subscription` | a member's rebalance events, partitions and topics (pure) |
//! | `pool`, `reader`, `eof` | shared consumers, readers, the end of a partition |
//! | `broker_queries`, `session` | bounds, timestamps, commits, deletion; session timeouts |
//! | `cluster_view` | brokers, replicas and groups, for diagnoses |
//! | `message` | conversion of records |
//! | `login` | failed logins (pure) |

mod acknowledged;
mod blocking_ops;
mod broker_queries;
mod client;
mod cluster_view;
mod config;
mod consumer;
mod eof;
mod login;
mod member_partitions;
mod message;
mod pool;
mod producer;
mod reader;
mod rebalance;
mod session;
mod subscription;
pub mod topics;

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use futures::future::{BoxFuture, FutureExt};
use orbweaver_messages::{Millis, Topic};
use orbweaver_settings::Section as _;

pub use cluster_view::{Broker, ClusterView, GroupView, Replicas};
pub use config::{GroupProtocol, KafkaConfig};
pub use session::{SESSION_TIMEOUT, Session};

use crate::{Bounds, Commit, Consumer, Log, LogError, Offset, Partition, Reader, Record, TopicPartition};
use broker_queries::{BrokerQueries, Named};
use client::Names;
use consumer::KafkaConsumer;
use pool::ReaderPool;
use producer::BatchProducer;
use reader::KafkaReader;

/// A log on Kafka. Call [`KafkaLog::close`] before dropping it; otherwise unacknowledged records are not waited for.
pub struct KafkaLog {
    config: KafkaConfig,
    names: Names,
    /// Partition counts, by topic name on the brokers.
    known: RwLock<HashMap<Arc<str>, Partition>>,
    producer: BatchProducer,
    queries: BrokerQueries,
    pool: ReaderPool,
}

impl KafkaLog {
    /// Connects to the brokers, waiting up to [`KafkaConfig::connect_patience`] while they are unavailable, and loads
    /// the list of topics. Topics may be missing; [`topics::check`] reports them.
    ///
    /// # Errors
    /// [`LogError::Invalid`] if the configuration is wrong or the brokers reject the credentials,
    /// [`LogError::Unavailable`] if no broker answered in time.
    pub async fn connect(config: KafkaConfig) -> Result<Self, LogError> {
        config.check().map_err(|conflict| LogError::Invalid(conflict.to_string()))?;
        let log = Self {
            names: Names::new(&config.prefix),
            known: RwLock::default(),
            producer: BatchProducer::new(&config)?,
            queries: BrokerQueries::new(&config)?,
            pool: ReaderPool::new(&config),
            config,
        };
        log.refresh(log.config.connect_patience).await.map_err(|error| match error {
            LogError::Unavailable(reason) => {
                let (brokers, patience) = (&log.config.brokers, log.config.connect_patience);
                LogError::Unavailable(format!("no broker of `{brokers}` answered within {patience:?} ({reason})"))
            }
            other => other,
        })?;
        Ok(log)
    }

    #[must_use]
    pub fn config(&self) -> &KafkaConfig {
        &self.config
    }

    /// Returns the name of a topic on the brokers.
    #[must_use]
    pub fn topic_name(&self, topic: Topic) -> String {
        self.names.topic(topic)
    }

    /// Returns the name of a group on the brokers.
    #[must_use]
    pub fn group_name(&self, group: &str) -> String {
        self.names.group(group)
    }

    /// Checks that the brokers answer now, for readiness.
    ///
    /// # Errors
    /// [`LogError::Unavailable`] if none answers within [`KafkaConfig::request_timeout`].
    pub async fn ping(&self) -> Result<(), LogError> {
        self.queries.partitions(Duration::ZERO).await.map(drop)
    }

    /// Waits until all appended records are acknowledged. Consumers are closed separately, before.
    ///
    /// # Errors
    /// [`LogError::Unavailable`] if records were not acknowledged in time; they may be lost.
    pub async fn close(&self, within: Duration) -> Result<(), LogError> {
        self.producer.flush(within).await
    }

    /// Commits the initial offsets of a group without members.
    ///
    /// # Errors
    /// If a topic-partition is unknown, or the brokers refuse, as they do while the group has members.
    pub async fn begin_group(&self, group: &str, begin: Vec<(TopicPartition, Offset)>) -> Result<(), LogError> {
        let named = |(tp, offset): (TopicPartition, Offset)| Ok((self.name(tp)?, tp.partition, offset));
        let commits = begin.into_iter().map(named).collect::<Result<_, LogError>>()?;
        self.queries.commit(group, commits).await
    }

    /// Reloads the list of topics.
    async fn refresh(&self, patience: Duration) -> Result<(), LogError> {
        let found = self.queries.partitions(patience).await?;
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = found;
        Ok(())
    }

    /// Returns the name of a topic on the brokers, and its partition count.
    fn topic(&self, topic: Topic) -> Result<(Arc<str>, Partition), LogError> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let found = known.get_key_value(&*self.names.topic(topic));
        found.map(|(name, partitions)| (name.clone(), *partitions)).ok_or(LogError::UnknownTopic(topic))
    }

    /// Returns the topic name of an existing topic-partition.
    fn name(&self, tp: TopicPartition) -> Result<Arc<str>, LogError> {
        let (name, partitions) = self.topic(tp.topic)?;
        if tp.partition < partitions { Ok(name) } else { Err(LogError::UnknownPartition(tp)) }
    }

    fn named(&self, tps: &[TopicPartition]) -> Result<Named, LogError> {
        tps.iter().map(|tp| Ok((*tp, self.name(*tp)?))).collect()
    }

    async fn bounds_of(&self, tp: TopicPartition) -> Result<Bounds, LogError> {
        let bounds = self.queries.bounds(self.named(&[tp])?).await?;
        bounds.into_iter().next().ok_or(LogError::UnknownPartition(tp))
    }
}

impl Log for KafkaLog {
    fn partitions(&self, topic: Topic) -> Result<Partition, LogError> {
        self.topic(topic).map(|(_, partitions)| partitions)
    }

    fn record_limit(&self) -> usize {
        self.config.record_limit
    }

    fn append(&self, records: Vec<Record>) -> BoxFuture<'_, Result<Vec<Offset>, LogError>> {
        async move {
            let mut topics: Vec<(Topic, Arc<str>, Partition)> = vec![];
            for record in &records {
                let TopicPartition { topic, partition } = record.tp;
                let partitions = match topics.iter().find(|(known, ..)| *known == topic) {
                    Some((_, _, partitions)) => *partitions,
                    None => {
                        let (name, partitions) = self.topic(topic)?;
                        topics.push((topic, name, partitions));
                        partitions
                    }
                };
                if partition >= partitions {
                    return Err(LogError::UnknownPartition(record.tp));
                }
            }
            self.producer.append(records, &topics).await
        }
        .boxed()
    }

    fn consumer(&self, group: &str, topics: &[Topic]) -> Result<Box<dyn Consumer>, LogError> {
        let named: Result<Vec<_>, _> = topics.iter().map(|topic| Ok((*topic, self.topic(*topic)?.0))).collect();
        Ok(Box::new(KafkaConsumer::join(&self.config, group, named?)?))
    }

    fn reader(&self, tp: TopicPartition, from: Offset) -> BoxFuture<'_, Result<Box<dyn Reader>, LogError>> {
        async move {
            let name = self.name(tp)?;
            self.bounds_of(tp).await?.check(tp, from)?;
            let seat = self.pool.seat(tp.partition)?;
            Ok(Box::new(KafkaReader::new(tp, name, from, seat)) as Box<dyn Reader>)
        }
        .boxed()
    }

    fn bounds(&self, tp: TopicPartition) -> BoxFuture<'_, Result<Bounds, LogError>> {
        self.bounds_of(tp).boxed()
    }

    fn all_bounds<'a>(&'a self, tps: &'a [TopicPartition]) -> BoxFuture<'a, Result<Vec<Bounds>, LogError>> {
        async move { self.queries.bounds(self.named(tps)?).await }.boxed()
    }

    fn offset_at(&self, tp: TopicPartition, timestamp_ms: Millis) -> BoxFuture<'_, Result<Offset, LogError>> {
        async move {
            // The end first: a record appended in between is found by its timestamp, or not needed.
            let end = self.bounds_of(tp).await?.end;
            let found = self.queries.offset_at(tp, self.name(tp)?, timestamp_ms).await?;
            Ok(found.unwrap_or(end))
        }
        .boxed()
    }

    fn committed<'a>(
        &'a self,
        group: &'a str,
        tps: &'a [TopicPartition],
    ) -> BoxFuture<'a, Result<Vec<Option<Commit>>, LogError>> {
        async move { self.queries.committed(group, self.named(tps)?).await }.boxed()
    }

    fn delete_below(&self, tp: TopicPartition, before: Offset) -> BoxFuture<'_, Result<(), LogError>> {
        async move {
            let bounds = self.bounds_of(tp).await?;
            if before > bounds.end {
                return bounds.check(tp, before);
            }
            if before <= bounds.start {
                return Ok(());
            }
            self.queries.delete_below(tp, &self.name(tp)?, before).await
        }
        .boxed()
    }
}
