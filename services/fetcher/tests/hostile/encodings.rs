//! Encoded bodies: bombs, layers, broken ones and ones that are not encoded.

use std::{io::Write as _, time::Duration};

use flate2::{
    Compression,
    write::{DeflateEncoder, GzEncoder, ZlibEncoder},
};
use futures::future::join_all;

use super::{
    client::{Asked, Asker, MAX_BODY, config},
    server::{HOSTILE, Server, Step},
};

const TEXT: &[u8] = b"<p>hello, hello, hello, hello</p>";
const WHOLE: &str = "200, 33 bytes";
const FAILED: &str = "failed: body";
const CUT: &str = "200, 65536 bytes, cut";

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(vec![], Compression::best());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn zlib(body: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(vec![], Compression::best());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn deflate(body: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(vec![], Compression::best());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn brotli(body: &[u8]) -> Vec<u8> {
    let mut encoder = brotli::CompressorWriter::new(vec![], 4096, 5, 22);
    encoder.write_all(body).unwrap();
    encoder.into_inner()
}

fn zstd(body: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(body, 3).unwrap()
}

/// Returns a zstd frame of a few bytes that declares a window of this size.
fn zstd_with_window(log: u8) -> Vec<u8> {
    let block = [&(((TEXT.len() as u32) << 3) | 1).to_le_bytes()[..3], TEXT].concat();
    [&[0x28, 0xb5, 0x2f, 0xfd, 0, (log - 10) << 3][..], &block].concat()
}

/// Sends a body in pieces of at most `piece` bytes, with these headers.
async fn asked_in(headers: &str, body: &[u8], piece: usize) -> Asked {
    let head = format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    let pieces = body.chunks(piece.max(1)).map(|piece| Step::Send(piece.into()));
    let server = Server::start(std::iter::once(Step::Send(head.into())).chain(pieces).collect()).await;
    Asker::new(&config()).ask_before_next(&server).await
}

/// Compares outcomes, which must not depend on the packets.
async fn assert_outcomes(cases: Vec<(&str, Vec<u8>, &str)>) {
    let found = join_all(cases.iter().map(|(encoding, body, _)| async move {
        let headers = format!("Content-Encoding: {encoding}\r\n");
        let small = if body.len() < 1000 { 1 } else { 1000 };
        let (whole, pieces) = tokio::join!(asked_in(&headers, body, usize::MAX), asked_in(&headers, body, small));
        [whole, pieces]
    }));
    let mut wrong = vec![];
    for (found, (encoding, body, expected)) in found.await.iter().zip(&cases) {
        for found in
            found.iter().filter(|found| found.text() != *expected || found.reserved > 2 * MAX_BODY + (16 << 20))
        {
            let (text, reserved) = (found.text(), found.reserved);
            wrong.push(format!("{encoding}, {} bytes: {text} instead of {expected}, {reserved} bytes", body.len()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn every_coding_that_is_accepted_is_decoded_whatever_its_spelling() {
    assert_outcomes(vec![
        ("gzip", gzip(TEXT), WHOLE),
        ("x-gzip", gzip(TEXT), WHOLE),
        ("GZip", gzip(TEXT), WHOLE),
        ("br", brotli(TEXT), WHOLE),
        ("zstd", zstd(TEXT), WHOLE),
        ("zstd", [zstd(&TEXT[..5]), zstd(&TEXT[5..])].concat(), WHOLE),
        ("deflate", zlib(TEXT), WHOLE),
        // As browsers do: many servers take the name literally.
        ("deflate", deflate(TEXT), WHOLE),
        ("identity", TEXT.to_vec(), WHOLE),
        ("", TEXT.to_vec(), WHOLE),
        ("identity, gzip", gzip(TEXT), WHOLE),
        ("gzip", vec![], "200, 0 bytes"),
        ("br", vec![], "200, 0 bytes"),
        ("zstd", vec![], "200, 0 bytes"),
        ("deflate", vec![], "200, 0 bytes"),
    ])
    .await;
}

#[tokio::test]
async fn two_layers_are_decoded_and_more_are_not() {
    let layers = |number: usize| (0..number).fold(TEXT.to_vec(), |body, _| gzip(&body));
    assert_outcomes(vec![
        ("gzip, gzip", layers(2), WHOLE),
        ("gzip, br", brotli(&gzip(TEXT)), WHOLE),
        ("gzip\r\nContent-Encoding: br", brotli(&gzip(TEXT)), WHOLE),
        ("gzip, gzip, gzip", layers(3), FAILED),
        (&["gzip"; 100].join(", "), layers(100), FAILED),
    ])
    .await;
}

#[tokio::test]
async fn an_encoded_body_that_is_not_decoded_is_no_page() {
    assert_outcomes(vec![
        ("compress", TEXT.to_vec(), FAILED),
        ("aes128gcm", TEXT.to_vec(), FAILED),
        ("dcb", TEXT.to_vec(), FAILED),
        ("gzip, nonsense", gzip(TEXT), FAILED),
        ("utf-8", TEXT.to_vec(), FAILED),
    ])
    .await;
}

#[tokio::test]
async fn bombs_are_cut_at_the_limit_of_decoded_bytes() {
    let zeros = vec![0; 32 << 20];
    assert_outcomes(vec![
        ("gzip", gzip(&zeros), CUT),
        ("deflate", zlib(&zeros), CUT),
        ("br", brotli(&zeros), CUT),
        ("zstd", zstd(&zeros), CUT),
        ("gzip, gzip", gzip(&gzip(&zeros)), CUT),
        ("br, gzip", gzip(&brotli(&zeros)), CUT),
    ])
    .await;
}

#[tokio::test]
async fn the_window_of_a_decoder_is_memory_of_its_request() {
    let text = TEXT.repeat(10_000);
    for (encoding, body, window) in
        [("gzip", gzip(&text), 32 << 10), ("br", brotli(&text), MAX_BODY), ("zstd", zstd(&text), MAX_BODY)]
    {
        let asked = asked_in(&format!("Content-Encoding: {encoding}\r\n"), &body, usize::MAX).await;
        assert_eq!((asked.text().as_str(), asked.reserved), (CUT, MAX_BODY + window), "{encoding}");
    }
}

#[tokio::test]
async fn windows_are_bounded() {
    let cases = [(23, WHOLE), (24, FAILED), (27, FAILED), (41, FAILED)];
    assert_outcomes(cases.map(|(log, expected)| ("zstd", zstd_with_window(log), expected)).into()).await;
    // Of a gibibyte, by the first two bytes (RFC 9841 section 9.1); an empty last block follows.
    assert_outcomes(vec![("br", vec![0x11, 30 | 0xc0], FAILED)]).await;
}

#[tokio::test]
async fn encoded_bytes_that_decode_to_nothing_are_bounded() {
    // A zstd frame to be skipped, an empty block of deflate, and an empty block of brotli's metadata.
    let frame = [&[0x50, 0x2a, 0x4d, 0x18][..], &8_u32.to_le_bytes(), &[0; 8]].concat().repeat(1000);
    let header = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    for (encoding, start, again) in [
        ("zstd", &[][..], frame),
        ("gzip", &header[..], [0, 0, 0, 0xff, 0xff].repeat(1000)),
        ("deflate", &[0x78, 0x9c][..], [0, 0, 0, 0xff, 0xff].repeat(1000)),
    ] {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\n\r\n");
        let script = vec![Step::Send([head.as_bytes(), start].concat()), Step::Repeat(again, Duration::ZERO)];
        let server = Server::start(script).await;
        assert_eq!(Asker::new(&config()).ask(&server.url(HOSTILE)).await.text(), FAILED, "{encoding}");
    }
}

#[tokio::test]
async fn a_layer_that_grows_and_decodes_to_little_is_bounded() {
    let whole = gzip(TEXT);
    let (header, data) = whole.split_at(10);
    // Two thousand empty blocks before the data are within the limit, and two million are not.
    let inner = |blocks: usize| [header, &[0, 0, 0, 0xff, 0xff].repeat(blocks), data].concat();
    let (few, many) = (gzip(&inner(2000)), gzip(&inner(2_000_000)));
    assert!(many.len() < MAX_BODY);
    assert_outcomes(vec![("gzip, gzip", few, WHOLE), ("gzip, gzip", many, FAILED)]).await;
}

#[tokio::test]
async fn a_body_that_is_not_what_its_header_says_is_a_broken_body() {
    let (mut checksum, mut length) = (gzip(TEXT), gzip(TEXT));
    let end = checksum.len();
    checksum[end - 8] ^= 1;
    length[end - 4] ^= 1;
    let cut = |body: Vec<u8>| body[..body.len() - 9].to_vec();
    assert_outcomes(vec![
        ("gzip", TEXT.to_vec(), FAILED),
        ("br", TEXT.to_vec(), FAILED),
        ("zstd", TEXT.to_vec(), FAILED),
        ("deflate", b"\xff\xff\xff".to_vec(), FAILED),
        ("gzip", zlib(TEXT), FAILED),
        ("gzip", checksum, FAILED),
        ("gzip", length, FAILED),
        ("gzip", cut(gzip(TEXT)), FAILED),
        ("deflate", cut(zlib(TEXT)), FAILED),
        ("deflate", cut(deflate(TEXT)), FAILED),
        ("br", cut(brotli(TEXT)), FAILED),
        ("zstd", cut(zstd(TEXT)), FAILED),
        ("gzip", gzip(TEXT)[..5].to_vec(), FAILED),
    ])
    .await;
}

#[tokio::test]
async fn bytes_after_the_end_of_a_coding_are_ignored_as_in_browsers() {
    assert_outcomes(vec![
        ("gzip", [gzip(TEXT), vec![0; 100]].concat(), WHOLE),
        ("gzip", [gzip(TEXT), b"<!-- served in 3 ms -->".to_vec()].concat(), WHOLE),
        ("gzip", [gzip(TEXT), gzip(b"another member")].concat(), WHOLE),
        ("deflate", [zlib(TEXT), vec![0; 100]].concat(), WHOLE),
        ("br", [brotli(TEXT), vec![0; 100]].concat(), WHOLE),
    ])
    .await;
}
