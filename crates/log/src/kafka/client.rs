//! Shared by all clients: properties, names, log lines, and the classification of errors.

use std::sync::{Mutex, PoisonError};

use rdkafka::{
    ClientConfig, ClientContext, config::RDKafkaLogLevel, consumer::ConsumerContext, error::KafkaError,
    types::RDKafkaErrorCode as Code,
};

use super::{
    KafkaConfig,
    eof::end_of,
    login::{is_login, is_rejection},
    producer::FRAMING_BYTES,
};
use crate::{DEAD_LETTER_ROOM, LogError, Offset, RECORD_LIMITS, TopicPartition};
use orbweaver_messages::Topic;

/// Prefix of the pipeline's own names, replaced by the cluster's prefix.
const OWN_PREFIX: &str = "crawl.";

/// Maximum time for which a broker holds a fetch without records. A started or resumed partition waits for the fetch in
/// progress, so this bounds its delay.
const FETCH_WAIT_MS: &str = "100";
/// Minimum bytes in a response before that time: one response per record costs both sides ten times as much (ADR 11).
const FETCH_MIN_BYTES: &str = "16384";

/// Maximum bytes fetched per partition. A broker still returns a larger record if it is the first (KIP-74), so this
/// need not grow with the record limit, and partitions with small records leave room for each other.
const FETCH_PARTITION_BYTES: &str = "1048576";

/// Maximum number of prefetched records. librdkafka counts the bytes of their values only: neither headers and keys,
/// nor its own memory per record.
const FETCH_RECORDS: &str = "10000";

/// Number of bytes that one byte of a response may become: LZ4 encodes up to 255 repeated bytes in one.
const DECOMPRESSED: usize = 256;

/// Returns the maximum size of a response. librdkafka decompresses all of it before it compares the records with
/// `queued.max.messages.kbytes`, so a response must fit the memory for records however far it was compressed: a site
/// determines how well its links compress. A response exceeds this for one batch (KIP-74), which is a single record or
/// holds at most `batch.size` bytes.
fn response_bytes(config: &KafkaConfig) -> usize {
    config.fetch_bytes / DECOMPRESSED
}

// On a response above librdkafka's default of `receive.message.max.bytes` the client closes the connection and retries
// indefinitely. The largest is one batch, and an entry for each of many partitions.
const _: () = assert!(*RECORD_LIMITS.end() + DEAD_LETTER_ROOM + FRAMING_BYTES + (16 << 20) < 100_000_000);

/// Empty polls before the queue of a client counts as empty: a poll that handles an internal librdkafka event returns
/// nothing.
pub(super) const EMPTY_POLLS: usize = 3;

/// Maximum time between the polls of a member; unused by other clients.
pub(super) const MAX_POLL_INTERVAL: &str = "max.poll.interval.ms";

/// Names on the brokers.
#[derive(Debug, Clone)]
pub(super) struct Names {
    prefix: String,
}

impl Names {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    pub(super) fn topic(&self, topic: Topic) -> String {
        format!("{}.{}", self.prefix, topic.0.strip_prefix(OWN_PREFIX).unwrap_or(topic.0))
    }

    pub(super) fn group(&self, group: &str) -> String {
        format!("{}.{group}", self.prefix)
    }

    /// Returns whether a topic on the brokers has this prefix.
    pub(super) fn is_own(&self, topic: &str) -> bool {
        topic.strip_prefix(&self.prefix).is_some_and(|rest| rest.starts_with('.'))
    }
}

/// Returns the properties of every client.
pub(super) fn properties(config: &KafkaConfig) -> ClientConfig {
    let mut client = ClientConfig::new();
    client
        .set("client.id", "orbweaver")
        // Returning brokers are found quickly.
        .set("reconnect.backoff.ms", "100")
        .set("reconnect.backoff.max.ms", "2000")
        .set("socket.keepalive.enable", "true")
        .set("topic.metadata.refresh.interval.ms", "60000");
    for (key, value) in &config.properties {
        client.set(key, value);
    }
    client.set("bootstrap.servers", config.brokers.split(',').map(str::trim).collect::<Vec<_>>().join(","));
    client
}

