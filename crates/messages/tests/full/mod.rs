//! A complete instance of every JSON message: every option present, no list empty. A new field must be set here to
//! compile, and `agree.rs` fails until it is in the schema.

use std::fmt::Debug;

use orbweaver_messages::{
    BodyEncoding, ConsumerGroup, ConsumerGroups, CrawlDefinition, DeadLetter, Discovered, DiscoveryKind, Dispatch,
    DispatchId, Document, DocumentLink, FrontierUrl, Outcome, OutcomeKind, Page, PageCount, Pins, ReadyDispatch,
    RobotsDirectives, Scope, ScopeEntry, Seed, SiteState, Trail, Traps, Truncated, UrlContext, decode, encode,
};
use orbweaver_url::Fingerprint;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Common interface of all message types.
pub(crate) trait Message {
    /// Returns the message as JSON.
    fn value(&self) -> Value;
    /// Decodes the value as this type and encodes it again.
    fn round_trip(&self, value: &Value) -> Result<Value, String>;
}

impl<T: Serialize + DeserializeOwned + PartialEq + Debug> Message for T {
    fn value(&self) -> Value {
        serde_json::from_slice(&encode(self)).unwrap()
    }

    fn round_trip(&self, value: &Value) -> Result<Value, String> {
        let message: T = decode("message", Some(&encode(value))).map_err(|error| error.to_string())?;
        let written = encode(&message);
        let again: T = decode("message", Some(&written)).unwrap();
        assert_eq!(again, message, "an encoded message decodes to itself");
        Ok(serde_json::from_slice(&written).unwrap())
    }
}

/// Returns a complete instance of every JSON message, with the name of its schema.
pub(crate) fn messages() -> Vec<(&'static str, Box<dyn Message>)> {
    vec![
        ("seed", Box::new(Seed { url: "https://example.org/".into(), crawl: Some("docs".into()) })),
        ("discovered", Box::new(discovered())),
        ("waiting", Box::new(waiting())),
        ("dispatch", Box::new(dispatch())),
        ("ready", Box::new(ReadyDispatch { not_before_ms: 5, interval_ms: 1000, dispatch: dispatch() })),
        ("outcome", Box::new(outcome())),
        ("page", Box::new(page())),
        ("document", Box::new(document())),
        ("site-memory", Box::new(site_memory())),
        ("crawl-definition", Box::new(crawl_definition())),
        ("scope-entry", Box::new(ScopeEntry { crawl: "docs".into(), entry: "example.org".into() })),
        ("page-count", Box::new(page_count())),
        ("consumer-groups", Box::new(consumer_groups())),
        ("dead-letter", Box::new(dead_letter())),
    ]
}

fn consumer_groups() -> ConsumerGroups {
    let group = ConsumerGroup {
        group: "indexer".to_owned(),
        topics: vec!["crawl.documents".to_owned()],
        declared_at_ms: 1_767_225_600_000,
    };
    ConsumerGroups { groups: vec![group], replaces: vec![7] }
}

