//! Page counts of each crawl: how many pages were fetched, and whether another one may be requested.
//!
//! Each frontier counts the outcomes `fetched` in its partitions by their offsets, so that a redelivered outcome counts
//! once. It periodically writes its counts to `crawl.control`, with the offset up to which it has counted: other
//! instances add them up, and the next owner of the partition continues from there. A page is counted where its outcome
//! is, regardless of what happens to its URL: the log determines the number, so every owner counts the same.
//!
//! A URL may be dispatched while the pages and leases of all partitions together are below the cap. The counts of other
//! instances are known as of their last record. So that the instances do not each use up the whole remainder, an
//! instance with a share of the partitions dispatches only that share of it before it writes its counts. Partitions that
//! are restored together add to its share once all of them are open: until then, pages that their last owner did not
//! write may be unknown. A cap of bytes leaves as many pages as of the mean size so far.

mod remainder;
mod writing;

use std::collections::{BTreeMap, BTreeSet};

use foldhash::HashMap;
use orbweaver_log::{Offset, Partition};
use orbweaver_messages::{Millis, Outcome, OutcomeKind, PageCount};
use orbweaver_url::CrawlName;

/// Part of an outcome that counts for the caps of its crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted<'a> {
    pub crawl: &'a CrawlName,
    /// 1 for a page that was found by the first visit.
    pub pages: u64,
    /// Decoded bytes of the body.
    pub bytes: u64,
}

impl<'a> Counted<'a> {
    /// Returns what counts of an outcome, if anything does.
    #[must_use]
    pub fn of(outcome: &'a Outcome) -> Option<Self> {
        let is_page = outcome.kind == OutcomeKind::Fetched && outcome.context.may_be_new_page();
        let counted = Self { pages: is_page.into(), bytes: outcome.bytes, crawl: &outcome.context.crawl };
        (counted.pages > 0 || counted.bytes > 0).then_some(counted)
    }
}

/// Count of a crawl in a partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    pages: u64,
    bytes: u64,
    leased: u64,
    /// Live URLs, leased ones included.
    live: u64,
    /// URLs that sleep until their next visit.
    asleep: u64,
}

impl Sum {
    fn all(self) -> u64 {
        self.pages.saturating_add(self.leased)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    now: Sum,
    /// The count in the last record.
    written: Sum,
    /// Owner epoch of that record.
    epoch: u64,
    /// That record may be missing, or may not be the last one in the log: the present or the next owner of the
    /// partition writes it again.
    unsure: bool,
    /// Outcomes below this offset are counted in `now`.
    upto: Offset,
    /// Outcomes below this offset are counted in `written`.
    written_upto: Offset,
    /// Whether the crawl is in [`Own::changed`].
    changed: bool,
}

#[derive(Debug, Default)]
struct Crawl {
    name: CrawlName,
    max: Option<u64>,
    max_bytes: Option<u64>,
    ends_at_ms: Option<Millis>,
    /// Whether that time has come.
    has_ended: bool,
    /// Whether the crawl is paused.
    paused: bool,
    /// Whether the crawl is deleted: nothing is written about it.
    deleted: bool,
    counts: BTreeMap<Partition, Count>,
    /// Sum over all partitions.
    sum: Sum,
    /// Sums over the partitions that are open here: pages and leases at present, and as last written.
    own: u64,
    own_written: u64,
    /// Number of changes of its counts so far, also of those to the same values.
    changes: u64,
}

impl Crawl {
    fn is_held(&self) -> bool {
        self.paused || self.has_ended
    }

    fn is_at_cap(&self) -> bool {
        let is_over = |max: Option<u64>, sum| max.is_some_and(|max| sum >= max);
        self.has_ended || is_over(self.max, self.sum.pages) || is_over(self.max_bytes, self.sum.bytes)
    }

