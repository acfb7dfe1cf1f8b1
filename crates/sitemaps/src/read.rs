//! Choice of the format.

use std::ops::ControlFlow;

use crate::{
    Entry, Error, Format, Limits, Report, events::Events, feed, format::begins_with_http, input::Input, json,
    output::Output, prolog::Prolog, stream::Stream, text,
};

/// Number of bytes in which [`sniff`] searches the root element, after gzip is expanded.
const SNIFF_BYTES: usize = 4096;
/// Number of bytes that [`sniff`] reads, with the white space at the start.
const READ_BYTES: usize = 16 * SNIFF_BYTES;
/// Number of bytes by which the kind of a file is known: `https://`.
const KIND_BYTES: usize = 8;

/// Reads a body with the default limits: see [`read_with`].
///
/// # Errors
/// The body is of no known format.
pub fn read(body: &[u8], sink: impl FnMut(Entry<'_>) -> ControlFlow<()>) -> Result<Report, Error> {
    read_with(body, &Limits::default(), sink)
}

/// Reads a body, and passes its entries to `sink` in the order of the file, until the sink breaks or a limit is reached.
///
/// # Errors
/// The body is of no known format, or its gzip data has no readable start. A file that is damaged further on is not an
/// error: [`Report::is_cut`] reports it.
pub fn read_with(
    body: &[u8],
    limits: &Limits,
    mut sink: impl FnMut(Entry<'_>) -> ControlFlow<()>,
) -> Result<Report, Error> {
    let open = || Input::open(body, limits.expanded_bytes);
    let gzip = |error: std::io::Error| Error::Gzip(error.to_string());
    let mut input = open().map_err(gzip)?;
    let mut output = Output::new(&mut sink, limits.entries);
    let format = match input.peek(KIND_BYTES).map_err(gzip)? {
        [b'<', ..] => feed::read(Events::new(input), &mut output)?,
        [b'{', ..] => json::read(open, &mut output)?,
        start if begins_with_http(start) => {
            match input {
                Input::Whole(lines) => text::read(lines.as_bytes(), &mut output),
                Input::Stream(lines) => text::read(lines, &mut output),
            }
            Format::Text
        }
        _ => return Err(Error::UnknownFormat),
    };
    Ok(output.report(format))
}

/// Returns the format of a body by its first 4 KiB after white space (and after gzip is expanded): by the root element, a
/// URL, or the version of a JSON Feed. `None` if it is unknown or begins later.
#[must_use]
pub fn sniff(body: &[u8]) -> Option<Format> {
    let start = body.get(..READ_BYTES).unwrap_or(body);
    let mut stream = Stream::open(start, READ_BYTES).ok()?;
    let head = stream.peek(SNIFF_BYTES).ok()?;
    let head = String::from_utf8_lossy(head.get(..SNIFF_BYTES).unwrap_or(head));
    match head.as_bytes() {
        [b'<', ..] => Prolog::read(&mut Events::new(Input::Whole(&head))).ok().map(|prolog| prolog.format),
        [b'{', ..] => json::has_version(&head).then_some(Format::JsonFeed),
        start => begins_with_http(start).then_some(Format::Text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(body: &[u8], limits: Limits) -> Result<Report, Error> {
        read_with(body, &limits, |_| ControlFlow::Continue(()))
    }

    #[test]
    fn a_format_is_known_by_its_start_behind_space_comments_and_declarations() {
        let prolog = "\u{feff} \n<?xml version='1.0'?><!-- <urlset> --><!DOCTYPE x [<!ENTITY a '<rss>'>]><?style a?>";
        for (root, format) in [
            ("<urlset>", Some(Format::Sitemap)),
            ("<s:sitemapindex a='b'>", Some(Format::Index)),
            ("<rss/>", Some(Format::Rss)),
            ("<rdf:RDF>", Some(Format::Rss)),
            ("<feed>", Some(Format::Atom)),
            ("<html>", None),
            ("", None),
        ] {
            assert_eq!(sniff(format!("{prolog}{root}").as_bytes()), format, "{root}");
            assert_eq!(sniff(root.as_bytes()), format, "{root}");
        }
        assert_eq!(sniff(b"\n\xc2\xa0Https://a.example/"), Some(Format::Text));
        assert_eq!(sniff(br#"{"version": "https://jsonfeed.org/version/1"}"#), Some(Format::JsonFeed));
        assert_eq!(sniff(br#"{"version": "1"}"#), None);
        assert_eq!(sniff(b"a.example"), None);
        assert_eq!(sniff(b"\x1f\x8b"), None);
        assert_eq!(sniff(&[b' '; 1 << 20]), None);
    }

    #[test]
    fn a_file_that_is_no_sitemap_is_an_error() {
        for body in ["", " ", "a.example", "<", "<html></html>", "{}", "{", "[]", "<!-- -->", "<?xml?>", "\0"] {
            assert_eq!(count(body.as_bytes(), Limits::default()), Err(Error::UnknownFormat), "{body}");
        }
        assert!(matches!(count(b"\x1f\x8b\x08", Limits::default()), Err(Error::Gzip(_))));
    }

    #[test]
    fn a_file_with_as_many_entries_as_the_limit_is_not_cut() {
        let body = b"http://a.example/\nhttp://b.example/";
        for (entries, is_cut) in [(0, true), (1, true), (2, false), (3, false)] {
            let report = count(body, Limits { entries, ..Limits::default() });
            assert_eq!(report.map(|report| (report.entries, report.is_cut)), Ok((entries.min(2), is_cut)));
        }
    }

    #[test]
    fn bytes_that_are_invalid_become_u_fffd_in_each_format() {
        for body in [
            &b"http://a.example/\xff"[..],
            b"<urlset><url><loc>http://a.example/\xff</loc></url></urlset>",
            b"<feed><entry><link href='http://a.example/\xff'/></entry></feed>",
            b"{\"version\": \"https://jsonfeed.org/version/1\", \"items\": [{\"url\": \"http://a.example/\xff\"}]}",
        ] {
            let mut urls = vec![];
            let report = read(body, |entry| {
                urls.push(entry.url.into_owned());
                ControlFlow::Continue(())
            });
            assert_eq!(urls, ["http://a.example/\u{fffd}"]);
            assert!(report.is_ok_and(|report| !report.is_cut));
        }
    }

    #[test]
    fn a_sink_that_stops_ends_the_reading_and_cuts_nothing() {
        for body in [
            "http://a.example/\nhttp://b.example/",
            "<urlset><url><loc>/a</loc></url><url><loc>/b</loc></url></urlset>",
            r#"{"version": "https://jsonfeed.org/version/1", "items": [{"url": "/a"}, {"url": "/b"}]}"#,
        ] {
            let report = read(body.as_bytes(), |_| ControlFlow::Break(()));
            assert_eq!(report.map(|report| (report.entries, report.is_cut)), Ok((1, false)), "{body}");
        }
    }
}
