//! `crawl.seen`: what was let through, a batch a record. The value is binary: 20 bytes an entry.

use bytes::Bytes;
use orbweaver_url::{Fingerprint, Slot};

use crate::MessageError;

/// Bytes of one entry: slot and depth (little endian), fingerprint.
pub const ENTRY_BYTES: usize = 20;

/// One URL that was let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenEntry {
    /// The slot of its site.
    pub slot: Slot,
    /// The depth at which it was let through.
    pub depth: u16,
    /// Fingerprint of crawl and canonical form.
    pub fingerprint: Fingerprint,
}

/// A batch of entries of one partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeenBatch {
    /// The entries, in the order of admission.
    pub entries: Vec<SeenEntry>,
}

impl SeenBatch {
    /// Writes the batch: slot (2 bytes), depth (2 bytes), fingerprint (16 bytes) an entry, little endian.
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

    /// Reads a batch.
    ///
    /// # Errors
    /// When there is no value, or its length is no multiple of an entry's.
    pub fn decode(value: Option<&Bytes>) -> Result<Self, MessageError> {
        let value = value.ok_or(MessageError::Empty("seen"))?;
        if value.len() % ENTRY_BYTES != 0 {
            let reason = format!("{} bytes are no multiple of the {ENTRY_BYTES} bytes of an entry", value.len());
            return Err(MessageError::Invalid { message: "seen", reason });
        }
        let entries = value.chunks_exact(ENTRY_BYTES).map(|chunk| {
            let mut fingerprint = [0; 16];
            fingerprint.copy_from_slice(&chunk[4..]);
            SeenEntry {
                slot: u16::from_le_bytes([chunk[0], chunk[1]]),
                depth: u16::from_le_bytes([chunk[2], chunk[3]]),
                fingerprint: Fingerprint(fingerprint),
            }
        });
        Ok(Self { entries: entries.collect() })
    }
}
