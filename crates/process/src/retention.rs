//! Deletion of consumed records in a cluster.

use std::{convert::Infallible, sync::Arc, time::Duration};

use orbweaver_log::{Log, LogError, Offset, TopicPartition};
use orbweaver_messages::{Topic, topic::CONTROL};
use orbweaver_scope::{Consumers, ControlRecord, DEFINITIONS_PARTITION};
use orbweaver_stage::{
    Clock as _, RunnerStatus, SystemClock,
    retention::{Bound, Declarations, DeclaredGroups, Retention, TopicRetention},
};
use tokio::{
    sync::Mutex,
    time::{Instant, MissedTickBehavior, interval},
};

/// Timeout per read of a record that is known to exist.
const READ_WAIT: Duration = Duration::from_secs(1);
/// Maximum age of declared groups. `orbweaver consumers add` waits for this, and for a deletion that began then.
const FRESH: Duration = Duration::from_millis(250);

/// Settings of the deletion.
#[derive(Debug, Clone, Copy)]
pub struct Deleting {
    /// Interval between two sweeps.
    pub every: Duration,
    /// Retention of the topics for users while no group is declared for them.
    pub of_users: Bound,
}

/// Deletes periodically, in the partitions open in this process, the records that all services have consumed. Instances
/// of a service thus share the work as they share its partitions, and a partition without an owner is swept once it has
/// one.
pub(crate) async fn sweep(log: Arc<dyn Log>, pulse: Arc<RunnerStatus>, deleting: Deleting) -> Infallible {
    let declared = Declared { log: log.clone(), read: Mutex::default() };
    let topics = TopicRetention::in_a_cluster(deleting.of_users);
    let mut retention = Retention::new(log, topics).with_declarations(Arc::new(declared));
    let mut ticks = interval(deleting.every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failing = false;
    loop {
        ticks.tick().await;
        match retention.sweep_of(&pulse.open(), SystemClock.now()).await {
            Ok(partitions) if failing || partitions > 0 => {
                failing = false;
                tracing::debug!(partitions, "deleted consumed records");
            }
            Ok(_) => {}
            Err(error) => {
                // Logged once: while a broker is failing, every sweep fails.
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, "consumed records were not deleted everywhere; retrying at every sweep");
                }
            }
        }
    }
}

/// Groups declared in `crawl.control`.
struct Declared {
    log: Arc<dyn Log>,
    read: Mutex<Read>,
}

/// Declared groups read from `crawl.control`, and the position of the next read.
#[derive(Default)]
struct Read {
    consumers: Consumers,
    next: Offset,
    /// Request time of the log end up to which the topic was read.
    requested: Option<Instant>,
}

impl Declarations for Declared {
    fn of(&self, topic: Topic) -> DeclaredGroups<'_> {
        Box::pin(async move {
            let mut read = self.read.lock().await;
            if read.requested.is_none_or(|requested| requested.elapsed() >= FRESH) {
                read.on(&*self.log).await?;
            }
            let groups: Vec<String> = read.consumers.of(topic).map(str::to_owned).collect();
            Ok(groups)
        })
    }
}

impl Read {
    /// Reads `crawl.control` up to its current log end.
    async fn on(&mut self, log: &dyn Log) -> Result<(), LogError> {
        let tp = TopicPartition::new(CONTROL, DEFINITIONS_PARTITION);
        let requested = Instant::now();
        let bounds = log.bounds(tp).await?;
        if self.next < bounds.end {
            let mut reader = log.reader(tp, self.next.max(bounds.start)).await?;
            while reader.position() < bounds.end {
                for record in reader.read(READ_WAIT).await? {
                    record.check_readable()?;
                    let (key, value) = (record.key.as_deref(), record.value.as_ref());
                    self.consumers.read(ControlRecord { partition: tp.partition, offset: record.offset, key, value });
                }
            }
            self.next = reader.position();
        }
        self.requested = Some(requested);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_log::{Cleanup, MemoryLog, Record, TopicSpec};
    use orbweaver_messages::{
        CONSUMERS_KEY, encode,
        topic::{DOCUMENTS, OUTCOMES},
    };
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_group_is_known_to_a_deletion_a_quarter_of_a_second_after_its_declaration() {
        let log = MemoryLog::new(&[TopicSpec::new(CONTROL, 1, Cleanup::Compact)]);
        let declared = Declared { log: Arc::new(log.clone()), read: Mutex::default() };
        let of = async |topic| declared.of(topic).await.unwrap();
        assert!(of(DOCUMENTS).await.is_empty());
        let groups = Consumers::default().with("indexer", &[DOCUMENTS], 0).unwrap();
        let tp = TopicPartition::new(CONTROL, DEFINITIONS_PARTITION);
        log.append(vec![Record::new(tp, Some(CONSUMERS_KEY.into()), Some(encode(&groups)), 0)]).await.unwrap();
        advance(FRESH).await;
        assert_eq!(of(DOCUMENTS).await, ["indexer"]);
        assert!(of(OUTCOMES).await.is_empty());
    }
}
