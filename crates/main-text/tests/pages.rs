//! Main text of pages of several kinds.

#![allow(clippy::expect_used, reason = "these are tests")]

use orbweaver_main_text::{MainText, MarkdownOptions};
use url::Url;

const FURNITURE_BEFORE: &str = r##"<header class="site-header"><a class="logo" href="/">The Harbour Post</a>
    <nav class="main-menu"><ul><li><a href="/news">News</a></li><li><a href="/sport">Sport</a></li>
    <li><a href="/culture">Culture</a></li><li><a href="/login">Log in</a></li></ul></nav></header>"##;
const FURNITURE_AFTER: &str = r##"<aside class="sidebar"><h3>Most read</h3><ul><li><a href="/1">Ferry prices rise</a></li>
    <li><a href="/2">A new bridge</a></li><li><a href="/3">Ten places to eat</a></li></ul></aside>
    <footer class="site-footer"><p>Copyright 2026 The Harbour Post. All rights reserved.</p>
    <ul><li><a href="/privacy">Privacy policy</a></li><li><a href="/terms">Terms of use</a></li></ul></footer>"##;

fn page(title: &str, content: &str) -> String {
    format!(
        "<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>{title}</title><style>p {{ color: red }}</style>\
         <script>var hidden = 'script text';</script></head><body>{FURNITURE_BEFORE}{content}{FURNITURE_AFTER}</body></html>"
    )
}

fn markdown(page: &MainText) -> String {
    let base = Url::parse("https://harbour.example/news/page.html").expect("a URL");
    page.markdown(&base, MarkdownOptions::default())
}

fn article() -> String {
    page(
        "Lighthouse reopens after repairs - The Harbour Post",
        r##"<main><article class="post"><h1 class="entry-title">Lighthouse reopens after repairs</h1>
        <div class="byline">By <a href="/authors/kim">Kim Okafor</a>, <time datetime="2026-03-04">4 March 2026</time></div>
        <div class="entry-content"><p>The lighthouse at the northern mole reopened on Tuesday after repairs that took
        three years, and the first visitors climbed its two hundred steps in steady rain.</p>
        <p>Engineers replaced the lamp, repaired the <em>copper</em> roof and sealed the walls, which had let in water
        since the storm of 2022. The council paid for half of the work, and
        <a href="../fund.html">a fund of the port</a> for the rest.</p>
        <h2>A new exhibition</h2>
        <p>From May on, the keeper's house will show an exhibition about the ships that were lost on the sandbanks, with
        maps, letters and a bell that fishermen found last summer.</p>
        <p>Entrance is free for children, and the last tour begins an hour before sunset.</p></div>
        <div class="share-buttons"><a href="#">Share on Facebook</a> <a href="#">Tweet</a></div></article></main>"##,
    )
}

