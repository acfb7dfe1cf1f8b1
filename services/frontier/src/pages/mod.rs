//! The pages of each crawl: how many were fetched, and whether one more may be asked for.
//!
//! Each frontier counts the outcomes `fetched` in its partitions by their offsets, so that what is delivered again counts
//! once. What it counted goes to `crawl.control` now and then, with the offset up to which it counted: the others add it up,
//! and the next owner of the partition goes on from there. A page is counted where its outcome is, whatever became of its URL:
//! the number is what the log says, and any owner counts the same.
//!
//! A dispatch may be made while the pages of all partitions, and what is on its way in them, stay below the cap. What others do
//! is known as of their last record. So that not each of them uses all that is left, one that holds a part of the
//! partitions dispatches only that part of it before it says so.

mod writing;

use std::collections::{BTreeMap, HashMap};

use orbweaver_log::{Offset, Partition};
use orbweaver_messages::{Millis, PageCount};

/// What is known of a crawl in a partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    pages: u64,
    leased: u64,
}

impl Sum {
    fn all(self) -> u64 {
        self.pages.saturating_add(self.leased)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    now: Sum,
    /// As the last record says.
    written: Sum,
    /// Whose record that is.
    epoch: u64,
    /// It may not be the last of the log, or not be there: whoever serves the partition, or serves it next, writes it again.
    unsure: bool,
    /// Outcomes below this offset are in `now`.
    upto: Offset,
    /// The same of `written`.
    written_upto: Offset,
    /// Named in [`Own::changed`].
    changed: bool,
}

#[derive(Debug, Default)]
struct Crawl {
    name: String,
    max: Option<u64>,
    counts: BTreeMap<Partition, Count>,
    /// Over all partitions.
    sum: Sum,
    /// Over the partitions that are served here: pages and leases now, and as they were written last.
    own: u64,
    own_written: u64,
}

impl Crawl {
    fn left(&self) -> Option<u64> {
        self.max.map(|max| max.saturating_sub(self.sum.all()))
    }

    /// Changes what counts in a partition, and gives back what did before.
    fn set(&mut self, partition: Partition, is_own: bool, now: Sum) -> Sum {
        let count = self.counts.entry(partition).or_default();
        let was = std::mem::replace(&mut count.now, now);
        self.sum.pages = self.sum.pages.saturating_add(now.pages).saturating_sub(was.pages);
        self.sum.leased = self.sum.leased.saturating_add(now.leased).saturating_sub(was.leased);
        if is_own {
            self.own = self.own.saturating_add(now.all()).saturating_sub(was.all());
        }
        was
    }
}

/// A partition that is restored, or served, here.
#[derive(Debug, Default)]
struct Own {
    /// Its claim, once it is served.
    epoch: Option<u64>,
    /// The next outcome to be counted.
    next: Offset,
    /// All that was to be counted below stands in acknowledged records.
    since: Offset,
    /// Records are on their way that say all below this offset.
    in_air: Option<Offset>,
    written_ms: Millis,
    /// When it was looked at last whether something is to be written.
    looked_ms: Millis,
    /// Crawls of which something is to be written.
    changed: Vec<usize>,
    /// See [`PageCount::held_at`]; and as it was written last, in the record of which crawl.
    held_at: Option<Offset>,
    written_held_at: Option<Offset>,
    held_by: Option<usize>,
}

/// The pages of all crawls.
#[derive(Debug, Default)]
pub struct Pages {
    names: HashMap<String, usize>,
    crawls: Vec<Crawl>,
    own: BTreeMap<Partition, Own>,
    /// Pages of all crawls, in all partitions.
    pages: u64,
    /// How many partitions are served here, and how many there are.
    served: u64,
    partitions: u64,
    heard: HashMap<Partition, Heard>,
}

/// What the records of a partition in `crawl.control` say of it alone.
#[derive(Debug, Clone, Copy, Default)]
struct Heard {
    /// The offset of the next record.
    next: Offset,
    /// The latest writer.
    epoch: u64,
    /// By that writer, see [`PageCount::since`] and [`PageCount::held_at`].
    since: Offset,
    held_at: Option<Offset>,
}

/// How far a crawl that has a cap is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Pages that were fetched, in all partitions.
    pub pages: u64,
    /// Dispatches without an outcome.
    pub leased: u64,
    /// The cap.
    pub max: u64,
}

