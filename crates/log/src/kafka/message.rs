//! Conversion of records from librdkafka.

use bytes::Bytes;
use rdkafka::{
    Message,
    message::{BorrowedMessage, Headers},
};

use crate::{ConsumerRecord, Offset, TopicPartition};

/// Copies a message out of librdkafka's memory, where it would retain the entire fetch response.
pub(super) fn delivered(tp: TopicPartition, message: &BorrowedMessage<'_>) -> ConsumerRecord {
    let headers = message.headers().map_or_else(Vec::new, |headers| {
        let copied = |header: rdkafka::message::Header<'_, &[u8]>| {
            (header.key.to_owned(), header.value.map_or_else(Bytes::new, Bytes::copy_from_slice))
        };
        headers.iter().map(copied).collect()
    });
    ConsumerRecord {
        tp,
        offset: Offset::try_from(message.offset()).unwrap_or(0),
        timestamp_ms: message.timestamp().to_millis().unwrap_or(0),
        key: message.key().map(Bytes::copy_from_slice),
        value: message.payload().map(Bytes::copy_from_slice),
        headers,
    }
}
