//! robots.txt of every host, and the places that it concerns.

use super::{Kind, Place, anchor};
use crate::hosts::HostId;
use crate::reply::Reply;
use crate::truth::{Expected, Fate};
use crate::web::{Asked, Web};

/// Redirect target of robots.txt on some hosts.
const MOVED: &str = "/robots-moved.txt";

/// Returns the nearest main host at or before this one that has its own rules.
pub(super) fn with_rules(host: u32) -> u32 {
    if host % 4 == 3 { host - 1 } else { host }
}

/// Answers a request for robots.txt or its redirect target: of four main hosts one has no robots.txt, and one
/// redirects.
pub(crate) fn robots_txt(web: &Web, host: HostId, path: &str) -> Option<Reply> {
    let moved = path == MOVED;
    if !moved && path != "/robots.txt" {
        return None;
    }
    let rules = format!(
        "# A toy web.\nUser-agent: *\nDisallow: /x/{0}/\nAllow: /x/{0}/*/open$\n\nUser-agent: no-such-bot\nDisallow: /\n",
        Kind::Disallowed.name()
    );
    let delay = web.config.crawl_delay_s;
    Some(match host {
        HostId::Main(number) if number % 4 == 3 => Reply::not_found(),
        HostId::Main(number) if number % 4 == 2 && !moved => Reply::redirect(301, MOVED.into()),
        HostId::Main(_) => Reply::of_type("text/plain", rules.into_bytes()),
        HostId::Special(Kind::RobotsFailing, _) => Reply::plain(500, "a lasting failure\n"),
        HostId::Special(Kind::RobotsRefusing, _) => {
            Reply::of_type("text/plain", b"User-agent: *\nDisallow: /\n".to_vec())
        }
        HostId::Special(Kind::RobotsDelay, _) => {
            Reply::of_type("text/plain", format!("User-agent: *\nCrawl-delay: {delay}\n").into_bytes())
        }
        HostId::Special(..) => Reply::not_found(),
    })
}

fn parts(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Disallowed => &["secret", "deep/secret", "open"],
        Kind::RobotsDelay => &["one", "two", "three"],
        _ => &["page"],
    }
}

pub(super) fn links(place: &Place<'_>) -> Vec<String> {
    parts(place.kind).iter().map(|part| anchor(&place.url(part))).collect()
}

pub(super) fn expected(place: &Place<'_>) -> Vec<Expected> {
    parts(place.kind)
        .iter()
        .map(|part| match place.kind {
            Kind::RobotsDelay => place.fetched(part),
            Kind::Disallowed if *part == "open" => place.fetched(part),
            _ => place.expect(part, Fate::RefusedByRobots, (0, 0)),
        })
        .collect()
}

pub(super) fn reply(place: &Place<'_>, part: &str, _: &Asked<'_>) -> Option<Reply> {
    parts(place.kind).contains(&part).then(|| place.page("<p>A page that robots.txt speaks of.</p>"))
}
