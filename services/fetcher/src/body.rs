//! A page's body on its way into the log: hashed, and compressed where that makes it smaller.

use std::cell::RefCell;

use bytes::Bytes;
use orbweaver_messages::BodyEncoding;
use xxhash_rust::xxh3::xxh3_128;
use zstd::{
    bulk::Compressor,
    zstd_safe::{CParameter, compress_bound},
};

/// A body, ready to travel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedBody {
    /// As it travels.
    pub value: Bytes,
    /// How it travels.
    pub encoding: BodyEncoding,
    /// Size of the decoded body.
    pub bytes: u64,
    /// It was cut at the limit.
    pub truncated: bool,
    /// xxh3-128 of the decoded body, as hexadecimal digits.
    pub content_hash: String,
}

/// The fastest level but for those that leave out Huffman coding: the log carries each body once or twice, and the fetcher
/// has other things to do.
const LEVEL: i32 = 1;
/// Matches are looked for by so many bytes: as level 1 does for large inputs. For 16 KiB it would take 5, which costs a sixth
/// more time, decompression a quarter, for 2 % of size on real pages (9 % where the words are random).
const MIN_MATCH: u32 = 7;
/// 2^13 places of earlier bytes: 32 KiB, which the first cache holds.
const HASH_LOG: u32 = 13;
/// Bodies shorter than this are not worth a frame.
const WORTH_BYTES: usize = 128;

/// Frames are made here before they are copied; longer ones of rare large bodies are made elsewhere. In bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// What compressing needs, allocated once a thread.
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

    /// One zstd frame; `None` when it is not smaller.
    fn frame(&mut self, body: &[u8]) -> Option<Bytes> {
        if compress_bound(body.len()) <= BUFFER_BYTES {
            let length = self.compressor.compress_to_buffer(body, &mut *self.buffer).ok()?;
            return (length < body.len()).then(|| Bytes::copy_from_slice(&self.buffer[..length]));
        }
        let mut frame = self.compressor.compress(body).ok()?;
        // It waits in queues, where its spare room would count.
        frame.shrink_to_fit();
        (frame.len() < body.len()).then(|| frame.into())
    }
}

/// Hashes a body, and compresses it if that is asked for.
#[must_use]
pub fn pack(body: Vec<u8>, truncated: bool, compress: bool) -> PackedBody {
    let content_hash = format!("{:032x}", xxh3_128(&body));
    let bytes = body.len() as u64;
    let worth = compress && body.len() >= WORTH_BYTES;
    let smaller = worth.then(|| PACKER.with_borrow_mut(|packer| packer.as_mut()?.frame(&body)));
    let (value, encoding) = match smaller.flatten() {
        Some(frame) => (frame, BodyEncoding::Zstd),
        None => (Bytes::from(body), BodyEncoding::Identity),
    };
    PackedBody { value, encoding, bytes, truncated, content_hash }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_travels_compressed_only_when_that_makes_it_smaller() {
        let page = "<p>the same words again</p>".repeat(600).into_bytes();
        let unasked = pack(page.clone(), false, false);
        assert_eq!((unasked.encoding, &*unasked.value), (BodyEncoding::Identity, &*page));
        let packed = pack(page.clone(), false, true);
        assert_eq!((packed.encoding, packed.bytes), (BodyEncoding::Zstd, page.len() as u64));
        assert!(packed.value.len() < page.len() / 10);
        assert_eq!(zstd::bulk::decompress(&packed.value, page.len()).unwrap(), page);

        let mut state = 1u32;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .take(5000)
        .collect();
        let packed = pack(noise.clone(), true, true);
        assert_eq!((packed.encoding, packed.truncated), (BodyEncoding::Identity, true));
        assert_eq!(packed.value, noise);
    }

    #[test]
    fn the_hash_is_that_of_the_decoded_body_in_32_digits() {
        assert_eq!(pack(vec![], false, true).content_hash, "99aa06d3014798d86001c324468d497f");
        assert_eq!(pack(b"<p>".repeat(100), false, true).content_hash.len(), 32);
    }
}
