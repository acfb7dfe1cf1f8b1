//! Index of queued URLs over one partition of `crawl.frontier`.
//!
//! The records up to its checkpoint determine the index: a URL is in it while the last record of its fingerprint is not
//! a tombstone. Its record may have a later time of the previous write than that in the log, until it is re-appended
//! (docs/protocol.md#event-times). Leases, and all other decisions that are not in the log yet, are kept in memory by
//! [`crate::partition`]. An index may therefore be rolled back to an earlier checkpoint, or be lost: the log has the
//! rest.
//!
//! A queued URL is marked while it could not be restored from its last record in the log: a record of a greater depth,
//! or without the time of the previous write, came later, or a tombstone of an earlier record. It must be re-appended,
//! also by a later owner, which does not read these records again; compaction keeps only the last record.
//!
//! A URL is in one of two orders: by site, weight and offset ("queued"), or by the earliest time of its next request
//! ("delayed"). Whether a URL is demoted is the only information in the index that is in no record; it may be lost.

mod checkpoint;
mod disk;
mod encoding;
mod error;
mod filters;
mod group;
mod keys;
mod memory;
mod merge;
mod records;
mod states;
mod store;
mod table;

use std::collections::BTreeMap;

use orbweaver_log::Offset;
use orbweaver_messages::{FrontierUrl, Millis, UrlContext};
use orbweaver_scope::rank_of_depth;
use orbweaver_stage::IndexCheckpoint;
use orbweaver_url::{CrawlName, Fingerprint, SiteName};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

pub use disk::DiskIndex;
pub use error::IndexError;
pub use memory::MemoryIndex;
pub use store::FrontierIndex;

/// Identifies the queue of a crawl at a site in eight bytes (xxh3 of both names): each crawl has its own queue at a
/// site, so that a paused crawl does not block another, and further ones for revisits and for URLs that are no pages, so
/// that new URLs neither delay them nor block them at the page cap. Two queues of one partition with the same id would
/// share their order and scheduling, and nothing else; with ten million queues, this is expected once in some four hundred thousand
/// pipelines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueKey(pub u64);

impl QueueKey {
    /// Returns the key of the queue of a URL.
    #[must_use]
    pub fn of(context: &UrlContext) -> Self {
        let crawl = xxh3_64(context.crawl.as_bytes());
        let seed = match (context.visit, context.sighting) {
            (0, sighting) if !sighting.is_page() => crawl.swap_bytes(),
            (0, _) => crawl,
            _ => !crawl,
        };
        Self(xxh3_64_with_seed(context.site.as_bytes(), seed))
    }

    /// Returns the key of the queue of URLs that were not visited yet.
    #[must_use]
    pub fn of_first_visits(crawl: &CrawlName, site: &SiteName) -> Self {
        Self(xxh3_64_with_seed(site.as_bytes(), xxh3_64(crawl.as_bytes())))
    }
}

impl std::fmt::Display for QueueKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl std::str::FromStr for QueueKey {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u64::from_str_radix(text, 16).map(Self)
    }
}

/// Identifies a crawl in four bytes (xxh3 of its name), for counts and limits. Two crawls with the same key would complete
/// only together, and have the limits of dispatches in flight of one of them; with a thousand crawls, this is expected
/// once in some nine thousand pipelines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CrawlKey(pub u32);

impl CrawlKey {
    /// Returns the key of a crawl.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "the lower half of the hash")]
    pub fn of(crawl: &CrawlName) -> Self {
        Self(xxh3_64(crawl.as_bytes()) as u32)
    }
}

/// Order within a site: demoted URLs last, otherwise the heaviest first, then first come, first served.
pub type Rank = (u32, Offset);

/// Greater than all ranks of URLs.
pub(crate) const END_RANK: Rank = (u32::MAX, Offset::MAX);

/// Bit of demoted URLs in the first part of a rank; ranks by weight are below it.
const DEMOTED_RANK: u32 = 1 << 31;

/// Returns `true` for the rank of a demoted URL.
pub(crate) fn is_demoted(rank: Rank) -> bool {
    rank.0 >= DEMOTED_RANK
}

/// Returns the part of a rank that is determined by the weight.
fn by_weight(rank: Rank) -> u32 {
    rank.0 & !DEMOTED_RANK
}

/// Entry of a URL in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexEntry {
    /// Offset of the record.
    pub offset: Offset,
    pub crawl: CrawlKey,
    /// Queue of the URL's crawl and site.
    pub site: QueueKey,
    /// Link depth from the seed.
    pub depth: u16,
    /// Rank by weight; see [`orbweaver_scope::rank`].
    pub by_weight: u32,
    /// Failed attempts.
    pub failures: u8,
    /// Attempts that got a 429 or 503 response.
    pub blocks: u8,
    /// Whether the URL is demoted behind all URLs of its site that are not.
    pub demoted: bool,
    /// 0 in the site's queue, otherwise the time until which the URL is delayed.
    pub not_before_ms: Millis,
    /// Whether the URL sleeps until its next visit; only a delayed one does.
    pub asleep: bool,
}

