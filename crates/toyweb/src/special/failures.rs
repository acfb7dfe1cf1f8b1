//! Servers that fail, are slow or ask the client to back off.

use super::{Kind, Place, anchor};
use crate::reply::{Ending, Reply};
use crate::truth::{Expected, Fate};
use crate::web::Asked;

/// More attempts than any crawler should make.
const MANY: u32 = 50;

pub(super) fn links(place: &Place<'_>) -> Vec<String> {
    parts(place.kind).iter().map(|part| anchor(&place.url(part))).collect()
}

fn parts(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::BusyHost => &["one", "two", "three"],
        Kind::Dead => &["missing", "removed"],
        _ => &["page"],
    }
}

pub(super) fn expected(place: &Place<'_>) -> Vec<Expected> {
    let failures = place.web.config.failures;
    let (fate, requests) = match place.kind {
        Kind::Flaky | Kind::Busy => (Fate::Fetched, (1 + failures, 1 + failures)),
        Kind::BusyHost => (Fate::Fetched, (1, 1 + failures)),
        Kind::Failing | Kind::Reset => (Fate::Gone, (1, MANY)),
        Kind::ShortBody => (Fate::Cut, (1, MANY)),
        Kind::Dead => (Fate::Gone, (1, 1)),
        _ => (Fate::Fetched, (1, 1)),
    };
    parts(place.kind).iter().map(|part| place.expect(part, fate, requests)).collect()
}

pub(super) fn reply(place: &Place<'_>, part: &str, asked: &Asked<'_>) -> Option<Reply> {
    if !parts(place.kind).contains(&part) {
        return None;
    }
    let config = &place.web.config;
    let failing = asked.before < config.failures;
    Some(match place.kind {
        Kind::Slow => Reply { delay_ms: config.slow_ms, ..place.page("<p>It took a while.</p>") },
        Kind::Flaky if failing => Reply::plain(500, "a passing failure\n"),
        Kind::Failing => Reply::plain(500, "a lasting failure\n"),
        Kind::Reset => Reply { ending: Ending::Reset, ..Reply::plain(500, "") },
        Kind::ShortBody => {
            let page = place.page("<p>There should be more of this.</p>");
            let promised = page.body.len() as u64 + 4_096;
            Reply { ending: Ending::Short { promised }, ..page }
        }
        Kind::Busy | Kind::BusyHost if failing => {
            Reply::plain(429, "too many requests\n").with_header("retry-after", config.retry_after_s.to_string())
        }
        Kind::Dead if part == "removed" => Reply::plain(410, "gone\n"),
        Kind::Dead => return None,
        Kind::Large => {
            let mut body = Vec::with_capacity(config.large_bytes as usize);
            place.web.prose.write(u64::from(place.number), config.large_bytes as usize, &mut body);
            place.page(&format!("<p>{}</p>", String::from_utf8_lossy(&body)))
        }
        _ => place.page("<p>All is well.</p>"),
    })
}
