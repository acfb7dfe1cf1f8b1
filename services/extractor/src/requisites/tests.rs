use url::Url;

use super::*;
use crate::extract;
use crate::resources::candidates;

fn requesting(requisites: u32) -> ExtractorConfig {
    ExtractorConfig { requisites, ..ExtractorConfig::default() }
}

fn of(html: &str, options: &ExtractorConfig) -> Vec<String> {
    let url = Url::parse("http://a.test/d/page?x=1#f").unwrap();
    let input = PageInput { url: &url, site: None, content_type: None, headers: &[], body: html.as_bytes() };
    extract(&input, options).requisites.into_iter().map(|requisite| requisite.url).collect()
}

/// Returns the requisites of a page, relative to its directory.
fn found(html: &str) -> Vec<String> {
    let relative = |url: String| url.strip_prefix("http://a.test/d/").map_or(url.clone(), str::to_owned);
    of(html, &requesting(500)).into_iter().map(relative).collect()
}

#[test]
fn each_element_names_what_it_needs() {
    for (html, expected) in [
        ("<img src=a.png srcset='b.png 2x, c.png 3x'>", &["a.png", "b.png", "c.png"][..]),
        ("<picture><source srcset='a.webp, b.webp 2x'><img src=c.png></picture>", &["a.webp", "b.webp", "c.png"]),
        ("<script src=a.js></script><script>var x = '<img src=b.png>'</script>", &["a.js"]),
        ("<link rel=stylesheet href=a.css><link rel='alternate StyleSheet' href=b.css>", &["a.css", "b.css"]),
        ("<link rel='shortcut icon' href=a.ico><link rel=apple-touch-icon href=b.png>", &["a.ico", "b.png"]),
        (
            "<link rel=preload href=a.woff2><link rel=modulepreload href=b.js><link rel=manifest href=c>",
            &["a.woff2", "b.js", "c"],
        ),
        ("<link rel=preload as=image imagesrcset='a.png 1x, b.png 2x'>", &["a.png", "b.png"]),
        ("<link rel=canonical href=a><link rel=alternate href=b><link rel=dns-prefetch href=//c.test/>", &[]),
        (
            "<video src=a.mp4 poster=b.jpg><source src=c.webm><track src=d.vtt></video>",
            &["a.mp4", "b.jpg", "c.webm", "d.vtt"],
        ),
        ("<audio src=a.mp3></audio><embed src=b.pdf><object data=c.svg></object>", &["a.mp3", "b.pdf", "c.svg"]),
        ("<input type=IMAGE src=a.png><input type=text src=b.png>", &["a.png"]),
        ("<body background=a.gif><table><tr><td background=b.gif>", &["a.gif", "b.gif"]),
        ("<iframe src=a.html></iframe><iframe src=//b.test/>", &["a.html", "http://b.test/"]),
        (
            "<svg><image href=a.png /><image xlink:href=b.png /><use href='c.svg#x'/><use href='#y'/></svg>",
            &["a.png", "b.png", "c.svg"],
        ),
        ("<p style='background: url(a.png)'>x</p><b style=\"background:url('b.png')\">", &["a.png", "b.png"]),
        ("<style>@import 'a.css'; p { background: url(b.png) }</style>", &["a.css", "b.png"]),
        ("<svg><style>p { fill: url(a.svg#x) }</style></svg>", &["a.svg"]),
        ("<style>p { background: url(a.png)", &["a.png"]),
        ("<noscript><img src=a.png><iframe src=b.html></iframe></noscript>", &["a.png"]),
        ("<a href=a.html><area href=b.html>", &[]),
    ] {
        assert_eq!(found(html), expected, "{html}");
    }
}

#[test]
fn what_is_not_shown_or_needs_no_request_is_no_requisite() {
    for html in [
        "<template><img src=a.png><style>p { background: url(b.png) }</style></template>",
        "<!-- <img src=a.png> --><textarea><img src=b.png></textarea>",
        "<img src=data:image/png;base64,AAAA><img src=' DATA:x'><img src=blob:x><img src=''><img src=#x><img src=mailto:a@b.test>",
        "<img src='/d/page?x=1'><object data='?x=1#g'></object>",
        "</img src=a.png>",
        "<noembed><img src=a.png></noembed>",
    ] {
        assert_eq!(found(html), [""; 0], "{html}");
    }
}

