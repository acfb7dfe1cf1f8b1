//! Bodies without their content codings.
//!
//! The decoders of reqwest bound no window and no layer, know one spelling of one coding, and return any other body
//! undecoded.

use std::{io, pin::Pin};

use async_compression::{
    tokio::bufread::{BrotliDecoder, DeflateDecoder, GzipDecoder, ZlibDecoder, ZstdDecoder},
    zstd::DParameter,
};
use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use reqwest::{
    Response,
    header::{CONTENT_ENCODING, HeaderMap},
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead},
    time::{Instant, timeout},
};
use tokio_util::io::{ReaderStream, StreamReader};

use super::{
    FetchError,
    measured::Meters,
    pace::{LeastRate, Pace, TooSlow},
};

/// Value of the header `Accept-Encoding`.
pub(crate) const ACCEPTED: &str = "zstd,gzip,deflate,br";

/// Maximum number of codings of a body: no site needs two, and some apply the same one twice by mistake.
const MAX_CODINGS: usize = 2;
/// Base-2 logarithm of the largest window of zstd, in bytes (RFC 9659 section 3). The library would accept 128 MiB.
const MAX_ZSTD_WINDOW_LOG: u32 = 23;
/// Lowest seven bits of a brotli stream with a large window, of up to 1 GiB, which are not part of the coding `br`.
const LARGE_BROTLI_WINDOW: u8 = 0b001_0001;
/// Size of the pieces in which a body is decoded, in bytes.
const PIECE_BYTES: usize = 16 << 10;
/// Encoded bytes that may be received ahead of their decoding: a read buffer of hyper is smaller.
const AHEAD_BYTES: usize = 512 << 10;

/// Pieces of a body.
pub(super) type Pieces = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// A content coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

impl Coding {
    /// Returns the size of the window that a decoder keeps of what it has decoded, in bytes.
    fn window_bytes(self) -> usize {
        match self {
            Self::Gzip | Self::Deflate => 32 << 10,
            Self::Brotli => 16 << 20,
            Self::Zstd => 1 << MAX_ZSTD_WINDOW_LOG,
        }
    }

    /// Returns the registered name.
    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }
}

/// Codings of a body, in the order in which they were applied.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Codings(Vec<Coding>);

