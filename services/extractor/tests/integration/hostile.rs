//! Pages that could make an extractor panic, hang or grow: none of them does.

use std::path::Path;

use orbweaver_extractor::{Extracted, ExtractorConfig, PageInput, extract};
use orbweaver_messages::Markdown;
use proptest::prelude::*;
use url::Url;

fn options() -> ExtractorConfig {
    ExtractorConfig {
        max_text_bytes: 2000,
        max_links: 50,
        max_links_bytes: 4000,
        max_link_text_bytes: 40,
        ..ExtractorConfig::default()
    }
}

fn read(body: &[u8], options: &ExtractorConfig) -> Extracted {
    let url = Url::parse("http://page.test/dir/").unwrap();
    extract(&PageInput { url: &url, site: None, content_type: None, headers: &[], body }, options)
}

/// Checks the invariants of every page, whatever its bytes.
fn check(page: &Extracted, options: &ExtractorConfig) {
    assert!(page.text.len() <= options.max_text_bytes);
    assert!(page.links.len() <= options.max_links);
    let bytes: usize = page.links.iter().map(|link| link.url.len()).sum();
    assert!(bytes <= options.max_links_bytes);
    for link in page.links.iter().chain(&page.beyond) {
        assert!(link.text.len() <= options.max_link_text_bytes);
        let url = orbweaver_url::parse(&link.url).unwrap();
        assert_eq!(url.as_str(), link.url, "a link is absolute, http or https and without fragment");
        assert_eq!(orbweaver_url::site_of(&url), page.sites[link.site]);
    }
    assert_eq!(page.text, page.text.split_whitespace().collect::<Vec<_>>().join(" "));
}

proptest! {
    // An integration test has no lib.rs next to which failures could be stored; they are printed.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_bytes_are_a_page(body in prop::collection::vec(any::<u8>(), 0..2000)) {
        check(&read(&body, &options()), &options());
    }

    #[test]
    fn any_markup_is_a_page(
        pieces in prop::collection::vec(
            prop_oneof![
                "</?(a|area|base|b|br|div|frame|html|iframe|link|math|meta|noscript|p|plaintext|script|style|svg|td|template|textarea|title|xmp|desc)",
                " (href|src|rel|name|content|http-equiv|lang|class)=?(\"|'|)",
                "(x|/y\\?z#f|http://b.test/|//c.test|refresh|robots|nofollow|canonical|0;url=/r|javascript:1|é| )",
                "(>|/>|<|<!--|-->|&amp;|&#x41;|&|\"|'|<!\\[CDATA\\[|\\]\\]>|\u{0}|\n)",
            ],
            0..80,
        )
    ) {
        check(&read(pieces.concat().as_bytes(), &options()), &options());
    }
}

#[test]
fn the_pages_that_broke_other_crawlers_are_read() {
    let dir = Path::new("tests/vectors/hostile");
    let mut pages = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let body = std::fs::read(entry.unwrap().path()).unwrap();
        check(&read(&body, &ExtractorConfig::default()), &ExtractorConfig::default());
        check(&read(&body, &options()), &options());
        pages += 1;
    }
    assert_eq!(pages, 5);
}

#[test]
fn depth_and_unclosed_elements_cost_no_more_than_their_bytes() {
    let many = |piece: &str| piece.repeat(1_000_000 / piece.len());
    for body in [
        many("<div>"),
        many("<b><i>"),
        many("<a><table>"),
        many("<a href=x>"),
        many("<svg><title>"),
        many("<template>"),
        many("<!--"),
        many("&amp;"),
        many("&#x"),
        many("<a href='&am"),
        format!("<a {}>", many("k=v ")),
        format!("<a href='/{}'>x</a>", many("y")),
        format!("<img src='data:image/png;base64,{}'>", "AbCd".repeat(5_000_000)),
        format!("<{}>", many("t")),
        format!("<script>{}", many("<a href=x>")),
        format!("<textarea>{}", many("<a href=x>")),
        format!("<plaintext>{}", many("<a href=x>")),
        many("<a href=x rel=' nofollow'>"),
        many("<meta http-equiv=refresh content='0;url=x'>"),
    ] {
        check(&read(body.as_bytes(), &options()), &options());
    }
}

