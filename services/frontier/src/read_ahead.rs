//! Read-ahead of site queues.

use std::collections::VecDeque;

use crate::{
    index::{END_RANK, Rank},
    offsets::Offsets,
};

/// Maximum number of ranks in all heads of a partition together, of 16 bytes each; each head itself counts as [`HEAD`] ranks.
/// A queue with few ranks takes about as much here as in the table of queues.
const RANKS: usize = 4 << 20;
const HEAD: usize = 4;
/// Number of ranks of the first read of a head. Each further read doubles it: the queue of a site among very many is
/// not read far ahead.
const FIRST_READ: usize = 16;
/// Number of ranks of the first read while heads take nearly all of their memory, and may be dropped soon.
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

    /// Returns `true` if few ranks are left.
    pub(crate) fn is_short(&self) -> bool {
        self.ranks.len() <= FIRST_READ / 2
    }

    /// Returns the rank from which the next ranks are to be read; `None` if all have been.
    pub(crate) fn rest(&self) -> Option<Rank> {
        (self.upto != END_RANK).then(|| (self.upto.0, self.upto.1 + 1))
    }
}

/// Total size of all heads, and operations on a head.
#[derive(Debug)]
pub(crate) struct Heads {
    held: usize,
    /// Maximum of `held`.
    room: usize,
}

impl Default for Heads {
    fn default() -> Self {
        Self { held: 0, room: RANKS }
    }
}

impl Heads {
    #[cfg(test)]
    pub(crate) fn with_room(room: usize) -> Self {
        Self { held: 0, room }
    }

    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Adds a URL of this rank, which may be dispatched from now on. `alone`: it is the only such URL of its site. A
    /// head that grows beyond twice `ahead` is truncated, and all are short once they take half of their memory; the rest
    /// is left to the index.
    pub(crate) fn add(&mut self, head: &mut Option<Box<ReadAhead>>, rank: Rank, alone: bool, ahead: usize) {
        if head.is_none() && alone && self.held < self.room {
            *head = Some(Box::new(ReadAhead { ranks: VecDeque::new(), upto: END_RANK, read: 0 }));
            self.held += HEAD;
        }
        let Some(known) = head.as_deref_mut().filter(|head| rank <= head.upto) else { return };
        if let Err(at) = known.ranks.binary_search(&rank) {
            known.ranks.insert(at, rank);
            self.held += 1;
        }
        let (most, rest) = if self.are_half_full() { (FIRST_READ, FIRST_READ) } else { (2 * ahead, ahead) };
        if known.ranks.len() > most {
            self.held -= known.ranks.len() - rest;
            known.ranks.truncate(rest);
            known.upto = known.ranks.back().copied().unwrap_or(rank);
        }
        if self.held > self.room {
            self.forget(head);
        }
    }

    /// Removes and returns the first of the ranks in a head that may be dispatched.
    pub(crate) fn pop(&mut self, head: &mut Option<Box<ReadAhead>>, idle: &Offsets) -> Option<Rank> {
        while let Some(rank) = head.as_deref_mut().and_then(|head| head.ranks.pop_front()) {
            self.held -= 1;
            if idle.contains(rank.1) {
                if self.held > self.room {
                    self.forget(head);
                }
                return Some(rank);
            }
        }
        None
    }

    /// Returns the number of ranks to read next into a head.
    pub(crate) fn next_read(&self, head: Option<&ReadAhead>) -> usize {
        match head.map_or(0, |head| head.read) {
            0 if self.are_nearly_full() => SHORT_READ,
            0 => FIRST_READ,
            read if self.are_half_full() => read.min(FIRST_READ),
            read => 2 * read,
        }
    }

    fn are_half_full(&self) -> bool {
        self.held > self.room / 2
    }

    /// Returns `true` if a head may be dropped soon.
    pub(crate) fn are_nearly_full(&self) -> bool {
        self.held > self.room / 8 * 7
    }

    /// Adds the next `read` ranks of its queue to a head, or all if there are fewer.
    pub(crate) fn extend(&mut self, head: &mut Option<Box<ReadAhead>>, ranks: Vec<Rank>, read: usize) {
        let upto = if ranks.len() < read { END_RANK } else { ranks.last().copied().unwrap_or(END_RANK) };
        self.held += ranks.len();
        match head {
            Some(known) => {
                known.ranks.extend(ranks);
                (known.upto, known.read) = (upto, read);
            }
            None => {
                self.held += HEAD;
                *head = Some(Box::new(ReadAhead { ranks: ranks.into(), upto, read }));
            }
        }
    }

    /// Drops a head; it is read again when needed.
    pub(crate) fn forget(&mut self, head: &mut Option<Box<ReadAhead>>) {
        if let Some(head) = head.take() {
            self.held -= HEAD + head.ranks.len();
        }
    }
}
