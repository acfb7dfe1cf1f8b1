//! Writes a WARC file with captures of every kind, and its index, to check them with other programs:
//! `cargo run -p orbweaver-warc --example sample -- sample.warc.gz` also writes `sample.cdxj`.

use std::{
    fs::File,
    io::{self, BufWriter, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use orbweaver_warc::{Capture, Info, Protocol, Revisit, RevisitKind, Truncated, WarcWriter, Written, index_line};

const DATE_MS: i64 = 1_700_000_000_123;

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn capture<'a>(url: &'a str, headers: &'a [(String, String)], body: &'a [u8]) -> Capture<'a> {
    Capture {
        url,
        date_ms: DATE_MS,
        ip: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        protocol: Protocol::Http11,
        request: None,
        status: 200,
        reason: None,
        headers,
        body,
        truncated: None,
        revisit: None,
        metadata: &[],
    }
}

/// A file and the lines of its index.
struct Indexed {
    writer: WarcWriter<BufWriter<File>>,
    lines: Vec<String>,
}

impl Indexed {
    fn write(&mut self, capture: &Capture<'_>) -> io::Result<Written> {
        let written = self.writer.write(capture)?;
        self.lines.push(index_line("sample.warc.gz", capture, &written));
        Ok(written)
    }
}

fn main() -> io::Result<()> {
    let path = std::env::args().nth(1).ok_or_else(|| io::Error::other("usage: sample PATH"))?;
    let fields = [
        ("software", "orbweaver/0.1"),
        ("format", "WARC File Format 1.1"),
        ("conformsTo", "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"),
        ("http-header-user-agent", "orbweaver/0.1"),
        ("robots", "classic"),
        ("isPartOf", "sample"),
        ("description", "captures of\r\nevery kind"),
    ];
    let info = Info { filename: "sample.warc.gz", date_ms: DATE_MS, fields: &fields };
    let index = File::create(path.replace(".warc.gz", "") + ".cdxj")?;
    let mut writer = Indexed { writer: WarcWriter::new(BufWriter::new(File::create(path)?), &info)?, lines: vec![] };
    let html =
        pairs(&[("Content-Type", "text/html; charset=utf-8"), ("Content-Encoding", "br"), ("Content-Length", "9")]);
    let request = pairs(&[("Host", "a.example"), ("User-Agent", "orbweaver/0.1"), ("Accept-Encoding", "gzip, br")]);
    let page = "<!doctype html><title>Größe</title><p>Hello".as_bytes();
    let metadata = [("fetchTimeMs", "120".to_owned()), ("via", "http://a.example/".to_owned())];

    let first = Capture {
        protocol: Protocol::Http2,
        request: Some(&request),
        metadata: &metadata,
        ..capture("https://a.example/?b=c&a=b", &html, page)
    };
    let written = writer.write(&first)?;
    let revisit = |kind| Revisit {
        kind,
        url: Some(first.url),
        date_ms: Some(DATE_MS),
        payload_digest: written.payload_digest.as_deref(),
    };
    let later = Capture { date_ms: DATE_MS + 60_000, ip: Some(IpAddr::V6(Ipv6Addr::LOCALHOST)), ..first };
    writer.write(&Capture { revisit: Some(revisit(RevisitKind::IdenticalPayload)), ..later })?;
    let unchanged = pairs(&[("ETag", "\"1\""), ("Content-Length", "900")]);
    let unchanged = Capture { status: 304, headers: &unchanged, body: b"", ..later };
    writer.write(&Capture { revisit: Some(revisit(RevisitKind::NotModified)), ..unchanged })?;
    let unknown = Revisit { kind: RevisitKind::NotModified, url: None, date_ms: None, payload_digest: None };
    writer.write(&Capture { date_ms: DATE_MS + 90_000, revisit: Some(unknown), ..unchanged })?;

    let redirect = pairs(&[("Location", "/new"), ("Content-Length", "0")]);
    writer.write(&Capture { status: 301, ..capture("http://a.example/old", &redirect, b"") })?;
    let text = pairs(&[("Content-Type", "text/plain")]);
    let missing = Capture {
        status: 404,
        reason: Some("Nothing Here"),
        protocol: Protocol::Http10,
        ..capture("http://a.example/missing", &text, b"missing")
    };
    writer.write(&missing)?;
    writer.write(&Capture { status: 299, ..capture("http://a.example/unusual-status", &text, b"unusual") })?;
    for (number, reason) in
        [Truncated::Length, Truncated::Time, Truncated::Disconnect, Truncated::Unspecified].iter().enumerate()
    {
        let url = format!("http://a.example/cut/{number}");
        writer
            .write(&Capture { truncated: Some(*reason), ..capture(&url, &html, page.get(..20).unwrap_or_default()) })?;
    }
    let odd = pairs(&[
        ("Set-Cookie", "a=1"),
        ("Set-Cookie", "b=2"),
        ("X-Größe", "größe 日本"),
        ("X-Split", "a\r\nX-Injected: b\0"),
        ("X-Bad\r\nName: x", "c"),
        ("", "dropped"),
        ("X-Empty", ""),
        ("Transfer-Encoding", "chunked"),
        ("Content-Length ", "1000"),
        ("Content-Type", "text/html"),
    ]);
    writer.write(&Capture { request: Some(&odd), ..capture("http://a.example/odd-headers", &odd, page) })?;
    for url in [
        "http://a.example/ü b?q=a|b{c}[d]^`\\\"<e>\r\n#f",
        "http://[::1]:8080/a;b=c/%zz?x=%E0%A4%A",
        "https://a.example/日本?größe",
    ] {
        writer.write(&Capture { request: Some(&request), ..capture(url, &text, b"odd URL") })?;
    }
    let binary: Vec<u8> = (0..100_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let image = pairs(&[("Content-Type", "image/png"), ("Content-Length", "100000")]);
    writer.write(&capture("http://a.example/binary.png", &image, &binary))?;
    writer.write(&capture("http://a.example/line-ends", &text, b"\r\n\r\nWARC/1.1\r\n\r\n"))?;
    writer.write(&capture("http://a.example/empty", &[], b""))?;
    writer.writer.get_mut().flush()?;
    writer.lines.sort_unstable();
    writer.lines.iter().try_for_each(|line| writeln!(&index, "{line}"))
}
