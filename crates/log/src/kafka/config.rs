//! Configuration of the connection to the brokers.

use std::{collections::BTreeMap, time::Duration};

use orbweaver_settings::{Conflict, DAY, GIB, MIB, MINUTE, Name, Properties, SECOND, Section, Servers, Size, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::producer::FRAMING_BYTES;
use crate::{DEAD_LETTER_ROOM, LogError, RECORD_LIMIT, RECORD_LIMITS};

/// Group protocol. Both assign partition N of all topics of a group to the same member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GroupProtocol {
    /// `group.protocol=consumer` (KIP-848, Kafka 4.0 and above) with the broker's `range` assignor: only partitions
    /// that move are interrupted. Session timeout and heartbeat are broker settings
    /// (`group.consumer.session.timeout.ms`).
    #[default]
    Consumer,
    /// Classic protocol with the `range` assignor: every membership change revokes all partitions of all members for
    /// seconds.
    Classic,
}

impl std::str::FromStr for GroupProtocol {
    type Err = LogError;

    fn from_str(text: &str) -> Result<Self, LogError> {
        match text {
            "consumer" => Ok(Self::Consumer),
            "classic" => Ok(Self::Classic),
            _ => Err(LogError::Invalid(format!("the group protocol `{text}`; allowed: `consumer` and `classic`"))),
        }
    }
}

impl std::fmt::Display for GroupProtocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Consumer => "consumer",
            Self::Classic => "classic",
        })
    }
}

/// Connection to the brokers, and memory limits: the section `kafka` of the configuration.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KafkaConfig {
    /// Brokers for the first connection; they report the others.
    #[serde(with = "Servers")]
    pub brokers: String,
    /// Prefix of the names of topics and groups: `crawl.seeds` is the topic `PREFIX.seeds`. One prefix is one pipeline;
    /// all its services need the same value.
    #[serde(with = "Name")]
    pub prefix: String,
    /// Protocol of the consumer group. `classic`, for brokers before 4.0, stops all members for seconds at every change
    /// of the group.
    #[serde(rename = "group_protocol")]
    pub protocol: GroupProtocol,
    /// Name of this instance that is stable across restarts (`group.instance.id`): a restart within the session timeout
    /// moves no partition. Unique within the service.
    #[serde(with = "Name")]
    pub instance_id: Option<String>,
    /// Time without a heartbeat after which a member loses its partitions. Sets the timeout for `classic`. For
    /// `consumer`, the broker's `group.consumer.session.timeout.ms` applies; enter the same value here.
    #[serde(with = "Time::<SECOND, { 30 * MINUTE }>")]
    pub session_timeout: Duration,
    /// Time for which the producer collects records into a batch.
    #[serde(with = "Time::<0, SECOND>")]
    pub linger: Duration,
    /// Maximum size of a record; a larger one is cut and marked. All services and `orbweaver topics create` need the
    /// same value. Managed brokers may allow less.
    ///
    /// Key, value and headers count. See [`Log::record_limit`](crate::Log::record_limit).
    #[serde(with = "Size::<{ *RECORD_LIMITS.start() as u64 }, { *RECORD_LIMITS.end() as u64 }>")]
    pub record_limit: usize,
    /// Memory for unacknowledged records; above it, appends wait.
    #[serde(with = "Size::<{ 4 * MIB }, GIB>")]
    pub producer_bytes: usize,
    /// Memory for records that a consumer has fetched ahead, plus one record; readers use the same amount again. A
    /// response may use the same amount again per broker, however well it is compressed. With long round trips, a larger
    /// value reads a backlog faster.
    ///
    /// Each reader of a pool holds a quarter. A response has at most a 256th of this (64 KiB by default) or one batch,
    /// since it may be decompressed to 255 times its size.
    #[serde(with = "Size::<{ 4 * MIB }, GIB>")]
    pub fetch_bytes: usize,
    /// Maximum wait for unavailable brokers at the start; then the process exits with 74.
    #[serde(with = "Time::<0, DAY>")]
    pub connect_patience: Duration,
    /// Timeout per broker request.
    #[serde(with = "Time::<SECOND, { 5 * MINUTE }>")]
    pub request_timeout: Duration,
    /// Maximum time of retries while brokers are unavailable at run time; then the process exits with 74.
    #[serde(with = "Time::<0, DAY>")]
    pub patience: Duration,
    /// Properties of librdkafka, such as `security.protocol`; in the environment with `__` for each dot. Properties on
    /// which the guarantees of the pipeline depend are rejected. Secrets may be any text without NUL, such as a key in
    /// PEM form.
    #[serde(with = "Properties")]
    pub properties: BTreeMap<String, String>,
}

