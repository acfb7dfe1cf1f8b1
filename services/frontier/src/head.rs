//! What is read ahead of the queues of sites.

use std::collections::VecDeque;

use orbweaver_log::Offset;

use crate::{
    index::{IndexError, Rank, SiteId},
    sites::Source,
};

/// Ranks that all heads together may hold, each of 16 bytes; a head itself counts for some.
const RANKS: usize = 65_536;
const HEAD: usize = 4;
/// Behind all ranks.
const END: Rank = (u16::MAX, Offset::MAX);

/// The next ranks of a site.
#[derive(Debug)]
pub(crate) struct Head {
    /// In order. Some may have ended meanwhile.
    ranks: VecDeque<Rank>,
    /// All that may be dispatched up to this rank, itself included, is in `ranks`.
    upto: Rank,
}

/// What is asked of the queue of a site.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query {
    pub(crate) site: SiteId,
    /// Nothing that could be dispatched stands before this rank.
    pub(crate) low: Rank,
    /// So many ranks are read at a time.
    pub(crate) ahead: usize,
}

/// How much all heads hold, and what is done with them.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    held: usize,
}

impl Heads {
    /// A URL of this rank may be dispatched from now on. `alone`: no other of its site may. Of a head that grows beyond
    /// twice `ahead` the rest is left to the index.
    pub(crate) fn add(&mut self, head: &mut Option<Box<Head>>, rank: Rank, alone: bool, ahead: usize) {
        if head.is_none() && alone && self.held < RANKS {
            *head = Some(Box::new(Head { ranks: VecDeque::new(), upto: END }));
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

    /// Takes the first URL that may be dispatched out of a head; there is one. The site's queue is read on as needed.
    pub(crate) fn pop(
        &mut self,
        head: &mut Option<Box<Head>>,
        query: Query,
        source: &mut Source<'_>,
    ) -> Result<Rank, IndexError> {
        let Query { site, low, ahead } = query;
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
            if read == Some(END) {
                if from_start {
                    return Err(IndexError::Inconsistent { site: site.0 });
                }
                // The last of it was passed over; what came back since is found from the start.
                from_start = true;
                self.forget(head);
                continue;
            }
            let from = read.map_or(low, |(depth, offset)| (depth, offset + 1));
            let ranks = source.index.queued(site, from, ahead)?;
            let upto = if ranks.len() < ahead { END } else { ranks.last().copied().unwrap_or(END) };
            let idle: VecDeque<Rank> = ranks.into_iter().filter(|rank| source.idle.contains(rank.1)).collect();
            self.forget(head);
            self.held += HEAD + idle.len();
            *head = Some(Box::new(Head { ranks: idle, upto }));
        }
    }

    /// Forgets a head; it is read again when it is needed.
    pub(crate) fn forget(&mut self, head: &mut Option<Box<Head>>) {
        if let Some(head) = head.take() {
            self.held -= HEAD + head.ranks.len();
        }
    }
}
