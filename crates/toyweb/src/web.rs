//! Generated web: the response is a pure function of configuration, port and request.

use std::fmt::Write as _;

use crate::config::{ConfigError, WebConfig};
use crate::graph::{page_at, targets, write_path, write_relative};
use crate::hash::{Salt, mix};
use crate::hosts::{HostId, host_from_header, host_of_page, write_host};
use crate::reply::Reply;
use crate::special::{Kind, Place, places_of, robots_txt};
use crate::text::{Prose, write_title};

const TAIL: &[u8] = b"</main>\n</body>\n</html>\n";
/// Bytes per link in addition to its text, used to spread the text evenly.
const LINK_BYTES: usize = 96;

/// Parts of a request that determine the response.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked<'a> {
    pub host: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// Cookie header; empty if absent.
    pub cookie: &'a str,
    /// `true` if the client accepts gzip.
    pub gzip: bool,
    /// Number of previous requests to the requested special place.
    pub before: u32,
    /// Time since the web was started, in milliseconds.
    pub elapsed_ms: u64,
    /// If-None-Match header; empty if absent.
    pub known: &'a str,
}

/// A generated web on a port.
#[derive(Debug)]
pub struct Web {
    pub(crate) config: WebConfig,
    /// Port in the URLs of the web.
    pub(crate) port: u16,
    pub(crate) prose: Prose,
    /// Number of special places.
    pub(crate) specials: u64,
}

impl Web {
    /// Creates the web of a configuration, as served on `port`.
    pub fn new(config: WebConfig, port: u16) -> Result<Self, ConfigError> {
        config.validate()?;
        let specials = config.specials.values().map(|count| u64::from(*count)).sum();
        Ok(Self { prose: Prose::new(config.seed), config, port, specials })
    }

    /// Returns the URL of a page; a crawl starts at page 0.
    #[must_use]
    pub fn page_url(&self, page: u64) -> String {
        let mut url = String::with_capacity(96);
        self.write_origin("http://", host_of_page(&self.config, page), &mut url);
        write_path(&self.config, page, &mut url);
        url
    }

    fn write_origin(&self, scheme: &str, host: HostId, out: &mut String) {
        out.push_str(scheme);
        write_host(&self.config, host, out);
        let _ = write!(out, ":{}", self.port);
    }

    /// Returns the special place that a request is for, so that its visits can be counted.
    #[must_use]
    pub fn counted(&self, host: &str, target: &str) -> Option<(Kind, u32)> {
        if !target.starts_with("/x/") {
            return None;
        }
        let (place, _) = Place::at(self, host_from_header(&self.config, host)?, target)?;
        Some((place.kind, place.number))
    }

    /// Answers a request.
    #[must_use]
    pub fn answer(&self, asked: &Asked<'_>) -> Reply {
        let Some(host) = host_from_header(&self.config, asked.host) else {
            return Reply::plain(421, "this host is not served here\n");
        };
        let page = page_at(&self.config, asked.target).filter(|page| host_of_page(&self.config, *page) == host);
        if let Some(page) = page {
            return self.page(page, host, asked);
        }
        robots_txt(self, host, asked.target)
            .or_else(|| Place::at(self, host, asked.target).and_then(|(place, part)| place.reply(part, asked)))
            .unwrap_or_else(Reply::not_found)
    }

    fn page(&self, page: u64, host: HostId, asked: &Asked<'_>) -> Reply {
        let Some(version) = self.version(page, asked.elapsed_ms) else { return Reply::html(self.render(page, host)) };
        let tag = format!("\"{version}\"");
        if asked.known == tag {
            return Reply { status: 304, ..Reply::html([]) }.with_header("etag", tag);
        }
        let mut body = self.render(page, host);
        body.extend_from_slice(format!("<p>version {version}</p>\n").as_bytes());
        // Some servers have no validators.
        let reply = Reply::html(body).with_header("x-version", version.to_string());
        if page % 8 < 4 { reply.with_header("etag", tag) } else { reply }
    }

    /// Returns the version of a page at this time; `None` if pages do not change.
    fn version(&self, page: u64, elapsed_ms: u64) -> Option<u64> {
        let period_ms = self.config.version_ms.checked_shl(2 * (page % 4) as u32)?;
        elapsed_ms.checked_div(period_ms)
    }

