//! Format of a record in a file: a frame with length and checksum.
//!
//! ```text
//! u32 length of the body   u32 CRC-32 of the body        (all numbers little-endian)
//! body: u8 kind   u64 offset   i64 timestamp_ms   u32 key length   u32 value length   u16 headers
//!       key   value   headers: u16 name length, name, u32 value length, value
//! ```
//! A length of `0xffff_ffff` means "none". A complete segment ends with a seal: a frame without key, value and headers.
//! The offset of a seal is the end of the segment, its timestamp the latest in it. [`super::block`] has the format of
//! compressed records.

use std::{borrow::Cow, ops::Range};

use bytes::Bytes;
use orbweaver_messages::{Millis, SCHEMA_HEADER, SCHEMA_VERSION_HEADER};

use crate::{ConsumerRecord, Offset, Record, TopicPartition};

/// Size of length and checksum, in bytes.
pub(super) const HEAD_BYTES: usize = 8;
/// Minimum size of a body, in bytes.
const BODY_BYTES: usize = 1 + 8 + 8 + 4 + 4 + 2;
/// Minimum size of a frame, and the size of a seal, in bytes.
pub(super) const MIN_FRAME: usize = HEAD_BYTES + BODY_BYTES;
/// Maximum number of headers of a record.
pub(super) const MAX_HEADERS: usize = u16::MAX as usize;
/// Maximum length of a header name, in bytes.
pub(super) const MAX_HEADER_NAME: usize = u16::MAX as usize;

const NONE: u32 = u32::MAX;

/// Kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Record = 0,
    /// End of a segment that was never compacted.
    Seal = 1,
    /// End of a compacted segment.
    CompactedSeal = 2,
    /// Compressed records.
    Block = 3,
}

/// A frame with a valid checksum.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) kind: Kind,
    pub(super) offset: Offset,
    pub(super) timestamp_ms: Millis,
    /// The complete frame, as stored.
    pub(super) raw: Bytes,
    key: Option<Range<usize>>,
    value: Option<Range<usize>>,
    headers: u16,
    headers_at: usize,
}

/// Result of examining the start of a byte slice.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// A frame of this many bytes with a valid checksum.
    Whole(usize),
    /// Undecided: this many bytes are needed.
    Short(usize),
    /// Not a frame.
    Damaged(&'static str),
}

/// Examines the start of `bytes`.
pub(super) fn look(bytes: &[u8]) -> Look {
    let Some((length, checksum)) = u32_at(bytes, 0).zip(u32_at(bytes, 4)) else { return Look::Short(HEAD_BYTES) };
    let length = length as usize;
    if length < BODY_BYTES {
        return Look::Damaged("the length of a record is too small");
    }
    let total = HEAD_BYTES + length;
    let Some(body) = bytes.get(HEAD_BYTES..total) else { return Look::Short(total) };
    if crc32fast::hash(body) == checksum { Look::Whole(total) } else { Look::Damaged("the checksum is wrong") }
}

/// Returns the size of the frame at the start of `bytes`, without validation.
pub(super) fn total_bytes(bytes: &[u8]) -> Option<usize> {
    Some(HEAD_BYTES + u32_at(bytes, 0)? as usize)
}

/// Returns the offset of the frame that may be at the start of `bytes`, without validation.
pub(super) fn offset_unchecked(bytes: &[u8]) -> Option<Offset> {
    let bytes = bytes.get(HEAD_BYTES + 1..HEAD_BYTES + 9)?;
    Some(Offset::from_le_bytes(bytes.try_into().ok()?))
}

