//! Files that were made to exhaust a parser end, stay within limits and yield their entries.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{io::Write as _, ops::ControlFlow};

use flate2::{Compression, write::GzEncoder};
use orbweaver_sitemaps::{Error, Format, Limits, MAX_EVENT_BYTES, Report, read, read_with, sniff};

const ENTRY: &str = "<url><loc>http://a.example/</loc></url>";

fn gzip(body: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(vec![], Compression::fast());
    encoder.write_all(body.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn count(body: &[u8]) -> Report {
    read(body, |_| ControlFlow::Continue(())).unwrap()
}

fn urls(body: &[u8]) -> Vec<String> {
    let mut urls = vec![];
    let report = read(body, |entry| {
        urls.push(entry.url.into_owned());
        ControlFlow::Continue(())
    });
    assert!(report.is_ok());
    urls
}

#[test]
fn elements_nested_a_hundred_thousand_times() {
    for tag in ["a", "url", "loc", "x:url", "urlset"] {
        let (open, close) = (format!("<{tag}>").repeat(100_000), format!("</{tag}>").repeat(100_000));
        let body = format!("<urlset>{ENTRY}{open}{close}{ENTRY}</urlset>");
        assert!((1..=2).contains(&count(body.as_bytes()).entries), "{tag}");
        let body = format!("<urlset>{ENTRY}{open}");
        for report in [count(body.as_bytes()), count(&gzip(&body))] {
            assert_eq!((report.entries, report.is_cut), (1, true), "{tag}");
        }
    }
    let body = format!("<urlset>{ENTRY}<a>{}</a>{ENTRY}</urlset>", "<b>".repeat(100_000) + &"</b>".repeat(100_000));
    assert_eq!((count(body.as_bytes()).entries, count(&gzip(&body)).entries), (2, 2));
    let body = format!("<rss><item><link>/a</link>{}</item><item><link>/b</link></item></rss>", "<p>".repeat(100_000));
    assert_eq!(urls(body.as_bytes()), ["/a", "/b"]);
}

#[test]
fn json_nested_a_hundred_thousand_times() {
    let version = r#""version": "https://jsonfeed.org/version/1""#;
    for nested in ["[", "{\"a\":", "[{\"url\":", "[[{\"a\":"] {
        for key in ["a", "items"] {
            let body = format!("{{{version}, \"{key}\": {}", nested.repeat(100_000));
            assert_eq!((count(body.as_bytes()).entries, count(&gzip(&body)).is_cut), (0, true), "{nested}");
        }
        assert_eq!(read(nested.repeat(100_000).as_bytes(), |_| ControlFlow::Continue(())), Err(Error::UnknownFormat));
    }
}

#[test]
fn entities_of_a_document_type_definition_are_never_expanded() {
    let levels: String =
        (1..10).map(|n| format!("<!ENTITY l{n} \"{}\">", format!("&l{};", n - 1).repeat(10))).collect();
    let body = format!(
        "<!DOCTYPE urlset [<!ENTITY l0 \"http://lol.example/\">{levels}<!ENTITY x SYSTEM \"file:///etc/passwd\">\
         <!ENTITY % p SYSTEM \"http://a.example/p\"> %p;]><urlset><url><loc>&l9;</loc></url><url><loc>http://b.example/&x;</loc>\
         </url><url><loc>&x;</loc></url><url>&l0;</url>{ENTRY}<url><link rel='alternate' href='&l9;'/></url></urlset>"
    );
    assert_eq!(sniff(body.as_bytes()), Some(Format::Sitemap));
    assert_eq!(urls(body.as_bytes()), ["http://a.example/", "&l9;"]);
    assert_eq!(urls(&gzip(&body)), ["http://a.example/", "&l9;"]);
}

#[test]
fn a_url_of_five_megabytes_is_dropped_and_the_rest_is_read() {
    let long = "a".repeat(5 << 20);
    for entry in [
        format!("<url><loc>{long}</loc></url>"),
        format!("<url><loc><![CDATA[{long}]]></loc></url>"),
        format!("<url><loc>{}</loc></url>", "a&amp;".repeat(1 << 20)),
        format!("<url><link rel='alternate' href='{long}'/></url>"),
        format!("<url>http://{long}</url>"),
    ] {
        let body = format!("<urlset>{ENTRY}{entry}{ENTRY}</urlset>");
        for report in [count(body.as_bytes()), count(&gzip(&body))] {
            assert_eq!((report.entries, report.too_long, report.is_cut), (2, 1, false), "{}", &entry[..40]);
        }
    }
    let body = format!("<urlset>{ENTRY}<url><loc>{}</loc></url>{ENTRY}</urlset>", " ".repeat(MAX_EVENT_BYTES + 1));
    assert_eq!((count(body.as_bytes()).entries, count(&gzip(&body)).entries), (2, 1));
    assert!(count(&gzip(&body)).is_cut);
}

#[test]
fn a_million_entries_are_read_and_one_more_cuts_the_file() {
    let body = format!("<urlset>{}</urlset>", ENTRY.repeat(1_000_001));
    let report = count(body.as_bytes());
    assert_eq!((report.entries, report.is_cut), (1_000_000, true));
    let report =
        read_with(&gzip(&body), &Limits { entries: 2_000_000, ..Limits::default() }, |_| ControlFlow::Continue(()));
    assert_eq!(report.map(|report| (report.entries, report.is_cut)), Ok((1_000_001, false)));
}

#[test]
fn markup_without_an_end_cuts_the_file() {
    for markup in
        ["<!--", "<![CDATA[", "<!DOCTYPE [", "<?a", "<a b='", "<a b=\"", "<", "</", "<!", "&", "]]>", "<loc>", "-->"]
    {
        let body = format!("<urlset>{ENTRY}{markup}{}", " ' ".repeat(100_000));
        for report in [count(body.as_bytes()), count(&gzip(&body))] {
            assert_eq!((report.entries, report.is_cut), (1, true), "{markup}");
        }
        let body = markup.repeat(100_000);
        assert_eq!(read(body.as_bytes(), |_| ControlFlow::Continue(())), Err(Error::UnknownFormat), "{markup}");
    }
}

#[test]
fn a_hundred_thousand_attributes_are_passed_once_per_element() {
    let attributes: String = (0..100_000).map(|n| format!(" a{n}='{n}'")).collect();
    let body =
        format!("<urlset{attributes}><url{attributes}><link{attributes} rel='alternate' href='/b'/></url></urlset>");
    assert_eq!(urls(body.as_bytes()), ["/b"]);
    let body = format!("<feed><entry><link {} href='/a'/></entry></feed>", "a ".repeat(100_000));
    assert_eq!(urls(body.as_bytes()), ["/a"]);
}
