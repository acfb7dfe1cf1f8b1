//! Deletion of consumed records in a cluster.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use orbweaver_log::{Log, LogError, Offset, TopicPartition};
use orbweaver_messages::topic::{CONTROL, topics};
use orbweaver_scope::{Consumers, ControlRecord, DEFINITIONS_PARTITION};
use orbweaver_stage::{
    Clock as _, Pulse, SystemClock,
    retention::{Bound, Expiring, Retention},
};
use tokio::time::{MissedTickBehavior, interval};

/// Timeout per read of a record that is known to exist.
const READ_WAIT: Duration = Duration::from_secs(1);

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
pub(crate) async fn sweep(log: Arc<dyn Log>, pulse: Arc<Pulse>, deleting: Deleting) -> Infallible {
    let mut retention = Retention::new(log.clone(), Expiring::in_a_cluster(deleting.of_users));
    let mut declared = Declared::default();
    let mut ticks = interval(deleting.every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failing = false;
    loop {
        ticks.tick().await;
        let swept = async {
            // Deletion is final: the current declared groups must be known first.
            retention.declare(declared.read_on(&*log).await?);
            retention.sweep_of(&pulse.open(), SystemClock.now()).await
        };
        match swept.await {
            Ok(partitions) if failing || partitions > 0 => {
                failing = false;
                tracing::debug!(partitions, "deleted what is worked off");
            }
            Ok(_) => {}
            Err(error) => {
                // Logged once: while the log is unavailable every sweep fails.
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, "what is worked off cannot be deleted; tried again");
                }
            }
        }
    }
}

/// The declared groups, and the next offset to read.
#[derive(Default)]
struct Declared {
    consumers: Consumers,
    next: Offset,
}

impl Declared {
    /// Reads `crawl.control` up to its current log end; returns the declared groups by topic.
    async fn read_on(&mut self, log: &dyn Log) -> Result<BTreeMap<orbweaver_messages::Topic, Vec<String>>, LogError> {
        let place = TopicPartition::new(CONTROL, DEFINITIONS_PARTITION);
        let bounds = log.bounds(place).await?;
        if self.next < bounds.end {
            let mut reader = log.reader(place, self.next.max(bounds.start)).await?;
            while reader.position() < bounds.end {
                for record in reader.read(READ_WAIT).await? {
                    let (key, value) = (record.key.as_deref(), record.value.as_ref());
                    self.consumers.read(ControlRecord {
                        partition: place.partition,
                        offset: record.offset,
                        key,
                        value,
                    });
                }
            }
            self.next = reader.position();
        }
        let groups = |topic| self.consumers.of(topic).map(str::to_owned).collect();
        Ok(topics().iter().map(|described| (described.topic, groups(described.topic))).collect())
    }
}
