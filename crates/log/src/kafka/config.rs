//! Configuration of the connection to the brokers.

use std::{collections::BTreeMap, time::Duration};

use super::producer::FRAMING_BYTES;
use crate::{DEAD_LETTER_ROOM, LogError, RECORD_LIMIT, RECORD_LIMITS};

/// Group protocol. Both assign partition N of all topics of a group to the same member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
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

/// Connection to the brokers, and memory limits.
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaConfig {
    /// `HOST:PORT[,HOST:PORT…]`.
    pub brokers: String,
    /// Prefix of topic and group names: `crawl.seeds` becomes the topic `PREFIX.seeds`, the group `frontier` becomes
    /// `PREFIX.frontier`. One prefix is one pipeline.
    pub prefix: String,
    pub protocol: GroupProtocol,
    /// `group.instance.id`: a member that returns within its session keeps its partitions, without a rebalance. Must be
    /// unique within a group.
    pub instance_id: Option<String>,
    /// [`GroupProtocol::Classic`] only: time without heartbeats after which a member loses its partitions.
    pub session_timeout: Duration,
    /// Time for which the producer collects records before it sends them.
    pub linger: Duration,
    /// Maximum size of a record (key, value and headers), in bytes. The same for all producers to these topics, which
    /// are created for it. See [`Log::record_limit`](crate::Log::record_limit).
    pub record_limit: usize,
    /// Maximum bytes of unacknowledged records in the producer. Appends wait when it is full.
    pub producer_bytes: usize,
    /// Maximum bytes of prefetched records per consumer, to which one response per broker may add as much again. A
    /// reader pool holds the same, each reader a quarter. A response has at most a 256th of this (64 KiB by default) or
    /// one batch, since it may be decompressed to 255 times its size: with long round trips to the brokers, a larger
    /// value reads a backlog faster, by this many bytes per broker and round trip.
    pub fetch_bytes: usize,
    /// Time for which [`KafkaLog::connect`](super::KafkaLog::connect) waits for unavailable brokers.
    pub connect_patience: Duration,
    /// Timeout per broker request (bounds, commits, settings).
    pub request_timeout: Duration,
    /// Time for which a request is retried while the brokers are unavailable, before it fails.
    pub patience: Duration,
    /// Additional librdkafka properties, mainly for TLS and SASL; [`KafkaConfig::check`] refuses some.
    pub properties: BTreeMap<String, String>,
}

impl std::fmt::Debug for KafkaConfig {
    /// Omits property values, which may be passwords.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaConfig")
            .field("brokers", &self.brokers)
            .field("prefix", &self.prefix)
            .field("protocol", &self.protocol)
            .field("instance_id", &self.instance_id)
            .field("session_timeout", &self.session_timeout)
            .field("linger", &self.linger)
            .field("record_limit", &self.record_limit)
            .field("producer_bytes", &self.producer_bytes)
            .field("fetch_bytes", &self.fetch_bytes)
            .field("connect_patience", &self.connect_patience)
            .field("request_timeout", &self.request_timeout)
            .field("patience", &self.patience)
            .field("properties", &self.properties.keys())
            .finish()
    }
}

