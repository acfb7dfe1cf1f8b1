//! Captures from a hostile web are written as records that a strict reader accepts.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod reader;

use orbweaver_warc::{Capture, Info, Protocol, Revisit, RevisitKind, Truncated, WarcWriter, payload_digest};
use proptest::{
    collection::vec,
    option,
    prelude::{Just, Strategy, any, prop_oneof, proptest},
    sample::select,
};
use reader::{all, read, value};

fn text() -> impl Strategy<Value = String> {
    let odd = select("\r\n\0\t :\u{85}\u{2028}\u{7f}é<>\"%#?/日".chars().collect::<Vec<_>>());
    vec(prop_oneof![2 => odd, 1 => any::<char>(), 2 => select(vec!['a', 'B', '7'])], 0..20)
        .prop_map(|chars| chars.into_iter().collect())
}

fn name() -> impl Strategy<Value = String> {
    let known = ["Content-Length", "content-encoding", "Transfer-Encoding", "Content-Length\r", "WARC-Type", ":", ""];
    prop_oneof![text(), select(known.map(str::to_owned).to_vec())]
}

fn headers() -> impl Strategy<Value = Vec<(String, String)>> {
    vec((name(), prop_oneof![text(), Just("3".to_owned())]), 0..8)
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..200),
        Just(b"abc".to_vec()),
        Just(b"\r\n\r\nWARC/1.1\r\n".to_vec()),
        Just(vec![b' '; 100_000])
    ]
}

fn revisit(number: u8, text: &str) -> Option<Revisit<'_>> {
    let kind = [RevisitKind::NotModified, RevisitKind::IdenticalPayload].get(usize::from(number % 3)).copied()?;
    Some(Revisit { kind, url: Some(text), date_ms: Some(-1), payload_digest: None })
}

proptest! {
    #[test]
    fn any_capture_yields_records_whose_lengths_and_digests_hold(
        (url, reason, value_of_field) in (text(), option::of(text()), text()),
        (request, headers, name_of_field) in (option::of(headers()), headers(), name()),
        body in body(),
        (date_ms, status, number) in (any::<i64>(), any::<u16>(), any::<u8>()),
    ) {
        let url = format!("http://{url}");
        let filename = format!("{value_of_field}.warc.gz");
        let fields = [(&*name_of_field, &*value_of_field)];
        let mut writer = WarcWriter::new(vec![], &Info { filename: &filename, date_ms, fields: &fields }).unwrap();
        let capture = Capture {
            url: &url,
            date_ms,
            ip: None,
            protocol: [Protocol::Http10, Protocol::Http11, Protocol::Http2][usize::from(number % 3)],
            request: request.as_deref(),
            status,
            reason: reason.as_deref(),
            headers: &headers,
            body: &body,
            truncated: (number > 200).then_some(Truncated::Time),
            revisit: revisit(number / 3, &value_of_field),
            metadata: &[(&name_of_field, value_of_field.clone())],
        };
        let written = writer.write(&capture).unwrap();
        let records = read(&writer.into_inner());
        assert!((2..=4).contains(&records.len()));
        for record in &records[1..] {
            let uri = record.get("WARC-Target-URI").unwrap();
            assert!(uri.bytes().all(|byte| byte.is_ascii_graphic()), "{uri}");
            assert_eq!(record.get("WARC-Date").unwrap().len(), 24);
        }
        let response = &records[1];
        assert_eq!((response.offset, response.length), (written.offset, written.length));
        let message = response.message();
        assert!(message.line.as_bytes()[9..12].iter().all(u8::is_ascii_digit), "{}", message.line);
        for encoding in ["Content-Encoding", "Transfer-Encoding"] {
            assert!(all(&message.fields, encoding).is_empty());
        }
        let length = value(&message.fields, "Content-Length");
        if capture.revisit.is_none() {
            assert_eq!(message.body, body);
            assert_eq!(length.unwrap(), body.len().to_string());
            assert_eq!(response.get("WARC-Payload-Digest").unwrap(), payload_digest(&body));
        } else {
            assert!(message.body.is_empty());
        }
        if request.is_some() {
            let message = records[2].message();
            assert_eq!(message.line.split(' ').count(), 3);
            assert!(message.body.is_empty() && message.line.starts_with("GET /"));
        }
    }
}