impl Frame {
    /// Parses a frame that [`look`] reported as [`Look::Whole`].
    pub(super) fn parse(raw: Bytes) -> Result<Self, &'static str> {
        const SHORT: &str = "the parts of a record are longer than the record";
        let mut fields = Fields { bytes: &raw, at: HEAD_BYTES };
        let kind = match fields.array::<1>().ok_or(SHORT)? {
            [0] => Kind::Record,
            [1] => Kind::Seal,
            [2] => Kind::CompactedSeal,
            [3] => Kind::Block,
            _ => return Err("the kind of a record is unknown"),
        };
        let offset = Offset::from_le_bytes(fields.array().ok_or(SHORT)?);
        let timestamp_ms = Millis::from_le_bytes(fields.array().ok_or(SHORT)?);
        let (key, value) = (fields.length().ok_or(SHORT)?, fields.length().ok_or(SHORT)?);
        let headers = u16::from_le_bytes(fields.array().ok_or(SHORT)?);
        let key = fields.part(key).ok_or(SHORT)?;
        let value = fields.part(value).ok_or(SHORT)?;
        let headers_at = fields.at;
        Ok(Self { kind, offset, timestamp_ms, key, value, headers, headers_at, raw })
    }

    pub(super) fn key(&self) -> Option<&[u8]> {
        self.raw.get(self.key.clone()?)
    }

    pub(super) fn value(&self) -> Option<&[u8]> {
        self.raw.get(self.value.clone()?)
    }

    pub(super) fn is_tombstone(&self) -> bool {
        self.value.is_none()
    }

    /// Returns the record of this frame; it shares the bytes of the frame.
    pub(super) fn deliver(self, tp: TopicPartition) -> Result<ConsumerRecord, &'static str> {
        const SHORT: &str = "the headers are longer than the record";
        let mut fields = Fields { bytes: &self.raw, at: self.headers_at };
        let mut headers = Vec::with_capacity(usize::from(self.headers));
        for _ in 0..self.headers {
            let name = usize::from(u16::from_le_bytes(fields.array().ok_or(SHORT)?));
            let name = fields.part(Some(name)).flatten().ok_or(SHORT)?;
            let name = self.raw.get(name).and_then(|name| std::str::from_utf8(name).ok()).ok_or(SHORT)?;
            let value = fields.length().ok_or(SHORT)?;
            let value = fields.part(value).flatten().ok_or(SHORT)?;
            let known = [SCHEMA_HEADER, SCHEMA_VERSION_HEADER].into_iter().find(|known| *known == name);
            let name = known.map_or_else(|| Cow::Owned(name.to_owned()), Cow::Borrowed);
            headers.push((name, self.raw.slice(value)));
        }
        let slice = |part: Option<Range<usize>>| part.map(|part| self.raw.slice(part));
        let (key, value) = (slice(self.key), slice(self.value));
        Ok(ConsumerRecord { tp, offset: self.offset, timestamp_ms: self.timestamp_ms, key, value, headers })
    }
}

/// Returns the size of the frame of `record`, in bytes.
pub(super) fn frame_bytes(record: &Record) -> usize {
    let headers: usize = record.headers.iter().map(|(name, value)| 2 + name.len() + 4 + value.len()).sum();
    MIN_FRAME + record.key.as_ref().map_or(0, Bytes::len) + record.value.as_ref().map_or(0, Bytes::len) + headers
}

/// Appends the frame of `record`, at `offset`, without its checksum. The caller has checked the sizes.
pub(super) fn put_record(to: &mut Vec<u8>, offset: Offset, record: &Record) {
    let stamp = (Kind::Record, offset, record.timestamp_ms);
    let headers = record.headers.iter().map(|(name, value)| (*name, value.as_ref()));
    put_unchecked(to, stamp, (record.key.as_deref(), record.value.as_deref()), headers);
}

/// Appends a seal: the segment ends before `end`, and its latest timestamp is `max_ms`.
pub(super) fn put_seal(to: &mut Vec<u8>, kind: Kind, end: Offset, max_ms: Millis) {
    put(to, (kind, end, max_ms), (None, None), std::iter::empty());
}

/// Appends a frame of any kind.
pub(super) fn put<'a>(
    to: &mut Vec<u8>,
    stamp: (Kind, Offset, Millis),
    parts: (Option<&[u8]>, Option<&[u8]>),
    headers: impl ExactSizeIterator<Item = (&'a str, &'a [u8])>,
) {
    let from = to.len();
    put_unchecked(to, stamp, parts, headers);
    put_checksum(to, from);
}

fn put_unchecked<'a>(
    to: &mut Vec<u8>,
    (kind, offset, timestamp_ms): (Kind, Offset, Millis),
    (key, value): (Option<&[u8]>, Option<&[u8]>),
    headers: impl ExactSizeIterator<Item = (&'a str, &'a [u8])>,
) {
    let from = to.len();
    to.extend_from_slice(&[0; HEAD_BYTES]);
    to.push(kind as u8);
    to.extend_from_slice(&offset.to_le_bytes());
    to.extend_from_slice(&timestamp_ms.to_le_bytes());
    to.extend_from_slice(&key.map_or(NONE, length).to_le_bytes());
    to.extend_from_slice(&value.map_or(NONE, length).to_le_bytes());
    to.extend_from_slice(&u16::try_from(headers.len()).unwrap_or(u16::MAX).to_le_bytes());
    to.extend_from_slice(key.unwrap_or_default());
    to.extend_from_slice(value.unwrap_or_default());
    for (name, value) in headers {
        to.extend_from_slice(&u16::try_from(name.len()).unwrap_or(u16::MAX).to_le_bytes());
        to.extend_from_slice(name.as_bytes());
        to.extend_from_slice(&length(value).to_le_bytes());
        to.extend_from_slice(value);
    }
    let body = length(to.get(from + HEAD_BYTES..).unwrap_or_default());
    if let Some(head) = to.get_mut(from..from + 4) {
        head.copy_from_slice(&body.to_le_bytes());
    }
}

