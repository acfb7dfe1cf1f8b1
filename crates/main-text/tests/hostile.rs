//! Pages that were made to exhaust a parser end, stay within limits and give their text.

#![allow(clippy::expect_used, reason = "these are tests")]

use orbweaver_main_text::{MainText, MarkdownOptions};
use proptest::prelude::*;
use url::Url;

const SENTENCE: &str = "The ferry leaves the harbour at noon, and it returns before the tide is low again. ";

fn base() -> Url {
    Url::parse("https://harbour.example/").expect("a URL")
}

/// Reads a page in each way. Returns its whole text, and whether it was cut.
fn read(html: &str) -> (String, bool) {
    let chosen = MainText::of(html);
    let _ = (chosen.text(), chosen.markdown(&base(), MarkdownOptions { images: true }));
    let whole = MainText::whole(html);
    let markdown = whole.markdown(&base(), MarkdownOptions { images: true });
    assert!(markdown.len() <= 60 * html.len() + 1000, "{} bytes of {}", markdown.len(), html.len());
    (whole.text(), whole.is_cut())
}

fn keeps_its_sentence(html: &str) -> bool {
    let (text, cut) = read(html);
    assert!(text.contains(SENTENCE.trim()), "{} bytes of text", text.len());
    cut
}

#[test]
fn elements_nested_a_hundred_thousand_times() {
    for tag in ["div", "ul><li", "blockquote", "table><tr><td", "b", "a href=x", "span", "p", "section", "font"] {
        assert!(!read("").1);
        keeps_its_sentence(&format!("{}{SENTENCE}", format!("<{tag}>").repeat(100_000)));
    }
    assert!(keeps_its_sentence(&format!("{}{SENTENCE}{}", "<div>".repeat(100_000), "</div>".repeat(100_000))));
}

#[test]
fn a_million_tags_without_an_end() {
    for tag in ["<p>", "<b>", "<li>", "<td>", "<option>", "<i x>", "</p>", "</div>", "<br>", "<hr>", "<svg>"] {
        keeps_its_sentence(&format!("<p>{SENTENCE}</p>{}", tag.repeat(1_000_000)));
    }
}

#[test]
fn a_hundred_thousand_links_are_in_one_paragraph_or_in_many() {
    keeps_its_sentence(&format!("<p>{SENTENCE}</p><p>{}", "<a href=/x>word</a> ".repeat(100_000)));
    let cut = keeps_its_sentence(&format!("<p>{SENTENCE}</p>{}", "<p><a href=/x>word</a>".repeat(100_000)));
    assert!(cut);
}

#[test]
fn marks_without_text_are_cheap_to_pass_over() {
    for marks in ["<b></b>", "<code><a href=x></a></code>", "<code><b><a href=x></b></code>", "<a href=#>#</a>"] {
        keeps_its_sentence(&format!("<p>{SENTENCE}{}", marks.repeat(200_000)));
    }
}

#[test]
fn long_addresses_do_not_multiply_the_page() {
    let long = "a".repeat(4000);
    for html in [
        format!("<base href=/{long}/>{}", "<p><a href=x>w</a> <img src=i>".repeat(15_000)),
        format!("<a href=/{long} title={long}>{}", "<p>w".repeat(15_000)),
    ] {
        let markdown = MainText::whole(&html).markdown(&base(), MarkdownOptions { images: true });
        assert!(markdown.len() < 20 << 20, "{} bytes of {}", markdown.len(), html.len());
        assert!(markdown.starts_with(&format!("[w](https://harbour.example/{long}")), "{:.100}", markdown);
    }
}

#[test]
fn a_paragraph_of_five_megabytes_is_kept_whole() {
    let html = format!("<p>{}</p>", SENTENCE.repeat(5_000_000 / SENTENCE.len()));
    let (text, cut) = read(&html);
    assert!(text.len() > 4_900_000 && !cut);
    read(&"x".repeat(5_000_000));
    read(&format!("<p>{}", "a<b>.</b>".repeat(300_000)));
    read(&format!("<p>{}", "&nbsp;<b>&nbsp;x</b>".repeat(200_000)));
    read(&format!("<p>{}", "*_`[<&lt;".repeat(300_000)));
    read(&format!("<pre>{}", "```\n".repeat(300_000)));
}

