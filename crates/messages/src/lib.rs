//! The messages that the services exchange, one module per message, and the topics that carry them.
//!
//! `schemas/` describes the same messages for users; `tests/agree.rs` checks that both agree.

mod archive_file;
mod codec;
mod control;
mod crawl_event;
mod dead_letter;
mod discovered;
mod dispatch;
mod document;
mod facts;
mod frontier_url;
mod json_text;
mod metadata;
mod order;
mod outcome;
mod page;
mod profile;
mod proxy_url;
mod revisit;
mod schema;
mod seed;
mod seen;
mod signature;
mod site;
mod size;
pub mod topic;
mod trail;
mod truncated;
mod url_context;

pub use archive_file::ArchiveFile;
pub use codec::{MessageError, decode, encode, is_default};
pub use control::{
    ANSWER_KEY, CONSUMERS_KEY, CompletionAnswer, CompletionProbe, ConsumerGroup, ConsumerGroups, CrawlDefinition,
    PAGES_KEY, PROBE_KEY, PageCount, Pins, SCOPE_KEY, SITE_KEY, Scope, ScopeEntry, SiteSettings, Traps, answer_key,
    crawl_key, pages_key, probe_key, scope_key, site_key,
};
pub use crawl_event::{CrawlEvent, CrawlEventKind};
pub use dead_letter::{DeadLetter, STUCK};
pub use discovered::{Discovered, DiscoveryKind, EXTERNAL_DEPTH, REQUISITE_DEPTH, depth_of_requisites};
pub use dispatch::{
    CLOCK_MARGIN_MS, DISPATCH_TTL_MS, Dispatch, DispatchId, LEASE_MS, MAX_FETCH_MS, ReadyDispatch, SEND_WINDOW_MS,
};
pub use document::{
    CRAWL_HEADER, Document, DocumentLink, FINGERPRINT_HEADER, LinkKind, NEEDS_RENDER_HEADER, RobotsDirectives,
    VISIT_HEADER,
};
pub use facts::{Alternate, Facts, FeedLink, MetaElement, UsageStatements};
pub use frontier_url::FrontierUrl;
pub use metadata::{
    MAX_METADATA_BYTES, MAX_METADATA_ENTRIES, MAX_METADATA_NAME_BYTES, SeedMetadata, SeedMetadataError,
};
pub use order::{CrawlOrder, Priority, PriorityError};
pub use outcome::{Outcome, OutcomeKind};
pub use page::{BodyEncoding, Capture, Page, PageKind, Protocol};
pub use profile::{CrawlPurpose, FetchProfile, Markdown};
pub use proxy_url::ProxyUrl;
pub use revisit::{ChangeKind, ChangeRate, PageChange, PageVersion, RevisitBounds, RevisitPolicy, Visits};
pub use schema::{SCHEMA_HEADER, SCHEMA_VERSION_HEADER, schema_of};
pub use seed::Seed;
pub use seen::{ENTRY_BYTES, SeenBatch, SeenEntry};
pub use signature::{
    NEAR_DUPLICATE_HEADER, PageSignature, SignatureGroup, TextSignature, TextSignatureError, parse_signature_key,
    signature_key,
};
pub use site::{SitePages, SiteState};
pub use size::{encoded_len, json_len, json_prefix};
pub use topic::Topic;
pub use trail::{Pattern, Trail};
pub use truncated::Truncated;
pub use url_context::UrlContext;

/// Time, in milliseconds since the Unix epoch.
pub type Millis = i64;
