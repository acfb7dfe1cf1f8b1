//! A page's body on its way into the log: hashed, and compressed where that makes it smaller.

use std::cell::RefCell;

use bytes::Bytes;
use orbweaver_messages::BodyEncoding;
use xxhash_rust::xxh3::xxh3_128;

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

/// The fastest level: the log carries each body once or twice, and the fetcher has other things to do.
const LEVEL: i32 = 1;
/// Bodies shorter than this are not worth a frame.
const WORTH_BYTES: usize = 128;

thread_local! {
    /// Its tables (half a megabyte) are allocated once a thread.
    static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = RefCell::new(zstd::bulk::Compressor::new(LEVEL).ok());
}

/// Hashes and compresses a body.
#[must_use]
pub fn pack(body: Vec<u8>, truncated: bool) -> PackedBody {
    let content_hash = format!("{:032x}", xxh3_128(&body));
    let bytes = body.len() as u64;
    let smaller = (body.len() >= WORTH_BYTES).then(|| compress(&body)).flatten();
    let (value, encoding) = match smaller {
        Some(frame) => (Bytes::from(frame), BodyEncoding::Zstd),
        None => (Bytes::from(body), BodyEncoding::Identity),
    };
    PackedBody { value, encoding, bytes, truncated, content_hash }
}

/// One zstd frame; `None` when it is not smaller.
fn compress(body: &[u8]) -> Option<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|compressor| {
        let frame = compressor.as_mut()?.compress(body).ok()?;
        (frame.len() < body.len()).then_some(frame)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_travels_compressed_only_when_that_makes_it_smaller() {
        let page = "<p>the same words again</p>".repeat(600).into_bytes();
        let packed = pack(page.clone(), false);
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
        let packed = pack(noise.clone(), true);
        assert_eq!((packed.encoding, packed.truncated), (BodyEncoding::Identity, true));
        assert_eq!(packed.value, noise);
    }

    #[test]
    fn the_hash_is_that_of_the_decoded_body_in_32_digits() {
        assert_eq!(pack(vec![], false).content_hash, "99aa06d3014798d86001c324468d497f");
        assert_eq!(pack(b"<p>".repeat(100), false).content_hash.len(), 32);
    }
}
