//! Expected stored data of a web: row, links and redirect of each URL, robots.txt of each authority. Pure.

use std::collections::{BTreeMap, BTreeSet};

use orbweaver_cluster_tests::{Digest, content_hash};
use orbweaver_toyweb::{Asked, Expected, Fate, Reply, Web};
use url::{Position, Url};

/// Number of earlier requests, sufficient for every special place to give its final response.
const BEFORE: u32 = 1_000;
/// Maximum number of followed redirects of a robots.txt.
const ROBOTS_HOPS: usize = 5;

/// Final state of a URL and its expected stored data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// A page with its document and its links.
    Page(Contents),
    Redirect {
        /// The HTTP status.
        status: u16,
        /// The absolute target.
        target: String,
    },
    /// A URL without content.
    Gone {
        /// The HTTP status.
        status: u16,
    },
    /// A row or none: the outcome is up to the crawler.
    Anything,
}

/// Content of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// Size of the decoded body, in bytes.
    pub bytes: u64,
    /// Hash of the decoded body.
    pub hash: String,
    /// Links in order, including repetitions.
    pub links: Digest,
    /// Distinct link targets in the order of their first link.
    pub targets: Digest,
    /// Words of the text, without the title.
    pub words: Digest,
}

/// A robots.txt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Robots {
    /// The HTTP status at the end of its redirects.
    pub status: Option<u16>,
    /// The text; empty if there is none.
    pub body: String,
}

/// All expected stored data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keepsakes {
    /// By canonical URL.
    pub urls: BTreeMap<String, Kept>,
    /// By authority: scheme, host and port.
    pub robots: BTreeMap<String, Robots>,
}

/// Returns the data that a crawl of a web must store.
#[must_use]
pub fn keepsakes(web: &Web, truth: &[Expected]) -> Keepsakes {
    let mut all = Keepsakes::default();
    for expected in truth {
        let Ok(url) = Url::parse(&expected.url) else { continue };
        if let Some(kept) = kept(web, &url, expected) {
            all.urls.insert(expected.url.clone(), kept);
        }
        if expected.least > 0 {
            all.robots.entry(url[..Position::BeforePath].to_owned()).or_insert_with(|| robots(web, &url));
        }
    }
    all
}

fn kept(web: &Web, url: &Url, expected: &Expected) -> Option<Kept> {
    Some(match expected.fate {
        Fate::Fetched => Kept::Page(contents(url, &at_last(web, url))),
        Fate::Redirected => {
            let reply = ask(web, url);
            Kept::Redirect { status: reply.status, target: location(url, &reply)?.into() }
        }
        Fate::Gone => Kept::Gone { status: ask(web, url).status },
        Fate::Circling | Fate::RefusedByRobots | Fate::NotHtml | Fate::Cut => Kept::Anything,
        Fate::BehindNofollow | Fate::OutOfScope | Fate::Unreached => return None,
    })
}

pub(crate) fn ask(web: &Web, url: &Url) -> Reply {
    let host = &url[Position::BeforeHost..Position::AfterPort];
    web.answer(&Asked {
        host,
        target: &url[Position::BeforePath..Position::AfterQuery],
        before: BEFORE,
        ..Asked::default()
    })
}

fn location(url: &Url, reply: &Reply) -> Option<Url> {
    let (_, to) = reply.headers.iter().find(|(name, _)| *name == "location")?;
    url.join(to).ok()
}

/// Returns the response, after a redirect to another spelling of the URL if there is one.
fn at_last(web: &Web, url: &Url) -> Reply {
    let reply = ask(web, url);
    match location(url, &reply).filter(|_| (300..400).contains(&reply.status)) {
        Some(to) => ask(web, &to),
        None => reply,
    }
}

fn robots(web: &Web, url: &Url) -> Robots {
    let mut at = url.clone();
    at.set_path("/robots.txt");
    at.set_query(None);
    let mut reply = ask(web, &at);
    for _ in 0..ROBOTS_HOPS {
        let Some(to) = location(&at, &reply) else { break };
        reply = ask(web, &to);
        at = to;
    }
    let is_there = (200..300).contains(&reply.status);
    let body = if is_there { String::from_utf8_lossy(&reply.body).into_owned() } else { String::new() };
    Robots { status: Some(reply.status), body }
}