fn page_count() -> PageCount {
    PageCount {
        crawl: "docs".into(),
        partition: 3,
        epoch: 7,
        pages: 5,
        leased: 2,
        upto: 11,
        since: 9,
        held_at: Some(13),
    }
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn trail() -> Trail {
    Trail::default().through(orbweaver_messages::Pattern(7))
}

fn discovered() -> Discovered {
    Discovered {
        crawl: "docs".into(),
        site: "example.org".into(),
        via: text("https://example.org/"),
        depth: 1,
        sighting: DiscoveryKind::Redirect,
        chain: vec!["http://example.org/".into()],
        trail: trail(),
        content: Some(5),
        urls: vec!["https://example.org/a".into()],
        found_at_ms: 1,
    }
}

fn context() -> UrlContext {
    UrlContext {
        crawl: "docs".into(),
        fingerprint: Fingerprint([1; 16]),
        url: "https://example.org/?b&a".into(),
        key: text("https://example.org/?a&b"),
        policy: orbweaver_url::Policy::AGGRESSIVE,
        site: "example.org".into(),
        depth: 1,
        sighting: DiscoveryKind::Link,
        via: text("https://example.org/"),
        chain: vec!["http://example.org/".into()],
        trail: trail(),
    }
}

fn waiting() -> FrontierUrl {
    FrontierUrl {
        context: context(),
        traps: Traps::Strict,
        content: Some(5),
        failures: 1,
        blocks: 2,
        lost: 3,
        not_before_ms: 3,
        written_at_ms: 6,
        admitted_at_ms: 4,
        definition: 5,
    }
}

fn dispatch() -> Dispatch {
    Dispatch {
        id: DispatchId { epoch: 7, sequence: 9 },
        context: context(),
        attempt: 1,
        last_attempt: true,
        blocks: 1,
        written_at_ms: 6,
        dispatched_at_ms: 1,
        not_after_ms: 2,
        expires_ms: 3,
    }
}

fn outcome() -> Outcome {
    Outcome {
        id: DispatchId { epoch: 7, sequence: 9 },
        context: context(),
        attempt: 1,
        kind: OutcomeKind::Blocked,
        reason: text("http_429"),
        status: Some(429),
        content_type: text("text/html"),
        bytes: 12,
        location: text("https://example.com/"),
        dispatched_at_ms: 1,
        requested_at_ms: Some(2),
        answered_at_ms: Some(3),
        ended_at_ms: 4,
        written_at_ms: Some(8),
        retry_at_ms: Some(5),
        blocked_until_ms: Some(6),
        crawl_delay_ms: Some(7),
    }
}

fn page() -> Page {
    Page {
        context: context(),
        status: 200,
        content_type: text("text/html"),
        headers: vec![("etag".into(), "\"1\"".into())],
        fetched_at_ms: 1,
        written_at_ms: Some(8),
        encoding: BodyEncoding::Zstd,
        body_bytes: 12,
        truncated: Truncated { body: true, ..Truncated::default() },
        content_hash: "0123456789abcdef0123456789abcdef".into(),
        attempt: 1,
    }
}

fn document() -> Document {
    Document {
        url: "https://example.org/".into(),
        fetched_url: "https://example.org/".into(),
        redirects: vec!["http://example.org/".into()],
        status: 200,
        content_type: text("text/html"),
        fetched_at: "2026-01-01T00:00:00Z".into(),
        depth: 1,
        title: "Title".into(),
        text: "Text".into(),
        links: vec![DocumentLink { url: "https://example.org/a".into(), text: "a".into(), rel: "nofollow".into() }],
        crawl: "docs".into(),
        fingerprint: Fingerprint([1; 16]),
        site: "example.org".into(),
        via: text("https://example.org/"),
        canonical: text("https://example.org/"),
        language: text("en"),
        description: text("About"),
        charset: "UTF-8".into(),
        robots: RobotsDirectives { noindex: true, nofollow: true },
        bytes: 12,
        truncated: Truncated::ALL,
        links_total: Some(60_000),
        text_bytes: Some(2 << 20),
        content_hash: "0123456789abcdef0123456789abcdef".into(),
        html: text("<p>Text"),
    }
}

fn site_memory() -> SiteState {
    SiteState {
        site: "example.org".into(),
        epoch: 7,
        blocked_until_ms: 1,
        blocks: 2,
        crawl_delay_ms: Some(3),
        updated_at_ms: 4,
    }
}

fn crawl_definition() -> CrawlDefinition {
    CrawlDefinition {
        name: "docs".into(),
        scope: Scope::Path,
        include: vec!["/guide/".into()],
        exclude: vec!["/login".into()],
        max_depth: Some(3),
        max_pages: Some(9),
        traps: Traps::Off,
        pins: Pins {
            partitions: 16,
            suffix_list: "psl".into(),
            canonical_policy: "standard/1".into(),
            wide_domains: vec!["example.edu".into()],
        },
        created_at_ms: 1,
        replaces: vec![7, 9],
    }
}

fn dead_letter() -> DeadLetter {
    DeadLetter {
        service: "extractor".into(),
        reason: "not a page".into(),
        topic: "crawl.pages".into(),
        partition: 1,
        offset: 2,
        rejected_at_ms: 3,
    }
}
