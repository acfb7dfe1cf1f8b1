//! Page for the benchmarks: 16 KB, 30 links, about half of it markup.

use std::fmt::Write;

/// Makes the page.
pub(crate) fn page() -> String {
    let mut html = String::from(
        "<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>A page &amp; more</title>\
         <meta name=description content='What the page says of itself'><link rel=canonical href=/section/page>\
         <script>var markup = '<a href=x>';</script><style>p { margin: 0 }</style></head><body>",
    );
    for item in 0..30 {
        let host = if item % 10 == 9 { "https://www.example.org" } else { "" };
        let _ = writeln!(
            html,
            "<div class=\"item item-{item}\" id=\"i{item}\"><h2>Heading number {item}</h2><p class=\"lead\">Some text with \
             <b>bold</b> &amp; entities, and <a class=\"link\" href=\"{host}/section/{item}/page.html?x=1&amp;y={item}\" \
             title=\"t\">the link text {item}</a> in between. {}</p></div>",
            "Lorem ipsum dolor sit amet, consectetur adipiscing elit. ".repeat(5)
        );
    }
    html.push_str("</body></html>");
    html
}
