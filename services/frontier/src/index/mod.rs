//! What waits, as an index over one partition of `crawl.frontier`.
//!
//! The index is what the records up to its position say, and nothing else: a URL is in it while the last record of its
//! fingerprint is not a tombstone. Leases and whatever else was decided but is not in the log yet are kept by
//! [`crate::partition`], in memory. So an index may be taken back to an earlier position, or be lost, and the log has the rest.
//!
//! A URL stands in one of two orders: by site, depth and offset ("queued"), or by the moment before which it must not be
//! asked ("delayed"). That it stands at the back of its site is the one thing in the index that no record says; it may be lost.

mod disk;
mod encoding;
mod error;
mod memory;

use orbweaver_log::Offset;
use orbweaver_messages::{Millis, Waiting};
use orbweaver_stage::Position;
use orbweaver_url::Fingerprint;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

pub use disk::{DiskIndex, FrontierIndex};
pub use error::IndexError;
pub use memory::MemoryIndex;

/// Names a site of a crawl in eight bytes (xxh3 of both names): each crawl has a queue of its own at a site, so that
/// one that may not go on holds up no other. Two of one partition with the same id, which among ten million takes some
/// four hundred thousand pipelines to happen, would share a queue and its turns, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(pub u64);

impl SiteId {
    /// The id of the site of this name in a crawl.
    #[must_use]
    pub fn of(crawl: &str, site: &str) -> Self {
        Self(xxh3_64_with_seed(site.as_bytes(), xxh3_64(crawl.as_bytes())))
    }
}

/// The order within a site: what is at the back last, else lowest depth first, first come first served within it.
pub type Rank = (u16, Offset);

/// Set in the first part of a rank at the back. Depths beyond are one.
const BACK: u16 = 0x8000;

/// Whether a URL of this rank stands at the back of its site.
pub(crate) fn is_at_back(rank: Rank) -> bool {
    rank.0 >= BACK
}

/// Where a URL stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The offset of its record.
    pub offset: Offset,
    /// Its site.
    pub site: SiteId,
    /// Links followed from the seed.
    pub depth: u16,
    /// Attempts that have failed.
    pub failures: u8,
    /// Attempts that the site answered with 429 or 503.
    pub blocks: u8,
    /// It is behind all URLs of its site that are not.
    pub back: bool,
    /// 0 when it is queued, else the moment until which it is delayed.
    pub not_before_ms: Millis,
}

impl Place {
    /// The place of the record at `offset`; delayed if it has to wait beyond `now`.
    #[must_use]
    pub fn of(waiting: &Waiting, offset: Offset, now: Millis) -> Self {
        Self {
            offset,
            site: SiteId::of(&waiting.crawl, &waiting.site),
            depth: waiting.depth,
            failures: waiting.failures,
            blocks: waiting.blocks,
            back: false,
            not_before_ms: if waiting.not_before_ms > now.max(0) { waiting.not_before_ms } else { 0 },
        }
    }

    /// The same, in its site's queue.
    #[must_use]
    pub fn queued(self) -> Self {
        Self { not_before_ms: 0, ..self }
    }

    /// The same, behind all URLs of its site that are not so.
    #[must_use]
    pub fn at_back(self) -> Self {
        Self { back: true, ..self }
    }

    /// Whether it waits for a moment.
    #[must_use]
    pub fn is_delayed(&self) -> bool {
        self.not_before_ms > 0
    }

    /// Its order within its site.
    #[must_use]
    pub fn rank(&self) -> Rank {
        (self.depth.min(BACK - 1) | if self.back { BACK } else { 0 }, self.offset)
    }
}

/// The index of one partition. An error means that what was asked for, or asked to be written, is not known to be so: the
/// partition cannot be served on.
pub trait Index: Send + std::fmt::Debug {
    /// Where the URL of this fingerprint stands, if it waits.
    ///
    /// # Errors
    /// When the index cannot be read.
    fn place(&mut self, fingerprint: Fingerprint) -> Result<Option<Place>, IndexError>;

    /// The record at `offset`, of a URL that waits.
    ///
    /// # Errors
    /// When the index cannot be read, or has no such record.
    fn waiting(&mut self, offset: Offset) -> Result<Waiting, IndexError>;

    /// The URL stands in another place, with another record, from now on, or not at all any more. `old` is what
    /// [`Index::place`] says.
    fn replace(&mut self, fingerprint: Fingerprint, old: Option<Place>, new: Option<(Place, &Waiting)>);

    /// A delayed URL is queued from now on. `place` is what [`Index::place`] says.
    fn release(&mut self, fingerprint: Fingerprint, place: Place);

    /// The first `most` queued URLs of a site from the rank `from` on, in order.
    ///
    /// # Errors
    /// When the index cannot be read.
    fn queued(&mut self, site: SiteId, from: Rank, most: usize) -> Result<Vec<Rank>, IndexError>;

    /// The first `most` URLs that are delayed until `until_ms` or less, in order.
    ///
    /// # Errors
    /// When the index cannot be read.
    fn delayed(&mut self, until_ms: Millis, most: usize) -> Result<Vec<(Fingerprint, Place)>, IndexError>;

    /// Calls `each` with every place: the queued ones by site and rank, the delayed ones by moment.
    ///
    /// # Errors
    /// When the index cannot be read.
    fn each(&mut self, each: &mut dyn FnMut(Place)) -> Result<(), IndexError>;

    /// All records of the log up to this one are in the index.
    ///
    /// # Errors
    /// When the index cannot be written.
    fn applied(&mut self, position: Position) -> Result<(), IndexError>;

    /// Up to where the log is in the index; `None` for an empty one.
    fn position(&self) -> Option<Position>;

    /// Writes what was not written yet.
    ///
    /// # Errors
    /// When the index cannot be written.
    fn write(&mut self) -> Result<(), IndexError>;
}

#[cfg(test)]
mod tests;