impl Pages {
    fn index(&mut self, crawl: &str) -> usize {
        if let Some(index) = self.names.get(crawl) {
            return *index;
        }
        self.crawls.push(Crawl { name: crawl.to_owned(), ..Crawl::default() });
        self.names.insert(crawl.to_owned(), self.crawls.len() - 1);
        self.crawls.len() - 1
    }

    fn crawl(&self, crawl: &str) -> Option<&Crawl> {
        self.names.get(crawl).and_then(|index| self.crawls.get(*index))
    }

    /// The cap of a crawl is this from now on; `None`: none.
    pub fn limit(&mut self, crawl: &str, max: Option<u64>) {
        let index = self.index(crawl);
        self.crawls[index].max = max;
    }

    /// How many more pages of a crawl may be asked for now. More may be left of its cap, when others may ask for them, too.
    #[must_use]
    pub fn slack(&self, crawl: &str) -> u64 {
        let Some(crawl) = self.crawl(crawl) else { return u64::MAX };
        let Some(left) = crawl.left() else { return u64::MAX };
        if self.served >= self.partitions {
            return left;
        }
        let spent = crawl.own.saturating_sub(crawl.own_written);
        let then = u128::from(left) + u128::from(spent);
        let share = (then * u128::from(self.served)).div_ceil(u128::from(self.partitions));
        left.min(u64::try_from(share).unwrap_or(u64::MAX).saturating_sub(spent))
    }

