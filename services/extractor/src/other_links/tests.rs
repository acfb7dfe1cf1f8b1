use orbweaver_messages::{Document, Truncated};
use url::Url;

use crate::document::standalone;
use crate::scan::scan;
use crate::{ExtractorConfig, PageInput, extract};

fn options() -> ExtractorConfig {
    ExtractorConfig { other_links: true, ..ExtractorConfig::default() }
}

fn document(html: &str, options: &ExtractorConfig) -> Document {
    let url = Url::parse("http://a.test/d/page").unwrap();
    let input = PageInput { url: &url, site: None, content_type: None, headers: &[], body: html.as_bytes() };
    standalone(&input, &"c".parse().unwrap(), 0, options)
}

fn lines(links: &[orbweaver_messages::DocumentLink]) -> Vec<String> {
    let line = |link: &orbweaver_messages::DocumentLink| {
        let kind = serde_json::to_value(link.kind).unwrap();
        let url = link.url.strip_prefix("http://a.test/d/").unwrap_or(&link.url);
        [kind.as_str().unwrap(), url, &link.text, &link.rel].join("|").trim_end_matches('|').to_owned()
    };
    links.iter().map(line).collect()
}

/// Returns the other links of a page: kind, URL relative to the page, text and `rel`.
fn found(html: &str) -> Vec<String> {
    lines(&document(html, &options()).other_links.unwrap())
}

#[test]
fn each_element_has_links_of_its_kind() {
    for (html, expected) in [
        ("<img src=a.png alt=' A\nspider ' title=no>", &["image|a.png|A spider"][..]),
        ("<img src=a.png alt=' ' title=T><img src=b.png>", &["image|a.png|T", "image|b.png"]),
        ("<img src=a.png srcset='b.png 2x, c.png 3x' alt=A>", &["image|a.png|A", "image|b.png|A", "image|c.png|A"]),
        (
            "<picture><source srcset='a.webp 1x'><img src=b.png alt=B></picture><video><source src=c.mp4></video>",
            &["image|a.webp", "image|b.png|B", "media|c.mp4"],
        ),
        (
            "<video src=a.mp4 poster=b.jpg title=T><track src=c.vtt></video><audio src=d.mp3></audio>",
            &["media|a.mp4|T", "image|b.jpg|T", "media|c.vtt", "media|d.mp3"],
        ),
        (
            "<script src=a.js rel=no></script><embed src=b.pdf><object data=c.svg title=T>",
            &["script|a.js", "object|b.pdf", "object|c.svg|T"],
        ),
        ("<input type=image src=a.png alt=Go><body background=b.gif>", &["image|a.png|Go", "image|b.gif"]),
        ("<svg><image href=a.png /><use xlink:href='b.svg#x'/></svg>", &["image|a.png", "image|b.svg"]),
        (
            "<link rel=canonical href=a><link rel='NEXT' href=b><link rel=prev href=c>",
            &["canonical|a||canonical", "next|b||NEXT", "prev|c||prev"],
        ),
        (
            "<link rel=alternate hreflang=de href=a title=Deutsch><link rel=alternate type=application/rss+xml href=b>",
            &["alternate|a|Deutsch|alternate", "alternate|b||alternate"],
        ),
        (
            "<link rel='alternate stylesheet' href=a.css><link rel='shortcut icon' href=b><link rel=mask-icon href=c>",
            &["stylesheet|a.css||alternate stylesheet", "icon|b||shortcut icon", "icon|c||mask-icon"],
        ),
        (
            "<link rel=license href=a><link rel=preload as=image imagesrcset='b.png 1x'><link rel=unknown href=c>",
            &["link|a||license", "link|b.png||preload", "link|c||unknown"],
        ),
        (
            "<p title=T style='background: url(a.png)'><style>@import 'b.css'; p { x: url(c) }</style>",
            &["css|a.png", "css|b.css", "css|c"],
        ),
        ("<noscript><img src=a.png alt=A></noscript>", &["image|a.png|A"]),
    ] {
        assert_eq!(found(html), expected, "{html}");
    }
}

