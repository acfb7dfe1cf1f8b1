//! Records of captures of each kind, read back.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod reader;

use std::{
    collections::HashSet,
    io::{self, ErrorKind, Write},
    net::{IpAddr, Ipv4Addr},
};

use orbweaver_warc::{Capture, Info, Protocol, Revisit, RevisitKind, Truncated, WarcWriter, Written, payload_digest};
use reader::{Record, all, read, value};

const INFO: Info<'_> = Info { filename: "a.warc.gz", date_ms: 1_000, fields: &[("software", "orbweaver")] };

const PLAIN: Capture<'_> = Capture {
    url: "http://a.example/b?c",
    date_ms: 1_700_000_000_120,
    ip: None,
    protocol: Protocol::Http11,
    request: None,
    status: 200,
    reason: None,
    headers: &[],
    body: b"body",
    truncated: None,
    revisit: None,
    metadata: &[],
};

fn write(captures: &[Capture<'_>]) -> (Vec<u8>, Vec<Written>) {
    let mut writer = WarcWriter::new(vec![], &INFO).unwrap();
    let written = captures.iter().map(|capture| writer.write(capture).unwrap()).collect();
    let bytes = writer.bytes();
    let file = writer.into_inner();
    assert_eq!(bytes, file.len() as u64);
    (file, written)
}

fn only(capture: &Capture<'_>) -> Record {
    read(&write(&[*capture]).0).remove(1)
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn full<'a>(request: &'a [(String, String)], metadata: &'a [(&'a str, String)]) -> Capture<'a> {
    Capture { request: Some(request), metadata, ip: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), ..PLAIN }
}

#[test]
fn each_record_is_a_gzip_member_that_begins_at_its_offset() {
    let metadata = [("via", "http://a.example/".to_owned())];
    let (file, written) = write(&[full(&[], &metadata), PLAIN, full(&[], &[])]);
    let records = read(&file);
    let kinds: Vec<_> = records.iter().map(|record| record.get("WARC-Type").unwrap()).collect();
    assert_eq!(kinds, ["warcinfo", "response", "request", "metadata", "response", "response", "request"]);
    for (written, record) in written.iter().zip([1, 4, 5].map(|at: usize| &records[at])) {
        assert_eq!((written.offset, written.length), (record.offset, record.length));
        assert_eq!(Some(&*written.record_id), record.get("WARC-Record-ID"));
        assert_eq!(written.payload_digest.as_deref(), record.get("WARC-Payload-Digest"));
    }
}

#[test]
fn the_first_record_describes_the_file() {
    let record = read(&write(&[]).0).remove(0);
    assert_eq!(record.get("WARC-Type"), Some("warcinfo"));
    assert_eq!(record.get("WARC-Filename"), Some("a.warc.gz"));
    assert_eq!(record.get("WARC-Date"), Some("1970-01-01T00:00:01.000Z"));
    assert_eq!(record.get("Content-Type"), Some("application/warc-fields"));
    assert_eq!(record.block, b"software: orbweaver\r\n");
}

