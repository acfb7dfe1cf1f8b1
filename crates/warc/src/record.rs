//! One record as a gzip member.

use std::io::{self, Write};

use flate2::{Compression, write::GzEncoder};

use crate::{digest::labelled, fields::push_clean};

/// Output that counts its bytes.
#[derive(Debug)]
pub(crate) struct Counted<W> {
    pub(crate) output: W,
    pub(crate) bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.output.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// Record with a block of two parts, so that a body is not copied.
pub(crate) struct Record<'a> {
    /// Lines of the header that are specific to the type, the first of which is `WARC-Type`.
    pub(crate) fields: String,
    pub(crate) content_type: &'static str,
    pub(crate) head: &'a str,
    pub(crate) body: &'a [u8],
}

impl Record<'_> {
    /// Writes the record as one gzip member.
    pub(crate) fn write(self, output: &mut Counted<impl Write>) -> io::Result<()> {
        let mut header = String::from("WARC/1.1\r\n");
        header.push_str(&self.fields);
        push_clean(&mut header, "WARC-Block-Digest", &labelled(&[self.head.as_bytes(), self.body]));
        push_clean(&mut header, "Content-Type", self.content_type);
        push_clean(&mut header, "Content-Length", &(self.head.len() + self.body.len()).to_string());
        header.push_str("\r\n");
        header.push_str(self.head);
        let mut member = GzEncoder::new(output, Compression::default());
        member.write_all(header.as_bytes())?;
        member.write_all(self.body)?;
        member.write_all(b"\r\n\r\n")?;
        member.finish()?;
        Ok(())
    }
}
