//! URLs that should have been admitted, and those that were.

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use orbweaver_log::Partition;

use super::generate::{Plan, id_in};

/// URLs that should have been admitted, and those that were: exact, and independent of the service.
#[derive(Debug)]
pub(super) enum Truth {
    /// Generated URLs carry their ids: one bit per id.
    Generated { passed: Vec<Vec<AtomicU64>>, ids: u64, twice: AtomicU64, foreign: AtomicU64 },
    /// URLs of files, by canonical form, and whether each was admitted; 24 bytes each.
    OfFiles(Mutex<OfFiles>),
}

/// Expected and admitted URLs of files.
#[derive(Debug, Default)]
pub(super) struct OfFiles {
    passed: HashMap<Box<str>, bool>,
    twice: u64,
    foreign: u64,
}

/// Differences between the truth and the service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Distinct URLs.
    pub(super) distinct: u64,
    /// New URLs that were never admitted: lost.
    pub(super) false_positives: u64,
    /// Repeats that were admitted.
    pub(super) false_negatives: u64,
}

impl Truth {
    pub(super) fn of_plan(plan: Plan) -> Self {
        let bits = |partition| (0..plan.ids_of(partition).div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let ids = (0..plan.partitions).map(|partition| plan.ids_of(partition)).sum();
        let passed = (0..plan.partitions).map(bits).collect();
        Self::Generated { passed, ids, twice: AtomicU64::new(0), foreign: AtomicU64::new(0) }
    }

    pub(super) fn of_files() -> Self {
        Self::OfFiles(Mutex::default())
    }

    /// Registers a URL of a file as expected.
    pub(super) fn expect(&self, canonical: &str) {
        if let Self::OfFiles(files) = self {
            let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
            if !files.passed.contains_key(canonical) {
                files.passed.insert(canonical.into(), false);
            }
        }
    }

    /// Registers the URL in the value of a `crawl.frontier` record as admitted.
    pub(super) fn passed(&self, value: &[u8]) {
        match self {
            Self::Generated { passed, twice, foreign, .. } => {
                let known = id_in(value).and_then(|(partition, id)| mark(passed, partition, id));
                match known {
                    Some(false) => {}
                    Some(true) => drop(twice.fetch_add(1, Relaxed)),
                    None => drop(foreign.fetch_add(1, Relaxed)),
                }
            }
            Self::OfFiles(files) => {
                let waiting = serde_json::from_slice::<orbweaver_messages::FrontierUrl>(value).ok();
                let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
                let known = waiting.as_ref().and_then(|waiting| files.passed.get_mut(waiting.context.key()));
                match known.map(|passed| std::mem::replace(passed, true)) {
                    Some(false) => {}
                    Some(true) => files.twice += 1,
                    None => files.foreign += 1,
                }
            }
        }
    }

    /// Returns the result. URLs that were never generated count as wrongly admitted.
    pub(super) fn verdict(&self) -> Verdict {
        match self {
            Self::Generated { passed, ids, twice, foreign } => {
                let marks = passed.iter().flatten().map(|word| u64::from(word.load(Relaxed).count_ones()));
                Verdict {
                    distinct: *ids,
                    false_positives: ids - marks.sum::<u64>(),
                    false_negatives: twice.load(Relaxed) + foreign.load(Relaxed),
                }
            }
            Self::OfFiles(files) => {
                let files = files.lock().unwrap_or_else(PoisonError::into_inner);
                let lost = files.passed.values().filter(|passed| !**passed).count() as u64;
                Verdict {
                    distinct: files.passed.len() as u64,
                    false_positives: lost,
                    false_negatives: files.twice + files.foreign,
                }
            }
        }
    }
}

/// Marks an id. Returns whether it was marked before, or `None` if there is no such id.
fn mark(passed: &[Vec<AtomicU64>], partition: Partition, id: u64) -> Option<bool> {
    let word = passed.get(partition as usize)?.get(usize::try_from(id / 64).ok()?)?;
    let bit = 1 << (id % 64);
    Some(word.fetch_or(bit, Relaxed) & bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_pass_is_lost_and_what_passed_twice_is_counted() {
        let truth = Truth::of_plan(Plan { urls: 10, new_ppm: 500_000, seed: 1, partitions: 1 });
        for id in [0, 1, 1, 3] {
            truth.passed(format!("{{\"url\":\"https://www.a.example/x/item-0-{id:x}.html\"}}").as_bytes());
        }
        truth.passed(b"{\"url\":\"https://www.a.example/\"}");
        assert_eq!(truth.verdict(), Verdict { distinct: 5, false_positives: 2, false_negatives: 2 });
    }
}
