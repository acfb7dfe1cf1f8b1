//! Reading of site queues from the index, ahead of their dispatches.

use std::ops::Bound;

use orbweaver_messages::Millis;

use super::{SiteQueue, SiteQueues, Source};
use crate::index::{IndexError, QueueKey, Rank};

/// Number of queues after one that is read, in the order of the index, that are read with it if they are to be read soon.
const NEIGHBOURS: usize = 16;
/// Time within which a queue may be dispatched from, in milliseconds, for it to be read with its neighbour.
const SOON_MS: Millis = 60_000;
/// Number of queues whose states are read together. A prime number, so that of several crawls that take turns each comes
/// first at times.
const TOGETHER: usize = 17;

impl SiteQueues {
    /// Reads the states of the next queues, without effect. With many sites they are in no cache of the processor, which
    /// waits for all of them at once, since none of them depends on another.
    pub(super) fn touch_next(&mut self) {
        if let Some(left) = self.touched.checked_sub(1) {
            self.touched = left;
            return;
        }
        self.touched = TOGETHER - 1;
        let mut next = [None; TOGETHER];
        for (next, id) in next.iter_mut().zip(self.ready.upcoming()) {
            *next = self.sites.get(id);
        }
        let state = |site: &SiteQueue| (site.seat.is_known(), site.head.as_ref().and_then(|head| head.first()));
        std::hint::black_box(next.into_iter().flatten().map(state).max());
    }

    /// Reads ranks of a queue ahead, and removes and returns the first of them that may be dispatched; there must be one.
    pub(super) fn read(&mut self, id: QueueKey, now: Millis, source: &mut Source<'_>) -> Result<Rank, IndexError> {
        let inconsistent = || IndexError::Inconsistent { site: id.0 };
        let mut from_start = false;
        loop {
            let site = self.sites.get(&id).ok_or_else(inconsistent)?;
            let rest = site.rest();
            if rest.is_none() && from_start {
                return Err(inconsistent());
            }
            // If all were read, the last ranks were skipped; URLs that have returned since are found from the start.
            from_start |= rest.is_none() || site.head.is_none();
            let count = self.heads.next_read(site.head.as_deref()).min(site.ahead(&self.terms));
            let mut queues = vec![(id, rest.unwrap_or(site.read_from))];
            if !self.heads.are_nearly_full() {
                let behind = self.order.range((Bound::Excluded(id), Bound::Unbounded)).take(NEIGHBOURS);
                queues.extend(behind.filter_map(|id| Some((*id, self.sites.get(id)?.read_soon(now)?))));
            }
            if rest.is_none()
                && let Some(site) = self.sites.get_mut(&id)
            {
                self.heads.forget(&mut site.head);
            }
            let read = source.index.queued(&queues, count)?;
            for ((id, _), ranks) in queues.into_iter().zip(read) {
                if let Some(site) = self.sites.get_mut(&id) {
                    self.heads.extend(&mut site.head, ranks, count);
                }
            }
            let site = self.sites.get_mut(&id).ok_or_else(inconsistent)?;
            if let Some(rank) = self.heads.pop(&mut site.head, source.idle) {
                return Ok(rank);
            }
        }
    }
}

impl SiteQueue {
    /// Returns the rank from which the queue is to be read; `None` if all of it was.
    fn rest(&self) -> Option<Rank> {
        self.head.as_ref().map_or(Some(self.read_from), |head| head.rest())
    }

