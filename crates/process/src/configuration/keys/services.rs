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
        "Domains whose hosts are sites of their own, though the public suffix list does not have them: `example.edu`. All services of a pipeline need the same; crawls pin them when they are created.",
    ),
    Key::new(
        ("normalizer_dedup", "recent_entries"),
        Kind::Count(3, 1 << 30),
        DEDUP,
        "Places of the recent cache, 21 bytes each.",
    )
    .is("262144"),
    Key::new(
        ("normalizer_dedup", "verify"),
        Kind::Switch,
        DEDUP,
        "Look up on disk what the filters take for known. `false` spares the look-ups, takes 3.7 bytes of memory a URL instead of \
         1.5, and loses one unknown URL of a million at most, or the shallower sighting of a known one.",
    )
    .is("true"),
    Key::new(("normalizer_dedup", "default_crawl"), Kind::Name, DEDUP, "The crawl of seeds that name none.").is("default"),
    Key::new(
        ("normalizer_dedup", "default_scope"),
        Kind::Word(&["path", "host", "site", "any"]),
        DEDUP,
        "When nobody has created the default crawl before its first seed, it is created with this scope, measured from its seeds.",
    )
    .is("host"),
    Key::new(
        ("normalizer_dedup", "default_include"),
        Kind::Texts,
        DEDUP,
        "… and these regular expressions, of which one must match a URL. (One with a comma: in the file, as an array.)",
    ),
    Key::new(
        ("normalizer_dedup", "default_exclude"),
        Kind::Texts,
        DEDUP,
        "… and these, of which none may match.",
    ),
    Key::new(
        ("normalizer_dedup", "default_max_depth"),
        Kind::Count(0, 65_535),
        DEDUP,
        "… and so many links from a seed at most.",
    ),
    Key::new(
        ("normalizer_dedup", "default_max_pages"),
        Kind::Count(1, u64::MAX),
        DEDUP,
        "… and so many pages at most; it may become a few more.",
    ),
    Key::new(
        ("normalizer_dedup", "default_traps"),
        Kind::Word(&["off", "learn", "strict"]),
        DEDUP,
        "… and this way with URLs that lead on and on without bringing anything new.",
    )
    .is("learn"),
    Key::new(
        ("normalizer_dedup", "default_canonical"),
        Kind::Text,
        DEDUP,
        "… and this policy of the canonical form: `standard`, `aggressive` or `raw`, and rules after commas (`standard,sort-query`).",
    )
    .is("standard"),
    Key::new(
        ("normalizer_dedup", "definition_grace"),
        Kind::Time(0, 10 * MINUTE),
        DEDUP,
        "Least time for which a record of an unknown crawl waits for its definition. It is rejected no sooner than `crawl.control` was read to an end that was requested after it came.",
    )
    .is("5s"),
    Key::new(
        ("frontier", "max_attempts"),
        Kind::Count(1, 100),
        FRONTIER,
        "Attempts that a URL gets when it fails in passing.",
    )
    .is("3"),
    Key::new(
        ("frontier", "min_outstanding"),
        Kind::Count(1, 1_000_000),
        FRONTIER,
        "Dispatches without an outcome in a partition, at least.",
    )
    .is("512"),
    Key::new(
        ("frontier", "max_outstanding"),
        Kind::Count(1, 1_000_000),
        FRONTIER,
        "The same at most, however many outcomes come a second.",
    )
    .is("8192"),
    Key::new(
        ("frontier", "reappend_above"),
        Kind::Count(1, 1 << 40),
        FRONTIER,
        "What waits longest is appended anew when the log is so many records longer than what waits.",
    )
    .is("65536"),
    Key::new(
        ("frontier", "delete_interval"),
        Kind::Time(100, HOUR),
        FRONTIER,
        "How often what all services have worked off is deleted from the log, in the partitions that are held.",
    )
    .is("10s"),
    Key::new(
        ("documents", "retention"),
        Kind::Time(SECOND, 3650 * DAY),
        FRONTIER,
        "How long documents are kept while no consumer group is declared (`orbweaver consumers`). Not set: for ever.",
    ),
    Key::new(
        ("documents", "retention_bytes"),
        Kind::Size(MIB, 1 << 60),
        FRONTIER,
        "How much of them is kept likewise, over all partitions, before the brokers' compression, about. Not set: all.",
    ),
    Key::new(
        ("rate_limiter", "rate"),
        Kind::Rate,
        POLITE,
        "How often a site is asked at most, unless it asks for less. Frontier, rate-limiter and fetcher need the same.",
    )
    .is("1/s"),
    Key::new(
        ("rate_limiter", "allow_above_ten_per_second"),
        Kind::Switch,
        LIMITER,
        "Allows limited rates above 10/s. For sites of your own.",
    )
    .is("false"),
    Key::new(
        ("rate_limiter", "overrides.*"),
        Kind::Rate,
        LIMITER,
        "The rate of one site in place of `rate`, such as `overrides.\"example.com\" = \"2/s\"`.",
    ),
    Key::new(
        ("rate_limiter", "max_delay"),
        Kind::Time(1, 10 * SECOND),
        LIMITER,
        "How far ahead a moment is planned.",
    )
    .is("1s"),
    Key::new(
        ("fetcher", "user_agent"),
        Kind::Text,
        NAMED,
        "The name by which sites know the crawler; its first product name is looked up in robots.txt and robots directives.",
    )
    .is(concat!("Orbweaver/", env!("CARGO_PKG_VERSION"))),
    Key::new(
        ("fetcher", "contact"),
        Kind::Text,
        FETCHER,
        "How a site's owner reaches you: a URL or `mailto:`, sent in the user agent.",
    ),
    Key::new(
        ("fetcher", "headers.*"),
        Kind::Text,
        FETCHER,
        "Headers sent with every request besides.",
    )
    .secret(Secret::Always),
    Key::new(
        ("fetcher", "concurrency"),
        Kind::Count(1, 1024),
        FETCHER,
        "Requests whose outcome is not yet durable. After a crash so many pages are asked for twice.",
    )
    .is("128"),
    Key::new(
        ("fetcher", "connect_timeout"),
        Kind::Time(1, MINUTE),
        FETCHER,
        "For name, connection and TLS; at most `request_timeout`.",
    )
    .is("10s"),
    Key::new(
        ("fetcher", "headers_timeout"),
        Kind::Time(1, MINUTE),
        FETCHER,
        "To the end of the answer's headers; at most `request_timeout`.",
    )
    .is("20s"),
    Key::new(("fetcher", "request_timeout"), Kind::Time(1, 30 * SECOND), FETCHER, "For a whole request; with half of the group's session within that session.").is("20s"),
    Key::new(
        ("fetcher", "max_body_bytes"),
        Kind::Size(1, 256 * MIB),
        FETCHER,
        "Decoded bytes that are read of a body; the rest is cut off. At most the extractor's, else pages are cut twice.",
    )
    .is("8MiB"),
    Key::new(("fetcher", "body_memory"), Kind::Size(MIB, 64 * GIB), FETCHER, "Memory for bodies until they are durable.")
        .is("128MiB"),
    Key::new(("fetcher", "max_headers"), Kind::Count(1, 4096), FETCHER, "Headers of an answer.").is("256"),
    Key::new(
        ("fetcher", "max_header_bytes"),
        Kind::Size(0, 32 * KIB),
        FETCHER,
        "Bytes of an answer's headers that are kept with the page.",
    )
    .is("16KiB"),
    Key::new(
        ("fetcher", "ignore_robots"),
        Kind::Switch,
        FETCHER,
        "Does not ask for robots.txt. For sites of your own.",
    )
    .is("false"),
    Key::new(
        ("fetcher", "allow_private"),
        Kind::Switch,
        FETCHER,
        "Fetches from loopback, private and other special addresses, too. For tests and intranets.",
    )
    .is("false"),
    Key::new(
        ("fetcher", "robots_lifetime"),
        Kind::Time(1, 7 * DAY),
        FETCHER,
        "How long a robots.txt is believed whose Cache-Control gives no `max-age` (ten minutes to seven days). While its site is unreachable the old one serves on, for seven days.",
    )
    .is("24h"),
    Key::new(
        ("fetcher", "robots_error_lifetime"),
        Kind::Time(1, DAY),
        FETCHER,
        "How long it is believed that there is none, or that a site cannot be reached.",
    )
    .is("1h"),
    Key::new(
        ("fetcher", "robots_cache_bytes"),
        Kind::Size(KIB, 64 * GIB),
        FETCHER,
        "Bytes of robots.txt files in memory.",
    )
    .is("64MiB"),
    Key::new(
        ("extractor", "threads"),
        Kind::Cores,
        EXTRACTOR,
        "Pages that are extracted at the same time.",
    )
    .is("auto"),
    Key::new(("extractor", "batch_pages"), Kind::Count(1, 1024), EXTRACTOR, "Pages of one job at most.").is("16"),
    Key::new(("extractor", "batch_bytes"), Kind::Size(1, GIB), EXTRACTOR, "Bytes of one job's records at most.").is("1MiB"),
    Key::new(("extractor", "memory"), Kind::Size(MIB, 64 * GIB), EXTRACTOR, "Memory for pages and results until durable.")
        .is("128MiB"),
    Key::new(
        ("extractor", "max_discovered_urls"),
        Kind::Count(1, 100_000),
        EXTRACTOR,
        "URLs in one record of `crawl.discovered`.",
    )
    .is("1000"),
    Key::new(
        ("extractor", "max_discovered_bytes"),
        Kind::Size(8 * KIB, 16 * MIB),
        EXTRACTOR,
        "Bytes of URLs in one record of `crawl.discovered`; well below what the brokers take as one record.",
    )
    .is("256KiB"),
    Key::new(
        ("extractor", "follow_nofollow"),
        Kind::Switch,
        EXTRACTOR,
        "Follows links marked nofollow, too.",
    )
    .is("false"),
    Key::new(("extractor", "html"), Kind::Switch, EXTRACTOR, "Adds the decoded body to the document.").is("false"),
    Key::new(("extractor", "max_body_bytes"), Kind::Size(1, GIB), EXTRACTOR, "A body is read up to here.").is("16MiB"),
    Key::new(("extractor", "max_text_bytes"), Kind::Size(1, GIB), EXTRACTOR, "A page's text is kept up to here.").is("1MiB"),
    Key::new(("extractor", "max_links"), Kind::Count(1, 10_000_000), EXTRACTOR, "Links that are taken from a page.")
        .is("100000"),
    Key::new(
        ("extractor", "max_links_bytes"),
        Kind::Size(1, 32 * MIB),
        EXTRACTOR,
        "Bytes of the URLs of all links of a page together.",
    )
    .is("8MiB"),
    Key::new(("extractor", "max_link_text_bytes"), Kind::Size(1, MIB), EXTRACTOR, "The text of a link is kept up to here.")
        .is("1KiB"),
];