#[test]
fn an_article_is_taken_without_the_furniture_of_its_page() {
    let html = article();
    let text = MainText::of(&html).text();
    for wanted in ["reopened on Tuesday", "sealed the walls", "A new exhibition", "an hour before sunset"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    for unwanted in ["Ten places to eat", "Privacy policy", "All rights reserved", "Log in", "script text", "color"] {
        assert!(!text.contains(unwanted), "{unwanted}: {text}");
    }
    assert!(text.contains("summer.\n\nEntrance"), "{text}");
}

#[test]
fn markdown_has_headings_emphasis_and_absolute_links() {
    let markdown = markdown(&MainText::of(&article()));
    assert!(markdown.contains("## A new exhibition"), "{markdown}");
    assert!(markdown.contains("*copper*"), "{markdown}");
    assert!(markdown.contains("[a fund of the port](https://harbour.example/fund.html)"), "{markdown}");
}

#[test]
fn the_posts_of_a_forum_are_taken() {
    let post = |name: &str, text: &str| {
        format!(
            r##"<div class="post"><div class="author"><a href="/u/{name}">{name}</a><span class="date">2 May</span></div>
            <div class="post-body"><p>{text}</p></div><div class="tools"><a href="#">Reply</a> <a href="#">Like</a></div></div>"##
        )
    };
    let posts = [
        post(
            "sailor",
            "My outboard engine stops after ten minutes, and it starts again only when it is cold. What could it be?",
        ),
        post(
            "mechanic",
            "That sounds like the fuel pump, or a blocked vent in the tank. Open the cap when it stops, and see if it helps.",
        ),
        post(
            "sailor",
            "It was the vent indeed: a wasp had built its nest in it. Thank you, the engine has been running for an hour now.",
        ),
    ];
    let content = format!(r#"<div class="forum thread"><h1>Engine stops when warm</h1>{}</div>"#, posts.concat());
    let text = MainText::of(&page("Engine stops when warm - Boat forum", &content)).text();
    for wanted in ["stops after ten minutes", "blocked vent", "a wasp had built"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(!text.contains("Terms of use"), "{text}");
}

#[test]
fn the_description_of_a_product_is_taken() {
    let content = r#"<main class="product"><div class="product-gallery"><img src="a.jpg" alt="Lamp"></div>
        <h1 class="product-title">Brass deck lamp</h1><div class="price">49.00</div><button>Add to cart</button>
        <div class="product-description"><h2>Description</h2><p>This lamp of solid brass lights a deck or a garden path
        for up to nine hours, and it withstands salt water, wind and frost. The glass can be removed for cleaning without
        any tools.</p><ul><li>Height: 24 cm, weight: 900 g</li><li>Battery: lithium, charged by USB</li></ul></div></main>"#;
    let text = MainText::of(&page("Brass deck lamp - Harbour Shop", content)).text();
    assert!(text.contains("withstands salt water"), "{text}");
    assert!(!text.contains("Most read"), "{text}");
}

#[test]
fn a_chinese_article_is_taken() {
    let content = r#"<div class="content"><h1>灯塔修缮后重新开放</h1><p>经过三年的修缮，北防波堤的灯塔于周二重新开放，第一批游客在雨中登上了
        两百级台阶。工程师更换了灯具，修补了铜制屋顶，并封堵了自二〇二二年风暴以来一直渗水的墙壁。</p><p>从五月开始，守塔人的小屋将举办展览，
        展出地图、信件以及渔民去年夏天发现的一口钟，讲述在沙洲上失事的船只。</p></div>"#;
    let page = MainText::of(&page("灯塔修缮后重新开放", content));
    assert!(page.text().contains("重新开放，第一批游客"), "{}", page.text());
    assert!(!page.text().contains("Privacy"), "{}", page.text());
}

#[test]
fn documentation_keeps_its_code_and_its_language() {
    let content = r#"<main><article class="docs markdown"><h1>Reading a file</h1><p>The function <code>read_line</code> reads a
        line from a file. It returns an empty text at the end of the file, and an error if the file cannot be read.</p>
        <pre><code class="language-rust">let line = read_line(&amp;mut file)?;
    if line.is_empty() { return Ok(()); }
</code></pre><p>Lines end with a line break, which is not part of the text that the function returns to its caller.</p>
        </article></main>"#;
    let page = MainText::of(&page("Reading a file - Manual", content));
    assert!(page.text().contains("let line = read_line(&mut file)?;\n    if line"), "{}", page.text());
    assert!(markdown(&page).contains("```rust\nlet line = read_line(&mut file)?;\n    if line"), "{}", markdown(&page));
}

#[test]
fn a_page_of_a_few_words_is_taken_whole() {
    assert_eq!(MainText::of("<title>x</title><p>Hello <b>world</b>").text(), "Hello world");
    assert_eq!(MainText::of("").text(), "");
    assert_eq!(markdown(&MainText::of("")), "");
}

#[test]
fn text_in_noscript_is_read_only_where_there_is_no_other() {
    let text = "A page without scripts shows this long text of several words instead of its application. ".repeat(4);
    let alone = format!("<div id=app></div><noscript><p>{text}</p></noscript>");
    assert!(MainText::of(&alone).text().contains("without scripts"));
    assert!(!MainText::of(&format!("{alone}{}", article())).text().contains("without scripts"));
}

#[test]
fn a_table_has_a_line_per_row_and_a_tab_between_cells() {
    let html = "<table><tr><th>Port<th>Ships<tr><td>North<td>12<tr><td>South<td></table>";
    let page = MainText::whole(html);
    assert_eq!(page.text(), "Port\tShips\nNorth\t12\nSouth");
    assert_eq!(markdown(&page), "| Port | Ships |\n| --- | --- |\n| North | 12 |\n| South | |");
}

#[test]
fn text_begins_with_the_first_row_that_has_any() {
    let text = |rows: &str| MainText::whole(&format!("<table>{rows}</table>")).text();
    assert_eq!(text("<tr><td><tr><th>Port<th>Ships"), "Port\tShips");
    assert_eq!(text("<tr><td><td><tr><td><tr><th><th>Ships<tr><td>North<td>12"), "\tShips\nNorth\t12");
    assert_eq!(MainText::whole("<table><tr><td></table><p>end").text(), "end");
    assert_eq!(MainText::whole("<pre>  one\n two</pre>").text(), "  one\n two");
}

#[test]
fn lists_are_nested_in_markdown_and_lines_in_text() {
    let page = MainText::whole("<ul><li>one<ol start=3><li>three<li>four</ol><li>two</ul><p>end");
    assert_eq!(page.text(), "one\nthree\nfour\ntwo\n\nend");
    assert_eq!(markdown(&page), "- one\n  3. three\n  4. four\n- two\n\nend");
}

#[test]
fn a_heading_in_an_item_of_a_list_begins_a_line_whatever_precedes_it() {
    let heading = |before: &str| {
        markdown(&MainText::whole(&format!("<ul><li>{before}<h3>Berths <br> and <i>locks</i></h3><p>Text.</ul>")))
    };
    let rest = "### Berths and *locks*\n\n  Text.";
    assert_eq!(heading("<h2>Port</h2>"), format!("- ## Port\n\n  {rest}"));
    assert_eq!(heading("<p>Port</p>"), format!("- Port\n\n  {rest}"));
    assert_eq!(heading("<ul><li>Port</ul>"), format!("-\n  - Port\n\n  {rest}"));
    assert_eq!(heading("<blockquote>Port</blockquote>"), format!("- \n  > Port\n\n  {rest}"));
    assert_eq!(heading("<pre>Port</pre>"), format!("- ```\n  Port\n  ```\n\n  {rest}"));
    let table = "<table><tr><th>a<th>b<tr><td>c<td>d</table>";
    assert_eq!(heading(table), format!("- | a | b |\n  | --- | --- |\n  | c | d |\n\n  {rest}"));
}

#[test]
fn images_are_written_only_on_request() {
    let page = MainText::whole(r#"<p>See <img src="a.png" alt="a ship"> here.</p>"#);
    let base = Url::parse("https://harbour.example/").expect("a URL");
    assert_eq!(page.markdown(&base, MarkdownOptions::default()), "See here.");
    let with = page.markdown(&base, MarkdownOptions { images: true });
    assert_eq!(with, "See ![a ship](https://harbour.example/a.png) here.");
}

#[test]
fn links_to_scripts_are_text() {
    let page = MainText::whole(
        "<p><a href='javascript:alert(1)'>one</a> <a href=' java\nscript:alert(1)'>two</a> <a>three</a>",
    );
    assert_eq!(markdown(&page), "one two three");
}

#[test]
fn a_heading_has_no_link_to_itself() {
    let page = MainText::whole(
        "<h2>Locks <a class=headerlink href=#locks title='Permalink'>¶</a></h2><p>See <a href=#notes>#</a>1 and <a href=/x>#</a>.",
    );
    assert_eq!(page.text(), "Locks\n\nSee 1 and #.");
    assert_eq!(markdown(&page), "## Locks\n\nSee 1 and [#](https://harbour.example/x).");
}

#[test]
fn links_in_code_are_links_of_code() {
    let page = MainText::whole(
        "<p>Use <code>List&lt;<a href=/t>T</a>&gt;</code>, <code><a href=/m>mod_echo</a></code> or <code>-c <var>command</var></code>.",
    );
    let link = |name: &str, path: &str| format!("[`{name}`](https://harbour.example/{path})");
    let wanted = format!("Use `List<`{}`>`, {} or `-c command`.", link("T", "t"), link("mod_echo", "m"));
    assert_eq!(markdown(&page), wanted);
}

#[test]
fn emphasis_that_markdown_cannot_express_is_left_out() {
    assert_eq!(markdown(&MainText::whole("<p>港口<b>「北」</b>区<b>灯塔</b>。")), "港口「北」区**灯塔**。");
}

#[test]
fn the_base_of_the_page_counts_for_links() {
    let page = MainText::whole("<base href='/docs/'><p><a href=x>a link</a>");
    assert_eq!(markdown(&page), "[a link](https://harbour.example/docs/x)");
}