    /// Returns that rank if few others are read ahead, and the queue is not paused for longer than [`SOON_MS`].
    fn read_soon(&self, now: Millis) -> Option<Rank> {
        let is_short = self.head.as_ref().is_none_or(|head| head.is_short());
        let is_paused = self.capped || self.resume_at_ms > now.saturating_add(SOON_MS);
        if is_short && self.queued > 0 && !is_paused { self.rest() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use orbweaver_messages::{FrontierUrl, UrlContext};
    use orbweaver_url::{CrawlName, Fingerprint};
    use proptest::prelude::*;

    use super::super::Next;
    use super::*;
    use crate::{
        index::{CrawlKey, Index, IndexEntry, MemoryIndex},
        offsets::Offsets,
        read_ahead::Heads,
    };

    #[derive(Debug, Clone, Copy)]
    enum Op {
        Queue(u64, u32),
        Dispatch,
        /// The dispatch of a URL ends, and the URL with it.
        End(prop::sample::Index),
        /// The dispatch of a URL ends, and it is queued again.
        Return(prop::sample::Index),
        /// A queued URL ends.
        Withdraw(prop::sample::Index),
    }

    fn op() -> impl Strategy<Value = Op> {
        let index = any::<prop::sample::Index>;
        prop_oneof![
            6 => (0..9u64, 0..4u32).prop_map(|(site, by_weight)| Op::Queue(site, by_weight)),
            4 => Just(Op::Dispatch),
            2 => index().prop_map(Op::End),
            2 => index().prop_map(Op::Return),
            1 => index().prop_map(Op::Withdraw),
        ]
    }

    struct World {
        queues: SiteQueues,
        index: MemoryIndex,
        idle: Offsets,
        entries: Vec<IndexEntry>,
        /// Ranks that may be dispatched, by queue.
        queued: BTreeMap<QueueKey, BTreeSet<Rank>>,
        in_flight: Vec<IndexEntry>,
    }

    impl World {
        fn new(room: usize) -> Self {
            let (queues, index) =
                (SiteQueues { heads: Heads::with_room(room), ..SiteQueues::new(0) }, MemoryIndex::default());
            let (idle, queued) = (Offsets::default(), BTreeMap::new());
            Self { queues, index, idle, entries: vec![], queued, in_flight: vec![] }
        }

        fn fingerprint(entry: &IndexEntry) -> Fingerprint {
            Fingerprint::of(&CrawlName::default(), &entry.offset.to_string())
        }

        fn queue(&mut self, site: u64, by_weight: u32) {
            let context = UrlContext::of_seed(CrawlName::default(), "http://a.test/".to_owned(), "a.test".into());
            let waiting = FrontierUrl::admitted(context, 1);
            let offset = self.entries.len() as u64;
            let site = QueueKey(site);
            let entry = IndexEntry { crawl: CrawlKey(0), site, by_weight, ..IndexEntry::of(&waiting, offset, 1) };
            self.entries.push(entry);
            self.index.replace(Self::fingerprint(&entry), None, Some((entry, &waiting)));
            self.idle.insert(offset);
            self.queues.admit(&entry);
            self.queues.enqueue(site, entry.rank(), 0);
            self.queued.entry(site).or_default().insert(entry.rank());
        }

        /// Dispatches a URL, which is the first of its queue.
        fn dispatch(&mut self) -> bool {
            let mut source = Source { index: &mut self.index, idle: &self.idle };
            let Some(Next { site, rank, .. }) = self.queues.next(1000, 0, &mut source).unwrap() else { return false };
            assert_eq!(self.queued.get_mut(&site).unwrap().pop_first(), Some(rank));
            self.idle.remove(rank.1);
            self.in_flight.push(self.entries[rank.1 as usize]);
            true
        }

        fn end_url(&mut self, entry: &IndexEntry) {
            self.index.replace(Self::fingerprint(entry), Some(*entry), None);
            self.queues.remove_url(entry.site, 0);
        }
    }

    proptest! {
        #[test]
        fn each_queue_is_dispatched_in_the_order_of_its_ranks_however_little_is_read_ahead(
            room in 0usize..200, ops in prop::collection::vec(op(), 0..400),
        ) {
            let mut world = World::new(room);
            for op in ops {
                let mut take = |at: prop::sample::Index| {
                    (!world.in_flight.is_empty()).then(|| world.in_flight.swap_remove(at.index(world.in_flight.len())))
                };
                match op {
                    Op::Queue(site, by_weight) => world.queue(site, by_weight),
                    Op::Dispatch => drop(world.dispatch()),
                    Op::End(at) => if let Some(entry) = take(at) {
                        world.queues.end(&entry, None, 0);
                        world.end_url(&entry);
                    },
                    Op::Return(at) => if let Some(entry) = take(at) {
                        world.queues.end(&entry, None, 0);
                        world.idle.insert(entry.offset);
                        world.queues.enqueue(entry.site, entry.rank(), 0);
                        world.queued.entry(entry.site).or_default().insert(entry.rank());
                    },
                    Op::Withdraw(at) if !world.entries.is_empty() => {
                        let entry = world.entries[at.index(world.entries.len())];
                        if world.queued.get_mut(&entry.site).is_some_and(|queue| queue.remove(&entry.rank())) {
                            world.idle.remove(entry.offset);
                            world.queues.withdraw(&entry);
                            world.end_url(&entry);
                        }
                    }
                    Op::Withdraw(_) => {}
                }
            }
            while world.dispatch() {}
            prop_assert_eq!(world.queued.values().map(BTreeSet::len).sum::<usize>(), 0);
            for entry in std::mem::take(&mut world.in_flight) {
                world.queues.end(&entry, None, 0);
                world.end_url(&entry);
            }
            prop_assert_eq!((world.queues.len(), world.queues.order.len(), world.queues.heads.held()), (0, 0, 0));
        }
    }
}