#[test]
fn a_srcset_is_read_as_in_browsers() {
    for (set, expected) in [
        ("a.png", &["a.png"][..]),
        (" a.png 1x ,b.png 2x ", &["a.png", "b.png"]),
        ("a.png,b.png 2x", &["a.png,b.png"]),
        ("a.png, b.png", &["a.png", "b.png"]),
        ("a,b.png 100w, c.png 200w", &["a,b.png", "c.png"]),
        ("a.png,,, b.png", &["a.png", "b.png"]),
        (",,a.png 1x,", &["a.png"]),
        ("a.png 1x (x, y) 2x, b.png", &["a.png", "b.png"]),
        ("a.png (x, b.png", &["a.png"]),
        ("data:image/png;base64,AA== 1x, b.png 2x", &["data:image/png;base64,AA==", "b.png"]),
        ("a.png\n1x,\tb.png", &["a.png", "b.png"]),
        (" , ", &[]),
        ("", &[]),
    ] {
        assert_eq!(candidates(set), expected, "{set}");
    }
}

#[test]
fn each_requisite_is_found_once_and_resolved_against_the_base() {
    let html = "<img src=a.png><base href=/e/><img src=a.png><img src='/e/a.png#x'><img src=./a.png><img src=b.png>";
    assert_eq!(of(html, &requesting(500)), ["http://a.test/e/a.png", "http://a.test/e/b.png"]);
}

#[test]
fn requisites_are_not_links_and_change_no_document() {
    let html = "<title>t</title><img src=a.png><style>p{background:url(b.png)}</style><a href=c.html style='x:url(d)'>c</a>\
                <svg><style>x</style><title>no</title></svg><iframe src=e.html></iframe>text";
    let url = Url::parse("http://a.test/").unwrap();
    let input = PageInput { url: &url, site: None, content_type: None, headers: &[], body: html.as_bytes() };
    let with = extract(&input, &requesting(500));
    let without = extract(&input, &ExtractorConfig::default());
    assert_eq!((with.requisites.len(), without.requisites.len()), (4, 0));
    assert_eq!(crate::Extracted { requisites: vec![], ..with }, without);
}

#[test]
fn the_number_of_requisites_and_the_bytes_of_their_urls_are_bounded() {
    let html: String = (0..100_000).map(|number| format!("<img src={number}.png>")).collect();
    assert_eq!(of(&html, &requesting(500)).len(), 500);
    assert_eq!(of(&html, &requesting(u32::MAX)).len(), 100_000);
    let many = ExtractorConfig { max_links_bytes: 1000, ..requesting(u32::MAX) };
    let bytes: usize = of(&html, &many).iter().map(String::len).sum();
    assert!((900..=1000).contains(&bytes), "{bytes}");
    let base = format!("<base href='/{}/'>{html}", "x".repeat(4000));
    let bytes: usize = of(&base, &requesting(u32::MAX)).iter().map(String::len).sum();
    assert!(bytes <= 8 << 20, "{bytes}");
    let repeated = "<img src=a.png>".repeat(100_000);
    assert_eq!(of(&repeated, &requesting(500)).len(), 1);
}

#[test]
fn a_cut_value_is_no_url() {
    let long = "x".repeat(4 * MAX_URL_BYTES);
    let spaces = " ".repeat(2 * MAX_URL_BYTES - 3);
    assert_eq!(found(&format!("<img src='a{long}'><img src='{spaces}abcdef'>")), [""; 0]);
    assert_eq!(found(&format!("<img srcset='a.png 1x, b.png{spaces}2x, c.png'>")), ["a.png"]);
    assert_eq!(found(&format!("<p style='x:url(a.png);{spaces}y:url(b.png)'>")), [""; 0]);
}