    /// Sets the present count in a partition.
    fn set(&mut self, partition: Partition, is_own: bool, now: Sum) {
        let count = self.counts.entry(partition).or_default();
        let was = std::mem::replace(&mut count.now, now);
        self.changes += 1;
        self.sum.pages = self.sum.pages.saturating_add(now.pages).saturating_sub(was.pages);
        self.sum.bytes = self.sum.bytes.saturating_add(now.bytes).saturating_sub(was.bytes);
        self.sum.leased = self.sum.leased.saturating_add(now.leased).saturating_sub(was.leased);
        self.sum.live = self.sum.live.saturating_add(now.live).saturating_sub(was.live);
        self.sum.asleep = self.sum.asleep.saturating_add(now.asleep).saturating_sub(was.asleep);
        if is_own {
            self.own = self.own.saturating_add(now.all()).saturating_sub(was.all());
        }
    }
}

/// Partition that is being restored, or is open, here.
#[derive(Debug, Default)]
struct Own {
    /// Owner epoch, once the partition is open.
    epoch: Option<u64>,
    /// Whether the partition is part of [`PageCaps::share`].
    shares: bool,
    /// Offset of the next outcome to be counted.
    next: Offset,
    /// Offset below which all counts are in acknowledged records.
    since: Offset,
    /// Offset below which all counts are in records that are being written, if any are.
    in_flight: Option<Offset>,
    written_ms: Millis,
    /// Time of the last check for counts that are due.
    looked_ms: Millis,
    /// Crawls with changes to be written.
    changed: Vec<usize>,
    /// The present value of [`PageCount::held_at`], the one written last, and the crawl in whose record it was
    /// written.
    capped_at: Option<Offset>,
    written_held_at: Option<Offset>,
    held_by: Option<usize>,
}

/// Page counts of all crawls.
#[derive(Debug, Default)]
pub struct PageCaps {
    names: HashMap<CrawlName, usize>,
    crawls: Vec<Crawl>,
    own: BTreeMap<Partition, Own>,
    /// Partitions that are assigned to this instance and not open yet.
    restoring: BTreeSet<Partition>,
    /// Number of open partitions that give this instance its share of a remainder, and of all partitions.
    share: u64,
    partitions: u64,
    latest: HashMap<Partition, LatestCount>,
}

/// State of a partition according to its records in `crawl.control`, independent of the crawl.
#[derive(Debug, Clone, Copy, Default)]
struct LatestCount {
    /// Offset of the next record.
    next: Offset,
    /// Owner epoch of the latest writer.
    epoch: u64,
    /// Values from that writer; see [`PageCount::since`] and [`PageCount::held_at`].
    since: Offset,
    capped_at: Option<Offset>,
}

/// Counts of a crawl.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CrawlCounts {
    /// Fetched pages.
    pub pages: u64,
    /// Decoded bytes of their bodies, and of those of revisits.
    pub bytes: u64,
    /// Dispatches without an outcome.
    pub leased: u64,
    /// URLs in the frontier, leased ones included, without those that sleep.
    pub live: u64,
    /// URLs that sleep until their next visit.
    pub asleep: u64,
}

impl From<Sum> for CrawlCounts {
    fn from(Sum { pages, bytes, leased, live, asleep }: Sum) -> Self {
        Self { pages, bytes, leased, live, asleep }
    }
}

/// Progress of a crawl that has a page cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapStatus {
    /// Fetched pages, in all partitions.
    pub pages: u64,
    /// Dispatches without an outcome.
    pub leased: u64,
    /// The page cap.
    pub max: u64,
}

impl PageCaps {
    fn index(&mut self, crawl: &CrawlName) -> usize {
        if let Some(index) = self.names.get(crawl) {
            return *index;
        }
        self.crawls.push(Crawl { name: crawl.to_owned(), ..Crawl::default() });
        self.names.insert(crawl.to_owned(), self.crawls.len() - 1);
        self.crawls.len() - 1
    }

    fn crawl(&self, crawl: &CrawlName) -> Option<&Crawl> {
        self.names.get(crawl).and_then(|index| self.crawls.get(*index))
    }

    /// Sets the page cap of a crawl; `None` for no cap.
    pub fn limit(&mut self, crawl: &CrawlName, max: Option<u64>) {
        let index = self.index(crawl);
        self.crawls[index].max = max;
    }

    /// Sets the cap of bytes of a crawl, and its end; `None` for none.
    pub fn limit_further(&mut self, crawl: &CrawlName, max_bytes: Option<u64>, ends_at_ms: Option<Millis>) {
        let index = self.index(crawl);
        let crawl = &mut self.crawls[index];
        (crawl.max_bytes, crawl.ends_at_ms) = (max_bytes, ends_at_ms);
        crawl.has_ended &= ends_at_ms.is_some();
    }

    /// Ends the crawls whose time has come.
    pub fn pass(&mut self, now: Millis) {
        for crawl in &mut self.crawls {
            crawl.has_ended = crawl.ends_at_ms.is_some_and(|at| at <= now);
        }
    }

    /// Returns `true` if a crawl has reached one of its caps.
    #[must_use]
    pub fn is_at_cap(&self, crawl: &CrawlName) -> bool {
        self.crawl(crawl).is_some_and(Crawl::is_at_cap)
    }

