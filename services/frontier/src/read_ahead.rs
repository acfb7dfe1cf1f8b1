//! Read-ahead of site queues.

use std::collections::VecDeque;

use crate::{
    index::{END_RANK, IndexError, QueueKey, Rank},
    sites::Source,
};

/// Maximum number of ranks in all heads together, of 16 bytes each; each head itself counts as [`HEAD`] ranks.
const RANKS: usize = 1 << 20;
const HEAD: usize = 4;
/// Number of ranks of the first read of a head. Each further read doubles it: the queue of a site among very many is
/// not read far ahead.
const FIRST_READ: usize = 8;
/// Number of ranks of the first read while heads take more than half of their memory, and may be dropped soon.
const SHORT_READ: usize = 2;
/// The next ranks of a site queue.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    /// Ordered. Some of the URLs may have ended since.
    ranks: VecDeque<Rank>,
    /// All ranks that may be dispatched, up to and including this one, are in `ranks`.
    upto: Rank,
    /// Number of ranks that were last read at once.
    read: usize,
}

impl ReadAhead {
    /// Returns the first rank.
    pub(crate) fn first(&self) -> Option<Rank> {
        self.ranks.front().copied()
    }
}

/// Total size of all heads, and operations on a head.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    held: usize,
}

impl Heads {
    /// Adds a URL of this rank, which may be dispatched from now on. `alone`: it is the only such URL of its site. A
    /// head that grows beyond twice `ahead` is truncated; the rest is left to the index.
    pub(crate) fn add(&mut self, head: &mut Option<Box<ReadAhead>>, rank: Rank, alone: bool, ahead: usize) {
        if head.is_none() && alone && self.held < RANKS {
            *head = Some(Box::new(ReadAhead { ranks: VecDeque::new(), upto: END_RANK, read: 0 }));
            self.held += HEAD;
        }
        let Some(known) = head.as_deref_mut().filter(|head| rank <= head.upto) else { return };
        if let Err(at) = known.ranks.binary_search(&rank) {
            known.ranks.insert(at, rank);
            self.held += 1;
        }
        if known.ranks.len() > 2 * ahead {
            self.held -= known.ranks.len() - ahead;
            known.ranks.truncate(ahead);
            known.upto = known.ranks.back().copied().unwrap_or(rank);
        }
        if self.held > RANKS {
            self.forget(head);
        }
    }

    /// Removes and returns the first rank of a site that may be dispatched; there must be one, and none below `low`.
    /// Reads more of the site queue as needed, at most `ahead` ranks at a time.
    pub(crate) fn pop(
        &mut self,
        head: &mut Option<Box<ReadAhead>>,
        (site, low): (QueueKey, Rank),
        ahead: usize,
        source: &mut Source<'_>,
    ) -> Result<Rank, IndexError> {
        let mut from_start = head.is_none();
        loop {
            while let Some(rank) = head.as_deref_mut().and_then(|head| head.ranks.pop_front()) {
                self.held -= 1;
                if source.idle.contains(rank.1) {
                    if self.held > RANKS {
                        self.forget(head);
                    }
                    return Ok(rank);
                }
            }
            let read = head.as_deref().map(|head| head.upto);
            if read == Some(END_RANK) {
                if from_start {
                    return Err(IndexError::Inconsistent { site: site.0 });
                }
                // The last ranks were skipped; URLs that have returned since are found from the start.
                from_start = true;
                self.forget(head);
                continue;
            }
            let from = read.map_or(low, |(by_weight, offset)| (by_weight, offset + 1));
            let count = match head.as_deref().map_or(0, |head| head.read) {
                0 if self.held > RANKS / 2 => SHORT_READ,
                0 => FIRST_READ,
                read => 2 * read,
            };
            let count = count.min(ahead.max(1));
            let ranks = source.index.queued(site, from, count)?;
            let upto = if ranks.len() < count { END_RANK } else { ranks.last().copied().unwrap_or(END_RANK) };
            let idle: VecDeque<Rank> = ranks.into_iter().filter(|rank| source.idle.contains(rank.1)).collect();
            self.forget(head);
            self.held += HEAD + idle.len();
            *head = Some(Box::new(ReadAhead { ranks: idle, upto, read: count }));
        }
    }

    /// Drops a head; it is read again when needed.
    pub(crate) fn forget(&mut self, head: &mut Option<Box<ReadAhead>>) {
        if let Some(head) = head.take() {
            self.held -= HEAD + head.ranks.len();
        }
    }
}
