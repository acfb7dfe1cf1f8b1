//! Text of a body: as it is, or as a stream that expands gzip and decodes to UTF-8.

use std::io;

use encoding_rs::UTF_8;

use crate::{encoding, gzip::is_gzip, stream::Stream, value::is_space};

/// Text of a body, without white space at its start.
pub(crate) enum Input<'a> {
    Whole(&'a str),
    Stream(Stream<'a>),
}

impl<'a> Input<'a> {
    /// Opens a body: UTF-8 is used in place, all else is a stream.
    ///
    /// # Errors
    /// Gzip data without a readable start.
    pub(crate) fn open(body: &'a [u8], expanded_bytes: usize) -> io::Result<Self> {
        let (encoding, mark) = encoding::detect(body);
        if !is_gzip(body)
            && encoding == UTF_8
            && let Ok(text) = std::str::from_utf8(&body[mark..])
        {
            return Ok(Self::Whole(text.trim_start_matches(is_space)));
        }
        Stream::open(body, expanded_bytes).map(Self::Stream)
    }

    /// Returns the first bytes, at least `count` unless the text is shorter.
    ///
    /// # Errors
    /// Gzip data that cannot be expanded.
    pub(crate) fn peek(&mut self, count: usize) -> io::Result<&[u8]> {
        match self {
            Self::Whole(text) => Ok(text.as_bytes()),
            Self::Stream(stream) => stream.peek(count),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(vec![], Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn text(body: &[u8], expanded_bytes: usize) -> (String, bool) {
        match Input::open(body, expanded_bytes).unwrap() {
            Input::Whole(text) => (text.to_owned(), true),
            Input::Stream(mut stream) => {
                let mut bytes = vec![];
                let is_whole = stream.read_to_end(&mut bytes).is_ok();
                (String::from_utf8(bytes).unwrap(), is_whole)
            }
        }
    }

    #[test]
    fn bytes_of_any_encoding_become_utf_8() {
        let long = "é🦀 ".repeat(20_000);
        let le: Vec<u8> = "\u{feff} <é🦀".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let be: Vec<u8> = "\u{feff}<é🦀".encode_utf16().flat_map(u16::to_be_bytes).collect();
        for body in ["\u{feff}\n<é🦀".as_bytes(), &le, &be, &gzip(&le), &gzip("<é🦀".as_bytes())] {
            assert_eq!(text(body, 1000), ("<é🦀".to_owned(), true));
        }
        assert_eq!(text(&gzip(long.as_bytes()), 1 << 20), (long, true));
        assert_eq!(text(b"a\xff\xc3", 1000), ("a\u{fffd}\u{fffd}".to_owned(), true));
        let latin = b"<?xml version='1.0' encoding='iso-8859-1'?>\xe9";
        assert!(text(latin, 1000).0.ends_with("?>é"));
        assert!(text(&gzip(latin), 1000).0.ends_with("?>é"));
    }

    #[test]
    fn gzip_may_have_several_members_and_ends_at_the_limit() {
        let body = [gzip(b"ab"), gzip(b"cd")].concat();
        assert_eq!(text(&body, 4), ("abcd".to_owned(), true));
        assert_eq!(text(&body, 3), ("abc".to_owned(), false));
        assert_eq!(text(&body[..body.len() - 1], 4), ("abcd".to_owned(), false));
    }
}
