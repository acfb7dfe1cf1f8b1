//! A strict reader of WARC files, which shares no code with the writer.

use std::io::Read as _;

use flate2::bufread::GzDecoder;
use orbweaver_warc::payload_digest;

/// Fields of a header, in order.
pub(crate) type Fields = Vec<(String, String)>;

#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) fields: Fields,
    pub(crate) block: Vec<u8>,
}

/// Start line, fields and rest of an HTTP message.
pub(crate) struct Message {
    pub(crate) line: String,
    pub(crate) fields: Fields,
    pub(crate) body: Vec<u8>,
}

/// Returns the values of a field.
pub(crate) fn all<'a>(fields: &'a Fields, name: &str) -> Vec<&'a str> {
    fields.iter().filter(|field| field.0.eq_ignore_ascii_case(name)).map(|field| &*field.1).collect()
}

/// Returns the value of a field that occurs at most once.
pub(crate) fn value<'a>(fields: &'a Fields, name: &str) -> Option<&'a str> {
    let values = all(fields, name);
    assert!(values.len() <= 1, "{name}: {values:?}");
    values.first().copied()
}

/// Splits a head from the rest, and checks that each line of it is well formed.
fn split(bytes: &[u8]) -> Message {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let line = lines.next().unwrap().to_owned();
    let breaks = |text: &str| text.chars().any(|c| c.is_control() && c != '\t');
    assert!(!breaks(&line), "{line:?}");
    let field = |line: &str| {
        let (name, value) = line.split_once(": ").unwrap();
        assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':'), "{line:?}");
        assert!(!breaks(value), "{line:?}");
        (name.to_owned(), value.to_owned())
    };
    Message { line, fields: lines.map(field).collect(), body: bytes[end + 4..].to_vec() }
}

impl Record {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        value(&self.fields, name)
    }

    /// Returns the HTTP message of the block.
    pub(crate) fn message(&self) -> Message {
        split(&self.block)
    }
}

/// Reads all records of a file, and checks framing, lengths and block digests.
pub(crate) fn read(file: &[u8]) -> Vec<Record> {
    let mut records = vec![];
    let mut rest = file;
    while !rest.is_empty() {
        let offset = (file.len() - rest.len()) as u64;
        let mut decoder = GzDecoder::new(rest);
        let mut text = vec![];
        decoder.read_to_end(&mut text).unwrap();
        rest = decoder.into_inner();
        let length = (file.len() - rest.len()) as u64 - offset;
        let Message { line, fields, body } = split(&text);
        assert_eq!(line, "WARC/1.1");
        let block = body.strip_suffix(b"\r\n\r\n").unwrap().to_vec();
        let record = Record { offset, length, fields, block };
        assert_eq!(record.get("Content-Length").unwrap(), record.block.len().to_string());
        assert_eq!(record.get("WARC-Block-Digest").unwrap(), payload_digest(&record.block));
        for name in ["WARC-Type", "WARC-Record-ID", "WARC-Date", "Content-Type"] {
            assert!(!record.get(name).unwrap().is_empty(), "{name}");
        }
        records.push(record);
    }
    records
}
