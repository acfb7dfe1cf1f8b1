//! Body of a record of `crawl.pages`.

use std::borrow::Cow;
use std::io::Read;

use orbweaver_messages::BodyEncoding;
use zstd::bulk::Decompressor;

/// Log2 of the largest window accepted: a frame of a few bytes may request gigabytes of memory. Levels up to 22 need
/// 2^24 for bodies that fit into records.
const WINDOW_LOG_MAX: u32 = 24;

/// Failure to read a body.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The record has no value.
    #[error("the page record has no body")]
    Missing,
    /// The body is not a zstd frame, or a damaged one.
    #[error("the body is not a valid zstd frame: {0}")]
    Zstd(std::io::Error),
}

/// Largest buffer for decoded bodies that is kept, in bytes.
const KEPT_BYTES: usize = 1 << 20;

/// Reader of bodies, one after another, which reuses its decompression state.
#[derive(Default)]
pub struct BodyReader {
    decompressor: Option<Decompressor<'static>>,
    body: Vec<u8>,
}

impl BodyReader {
    /// Returns the decoded body, and whether it was cut at `max_bytes`, which also bounds its memory.
    pub fn open<'a>(
        &'a mut self,
        value: Option<&'a [u8]>,
        encoding: BodyEncoding,
        max_bytes: usize,
    ) -> Result<(Cow<'a, [u8]>, bool), BodyError> {
        let value = value.ok_or(BodyError::Missing)?;
        match encoding {
            BodyEncoding::Identity => {
                Ok((Cow::Borrowed(&value[..value.len().min(max_bytes)]), value.len() > max_bytes))
            }
            BodyEncoding::Zstd => {
                let size = zstd::zstd_safe::get_frame_content_size(value).ok().flatten();
                match size.and_then(|size| usize::try_from(size).ok()).filter(|&size| size <= max_bytes) {
                    Some(size) => {
                        if self.body.capacity() > KEPT_BYTES {
                            self.body = Vec::new();
                        }
                        self.body.clear();
                        self.body.reserve(size);
                        let decompressor = match &mut self.decompressor {
                            Some(decompressor) => decompressor,
                            none => none.insert(Decompressor::new().map_err(BodyError::Zstd)?),
                        };
                        decompressor.decompress_to_buffer(value, &mut self.body).map_err(BodyError::Zstd)?;
                        if self.body.len() != size {
                            // The buffer may be larger than the size that the first frame declares.
                            let reason = "more than one frame";
                            return Err(BodyError::Zstd(std::io::Error::new(std::io::ErrorKind::InvalidData, reason)));
                        }
                        Ok((Cow::Borrowed(&self.body), false))
                    }
                    None => stream(value, max_bytes),
                }
            }
        }
    }
}

/// Estimates the size of a decoded body before it is decoded; at most `max_bytes`.
#[must_use]
pub fn expected_bytes(value: &[u8], max_bytes: usize) -> usize {
    let size = match zstd::zstd_safe::get_frame_content_size(value) {
        Ok(Some(size)) => usize::try_from(size).unwrap_or(usize::MAX),
        Ok(None) => usize::MAX,
        // No frame: the body is not compressed.
        Err(_) => value.len(),
    };
    size.min(max_bytes)
}

/// Decodes a frame that does not declare its size, or is too large, up to the limit.
fn stream(frame: &[u8], max_bytes: usize) -> Result<(Cow<'static, [u8]>, bool), BodyError> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(frame).map_err(BodyError::Zstd)?.single_frame();
    decoder.window_log_max(WINDOW_LOG_MAX).map_err(BodyError::Zstd)?;
    let mut body = Vec::new();
    // One more byte shows whether the body is longer.
    decoder.take(max_bytes as u64 + 1).read_to_end(&mut body).map_err(BodyError::Zstd)?;
    let cut = body.len() > max_bytes;
    body.truncate(max_bytes);
    Ok((Cow::Owned(body), cut))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn open(value: Option<&[u8]>, encoding: BodyEncoding, max: usize) -> Result<(Vec<u8>, bool), String> {
        let mut bodies = BodyReader::default();
        let (body, cut) = bodies.open(value, encoding, max).map_err(|error| error.to_string())?;
        Ok((body.into_owned(), cut))
    }

    #[test]
    fn a_body_is_read_whatever_its_encoding() {
        let frame = zstd::encode_all(&b"hello"[..], 3).unwrap();
        assert_eq!(open(Some(b"hello"), BodyEncoding::Identity, 9), Ok((b"hello".to_vec(), false)));
        assert_eq!(open(Some(&frame), BodyEncoding::Zstd, 9), Ok((b"hello".to_vec(), false)));
        assert_eq!(open(Some(&frame), BodyEncoding::Zstd, 4), Ok((b"hell".to_vec(), true)));
        let sized = zstd::bulk::compress(b"hello", 3).unwrap();
        assert_eq!(open(Some(&sized), BodyEncoding::Zstd, 5), Ok((b"hello".to_vec(), false)));
        assert_eq!(open(Some(&sized), BodyEncoding::Zstd, 4), Ok((b"hell".to_vec(), true)));
    }

    #[test]
    fn the_size_of_a_body_is_known_before_it_is_decoded() {
        let streamed = zstd::encode_all(&b"hello"[..], 3).unwrap();
        let sized = zstd::bulk::compress(&[7; 5000], 3).unwrap();
        for (value, expected) in [(&b"hello"[..], 5), (b"", 0), (&sized, 5000), (&streamed, 9000)] {
            assert_eq!(expected_bytes(value, 9000), expected);
        }
        assert_eq!(expected_bytes(&sized, 100), 100);
    }

    #[test]
    fn a_bomb_costs_no_more_than_the_limit() {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        let zeros = vec![0; 1 << 20];
        (0..256).for_each(|_| encoder.write_all(&zeros).unwrap());
        let frame = encoder.finish().unwrap();
        let (body, cut) = open(Some(&frame), BodyEncoding::Zstd, 100_000).unwrap();
        assert!(cut && body.len() == 100_000 && body.capacity() < 1 << 20);
    }

    #[test]
    fn a_body_after_another_has_nothing_of_it_and_a_second_frame_is_refused() {
        let (long, short) = (zstd::bulk::compress(&[7; 5000], 3).unwrap(), zstd::bulk::compress(b"hello", 3).unwrap());
        let mut bodies = BodyReader::default();
        let mut open = |value: &[u8]| match bodies.open(Some(value), BodyEncoding::Zstd, 9999) {
            Ok((body, _)) => Ok(body.into_owned()),
            Err(error) => Err(error.to_string()),
        };
        assert_eq!(open(&long), Ok(vec![7; 5000]));
        assert_eq!(open(&short), Ok(b"hello".to_vec()));
        assert!(open(&[&short[..], &short[..]].concat()).unwrap_err().ends_with("more than one frame"));
        assert_eq!(open(&short), Ok(b"hello".to_vec()));
    }

    #[test]
    fn a_damaged_or_missing_body_is_an_error() {
        let sized = zstd::bulk::compress(&[7; 1000], 3).unwrap();
        for damaged in [&b"no frame"[..], b"", &sized[..sized.len() - 3]] {
            let error = open(Some(damaged), BodyEncoding::Zstd, 9999).unwrap_err();
            assert!(error.starts_with("the body is not a valid zstd frame: "), "{error}");
        }
        assert_eq!(open(None, BodyEncoding::Identity, 9).unwrap_err(), "the page record has no body");
    }
}
