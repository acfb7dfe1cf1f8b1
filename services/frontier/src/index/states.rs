//! States of the URLs in an index, by the offsets of their records. The tables keep the keys of URLs that have ended, or are no
//! longer in that order, until a merge; the states distinguish them.

use std::ops::Range;

use orbweaver_log::Offset;
use orbweaver_messages::FrontierUrl;

use super::{
    IndexEntry, Rank, is_demoted,
    keys::{Order, read_delayed, read_queued_rank, read_url},
};
use crate::offsets::Offsets;

#[derive(Debug, Default)]
pub(super) struct States {
    queued: Offsets,
    delayed: Offsets,
    demoted: Offsets,
    /// Number of URLs.
    len: usize,
}

impl States {
    /// Returns the number of URLs.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Sets the state of a URL.
    pub(super) fn set(&mut self, entry: &IndexEntry) {
        self.remove(entry.offset);
        self.len += 1;
        if entry.is_delayed() { &mut self.delayed } else { &mut self.queued }.insert(entry.offset);
        if entry.demoted {
            self.demoted.insert(entry.offset);
        }
    }

    /// Removes a URL.
    pub(super) fn remove(&mut self, offset: Offset) {
        if self.is_live(offset) {
            self.len -= 1;
            [&mut self.queued, &mut self.delayed, &mut self.demoted].into_iter().for_each(|set| set.remove(offset));
        }
    }

    /// Returns `true` if the record at this offset is that of a URL in the index.
    pub(super) fn is_live(&self, offset: Offset) -> bool {
        self.queued.contains(offset) || self.delayed.contains(offset)
    }

    /// Returns `true` if this is the present entry of a URL.
    pub(super) fn is_current(&self, entry: &IndexEntry) -> bool {
        let set = if entry.is_delayed() { &self.delayed } else { &self.queued };
        set.contains(entry.offset) && self.demoted.contains(entry.offset) == entry.demoted
    }

    /// Returns `true` if this is the present rank of a queued URL.
    pub(super) fn is_queued(&self, rank: Rank) -> bool {
        self.queued.contains(rank.1) && self.demoted.contains(rank.1) == is_demoted(rank)
    }

    /// Returns `true` if a key of a table is that of a URL in this order.
    pub(super) fn has(&self, order: Order, key: &[u8]) -> bool {
        match order {
            Order::Urls => read_url(key).is_some_and(|(_, offset)| self.is_live(offset)),
            Order::Queued => read_queued_rank(key).is_some_and(|(_, rank)| self.is_queued(rank)),
            Order::Delayed => read_delayed(key).is_some_and(|(_, entry)| self.is_current(&entry)),
        }
    }

    /// Returns the entry of a URL from its record.
    pub(super) fn entry(&self, waiting: &FrontierUrl, offset: Offset) -> IndexEntry {
        let entry = IndexEntry { demoted: self.demoted.contains(offset), ..IndexEntry::of(waiting, offset, 0) };
        if self.delayed.contains(offset) { entry } else { entry.queued() }
    }

    /// Returns `true` if there is a URL with a record in this range, whose ends are multiples of 4,096.
    pub(super) fn any_in(&self, range: Range<Offset>) -> bool {
        self.queued.any_chunk_in(range.clone()) || self.delayed.any_chunk_in(range)
    }

    /// Returns the lowest offset.
    pub(super) fn first(&self) -> Option<Offset> {
        [&self.queued, &self.delayed].into_iter().filter_map(|set| set.iter().next()).min()
    }

    /// Appends the states to a buffer.
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        [&self.queued, &self.delayed, &self.demoted].into_iter().for_each(|set| set.encode(to));
    }

    /// Reads states from the start of `bytes`, and returns the rest. `None` if they are damaged.
    pub(super) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (queued, rest) = Offsets::decode(bytes)?;
        let (delayed, rest) = Offsets::decode(rest)?;
        let (demoted, rest) = Offsets::decode(rest)?;
        let len = queued.len() + delayed.len();
        Some((Self { queued, delayed, demoted, len }, rest))
    }
}
