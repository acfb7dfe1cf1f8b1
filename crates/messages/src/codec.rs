//! JSON in and out, with errors that name the place.

use std::cell::Cell;

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

/// A value is not the message that its topic carries.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The JSON is broken, or a field is missing, unknown in form or out of range.
    #[error("not a valid {message} message: {reason}")]
    Invalid {
        /// The message that was expected.
        message: &'static str,
        /// What is wrong, with line and column.
        reason: String,
    },
    /// The record has no value where one is needed.
    #[error("a {0} record without a value")]
    Empty(&'static str),
}

/// A thread keeps so much to write messages in, in bytes. What is larger is rare, and given back.
const KEPT_BYTES: usize = 256 << 10;

thread_local! {
    /// Messages are written here and copied once their size is known: growing in place copies them again and again, and
    /// leaves up to half of the room unused for as long as the message waits.
    static WRITTEN: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Writes a message as JSON.
///
/// # Panics
/// Never: the message types have string keys and no map that can fail to serialise.
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

/// Reads a message from JSON.
///
/// # Errors
/// When the bytes are not JSON or not this message.
pub fn decode<T: DeserializeOwned>(message: &'static str, value: Option<&Bytes>) -> Result<T, MessageError> {
    let value = value.ok_or(MessageError::Empty(message))?;
    serde_json::from_slice(value).map_err(|error| MessageError::Invalid { message, reason: error.to_string() })
}
