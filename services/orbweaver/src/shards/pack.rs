//! A shard that is being written: one zstd frame of lines.

use std::io::{self, Write};

use sha2::{Digest as _, Sha256};
use zstd::stream::write::Encoder;

use super::manifest::Shard;
use crate::results::Position;

/// Compression level, zstd's default.
const LEVEL: i32 = 3;

/// An open shard. All of it is one frame, since some readers stop after the first.
pub(super) struct Pack<W: Write> {
    name: String,
    encoder: Encoder<'static, Hashed<W>>,
    from: Position,
    records: u64,
    uncompressed_bytes: u64,
}

impl<W: Write> Pack<W> {
    /// Begins a shard whose first record has its line at `from`.
    pub(super) fn begin(name: String, from: Position, file: W) -> io::Result<Self> {
        let mut encoder = Encoder::new(Hashed { file, digest: Sha256::new(), bytes: 0 }, LEVEL)?;
        encoder.include_checksum(true)?;
        Ok(Self { name, encoder, from, records: 0, uncompressed_bytes: 0 })
    }

    /// Adds lines, each with its line feed.
    pub(super) fn add(&mut self, lines: &[u8], records: u64) -> io::Result<()> {
        self.encoder.write_all(lines)?;
        self.records += records;
        self.uncompressed_bytes += lines.len() as u64;
        Ok(())
    }

    /// Returns the size before compression.
    pub(super) fn uncompressed_bytes(&self) -> u64 {
        self.uncompressed_bytes
    }

    /// Ends the frame, and returns the file and its entry in the manifest.
    pub(super) fn finish(self, to: Position) -> io::Result<(W, Shard)> {
        let Hashed { file, digest, bytes } = self.encoder.finish()?;
        let Self { name, from, records, uncompressed_bytes, .. } = self;
        let sha256 = hexadecimal(&digest.finalize());
        Ok((file, Shard { file: name, records, bytes, uncompressed_bytes, sha256, from, to }))
    }
}

/// Returns the SHA-256 of a text in hexadecimal digits.
pub(super) fn sha256(text: &[u8]) -> String {
    hexadecimal(&Sha256::digest(text))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// File with the hash and the number of the bytes that were written.
struct Hashed<W> {
    file: W,
    digest: Sha256,
    bytes: u64,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let written = self.file.write(text)?;
        self.digest.update(&text[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