/// Sets the checksum of the last frame, which begins at `from`.
pub(super) fn put_checksum(frames: &mut [u8], from: usize) {
    let checksum = crc32fast::hash(frames.get(from + HEAD_BYTES..).unwrap_or_default());
    set_checksum(frames, from, checksum);
}

/// Replaces the checksum of the frame that begins at `from` by 0.
pub(super) fn remove_checksum(frames: &mut [u8], from: usize) {
    set_checksum(frames, from, 0);
}

fn set_checksum(frames: &mut [u8], from: usize, checksum: u32) {
    if let Some(head) = frames.get_mut(from + 4..from + HEAD_BYTES) {
        head.copy_from_slice(&checksum.to_le_bytes());
    }
}

/// Returns a length as stored; limits are far below 4 GiB, so it always fits.
fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(NONE - 1)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Sequential reader of fields.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let found = self.bytes.get(self.at..self.at + N)?.try_into().ok()?;
        self.at += N;
        Some(found)
    }

    /// Reads a length; the inner `None` means that the part is absent.
    #[allow(clippy::option_option, reason = "the outer one says whether there were enough bytes")]
    fn length(&mut self) -> Option<Option<usize>> {
        let length = u32::from_le_bytes(self.array()?);
        Some((length != NONE).then_some(length as usize))
    }

    #[allow(clippy::option_option, reason = "the outer one says whether there were enough bytes")]
    fn part(&mut self, length: Option<usize>) -> Option<Option<Range<usize>>> {
        let Some(length) = length else { return Some(None) };
        let part = self.at..self.at.checked_add(length)?;
        self.at = self.bytes.get(part.clone()).map(|_| part.end)?;
        Some(Some(part))
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::Topic;
    use proptest::prelude::*;

    use super::*;

    const TP: TopicPartition = TopicPartition { topic: Topic("t"), partition: 3 };

    fn bytes() -> impl Strategy<Value = Bytes> {
        prop::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from)
    }

    fn records() -> impl Strategy<Value = Record> {
        let headers = prop::collection::vec((prop::sample::select(vec!["", "page", "länge"]), bytes()), 0..4);
        (prop::option::of(bytes()), prop::option::of(bytes()), headers, any::<i64>())
            .prop_map(|(key, value, headers, timestamp_ms)| Record { tp: TP, key, value, headers, timestamp_ms })
    }

    fn framed(record: &Record, offset: Offset) -> Vec<u8> {
        let mut bytes = vec![];
        put_record(&mut bytes, offset, record);
        put_checksum(&mut bytes, 0);
        bytes
    }

    proptest! {
        #[test]
        fn a_record_comes_back_as_it_was(record in records(), offset in any::<u64>()) {
            let bytes = framed(&record, offset);
            prop_assert_eq!(look(&bytes), Look::Whole(bytes.len()));
            prop_assert_eq!(frame_bytes(&record), bytes.len());
            prop_assert_eq!(offset_unchecked(&bytes), Some(offset));
            let back = Frame::parse(bytes.into()).unwrap().deliver(TP).unwrap();
            let headers: Vec<_> = back.headers.iter().map(|(name, value)| (&**name, value.clone())).collect();
            prop_assert_eq!((back.offset, back.timestamp_ms), (offset, record.timestamp_ms));
            prop_assert_eq!((back.key, back.value, headers), (record.key, record.value, record.headers));
        }

        #[test]
        fn a_changed_byte_is_never_taken_for_the_record(record in records(), at in any::<prop::sample::Index>(), flip in 1..=255u8) {
            let mut bytes = framed(&record, 7);
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            prop_assert!(!matches!(look(&bytes), Look::Whole(_)));
        }

        #[test]
        fn a_frame_that_is_cut_asks_for_more(record in records(), at in any::<prop::sample::Index>()) {
            let bytes = framed(&record, 7);
            let cut = at.index(bytes.len());
            prop_assert!(matches!(look(&bytes[..cut]), Look::Short(needed) if needed > cut && needed <= bytes.len()));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            look(&bytes);
            let _ = Frame::parse(bytes.into()).and_then(|frame| frame.deliver(TP));
        }
    }
}
