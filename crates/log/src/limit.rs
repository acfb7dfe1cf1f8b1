//! Record size limits.

use std::ops::RangeInclusive;

use orbweaver_messages::{Topic, topic};

/// Default record limit: 16 MiB.
pub const RECORD_LIMIT: usize = 16 << 20;

/// Allowed record limits of a pipeline. 512 KiB holds the longest list of redirects and headers of a page, plus some of
/// the body; 64 MiB is what brokers accept in one request by default.
pub const RECORD_LIMITS: RangeInclusive<usize> = (512 << 10)..=(64 << 20);

/// Allowance of a dead letter beyond the record limit: it holds the original record and the reason.
pub const DEAD_LETTER_ROOM: usize = 128 << 10;

/// Returns the maximum size of a record of `topic`, given the record limit, in bytes of key, value and headers.
pub(crate) fn limit_of(topic: Topic, limit: usize) -> usize {
    if topic == topic::DEAD_LETTERS { limit.saturating_add(DEAD_LETTER_ROOM) } else { limit }
}