/// Returns the properties of every consuming client. A member's additional ones are set in `blocking_ops::membership`.
pub(super) fn reading(config: &KafkaConfig) -> ClientConfig {
    let mut client = properties(config);
    // librdkafka compares it with the session timeout, which only members set.
    client.remove(MAX_POLL_INTERVAL);
    client
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "error")
        .set("isolation.level", "read_committed")
        .set("allow.auto.create.topics", "false")
        .set("fetch.wait.max.ms", FETCH_WAIT_MS)
        .set("fetch.min.bytes", FETCH_MIN_BYTES)
        // Poll interval once the prefetch limit is reached; librdkafka's default is one second.
        .set("fetch.queue.backoff.ms", "5")
        .set("fetch.message.max.bytes", FETCH_PARTITION_BYTES)
        .set("fetch.max.bytes", response_bytes(config).to_string())
        // librdkafka accepts no lower `fetch.max.bytes`. For a consumer it is only the initial size of a buffer.
        .set("message.max.bytes", response_bytes(config).to_string())
        .set("queued.min.messages", FETCH_RECORDS)
        .set("queued.max.messages.kbytes", (config.fetch_bytes >> 10).to_string());
    client
}

/// Client context that logs errors, since the failing call reports those that matter, and keeps what no call reports: a
/// rejected login, and the end of a partition.
#[derive(Debug, Default)]
pub(super) struct LoggingContext {
    rejection: Mutex<Option<String>>,
    end: Mutex<Option<Offset>>,
}

impl LoggingContext {
    /// Returns the text of the last rejected login.
    pub(super) fn rejection(&self) -> Option<String> {
        self.rejection.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the end of a partition that the last poll reported; `None` if the text has none.
    pub(super) fn take_end(&self) -> Option<Offset> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl ClientContext for LoggingContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log_line(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code();
        if code == Some(Code::PartitionEOF) {
            *self.end.lock().unwrap_or_else(PoisonError::into_inner) = end_of(reason);
        } else if code.is_some_and(is_login) && is_rejection(reason) {
            *self.rejection.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason.to_owned());
        }
        log_error(&error, reason);
    }
}

impl ConsumerContext for LoggingContext {}

/// Writes a librdkafka log line.
pub(super) fn log_line(level: RDKafkaLogLevel, facility: &str, message: &str) {
    match level {
        RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
            tracing::error!(target: "librdkafka", facility, "{message}");
        }
        // librdkafka logs an unavailable broker as an error, once per second.
        RDKafkaLogLevel::Error | RDKafkaLogLevel::Warning => {
            tracing::warn!(target: "librdkafka", facility, "{message}");
        }
        RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => tracing::info!(target: "librdkafka", facility, "{message}"),
        RDKafkaLogLevel::Debug => tracing::debug!(target: "librdkafka", facility, "{message}"),
    }
}

/// Logs an error that belongs to no particular call.
pub(super) fn log_error(error: &KafkaError, reason: &str) {
    match error.rdkafka_error_code() {
        // Once per partition whenever a reader reaches the end.
        Some(Code::PartitionEOF) => {}
        Some(code) if is_transient(code) => {
            tracing::debug!(%code, reason, "the Kafka client reported a transient error");
        }
        _ => tracing::warn!(%error, reason, "the Kafka client reported an error"),
    }
}

/// Returns whether an error is transient: a broker is unavailable or busy, or leadership moves.
pub(super) fn is_transient(code: Code) -> bool {
    matches!(
        code,
        Code::BrokerTransportFailure
            | Code::Resolve
            | Code::AllBrokersDown
            | Code::OperationTimedOut
            | Code::TimedOutQueue
            | Code::WaitingForCoordinator
            | Code::WaitCache
            | Code::InProgress
            | Code::PreviousInProgress
            | Code::Retry
            | Code::UnknownBroker
            // A broker that was removed from the cluster.
            | Code::DestroyBroker
            | Code::LeaderNotAvailable
            | Code::NotLeaderForPartition
            | Code::RequestTimedOut
            | Code::BrokerNotAvailable
            | Code::ReplicaNotAvailable
            | Code::NetworkException
            | Code::CoordinatorLoadInProgress
            | Code::CoordinatorNotAvailable
            | Code::NotCoordinator
            | Code::NotEnoughReplicas
            | Code::NotEnoughReplicasAfterAppend
            | Code::RebalanceInProgress
            | Code::NotController
            | Code::KafkaStorageError
            | Code::FencedLeaderEpoch
            | Code::UnknownLeaderEpoch
            | Code::OffsetNotAvailable
            | Code::UnstableOffsetCommit
            | Code::StaleMemberEpoch
            | Code::ThrottlingQuotaExceeded
    )
}

/// Returns the code of an error, also of an administrative operation, which `rdkafka_error_code` leaves out.
fn code_of(error: &KafkaError) -> Option<Code> {
    if let KafkaError::AdminOp(code) = error { Some(*code) } else { error.rdkafka_error_code() }
}

