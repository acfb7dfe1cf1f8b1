//! Markup: encodings, frames, base, refresh, spellings, nofollow, and content that is not a page.

use std::io::Write as _;

use super::{Kind, Place, anchor};
use crate::reply::Reply;
use crate::truth::{Expected, Fate};
use crate::web::Asked;

/// Parts that are not HTML, with their content types.
const RESOURCES: &[(&str, &str)] = &[
    ("image.png", "image/png"),
    ("paper.pdf", "application/pdf"),
    ("notes.txt", "text/plain"),
    ("data.json", "application/json"),
    ("archive", "application/octet-stream"),
];

pub(super) fn links(place: &Place<'_>) -> Vec<String> {
    match place.kind {
        Kind::Refresh => vec![anchor(&place.url("here"))],
        Kind::Paging => vec![anchor(&place.url("list?page=0"))],
        Kind::Spellings => spellings(place).iter().map(|href| anchor(href)).collect(),
        Kind::Canonical => vec![anchor(&place.url("copy")), anchor(&place.url("original"))],
        Kind::Nofollow => {
            vec![format!("<p><a rel=\"external nofollow\" href=\"{}\">sponsored</a></p>", place.url("page"))]
        }
        Kind::PageNofollow => vec![anchor(&place.url("meta")), anchor(&place.url("header"))],
        Kind::Resource => RESOURCES.iter().map(|(part, _)| anchor(&place.url(part))).collect(),
        _ => vec![anchor(&place.url("page"))],
    }
}

/// Returns the spellings of one URL: escapes, fragments, dot segments and case.
fn spellings(place: &Place<'_>) -> [String; 5] {
    let plain = place.url("~page");
    let host_end = plain["http://".len()..].find('/').map_or(plain.len(), |at| "http://".len() + at);
    let (origin, path) = plain.split_at(host_end);
    [
        format!("{}{path}", origin.to_ascii_uppercase()),
        place.url("%7Epage"),
        format!("{plain}#part"),
        place.url("./sub/../~page"),
        format!("  {plain}\n"),
    ]
}

pub(super) fn expected(place: &Place<'_>) -> Vec<Expected> {
    let fetched = |parts: &[&str]| parts.iter().map(|part| place.fetched(part)).collect::<Vec<_>>();
    let unasked = |part: &str, fate| place.expect(part, fate, (0, 0));
    match place.kind {
        Kind::Refresh => fetched(&["here", "there"]),
        Kind::Paging => fetched(&["list?page=0", "list?page=1", "list?page=2"]),
        Kind::Base => [fetched(&["page", "deep/er/leaf", "deep/up"]), vec![unasked("leaf", Fate::Unreached)]].concat(),
        Kind::Frames => fetched(&["page", "iframe", "area", "frameset", "frame"]),
        Kind::Spellings => fetched(&["~page"]),
        Kind::Canonical => fetched(&["copy", "original"]),
        Kind::Nofollow => vec![unasked("page", Fate::BehindNofollow)],
        Kind::PageNofollow => {
            let behind = ["from-meta", "from-header"].map(|part| unasked(part, Fate::BehindNofollow));
            [&fetched(&["meta", "header"])[..], &behind].concat()
        }
        Kind::Resource => RESOURCES.iter().map(|(part, _)| place.expect(part, Fate::NotHtml, (0, 1))).collect(),
        Kind::Outside => vec![unasked("page", Fate::OutOfScope)],
        _ => fetched(&["page"]),
    }
}

pub(super) fn reply(place: &Place<'_>, part: &str, asked: &Asked<'_>) -> Option<Reply> {
    let leaf = || place.page("<p>A leaf.</p>");
    Some(match (place.kind, part) {
        (Kind::Gzip, "page") if asked.gzip => gzipped(place)?,
        (Kind::Gzip, "page") => compressible(place),
        (Kind::Outside | Kind::Nofollow, "page") => leaf(),
        (Kind::Refresh, "here") => place.page("").with_markup("<head>", "<meta http-equiv=\"Refresh\" content=\"0; URL='there'\">"),
        (Kind::Refresh, "there") => leaf(),
        (Kind::Paging, "list?page=0" | "list?page=1") => place.page(&format!("{}{}", anchor("?page=1"), anchor("?page=2"))),
        (Kind::Paging, "list?page=2") => leaf(),
        (Kind::Base, "page") => place
            .page("<p><a href=\"leaf\">a leaf</a> <a href=\"../up\">up</a></p>")
            .with_markup("<head>", &format!("<base href=\"{}\">", place.path("deep/er/"))),
        (Kind::Base, "deep/er/leaf" | "deep/up") => leaf(),
        (Kind::Frames, "page") => place.page(
            "<iframe src=\"iframe\"></iframe><map name=\"m\"><area href=\"area\"></map><p><a href=\"frameset\">more</a></p>",
        ),
        (Kind::Frames, "frameset") => {
            Reply::html("<html><head><title>frames</title></head><frameset><frame src=\"frame\"></frameset></html>")
        }
        (Kind::Frames, "iframe" | "area" | "frame") => leaf(),
        (Kind::Spellings, "~page" | "%7Epage") => leaf(),
        (Kind::Canonical, "copy") => {
            place.page("").with_markup("<head>", &format!("<link rel=\"canonical\" href=\"{}\">", place.path("original")))
        }
        (Kind::Canonical, "original") => leaf(),
        (Kind::PageNofollow, "meta") => {
            place.page(&anchor("from-meta")).with_markup("<head>", "<meta name=\"robots\" content=\"noarchive, NOFOLLOW\">")
        }
        (Kind::PageNofollow, "header") => {
            place.page(&anchor("from-header")).with_header("x-robots-tag", "nofollow".into())
        }
        (Kind::PageNofollow, "from-meta" | "from-header") => leaf(),
        (Kind::Resource, _) => {
            let (name, content_type) = RESOURCES.iter().find(|(name, _)| *name == part)?;
            Reply::of_type(content_type, name.as_bytes().to_vec())
        }
        _ => return None,
    })
}

/// Creates a page with the same content whether it is sent compressed or not.
fn compressible(place: &Place<'_>) -> Reply {
    place.page("<p>Sent compressed where that is accepted.</p>")
}

fn gzipped(place: &Place<'_>) -> Option<Reply> {
    let mut page = compressible(place);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&page.body).ok()?;
    page.body = encoder.finish().ok()?;
    Some(page.with_header("content-encoding", "gzip".into()))
}
