//! Redirects: chains, loops, cookie walls, reordered queries and respelled escapes.

use super::{Kind, Place, anchor};
use crate::reply::Reply;
use crate::truth::{Expected, Fate};
use crate::web::Asked;

/// Redirects in a long chain, beyond the twenty that are followed.
const LONG: u32 = 25;
/// Redirects of one chain that a crawler follows.
const FOLLOWED: u32 = 20;
/// Maximum requests for a URL that redirects back to itself: the limit of one dispatch, plus a margin for other
/// crawlers.
const CIRCLING: u32 = 12;

pub(super) fn links(place: &Place<'_>) -> Vec<String> {
    let part = match place.kind {
        Kind::CookieWall => "page",
        Kind::Reordered => "list?a=1&b=2",
        Kind::Respelled => "~page",
        _ => "hop-0",
    };
    vec![anchor(&place.url(part))]
}

pub(super) fn expected(place: &Place<'_>) -> Vec<Expected> {
    let hop = |number: u32, fate, requests| place.expect(&format!("hop-{number}"), fate, requests);
    match place.kind {
        Kind::Chain => {
            let hops = (0..hops(place)).map(|number| hop(number, Fate::Redirected, (1, 1)));
            hops.chain([place.fetched("end")]).collect()
        }
        Kind::Loop => (0..2).map(|number| hop(number, Fate::Circling, (1, CIRCLING))).collect(),
        Kind::LongChain => {
            let hops = (0..LONG).map(|number| match number {
                _ if number + 1 < FOLLOWED => hop(number, Fate::Redirected, (1, 1)),
                _ if number <= FOLLOWED + 1 => hop(number, Fate::Circling, (0, 1)),
                _ => hop(number, Fate::Unreached, (0, 0)),
            });
            hops.chain([place.expect("end", Fate::Unreached, (0, 0))]).collect()
        }
        Kind::CookieWall => vec![place.expect("page", Fate::Fetched, (2, 2))],
        Kind::Reordered => vec![place.expect("list?a=1&b=2", Fate::Redirected, (1, 1)), place.fetched("list?b=2&a=1")],
        // Two spellings of one URL: the first redirects, the second answers.
        _ => vec![place.expect("~page", Fate::Fetched, (2, 2))],
    }
}

pub(super) fn reply(place: &Place<'_>, part: &str, asked: &Asked<'_>) -> Option<Reply> {
    let number: Option<u32> = part.strip_prefix("hop-").and_then(|number| number.parse().ok());
    Some(match (place.kind, part, number) {
        (Kind::Chain, "end", _) | (Kind::LongChain, "end", _) => place.page("<p>The end of the chain.</p>"),
        (Kind::Chain, _, Some(hop)) if hop < hops(place) => chained(place, hop, hops(place)),
        (Kind::LongChain, _, Some(hop)) if hop < LONG => chained(place, hop, LONG),
        (Kind::Loop, _, Some(hop)) if hop < 2 => Reply::redirect(302, place.url(&format!("hop-{}", 1 - hop))),
        (Kind::CookieWall, "page", _) if asked.cookie.contains("wall=passed") => place.page("<p>Welcome.</p>"),
        (Kind::CookieWall, "page", _) => {
            Reply::redirect(302, place.url("page")).with_header("set-cookie", "wall=passed; Path=/".into())
        }
        (Kind::Reordered, "list?a=1&b=2", _) => Reply::redirect(301, place.url("list?b=2&a=1")),
        (Kind::Reordered, "list?b=2&a=1", _) => place.page("<p>In canonical order.</p>"),
        (Kind::Respelled, "~page", _) => Reply::redirect(301, place.url("%7Epage")),
        (Kind::Respelled, "%7Epage", _) => place.page("<p>In canonical spelling.</p>"),
        _ => return None,
    })
}

fn hops(place: &Place<'_>) -> u32 {
    1 + place.number % 4
}

/// Creates the response of one hop: all five statuses, absolute and relative targets in turn.
fn chained(place: &Place<'_>, hop: u32, hops: u32) -> Reply {
    const STATUSES: [u16; 5] = [301, 302, 303, 307, 308];
    let status = STATUSES[(place.number + hop) as usize % STATUSES.len()];
    let next = if hop + 1 == hops { "end".to_owned() } else { format!("hop-{}", hop + 1) };
    let other_host = place.host(&next) != place.host("hop-0");
    let location = match hop % 3 {
        _ if other_host => place.url(&next),
        0 => place.url(&next),
        1 => place.path(&next),
        _ => next,
    };
    Reply::redirect(status, location)
}
