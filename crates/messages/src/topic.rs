//! The topics of the pipeline, as `schemas/topics/*.yaml` describes them.

/// The name of a topic, without the prefix that a cluster may add.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Topic(pub &'static str);

impl std::fmt::Display for Topic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

/// URLs that users want crawled.
pub const SEEDS: Topic = Topic("crawl.seeds");
/// Links found on one page that lead to one site.
pub const DISCOVERED: Topic = Topic("crawl.discovered");
/// URLs that wait.
pub const FRONTIER: Topic = Topic("crawl.frontier");
/// Fingerprints that were let through.
pub const SEEN: Topic = Topic("crawl.seen");
/// Dispatches.
pub const SCHEDULED: Topic = Topic("crawl.scheduled");
/// Dispatches with their moment.
pub const READY: Topic = Topic("crawl.ready");
/// How dispatches ended.
pub const OUTCOMES: Topic = Topic("crawl.outcomes");
/// Fetched pages.
pub const PAGES: Topic = Topic("crawl.pages");
/// What was extracted.
pub const DOCUMENTS: Topic = Topic("crawl.documents");
/// Politeness memory.
pub const SITES: Topic = Topic("crawl.sites");
/// Settings.
pub const CONTROL: Topic = Topic("crawl.control");
/// Records that could not be processed.
pub const DEAD_LETTERS: Topic = Topic("crawl.dead-letters");