impl Codings {
    /// Reads the headers; `None` if the body cannot be decoded.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut codings = vec![];
        for value in headers.get_all(CONTENT_ENCODING) {
            for name in value.to_str().ok()?.split(',') {
                codings.push(match name.trim().to_ascii_lowercase().as_str() {
                    "" | "identity" => continue,
                    "gzip" | "x-gzip" => Coding::Gzip,
                    "deflate" => Coding::Deflate,
                    "br" => Coding::Brotli,
                    "zstd" => Coding::Zstd,
                    _ => return None,
                });
            }
        }
        (codings.len() <= MAX_CODINGS).then_some(Self(codings))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names, separated by commas; `None` if there are none.
    pub(super) fn names(&self) -> Option<String> {
        let names: Vec<_> = self.0.iter().map(|coding| coding.name()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// Returns the memory that decoders have touched after this number of decoded bytes, in bytes. An outer layer may
    /// have decoded any number of bytes by then.
    pub(super) fn memory(&self, decoded: usize) -> usize {
        let Some((inner, outer)) = self.0.split_first().filter(|_| decoded > 0) else { return 0 };
        inner.window_bytes().min(decoded) + outer.iter().map(|coding| coding.window_bytes()).sum::<usize>()
    }
}

/// Returns the pieces of a body, which is decoded while it is received, and of which at most `max_bytes` are used.
pub(super) async fn decoded(received: Pieces, codings: &Codings, max_bytes: usize) -> io::Result<Pieces> {
    let max_encoded = max_bytes.saturating_add(max_bytes / 8).saturating_add(AHEAD_BYTES);
    let mut pieces = received;
    for coding in codings.0.iter().rev() {
        pieces = without(*coding, limited(pieces, max_encoded)).await?;
    }
    Ok(pieces)
}

/// Returns the pieces of a body as it is received, at the least rate or a higher one. Their bytes are added to `meters`.
pub(super) fn received(response: Response, least: LeastRate, meters: Meters) -> Pieces {
    Box::pin(stream::try_unfold((response, Pace::default()), move |(mut response, mut pace)| {
        let meters = meters.clone();
        async move {
            let started = Instant::now();
            let chunk = match pace.patience(least) {
                None => response.chunk().await,
                // Polls the body before the timer: bytes that have arrived are read, however late that is.
                Some(patience) => {
                    timeout(patience, response.chunk()).await.map_err(|_elapsed| io::Error::other(TooSlow))?
                }
            };
            let Some(chunk) = chunk.map_err(io::Error::other)? else { return Ok(None) };
            meters.add_bytes(chunk.len());
            pace.add(chunk.len(), started.elapsed());
            Ok(Some((chunk, (response, pace))))
        }
    }))
}

/// Returns the encoded pieces, of which more than `max_bytes` are an error: they may decode to nothing.
fn limited(pieces: Pieces, max_bytes: usize) -> Pieces {
    let mut room = max_bytes;
    Box::pin(pieces.map(move |piece| {
        let piece = piece?;
        match room.checked_sub(piece.len()) {
            Some(left) => room = left,
            None => return Err(io::Error::other("more encoded bytes than decoded bytes are used")),
        }
        Ok(piece)
    }))
}

/// Removes a coding. Bytes after the end of its data are ignored, as in browsers. An empty body has no coding.
async fn without(coding: Coding, encoded: Pieces) -> io::Result<Pieces> {
    let mut encoded = StreamReader::new(encoded);
    let Some(&first) = encoded.fill_buf().await?.first() else { return Ok(Box::pin(stream::empty())) };
    Ok(match coding {
        Coding::Gzip => pieces(GzipDecoder::new(encoded)),
        // Many servers omit the format of zlib around the data (RFC 9110 section 8.4.1.2). Its first byte names the
        // method 8; data without it would begin with a stored block whose padding is not empty.
        Coding::Deflate if first & 0xf == 8 => pieces(ZlibDecoder::new(encoded)),
        Coding::Deflate => pieces(DeflateDecoder::new(encoded)),
        Coding::Brotli if first & 0x7f == LARGE_BROTLI_WINDOW => {
            return Err(io::Error::other("a large window is not part of the coding"));
        }
        Coding::Brotli => pieces(BrotliDecoder::new(encoded)),
        Coding::Zstd => {
            let mut decoder = ZstdDecoder::with_params(encoded, &[DParameter::window_log_max(MAX_ZSTD_WINDOW_LOG)]);
            // The data of the coding are one or more frames (RFC 8878 section 3).
            decoder.multiple_members(true);
            pieces(decoder)
        }
    })
}

fn pieces(decoder: impl AsyncRead + Send + 'static) -> Pieces {
    Box::pin(ReaderStream::with_capacity(decoder, PIECE_BYTES))
}

/// Returns the failure of a request whose body could not be received or decoded.
pub(super) fn failure_of(error: &io::Error) -> FetchError {
    let cause = error.get_ref();
    if cause.is_some_and(|cause| cause.is::<TooSlow>()) {
        return FetchError::SlowBody;
    }
    let received = cause.and_then(|inner| inner.downcast_ref::<reqwest::Error>());
    if received.is_some_and(reqwest::Error::is_timeout) { FetchError::Timeout } else { FetchError::Body }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coding_is_known_by_any_of_its_names_and_only_two_are_decoded() {
        let of = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(CONTENT_ENCODING, value.parse().unwrap());
            }
            Codings::of(&headers).map(|codings| codings.0)
        };
        let (gzip, br) = (Coding::Gzip, Coding::Brotli);
        for (values, expected) in [
            (&[][..], Some(vec![])),
            (&["", " , identity"], Some(vec![])),
            (&["GZIP"], Some(vec![gzip])),
            (&["x-gzip, br"], Some(vec![gzip, br])),
            (&["gzip", "br"], Some(vec![gzip, br])),
            (&["gzip,gzip,identity"], Some(vec![gzip, gzip])),
            (&["gzip,gzip,gzip"], None),
            (&["compress"], None),
            (&["gzip;q=1"], None),
            (&["gz\u{ef}p"], None),
        ] {
            assert_eq!(of(values), expected, "{values:?}");
        }
        assert_eq!(Codings(vec![gzip, br]).names().as_deref(), Some("gzip, br"));
        assert_eq!(Codings::default().names(), None);
    }

    #[test]
    fn a_decoder_has_touched_no_more_than_its_window_and_the_decoded_bytes() {
        let zstd = Codings(vec![Coding::Zstd]);
        assert_eq!([0, 1000, 1 << 30].map(|decoded| zstd.memory(decoded)), [0, 1000, 8 << 20]);
        let two = Codings(vec![Coding::Gzip, Coding::Zstd]);
        assert_eq!(
            [0, 1000, 1 << 30].map(|decoded| two.memory(decoded)),
            [0, 1000 + (8 << 20), (32 << 10) + (8 << 20)]
        );
        assert_eq!(Codings::default().memory(1000), 0);
    }
}