    /// Returns `true` if any crawl has reached one of its caps.
    #[must_use]
    pub fn is_any_at_cap(&self) -> bool {
        self.crawls.iter().any(Crawl::is_at_cap)
    }

    /// Pauses or resumes a crawl.
    pub fn pause(&mut self, crawl: &CrawlName, paused: bool) {
        let index = self.index(crawl);
        self.crawls[index].paused = paused;
    }

    /// Notes that a crawl is deleted, so that no count of it is written any longer.
    pub fn delete(&mut self, crawl: &CrawlName) {
        let index = self.index(crawl);
        self.crawls[index].deleted = true;
    }

    /// Returns the counts of a crawl in all partitions, as far as they are known here.
    #[must_use]
    pub fn counts(&self, crawl: &CrawlName) -> CrawlCounts {
        self.crawl(crawl).map_or_else(CrawlCounts::default, |crawl| crawl.sum.into())
    }

    /// Returns the counts of a crawl in a partition that is open here.
    #[must_use]
    pub fn counts_in(&self, partition: Partition, crawl: &CrawlName) -> CrawlCounts {
        let count = self.crawl(crawl).and_then(|crawl| crawl.counts.get(&partition));
        count.map_or_else(CrawlCounts::default, |count| count.now.into())
    }

    /// Returns the number of changes of a crawl's counts that are known here, also of those to the same values; 0 if no URL of
    /// it was ever queued.
    #[must_use]
    pub fn changes(&self, crawl: &CrawlName) -> u64 {
        self.crawl(crawl).map_or(0, |crawl| crawl.changes)
    }

    /// Sets the numbers of live and of sleeping URLs of a crawl in a partition.
    pub fn set_live(&mut self, partition: Partition, crawl: &CrawlName, (live, asleep): (u64, u64)) {
        self.change(partition, crawl, |now| Sum { live, asleep, ..now });
    }

