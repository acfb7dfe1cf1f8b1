//! Writes of page counts to `crawl.control`: their timing and their content.

use orbweaver_log::{Offset, Partition};
use orbweaver_messages::{Millis, PageCount};
use orbweaver_url::CrawlName;

use super::{Count, Own, PageCaps, Sum, change};

/// Minimum time between two writes of a partition, in milliseconds: other instances do not know the pages of this time.
const SHORT_MS: Millis = 1_000;
/// Maximum time between two writes when no instance needs the count soon. Far below a lease, for which outcomes are
/// retained, so the next owner finds them.
const LONG_MS: Millis = 30_000;
/// A count is written soon if its unwritten part times this factor reaches the remainder up to the cap; the number of
/// records thus follows the logarithm of the cap.
const CLOSE: u64 = 16;

impl PageCaps {
    /// Notes that the partition is blocked until some crawl's cap is raised or it is resumed, one of which is given; see
    /// `PageCount::held_at`. `None` if it is not blocked.
    pub fn hold(&mut self, partition: Partition, capped_at: Option<(Offset, &CrawlName)>) {
        // Meanwhile this instance has no share of the remainder, or a smaller one.
        let capped_at = capped_at.filter(|_| self.restoring.is_empty());
        let by = capped_at.map(|(_, crawl)| self.index(crawl));
        let Some(own) = self.own.get_mut(&partition) else { return };
        own.capped_at = capped_at.map(|(offset, _)| offset);
        own.held_by = by.or(own.held_by);
        if own.capped_at != own.written_held_at
            && let Some(index) = own.held_by
            && let Some(crawl) = self.crawls.get_mut(index)
        {
            change(own, crawl.counts.entry(partition).or_default(), index);
        }
    }

    /// Returns the records to be written for a partition now. Returns no more until [`PageCaps::settled`] or
    /// [`PageCaps::refused`], and none after a record of a later owner.
    pub fn write(&mut self, partition: Partition, now: Millis) -> Vec<PageCount> {
        let Some(own) = self.own.get_mut(&partition).filter(|own| own.in_flight.is_none()) else { return vec![] };
        // If the clock was set back, a write counts as late, here and below.
        if own.changed.is_empty() || (0..SHORT_MS).contains(&now.saturating_sub(own.looked_ms)) {
            return vec![];
        }
        own.looked_ms = now;
        let Some(own) = self.own.get(&partition).filter(|own| self.is_due(partition, own, now)) else { return vec![] };
        let later = self.latest.get(&partition).map_or(0, |latest| latest.epoch);
        let Some(epoch) = own.epoch.filter(|&epoch| epoch >= later) else { return vec![] };
        let Some(own) = self.own.get_mut(&partition) else { return vec![] };
        (own.in_flight, own.written_ms, own.written_held_at) = (Some(own.next), now, own.capped_at);
        let (next, since, capped_at) = (own.next, own.since, own.capped_at);
        let mut records = vec![];
        for index in std::mem::take(&mut own.changed) {
            let crawl = &mut self.crawls[index];
            let Some(count) = crawl.counts.get_mut(&partition) else { continue };
            crawl.own_written = crawl.own_written.saturating_add(count.now.all()).saturating_sub(count.written.all());
            (count.changed, count.unsure) = (false, false);
            (count.written, count.epoch) = (count.now, epoch);
            (count.upto, count.written_upto) = (next, next);
            if crawl.deleted {
                continue;
            }
            records.push(PageCount {
                crawl: crawl.name.clone(),
                partition,
                epoch,
                pages: count.now.pages,
                bytes: count.now.bytes,
                leased: count.now.leased,
                live: count.now.live,
                asleep: count.now.asleep,
                upto: next,
                since,
                held_at: capped_at,
            });
        }
        records
    }

    /// Notes that the result of [`PageCaps::write`] is durable, if the partition is still open under that owner epoch.
    pub fn settled(&mut self, partition: Partition, epoch: u64) {
        if let Some(own) = self.own.get_mut(&partition).filter(|own| own.epoch == Some(epoch))
            && let Some(upto) = own.in_flight.take()
        {
            own.since = upto;
        }
    }

    /// Notes that the log rejected the result of [`PageCaps::write`]: the next change is written with everything
    /// counted until then.
    pub fn refused(&mut self, partition: Partition, epoch: u64) {
        if let Some(own) = self.own.get_mut(&partition).filter(|own| own.epoch == Some(epoch)) {
            own.in_flight = None;
        }
    }

    fn is_due(&self, partition: Partition, own: &Own, now: Millis) -> bool {
        !(0..LONG_MS).contains(&now.saturating_sub(own.written_ms))
            || own.capped_at != own.written_held_at
            || own.changed.iter().any(|index| self.is_close(partition, *index))
    }

    /// Returns `true` if other instances need the page count of a crawl in a partition soon. They never need the number of
    /// its live URLs, which also changes at the cap.
    fn is_close(&self, partition: Partition, crawl: usize) -> bool {
        let Some(crawl) = self.crawls.get(crawl) else { return false };
        let known = |sum: Sum| (sum.pages, sum.leased);
        let changes = |count: &Count| count.unsure || known(count.now) != known(count.written);
        let unknown = crawl.own.abs_diff(crawl.own_written);
        crawl.counts.get(&partition).is_some_and(changes)
            && crawl.left().is_some_and(|left| unknown.saturating_mul(CLOSE) >= left)
    }
}
