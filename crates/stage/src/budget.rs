//! Limit on uncommitted work: records and bytes, with a low-water mark.

use std::collections::VecDeque;

use orbweaver_log::Offset;

/// Marks a released entry of [`Charges`].
const RELEASED: u32 = u32::MAX;
/// Released entries between charged ones are removed when they outnumber the charged ones by more than this.
const SWEEP_ABOVE: usize = 1024;

/// Low-water mark in percent of the limits: reading that paused at a limit resumes once both are at or below the mark, so
/// that a stage at its limit does not pause and resume for every record.
const LOW_WATER_PERCENT: usize = 70;

/// Limits on uncommitted work that is not parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of records.
    pub records: usize,
    /// Maximum bytes of keys, values and headers, in charged records and in plans that are not durable.
    pub bytes: usize,
}

/// Charges over all partitions.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    records: usize,
    bytes: usize,
    /// Bytes of records in plans that are not durable.
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

    /// Charges the records of a plan until it is durable.
    pub(crate) fn plan(&mut self, bytes: usize) {
        self.planned += bytes;
    }

    /// Releases the charge of a durable plan.
    pub(crate) fn durable(&mut self, bytes: usize) {
        debug_assert!(self.planned >= bytes, "more is durable than was planned");
        self.planned = self.planned.saturating_sub(bytes);
    }

    /// Returns `true` while reading has to pause: from reaching a limit until both are at or below low water.
    pub(crate) fn paused(&mut self) -> bool {
        let Limits { records, bytes } = self.limits;
        let low = |limit: usize| limit.saturating_mul(LOW_WATER_PERCENT) / 100;
        self.paused = if self.paused {
            self.records > low(records) || self.bytes() > low(bytes)
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

    /// Returns the used share of the limits, the larger of the two.
    pub(crate) fn used_ratio(&self) -> f64 {
        let share = |used: usize, limit: usize| used as f64 / limit as f64;
        share(self.records, self.limits.records).max(share(self.bytes(), self.limits.bytes))
    }
}

/// Charges of one topic-partition by offset. Records are charged in order and released in any order.
#[derive(Debug, Default)]
pub(crate) struct Charges {
    entries: VecDeque<(Offset, u32)>,
    live: usize,
}

impl Charges {
    /// Charges `offset`, which must be above all previously charged offsets. Returns the bytes to charge to the budget.
    pub(crate) fn charge(&mut self, offset: Offset, bytes: usize) -> usize {
        let bytes = u32::try_from(bytes).unwrap_or(RELEASED).min(RELEASED - 1);
        self.entries.push_back((offset, bytes));
        self.live += 1;
        bytes as usize
    }

    /// Releases `offset`. Returns its bytes, or `None` if it is not charged (parked or restored).
    pub(crate) fn release(&mut self, offset: Offset) -> Option<usize> {
        // Records mostly complete in order of delivery.
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

    pub(crate) fn lowest(&self) -> Option<Offset> {
        self.entries.front().map(|entry| entry.0)
    }

    /// Returns the number of charged records.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Returns the bytes of all charged records.
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
        let mut budget = Budget::new(Limits { records: 4, bytes: 1000 });
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
            let mut budget = Budget::new(Limits { records: 10, bytes: 10_000 });
            let mut charges = Charges::default();
            for (offset, &bytes) in sizes.iter().enumerate() {
                budget.charge(charges.charge(offset as u64 * 3, bytes));
            }
            prop_assert_eq!(charges.bytes(), budget.bytes());
            // A step without a common factor with the count visits every offset once, in a scattered order.
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
