//! Link graph, and the mapping between pages and their paths.
//!
//! Pages form a tree in which page `p` links to its children `f*p+1 ..= f*p+f`, so all are reachable from page 0 and
//! the parent of each is known without a table; the other links of a page are random.

use std::fmt::Write as _;

use crate::config::WebConfig;
use crate::hash::{Salt, below, mix, pick};
use crate::text::{NUMBER_DIGITS, WORDS};

/// Returns the number of children of a page in the tree.
pub(crate) fn fan_out(config: &WebConfig) -> u64 {
    u64::from(config.links / 2).clamp(1, 8)
}

/// Returns the targets of a page's links, in order: home, its parent, its children, then random pages.
pub(crate) fn targets(config: &WebConfig, page: u64) -> impl Iterator<Item = u64> + use<> {
    let (fan, pages, seed) = (fan_out(config), config.pages, config.seed);
    let links = u64::from(config.links);
    let first = page.saturating_mul(fan).saturating_add(1).min(pages);
    let children = first..first.saturating_add(fan).min(pages);
    let count = children.end - children.start;
    let up = [0, page.saturating_sub(1) / fan].into_iter().take(links.saturating_sub(count).min(2) as usize);
    let random = links.saturating_sub(count + 2);
    let base = page.wrapping_mul(1_024);
    up.chain(children).chain((0..random).map(move |n| below(mix(seed, Salt::Link, base.wrapping_add(n)), pages)))
}

/// Appends path and query of a page.
pub(crate) fn write_path(config: &WebConfig, page: u64, out: &mut String) {
    if config.alike {
        let _ = write!(out, "/page/{page:0NUMBER_DIGITS$}");
        return;
    }
    let hash = mix(config.seed, Salt::Path, page);
    let (section, topic, word) = (pick(WORDS, hash), pick(WORDS, hash << 16), pick(WORDS, hash << 32));
    let _ = match hash & 15 {
        _ if page == 0 => write!(out, "/"),
        0 | 1 => write!(out, "/browse?item={page}"),
        2 | 3 => write!(out, "/{section}/{page}/"),
        4 => write!(out, "/{section}/{topic}/more/{word}-{page}.html"),
        5..=7 => write!(out, "/{section}/{word}-{page}.html"),
        _ => write!(out, "/{section}/{topic}/{word}-{page}.html"),
    };
}

/// Returns the page at a path with its query, if any.
pub(crate) fn page_at(config: &WebConfig, path: &str) -> Option<u64> {
    let number = match path {
        "/" => "0",
        _ => {
            let digits = path.strip_suffix(".html").or_else(|| path.strip_suffix('/')).unwrap_or(path);
            let start = digits.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
            &digits[start..]
        }
    };
    let page = number.parse().ok().filter(|page| *page < config.pages)?;
    let mut own = String::with_capacity(64);
    write_path(config, page, &mut own);
    (own == path).then_some(page)
}

/// Appends `to` as a reference relative to `from`, both absolute paths of one host; never a bare query, which some
/// clients resolve wrongly and which has its own special place.
pub(crate) fn write_relative(from: &str, to: &str, out: &mut String) {
    let from_path = from.split('?').next().unwrap_or(from);
    let from_dir = &from_path[..=from_path.rfind('/').unwrap_or(0)];
    let to_dir = &to[..=to.split('?').next().and_then(|path| path.rfind('/')).unwrap_or(0)];
    let shared = from_dir
        .split_inclusive('/')
        .zip(to_dir.split_inclusive('/'))
        .take_while(|(own, theirs)| own == theirs)
        .map(|(segment, _)| segment.len())
        .sum::<usize>();
    let ups = from_dir[shared..].matches('/').count();
    (0..ups).for_each(|_| out.push_str("../"));
    let rest = &to[shared..];
    if ups == 0 && (rest.is_empty() || rest.starts_with('?')) {
        out.push_str("./");
    }
    out.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_found_again_from_its_path() {
        for alike in [false, true] {
            let config = WebConfig { pages: 5_000, alike, ..WebConfig::default() };
            for page in 0..config.pages {
                let mut path = String::new();
                write_path(&config, page, &mut path);
                assert_eq!(page_at(&config, &path), Some(page), "{path}");
                assert_eq!(page_at(&config, &format!("{path}x")), None, "{path}");
            }
        }
    }

    #[test]
    fn every_page_but_the_first_is_linked_from_its_parent() {
        for links in [2, 3, 7, 30] {
            let config = WebConfig { pages: 1_000, links, ..WebConfig::default() };
            for page in 1..config.pages {
                let parent = (page - 1) / fan_out(&config);
                assert!(targets(&config, parent).any(|target| target == page), "{links} links, page {page}");
                assert_eq!(targets(&config, page).count(), links as usize);
            }
        }
    }

    #[test]
    fn the_last_of_many_pages_costs_no_more_than_the_first() {
        let config = WebConfig { pages: 1 << 40, ..WebConfig::default() };
        let page = config.pages - 1;
        let mut path = String::new();
        write_path(&config, page, &mut path);
        assert_eq!(page_at(&config, &path), Some(page));
        assert!(targets(&config, page).all(|target| target < config.pages));
    }

    #[test]
    fn a_relative_reference_resolves_to_its_target() {
        let paths =
            ["/", "/a/", "/a/b/", "/a/b.html", "/a/b/c.html", "/d/e/f/g.html", "/browse?item=1", "/browse?item=2"];
        for from in paths {
            for to in paths {
                let mut reference = String::new();
                write_relative(from, to, &mut reference);
                let base = url::Url::parse("http://127.0.0.1").unwrap().join(from).unwrap();
                let joined = base.join(&reference).unwrap();
                assert_eq!(joined.as_str(), format!("http://127.0.0.1{to}"), "{reference} from {from}");
            }
        }
    }
}