#[test]
fn the_records_of_a_capture_refer_to_its_response_and_to_the_file() {
    let metadata = [("via", "http://a.example/\r\n".to_owned()), ("", "dropped".to_owned())];
    let request = [pair("Host", "a.example")];
    let (file, written) = write(&[full(&request, &metadata)]);
    let records = read(&file);
    for record in &records[1..] {
        assert_eq!(record.get("WARC-Warcinfo-ID"), records[0].get("WARC-Record-ID"));
        assert_eq!(record.get("WARC-Target-URI"), Some("http://a.example/b?c"));
        assert_eq!(record.get("WARC-Date"), Some("2023-11-14T22:13:20.120Z"));
        assert_eq!(record.get("WARC-IP-Address"), Some("127.0.0.1"));
    }
    for record in &records[2..] {
        assert_eq!(record.get("WARC-Concurrent-To"), Some(&*written[0].record_id));
    }
    assert_eq!(records[2].block, b"GET /b?c HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_eq!(records[3].block, b"via: http://a.example/\r\n");
}

#[test]
fn metadata_without_fields_has_no_record() {
    assert_eq!(read(&write(&[Capture { metadata: &[("", String::new())], ..PLAIN }]).0).len(), 2);
}

#[test]
fn a_response_describes_the_decoded_body() {
    let headers = [pair("Content-Encoding", "gzip"), pair("content-length", "99"), pair("A", "1"), pair("A", "2")];
    let record = only(&Capture { headers: &headers, ..PLAIN });
    assert_eq!(record.get("WARC-Payload-Digest"), Some(&*payload_digest(b"body")));
    assert_eq!(record.get("Content-Type"), Some("application/http;msgtype=response"));
    let message = record.message();
    assert_eq!((&*message.line, &*message.body), ("HTTP/1.1 200 OK", &b"body"[..]));
    assert_eq!(value(&message.fields, "Content-Length"), Some("4"));
    assert_eq!(value(&message.fields, "X-Archive-Orig-Content-Length"), Some("99"));
    assert_eq!(value(&message.fields, "X-Archive-Orig-Content-Encoding"), Some("gzip"));
    assert_eq!(all(&message.fields, "A"), ["1", "2"]);
}

#[test]
fn the_status_line_is_that_of_http_1() {
    for (protocol, url, version, name) in [
        (Protocol::Http10, "http://a.example/", "HTTP/1.0", "http/1.0"),
        (Protocol::Http11, "https://a.example/", "HTTP/1.1", "http/1.1"),
        (Protocol::Http2, "https://a.example/", "HTTP/1.1", "h2"),
        (Protocol::Http2, "http://a.example/", "HTTP/1.1", "h2c"),
    ] {
        let record = only(&Capture { protocol, url, status: 404, ..PLAIN });
        assert_eq!(record.message().line, format!("{version} 404 Not Found"));
        assert_eq!(record.get("WARC-Protocol"), Some(name));
    }
    for (status, reason, end) in
        [(404, Some("No\r\nway"), "404 No  way"), (299, None, "299 "), (5, None, "005 "), (u16::MAX, None, "999 ")]
    {
        assert_eq!(only(&Capture { status, reason, ..PLAIN }).message().line, format!("HTTP/1.1 {end}"));
    }
}

#[test]
fn a_body_that_was_cut_has_its_reason_and_its_own_length() {
    let headers = [pair("Content-Length", "1000")];
    for (truncated, name) in [
        (Truncated::Length, "length"),
        (Truncated::Time, "time"),
        (Truncated::Disconnect, "disconnect"),
        (Truncated::Unspecified, "unspecified"),
    ] {
        let record = only(&Capture { truncated: Some(truncated), headers: &headers, ..PLAIN });
        assert_eq!(record.get("WARC-Truncated"), Some(name));
        assert_eq!(value(&record.message().fields, "Content-Length"), Some("4"));
    }
    assert_eq!(only(&PLAIN).get("WARC-Truncated"), None);
}

#[test]
fn a_revisit_has_a_head_and_names_the_earlier_capture() {
    let headers = [pair("Content-Length", "1000")];
    let revisit = |kind, payload_digest| {
        let revisit = Revisit { kind, url: Some("http://a.example/ü"), date_ms: Some(0), payload_digest };
        let capture = Capture { revisit: Some(revisit), headers: &headers, ..PLAIN };
        let (file, mut written) = write(&[capture]);
        let record = read(&file).remove(1);
        assert_eq!(record.get("WARC-Type"), Some("revisit"));
        assert_eq!(record.get("WARC-Refers-To-Target-URI"), Some("http://a.example/%C3%BC"));
        assert_eq!(record.get("WARC-Refers-To-Date"), Some("1970-01-01T00:00:00.000Z"));
        assert_eq!(record.message().body, b"");
        assert_eq!(record.get("WARC-Payload-Digest"), written[0].payload_digest.as_deref());
        (record, written.remove(0).payload_digest)
    };
    let (record, digest) = revisit(RevisitKind::IdenticalPayload, None);
    assert_eq!(record.get("WARC-Profile"), Some("http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"));
    assert_eq!(record.get("WARC-Truncated"), Some("length"));
    assert_eq!(digest, Some(payload_digest(b"body")));
    assert_eq!(value(&record.message().fields, "Content-Length"), Some("4"));

    let (record, digest) = revisit(RevisitKind::NotModified, None);
    assert_eq!(record.get("WARC-Profile"), Some("http://netpreserve.org/warc/1.1/revisit/server-not-modified"));
    assert_eq!((record.get("WARC-Truncated"), digest), (None, None));
    assert_eq!(value(&record.message().fields, "Content-Length"), None);

    for kind in [RevisitKind::NotModified, RevisitKind::IdenticalPayload] {
        assert_eq!(revisit(kind, Some("sha1:A")).1.as_deref(), Some("sha1:A"));
    }
}

#[test]
fn a_file_is_a_function_of_its_input_and_no_id_occurs_twice() {
    let captures = [full(&[], &[]), PLAIN, full(&[], &[])];
    let (file, _) = write(&captures);
    assert_eq!(file, write(&captures).0);
    let mut other = WarcWriter::new(vec![], &Info { filename: "b.warc.gz", ..INFO }).unwrap();
    captures.iter().for_each(|capture| drop(other.write(capture).unwrap()));
    let mut records = read(&file);
    records.extend(read(&other.into_inner()));
    let ids: HashSet<_> = records.iter().map(|record| record.get("WARC-Record-ID").unwrap()).collect();
    assert_eq!((ids.len(), records.len()), (12, 12));
}

#[test]
fn an_empty_url_is_rejected_and_nothing_is_written() {
    let mut writer = WarcWriter::new(vec![], &INFO).unwrap();
    let bytes = writer.bytes();
    assert_eq!(writer.write(&Capture { url: " \r\n", ..PLAIN }).unwrap_err().kind(), ErrorKind::InvalidInput);
    writer.write(&PLAIN).unwrap();
    assert!(writer.bytes() > bytes);
    assert_eq!(read(&writer.into_inner()).len(), 2);
}

/// Output that is full after some bytes.
struct Full(Vec<u8>, usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = (self.1 - self.0.len()).min(bytes.len());
        self.0.extend(&bytes[..room]);
        if room == 0 { Err(ErrorKind::StorageFull.into()) } else { Ok(room) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_file_is_valid_up_to_its_last_complete_capture_after_an_error() {
    let captures = [full(&[], &[]), full(&[], &[])];
    let (file, written) = write(&captures);
    for room in 1..file.len() {
        let Ok(mut writer) = WarcWriter::new(Full(vec![], room), &INFO) else { continue };
        let failed = captures.iter().filter(|capture| writer.write(capture).is_err()).count();
        assert!(failed > 0);
        let error = writer.write(&PLAIN).unwrap_err();
        assert!(error.to_string().contains(&format!("cut the file to {} bytes", writer.bytes())), "{error}");
        let bytes = usize::try_from(writer.bytes()).unwrap();
        assert_eq!(bytes as u64, if failed == 2 { written[0].offset } else { written[1].offset });
        assert_eq!(read(&writer.into_inner().0[..bytes]).len(), if failed == 2 { 1 } else { 3 });
    }
}
