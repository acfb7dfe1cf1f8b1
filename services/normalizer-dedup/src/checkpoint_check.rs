//! Verification of index checkpoints against the log, at the start.

use std::time::Duration;

use orbweaver_log::{Log, LogError, TopicPartition};
use orbweaver_messages::topic;
use orbweaver_seen::{IndexCheckpoint, SeenIndex};
use orbweaver_stage::StageError;

use crate::stage::halted;

/// Maximum number of reads for a record that is known to exist; the duration of each is below.
const READS: u32 = 30;
const READ_WAIT: Duration = Duration::from_secs(1);

/// Reads the record at the checkpoint of each partition of the index. If the record is absent or differs, the index is
/// discarded (docs/protocol.md#proven-checkpoints) and its partition is restored from the log start.
pub(crate) async fn verify_checkpoints(index: &SeenIndex, log: &dyn Log) -> Result<(), StageError> {
    for (partition, position) in index.positions().map_err(halted)? {
        let tp = TopicPartition::new(topic::SEEN, partition);
        let found = match log.bounds(tp).await {
            Ok(bounds) if (bounds.start..bounds.end).contains(&position.offset) => {
                record_at(log, tp, position.offset).await?
            }
            Ok(_) | Err(LogError::UnknownPartition(_)) => None,
            Err(error) => return Err(error.into()),
        };
        if found != Some(position) {
            tracing::warn!(topic_partition = %tp, offset = position.offset, "checkpoint is not in the log; rebuilding the index");
            index.discard(partition).map_err(halted)?;
        }
    }
    Ok(())
}

/// Returns the number of records that the log holds in each partition of `crawl.seen`.
pub(crate) async fn records_of_seen(log: &dyn Log) -> Result<Vec<u64>, StageError> {
    let tps: Vec<_> =
        (0..log.partitions(topic::SEEN)?).map(|number| TopicPartition::new(topic::SEEN, number)).collect();
    Ok(log.all_bounds(&tps).await?.iter().map(|bounds| bounds.end - bounds.start).collect())
}

/// Returns the checkpoint of the first record at or after `offset`. It is an error if none arrives in [`READS`] reads.
async fn record_at(log: &dyn Log, tp: TopicPartition, offset: u64) -> Result<Option<IndexCheckpoint>, StageError> {
    let mut reader = log.reader(tp, offset).await?;
    for _ in 0..READS {
        if let Some(record) = reader.read(READ_WAIT).await?.first() {
            return Ok(Some(position_of(record)));
        }
    }
    Err(halted(format!("{tp}: the record at offset {offset} could not be read within {READS} s")))
}

pub(crate) fn position_of(record: &orbweaver_log::ConsumerRecord) -> IndexCheckpoint {
    IndexCheckpoint::of(record.offset, record.timestamp_ms, record.value.as_deref().unwrap_or_default())
}
