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
/// Services with an index.
const INDEXED: &[ServiceId] = &[ServiceId::NormalizerDedup, ServiceId::Frontier];
/// Services with a store.
const STORED: &[ServiceId] = &[ServiceId::Fetcher, ServiceId::Extractor];

pub(super) const KEYS: &[Key] = &[
    Key::new(("kafka", "brokers"), Kind::Servers, ALL, "Brokers to begin with; they name the others.").required(),
    Key::new(
        ("kafka", "prefix"),
        Kind::Name,
        ALL,
        "What the names of topics and groups begin with: `crawl.seeds` is the topic `PREFIX.seeds`. One prefix is one pipeline; all its services need the same.",
    )
    .is("crawl"),
    Key::new(
        ("kafka", "group_protocol"),
        Kind::Word(&["consumer", "classic"]),
        ALL,
        "The protocol of the consumer group. `classic`, for brokers before 4.0, stops all members for seconds at every change.",
    )
    .is("consumer"),
    Key::new(
        ("kafka", "instance_id"),
        Kind::Name,
        ALL,
        "A name that this instance keeps over restarts (`group.instance.id`): a restart within the session timeout moves no partition. Unique within the service.",
    ),
    Key::new(
        ("kafka", "session_timeout"),
        Kind::Time(SECOND, 30 * MINUTE),
        ALL,
        "A member that is silent for so long has lost its partitions. Counts for `classic`; else it is the broker's `group.consumer.session.timeout.ms`, which is to be told here.",
    )
    .is("45s"),
    Key::new(("kafka", "linger"), Kind::Time(0, SECOND), ALL, "How long the producer gathers records.").is("20ms"),
    Key::new(
        ("kafka", "record_limit"),
        Kind::Size(512 * KIB, 64 * MIB),
        ALL,
        "The largest record; what is larger is cut and marked. All services and `orbweaver topics create` need the same. Managed brokers may allow less.",
    )
    .is("16MiB"),
    Key::new(
        ("kafka", "producer_bytes"),
        Kind::Size(4 * MIB, GIB),
        ALL,
        "Records that are not acknowledged, in memory; appends wait above.",
    )
    .is("64MiB"),
    Key::new(
        ("kafka", "fetch_bytes"),
        Kind::Size(4 * MIB, GIB),
        ALL,
        "Records that a consumer has fetched ahead, in memory, and one record more; readers have as much again.",
    )
    .is("16MiB"),
    Key::new(
        ("kafka", "connect_patience"),
        Kind::Time(0, DAY),
        ALL,
        "At the start, how long brokers that are away are waited for; then the process ends (74).",
    )
    .is("5m"),
    Key::new(
        ("kafka", "request_timeout"),
        Kind::Time(SECOND, 5 * MINUTE),
        ALL,
        "How long a question to the brokers may take.",
    )
    .is("15s"),
    Key::new(
        ("kafka", "patience"),
        Kind::Time(0, DAY),
        ALL,
        "How long brokers that go away while it runs are asked again; then the process ends (74).",
    )
    .is("10m"),
    Key::new(
        ("kafka", "properties.*"),
        Kind::Secret,
        ALL,
        "Properties of librdkafka, such as `security.protocol`; in the environment with `__` for each dot. Those on which the pipeline's promises rest are refused. Secrets may be any text without NUL, such as a key in PEM form.",
    )
    .secret(Secret::ByName),
    Key::new(("cql", "nodes"), Kind::Servers, STORED, "Nodes to begin with; they name the others.").required(),
    Key::new(("cql", "keyspace"), Kind::Name, STORED, "The keyspace; created when it is not there.").is("orbweaver"),
    Key::new(
        ("cql", "replication_factor"),
        Kind::Count(1, 9),
        STORED,
        "Copies of each row in each data centre; counts when the keyspace is created. Not above the number of nodes.",
    )
    .is("3"),
    Key::new(
        ("cql", "datacenter"),
        Kind::Text,
        STORED,
        "The data centre whose nodes are asked; needed when there are several.",
    ),
    Key::new(("cql", "username"), Kind::Text, STORED, "The role to log in with; with `password`."),
    Key::new(("cql", "password"), Kind::Secret, STORED, "Its password.").secret(Secret::Always),
    Key::new(
        ("cql", "tls"),
        Kind::Switch,
        STORED,
        "Encrypts connections, and verifies the certificates of the nodes.",
    )
    .is("false"),
    Key::new(
        ("cql", "tls_ca"),
        Kind::Text,
        STORED,
        "File with the certificates (PEM) of the authorities to trust; those of the machine when it is not set.",
    ),
    Key::new(
        ("cql", "tls_certificate"),
        Kind::Text,
        STORED,
        "File with the client's certificate chain (PEM), for servers that require one; with `tls_key`.",
    ),
    Key::new(
        ("cql", "tls_key"),
        Kind::Text,
        STORED,
        "File with the client's private key (PEM); with `tls_certificate`.",
    ),
    Key::new(
        ("cql", "tls_name"),
        Kind::Text,
        STORED,
        "Name or address that the certificate of every node has to carry, instead of the node's own address.",
    ),
    Key::new(
        ("cql", "consistency"),
        Kind::Word(&["one", "local_one", "quorum", "local_quorum", "all"]),
        STORED,
        "How many copies must answer.",
    )
    .is("local_quorum"),
    Key::new(("cql", "concurrency"), Kind::Count(1, 10_000), STORED, "Requests under way at the same time.").is("256"),
    Key::new(
        ("cql", "request_timeout"),
        Kind::Time(100, 10 * MINUTE),
        STORED,
        "How long a request may take.",
    )
    .is("10s"),
    Key::new(
        ("http", "listen"),
        Kind::Address,
        ALL,
        "Where `/livez`, `/readyz` and `/metrics` are; port 0 is any that is free. Nothing there is protected: keep it inside.",
    )
    .listens(),
    Key::new(
        ("log", "level"),
        Kind::Text,
        ALL,
        "`error`, `warn`, `info`, `debug`, `trace`, or directives such as `info,orbweaver_fetcher=debug`. Where it is not set, `RUST_LOG` applies.",
    )
    .is("info"),
    Key::new(("log", "format"), Kind::Word(&["json", "text"]), ALL, "One JSON object a line, or text to read.").is("json"),
    Key::new(
        ("runtime", "worker_threads"),
        Kind::Cores,
        ALL,
        "Threads of the runtime. `auto` heeds the CPU quota of a container.",
    )
    .is("auto"),
    Key::new(
        ("runtime", "shutdown_budget"),
        Kind::Time(100, 10 * MINUTE),
        ALL,
        "After SIGTERM, how long what is in flight may take to finish. Stay some seconds below what the supervisor allows.",
    )
    .is("20s"),
    Key::new(
        ("runtime", "drain_budget"),
        Kind::Time(100, 2 * MINUTE),
        ALL,
        "How long work in flight in a partition that moves away may take to finish. At least `fetcher.request_timeout`.",
    )
    .is("25s"),
    Key::new(
        ("runtime", "stall_after"),
        Kind::Time(10 * SECOND, DAY),
        ALL,
        "Work that is due may stand still for so long, then the process ends (75). Longer than the outages of Kafka and the store that are to be sat out.",
    )
    .is("5m"),
    Key::new(
        ("runtime", "commit_interval"),
        Kind::Time(10, MINUTE),
        ALL,
        "The shortest time between two commits. After a crash so much work is done again.",
    )
    .is("1s"),
    Key::new(
        ("runtime", "frozen_after"),
        Kind::Time(SECOND, 10 * MINUTE),
        ALL,
        "A process that stood still for so long does nothing before a commit is accepted. Half of the group's session timeout (45 s) at most.",
    )
    .is("20s"),
    Key::new(
        ("runtime", "restores_at_once"),
        Kind::Count(1, 1024),
        ALL,
        "Partitions whose index is restored at a time.",
    )
    .is("4"),
    Key::new(
        ("runtime", "records"),
        Kind::Count(1, 10_000_000),
        ALL,
        "Records in work at a time; reading pauses above.",
    )
    .counts_records(),
    Key::new(("runtime", "bytes"), Kind::Size(MIB, 64 * GIB), ALL, "The same in bytes of these records.").is("64MiB"),
    Key::new(
        ("state", "dir"),
        Kind::Folder,
        INDEXED,
        "Indexes over the log, in a folder for each service; may be deleted while it is stopped. One instance of a service a folder.",
    )
    .is("orbweaver-state"),
];
