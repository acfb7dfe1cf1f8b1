//! Heavy web: 28 ordinary pages, some of which overload a careless crawler. One host, with links to three hosts outside
//! of the web.

use std::fmt::Write as _;
use std::ops::Range;

use crate::hash::{Salt, mix};
use crate::reply::Reply;

/// Number of ordinary pages.
const PLAIN: usize = 21;
/// Levels of the most deeply nested page.
const LEVELS: usize = 200_000;
/// Control characters per link on the page that has them: all except white space and NUL.
const CONTROLS: usize = 400;

/// Links behind the pictures of a page.
const BEHIND: u64 = 10;

const HEAVY: [(&str, Page); 6] = [
    ("/pictures-6mb", Page::Pictures { count: 60, bytes: 100_000, first: 80_000 }),
    ("/pictures-20mb", Page::Pictures { count: 1, bytes: 20_000_000, first: 80_000 + BEHIND }),
    ("/links-20000", Page::Links { first: 0, count: 20_000 }),
    ("/links-60000", Page::Links { first: 20_000, count: 60_000 }),
    ("/controls", Page::Controls { count: 3_000 }),
    ("/depth", Page::Depth),
];

#[derive(Debug, Clone, Copy)]
enum Page {
    /// Inlined pictures of `bytes` bytes each, and behind them links, numbered from `first`.
    Pictures { count: u64, bytes: usize, first: u64 },
    /// Links, numbered from `first`.
    Links { first: u64, count: u64 },
    /// Links with control characters.
    Controls { count: u64 },
    /// Nested elements.
    Depth,
}

/// Returns the paths of all pages of the heavy web; a crawl starts at the first.
#[must_use]
pub fn heavy_paths() -> Vec<String> {
    let plain = (1..=PLAIN).map(|number| format!("/page-{number}"));
    let heavy = HEAVY.iter().map(|(path, _)| (*path).to_owned());
    std::iter::once("/".to_owned()).chain(heavy).chain(plain).collect()
}

/// Returns the URLs outside of the heavy web that one of its pages links to, as a crawler resolves them.
#[must_use]
pub fn heavy_links(path: &str) -> Vec<String> {
    match page(path) {
        Some(Page::Pictures { first, .. }) => (first..first + BEHIND).map(article).collect(),
        Some(Page::Links { first, count }) => (first..first + count).map(article).collect(),
        Some(Page::Controls { count }) => {
            let escaped = |byte: u8| format!("%{byte:02X}");
            (0..count).map(|number| controls(number, escaped)).collect()
        }
        _ => vec![],
    }
}

/// Answers a request.
pub(crate) fn answer(target: &str) -> Reply {
    let paths = heavy_paths();
    if !paths.iter().any(|path| path == target) {
        return Reply::not_found();
    }
    let mut body = format!("<!DOCTYPE html>\n<html lang=\"en\"><head><title>{target}</title></head><body>\n");
    match page(target) {
        Some(Page::Pictures { count, bytes, first }) => {
            (0..count).for_each(|number| picture(number, bytes, &mut body));
            link_articles(first..first + BEHIND, &mut body);
        }
        Some(Page::Links { first, count }) => link_articles(first..first + count, &mut body),
        Some(Page::Controls { count }) => {
            for number in 0..count {
                let href = controls(number, |byte| char::from(byte).to_string());
                let _ = writeln!(body, "<a href=\"{href}\">Article {number}</a>");
            }
        }
        Some(Page::Depth) => {
            let _ = write!(body, "{}deep{}", "<div>".repeat(LEVELS), "</div>".repeat(LEVELS));
        }
        None if target == "/" => {
            for path in &paths {
                let _ = writeln!(body, "<a href=\"{path}\">{path}</a>");
            }
        }
        None => body.push_str("<p>A page like any other. <a href=\"/\">All pages</a>"),
    }
    body.push_str("\n</body></html>\n");
    Reply::html(body)
}

fn page(path: &str) -> Option<Page> {
    HEAVY.iter().find(|(heavy, _)| *heavy == path).map(|(_, page)| *page)
}

fn link_articles(numbers: Range<u64>, out: &mut String) {
    for number in numbers {
        let _ = writeln!(out, "<a href=\"{}\">Article {number}</a>", article(number));
    }
}

fn article(number: u64) -> String {
    format!("http://elsewhere-{}.invalid/articles/of-a-year/{number}/with-a-title-that-says-something", number % 3)
}

fn controls(number: u64, written: impl Fn(u8) -> String) -> String {
    let bytes = (1..0x20_u8).filter(|byte| !byte.is_ascii_whitespace() && *byte != 0x0b).cycle().take(CONTROLS);
    format!("http://elsewhere-0.invalid/controls/{number}/{}/end", bytes.map(written).collect::<String>())
}

/// Appends an inlined picture: noise in base64, so that compression gains little.
pub(crate) fn picture(number: u64, bytes: usize, out: &mut String) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    out.push_str("<img alt=\"a picture\" src=\"data:image/png;base64,");
    let end = out.len() + bytes;
    let mut block = 0;
    while out.len() < end {
        let noise = mix(number, Salt::Text, block);
        out.extend((0..10).map(|digit| char::from(DIGITS[(noise >> (6 * digit) & 63) as usize])));
        block += 1;
    }
    out.push_str("\">\n");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_heavy_web_has_28_pages_and_the_links_that_it_says() {
        let paths = heavy_paths();
        assert_eq!(paths.iter().collect::<BTreeSet<_>>().len(), 28);
        let base = url::Url::parse("http://127.0.0.1/").unwrap();
        for path in &paths {
            let reply = answer(path);
            assert_eq!(reply.status, 200);
            let body = String::from_utf8(reply.body).unwrap();
            let hrefs = body.split("<a href=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
            let urls = hrefs.map(|href| base.join(href).unwrap()).filter(|url| url.host() != base.host());
            assert!(urls.map(String::from).eq(heavy_links(path)), "{path}");
        }
        let size = |path: &str| answer(path).body.len();
        assert!((6_000_000..6_100_000).contains(&size("/pictures-6mb")));
        assert!((20_000_000..20_010_000).contains(&size("/pictures-20mb")));
        let behind = |path: &str| String::from_utf8(answer(path).body).unwrap().find("<a ").unwrap();
        assert!(behind("/pictures-6mb") > 6_000_000 && behind("/pictures-20mb") > 20_000_000);
        assert_eq!((heavy_links("/links-20000").len(), heavy_links("/links-60000").len()), (20_000, 60_000));
        assert_eq!(answer("/nothing").status, 404);
    }
}
