//! Conversion of records from librdkafka.

use std::borrow::Cow;

use bytes::Bytes;
use orbweaver_messages::{schema_of, topic::SchemaRef};
use rdkafka::{
    Message,
    message::{BorrowedMessage, Headers},
};

use crate::{ConsumerRecord, Offset, TopicPartition};

/// Copies a message out of librdkafka's memory, where it would retain the entire fetch response.
pub(super) fn delivered(tp: TopicPartition, message: &BorrowedMessage<'_>) -> ConsumerRecord {
    let headers = message.headers().map_or_else(Vec::new, |headers| {
        // Nearly all records have the headers of their schema, and no others: those are not copied.
        let known = schema_of(tp.topic, message.key()).map(SchemaRef::headers);
        let copied = |header: rdkafka::message::Header<'_, &[u8]>| {
            let value = header.value.unwrap_or_default();
            let same = known.iter().flatten().find(|(name, of_schema)| *name == header.key && of_schema == value);
            match same {
                Some((name, value)) => (Cow::Borrowed(*name), value.clone()),
                None => (Cow::Owned(header.key.to_owned()), Bytes::copy_from_slice(value)),
            }
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