#[test]
fn links_to_pages_and_names_of_hosts_are_no_other_links() {
    for html in [
        "<a href=a><area href=b><iframe src=c></iframe><frame src=d><meta http-equiv=refresh content='0;url=e'>",
        "<link href=a><link rel='' href=b><link rel=' ' href=c>",
        "<link rel=dns-prefetch href=//b.test><link rel='preconnect' href=//c.test><link rel=pingback href=d>",
        "<template><img src=a.png></template><!-- <img src=b.png> --><noscript><iframe src=c></iframe></noscript>",
        "<img src='data:image/png;base64,AAAA'><img src=''><img src='#x'><img src=mailto:a@b.test><img data-src=c.png>",
    ] {
        assert_eq!(found(html), [""; 0], "{html}");
    }
}

#[test]
fn a_link_is_among_the_links_or_the_other_links_with_its_kind() {
    let html = "<link rel=alternate type=application/atom+xml href=feed><a href=a rel=nofollow>A</a><area href=b alt=B>\
                <iframe src=c title=C></iframe><meta http-equiv=refresh content='0;url=d'><img src=e>";
    let links = ["navigation|a|A|nofollow", "navigation|b", "frame|c", "refresh|d"];
    let read = document(html, &options());
    assert_eq!(lines(&read.links), links);
    assert_eq!(lines(&read.other_links.unwrap()), ["alternate|feed||alternate", "image|e"]);
    let read = document(html, &ExtractorConfig { feeds: true, ..options() });
    assert_eq!(lines(&read.links), [&["alternate|feed||alternate"][..], &links].concat());
    assert_eq!(lines(&read.other_links.unwrap()), ["image|e"]);
}

#[test]
fn a_link_is_named_once_with_each_text_and_resolved_against_the_base() {
    let html = "<img src=a alt=A><base href=/e/><img src=a alt=A><img src=a alt=B><img src=a><script src=a></script>\
                <img src=' a ' alt='A '>";
    assert_eq!(
        found(html),
        [
            "image|http://a.test/e/a|A",
            "image|http://a.test/e/a|B",
            "image|http://a.test/e/a",
            "script|http://a.test/e/a"
        ]
    );
}

#[test]
fn other_links_change_neither_links_nor_requisites_and_are_found_in_the_same_pass() {
    let html = "<title>t</title><img src=a.png alt=A><style>p{background:url(b.png)}</style><a href=c style='x:url(d)'>c</a>\
                <svg><style>x</style><title>no</title></svg><iframe src=e></iframe><link rel=next href=f>text";
    let url = Url::parse("http://a.test/").unwrap();
    let input = PageInput { url: &url, site: None, content_type: None, headers: &[], body: html.as_bytes() };
    let requisites = ExtractorConfig { requisites: 500, ..ExtractorConfig::default() };
    let both = extract(&input, &ExtractorConfig { other_links: true, ..requisites.clone() });
    assert_eq!(both.other_links.as_ref().unwrap().len(), 4);
    let without = extract(&input, &requisites);
    assert_eq!((without.requisites.len(), &without.other_links), (4, &None));
    assert_eq!(crate::Extracted { other_links: None, ..both.clone() }, without);
    assert_eq!(crate::Extracted { requisites: vec![], ..both }, extract(&input, &options()));
}

