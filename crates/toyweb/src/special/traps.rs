//! Places with similar URLs: traps, which are endless and have no new content, and a genuine archive.

use std::fmt::Write as _;

use super::{Kind, Place, anchor};
use crate::hash::{Salt, below, mix, pick};
use crate::reply::Reply;
use crate::text::{MONTHS, WORDS};
use crate::truth::Expected;
use crate::web::Asked;

/// Articles of an archive, all in one directory.
pub(super) const ARTICLES: u64 = 10_000;
/// Articles linked from a page of the archive's list.
const LISTED: u64 = 20;
/// Pages behind a maze of session ids.
const MAZE: u64 = 40;
/// First month of a calendar, counted from year 0.
const ENTERED: u64 = 2026 * 12 + 10;

/// Returns the entrance of a place.
fn entrance(kind: Kind) -> String {
    match kind {
        Kind::Archive => "list?page=0".to_owned(),
        Kind::Calendar => month_path(ENTERED),
        Kind::SessionMaze => format!("s/{:016x}/page-0", 0),
        Kind::EchoSearch => "find?q=amber".to_owned(),
        _ => String::new(),
    }
}

pub(super) fn links(place: &Place<'_>) -> Vec<String> {
    vec![anchor(&place.url(&entrance(place.kind)))]
}

/// Returns all pages of an archive; of an endless place, only the entrance.
pub(super) fn expected(place: &Place<'_>) -> Vec<Expected> {
    if place.kind != Kind::Archive {
        return vec![place.fetched(&entrance(place.kind))];
    }
    let lists = (0..ARTICLES / LISTED).map(|page| place.fetched(&format!("list?page={page}")));
    lists.chain((0..ARTICLES).map(|article| place.fetched(&format!("article/{article}")))).collect()
}

pub(super) fn reply(place: &Place<'_>, part: &str, _: &Asked<'_>) -> Option<Reply> {
    let body = match place.kind {
        Kind::Archive => archive(place, part)?,
        Kind::Calendar => calendar(place, part)?,
        Kind::SessionMaze => maze(place, part)?,
        Kind::EchoSearch => search(place, part)?,
        // Any path: the server ignores everything after the name of the page.
        _ => "<p>The same page, wherever it is.</p><p><a href=\"docs/\">docs</a> <a href=\"guide/\">guide</a></p>"
            .to_owned(),
    };
    Some(place.page(&body))
}

fn link(body: &mut String, href: &str, text: &str) {
    let _ = writeln!(body, "<p><a href=\"{href}\">{text}</a></p>");
}

/// Returns words determined by a number.
fn words(place: &Place<'_>, number: u64, count: u64) -> String {
    let word = |at| pick(WORDS, mix(place.web.config.seed, Salt::Text, number * 1024 + at));
    (0..count).map(word).collect::<Vec<_>>().join(" ")
}

fn archive(place: &Place<'_>, part: &str) -> Option<String> {
    let mut body = String::new();
    let path = |article: u64| place.path(&format!("article/{article}"));
    if let Some(article) = part.strip_prefix("article/") {
        let article: u64 = article.parse().ok().filter(|article| *article < ARTICLES)?;
        let _ = writeln!(body, "<h2>{}</h2><p>{}.</p>", words(place, article, 4), words(place, article, 60));
        link(&mut body, &path((article + 1) % ARTICLES), "the next one");
        link(&mut body, &path((article + ARTICLES - 1) % ARTICLES), "the one before");
        return Some(body);
    }
    let page: u64 = part.strip_prefix("list?page=")?.parse().ok().filter(|page| *page < ARTICLES / LISTED)?;
    for article in page * LISTED..(page + 1) * LISTED {
        link(&mut body, &path(article), &words(place, article, 4));
    }
    if page + 1 < ARTICLES / LISTED {
        link(&mut body, &place.path(&format!("list?page={}", page + 1)), "older");
    }
    Some(body)
}

fn month_path(month: u64) -> String {
    format!("{}/{:02}/", month / 12, month % 12 + 1)
}

