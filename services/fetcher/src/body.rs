//! Packing of a page's body for the log: hashed, compressed if that makes it smaller, and cut to the record limit.

use std::cell::RefCell;

use bytes::Bytes;
use orbweaver_messages::BodyEncoding;
use orbweaver_stage::Reservation;
use xxhash_rust::xxh3::xxh3_128;
use zstd::{
    bulk::Compressor,
    zstd_safe::{CParameter, compress_bound},
};

/// A body packed for its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedBody {
    pub value: Bytes,
    pub encoding: BodyEncoding,
    /// Number of decoded bytes that were read.
    pub bytes: u64,
    /// Whether the body is cut: longer than the part that was read, or than `value` has room for.
    pub truncated: bool,
    /// xxh3-128 of the decoded bytes that were read, as hexadecimal digits.
    pub content_hash: String,
    /// Hash of the text of an HTML page, if its crawl has revisits.
    pub text_hash: Option<String>,
}

impl PackedBody {
    /// Attaches its memory reservation: reduced to the present size, and held until the last byte is dropped.
    pub(crate) fn holding(self, mut memory: Reservation) -> Self {
        memory.set(self.value.len());
        Self { value: memory.attach(self.value), ..self }
    }
}

/// Fastest level with Huffman coding: the log carries each body only once or twice, and the fetcher needs its CPU for
/// other work.
const LEVEL: i32 = 1;
/// Minimum match length, in bytes: that of level 1 for large inputs. For 16 KiB level 1 would use 5, which takes a
/// sixth more time, and a quarter more for decompression, for 2 % of size on real pages (9 % on random words).
const MIN_MATCH: u32 = 7;
/// Log2 of the number of hash table entries: 2^13 entries take 32 KiB, which fit into the L1 cache.
const HASH_LOG: u32 = 13;
/// Length below which a body is not compressed, in bytes.
const WORTH_BYTES: usize = 128;

/// Size of the buffer in which frames are made before they are copied, in bytes; frames of larger bodies, which are
/// rare, are allocated separately.
const BUFFER_BYTES: usize = 64 << 10;

/// Compression state, allocated once per thread.
struct Packer {
    compressor: Compressor<'static>,
    buffer: Box<[u8]>,
}

thread_local! {
    static PACKER: RefCell<Option<Packer>> = RefCell::new(Packer::new().ok());
}

impl Packer {
    fn new() -> std::io::Result<Self> {
        let mut compressor = Compressor::new(LEVEL)?;
        compressor.set_parameter(CParameter::MinMatch(MIN_MATCH))?;
        compressor.set_parameter(CParameter::HashLog(HASH_LOG))?;
        Ok(Self { compressor, buffer: vec![0; BUFFER_BYTES].into() })
    }

    /// Returns one zstd frame; `None` if it is not smaller.
    fn frame(&mut self, body: &[u8]) -> Option<Bytes> {
        if compress_bound(body.len()) <= BUFFER_BYTES {
            let length = self.compressor.compress_to_buffer(body, &mut *self.buffer).ok()?;
            return (length < body.len()).then(|| Bytes::copy_from_slice(&self.buffer[..length]));
        }
        let mut frame = self.compressor.compress(body).ok()?;
        // The frame waits in queues, where its spare capacity would count.
        frame.shrink_to_fit();
        (frame.len() < body.len()).then(|| frame.into())
    }
}

/// Hashes a body; compresses it if `compress` is set or it has more than `room` bytes; cuts it if that is not enough.
pub(crate) fn pack(mut body: Vec<u8>, truncated: bool, compress: bool, room: usize) -> PackedBody {
    let content_hash = format!("{:032x}", xxh3_128(&body));
    let bytes = body.len() as u64;
    let frame = if compress || body.len() > room { frame(&body) } else { None };
    let is_cut = frame.as_ref().map_or(body.len(), Bytes::len) > room;
    let frame = match frame {
        Some(whole) if is_cut => cut_frame(&body, whole.len(), room),
        frame => frame,
    };
    let (value, encoding) = match frame {
        Some(frame) => (frame, BodyEncoding::Zstd),
        None => {
            body.truncate(boundary(&body, room));
            body.shrink_to_fit();
            (Bytes::from(body), BodyEncoding::Identity)
        }
    };
    PackedBody { value, encoding, bytes, truncated: truncated | is_cut, content_hash, text_hash: None }
}

