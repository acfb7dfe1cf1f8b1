//! What the brokers tell a member of its partitions.
//!
//! The callback runs within a poll, and never waits: what is given is taken at once, stopped; what is wanted back is only
//! noted, and handed back when the caller is through with it; what is lost, or wanted while we are leaving, is let go at once.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use rdkafka::{
    ClientContext, TopicPartitionList,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer as _, ConsumerContext, RebalanceProtocol},
    error::{KafkaError, KafkaResult},
    topic_partition_list::Offset as Position,
    types::RDKafkaRespErr,
};

use super::client::{log_error, log_line};

/// Partitions by the names of their topics on the brokers.
pub(super) type Raw = Vec<(String, i32)>;

/// What happened in a poll.
#[derive(Debug)]
pub(super) enum Signal {
    Assigned(Raw),
    Revoked(Raw),
    Lost(Raw),
    /// The answer to the brokers was refused.
    Failed(KafkaError),
}

#[derive(Default)]
pub(super) struct Membership {
    signals: Mutex<Vec<Signal>>,
    leaving: AtomicBool,
}

impl Membership {
    /// From now on everything is let go at once.
    pub(super) fn leave(&self) {
        self.leaving.store(true, Ordering::Release);
    }

    pub(super) fn signals(&self) -> Vec<Signal> {
        std::mem::take(&mut *self.signals.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn is_signalled(&self) -> bool {
        !self.signals.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn signal(&self, signal: Signal) {
        self.signals.lock().unwrap_or_else(PoisonError::into_inner).push(signal);
    }
}

impl ClientContext for Membership {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log_line(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        log_error(&error, reason);
    }
}

impl ConsumerContext for Membership {
    fn rebalance(&self, client: &BaseConsumer<Self>, what: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let places: Raw = list.elements().iter().map(|at| (at.topic().to_owned(), at.partition())).collect();
        let leaving = self.leaving.load(Ordering::Acquire);
        let given = what == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        let (answer, signal) = if given && leaving {
            (give_back(client, &places), None)
        } else if given {
            (take(client, &places), (!places.is_empty()).then_some(Signal::Assigned(places)))
        } else if leaving || places.is_empty() || client.assignment_lost() {
            let lost = !places.is_empty() && !leaving;
            (give_back(client, &places), lost.then_some(Signal::Lost(places)))
        } else {
            (Ok(()), Some(Signal::Revoked(places)))
        };
        if let Err(error) = answer {
            self.signal(Signal::Failed(error));
        }
        if let Some(signal) = signal {
            self.signal(signal);
        }
    }
}

/// Takes partitions, stopped: where they begin is said later, by a seek. The end only keeps librdkafka from asking for a
/// commit, without which a seek would have to wait, and unlike an offset it is always there to be fetched before the pause
/// counts; nothing is ever delivered from it.
fn take(client: &BaseConsumer<Membership>, places: &Raw) -> KafkaResult<()> {
    let mut list = TopicPartitionList::with_capacity(places.len());
    for (topic, partition) in places {
        list.add_partition_offset(topic, *partition, Position::End)?;
    }
    match client.rebalance_protocol() {
        RebalanceProtocol::Cooperative => client.incremental_assign(&list)?,
        _ => client.assign(&list)?,
    }
    if places.is_empty() { Ok(()) } else { client.pause(&list) }
}

/// Lets partitions go; with the classic protocol all there are.
pub(super) fn give_back(client: &BaseConsumer<Membership>, places: &Raw) -> KafkaResult<()> {
    match client.rebalance_protocol() {
        RebalanceProtocol::Cooperative => {
            let mut list = TopicPartitionList::with_capacity(places.len());
            for (topic, partition) in places {
                list.add_partition(topic, *partition);
            }
            client.incremental_unassign(&list)
        }
        _ => client.unassign(),
    }
}
