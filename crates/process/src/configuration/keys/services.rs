//! Keys of individual services.

use super::{
    super::{
        key::{Key, Secret},
        kind::Kind,
    },
    DAY, GIB, HOUR, KIB, MIB, MINUTE, SECOND,
};
use crate::service::ServiceId;

const DEDUP: &[ServiceId] = &[ServiceId::NormalizerDedup];
const FRONTIER: &[ServiceId] = &[ServiceId::Frontier];
const LIMITER: &[ServiceId] = &[ServiceId::RateLimiter];
const FETCHER: &[ServiceId] = &[ServiceId::Fetcher];
const EXTRACTOR: &[ServiceId] = &[ServiceId::Extractor];
/// Services that send requests to sites or schedule them.
const POLITE: &[ServiceId] = &[ServiceId::Frontier, ServiceId::RateLimiter, ServiceId::Fetcher];
/// Services that read the user agent.
const NAMED: &[ServiceId] = &[ServiceId::Fetcher, ServiceId::Extractor];
/// Services that determine the site of a URL.
const PLACING: &[ServiceId] = &[ServiceId::NormalizerDedup, ServiceId::Fetcher, ServiceId::Extractor];

pub(super) const KEYS: &[Key] = &[
    Key::new(
        ("normalizer_dedup", "wide_domains"),
        Kind::Texts,
        PLACING,
        "Domains whose hosts are separate sites although the public suffix list does not contain them: \
         `example.edu`. All services of a pipeline need the same value; a crawl pins it when it is created.",
    ),
    Key::new(
        ("normalizer_dedup", "recent_entries"),
        Kind::Count(3, 1 << 30),
        DEDUP,
        "Entries of the recent cache, 21 bytes each.",
    )
    .is("262144"),
    Key::new(
        ("normalizer_dedup", "index"),
        Kind::Word(&["exact", "bloom"]),
        DEDUP,
        "Index of known URLs. `exact`: on disk, 18 bytes per URL, and 1.5 in memory; loses no URL. `bloom`: growable \
         Bloom filters in memory, about 5 bytes per URL, rebuilt from `crawl.seen` whenever a partition opens, so that \
         an instance needs no volume; loses at most one new URL in a million, and the smaller depth of a known one.",
    )
    .is("exact"),
    Key::new(("normalizer_dedup", "default_crawl"), Kind::Name, DEDUP, "Crawl of seeds that name none.").is("default"),
    Key::new(
        ("normalizer_dedup", "default_scope"),
        Kind::Word(&["path", "host", "site", "any"]),
        DEDUP,
        "Scope of the default crawl, relative to its seeds. The `default_…` settings apply if the crawl does not \
         exist when its first seed arrives.",
    )
    .is("host"),
    Key::new(
        ("normalizer_dedup", "default_include"),
        Kind::Texts,
        DEDUP,
        "Default crawl: regular expressions of which at least one must match a URL. (An expression with a comma \
         must be in the file, as an array.)",
    ),
    Key::new(
        ("normalizer_dedup", "default_exclude"),
        Kind::Texts,
        DEDUP,
        "Default crawl: regular expressions of which none may match a URL.",
    ),
    Key::new(
        ("normalizer_dedup", "default_max_depth"),
        Kind::Count(0, 65_535),
        DEDUP,
        "Default crawl: maximum link depth from a seed.",
    ),
    Key::new(
        ("normalizer_dedup", "default_max_pages"),
        Kind::Count(1, u64::MAX),
        DEDUP,
        "Default crawl: maximum number of pages; may be exceeded slightly.",
    ),
    Key::new(
        ("normalizer_dedup", "default_traps"),
        Kind::Word(&["off", "learn", "strict"]),
        DEDUP,
        "Default crawl: treatment of crawler traps, which are endless URLs without new content.",
    )
    .is("learn"),
    Key::new(
        ("normalizer_dedup", "default_canonical"),
        Kind::Text,
        DEDUP,
        "Default crawl: policy of the canonical form: `standard`, `aggressive` or `raw`, and rules after commas \
         (`standard,sort-query`).",
    )
    .is("standard"),
    Key::new(
        ("normalizer_dedup", "definition_grace"),
        Kind::Time(0, 10 * MINUTE),
        DEDUP,
        "Minimum time for which a record of an unknown crawl waits for the definition of the crawl. It is \
         rejected only after `crawl.control` has been read to a log end that was requested after the record \
         arrived.",
    )
    .is("5s"),
    Key::new(
        ("frontier", "max_attempts"),
        Kind::Count(1, 100),
        FRONTIER,
        "Maximum number of attempts per URL that fails transiently.",
    )
    .is("3"),
    Key::new(
        ("frontier", "min_outstanding"),
        Kind::Count(1, 1_000_000),
        FRONTIER,
        "Minimum limit of dispatches without an outcome, per partition.",
    )
    .is("512"),
    Key::new(
        ("frontier", "max_outstanding"),
        Kind::Count(1, 1_000_000),
        FRONTIER,
        "Maximum limit of dispatches without an outcome, per partition, at any rate of outcomes.",
    )
    .is("8192"),
    Key::new(
        ("frontier", "reappend_above"),
        Kind::Count(1, 1 << 40),
        FRONTIER,
        "The oldest queued URLs are appended again when they are further below the log end than this number of records \
         and than four times the number of queued URLs.",
    )
    .is("65536"),
    Key::new(
        ("frontier", "delete_interval"),
        Kind::Time(100, HOUR),
        FRONTIER,
        "Interval at which records that all services have consumed are deleted from the log, in the assigned \
         partitions.",
    )
    .is("10s"),
    Key::new(
        ("documents", "retention"),
        Kind::Time(SECOND, 3650 * DAY),
        FRONTIER,
        "Retention time of documents while no consumer group is declared (`orbweaver consumers`). Not set: unlimited.",
    ),
    Key::new(
        ("documents", "retention_bytes"),
        Kind::Size(MIB, 1 << 60),
        FRONTIER,
        "Approximate retention size of documents while no consumer group is declared, over all partitions, before \
         compression by the brokers. Not set: unlimited.",
    ),
    Key::new(
        ("rate_limiter", "rate"),
        Kind::Rate,
        POLITE,
        "Maximum rate of requests to a site, unless the site requests a lower one. Frontier, rate-limiter and \
         fetcher need the same value.",
    )
    .is("1/s"),
    Key::new(
        ("rate_limiter", "allow_above_ten_per_second"),
        Kind::Switch,
        LIMITER,
        "Allow limited rates above 10/s. Only for your own sites.",
    )
    .is("false"),
    Key::new(
        ("rate_limiter", "overrides.*"),
        Kind::Rate,
        LIMITER,
        "Rate of one site instead of `rate`, such as `overrides.\"example.com\" = \"2/s\"`.",
    ),
    Key::new(
        ("rate_limiter", "max_delay"),
        Kind::Time(1, 10 * SECOND),
        LIMITER,
        "Minimum planning horizon: dispatches are scheduled at most this far ahead, or two intervals (at most 10 s) if \
         that is longer.",
    )
    .is("1s"),
    Key::new(
        ("fetcher", "user_agent"),
        Kind::Text,
        NAMED,
        "Name of the crawler in its requests; its first product name is looked up in robots.txt and robots \
         directives.",
    )
    .is(concat!("Orbweaver/", env!("CARGO_PKG_VERSION"))),
    Key::new(
        ("fetcher", "contact"),
        Kind::Text,
        FETCHER,
        "Contact for site owners: a URL or `mailto:`, sent in the user agent.",
    ),
    Key::new(("fetcher", "headers.*"), Kind::Text, FETCHER, "Additional headers of every request.")
        .secret(Secret::Always),
    Key::new(
        ("fetcher", "concurrency"),
        Kind::Count(1, 1024),
        FETCHER,
        "Maximum number of requests whose outcome is not yet durable. After a crash, up to this many pages are \
         requested twice.",
    )
    .is("128"),
    Key::new(
        ("fetcher", "connect_timeout"),
        Kind::Time(1, MINUTE),
        FETCHER,
        "Timeout for name resolution, connection and TLS; at most `request_timeout`.",
    )
    .is("10s"),
    Key::new(
        ("fetcher", "headers_timeout"),
        Kind::Time(1, MINUTE),
        FETCHER,
        "Timeout until the end of the response headers; at most `request_timeout`.",
    )
    .is("20s"),
    Key::new(
        ("fetcher", "request_timeout"),
        Kind::Time(1, 30 * SECOND),
        FETCHER,
        "Timeout per whole request; together with `runtime.frozen_after` and the heartbeat interval at most the session \
         timeout of the group.",
    )
    .is("20s"),
    Key::new(
        ("fetcher", "max_body_bytes"),
        Kind::Size(1, 256 * MIB),
        FETCHER,
        "Decoded bytes that are read of a body; the rest is cut off. At most the extractor's limit, otherwise \
         pages are cut twice.",
    )
    .is("8MiB"),
    Key::new(
        ("fetcher", "body_memory"),
        Kind::Size(MIB, 64 * GIB),
        FETCHER,
        "Memory for bodies that are not yet durable.",
    )
    .is("128MiB"),
    Key::new(("fetcher", "max_headers"), Kind::Count(1, 4096), FETCHER, "Maximum number of headers of a response.")
        .is("256"),
    Key::new(
        ("fetcher", "max_header_bytes"),
        Kind::Size(0, 32 * KIB),
        FETCHER,
        "Bytes of the response headers that are stored with the page.",
    )
    .is("16KiB"),
    Key::new(
        ("fetcher", "ignore_robots"),
        Kind::Switch,
        FETCHER,
        "Do not request robots.txt. Only for your own sites.",
    )
    .is("false"),
    Key::new(
        ("fetcher", "allow_private"),
        Kind::Switch,
        FETCHER,
        "Also fetch from loopback, private and other special addresses. For tests and intranets.",
    )
    .is("false"),
    Key::new(
        ("fetcher", "robots_lifetime"),
        Kind::Time(1, 7 * DAY),
        FETCHER,
        "Lifetime of a cached robots.txt whose Cache-Control has no `max-age` (a `max-age` applies from ten minutes to \
         seven days). While its site is unreachable, the cached one applies for seven days.",
    )
    .is("24h"),
    Key::new(
        ("fetcher", "robots_error_lifetime"),
        Kind::Time(1, DAY),
        FETCHER,
        "Lifetime of the knowledge that a site has no robots.txt or is unreachable.",
    )
    .is("1h"),
    Key::new(
        ("fetcher", "robots_cache_bytes"),
        Kind::Size(KIB, 64 * GIB),
        FETCHER,
        "Memory for cached robots.txt files.",
    )
    .is("64MiB"),
    Key::new(
        ("extractor", "threads"),
        Kind::Cores,
        EXTRACTOR,
        "Maximum number of pages that are extracted concurrently.",
    )
    .is("auto"),
    Key::new(("extractor", "batch_pages"), Kind::Count(1, 1024), EXTRACTOR, "Maximum number of pages per job.")
        .is("16"),
    Key::new(("extractor", "batch_bytes"), Kind::Size(1, GIB), EXTRACTOR, "Maximum size of the records of a job.")
        .is("1MiB"),
    Key::new(
        ("extractor", "memory"),
        Kind::Size(MIB, 64 * GIB),
        EXTRACTOR,
        "Memory for pages and results that are not yet durable.",
    )
    .is("128MiB"),
    Key::new(
        ("extractor", "max_discovered_urls"),
        Kind::Count(1, 100_000),
        EXTRACTOR,
        "Maximum number of URLs per record of `crawl.discovered`.",
    )
    .is("1000"),
    Key::new(
        ("extractor", "max_discovered_bytes"),
        Kind::Size(8 * KIB, 16 * MIB),
        EXTRACTOR,
        "Maximum size of the URLs in a record of `crawl.discovered`; must be well below the brokers' limit per \
         record.",
    )
    .is("256KiB"),
    Key::new(("extractor", "follow_nofollow"), Kind::Switch, EXTRACTOR, "Also follow links marked nofollow.")
        .is("false"),
    Key::new(("extractor", "html"), Kind::Switch, EXTRACTOR, "Add the decoded body to the document.").is("false"),
    Key::new(
        ("extractor", "max_body_bytes"),
        Kind::Size(1, GIB),
        EXTRACTOR,
        "Maximum size of a body; the rest is not read.",
    )
    .is("16MiB"),
    Key::new(
        ("extractor", "max_text_bytes"),
        Kind::Size(1, GIB),
        EXTRACTOR,
        "Maximum size of the stored text of a page.",
    )
    .is("1MiB"),
    Key::new(
        ("extractor", "max_links"),
        Kind::Count(1, 10_000_000),
        EXTRACTOR,
        "Maximum number of links of a page in its document and in the store; further links are only followed.",
    )
    .is("100000"),
    Key::new(
        ("extractor", "max_links_bytes"),
        Kind::Size(1, 32 * MIB),
        EXTRACTOR,
        "Maximum total size of the URLs of the links of a page in its document and in the store.",
    )
    .is("8MiB"),
    Key::new(
        ("extractor", "max_link_text_bytes"),
        Kind::Size(1, MIB),
        EXTRACTOR,
        "Maximum size of the stored text of a link.",
    )
    .is("1KiB"),
];
