//! Claims (docs/protocol.md#claims): the record by which an owner takes over a log that it writes.
//!
//! Kafka fences commits, not produce requests. An owner therefore begins with a claim; records that another owner still
//! appends after it carry an older epoch and are ignored. The claim's offset is the owner epoch and the restore end.

use bytes::Bytes;
use orbweaver_log::{ConsumerRecord, Record, TopicPartition};
use orbweaver_messages::{Millis, encode};

/// Header that marks a claim; its value is the name of the service.
pub const CLAIM_HEADER: &str = "claim";
/// Key of a claim: compaction keeps the last one of a partition.
const CLAIM_KEY: &[u8] = b"claim";

#[derive(serde::Serialize)]
struct Claim<'a> {
    service: &'a str,
    claimed_at_ms: Millis,
}

pub(crate) fn claim(tp: TopicPartition, service: &'static str, now: Millis) -> Record {
    Record {
        tp,
        key: Some(Bytes::from_static(CLAIM_KEY)),
        value: Some(encode(&Claim { service, claimed_at_ms: now })),
        headers: vec![(CLAIM_HEADER, Bytes::from_static(service.as_bytes()))],
        timestamp_ms: now,
    }
}

/// Returns `true` if a record is a claim. The runtime passes none to a stage as a record:
/// [`Stage::restore_claim`](crate::Stage::restore_claim) receives those of a replayed log.
#[must_use]
pub fn is_claim(record: &ConsumerRecord) -> bool {
    record.header(CLAIM_HEADER).is_some()
}