/// Returns the links of a page, as a generated web writes them: in double quotes, in `a` elements only.
pub(crate) fn links(url: &Url, reply: &Reply) -> Vec<Url> {
    let text = String::from_utf8_lossy(&reply.body);
    let hrefs = text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let target = |href: &str| {
        let mut target = url.join(&href.replace("&amp;", "&")).ok()?;
        target.set_fragment(None);
        Some(target)
    };
    hrefs.filter_map(target).collect()
}

fn contents(url: &Url, reply: &Reply) -> Contents {
    let (text, targets) = (String::from_utf8_lossy(&reply.body), links(url, reply));
    let mut met = BTreeSet::new();
    Contents {
        bytes: reply.body.len() as u64,
        hash: content_hash(&reply.body),
        links: Digest::of(targets.iter().map(Url::as_str)),
        targets: Digest::of(targets.iter().map(Url::as_str).filter(|target| met.insert(*target))),
        words: Digest::of(shown(&text).split_whitespace()),
    }
}

/// Returns the text of a page, as a generated web writes it: without character references and scripts. An `a` does not
/// end a word, any other tag does.
fn shown(html: &str) -> String {
    let mut shown = String::with_capacity(html.len());
    for piece in html.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').unwrap_or((piece, ""));
        let name = tag.split_ascii_whitespace().next().unwrap_or_default();
        if !matches!(name, "a" | "/a") {
            shown.push(' ');
        }
        if name != "title" {
            shown.push_str(text);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use orbweaver_toyweb::{Kind, WebConfig, truth};

    use super::*;

    #[test]
    fn what_has_to_be_kept_of_each_kind_of_url_is_read_off_its_web() {
        let specials =
            [(Kind::ManyLinks, 1), (Kind::Chain, 3), (Kind::Dead, 1), (Kind::Respelled, 1), (Kind::Spellings, 1)];
        let config =
            WebConfig { pages: 30, links: 20, address_hosts: 4, specials: specials.into(), ..WebConfig::default() };
        let web = Web::new(config, 8080).unwrap();
        let truth: Vec<_> = truth(&web).collect();
        let kept = keepsakes(&web, &truth);
        assert_eq!(kept.urls.len(), truth.len());
        let of = |end: &str| kept.urls.iter().find(|(url, _)| url.ends_with(end)).unwrap().1;
        let page = |end: &str| if let Kept::Page(page) = of(end) { page } else { panic!("{end} is no page") };
        let many = page("/x/many-links/0/page");
        assert_eq!((many.links.count, many.targets), (20_000, many.links));
        assert!(many.bytes > 2 << 20);
        assert!(
            matches!(of("/x/chain/0/hop-0"), Kept::Redirect { status: 301, target } if target.ends_with("/x/chain/0/end"))
        );
        assert_eq!(*of("/x/dead/0/removed"), Kept::Gone { status: 410 });
        let respelled = page("/x/respelled/0/~page");
        assert!(respelled.bytes > 100 && respelled.links.count == 0);
        assert_eq!(respelled.words, Digest::of("respelled 0 In canonical spelling.".split(' ')));
        // Pages link to some pages twice.
        assert!(
            kept.urls.values().any(|kept| matches!(kept, Kept::Page(page) if page.links.count > page.targets.count))
        );
        let robots: Vec<_> = kept.robots.values().map(|robots| (robots.status, robots.body.is_empty())).collect();
        assert_eq!(robots, [(Some(200), false), (Some(200), false), (Some(200), false), (Some(404), true)]);
    }

    #[test]
    fn the_links_and_words_of_a_page_are_read_in_order() {
        let html = "<!DOCTYPE html>\n<head><title>No word</title></head>\n<body><h1>One</h1>two \
                    th<a href=\"/b?x=1&amp;y=2#f\">ree</a>.\n\
                    <p><a href=\"//10.0.0.2/\">four</a></p><a href=\"b?x=1&amp;y=2\">five</a></body>\n";
        let found = contents(&Url::parse("http://10.0.0.1/a").unwrap(), &Reply::html(html.to_owned()));
        let (first, second) = ("http://10.0.0.1/b?x=1&y=2", "http://10.0.0.2/");
        assert_eq!(found.links, Digest::of([first, second, first]));
        assert_eq!(found.targets, Digest::of([first, second]));
        assert_eq!(found.words, Digest::of(["One", "two", "three.", "four", "five"]));
    }
}