impl IndexEntry {
    /// Returns the entry of the record at `offset`, delayed if its earliest request time is later than `now`.
    #[must_use]
    pub fn of(waiting: &FrontierUrl, offset: Offset, now: Millis) -> Self {
        let is_delayed = waiting.not_before_ms > now.max(0);
        let is_untried = waiting.failures == 0 && waiting.blocks == 0;
        Self {
            offset,
            crawl: CrawlKey::of(&waiting.context.crawl),
            site: QueueKey::of(&waiting.context),
            depth: waiting.context.depth,
            by_weight: waiting.rank.unwrap_or_else(|| rank_of_depth(waiting.context.depth)).min(DEMOTED_RANK - 1),
            failures: waiting.failures,
            blocks: waiting.blocks,
            demoted: false,
            not_before_ms: if is_delayed { waiting.not_before_ms } else { 0 },
            asleep: is_delayed && is_untried && waiting.visits.is_some(),
        }
    }

    /// Returns the same entry, in its site's queue.
    #[must_use]
    pub fn queued(self) -> Self {
        Self { not_before_ms: 0, asleep: false, ..self }
    }

    /// Returns `true` if the URL is delayed.
    #[must_use]
    pub fn is_delayed(&self) -> bool {
        self.not_before_ms > 0
    }

    /// Returns the position in the order of the site.
    #[must_use]
    pub fn rank(&self) -> Rank {
        (self.by_weight | if self.demoted { DEMOTED_RANK } else { 0 }, self.offset)
    }
}

/// Index of one partition. After an error, it is unknown whether the requested read or write took place: the partition
/// must be closed.
pub trait Index: Send + std::fmt::Debug {
    /// Returns the offset of the record of a URL by its fingerprint, if the URL is queued or delayed.
    fn offset(&mut self, fingerprint: Fingerprint) -> Result<Option<Offset>, IndexError>;

    /// Returns the entry of a URL by its fingerprint, if the URL is queued or delayed.
    fn entry(&mut self, fingerprint: Fingerprint) -> Result<Option<IndexEntry>, IndexError>;

    /// Returns the record at `offset`, which must be that of a URL in the index.
    fn waiting(&mut self, offset: Offset) -> Result<Box<FrontierUrl>, IndexError>;

    /// Replaces the entry and the record of a URL, or removes them. `old` is the result of [`Index::entry`]. The record at an
    /// offset never changes, and records are added in the order of their offsets. The entry is that of the record
    /// ([`IndexEntry::of`]), but may be demoted, or queued already.
    fn replace(&mut self, fingerprint: Fingerprint, old: Option<IndexEntry>, new: Option<(IndexEntry, &FrontierUrl)>);

    /// Moves a delayed URL into its site's queue. `entry` is the result of [`Index::entry`].
    fn make_due(&mut self, fingerprint: Fingerprint, entry: IndexEntry);

    /// Returns the first `most` URLs of each of these queues from a rank on, in order. The queues are sorted and
    /// differ; a few that are neighbours take hardly more time than one.
    fn queued(&mut self, queues: &[(QueueKey, Rank)], most: usize) -> Result<Vec<Vec<Rank>>, IndexError>;

    /// Returns the first `most` URLs that are delayed until `until_ms` at most, by time and offset: all of them, or those after an entry.
    fn delayed(
        &mut self,
        after: Option<IndexEntry>,
        until_ms: Millis,
        most: usize,
    ) -> Result<Vec<(Fingerprint, IndexEntry)>, IndexError>;

    /// Calls `each` with every entry: those in queues by site and rank, then the delayed ones by time and offset.
    fn each(&mut self, each: &mut dyn FnMut(IndexEntry)) -> Result<(), IndexError>;

    /// Marks a queued URL whose last record in the log is not the queued one; `None` removes the mark. The URL can be
    /// restored from the record at `since` and later ones; a mark keeps the first such offset.
    fn mark(&mut self, fingerprint: Fingerprint, since: Option<Offset>);

    /// Returns the marked URLs.
    fn outdated(&self) -> &BTreeMap<Fingerprint, Offset>;

    /// Notes that all records of the log up to this one are in the index.
    fn applied(&mut self, position: IndexCheckpoint) -> Result<(), IndexError>;

    /// Returns the checkpoint up to which the log is in the index; `None` if the index is empty.
    fn position(&self) -> Option<IndexCheckpoint>;

    /// Writes the changes that are only in memory.
    fn write(&mut self) -> Result<(), IndexError>;
}

#[cfg(test)]
mod tests;