impl Section for KafkaConfig {
    const NAME: &'static str = "kafka";
    const REQUIRED: &'static [&'static str] = &["brokers"];

    /// Does not repeat values of `properties`.
    fn conflicts(&self) -> Vec<Conflict> {
        let mut conflicts = vec![];
        let mut add = |key: &str, problem: String| conflicts.push(Conflict::new(key, problem));
        let is_server = |broker: &str| {
            let (host, port) = broker.trim().rsplit_once(':').unwrap_or_default();
            let known = port.parse::<u16>().is_ok_and(|port| port > 0);
            !host.is_empty() && known && !host.contains(char::is_whitespace)
        };
        if let Some(broker) = self.brokers.split(',').find(|broker| !is_server(broker)) {
            add("brokers", format!("`{broker}` is not HOST:PORT; allowed: HOST:PORT[,HOST:PORT…]"));
        }
        let legal = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        let Self { prefix, .. } = self;
        if prefix.is_empty() || prefix.len() > LONGEST_PREFIX || !legal(prefix) || prefix.starts_with('.') {
            let allowed = "letters, digits, `.`, `_` and `-`, not beginning with `.`";
            add("prefix", format!("allowed: 1 to {LONGEST_PREFIX} {allowed}; not `{prefix}`"));
        }
        if let Some(id) = self.instance_id.as_ref().filter(|id| id.is_empty() || id.len() > 249 || !legal(id)) {
            add("instance_id", format!("allowed: 1 to 249 letters, digits, `.`, `_` and `-`; not `{id}`"));
        }
        // A record larger than the producer's capacity would wait indefinitely.
        let largest = self.record_limit + DEAD_LETTER_ROOM + FRAMING_BYTES;
        if self.producer_bytes < largest {
            let limit = self.record_limit;
            let room = format!("{largest} and more, for one dead letter of a record of `record_limit` ({limit}) bytes");
            add("producer_bytes", format!("allowed: {room}"));
        }
        for (key, reason) in RULED.iter().filter(|(key, _)| self.properties.contains_key(*key)) {
            add(&format!("properties.{key}"), format!("this property cannot be set: {reason}"));
        }
        conflicts
    }
}

impl std::fmt::Debug for KafkaConfig {
    /// Omits the properties, which may be passwords.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { brokers, prefix, protocol, instance_id, record_limit, .. } = self;
        f.debug_struct("KafkaConfig")
            .field("brokers", brokers)
            .field("prefix", prefix)
            .field("protocol", protocol)
            .field("instance_id", instance_id)
            .field("record_limit", record_limit)
            .finish_non_exhaustive()
    }
}

impl Default for KafkaConfig {
    fn default() -> Self {
        Self {
            brokers: String::new(),
            prefix: "crawl".to_owned(),
            protocol: GroupProtocol::default(),
            instance_id: None,
            session_timeout: Duration::from_secs(45),
            linger: Duration::from_millis(20),
            record_limit: RECORD_LIMIT,
            producer_bytes: 64 << 20,
            fetch_bytes: 16 << 20,
            connect_patience: Duration::from_mins(5),
            request_timeout: Duration::from_secs(15),
            patience: Duration::from_mins(10),
            properties: BTreeMap::new(),
        }
    }
}

