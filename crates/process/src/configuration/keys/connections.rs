//! Keys of servers, listeners and the runtime.

use super::{
    super::{
        key::{Key, Secret},
        kind::Kind,
    },
    DAY, GIB, KIB, MIB, MINUTE, SECOND,
};
use crate::service::ServiceId;

const ALL: &[ServiceId] = &ServiceId::ALL;
const INDEXED: &[ServiceId] = &[ServiceId::NormalizerDedup, ServiceId::Frontier];
const STORED: &[ServiceId] = &[ServiceId::Fetcher, ServiceId::Extractor];

pub(super) const KEYS: &[Key] = &[
    Key::new(("kafka", "brokers"), Kind::Servers, ALL, "Brokers for the first connection; they report the others.")
        .required(),
    Key::new(
        ("kafka", "prefix"),
        Kind::Name,
        ALL,
        "Prefix of the names of topics and groups: `crawl.seeds` is the topic `PREFIX.seeds`. One prefix is one \
         pipeline; all its services need the same value.",
    )
    .is("crawl"),
    Key::new(
        ("kafka", "group_protocol"),
        Kind::Word(&["consumer", "classic"]),
        ALL,
        "Protocol of the consumer group. `classic`, for brokers before 4.0, stops all members for seconds at \
         every change of the group.",
    )
    .is("consumer"),
    Key::new(
        ("kafka", "instance_id"),
        Kind::Name,
        ALL,
        "Name of this instance that is stable across restarts (`group.instance.id`): a restart within the session \
         timeout moves no partition. Unique within the service.",
    ),
    Key::new(
        ("kafka", "session_timeout"),
        Kind::Time(SECOND, 30 * MINUTE),
        ALL,
        "Time without a heartbeat after which a member loses its partitions. Sets the timeout for `classic`. For \
         `consumer`, the broker's `group.consumer.session.timeout.ms` applies; enter the same value here.",
    )
    .is("45s"),
    Key::new(
        ("kafka", "linger"),
        Kind::Time(0, SECOND),
        ALL,
        "Time for which the producer collects records into a batch.",
    )
    .is("20ms"),
    Key::new(
        ("kafka", "record_limit"),
        Kind::Size(512 * KIB, 64 * MIB),
        ALL,
        "Maximum size of a record; a larger one is cut and marked. All services and `orbweaver topics create` \
         need the same value. Managed brokers may allow less.",
    )
    .is("16MiB"),
    Key::new(
        ("kafka", "producer_bytes"),
        Kind::Size(4 * MIB, GIB),
        ALL,
        "Memory for unacknowledged records; above it, appends wait.",
    )
    .is("64MiB"),
    Key::new(
        ("kafka", "fetch_bytes"),
        Kind::Size(4 * MIB, GIB),
        ALL,
        "Memory for records that a consumer has fetched ahead, plus one record; readers use the same amount \
         again. A response may use the same amount again per broker, however well it is compressed. With long \
         round trips, a larger value reads a backlog faster.",
    )
    .is("16MiB"),
    Key::new(
        ("kafka", "connect_patience"),
        Kind::Time(0, DAY),
        ALL,
        "Maximum wait for unavailable brokers at the start; then the process exits with 74.",
    )
    .is("5m"),
    Key::new(("kafka", "request_timeout"), Kind::Time(SECOND, 5 * MINUTE), ALL, "Timeout per broker request.")
        .is("15s"),
    Key::new(
        ("kafka", "patience"),
        Kind::Time(0, DAY),
        ALL,
        "Maximum time of retries while brokers are unavailable at run time; then the process exits with 74.",
    )
    .is("10m"),
    Key::new(
        ("kafka", "properties.*"),
        Kind::Secret,
        ALL,
        "Properties of librdkafka, such as `security.protocol`; in the environment with `__` for each dot. \
         Properties on which the guarantees of the pipeline depend are rejected. Secrets may be any text without \
         NUL, such as a key in PEM form.",
    )
    .secret(Secret::ByName),
    Key::new(("cql", "nodes"), Kind::Servers, STORED, "Nodes for the first connection; they report the others.")
        .required(),
    Key::new(("cql", "keyspace"), Kind::Name, STORED, "Keyspace; created if it does not exist.").is("orbweaver"),
    Key::new(
        ("cql", "replication_factor"),
        Kind::Count(1, 9),
        STORED,
        "Copies of each row in each data center; used only when the keyspace is created. At most the number of nodes.",
    )
    .is("3"),
    Key::new(
        ("cql", "datacenter"),
        Kind::Text,
        STORED,
        "Data center whose nodes receive the requests; required if there are several.",
    ),
    Key::new(("cql", "username"), Kind::Text, STORED, "Role for the login; requires `password`."),
    Key::new(("cql", "password"), Kind::Secret, STORED, "Password of the role.").secret(Secret::Always),
    Key::new(("cql", "tls"), Kind::Switch, STORED, "Encrypt connections and verify the certificates of the nodes.")
        .is("false"),
    Key::new(
        ("cql", "tls_ca"),
        Kind::Text,
        STORED,
        "File with the certificates (PEM) of the trusted authorities. Not set: those of the operating system.",
    ),
    Key::new(
        ("cql", "tls_certificate"),
        Kind::Text,
        STORED,
        "File with the client's certificate chain (PEM), for servers that require one; requires `tls_key`.",
    ),
    Key::new(
        ("cql", "tls_key"),
        Kind::Text,
        STORED,
        "File with the client's private key (PEM); requires `tls_certificate`.",
    ),
    Key::new(
        ("cql", "tls_name"),
        Kind::Text,
        STORED,
        "Name or address that the certificate of every node must contain, instead of the node's own address.",
    ),
    Key::new(
        ("cql", "consistency"),
        Kind::Word(&["one", "local_one", "quorum", "local_quorum", "all"]),
        STORED,
        "Number of copies that must answer a request.",
    )
    .is("local_quorum"),
    Key::new(("cql", "concurrency"), Kind::Count(1, 10_000), STORED, "Maximum number of concurrent requests.")
        .is("256"),
    Key::new(("cql", "request_timeout"), Kind::Time(100, 10 * MINUTE), STORED, "Timeout per request.").is("10s"),
    Key::new(
        ("http", "listen"),
        Kind::Address,
        ALL,
        "Address of `/livez`, `/readyz` and `/metrics`; port 0 selects a free port. There is no access control: \
         do not expose it publicly.",
    )
    .listens(),
    Key::new(
        ("log", "level"),
        Kind::Text,
        ALL,
        "`error`, `warn`, `info`, `debug`, `trace`, or directives such as `info,orbweaver_fetcher=debug`. If it \
         is not set, `RUST_LOG` applies.",
    )
    .is("info"),
    Key::new(
        ("log", "format"),
        Kind::Word(&["json", "text"]),
        ALL,
        "One JSON object per line, or human-readable text.",
    )
    .is("json"),
    Key::new(
        ("runtime", "worker_threads"),
        Kind::Cores,
        ALL,
        "Threads of the runtime. `auto` respects the CPU quota of a container.",
    )
    .is("auto"),
    Key::new(
        ("runtime", "shutdown_budget"),
        Kind::Time(100, 10 * MINUTE),
        ALL,
        "Maximum time to finish work in flight after SIGTERM. Keep it some seconds below the limit of the supervisor.",
    )
    .is("20s"),
    Key::new(
        ("runtime", "drain_budget"),
        Kind::Time(100, 2 * MINUTE),
        ALL,
        "Maximum time to finish work in flight in a revoked partition. At least `fetcher.request_timeout`.",
    )
    .is("25s"),
    Key::new(
        ("runtime", "stall_after"),
        Kind::Time(10 * SECOND, DAY),
        ALL,
        "Time without progress on due work after which the process exits with 75. Set it longer than the outages \
         of Kafka and the store that the process should survive.",
    )
    .is("5m"),
    Key::new(
        ("runtime", "commit_interval"),
        Kind::Time(10, MINUTE),
        ALL,
        "Minimum time between two commits. After a crash, up to this much work is repeated.",
    )
    .is("1s"),
    Key::new(
        ("runtime", "frozen_after"),
        Kind::Time(SECOND, 10 * MINUTE),
        ALL,
        "A process that was suspended for this long does nothing until a commit is accepted. At most half of the \
         group's session timeout (45 s).",
    )
    .is("20s"),
    Key::new(
        ("runtime", "restores_at_once"),
        Kind::Count(1, 1024),
        ALL,
        "Maximum number of partitions whose index is restored concurrently.",
    )
    .is("4"),
    Key::new(
        ("runtime", "records"),
        Kind::Count(1, 10_000_000),
        ALL,
        "Maximum number of records in flight; above it, reading pauses.",
    )
    .counts_records(),
    Key::new(
        ("runtime", "bytes"),
        Kind::Size(MIB, 64 * GIB),
        ALL,
        "Maximum size of the records in flight; above it, reading pauses.",
    )
    .is("64MiB"),
    Key::new(
        ("state", "dir"),
        Kind::Dir,
        INDEXED,
        "Directory of the indexes over the log, with a subdirectory per service; may be deleted while the service \
         is stopped. Instances of a service must not share it.",
    )
    .is("orbweaver-state"),
];