impl Default for KafkaConfig {
    fn default() -> Self {
        Self {
            brokers: "127.0.0.1:9092".to_owned(),
            prefix: "crawl".to_owned(),
            protocol: GroupProtocol::default(),
            instance_id: None,
            session_timeout: Duration::from_secs(45),
            linger: Duration::from_millis(20),
            record_limit: RECORD_LIMIT,
            producer_bytes: 64 << 20,
            fetch_bytes: 16 << 20,
            connect_patience: Duration::from_secs(60),
            request_timeout: Duration::from_secs(15),
            patience: Duration::from_secs(300),
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

    /// Validates everything that needs no broker.
    ///
    /// # Errors
    /// [`LogError::Invalid`] with the key, its value and the allowed values. Values of `properties` are not repeated.
    pub fn check(&self) -> Result<(), LogError> {
        self.check_brokers()?;
        let legal = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        let Self { prefix, .. } = self;
        if prefix.is_empty() || prefix.len() > LONGEST_PREFIX || !legal(prefix) || prefix.starts_with('.') {
            return Err(LogError::Invalid(format!(
                "`prefix` is `{prefix}`; allowed: 1 to {LONGEST_PREFIX} letters, digits, `.`, `_` and `-`, not beginning \
                 with `.`"
            )));
        }
        if let Some(id) = &self.instance_id
            && (id.is_empty() || id.len() > 249 || !legal(id))
        {
            return Err(LogError::Invalid(format!(
                "`instance_id` is `{id}`; allowed: 1 to 249 letters, digits, `.`, `_` and `-`"
            )));
        }
        self.check_numbers()?;
        for key in self.properties.keys() {
            if let Some((_, reason)) = RULED.iter().find(|(ruled, _)| ruled == key) {
                return Err(LogError::Invalid(format!("the property `{key}` cannot be set: {reason}")));
            }
        }
        Ok(())
    }

    fn check_brokers(&self) -> Result<(), LogError> {
        let wrong = |broker: &str| {
            LogError::Invalid(format!(
                "`brokers` is `{}`: `{broker}` is not HOST:PORT; allowed: HOST:PORT[,HOST:PORT…]",
                self.brokers
            ))
        };
        for broker in self.brokers.split(',') {
            let (host, port) = broker.trim().rsplit_once(':').ok_or_else(|| wrong(broker))?;
            let known = port.parse::<u16>().is_ok_and(|port| port > 0);
            if host.is_empty() || !known || host.contains(char::is_whitespace) {
                return Err(wrong(broker));
            }
        }
        Ok(())
    }

    fn check_numbers(&self) -> Result<(), LogError> {
        const BYTES: std::ops::RangeInclusive<usize> = (4 << 20)..=(1 << 30);
        for (key, bytes) in [("producer_bytes", self.producer_bytes), ("fetch_bytes", self.fetch_bytes)] {
            if !BYTES.contains(&bytes) {
                return Err(LogError::Invalid(format!(
                    "`{key}` is {bytes}; allowed: {} (4 MiB) to {} (1 GiB)",
                    BYTES.start(),
                    BYTES.end()
                )));
            }
        }
        let (limit, least, most) = (self.record_limit, RECORD_LIMITS.start(), RECORD_LIMITS.end());
        if !RECORD_LIMITS.contains(&limit) {
            return Err(LogError::Invalid(format!(
                "`record_limit` is {limit}; allowed: {least} (512 KiB) to {most} (64 MiB)"
            )));
        }
        // A record larger than the producer's capacity would wait indefinitely.
        let largest = limit + DEAD_LETTER_ROOM + FRAMING_BYTES;
        if self.producer_bytes < largest {
            return Err(LogError::Invalid(format!(
                "`producer_bytes` is {}; allowed: {largest} and more, for one dead letter of a record of `record_limit` \
                 ({limit}) bytes",
                self.producer_bytes
            )));
        }
        let second = Duration::from_secs(1);
        for (key, time, least, most) in [
            ("session_timeout", self.session_timeout, second, 1800 * second),
            ("linger", self.linger, Duration::ZERO, second),
            ("connect_patience", self.connect_patience, Duration::ZERO, 86_400 * second),
            ("patience", self.patience, Duration::ZERO, 86_400 * second),
            ("request_timeout", self.request_timeout, second, 300 * second),
        ] {
            if !(least..=most).contains(&time) {
                return Err(LogError::Invalid(format!("`{key}` is {time:?}; allowed: {least:?} to {most:?}")));
            }
        }
        Ok(())
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
    fn what_cannot_be_is_refused_with_its_key_its_value_and_what_is_allowed() {
        let good = KafkaConfig::new("one:9092, [::1]:9093");
        good.check().unwrap();
        for brokers in ["", "kafka", "kafka:", ":9092", "kafka:0", "kafka:70000", "a:1,", "a b:1"] {
            refused(&KafkaConfig::new(brokers), &["`brokers`", brokers, "HOST:PORT"]);
        }
        for prefix in ["", "a/b", ".a", "ä", &"x".repeat(201)] {
            refused(&KafkaConfig { prefix: prefix.to_owned(), ..good.clone() }, &["`prefix`", prefix, "1 to 200"]);
        }
        refused(&KafkaConfig { instance_id: Some("a b".to_owned()), ..good.clone() }, &["`instance_id`", "a b"]);
        refused(&KafkaConfig { producer_bytes: 1, ..good.clone() }, &["`producer_bytes` is 1;", "4 MiB"]);
        refused(&KafkaConfig { record_limit: 1, ..good.clone() }, &["`record_limit` is 1;", "512 KiB", "64 MiB"]);
        let small = KafkaConfig { producer_bytes: 16 << 20, ..good.clone() };
        refused(&small, &["`producer_bytes` is 16777216;", "16973824 and more", "`record_limit` (16777216)"]);
        KafkaConfig { record_limit: 1 << 20, ..small }.check().unwrap();
        refused(&KafkaConfig { linger: Duration::from_secs(2), ..good }, &["`linger` is 2s", "0ns to 1s"]);
        assert!("uniform".parse::<GroupProtocol>().unwrap_err().to_string().contains("`consumer` and `classic`"));
    }

    #[test]
    fn properties_that_would_break_a_rule_are_refused_and_others_pass() {
        let with = |key: &str| KafkaConfig {
            properties: BTreeMap::from([(key.to_owned(), "secret".to_owned())]),
            ..KafkaConfig::default()
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