#[test]
fn markup_without_an_end_does_not_hide_the_text_before_it() {
    for end in [
        "<!-- open",
        "<script>var a = 1;",
        "<style>p {",
        "<a href=\"open",
        "<a href='",
        "<title>open",
        "<textarea>open",
        "<plaintext>",
        "<svg><title>",
        "<math><mi>",
        "<template><p>",
        "<![CDATA[",
        "<!DOCTYPE",
        "<x y=",
        "</",
        "<",
        "&#",
        "&#x110000;",
        "&bogus;",
        "<noscript>",
        "<xmp><p>",
        "<select><option>",
        "<iframe><p>",
    ] {
        keeps_its_sentence(&format!("<p>{SENTENCE}</p>{end}"));
        keeps_its_sentence(&format!("<p>{SENTENCE}</p>{}", end.repeat(2_000)));
    }
}

#[test]
fn control_characters_are_no_part_of_the_text() {
    let (text, _) = read("<p>one\0\u{1}two\u{7f} \u{e000}three\u{feff}</p>");
    assert!(text.starts_with("onetwo"), "{text:?}");
}

#[test]
fn attributes_without_end() {
    let many: String = (0..50_000).map(|number| format!(" a{number}=b")).collect();
    keeps_its_sentence(&format!("<p{many}>{SENTENCE}</p>"));
    keeps_its_sentence(&format!("<p class='{}'>{SENTENCE}</p>", "comment footer ".repeat(100_000)));
    keeps_its_sentence(&format!("<p>{SENTENCE}<a href='{}'>x</a></p>", "x".repeat(1_000_000)));
}

#[test]
fn tables_and_lists_without_end() {
    assert!(keeps_its_sentence(&format!("<p>{SENTENCE}<table>{}", "<tr><td>a<td>b".repeat(100_000))));
    assert!(keeps_its_sentence(&format!("<p>{SENTENCE}<table><tr>{}", "<td>a".repeat(100_000))));
    keeps_its_sentence(&format!("<p>{SENTENCE}<ul>{}", "<li>x<ul>".repeat(50_000)));
    keeps_its_sentence(&format!("<p>{SENTENCE}<table><tr><td>a<td>{}", "<p>x".repeat(10_000)));
}

#[test]
fn end_tags_that_match_nothing_are_cheap_to_pass_over() {
    let open = "<div>".repeat(400);
    keeps_its_sentence(&format!(
        "<p>{SENTENCE}</p><section>{open}<table><tr><td>{}",
        "</section></p><li>".repeat(200_000)
    ));
}

/// Returns `true` if the characters of `part` are in `text`, in their order.
fn is_within(part: &str, text: &str) -> bool {
    let mut rest = text.chars();
    part.chars().filter(|char| !char.is_whitespace()).all(|char| rest.any(|other| other == char))
}

fn markup() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z]{1,8} ",
        "</?(p|div|b|i|a|li|ul|ol|table|tr|td|th|h1|h2|pre|code|br|hr|blockquote|dl|dt|dd|del|img|noscript|option|svg)>",
        "</?(article|aside|body|button|caption|x-y|details|dialog|fieldset|figcaption|figure|footer|form|h6|header|label)>",
        "</?(main|nav|optgroup|section|select|strong|summary|tbody|template|textarea|time|title|style|script|span|input)>",
        "<a href=\"[a-z/:?#]{0,8}\">",
        "<(div|p|section) class=\"(comment|content|nav|footer|article)\">",
        "[*_`#>|\\\\~!\\[\\]()-]{1,4}",
        "[一-十]{1,4}。",
        "\n",
    ];
    proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_text_is_read(html in any::<String>()) {
        read(&html);
    }

    #[test]
    fn any_markup_is_read(html in markup()) {
        read(&html);
    }

    #[test]
    fn the_text_is_a_part_of_the_page(html in markup()) {
        let whole = MainText::whole(&html).text();
        prop_assert!(is_within(&whole, &html), "{whole:?}");
        prop_assert!(is_within(&MainText::of(&html).text(), &whole));
    }

    #[test]
    fn markdown_has_no_markup_of_the_page(name in "[a-z]{1,6}", text in "[a-z]{1,9}") {
        let html = format!("<p>&lt;{name} onclick=x&gt;{text}&lt;/{name}&gt; <{name} onclick=x>{text}</{name}>");
        let markdown = MainText::whole(&html).markdown(&base(), MarkdownOptions::default());
        let bare = markdown.match_indices('<').any(|(at, _)| !markdown[..at].ends_with('\\'));
        prop_assert!(!bare || markdown.contains('`'), "{markdown}");
    }
}
