//! Body as a stream of UTF-8.

use std::io::{self, BufRead, Read};

use encoding_rs::{CoderResult, Decoder};

use crate::{encoding, gzip::Source, value::is_space};

/// Size of the read buffer of a stream, in bytes.
const CHUNK_BYTES: usize = 16 << 10;

/// Stream of a body as UTF-8: bytes that are invalid in its encoding are U+FFFD.
pub(crate) struct Stream<'a> {
    source: Source<'a>,
    decoder: Decoder,
    /// Bytes read and not decoded: `encoded[start..end]`.
    encoded: Box<[u8]>,
    start: usize,
    end: usize,
    is_at_end: bool,
    /// Text decoded and not consumed: `text[consumed..]`.
    text: Vec<u8>,
    consumed: usize,
    /// Number of bytes that may be consumed before the next call of [`Stream::allow`].
    allowed: usize,
    /// First bytes consumed since that call.
    first: [u8; 2],
    first_len: usize,
}

impl<'a> Stream<'a> {
    /// Opens a body, and leaves out white space at its start.
    ///
    /// # Errors
    /// Gzip data without a readable start.
    pub(crate) fn open(body: &'a [u8], expanded_bytes: usize) -> io::Result<Self> {
        let mut source = Source::open(body, expanded_bytes);
        let mut encoded = vec![0; CHUNK_BYTES].into_boxed_slice();
        let mut end = 0;
        while end < encoded.len() {
            match source.read(&mut encoded[end..]) {
                Ok(0) => break,
                Ok(count) => end += count,
                // Reported when the bytes before it are consumed.
                Err(_) if end > 0 => break,
                Err(error) => return Err(error),
            }
        }
        let (encoding, start) = encoding::detect(&encoded[..end]);
        let decoder = encoding.new_decoder_without_bom_handling();
        let mut stream = Self {
            source,
            decoder,
            encoded,
            start,
            end,
            is_at_end: false,
            text: Vec::with_capacity(CHUNK_BYTES),
            consumed: 0,
            allowed: usize::MAX,
            first: [0; 2],
            first_len: 0,
        };
        stream.skip_space()?;
        Ok(stream)
    }

    /// Limits the number of bytes until the next call; more are an error.
    pub(crate) fn allow(&mut self, bytes: usize) {
        self.allowed = bytes;
        self.first_len = 0;
    }

    /// Returns the first bytes consumed since the last call of [`Stream::allow`], at most two.
    pub(crate) fn first(&self) -> &[u8] {
        &self.first[..self.first_len]
    }

    /// Returns the first bytes, at least `count` unless the text is shorter or damaged.
    ///
    /// # Errors
    /// Gzip data that is damaged, with no byte before the damage.
    pub(crate) fn peek(&mut self, count: usize) -> io::Result<&[u8]> {
        while self.text.len() - self.consumed < count {
            match self.decode() {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) if self.text.len() > self.consumed => break,
                Err(error) => return Err(error),
            }
        }
        Ok(&self.text[self.consumed..])
    }

    fn skip_space(&mut self) -> io::Result<()> {
        loop {
            // The text ends with a whole character.
            let text = String::from_utf8_lossy(self.peek(1)?);
            let space = text.len() - text.trim_start_matches(is_space).len();
            let is_all = space == text.len();
            self.consumed += space;
            if !is_all || space == 0 {
                return Ok(());
            }
        }
    }

    /// Decodes a chunk. Returns `false` at the end.
    fn decode(&mut self) -> io::Result<bool> {
        self.text.drain(..self.consumed);
        self.consumed = 0;
        let before = self.text.len();
        while self.text.len() == before {
            if self.start == self.end {
                if self.is_at_end {
                    return Ok(false);
                }
                (self.start, self.end) = (0, self.source.read(&mut self.encoded)?);
                self.is_at_end = self.end == 0;
            }
            self.text.resize(before + 3 * CHUNK_BYTES, 0);
            let (result, read, written, _) = self.decoder.decode_to_utf8(
                &self.encoded[self.start..self.end],
                &mut self.text[before..],
                self.is_at_end,
            );
            self.text.truncate(before + written);
            self.start += read;
            if self.is_at_end && result == CoderResult::InputEmpty {
                return Ok(self.text.len() > before);
            }
        }
        Ok(true)
    }
}

impl BufRead for Stream<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.allowed == 0 {
            return Err(io::Error::other("a text, tag or comment is too long"));
        }
        if self.consumed == self.text.len() {
            self.decode()?;
        }
        let text = &self.text[self.consumed..];
        Ok(text.get(..self.allowed).unwrap_or(text))
    }

    fn consume(&mut self, count: usize) {
        for byte in self.text[self.consumed..].iter().take(count.min(self.first.len() - self.first_len)) {
            self.first[self.first_len] = *byte;
            self.first_len += 1;
        }
        self.consumed += count;
        self.allowed = self.allowed.saturating_sub(count);
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    #[test]
    fn a_stream_ends_where_more_is_read_than_allowed() {
        let mut encoder = GzEncoder::new(vec![], Compression::fast());
        encoder.write_all(&vec![b'a'; 1 << 20]).unwrap();
        let body = encoder.finish().unwrap();
        let mut stream = Stream::open(&body, usize::MAX).unwrap();
        stream.allow(100_000);
        let read = std::iter::from_fn(|| stream.read(&mut [0; 1000]).ok()).sum::<usize>();
        assert_eq!(read, 100_000);
        stream.allow(1);
        assert!(stream.read(&mut [0; 1]).is_ok());
        assert_eq!(stream.first(), b"a");
    }
}