    fn render(&self, page: u64, host: HostId) -> Vec<u8> {
        let bytes = self.config.bytes as usize;
        let seed = self.config.seed;
        let mut out = Vec::with_capacity(bytes + 1_024);
        out.extend_from_slice(b"<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>");
        write_title(&self.config, page, &mut out);
        out.extend_from_slice(
            b"</title>\n<meta name=\"description\" content=\"A page of a toy web.\"></head>\n<body>\n<nav>",
        );
        let mut path = String::with_capacity(96);
        write_path(&self.config, page, &mut path);
        let mut scratch = (String::with_capacity(128), String::with_capacity(96));
        let base = if self.config.alike { 0 } else { page.wrapping_mul(1_024) };
        let mut left = self.config.links as usize;
        for (position, target) in targets(&self.config, page).enumerate() {
            let hash = mix(seed, Salt::Spelling, base.wrapping_add(position as u64));
            match position {
                0 | 1 => out.extend_from_slice(b" "),
                _ => {
                    if position == 2 {
                        self.write_heading(page, &mut out);
                    }
                    let room = bytes.saturating_sub(out.len() + TAIL.len() + left * LINK_BYTES);
                    out.extend_from_slice(b"<p>");
                    self.prose.write(
                        mix(seed, Salt::Text, base.wrapping_add(position as u64)),
                        room / (left + 1),
                        &mut out,
                    );
                }
            }
            out.extend_from_slice(b"<a href=\"");
            self.write_href((host, &path), target, hash, &mut scratch);
            out.extend_from_slice(scratch.0.as_bytes());
            out.extend_from_slice(b"\">");
            write_title(&self.config, target, &mut out);
            out.extend_from_slice(if position < 2 { b"</a>" } else { b"</a>.</p>\n" });
            left -= 1;
        }
        if self.config.links == 2 {
            self.write_heading(page, &mut out);
        }
        if self.specials > 0 {
            places_of(self, page)
                .flat_map(|place| place.links())
                .for_each(|link| out.extend_from_slice(link.as_bytes()));
        }
        let room = bytes.saturating_sub(out.len() + TAIL.len() + b"<p></p>\n".len());
        if room > 0 {
            out.extend_from_slice(b"<p>");
            self.prose.write(mix(seed, Salt::Text, base), room, &mut out);
            out.extend_from_slice(b"</p>\n");
        }
        out.extend_from_slice(TAIL);
        out
    }

    fn write_heading(&self, page: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"</nav>\n<main>\n<h1>");
        write_title(&self.config, page, out);
        out.extend_from_slice(b"</h1>\n");
    }

    /// Writes a link to the first buffer: relative, absolute, with or without scheme, some with a fragment.
    fn write_href(&self, from: (HostId, &str), target: u64, hash: u64, (out, path): &mut (String, String)) {
        out.clear();
        path.clear();
        write_path(&self.config, target, path);
        let host = host_of_page(&self.config, target);
        match hash & 7 {
            0..=3 if host == from.0 => write_relative(from.1, path, out),
            4 | 5 if host == from.0 => out.push_str(path),
            spelling => {
                self.write_origin(if spelling == 7 { "//" } else { "http://" }, host, out);
                out.push_str(path);
            }
        }
        if hash >> 61 == 0 {
            let _ = write!(out, "#part-{}", hash >> 8 & 7);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_the_same_every_time_and_has_the_size_that_was_asked_for() {
        let config = WebConfig { pages: 300, ..WebConfig::default() };
        let (web, again) = (Web::new(config.clone(), 80).unwrap(), Web::new(config, 80).unwrap());
        for page in 0..300 {
            let host = host_of_page(&web.config, page);
            let body = web.render(page, host);
            assert_eq!(body, again.render(page, host));
            assert_eq!(body.len(), 16_384, "page {page}");
        }
    }

    #[test]
    fn pages_that_are_alike_differ_in_numbers_alone() {
        let web = Web::new(WebConfig { pages: 3_000, alike: true, ..WebConfig::default() }, 80).unwrap();
        let without_digits = |page| {
            let body = web.render(page, host_of_page(&web.config, page));
            body.into_iter().filter(|byte| !byte.is_ascii_digit()).collect::<Vec<_>>()
        };
        let first = without_digits(0);
        assert!((1..3_000).all(|page| without_digits(page) == first));
        assert_ne!(web.page_url(1), web.page_url(2));
    }

    #[test]
    fn another_seed_is_another_web() {
        let web = |seed| Web::new(WebConfig { seed, ..WebConfig::default() }, 80).unwrap();
        assert_ne!(web(1).page_url(7), web(2).page_url(7));
    }

    #[test]
    fn a_flaky_page_fails_as_often_as_configured_and_then_answers() {
        let config = WebConfig { specials: [(Kind::Flaky, 1)].into(), failures: 2, ..WebConfig::default() };
        let web = Web::new(config, 80).unwrap();
        let statuses = (0..4).map(|before| {
            web.answer(&Asked { host: "127.0.1.1", target: "/x/flaky/0/page", before, ..Asked::default() }).status
        });
        assert_eq!(statuses.collect::<Vec<_>>(), [500, 500, 200, 200]);
    }
}