/// Properties that guarantees depend on, and the reasons why they cannot be set.
const RULED: [(&str, &str); 36] = [
    ("acks", "every append is acknowledged by all replicas in sync"),
    ("request.required.acks", "every append is acknowledged by all replicas in sync"),
    ("allow.auto.create.topics", "topics are created by `orbweaver topics create`"),
    ("auto.commit.enable", "only complete offsets are committed"),
    ("auto.commit.interval.ms", "only complete offsets are committed"),
    ("auto.offset.reset", "a position that is not in the log is an error"),
    ("batch.size", "it must stay below `max.message.bytes` of the topics"),
    ("bootstrap.servers", "set `kafka.brokers` instead"),
    ("compression.codec", "compression is always lz4"),
    ("compression.type", "compression is always lz4"),
    ("delivery.timeout.ms", "an append is retried until it is acknowledged"),
    ("enable.auto.commit", "only complete offsets are committed"),
    ("enable.auto.offset.store", "only complete offsets are committed"),
    ("enable.idempotence", "a retried append must not write twice"),
    ("enable.partition.eof", "readers depend on it"),
    ("fetch.max.bytes", "set `kafka.fetch_bytes` instead"),
    ("group.id", "a group is named by its prefix and service"),
    ("group.instance.id", "set `kafka.instance_id` instead"),
    ("group.protocol", "set `kafka.group_protocol` instead"),
    ("group.remote.assignor", "partition N of all topics of a group must be assigned to one member"),
    ("isolation.level", "records of aborted transactions must not be read"),
    ("linger.ms", "set `kafka.linger` instead"),
    ("max.in.flight", "an idempotent producer has at most five"),
    ("max.in.flight.requests.per.connection", "an idempotent producer has at most five"),
    ("message.max.bytes", "set `kafka.record_limit` instead"),
    ("message.timeout.ms", "an append is retried until it is acknowledged"),
    ("metadata.broker.list", "set `kafka.brokers` instead"),
    ("partition.assignment.strategy", "partition N of all topics of a group must be assigned to one member"),
    ("partitioner", "every record names its partition"),
    ("queue.buffering.max.kbytes", "set `kafka.producer_bytes` instead"),
    ("queue.buffering.max.messages", "set `kafka.producer_bytes` instead"),
    ("queued.max.messages.kbytes", "set `kafka.fetch_bytes` instead"),
    ("queued.min.messages", "set `kafka.fetch_bytes` instead"),
    ("receive.message.max.bytes", "it must hold the largest response"),
    ("session.timeout.ms", "set `kafka.session_timeout` instead, with the classic protocol"),
    ("transactional.id", "effects are idempotent, not transactional"),
];

/// Maximum length of a prefix: topic names have at most 249 characters, and the longest suffix is well below 49.
const LONGEST_PREFIX: usize = 200;

impl KafkaConfig {
    /// Returns the default configuration with these brokers.
    #[must_use]
    pub fn new(brokers: impl Into<String>) -> Self {
        Self { brokers: brokers.into(), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(config: &KafkaConfig, parts: &[&str]) {
        let error = config.check().unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{part} is not in: {error}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_key_and_what_is_allowed() {
        let good = KafkaConfig::new("one:9092, [::1]:9093");
        good.check().unwrap();
        for brokers in ["", "kafka", "kafka:", ":9092", "kafka:0", "kafka:70000", "a:1,", "a b:1"] {
            refused(&KafkaConfig::new(brokers), &["`brokers`", "HOST:PORT"]);
        }
        for prefix in ["", "a/b", ".a", "ä", &"x".repeat(201)] {
            refused(&KafkaConfig { prefix: prefix.to_owned(), ..good.clone() }, &["`prefix`", prefix, "1 to 200"]);
        }
        refused(&KafkaConfig { instance_id: Some("a b".to_owned()), ..good.clone() }, &["`instance_id`", "a b"]);
        let small = KafkaConfig { producer_bytes: 16 << 20, ..good };
        refused(&small, &["`producer_bytes`", "16973824 and more", "`record_limit` (16777216)"]);
        KafkaConfig { record_limit: 1 << 20, ..small }.check().unwrap();
        assert!("uniform".parse::<GroupProtocol>().unwrap_err().to_string().contains("`consumer` and `classic`"));
    }

    #[test]
    fn properties_that_would_break_a_rule_are_refused_and_others_pass() {
        let with = |key: &str| KafkaConfig {
            properties: BTreeMap::from([(key.to_owned(), "secret".to_owned())]),
            ..KafkaConfig::new("a:1")
        };
        with("sasl.password").check().unwrap();
        for (key, _) in RULED {
            refused(&with(key), &[key, "cannot be set"]);
        }
        for shown in [with("acks").check().unwrap_err().to_string(), format!("{:?}", with("sasl.password"))] {
            assert!(!shown.contains("secret"), "{shown}");
        }
    }
}
