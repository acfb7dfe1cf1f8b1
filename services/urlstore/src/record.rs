//! From the gzip member of a record to the archived response. Pure.

use std::io::Read as _;

use flate2::bufread::GzDecoder;
use orbweaver_warc::payload_digest;

/// Maximum size of the headers of a record, in bytes.
pub(crate) const HEAD_BYTES: usize = 1 << 20;
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

/// Archived response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Archived {
    /// URL of the record.
    pub(crate) url: String,
    pub(crate) status: u16,
    pub(crate) content_type: Option<String>,
    /// Values of `X-Robots-Tag`.
    pub(crate) robots: Vec<String>,
    /// Reason for which the body is incomplete.
    pub(crate) truncated: Option<String>,
    pub(crate) body: Vec<u8>,
}

/// Record that cannot be returned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RecordError {
    #[error("the content has more than {0} bytes")]
    TooLarge(usize),
    #[error("the record is damaged: {0}")]
    Damaged(&'static str),
}

use RecordError::Damaged;

/// Reads a `response` record, of whose body at most `max_bytes` are accepted, which bounds the memory, too.
pub(crate) fn response(member: &[u8], max_bytes: usize) -> Result<Archived, RecordError> {
    let record = decompressed(member, max_bytes)?;
    let (head, rest) = split(&record).ok_or(Damaged("its header has no end"))?;
    let fields = Fields::read(head, "WARC/1.").ok_or(Damaged("it is not a WARC record"))?;
    if fields.get("warc-type") != Some("response") {
        return Err(Damaged("it is not a response"));
    }
    let length = fields.get("content-length").and_then(|length| length.parse::<usize>().ok());
    let (block, end) = length.and_then(|length| rest.split_at_checked(length)).ok_or(Damaged("it is cut"))?;
    if end != END_OF_HEAD {
        return Err(Damaged("its length is wrong"));
    }
    let (head, body) = split(block).ok_or(Damaged("its HTTP header has no end"))?;
    let http = Fields::read(head, "HTTP/").ok_or(Damaged("it has no HTTP response"))?;
    let status = http.start.split(' ').nth(1).and_then(|status| status.parse().ok());
    if fields.get("warc-payload-digest").is_some_and(|digest| digest != payload_digest(body)) {
        return Err(Damaged("its digest is wrong"));
    }
    if body.len() > max_bytes {
        return Err(RecordError::TooLarge(max_bytes));
    }
    Ok(Archived {
        url: fields.get("warc-target-uri").unwrap_or_default().to_owned(),
        status: status.ok_or(Damaged("it has no status"))?,
        content_type: http.get("content-type").map(str::to_owned),
        robots: http.all("x-robots-tag").map(str::to_owned).collect(),
        truncated: fields.get("warc-truncated").map(str::to_owned),
        body: body.to_vec(),
    })
}

fn decompressed(member: &[u8], max_bytes: usize) -> Result<Vec<u8>, RecordError> {
    let limit = max_bytes.saturating_add(HEAD_BYTES);
    let (mut record, mut decoder) = (vec![], GzDecoder::new(member));
    let read = decoder.by_ref().take(limit as u64 + 1).read_to_end(&mut record);
    read.map_err(|_| Damaged("its gzip member is not valid"))?;
    if record.len() > limit {
        return Err(RecordError::TooLarge(max_bytes));
    }
    if decoder.into_inner().is_empty() { Ok(record) } else { Err(Damaged("its gzip member is shorter")) }
}

/// Splits a header, without its last line end, from the rest.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let searched = &bytes[..bytes.len().min(HEAD_BYTES)];
    let end = searched.windows(END_OF_HEAD.len()).position(|part| part == END_OF_HEAD)?;
    Some((&bytes[..end], &bytes[end + END_OF_HEAD.len()..]))
}

/// A start line, and the fields after it.
struct Fields<'a> {
    start: &'a str,
    lines: Vec<(&'a str, &'a str)>,
}

impl<'a> Fields<'a> {
    /// Returns `None` if the start line begins with anything else.
    fn read(head: &'a [u8], start: &str) -> Option<Self> {
        let mut lines = std::str::from_utf8(head).ok()?.split("\r\n");
        let start = lines.next().filter(|line| line.starts_with(start))?;
        let lines = lines.filter_map(|line| line.split_once(':')).map(|(name, value)| (name, value.trim())).collect();
        Some(Self { start, lines })
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.all(name).next()
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.lines.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};
    use orbweaver_warc::{Capture, Info, Protocol, Revisit, RevisitKind, WarcWriter};
    use proptest::prelude::*;