#[test]
fn number_and_bytes_of_other_links_are_bounded_and_what_is_missing_is_marked() {
    let cut = Truncated { other_links: true, ..Truncated::default() };
    let bounded = |html: &str, options: &ExtractorConfig| {
        let read = document(html, options);
        let links = read.other_links.unwrap();
        let bytes: usize = links.iter().map(|link| link.url.len() + link.text.len() + link.rel.len()).sum();
        (links.len(), bytes, read.truncated)
    };
    let html: String = (0..1000).map(|number| format!("<img src={number}.png>")).collect();
    assert_eq!(bounded(&html, &options()).2, Truncated::default());
    let (number, _, truncated) = bounded(&html, &ExtractorConfig { max_links: 10, ..options() });
    assert_eq!((number, truncated), (10, cut));
    let few = ExtractorConfig { max_links: 1000, ..options() };
    assert_eq!(bounded(&format!("{html}{html}"), &few).2, Truncated::default(), "repetitions are not missing");
    let small = ExtractorConfig { max_links_bytes: 1000, ..options() };
    for html in [
        html.clone(),
        html.replace("<img src", "<link rel=x href"),
        format!("<base href='/{}/'>{html}", "x".repeat(90)),
    ] {
        let (_, bytes, truncated) = bounded(&html, &small);
        assert!((900..=1000).contains(&bytes) && truncated == cut, "{bytes} {truncated:?}");
    }
    // Resolved against a long URL, eight of twenty fit.
    let long = format!("<base href='/{}/'>", "x".repeat(100));
    let html = (0..20).map(|number| format!("<img src={number}>")).collect::<String>() + "<img src=http://b.test/>";
    let (number, bytes, truncated) = bounded(&(long + &html), &small);
    assert!(number == 8 && bytes > 900 && truncated == cut, "{number} {bytes} {truncated:?}");
    let html = format!("<img src=a><img src={}><img src=b>", "x".repeat(60));
    let (number, _, truncated) = bounded(&html, &ExtractorConfig { max_links_bytes: 60, ..options() });
    assert_eq!((number, truncated), (1, cut), "further ones would follow a gap");
    // Each of the pictures has the text of the element.
    let srcset: String = (0..1000).map(|number| format!("{number} 1x,")).collect();
    let html = format!("<img srcset='{srcset}' alt='{}'>", "x".repeat(500));
    let small = ExtractorConfig { max_links_bytes: 5000, ..options() };
    let (_, bytes, truncated) = bounded(&html, &small);
    assert!((4000..=5000).contains(&bytes) && truncated == cut, "{bytes} {truncated:?}");
    let raw = scan(&html, &small, 0).other_links.unwrap();
    let bytes: usize = raw.iter().map(|link| link.href.len() + link.text.len()).sum();
    assert!((4000..=5000).contains(&bytes), "before they are resolved: {bytes}");
}

#[test]
fn cut_texts_and_urls_that_are_too_long_are_marked() {
    let is_cut = |html: &str| {
        let read = document(html, &options());
        assert!(!read.truncated.links, "{html:.60}");
        (lines(&read.other_links.unwrap()).len(), read.truncated.other_links)
    };
    let long = "x".repeat(40_000);
    assert_eq!(is_cut(&format!("<img src=a alt='{}'>", "x".repeat(1024))), (1, false));
    assert_eq!(is_cut(&format!("<img src=a alt='{}'>", "x".repeat(1025))), (1, true));
    assert_eq!(is_cut(&format!("<link href=a rel='x{long}'>")), (1, true));
    let long_texts = ExtractorConfig { max_link_text_bytes: 1 << 20, ..options() };
    assert!(document(&format!("<img src=a alt='{long}'>"), &long_texts).truncated.other_links);
    assert_eq!(is_cut(&format!("<img src='{long}'>")), (0, true));
    assert_eq!(is_cut(&format!("<img src='{}'>", &long[..10_000])), (0, true));
    assert_eq!(is_cut(&format!("<style>p {{ x: url({long}) }}</style>")), (0, true));
    assert_eq!(is_cut(&format!("<img srcset='a 1x, {long} 2x'>")), (1, true));
    assert_eq!(is_cut(&format!("<p style='x: url(a); y: {long}'>")), (0, true));
    assert_eq!(is_cut(&format!("<img src='data:image/png;base64,{long}'><p title='{long}'>")), (0, false));
    assert_eq!(is_cut(&format!("<style>p {{ x: url(data:x,{long}) }}</style>")), (0, false));
    assert_eq!(is_cut(&format!("<img src='mailto:{}'>", &long[..10_000])), (0, false));
    let frame = document(&format!("<iframe src='{long}'></iframe>"), &options());
    assert_eq!(frame.truncated, Truncated { links: true, ..Truncated::default() });
}
