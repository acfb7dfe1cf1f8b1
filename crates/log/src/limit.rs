//! How large a record may be.

use std::ops::RangeInclusive;

use orbweaver_messages::{Topic, topic};

/// The record limit unless it is set otherwise: 16 MiB.
pub const RECORD_LIMIT: usize = 16 << 20;

/// What the record limit of a pipeline may be: 512 KiB, in which the longest list of redirects and headers of a page has room
/// beside some of its body, to 64 MiB, which brokers take in one request unless they are set otherwise.
pub const RECORD_LIMITS: RangeInclusive<usize> = (512 << 10)..=(64 << 20);

/// What a dead letter may have beyond the record limit: it is the record that it was, and why.
pub const DEAD_LETTER_ROOM: usize = 128 << 10;

/// The largest record of `topic` where the record limit is `limit`, in bytes of key, value and headers.
pub(crate) fn limit_of(topic: Topic, limit: usize) -> usize {
    if topic == topic::DEAD_LETTERS { limit.saturating_add(DEAD_LETTER_ROOM) } else { limit }
}
