//! How much may be uncommitted: records and bytes, with a low-water mark.

use std::collections::VecDeque;

use orbweaver_log::Offset;

/// Marks an entry of [`Charges`] that was released.
const RELEASED: u32 = u32::MAX;
/// Released entries between charged ones are swept out when they outnumber these and the charged ones.
const SWEEP_ABOVE: usize = 1024;

/// What may be uncommitted at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Records.
    pub records: usize,
    /// Bytes of keys, values and headers: of the records that are charged and of those in plans that are not durable.
    pub bytes: usize,
    /// In percent of the limits: what is paused at a limit is resumed when both have fallen below this mark, so that a
    /// stage at its limit does not pause and resume for each record.
    pub low_water_percent: u8,
}

/// What is charged over all partitions.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    records: usize,
    bytes: usize,
    /// Bytes of the records in plans that are not durable.
    planned: usize,
    paused: bool,
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, records: 0, bytes: 0, planned: 0, paused: false }
    }

    pub(crate) fn charge(&mut self, bytes: usize) {
        self.records += 1;
        self.bytes += bytes;
    }

    pub(crate) fn release(&mut self, records: usize, bytes: usize) {
        debug_assert!(self.records >= records && self.bytes >= bytes, "more is released than was charged");
        self.records = self.records.saturating_sub(records);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Charges what a plan produces, until it is durable.
    pub(crate) fn plan(&mut self, bytes: usize) {
        self.planned += bytes;
    }

    /// A plan is durable.
    pub(crate) fn durable(&mut self, bytes: usize) {
        debug_assert!(self.planned >= bytes, "more is durable than was planned");
        self.planned = self.planned.saturating_sub(bytes);
    }

    /// Whether reading has to pause now: from the limit on, until both are below low water.
    pub(crate) fn paused(&mut self) -> bool {
        let Limits { records, bytes, low_water_percent } = self.limits;
        let low = |limit: usize| limit as u128 * u128::from(low_water_percent) / 100;
        self.paused = if self.paused {
            self.records as u128 > low(records) || self.bytes() as u128 > low(bytes)
        } else {
            self.records >= records || self.bytes() >= bytes
        };
        self.paused
    }

    pub(crate) fn records(&self) -> usize {
        self.records
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.planned
    }

    /// The larger of the shares of the limits that are used.
    pub(crate) fn used_ratio(&self) -> f64 {
        let share = |used: usize, limit: usize| used as f64 / limit as f64;
        share(self.records, self.limits.records).max(share(self.bytes(), self.limits.bytes))
    }
}

/// What is charged for one partition of one topic, by offset. Records are charged in order and released in any.
#[derive(Debug, Default)]
pub(crate) struct Charges {
    entries: VecDeque<(Offset, u32)>,
    live: usize,
}

impl Charges {
    /// Charges `offset`, which must be above all charged before. Returns what to charge to the budget.
    pub(crate) fn charge(&mut self, offset: Offset, bytes: usize) -> usize {
        let bytes = u32::try_from(bytes).unwrap_or(RELEASED).min(RELEASED - 1);
        self.entries.push_back((offset, bytes));
        self.live += 1;
        bytes as usize
    }

    /// Releases `offset`; its bytes, or `None` when it is not charged (parked, or restored).
    pub(crate) fn release(&mut self, offset: Offset) -> Option<usize> {
        // Records mostly complete in the order in which they came.
        let index = match self.entries.front() {
            Some(front) if front.0 == offset => 0,
            _ => self.entries.binary_search_by_key(&offset, |entry| entry.0).ok()?,
        };
        let bytes = std::mem::replace(&mut self.entries[index].1, RELEASED);
        if bytes == RELEASED {
            return None;
        }
        self.live -= 1;
        while self.entries.front().is_some_and(|entry| entry.1 == RELEASED) {
            self.entries.pop_front();
        }
        if self.entries.len() - self.live > self.live + SWEEP_ABOVE {
            self.entries.retain(|entry| entry.1 != RELEASED);
        }
        Some(bytes as usize)
    }

    /// The lowest offset that is charged.
    pub(crate) fn lowest(&self) -> Option<Offset> {
        self.entries.front().map(|entry| entry.0)
    }

    /// How many records are charged.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// The bytes of all that is charged.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.iter().filter(|entry| entry.1 != RELEASED).map(|entry| entry.1 as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reading_pauses_at_the_limit_and_resumes_below_low_water() {
        let mut budget = Budget::new(Limits { records: 4, bytes: 1000, low_water_percent: 50 });
        (0..3).for_each(|_| budget.charge(10));
        assert!(!budget.paused());
        budget.charge(10);
        assert!(budget.paused());
        budget.release(1, 10);
        assert!(budget.paused(), "above low water it stays paused");
        budget.release(1, 10);
        assert!(!budget.paused());
        budget.charge(1000);
        assert!(budget.paused(), "bytes alone pause too");
        budget.release(1, 1000);
        assert!(!budget.paused());
        budget.plan(990);
        assert!(budget.paused(), "and so do plans that are not durable");
        budget.durable(990);
        assert!(!budget.paused());
    }

    #[test]
    fn one_slow_record_does_not_make_the_charges_grow_without_bound() {
        let mut charges = Charges::default();
        charges.charge(0, 1);
        for offset in 1..1_000_000 {
            charges.charge(offset, 1);
            assert_eq!(charges.release(offset), Some(1));
        }
        assert!(charges.entries.len() <= SWEEP_ABOVE + 3);
        assert_eq!(charges.release(0), Some(1));
        assert!(charges.entries.is_empty());
    }

    proptest! {
        #[test]
        fn every_charge_is_released_once_and_the_budget_returns_to_zero(
            sizes in prop::collection::vec(0usize..5000, 1..300),
            order in any::<prop::sample::Index>(),
        ) {
            let mut budget = Budget::new(Limits { records: 10, bytes: 10_000, low_water_percent: 50 });
            let mut charges = Charges::default();
            for (offset, &bytes) in sizes.iter().enumerate() {
                budget.charge(charges.charge(offset as u64 * 3, bytes));
            }
            prop_assert_eq!(charges.bytes(), budget.bytes());
            // A step that shares no factor with the count visits every offset once, in a scattered order.
            let step = (1..).map(|step| step + order.index(50)).find(|&step| gcd(step, sizes.len()) == 1).unwrap();
            for turn in 0..sizes.len() {
                let offset = (turn * step % sizes.len()) as u64 * 3;
                let bytes = charges.release(offset);
                prop_assert_eq!(bytes, Some(sizes[turn * step % sizes.len()]));
                prop_assert_eq!(charges.release(offset), None);
                budget.release(1, bytes.unwrap_or_default());
            }
            prop_assert_eq!((budget.records(), budget.bytes(), charges.live()), (0, 0, 0));
        }
    }

    fn gcd(a: usize, b: usize) -> usize {
        if b == 0 { a } else { gcd(b, a % b) }
    }
}
