//! A file that is cut anywhere yields a prefix of its entries; no input panics.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{io::Write as _, ops::ControlFlow};

use flate2::{Compression, write::GzEncoder};
use orbweaver_sitemaps::{Error, Limits, MAX_URL_BYTES, Report, read_with, sniff};
use proptest::prelude::*;

/// URL, date, kind.
type Found = (String, Option<i64>, bool, bool);

fn entries(body: &[u8], limits: &Limits) -> (Vec<Found>, Result<Report, Error>) {
    let mut entries = vec![];
    let report = read_with(body, limits, |entry| {
        assert!(!entry.url.is_empty() && entry.url.len() <= MAX_URL_BYTES);
        entries.push((entry.url.into_owned(), entry.modified_ms, entry.is_sitemap, entry.is_alternate));
        ControlFlow::Continue(())
    });
    if let Ok(report) = &report {
        assert_eq!((report.entries, report.error.is_some()), (entries.len(), report.is_cut));
    }
    (entries, report)
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(vec![], Compression::best());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

const FILES: [&str; 6] = [
    "<?xml version='1.0' encoding='utf-8'?>\n<!-- c --><!DOCTYPE urlset><urlset xmlns='x' xmlns:image='y'>\n\
     <url><loc> http://a.example/?a&amp;b=é&c </loc><lastmod>2020-01-02</lastmod><image:image><image:loc>/i</image:loc>\
     </image:image></url><url><xhtml:link rel='alternate' href='http://a.example/de?&#228;'/>\
     <loc><![CDATA[http://b.example/]]>x</loc></url>\n<url><loc>http://c.example/</loc></url></urlset>",
    "<sitemapindex><sitemap><loc>http://a.example/s.xml</loc><lastmod>2020-01-02T03:04:05Z</lastmod></sitemap><sitemap>\
     <loc>http://b.example/</loc><loc><url>http://c.example/</url></loc></sitemap><sitemap>http://d.example/</sitemap>\
     </sitemapindex>",
    "<rss><channel><link>http://no.example/</link><item><guid>http://no.example/1</guid><link>http://a.example/</link>\
     <pubDate>Thu, 05 Jan 2017 12:34:50 GMT</pubDate></item><item><guid>http://b.example/</guid></item></channel></rss>",
    "<rdf:RDF><channel/><item rdf:about='http://a.example/'><dc:date>2020-01-02</dc:date></item><item><link>/b</link>\
     </item></rdf:RDF>",
    "<feed><entry><link href='http://a.example/?a&amp;b'/><updated>2020-01-02T03:04:05Z</updated></entry><entry>\
     <link rel='self' href='/no'/><link rel='alternate' href='/b'/><content><p>&nbsp;</p></content></entry></feed>",
    r#"{"title": "é", "items": [{"url": "http://a.example/", "date_modified": "2020-01-02T03:04:05Z"}, {"id": {},
     "external_url": "/b\u00e9"}], "version": "https://jsonfeed.org/version/1"}"#,
];

/// Checks the entries of a part of a file: a prefix of all entries, where the last one may lack its date.
fn assert_prefix(part: &[Found], whole: &[Found], of: &str) {
    assert!(part.len() <= whole.len(), "{part:?} of {of}");
    for (at, (found, expected)) in part.iter().zip(whole).enumerate() {
        let is_undated = at + 1 == part.len() && found.1.is_none();
        let date = if is_undated { None } else { expected.1 };
        assert_eq!(*found, (expected.0.clone(), date, expected.2, expected.3), "{of}");
    }
}

#[test]
fn a_file_cut_at_any_byte_yields_a_prefix_of_its_entries() {
    for file in FILES {
        let (whole, report) = entries(file.as_bytes(), &Limits::default());
        assert!(!report.unwrap().is_cut && whole.len() >= 2, "{file}");
        let utf_16: Vec<u8> = format!("\u{feff}{file}").encode_utf16().flat_map(u16::to_le_bytes).collect();
        for body in [file.as_bytes(), &utf_16, &gzip(file.as_bytes())] {
            assert_eq!(entries(body, &Limits::default()).0, whole, "{file}");
            for end in 0..body.len() {
                let (part, report) = entries(&body[..end], &Limits::default());
                assert_prefix(&part, &whole, &format!("{end} bytes of {file}"));
                assert!(report.is_err() || report.unwrap().is_cut || part == whole, "{end} bytes of {file}");
            }
        }
        for limit in 0..=file.len() {
            let limits = Limits { expanded_bytes: limit, ..Limits::default() };
            let (part, report) = entries(&gzip(file.as_bytes()), &limits);
            assert_prefix(&part, &whole, &format!("{limit} bytes of {file}"));
            assert!(report.map_or(true, |report| report.is_cut) || limit + 1 >= file.len(), "{limit} bytes of {file}");
        }
    }
}

#[test]
fn a_list_of_urls_in_cut_gzip_data_has_no_part_of_a_url() {
    let lines: Vec<_> = (0..1000_u32).map(|n| format!("http://a.example/{}", n.wrapping_mul(0x9e37_79b9))).collect();
    let body = gzip(lines.join("\n").as_bytes());
    for end in 0..body.len() {
        let (part, _) = entries(&body[..end], &Limits::default());
        assert!(part.iter().map(|entry| &entry.0).eq(lines.iter().take(part.len())), "{end}");
        assert!(part.len() < lines.len() || end + 8 >= body.len());
    }
}

/// Pieces of which markup is made at random.
const PIECES: [&str; 36] = [
    "<urlset>",
    "</urlset>",
    "<sitemapindex>",
    "<url>",
    "</url>",
    "<sitemap>",
    "<loc>",
    "</loc>",
    "http://a.example/",
    "<rss>",
    "<channel>",
    "<item>",
    "</item>",
    "<link>",
    "</link>",
    "<link href='/a'/>",
    "<guid>",
    "<feed>",
    "<entry>",
    "</entry>",
    "<lastmod>",
    "2020-01-02",
    "</lastmod>",
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "<!DOCTYPE a [<!ENTITY e 'x'>]>",
    "&amp;",
    "&",
    "&e;",
    "&#x41;",
    "<a b='",
    "'/>",
    "<?xml ",
    "?>",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn random_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), gzip_magic: bool) {
        let body = if gzip_magic { [b"\x1f\x8b\x08\0\0\0\0\0\0\xff", &*bytes].concat() } else { bytes };
        let _ = (entries(&body, &Limits::default()), sniff(&body));
    }

    #[test]
    fn random_markup_is_read_alike_as_it_is_and_as_a_stream(
        pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..40), root in 0..4_usize
    ) {
        let body = ["<urlset>", "<rss>", "<feed>", ""][root].to_owned() + &pieces.concat();
        let limits = Limits::default();
        let (whole, report) = entries(body.as_bytes(), &limits);
        let (streamed, of_stream) = entries(&gzip(body.as_bytes()), &limits);
        prop_assert_eq!(&whole, &streamed);
        prop_assert_eq!(report.is_ok_and(|report| report.is_cut), of_stream.is_ok_and(|report| report.is_cut));
        let (few, _) = entries(body.as_bytes(), &Limits { entries: 1, ..limits });
        prop_assert_eq!(few.first(), whole.first());
    }
}
