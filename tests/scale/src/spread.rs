//! Load by slot, partition and instance.

use orbweaver_url::{Slot, partition_of};

/// Loads relative to their mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub max: f64,
    pub p99: f64,
    pub min: f64,
}

impl Spread {
    /// Returns the spread of loads; all are 0 if there is no load.
    #[must_use]
    pub fn of(loads: &[u64]) -> Self {
        let sorted = relative(loads);
        let at = |share: f64| sorted.get((sorted.len() as f64 * share) as usize).or(sorted.last()).copied();
        Self { max: at(1.0).unwrap_or(0.0), p99: at(0.99).unwrap_or(0.0), min: at(0.0).unwrap_or(0.0) }
    }
}

/// Returns loads divided by their mean, in ascending order.
#[must_use]
pub fn relative(loads: &[u64]) -> Vec<f64> {
    let mean = loads.iter().sum::<u64>().max(1) as f64 / loads.len().max(1) as f64;
    let mut sorted: Vec<f64> = loads.iter().map(|&load| load as f64 / mean).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Returns the load of each partition.
#[must_use]
pub fn by_partition(slots: &[u64], partitions: u32) -> Vec<u64> {
    let owners: Vec<u32> = (0..slots.len()).map(|slot| partition_of(slot as Slot, partitions)).collect();
    by_owner(slots, &owners, partitions)
}

/// Returns the load of each of `count` owners.
#[must_use]
pub fn by_owner(loads: &[u64], owners: &[u32], count: u32) -> Vec<u64> {
    let mut sums = vec![0; count as usize];
    for (load, &owner) in loads.iter().zip(owners) {
        sums[owner as usize] += load;
    }
    sums
}