/// Returns one zstd frame; `None` if it is not smaller.
fn frame(body: &[u8]) -> Option<Bytes> {
    let worth = body.len() >= WORTH_BYTES;
    worth.then(|| PACKER.with_borrow_mut(|packer| packer.as_mut()?.frame(body))).flatten()
}

/// Returns a frame of at most `room` bytes for a prefix of more than `room` bytes. The prefix length follows from the
/// ratio of the whole body, and shrinks with each attempt, since a prefix may compress worse.
fn cut_frame(body: &[u8], whole: usize, room: usize) -> Option<Bytes> {
    let by_ratio = u128::try_from(body.len() * room / whole.max(1)).ok()?;
    [15, 12, 9].into_iter().find_map(|sixteenths| {
        let length = boundary(body, usize::try_from(by_ratio * sixteenths / 16).ok()?);
        let frame = if length > room { frame(&body[..length])? } else { return None };
        (frame.len() <= room).then_some(frame)
    })
}

/// Returns the last position up to `end` that is not within a UTF-8 character.
fn boundary(body: &[u8], end: usize) -> usize {
    if end >= body.len() {
        return body.len();
    }
    let is_start = |at: &usize| body[*at] & 0xc0 != 0x80;
    (end.saturating_sub(3)..=end).rev().find(is_start).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Generates bodies that compress well, hardly and unevenly, with characters of one to four bytes.
    fn bodies() -> impl Strategy<Value = Vec<u8>> {
        let pieces =
            prop_oneof!["[ -~]{1,40}", "\\PC{1,20}", (1..200_usize).prop_map(|times| "<p>the same</p>".repeat(times)),];
        prop::collection::vec(pieces, 0..40).prop_map(|pieces| pieces.concat().into_bytes())
    }

    proptest! {
        #[test]
        fn a_body_fits_its_room_is_whole_where_it_can_be_and_is_cut_between_characters(
            body in bodies(), compress: bool, sixteenths in 0..20_usize,
        ) {
            let whole = pack(body.clone(), false, compress, usize::MAX);
            let room = whole.value.len() * sixteenths / 16;
            let packed = pack(body.clone(), false, compress, room);
            prop_assert!(packed.value.len() <= room);
            prop_assert_eq!((packed.bytes, &packed.content_hash), (whole.bytes, &whole.content_hash));
            let smallest = pack(body.clone(), false, true, usize::MAX).value.len();
            prop_assert_eq!(packed.truncated, smallest > room);
            prop_assert!(pack(body.clone(), true, compress, room).truncated);
            prop_assert!(whole.value.len() <= body.len() && (compress || whole.encoding == BodyEncoding::Identity));
            let value = match packed.encoding {
                BodyEncoding::Identity => packed.value.to_vec(),
                BodyEncoding::Zstd => zstd::bulk::decompress(&packed.value, body.len()).unwrap(),
            };
            prop_assert!(body.starts_with(&value) && std::str::from_utf8(&value).is_ok());
            prop_assert!(value.len() + 3 >= room.min(body.len()), "{} of {room}", value.len());
        }
    }

    #[test]
    fn the_hash_is_that_of_the_decoded_body_in_32_digits() {
        assert_eq!(pack(vec![], false, true, 0).content_hash, "99aa06d3014798d86001c324468d497f");
        assert_eq!(pack(b"<p>".repeat(100), false, true, 99).content_hash.len(), 32);
    }
}