    /// Pages of all crawls, in all partitions, as far as is known here.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.pages
    }

    /// The crawls that have a cap, by name.
    pub fn capped(&self) -> impl Iterator<Item = (&str, Standing)> {
        let standing =
            |crawl: &Crawl| crawl.max.map(|max| Standing { pages: crawl.sum.pages, leased: crawl.sum.leased, max });
        let mut capped: Vec<_> =
            self.crawls.iter().filter_map(|crawl| Some((&*crawl.name, standing(crawl)?))).collect();
        capped.sort_unstable_by_key(|(name, _)| *name);
        capped.into_iter()
    }

    /// Up to which offset of `crawl.frontier` it is known of a partition that nothing in it can move but by raising a cap.
    #[must_use]
    pub fn held_at(&self, partition: Partition) -> Option<Offset> {
        self.heard.get(&partition)?.held_at
    }

    /// A record of `crawl.control`, at this offset of its partition. A log that is read again is known.
    pub fn hear(&mut self, offset: Offset, record: &PageCount) {
        let partition = record.partition;
        let heard = self.heard.entry(partition).or_default();
        if offset < heard.next {
            return;
        }
        heard.next = offset + 1;
        if record.epoch >= heard.epoch {
            (heard.epoch, heard.since, heard.held_at) = (record.epoch, record.since, record.held_at);
        }
        let index = self.index(&record.crawl);
        let own = self.own.get_mut(&partition);
        let served_as = own.as_ref().and_then(|own| own.epoch);
        let count = self.crawls[index].counts.entry(partition).or_default();
        if served_as == Some(record.epoch) {
            return;
        }
        if record.epoch < count.epoch || served_as.is_some_and(|epoch| record.epoch < epoch) {
            // Of an owner that woke up: the last record of the log is to be the one of the present owner, or of the next.
            count.unsure = true;
            if let Some(own) = own.filter(|own| own.epoch.is_some()) {
                change(own, count, index);
            }
            return;
        }
        let said = Sum { pages: record.pages, leased: record.leased };
        let was = std::mem::replace(&mut count.written, said);
        (count.epoch, count.written_upto, count.unsure) = (record.epoch, record.upto, false);
        if served_as.is_some() {
            // Somebody else has it by now, which we shall hear.
            let crawl = &mut self.crawls[index];
            crawl.own_written = crawl.own_written.saturating_add(said.all()).saturating_sub(was.all());
        } else if own.is_none() || record.upto > count.upto {
            // What is counted is what the log says up to an offset: whoever counted further knows more.
            count.upto = record.upto;
            let was = self.crawls[index].set(partition, false, said);
            self.pages = self.pages.saturating_add(said.pages).saturating_sub(was.pages);
        }
    }

    /// Up to where a partition was counted, by what was read of `crawl.control`: counting goes on there.
    #[must_use]
    pub fn counted_upto(&self, partition: Partition) -> Offset {
        self.heard.get(&partition).map_or(0, |heard| heard.since)
    }

    fn own(&mut self, partition: Partition) -> &mut Own {
        let heard = &self.heard;
        self.own.entry(partition).or_insert_with(|| {
            let since = heard.get(&partition).map_or(0, |heard| heard.since);
            Own { next: since, since, ..Own::default() }
        })
    }

    /// An outcome of a partition, in order; of this crawl if it is a page. What was counted before is passed over.
    pub fn outcome(&mut self, partition: Partition, offset: Offset, page_of: Option<&str>) {
        let next = &mut self.own(partition).next;
        if offset < *next {
            return;
        }
        *next = offset + 1;
        let Some(crawl) = page_of else { return };
        let index = self.index(crawl);
        let Some(own) = self.own.get_mut(&partition) else { return };
        let crawl = &mut self.crawls[index];
        let count = crawl.counts.entry(partition).or_default();
        if offset < count.upto {
            return;
        }
        count.upto = offset + 1;
        change(own, count, index);
        let now = Sum { pages: count.now.pages.saturating_add(1), ..count.now };
        crawl.set(partition, own.epoch.is_some(), now);
        self.pages = self.pages.saturating_add(1);
    }

    /// A partition is served from now on, under this claim, of so many. Leases are counted from here on.
    pub fn serve(&mut self, partition: Partition, epoch: u64, partitions: Partition) {
        self.own(partition).epoch = Some(epoch);
        (self.served, self.partitions) = (self.served + 1, partitions.into());
        let Some(own) = self.own.get_mut(&partition) else { return };
        for (index, crawl) in self.crawls.iter_mut().enumerate() {
            let Some(count) = crawl.counts.get_mut(&partition) else { continue };
            crawl.own = crawl.own.saturating_add(count.now.all());
            crawl.own_written = crawl.own_written.saturating_add(count.written.all());
            let now = Sum { leased: 0, ..count.now };
            if now != count.written || count.unsure {
                change(own, count, index);
            }
            crawl.set(partition, true, now);
        }
    }

    /// A partition is not served any more: of it counts what stands in `crawl.control`.
    pub fn leave(&mut self, partition: Partition) {
        let Some(own) = self.own.remove(&partition) else { return };
        let served = own.epoch.is_some();
        self.served -= u64::from(served);
        for crawl in &mut self.crawls {
            let Some(count) = crawl.counts.get_mut(&partition) else { continue };
            (count.upto, count.changed) = (count.written_upto, false);
            count.unsure |= own.in_air.is_some() && Some(count.epoch) == own.epoch;
            let (now, written) = (count.now, count.written);
            if served {
                crawl.own = crawl.own.saturating_sub(now.all());
                crawl.own_written = crawl.own_written.saturating_sub(written.all());
            }
            crawl.set(partition, false, written);
            self.pages = self.pages.saturating_add(written.pages).saturating_sub(now.pages);
        }
    }

    /// A page is on its way.
    pub fn lease(&mut self, partition: Partition, crawl: &str) {
        self.leased(partition, crawl, |leased| leased.saturating_add(1));
    }

    /// It is not any more.
    pub fn release(&mut self, partition: Partition, crawl: &str) {
        self.leased(partition, crawl, |leased| leased.saturating_sub(1));
    }

    fn leased(&mut self, partition: Partition, crawl: &str, change_to: impl FnOnce(u64) -> u64) {
        let index = self.index(crawl);
        let Some(own) = self.own.get_mut(&partition) else { return };
        let crawl = &mut self.crawls[index];
        let count = crawl.counts.entry(partition).or_default();
        change(own, count, index);
        let now = Sum { leased: change_to(count.now.leased), ..count.now };
        crawl.set(partition, true, now);
    }
}

/// Something of a crawl is to be written.
fn change(own: &mut Own, count: &mut Count, index: usize) {
    if !std::mem::replace(&mut count.changed, true) {
        own.changed.push(index);
    }
}