/// Converts the error of a call; `what` describes the operation. Calls that wait for a connection fail with its login,
/// also if the broker stopped during the handshake.
pub(super) fn to_log_error(what: impl std::fmt::Display, error: &KafkaError) -> LogError {
    match code_of(error) {
        Some(code) if is_transient(code) || is_login(code) => LogError::Unavailable(format!("{what}: {code}")),
        _ => LogError::Fatal(format!("{what}: {error}")),
    }
}

/// Converts the error of creating a client; `what` describes the client. The value of a refused property is omitted: it
/// may be a secret, even if its name is misspelt.
pub(super) fn invalid(what: impl std::fmt::Display, error: &KafkaError) -> LogError {
    LogError::Invalid(match error {
        KafkaError::ClientConfig(_, reason, key, _) => format!("{what}: the property `{key}`: {reason}"),
        error => format!("{what}: {error}"),
    })
}

/// Converts the error of one partition. All partitions existed at connect time: a broker that does not know one has
/// just started, and its metadata is incomplete.
pub(super) fn to_log_error_at(what: &str, tp: TopicPartition, error: &KafkaError) -> LogError {
    match code_of(error) {
        Some(code @ (Code::UnknownTopicOrPartition | Code::UnknownPartition)) => {
            LogError::Unavailable(format!("{what} of {tp}: {code}"))
        }
        _ => to_log_error(format_args!("{what} of {tp}"), error),
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use orbweaver_messages::topic;

    use super::*;
    use crate::kafka::{
        blocking_ops::{member, membership},
        broker_queries::BrokerQueries,
        pool::ReaderPool,
        producer::BatchProducer,
    };

    #[test]
    fn the_prefix_stands_in_front_of_topics_and_groups() {
        let own = Names::new("crawl");
        assert_eq!((own.topic(topic::SEEDS), own.group("frontier")), ("crawl.seeds".into(), "crawl.frontier".into()));
        let other = Names::new("team.a");
        assert_eq!(other.topic(topic::SEEDS), "team.a.seeds");
        assert_eq!(other.topic(Topic("contract.read")), "team.a.contract.read");
        assert!(other.is_own("team.a.seeds") && !other.is_own("team.ab.seeds") && !other.is_own("team.a"));
    }

    #[test]
    fn a_response_fits_the_memory_for_records_however_far_it_was_compressed() {
        for fetch_bytes in [4 << 20, 16 << 20, 1 << 30] {
            let config = KafkaConfig { fetch_bytes, ..KafkaConfig::default() };
            let reading = reading(&config);
            let bytes: usize = reading.get("fetch.max.bytes").unwrap().parse().unwrap();
            assert!(bytes * 255 <= fetch_bytes, "{bytes} bytes of a response, {fetch_bytes} of records");
            assert_eq!(reading.get("message.max.bytes"), reading.get("fetch.max.bytes"));
            BrokerQueries::new(&config).unwrap();
        }
    }

    #[test]
    fn a_rejected_login_is_kept_and_one_that_was_cut_off_is_none() {
        let context = LoggingContext::default();
        let failed = |reason| context.error(KafkaError::Global(Code::Authentication), reason);
        failed("kafka:9092: SASL PLAIN mechanism handshake failed: Local: Broker transport failure: (n/a)");
        assert_eq!(context.rejection(), None);
        failed("kafka:9092: SASL authentication error: Authentication failed");
        assert!(context.rejection().unwrap().contains("Authentication failed"));
    }

    #[test]
    fn an_administrative_operation_that_timed_out_is_repeated_like_any_other_query() {
        let timed_out = KafkaError::AdminOp(Code::OperationTimedOut);
        let tp = TopicPartition::new(topic::PAGES, 0);
        for error in [to_log_error("reading settings", &timed_out), to_log_error_at("deleting records", tp, &timed_out)]
        {
            assert!(matches!(error, LogError::Unavailable(_)), "{error}");
        }
        let refused = to_log_error("creating topics", &KafkaError::AdminOp(Code::PolicyViolation));
        assert!(matches!(refused, LogError::Fatal(_)), "{refused}");
    }

    #[test]
    fn a_property_that_librdkafka_refuses_is_named_without_its_value() {
        let properties = BTreeMap::from([("sasl_password".to_owned(), "hunter2".to_owned())]);
        let config = KafkaConfig { properties, ..KafkaConfig::default() };
        let errors = [
            BatchProducer::new(&config).err(),
            BrokerQueries::new(&config).err(),
            ReaderPool::new(&config).seat(0).err(),
            member(&membership(&config, "group"), "group", &[], &Arc::default()).err(),
        ];
        for error in errors {
            let said = error.unwrap().to_string();
            assert!(said.contains("sasl_password") && !said.contains("hunter2"), "{said}");
        }
    }
}
