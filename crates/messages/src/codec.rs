//! JSON encoding and decoding, with errors that give line and column.

use std::cell::Cell;

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

/// Error of decoding a value that is not the message expected on its topic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The JSON is malformed, or a field is missing, has an unknown form or is out of range.
    #[error("not a valid {message} message: {reason}")]
    Invalid {
        /// Name of the expected message.
        message: &'static str,
        /// Reason, with line and column.
        reason: String,
    },
    /// The record has no value where one is required.
    #[error("the {0} record has no value")]
    Empty(&'static str),
}

/// Largest encoding buffer that a thread keeps, in bytes. Larger buffers are rare and are freed.
const KEPT_BYTES: usize = 256 << 10;

thread_local! {
    /// Buffer that messages are written to, and copied from once their size is known. Growing a buffer per message
    /// would copy the message repeatedly, and leave up to half of its capacity unused for as long as the message is
    /// kept.
    static WRITTEN: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Returns `true` for a field that is omitted, since it has its default.
#[must_use]
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Encodes a message as JSON.
///
/// # Panics
/// Never: the message types have string keys and no map that can fail to serialize.
#[must_use]
pub fn encode<T: Serialize>(message: &T) -> Bytes {
    let mut written = WRITTEN.take();
    let message = match serde_json::to_writer(&mut written, message) {
        Ok(()) => Bytes::copy_from_slice(&written),
        Err(_never) => Bytes::new(),
    };
    if written.capacity() <= KEPT_BYTES {
        written.clear();
        WRITTEN.set(written);
    }
    message
}

/// Decodes a message from JSON.
///
/// # Errors
/// Returns an error if there is no value, or if it is not JSON or not this message.
pub fn decode<T: DeserializeOwned>(message: &'static str, value: Option<&Bytes>) -> Result<T, MessageError> {
    let value = value.ok_or(MessageError::Empty(message))?;
    serde_json::from_slice(value).map_err(|error| MessageError::Invalid { message, reason: error.to_string() })
}
