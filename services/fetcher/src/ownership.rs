//! The partitions that this fetcher owns, and until when it certainly does (docs/protocol.md#fenced-requests): pure.

use std::collections::HashMap;

use orbweaver_log::Partition;
use orbweaver_messages::Millis;
use orbweaver_stage::PartitionContext;

/// Time between two calls from which the process counts as suspended, in milliseconds. The stage is called every
/// second.
const SUSPENDED_MS: Millis = 10_000;

#[derive(Debug)]
pub(crate) struct Ownership {
    /// Number of partitions of the pipeline.
    pub(crate) partitions: Partition,
    /// Open partitions, and the times of their opening.
    opened: HashMap<Partition, Millis>,
    /// Time until which the partitions are certainly owned: no request is sent later.
    pub(crate) until_ms: Millis,
    called_ms: Option<Millis>,
}

impl Ownership {
    pub(crate) fn new() -> Self {
        Self { partitions: 1, opened: HashMap::new(), until_ms: Millis::MIN, called_ms: None }
    }

    pub(crate) fn open(&mut self, opening: PartitionContext, now: Millis) {
        self.partitions = opening.partitions;
        self.opened.insert(opening.partition, now);
    }

    pub(crate) fn leave(&mut self, partition: Partition) {
        self.opened.remove(&partition);
    }

    /// Returns the number of open partitions, and that of all.
    pub(crate) fn part(&self) -> (usize, usize) {
        (self.opened.len(), usize::try_from(self.partitions).unwrap_or(1))
    }

    /// Returns `true` while records of a partition are processed.
    pub(crate) fn is_open(&self, partition: Partition) -> bool {
        self.opened.contains_key(&partition)
    }

    /// Returns the time at which an unknown site counts as requested: when its partition was opened; for a site
    /// without a known partition (the target of a redirected robots.txt), when the last one was opened.
    pub(crate) fn asked_ms(&self, partition: Option<Partition>) -> Millis {
        let opened = partition.and_then(|partition| self.opened.get(&partition)).copied();
        opened.or_else(|| self.opened.values().max().copied()).unwrap_or(Millis::MIN)
    }

    /// Returns `true` while requests may be sent.
    pub(crate) fn is_certain(&self, now: Millis) -> bool {
        now <= self.until_ms
    }

    /// Notes a call of the stage; `true` if the process was suspended before it.
    pub(crate) fn was_suspended(&mut self, now: Millis) -> bool {
        self.called_ms.replace(now).is_some_and(|called| now.saturating_sub(called) > SUSPENDED_MS)
    }
}
