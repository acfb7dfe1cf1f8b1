//! Body of a record of `crawl.pages`.

use std::{
    borrow::Cow,
    io::{Error, Read as _},
};

use orbweaver_messages::BodyEncoding;
use zstd::stream::read::Decoder;

/// Log2 of the largest window accepted: a frame of a few bytes may request gigabytes of memory. Levels up to 22 need
/// 2^24 for bodies that fit into records.
const WINDOW_LOG_MAX: u32 = 24;

/// Failure to read a body.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the page record has no body")]
    Missing,
    #[error("the body is not a valid zstd frame: {0}")]
    Zstd(Error),
    #[error("the body is followed by {0} further bytes")]
    Trailing(usize),
    #[error("the body has more than the {0} bytes that its page record declares")]
    TooLong(u64),
}

/// Returns the decoded body, and whether it was cut at `max_bytes`, which also bounds its memory. A body of more than
/// the declared number of bytes is damaged.
pub(crate) fn decoded(
    value: Option<&[u8]>,
    encoding: BodyEncoding,
    declared: u64,
    max_bytes: usize,
) -> Result<(Cow<'_, [u8]>, bool), BodyError> {
    let value = value.ok_or(BodyError::Missing)?;
    let mut body = match encoding {
        BodyEncoding::Identity => Cow::Borrowed(&value[..value.len().min(max_bytes.saturating_add(1))]),
        BodyEncoding::Zstd => Cow::Owned(decompressed(value, max_bytes)?),
    };
    if u64::try_from(body.len()).is_ok_and(|bytes| bytes > declared) {
        return Err(BodyError::TooLong(declared));
    }
    let is_cut = body.len() > max_bytes;
    if is_cut {
        match &mut body {
            Cow::Borrowed(bytes) => *bytes = &bytes[..max_bytes],
            Cow::Owned(bytes) => bytes.truncate(max_bytes),
        }
    }
    Ok((body, is_cut))
}

/// Decodes one frame, up to one byte more than `max_bytes`, which shows whether the body is longer.
fn decompressed(frame: &[u8], max_bytes: usize) -> Result<Vec<u8>, BodyError> {
    let mut decoder = Decoder::with_buffer(frame).map_err(BodyError::Zstd)?.single_frame();
    decoder.window_log_max(WINDOW_LOG_MAX).map_err(BodyError::Zstd)?;
    let mut body = Vec::new();
    let limit = u64::try_from(max_bytes).unwrap_or(u64::MAX).saturating_add(1);
    decoder.by_ref().take(limit).read_to_end(&mut body).map_err(BodyError::Zstd)?;
    let rest = decoder.finish().len();
    if body.len() <= max_bytes && rest > 0 { Err(BodyError::Trailing(rest)) } else { Ok(body) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(
        value: Option<&[u8]>,
        encoding: BodyEncoding,
        declared: u64,
        max: usize,
    ) -> Result<(Vec<u8>, bool), String> {
        let body = decoded(value, encoding, declared, max);
        body.map(|(body, is_cut)| (body.into_owned(), is_cut)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_body_is_decoded_and_cut_at_the_limit() {
        let frame = zstd::bulk::compress(b"hello", 3).unwrap();
        for (value, encoding) in [(&b"hello"[..], BodyEncoding::Identity), (&frame, BodyEncoding::Zstd)] {
            assert_eq!(open(Some(value), encoding, 5, 5), Ok((b"hello".to_vec(), false)));
            assert_eq!(open(Some(value), encoding, 5, 4), Ok((b"hell".to_vec(), true)));
            assert_eq!(open(Some(value), encoding, 9, 0), Ok((vec![], true)), "a record may have less than the page");
        }
        assert_eq!(open(Some(b""), BodyEncoding::Identity, 0, 5), Ok((vec![], false)));
    }

    #[test]
    fn a_bomb_costs_no_more_than_the_limit() {
        let frame = zstd::encode_all(std::io::repeat(0).take(256 << 20), 3).unwrap();
        let (body, is_cut) = open(Some(&frame), BodyEncoding::Zstd, u64::MAX, 100_000).unwrap();
        assert!(is_cut && body.len() == 100_000 && body.capacity() < 1 << 20);
    }

    #[test]
    fn a_damaged_body_is_an_error() {
        let frame = zstd::bulk::compress(&[7; 1000], 3).unwrap();
        let zstd = |value: &[u8]| open(Some(value), BodyEncoding::Zstd, 1000, 9999).unwrap_err();
        for damaged in [&b"no frame"[..], b"", &frame[..frame.len() - 3]] {
            assert!(zstd(damaged).starts_with("the body is not a valid zstd frame: "));
        }
        assert_eq!(zstd(&[&frame[..], b"more"].concat()), "the body is followed by 4 further bytes");
        assert!(open(Some(&frame), BodyEncoding::Zstd, 999, 9999).unwrap_err().contains("more than the 999 bytes"));
        assert!(open(None, BodyEncoding::Identity, 0, 9).unwrap_err().contains("no body"));
    }
}
