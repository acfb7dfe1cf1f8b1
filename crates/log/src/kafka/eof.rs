//! The end of a partition, as a consumer observed it (pure).
//!
//! librdkafka reports that a partition has no more records, but the binding drops the offset from the event. The
//! event's text contains it, and reaches the context first, in the same poll. The offset matters: a new leader may lag
//! behind what its predecessor acknowledged (KIP-207), so this event does not prove an end that another leader
//! reported.

use crate::Offset;

/// Text before the offset in librdkafka's message (`rd_kafka_fetch_reply_handle_partition_error`).
const BEFORE_OFFSET: &str = "reached end of partition at offset ";

/// Parses the end offset from a librdkafka message.
pub(super) fn end_of(reason: &str) -> Option<Offset> {
    let (_, rest) = reason.split_once(BEFORE_OFFSET)?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).map_or(rest, |end| &rest[..end]);
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_read_from_the_text_and_never_guessed() {
        let text = "Fetch from broker 1 reached end of partition at offset 57 (HighwaterMark 60)";
        assert_eq!(end_of(text), Some(57), "read_committed ends at the last stable offset");
        for other in ["", "Broker: No more messages", "reached end of partition at offset -1001 (HighwaterMark 3)"] {
            assert_eq!(end_of(other), None);
        }
    }
}
