//! Writer of a file.

use std::io::{self, Write};

use crate::{
    Capture, Info, Protocol, RevisitKind, Written,
    digest::{payload_digest, record_id},
    fields::{date, push_clean, push_field, target_uri},
    http::{request_head, response_head},
    record::{Counted, Record},
};

const RESPONSE: &str = "application/http;msgtype=response";
const REQUEST: &str = "application/http;msgtype=request";
const FIELDS: &str = "application/warc-fields";

/// Writer of one WARC file, each record of which is a gzip member of its own. A failed write may leave part of a record
/// behind: the file is valid up to [`bytes`](Self::bytes), and each later write fails.
#[derive(Debug)]
pub struct WarcWriter<W> {
    output: Counted<W>,
    filename: String,
    /// Id of the `warcinfo` record.
    info_id: String,
    /// Number of record ids in use.
    records: u64,
    /// End of the last capture that is complete.
    end: u64,
    is_broken: bool,
}

impl<W: Write> WarcWriter<W> {
    /// Writes the `warcinfo` record into an empty output.
    ///
    /// # Errors
    /// Those of the output.
    pub fn new(output: W, info: &Info<'_>) -> io::Result<Self> {
        let mut writer = Self {
            output: Counted { output, bytes: 0 },
            filename: info.filename.to_owned(),
            info_id: record_id(info.filename, 0),
            records: 1,
            end: 0,
            is_broken: false,
        };
        let mut fields = String::new();
        push_clean(&mut fields, "WARC-Type", "warcinfo");
        push_clean(&mut fields, "WARC-Record-ID", &writer.info_id);
        push_clean(&mut fields, "WARC-Date", &date(info.date_ms));
        push_clean(&mut fields, "WARC-Filename", info.filename);
        let mut block = String::new();
        for (name, value) in info.fields {
            push_field(&mut block, name, value);
        }
        let record = Record { fields, content_type: FIELDS, head: &block, body: b"" };
        record.write(&mut writer.output)?;
        writer.end = writer.output.bytes;
        Ok(writer)
    }

    /// Writes the records of one capture: `response` or `revisit`, then `request` and `metadata` as far as they are
    /// known.
    ///
    /// # Errors
    /// Those of the output; [`io::ErrorKind::InvalidInput`] for an empty URL, of which nothing is written;
    /// [`io::ErrorKind::Other`] after an earlier error of the output.
    pub fn write(&mut self, capture: &Capture<'_>) -> io::Result<Written> {
        let uri = target_uri(capture.url);
        if uri.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the URL of the capture is empty"));
        }
        if self.is_broken {
            let message = format!("an earlier write failed: cut the file to {} bytes and begin another", self.end);
            return Err(io::Error::other(message));
        }
        self.is_broken = true;
        let written = self.write_response(capture, &uri)?;
        if let Some(headers) = capture.request {
            let (_, mut fields) = self.fields("request", capture, &uri);
            push_clean(&mut fields, "WARC-Protocol", protocol(capture, &uri));
            push_clean(&mut fields, "WARC-Concurrent-To", &written.record_id);
            let head = request_head(&uri, headers);
            Record { fields, content_type: REQUEST, head: &head, body: b"" }.write(&mut self.output)?;
        }
        let mut block = String::new();
        for (name, value) in capture.metadata {
            push_field(&mut block, name, value);
        }
        if !block.is_empty() {
            let (_, mut fields) = self.fields("metadata", capture, &uri);
            push_clean(&mut fields, "WARC-Concurrent-To", &written.record_id);
            Record { fields, content_type: FIELDS, head: &block, body: b"" }.write(&mut self.output)?;
        }
        self.end = self.output.bytes;
        self.is_broken = false;
        Ok(written)
    }

    /// Writes a `response` or `revisit` record.
    fn write_response(&mut self, capture: &Capture<'_>, uri: &str) -> io::Result<Written> {
        let kind = capture.revisit.map(|revisit| revisit.kind);
        let (id, mut fields) = self.fields(if kind.is_some() { "revisit" } else { "response" }, capture, uri);
        push_clean(&mut fields, "WARC-Protocol", protocol(capture, uri));
        if let Some(revisit) = capture.revisit {
            push_clean(&mut fields, "WARC-Profile", revisit.kind.profile());
            if let Some(url) = revisit.url {
                push_clean(&mut fields, "WARC-Refers-To-Target-URI", &target_uri(url));
            }
            if let Some(date_ms) = revisit.date_ms {
                push_clean(&mut fields, "WARC-Refers-To-Date", &date(date_ms));
            }
        }
        let given = capture.revisit.and_then(|revisit| revisit.payload_digest.map(str::to_owned));
        let of_body = || (kind != Some(RevisitKind::NotModified)).then(|| payload_digest(capture.body));
        let digest = given.or_else(of_body);
        if let Some(digest) = &digest {
            push_clean(&mut fields, "WARC-Payload-Digest", digest);
        }
        // The standard has an identical payload marked as cut by its length.
        let without_body = (kind == Some(RevisitKind::IdenticalPayload)).then_some("length");
        if let Some(reason) = capture.truncated.map(crate::Truncated::name).or(without_body) {
            push_clean(&mut fields, "WARC-Truncated", reason);
        }
        let is_length_known = match kind {
            None => true,
            Some(RevisitKind::IdenticalPayload) => !capture.body.is_empty(),
            Some(RevisitKind::NotModified) => false,
        };
        let head = response_head(capture, is_length_known.then_some(capture.body.len()));
        let body = if kind.is_some() { b"" } else { capture.body };
        let offset = self.output.bytes;
        Record { fields, content_type: RESPONSE, head: &head, body }.write(&mut self.output)?;
        Ok(Written { offset, length: self.output.bytes - offset, payload_digest: digest, record_id: id })
    }

    /// Returns the id of the next record, and the lines that all records of a capture have.
    fn fields(&mut self, kind: &str, capture: &Capture<'_>, uri: &str) -> (String, String) {
        let id = record_id(&self.filename, self.records);
        self.records += 1;
        let mut fields = String::new();
        push_clean(&mut fields, "WARC-Type", kind);
        push_clean(&mut fields, "WARC-Record-ID", &id);
        push_clean(&mut fields, "WARC-Date", &date(capture.date_ms));
        push_clean(&mut fields, "WARC-Target-URI", uri);
        push_clean(&mut fields, "WARC-Warcinfo-ID", &self.info_id);
        if let Some(ip) = capture.ip {
            push_clean(&mut fields, "WARC-IP-Address", &ip.to_string());
        }
        (id, fields)
    }

    /// Returns the number of compressed bytes up to the end of the last complete capture.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.end
    }

    /// Returns the output, for example to flush it. Writing to it directly damages the file.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.output.output
    }

    /// Returns the output. The file is complete; the output is not flushed.
    pub fn into_inner(self) -> W {
        self.output.output
    }
}

/// Returns the value of `WARC-Protocol`, a field that WARC 1.1 lacks and that the community has agreed on in
/// <https://github.com/iipc/warc-specifications/issues/42>.
fn protocol(capture: &Capture<'_>, uri: &str) -> &'static str {
    match capture.protocol {
        Protocol::Http10 => "http/1.0",
        Protocol::Http11 => "http/1.1",
        Protocol::Http2 if uri.starts_with("http:") => "h2c",
        Protocol::Http2 => "h2",
    }
}