    /// Returns the number of pages of all crawls in all partitions, as far as it is known here.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.crawls.iter().fold(0, |sum, crawl| sum.saturating_add(crawl.sum.pages))
    }

    /// Returns the crawls that have a page cap, by name.
    pub fn capped(&self) -> impl Iterator<Item = (&CrawlName, CapStatus)> {
        let standing =
            |crawl: &Crawl| crawl.max.map(|max| CapStatus { pages: crawl.sum.pages, leased: crawl.sum.leased, max });
        let mut capped: Vec<_> = self.crawls.iter().filter_map(|crawl| Some((&crawl.name, standing(crawl)?))).collect();
        capped.sort_unstable_by_key(|(name, _)| *name);
        capped.into_iter()
    }

    /// Returns the offset of `crawl.frontier` up to which a partition is known to be blocked until a cap is raised or a
    /// crawl is resumed.
    #[must_use]
    pub fn capped_at(&self, partition: Partition) -> Option<Offset> {
        self.latest.get(&partition)?.capped_at
    }

    /// Applies a record of `crawl.control` at this offset of its partition. A record that was applied before is
    /// ignored.
    pub fn apply(&mut self, offset: Offset, record: &PageCount) {
        let partition = record.partition;
        let latest = self.latest.entry(partition).or_default();
        if offset < latest.next {
            return;
        }
        latest.next = offset + 1;
        if record.epoch >= latest.epoch {
            (latest.epoch, latest.since, latest.capped_at) = (record.epoch, record.since, record.held_at);
        }
        let index = self.index(&record.crawl);
        let own = self.own.get_mut(&partition);
        let served_as = own.as_ref().and_then(|own| own.epoch);
        let count = self.crawls[index].counts.entry(partition).or_default();
        if served_as == Some(record.epoch) && record.epoch >= count.epoch {
            return;
        }
        if record.epoch < count.epoch || served_as.is_some_and(|epoch| record.epoch < epoch) {
            // From a former owner that resumed, possibly this process: the last record in the log has to be that of the
            // present owner, or of the next.
            count.unsure = true;
            if let Some(own) = own.filter(|own| own.epoch.is_some()) {
                change(own, count, index);
            }
            return;
        }
        let PageCount { pages, bytes, leased, live, asleep, .. } = *record;
        let said = Sum { pages, bytes, leased, live, asleep };
        let was = std::mem::replace(&mut count.written, said);
        (count.epoch, count.written_upto, count.unsure) = (record.epoch, record.upto, false);
        if served_as.is_some() {
            // Another process owns the partition by now; this one will be notified.
            let crawl = &mut self.crawls[index];
            crawl.own_written = crawl.own_written.saturating_add(said.all()).saturating_sub(was.all());
        } else if own.is_none() || record.upto > count.upto {
            // Every count is the one that the log determines up to some offset: the count with the higher offset is
            // more recent.
            count.upto = record.upto;
            self.crawls[index].set(partition, false, said);
        }
    }

    /// Returns the offset up to which a partition is counted according to `crawl.control`; counting resumes there.
    #[must_use]
    pub fn counted_upto(&self, partition: Partition) -> Offset {
        self.latest.get(&partition).map_or(0, |latest| latest.since)
    }

    fn own(&mut self, partition: Partition) -> &mut Own {
        let latest = &self.latest;
        self.own.entry(partition).or_insert_with(|| {
            let since = latest.get(&partition).map_or(0, |latest| latest.since);
            Own { next: since, since, ..Own::default() }
        })
    }

    /// Counts an outcome of a partition, in order. An outcome that was counted before is ignored.
    pub fn outcome(&mut self, partition: Partition, offset: Offset, counted: Option<Counted<'_>>) {
        let next = &mut self.own(partition).next;
        if offset < *next {
            return;
        }
        *next = offset + 1;
        let Some(Counted { crawl, pages, bytes }) = counted else { return };
        let index = self.index(crawl);
        let Some(own) = self.own.get_mut(&partition) else { return };
        let crawl = &mut self.crawls[index];
        let count = crawl.counts.entry(partition).or_default();
        if offset < count.upto {
            return;
        }
        count.upto = offset + 1;
        change(own, count, index);
        let (pages, bytes) = (count.now.pages.saturating_add(pages), count.now.bytes.saturating_add(bytes));
        let now = Sum { pages, bytes, ..count.now };
        crawl.set(partition, own.epoch.is_some(), now);
    }

    /// Opens a partition under the owner epoch `epoch`; `partitions` is their total number. Leases are counted from
    /// here on.
    pub fn serve(&mut self, partition: Partition, epoch: u64, partitions: Partition) {
        self.own(partition).epoch = Some(epoch);
        self.restoring.remove(&partition);
        self.partitions = partitions.into();
        self.update_share();
        let Some(own) = self.own.get_mut(&partition) else { return };
        for (index, crawl) in self.crawls.iter_mut().enumerate() {
            let Some(count) = crawl.counts.get_mut(&partition) else { continue };
            crawl.own = crawl.own.saturating_add(count.now.all());
            crawl.own_written = crawl.own_written.saturating_add(count.written.all());
            let now = Sum { leased: 0, live: 0, asleep: 0, ..count.now };
            if now != count.written || count.unsure {
                change(own, count, index);
            }
            crawl.set(partition, true, now);
        }
    }

    /// Closes a partition: from now on, its count is the one in `crawl.control`.
    pub fn leave(&mut self, partition: Partition) {
        self.restoring.remove(&partition);
        let own = self.own.remove(&partition);
        self.update_share();
        let Some(own) = own else { return };
        let served = own.epoch.is_some();
        for crawl in &mut self.crawls {
            let Some(count) = crawl.counts.get_mut(&partition) else { continue };
            (count.upto, count.changed) = (count.written_upto, false);
            count.unsure |= own.in_flight.is_some() && Some(count.epoch) == own.epoch;
            let (now, written) = (count.now, count.written);
            if served {
                crawl.own = crawl.own.saturating_sub(now.all());
                crawl.own_written = crawl.own_written.saturating_sub(written.all());
            }
            crawl.set(partition, false, written);
        }
    }

    /// Adds a lease.
    pub fn add_lease(&mut self, partition: Partition, crawl: &CrawlName) {
        self.change_leases(partition, crawl, 1);
    }

    /// Removes a lease.
    pub fn remove_lease(&mut self, partition: Partition, crawl: &CrawlName) {
        self.change_leases(partition, crawl, -1);
    }

    fn change_leases(&mut self, partition: Partition, crawl: &CrawlName, by: i64) {
        self.change(partition, crawl, |now| Sum { leased: now.leased.saturating_add_signed(by), ..now });
    }

    fn change(&mut self, partition: Partition, crawl: &CrawlName, change_sum: impl Fn(Sum) -> Sum) {
        let index = self.index(crawl);
        let Some(own) = self.own.get_mut(&partition) else { return };
        let crawl = &mut self.crawls[index];
        let count = crawl.counts.entry(partition).or_default();
        change(own, count, index);
        let now = change_sum(count.now);
        crawl.set(partition, true, now);
    }
}

/// Marks the count of a crawl as changed.
fn change(own: &mut Own, count: &mut Count, index: usize) {
    if !std::mem::replace(&mut count.changed, true) {
        own.changed.push(index);
    }
}
