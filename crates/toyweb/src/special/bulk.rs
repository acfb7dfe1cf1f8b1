//! Bulky places: a tree with a single path to each page, a page with a large picture, pages full of links.

use std::fmt::Write as _;

use super::{Kind, Place, anchor};
use crate::directory::decoded;
use crate::heavy::picture;
use crate::reply::Reply;
use crate::truth::Expected;
use crate::web::Asked;

/// Pages of a tree.
pub(super) const TREE: u64 = 240;
/// Children of a page of a tree.
const FAN_OUT: u64 = 3;
/// Size of the inlined picture in bytes.
const PICTURE: usize = 6_000_000;
/// Number of target URLs of a page with many or long links.
const TARGETS: u32 = 10;
/// Links on the page with many links.
const MANY: u32 = 20_000;
/// Links on the page with long links.
const LONG: u32 = 3_000;
/// Name of a target of many links; each letter can be written in two ways, enough spellings for all links.
const NAME: &str = "an-article-that-many-links-lead-to";
/// Repetitions of the name in a long link.
const REPEATED: usize = 12;

pub(super) fn links(place: &Place<'_>) -> Vec<String> {
    vec![anchor(&place.url(if place.kind == Kind::Tree { "0" } else { "page" }))]
}

pub(super) fn expected(place: &Place<'_>) -> Vec<Expected> {
    match place.kind {
        Kind::Tree => (0..TREE).map(|page| place.fetched(&page.to_string())).collect(),
        Kind::Pictures => vec![place.fetched("page")],
        _ => {
            let targets = (0..TARGETS).map(|target| place.fetched(&name(place.kind, target)));
            targets.chain([place.fetched("page")]).collect()
        }
    }
}

pub(super) fn reply(place: &Place<'_>, part: &str, _: &Asked<'_>) -> Option<Reply> {
    let mut body = String::new();
    match (place.kind, part) {
        (Kind::Tree, _) => {
            let page = part.parse::<u64>().ok().filter(|page| *page < TREE && page.to_string() == part)?;
            for child in children(page) {
                body.push_str(&anchor(&place.url(&child.to_string())));
            }
        }
        (Kind::Pictures, "page") => picture(u64::from(place.number), PICTURE, &mut body),
        (Kind::ManyLinks, "page") => spellings(place, MANY, &mut body),
        (Kind::LongLinks, "page") => spellings(place, LONG, &mut body),
        (Kind::ManyLinks | Kind::LongLinks, _) => {
            let plain = decoded(part)?;
            (0..TARGETS).find(|target| name(place.kind, *target) == plain)?;
            body.push_str("<p>A page with many names.</p>");
        }
        _ => return None,
    }
    Some(place.page(&body))
}

fn children(page: u64) -> impl Iterator<Item = u64> {
    (page * FAN_OUT + 1..=page * FAN_OUT + FAN_OUT).take_while(|child| *child < TREE)
}

/// Returns the unescaped name of a target.
fn name(kind: Kind, target: u32) -> String {
    let times = if kind == Kind::LongLinks { REPEATED } else { 1 };
    format!("{}{target}", format!("{NAME}-").repeat(times))
}

/// Appends links to the targets in turn, each spelled differently: the bits of the spelling's number select the letters
/// to escape. A crawler sees many links but few URLs.
fn spellings(place: &Place<'_>, count: u32, body: &mut String) {
    for link in 0..count {
        let (target, spelling) = (link % TARGETS, link / TARGETS + 1);
        let mut part = String::new();
        for (at, letter) in name(place.kind, target).char_indices() {
            // Beyond the bits of the number every second letter is escaped, to make the links long.
            let is_escaped = if at < 16 { spelling >> at & 1 == 1 } else { at % 2 == 0 };
            let _ = if is_escaped { write!(part, "%{:02X}", u32::from(letter)) } else { write!(part, "{letter}") };
        }
        let _ = writeln!(body, "<a href=\"{}\">Link {link}</a>", place.path(&part));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use url::Url;

    use crate::directory::decoded;
    use crate::truth::truth;
    use crate::web::{Asked, Web};
    use crate::{Expected, Kind, Reply, WebConfig};

    /// Creates a web with one place; returns it with the expected results for the place.
    fn web_of(kind: Kind) -> (Web, Vec<Expected>) {
        let config = WebConfig { pages: 10, address_hosts: 3, specials: [(kind, 1)].into(), ..WebConfig::default() };
        let web = Web::new(config, 8080).unwrap();
        let parts = truth(&web).filter(|expected| expected.kind == Some(kind)).collect();
        (web, parts)
    }

    fn ask(web: &Web, url: &str) -> Reply {
        let url = Url::parse(url).unwrap();
        let host = format!("{}:8080", url.host_str().unwrap());
        let reply = web.answer(&Asked { host: &host, target: url.path(), ..Asked::default() });
        assert_eq!(reply.status, 200, "{url}");
        reply
    }

    fn links(web: &Web, url: &str) -> Vec<String> {
        let body = String::from_utf8(ask(web, url).body).unwrap();
        let hrefs = body.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
        let url = Url::parse(url).unwrap();
        hrefs.map(|href| url.join(href).unwrap().to_string()).collect()
    }

    #[test]
    fn each_page_of_a_tree_but_its_root_is_linked_from_exactly_one_page_exactly_once() {
        let (web, parts) = web_of(Kind::Tree);
        let urls: BTreeSet<_> = parts.iter().map(|part| part.url.clone()).collect();
        let mut linked = BTreeMap::new();
        for url in &urls {
            links(&web, url).into_iter().for_each(|link| *linked.entry(link).or_insert(0) += 1);
        }
        assert_eq!(urls.len() as u64, super::TREE);
        assert_eq!(linked.len(), urls.len() - 1);
        assert!(linked.iter().all(|(url, times)| urls.contains(url) && *times == 1));
        let hosts: BTreeSet<_> =
            urls.iter().map(|url| Url::parse(url).unwrap().host_str().unwrap().to_owned()).collect();
        assert_eq!(hosts.len(), 3, "it is spread over all hosts");
    }

    #[test]
    fn many_links_and_long_links_are_distinct_and_lead_to_the_ten_urls_of_the_truth() {
        for (kind, count, longer) in [(Kind::ManyLinks, 20_000, 60), (Kind::LongLinks, 3_000, 800)] {
            let (web, parts) = web_of(kind);
            let page = parts.iter().find(|part| part.url.ends_with("/page")).unwrap();
            let links = links(&web, &page.url);
            assert_eq!(links.iter().collect::<BTreeSet<_>>().len(), count);
            assert!(links.iter().all(|link| link.len() > longer && link.len() < 2_048));
            let mut targets: BTreeSet<_> = links.iter().map(|link| decoded(link).unwrap()).collect();
            targets.insert(page.url.clone());
            assert_eq!(targets, parts.iter().map(|part| part.url.clone()).collect());
            // A page answers to each of its spellings.
            ask(&web, &links[7]);
        }
    }

    #[test]
    fn a_page_with_a_picture_is_larger_than_six_megabytes() {
        let (web, parts) = web_of(Kind::Pictures);
        assert!(links(&web, &parts[0].url).is_empty());
        assert!(ask(&web, &parts[0].url).body.len() > 6_000_000);
    }
}
