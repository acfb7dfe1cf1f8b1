//! Rebalance events of a member.
//!
//! The callback runs within a poll and never waits. Assignments and revocations are only recorded, to be accepted or
//! released later; losses, and all partitions while the member is leaving, are released immediately.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use rdkafka::{
    ClientContext, TopicPartitionList,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer as _, ConsumerContext, RebalanceProtocol},
    error::{KafkaError, KafkaResult},
    types::RDKafkaRespErr,
};

use super::client::{log_error, log_line};

/// Rebalance event of a poll.
#[derive(Debug)]
pub(super) enum RebalanceSignal {
    /// Partitions to accept, unless a loss has occurred since; with the number of losses when they were assigned.
    Assigned(TopicPartitionList, u64),
    Revoked(TopicPartitionList),
    Lost(TopicPartitionList),
    /// Answering the brokers failed.
    Failed(KafkaError),
}

#[derive(Default)]
pub(super) struct RebalanceContext {
    signals: Mutex<Vec<RebalanceSignal>>,
    leaving: AtomicBool,
    /// Number of losses. Locked while partitions are accepted or released, so that these operations never overlap.
    losses: Mutex<u64>,
}

impl RebalanceContext {
    /// From now on, releases all partitions immediately.
    pub(super) fn leave(&self) {
        self.leaving.store(true, Ordering::Release);
    }

    pub(super) fn signals(&self) -> Vec<RebalanceSignal> {
        std::mem::take(&mut *self.signals.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn is_signalled(&self) -> bool {
        !self.signals.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Returns the number of losses so far.
    pub(super) fn count_losses(&self) -> u64 {
        *self.losses()
    }

    fn losses(&self) -> MutexGuard<'_, u64> {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self, signal: RebalanceSignal) {
        self.signals.lock().unwrap_or_else(PoisonError::into_inner).push(signal);
    }
}

impl ClientContext for RebalanceContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log_line(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        log_error(&error, reason);
    }
}

impl ConsumerContext for RebalanceContext {
    fn rebalance(&self, client: &BaseConsumer<Self>, what: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let (tps, none) = (list.clone(), list.count() == 0);
        let leaving = self.leaving.load(Ordering::Acquire);
        let given = what == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        let (answer, signal) = if given && leaving {
            (release_partitions(client, &tps), None)
        } else if given && none {
            (take(client, &tps), None)
        } else if given {
            (Ok(()), Some(RebalanceSignal::Assigned(tps, *self.losses())))
        } else if leaving || none || client.assignment_lost() {
            let mut losses = self.losses();
            *losses += 1;
            let lost = !none && !leaving;
            (release_partitions(client, &tps), lost.then_some(RebalanceSignal::Lost(tps)))
        } else {
            (Ok(()), Some(RebalanceSignal::Revoked(tps)))
        };
        if let Err(error) = answer {
            self.signal(RebalanceSignal::Failed(error));
        }
        if let Some(signal) = signal {
            self.signal(signal);
        }
    }
}

/// Accepts assigned partitions, unless they were lost since: then it does nothing, and the loss is signalled.
pub(super) fn assign_unless_lost(
    client: &BaseConsumer<RebalanceContext>,
    tps: &TopicPartitionList,
    losses: u64,
) -> KafkaResult<bool> {
    let now = client.context().losses();
    if *now != losses { Ok(false) } else { take(client, tps).map(|()| true) }
}

/// Accepts partitions, paused, at these positions, their log ends: the start position is set later by a seek, and nothing
/// is ever delivered from here. It must be an offset, and one within the log. Without an offset librdkafka queries the
/// commit, and rejects seeks until it arrives. The logical end is queried too: if the response arrives after a seek,
/// librdkafka queries again, and then moves the partition to the end (`rd_kafka_toppar_handle_Offset`). And an offset
/// outside the log may be fetched before the pause takes effect; librdkafka then abandons the partition for good
/// (`rd_kafka_offset_reset`).
fn take(client: &BaseConsumer<RebalanceContext>, tps: &TopicPartitionList) -> KafkaResult<()> {
    match client.rebalance_protocol() {
        RebalanceProtocol::Cooperative => client.incremental_assign(tps)?,
        _ => client.assign(tps)?,
    }
    if tps.count() == 0 { Ok(()) } else { client.pause(tps) }
}

/// Releases partitions; with the classic protocol, all of them.
pub(super) fn release_partitions(client: &BaseConsumer<RebalanceContext>, tps: &TopicPartitionList) -> KafkaResult<()> {
    match client.rebalance_protocol() {
        RebalanceProtocol::Cooperative => client.incremental_unassign(tps),
        _ => client.unassign(),
    }
}