    use super::*;

    /// Returns the member of a record, as the archiver writes it.
    fn member(body: &[u8], revisit: Option<Revisit<'_>>) -> Vec<u8> {
        let headers = [("content-type".to_owned(), "text/html; charset=utf-8".to_owned())];
        let mut writer = WarcWriter::new(vec![], &Info { filename: "a.warc.gz", date_ms: 0, fields: &[] }).unwrap();
        let capture = Capture {
            url: "https://a.example/",
            date_ms: 0,
            ip: None,
            protocol: Protocol::Http11,
            request: None,
            status: 404,
            reason: None,
            headers: &headers,
            body,
            truncated: None,
            revisit,
            metadata: &[],
        };
        let written = writer.write(&capture).unwrap();
        let (start, end) = (written.offset as usize, (written.offset + written.length) as usize);
        writer.into_inner()[start..end].to_vec()
    }

    fn packed(record: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(vec![], Compression::fast());
        encoder.write_all(record.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn damage(record: &str) -> RecordError {
        response(&packed(record), 100).unwrap_err()
    }

    #[test]
    fn a_damaged_record_is_refused_with_the_reason() {
        let http = "HTTP/1.1 200 OK\r\n\r\nbody";
        let whole = format!("WARC/1.1\r\nWARC-Type: response\r\nContent-Length: {}\r\n\r\n{http}\r\n\r\n", http.len());
        assert_eq!(response(&packed(&whole), 100).unwrap().body, b"body");
        for (from, to, expected) in [
            ("WARC/1.1", "WORK/1.1", "it is not a WARC record"),
            ("response", "request", "it is not a response"),
            ("Content-Length", "Length", "it is cut"),
            ("body\r\n\r\n", "", "it is cut"),
            ("body", "bod", "its length is wrong"),
            ("\r\n\r\nbody", "\r\n\r\nbodies", "its length is wrong"),
            ("HTTP/1.1", "GOPHER/1", "it has no HTTP response"),
            ("200 OK", "OK", "it has no status"),
            ("WARC-Type", "WARC-Payload-Digest: sha1:A\r\nWARC-Type", "its digest is wrong"),
        ] {
            let changed = whole.replacen(from, to, 1);
            // The length of the header changes with the block.
            let changed = if from.starts_with("HTTP") || from.starts_with("200") {
                let block = changed.split_once("\r\n\r\n").unwrap().1.len() - END_OF_HEAD.len();
                changed.replace(&format!("Content-Length: {}", http.len()), &format!("Content-Length: {block}"))
            } else {
                changed
            };
            assert_eq!(damage(&changed), Damaged(expected), "{from}");
        }
        assert_eq!(damage("WARC/1.1\r\n"), Damaged("its header has no end"));
        assert_eq!(response(b"not gzip", 100), Err(Damaged("its gzip member is not valid")));
        let two = [packed(&whole), packed(&whole)].concat();
        assert_eq!(response(&two, 100), Err(Damaged("its gzip member is shorter")));
    }

    #[test]
    fn a_revisit_is_no_response() {
        let revisit = Revisit { kind: RevisitKind::NotModified, url: None, date_ms: None, payload_digest: None };
        assert_eq!(response(&member(b"", Some(revisit)), 100), Err(Damaged("it is not a response")));
    }

    #[test]
    fn a_body_is_returned_up_to_the_limit_and_a_bomb_costs_no_more() {
        assert_eq!(response(&member(b"12345", None), 5).unwrap().body, b"12345");
        assert_eq!(response(&member(b"12345", None), 4), Err(RecordError::TooLarge(4)));
        let bomb = member(&vec![0; 64 << 20], None);
        assert!(bomb.len() < 1 << 20);
        assert_eq!(response(&bomb, 4), Err(RecordError::TooLarge(4)));
    }

    proptest! {
        #[test]
        fn a_written_body_is_read_back(body in proptest::collection::vec(any::<u8>(), 0..300)) {
            let archived = response(&member(&body, None), 300).unwrap();
            let content_type = Some("text/html; charset=utf-8".to_owned());
            let url = "https://a.example/".to_owned();
            prop_assert_eq!(archived, Archived { url, status: 404, content_type, robots: vec![], truncated: None, body });
        }

        #[test]
        fn no_bytes_make_it_panic(at in 0_usize..400, byte: u8, cut in 0_usize..400) {
            let mut member = member(b"<html>", None);
            let length = member.len();
            member[at % length] = byte;
            member.truncate(length - cut % length);
            let _ = response(&member, 10);
        }
    }
}