/// A parser that builds a tree reopens all open formatting elements in each paragraph, and moves misplaced content of a
/// table in front of it: with a hundred thousand of them it would not end.
#[test]
fn misnested_formatting_and_tables_cost_no_more_than_their_bytes() {
    let everything = ExtractorConfig {
        main_text: true,
        markdown: Markdown::Images,
        facts: true,
        near_duplicates: true,
        max_links: 1_000_000,
        max_links_bytes: 64 << 20,
        ..ExtractorConfig::default()
    };
    let link = "<a href=x>y";
    for (piece, links) in [
        ("<a href=x>y<table>", 1),
        ("<a href=x>y<table><tr><td>z", 1),
        ("<table>y<a href=x>y<tr>z<td>", 1),
        ("<table><tr><td><table>y<b>", 0),
        ("<table><b><tr><i><td></b>y</i></table>", 0),
        ("<p><b>y<p><b>y", 0),
        ("<p><b><i><u>y</p></b></u></i><a href=x>y", 1),
        ("<b><a href=x>y<p></b>", 1),
        ("<font color=red><div>y</font>", 0),
        ("<nobr>y<nobr>", 0),
        ("<select><option>y<table><a href=x>y", 1),
        ("<ul><li><a href=x>y<ul><p></li>", 1),
        ("<svg><desc><table>y<math><mtext><b>", 0),
        ("<h1><h2>y</h1><button>y<button>", 0),
    ] {
        let count = 2_000_000 / piece.len();
        let body = piece.repeat(count) + link;
        let page = read(body.as_bytes(), &everything);
        check(&page, &everything);
        assert_eq!(page.links_total, links * count + 1, "{piece}");
        let texts = piece.matches(['y', 'z']).count() * count + 1;
        assert!(page.text_bytes >= texts, "{piece}: {} bytes of text, not {texts}", page.text_bytes);
    }
}

#[test]
fn the_links_and_the_text_beyond_a_limit_are_counted() {
    let page = read(format!("{}<p>{}", "<a href=x>y</a>".repeat(70), "word ".repeat(600)).as_bytes(), &options());
    assert_eq!((page.links.len(), page.links_total), (50, 70));
    assert_eq!((page.truncated.text, page.text_bytes), (true, 70 + 600 * 5));
    let whole = read(b"<a href=x>y</a> <a href=javascript:1>z</a>", &options());
    assert_eq!((whole.links_total, whole.text_bytes, whole.truncated.is_empty()), (1, 3, true));
}

#[test]
fn a_long_base_does_not_multiply_a_page() {
    let body = format!("<base href='/{}/'>{}", "b".repeat(8000), "<a href=x>".repeat(10_000));
    let options = ExtractorConfig { max_links_bytes: 100_000, ..ExtractorConfig::default() };
    let page = read(body.as_bytes(), &options);
    check(&page, &options);
    assert_eq!((page.links.len(), page.links_total, page.truncated.links), (12, 10_000, true));
}

#[test]
fn whatever_is_cut_is_said() {
    let options = options();
    let cut = |body: &str| !read(body.as_bytes(), &options).truncated.is_empty();
    assert!(!cut("<title>t</title><p>text<a href=x>y</a>"));
    assert!(cut(&"word ".repeat(500)));
    assert!(cut(&"<a href=x></a>".repeat(51)));
    assert!(cut(&format!("<a href=x>{}</a>", "text ".repeat(20))));
    assert!(cut(&format!("<a href='/{}'></a>", "x".repeat(9000))));
    assert!(cut(&format!("<a href='{}/{}'></a>", " ".repeat(9000), "x".repeat(8100))));
    assert!(!cut(&format!("<a href='data:text/plain,{}'></a>", "x".repeat(9000))));
    let small = ExtractorConfig { max_body_bytes: 10, ..options.clone() };
    assert!(read(b"12345678901", &small).truncated.body);
    assert!(!read(b"1234567890", &small).truncated.body);
}
