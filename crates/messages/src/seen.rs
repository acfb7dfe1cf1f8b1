//! `crawl.seen`: admitted URLs, one batch per record. The value is binary: 20 bytes per entry.

use bytes::Bytes;
use orbweaver_url::{Fingerprint, Slot};

use crate::MessageError;

/// Size of an entry in bytes: slot and depth (little endian), fingerprint.
pub const ENTRY_BYTES: usize = 20;

/// Admitted URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenEntry {
    /// Slot of its site.
    pub slot: Slot,
    /// Depth at which it was admitted.
    pub depth: u16,
    /// Fingerprint of crawl and canonical form.
    pub fingerprint: Fingerprint,
}

/// Batch of entries of one partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeenBatch {
    /// Entries, in the order of admission.
    pub entries: Vec<SeenEntry>,
}

impl SeenBatch {
    /// Encodes the batch: per entry, slot (2 bytes), depth (2 bytes), both little endian, and fingerprint (16 bytes).
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(self.entries.len() * ENTRY_BYTES);
        for entry in &self.entries {
            out.extend_from_slice(&entry.slot.to_le_bytes());
            out.extend_from_slice(&entry.depth.to_le_bytes());
            out.extend_from_slice(&entry.fingerprint.0);
        }
        Bytes::from(out)
    }

    /// Decodes a batch.
    ///
    /// # Errors
    /// Returns an error if there is no value, or if its length is not a multiple of an entry's.
    pub fn decode(value: Option<&Bytes>) -> Result<Self, MessageError> {
        let value = value.ok_or(MessageError::Empty("seen"))?;
        let (chunks, rest) = value.as_chunks::<ENTRY_BYTES>();
        if !rest.is_empty() {
            let reason = format!("{} bytes is not a multiple of the entry size of {ENTRY_BYTES} bytes", value.len());
            return Err(MessageError::Invalid { message: "seen", reason });
        }
        let entries = chunks.iter().map(|chunk| SeenEntry {
            slot: u16::from_le_bytes([chunk[0], chunk[1]]),
            depth: u16::from_le_bytes([chunk[2], chunk[3]]),
            fingerprint: Fingerprint(std::array::from_fn(|at| chunk[4 + at])),
        });
        Ok(Self { entries: entries.collect() })
    }
}
