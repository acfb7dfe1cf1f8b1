//! Claims (rule 3): the record by which an owner takes over a log that it writes.
//!
//! Kafka fences commits, not produces. So an owner begins with a claim; what another owner still appends behind it
//! carries an older epoch and is ignored. The claim's offset is the epoch, and the end of the restore.

use bytes::Bytes;
use orbweaver_log::{Delivered, Record, TopicPartition};
use orbweaver_messages::{Millis, encode};

/// The header that marks a claim; its value is the name of the service.
pub const CLAIM_HEADER: &str = "claim";
/// The key of a claim: compaction keeps the last one of a partition.
const CLAIM_KEY: &[u8] = b"claim";

/// The value of a claim.
#[derive(serde::Serialize)]
struct Claim<'a> {
    service: &'a str,
    claimed_at_ms: Millis,
}

/// A claim of `service` on `place`.
pub(crate) fn claim(place: TopicPartition, service: &'static str, now: Millis) -> Record {
    Record {
        place,
        key: Some(Bytes::from_static(CLAIM_KEY)),
        value: Some(encode(&Claim { service, claimed_at_ms: now })),
        headers: vec![(CLAIM_HEADER, Bytes::from_static(service.as_bytes()))],
        timestamp_ms: now,
    }
}

/// Whether a record is a claim. The runtime hands none of them to a stage.
#[must_use]
pub fn is_claim(record: &Delivered) -> bool {
    record.header(CLAIM_HEADER).is_some()
}
