//! Bytes of a body, expanded if they are gzip data.

use std::io::{self, Read};

use flate2::bufread::MultiGzDecoder;

/// Magic number of gzip.
const MAGIC: &[u8] = b"\x1f\x8b";

/// Returns `true` for gzip data.
pub(crate) fn is_gzip(body: &[u8]) -> bool {
    body.starts_with(MAGIC)
}

/// Bytes of a body, expanded.
pub(crate) enum Source<'a> {
    Plain(&'a [u8]),
    Gzip(Box<Gzip<'a>>),
}

/// Gzip data of one or more members.
pub(crate) struct Gzip<'a> {
    inner: MultiGzDecoder<&'a [u8]>,
    /// Number of bytes that may still come out.
    left: usize,
    /// Error that ended the data: reported by every further read.
    error: Option<String>,
}

impl<'a> Source<'a> {
    /// Opens a body; gzip data expands to at most `expanded_bytes`, and more is an error.
    pub(crate) fn open(body: &'a [u8], expanded_bytes: usize) -> Self {
        if !is_gzip(body) {
            return Self::Plain(body);
        }
        let inner = MultiGzDecoder::new(body);
        Self::Gzip(Box::new(Gzip { inner, left: expanded_bytes, error: None }))
    }
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(rest) => rest.read(buffer),
            Self::Gzip(gzip) => match &gzip.error {
                Some(error) => Err(io::Error::other(error.clone())),
                None => gzip.expand(buffer).inspect_err(|error| gzip.error = Some(error.to_string())),
            },
        }
    }
}

impl Gzip<'_> {
    fn expand(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return match self.inner.read(&mut [0])? {
                0 => Ok(0),
                _ => Err(io::Error::other("the gzip data expands to more than its limit")),
            };
        }
        let room = buffer.len().min(self.left);
        let count = self.inner.read(&mut buffer[..room])?;
        self.left -= count;
        Ok(count)
    }
}
