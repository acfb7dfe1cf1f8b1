//! URLs that should have been admitted, and those that were.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use orbweaver_log::Partition;

use super::generate::{Plan, id_in};

/// URLs that should have been admitted, and those that were: exact, and independent of the service.
#[derive(Debug)]
pub(super) struct Truth {
    /// One bit per id, by partition: generated URLs carry their ids.
    passed: Vec<Vec<AtomicU64>>,
    /// Number of distinct URLs.
    pub(super) ids: u64,
    /// Repeats that were admitted, and URLs that were never generated.
    wrong: AtomicU64,
}

impl Truth {
    pub(super) fn of(plan: Plan) -> Self {
        let ids = (0..plan.partitions).map(|partition| plan.ids_of(partition));
        let bits = |ids: u64| (0..ids.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Self { passed: ids.clone().map(bits).collect(), ids: ids.sum(), wrong: AtomicU64::new(0) }
    }

    /// Registers the URL in the value of a `crawl.frontier` record as admitted.
    pub(super) fn passed(&self, value: &[u8]) {
        let is_first = id_in(value).and_then(|(partition, id)| self.mark(partition, id));
        if is_first != Some(true) {
            self.wrong.fetch_add(1, Relaxed);
        }
    }

    /// Marks an id. Returns whether it was not marked before, or `None` if there is no such id.
    fn mark(&self, partition: Partition, id: u64) -> Option<bool> {
        let word = self.passed.get(partition as usize)?.get(usize::try_from(id / 64).ok()?)?;
        let bit = 1 << (id % 64);
        Some(word.fetch_or(bit, Relaxed) & bit == 0)
    }

    /// Returns the number of new URLs that were never admitted.
    pub(super) fn lost(&self) -> u64 {
        let marks = self.passed.iter().flatten().map(|word| u64::from(word.load(Relaxed).count_ones()));
        self.ids - marks.sum::<u64>()
    }

    /// Returns the number of repeats that were admitted; URLs that were never generated count, too.
    pub(super) fn wrong(&self) -> u64 {
        self.wrong.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_pass_is_lost_and_what_passed_twice_is_counted() {
        let truth = Truth::of(Plan { urls: 10, new_ppm: 500_000, seed: 1, partitions: 1 });
        for id in [0, 1, 1, 3] {
            truth.passed(format!("{{\"url\":\"https://www.a.example/x/item-0-{id:x}.html\"}}").as_bytes());
        }
        truth.passed(b"{\"url\":\"https://www.a.example/\"}");
        assert_eq!((truth.ids, truth.lost(), truth.wrong()), (5, 2, 2));
    }
}