fn calendar(place: &Place<'_>, part: &str) -> Option<String> {
    let mut numbers = part.split_terminator('/').map(str::parse::<u64>);
    let (year, month) = (numbers.next()?.ok()?, numbers.next()?.ok().filter(|month| (1..=12).contains(month))?);
    let day = numbers.next().transpose().ok()?;
    let (month, mut body) = ((year * 12 + month).checked_sub(1)?, String::new());
    let name = |month: u64| format!("{} {}", MONTHS[(month % 12) as usize], month / 12);
    if let Some(day) = day {
        let _ = writeln!(body, "<p>There is nothing on {day} {}.</p>", name(month));
        link(&mut body, &place.path(&month_path(month)), &name(month));
        return Some(body);
    }
    let _ = writeln!(body, "<h2>{}</h2>", name(month));
    for day in 1..=28 {
        link(&mut body, &place.path(&format!("{}{day:02}", month_path(month))), &day.to_string());
    }
    link(&mut body, &place.path(&month_path(month + 1)), &name(month + 1));
    link(&mut body, &place.path(&month_path(month.saturating_sub(1))), &name(month.saturating_sub(1)));
    Some(body)
}

/// Starts a new session on every request; its id is in all links.
fn maze(place: &Place<'_>, part: &str) -> Option<String> {
    let (session, page) = part.strip_prefix("s/")?.split_once("/page-")?;
    let page: u64 = page.parse().ok().filter(|page| *page < MAZE)?;
    let session = mix(u64::from_str_radix(session, 16).ok()?, Salt::Link, page);
    let mut body = format!("<h2>{}</h2><p>{}</p>\n", words(place, page, 3), words(place, page, 30));
    for step in 1..=5 {
        let to = (page + step * step) % MAZE;
        link(&mut body, &place.path(&format!("s/{session:016x}/page-{to}")), &words(place, to, 3));
    }
    Some(body)
}

fn search(place: &Place<'_>, part: &str) -> Option<String> {
    let query = part.strip_prefix("find?q=")?;
    let shown = query.replace('+', " ");
    let mut body = format!("<p>Nothing was found for <b>{shown}</b>. Try one of these:</p>\n");
    let hash = query.bytes().fold(7, |hash, byte| mix(hash, Salt::Link, byte.into()));
    for number in 0..5 {
        let word = WORDS[below(mix(hash, Salt::Text, number), WORDS.len() as u64) as usize];
        link(&mut body, &place.path(&format!("find?q={query}+{word}")), &format!("{shown} {word}"));
    }
    Some(body)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{Web, WebConfig};

    /// Returns every href of a page, and its body.
    fn page(place: &Place<'_>, path: &str) -> (Vec<String>, String) {
        let part = &path[place.path("").len()..];
        let body = String::from_utf8(reply(place, part, &Asked::default()).unwrap().body).unwrap();
        let hrefs = body.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
        let hrefs = hrefs.map(|href| if href.starts_with('/') { href.to_owned() } else { format!("{path}{href}") });
        (hrefs.collect(), body)
    }

    #[test]
    fn a_trap_has_no_end_and_an_archive_has_what_its_truth_says() {
        for kind in Kind::ALL.iter().copied().filter(|kind| kind.is_of_traps()) {
            let web = Web::new(WebConfig { specials: [(kind, 1)].into(), ..WebConfig::default() }, 80).unwrap();
            let place = Place { web: &web, kind, number: 0 };
            let start = place.path(&entrance(kind));
            let (mut seen, mut queue) = (BTreeSet::from([start.clone()]), std::collections::VecDeque::from([start]));
            let mut bodies = BTreeSet::new();
            while let Some(path) = queue.pop_front()
                && seen.len() < 20_000
            {
                let (hrefs, body) = page(&place, &path);
                bodies.insert(body);
                queue.extend(hrefs.into_iter().filter(|href| seen.insert(href.clone())));
            }
            if kind.is_endless() {
                assert!(!queue.is_empty(), "{kind:?} has an end");
            } else {
                assert_eq!((queue.len(), seen.len() as u64), (0, ARTICLES + ARTICLES / LISTED));
                assert_eq!(bodies.len(), seen.len(), "no two articles are the same");
            }
        }
    }
}
