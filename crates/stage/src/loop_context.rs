//! Constants of a running stage: its names, settings and connections.

use std::sync::Arc;

use orbweaver_log::{Log, Partition, TopicPartition};
use orbweaver_messages::Topic;
use tokio_util::sync::CancellationToken;

use crate::{Clock, RunnerConfig, RunnerStatus, StageError, metrics::ServiceMetrics};

pub(crate) struct LoopContext {
    pub(crate) service: &'static str,
    pub(crate) topics: &'static [Topic],
    pub(crate) partitions: Partition,
    pub(crate) group: Arc<str>,
    pub(crate) config: RunnerConfig,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: ServiceMetrics,
    pub(crate) pulse: Arc<RunnerStatus>,
    /// Cancelled by the request to shut down.
    pub(crate) shutdown: CancellationToken,
}

impl LoopContext {
    pub(crate) fn halted(&self, reason: String) -> StageError {
        StageError::Halted { service: self.service, reason }
    }

    /// Returns the topic-partition whose commit stores the crashes of a partition.
    pub(crate) fn first(&self, partition: Partition) -> TopicPartition {
        TopicPartition::new(self.topics[0], partition)
    }

    #[cfg(test)]
    pub(crate) fn tested(log: Arc<dyn Log>, topics: &'static [Topic]) -> Self {
        let metrics = crate::metrics::Metrics::register(&prometheus::Registry::new()).unwrap().service("tested");
        let (config, clock) = (RunnerConfig::default(), Arc::<crate::ScriptedClock>::default());
        let (partitions, group, pulse) = (1, "tested".into(), Arc::default());
        let (service, shutdown) = ("tested", CancellationToken::new());
        Self { service, topics, partitions, group, config, log, clock, metrics, pulse, shutdown }
    }
}
