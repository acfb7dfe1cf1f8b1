//! Generation of a web from a seed.

use std::collections::BTreeSet;

use super::{Host, Kind, Page, Trouble, Web};
use crate::random::Random;

/// The slowest response that still arrives within the client's timeout, in milliseconds.
const SLOWEST_MS: u64 = 18_000;

impl Web {
    /// Generates a web: a tree of links from the first page, so that all pages can be found, and additional links
    /// across it.
    #[must_use]
    pub fn make(random: &mut Random) -> Self {
        let sites = random.between(1, 5);
        let mut hosts = vec![];
        for site in 0..sites {
            for part in 0..random.between(1, 2) {
                hosts.push(host(site, part, random));
            }
        }
        let count = random.between(6, 28);
        let mut pages: Vec<Page> = vec![];
        for number in 0..count {
            let host = random.index(hosts.len());
            let kind = if number == 0 { Kind::Html } else { kind(random) };
            let dir = if kind == Kind::Private { "private/" } else { "" };
            pages.push(Page {
                url: format!("https://{}/{dir}p{number}", hosts[host].name),
                host,
                kind,
                links: vec![],
                troubles: troubles(random),
                service_ms: if random.chance(5) { random.between(1_000, SLOWEST_MS) } else { hosts[host].service_ms },
                text_bytes: 0,
            });
            if kind == Kind::Private {
                hosts[host].has_robots = true;
            }
        }
        let mut web = Self {
            pages,
            hosts,
            seeds: vec![0],
            max_depth: None,
            interval_ms: 100,
            version_ms: None,
            external: BTreeSet::new(),
            sitemaps: false,
        };
        web.link(random);
        web.calm();
        web.interval_ms = random.pick(&[100, 100, 250, 500, 1000, 2000]);
        if random.chance(25) {
            web.max_depth = Some(u16::try_from(random.between(1, 4)).unwrap_or(1));
        }
        if random.chance(30) {
            web.seeds.push(random.index(web.pages.len()));
        }
        web
    }

    /// In about one of eight webs, makes a page, or the robots.txt of a host, fail often enough to be abandoned.
    pub fn doom(&mut self, random: &mut Random, max_attempts: u8) {
        if !random.chance(12) {
            return;
        }
        let troubles = vec![Trouble::Error; usize::from(max_attempts) + random.index(2)];
        if random.chance(30) {
            let host = random.index(self.hosts.len());
            self.hosts[host].robots_troubles = troubles;
        } else {
            let page = random.index(self.pages.len());
            self.pages[page].troubles = troubles;
        }
        self.calm();
    }

    /// Gives each host a sitemap, which is missing on some. Some pages are named in sitemaps in place of all their links.
    pub fn add_sitemaps(&mut self, random: &mut Random) {
        self.sitemaps = true;
        let mut named = vec![vec![]; self.hosts.len()];
        for page in 1..self.pages.len() {
            if random.chance(30) {
                named[random.index(self.hosts.len())].push(page);
                self.pages.iter_mut().for_each(|from| from.links.retain(|to| *to != page));
            }
        }
        for (host, links) in named.into_iter().enumerate() {
            let kind = if links.is_empty() { Kind::Missing } else { Kind::Sitemap };
            let (url, service_ms) = (self.sitemap_url(host), self.hosts[host].service_ms);
            self.pages.push(Page { url, host, kind, links, troubles: vec![], service_ms, text_bytes: 0 });
        }
    }

    fn link(&mut self, random: &mut Random) {
        let count = self.pages.len();
        for number in 1..count {
            // Page 0 has links, so there is always a parent.
            let parents: Vec<usize> = (0..number).filter(|&parent| self.has_links(parent)).collect();
            let parent = parents[random.index(parents.len())];
            self.pages[parent].links.push(number);
        }
        for number in 0..count {
            if self.has_links(number) {
                for _ in 0..random.below(4) {
                    let to = random.index(count);
                    self.pages[number].links.push(to);
                }
            }
            if matches!(self.pages[number].kind, Kind::Redirect(_)) {
                // Forward only, so that redirects form no cycle.
                let later = number + 1 + random.index(count - number);
                self.pages[number].kind = if later < count { Kind::Redirect(later) } else { Kind::Html };
            }
        }
    }

    /// Replaces cookie walls on slow sites with plain pages. A cookie wall takes two requests within one lease, which a
    /// site that slowed the crawler down to a minute between requests does not allow.
    fn calm(&mut self) {
        let slows =
            |page: &Page| page.service_ms > 400 || page.troubles.iter().any(|trouble| *trouble != Trouble::Error);
        let slow: Vec<String> = (0..self.pages.len())
            .filter(|&page| slows(&self.pages[page]))
            .map(|page| self.site(page).to_owned())
            .chain(self.hosts.iter().filter(|host| !host.robots_troubles.is_empty()).map(|host| host.site.clone()))
            .collect();
        for page in 0..self.pages.len() {
            if self.pages[page].kind == Kind::CookieWall && slow.iter().any(|site| site == self.site(page)) {
                self.pages[page].kind = Kind::Html;
            }
        }
    }

    fn has_links(&self, page: usize) -> bool {
        matches!(self.pages[page].kind, Kind::Html | Kind::CookieWall)
    }
}

fn host(site: u64, part: u64, random: &mut Random) -> Host {
    let name = if part == 0 { format!("site{site}.org") } else { format!("more.site{site}.org") };
    let has_robots = random.chance(60);
    Host {
        name,
        site: format!("site{site}.org"),
        has_robots,
        robots_at: None,
        crawl_delay_s: (has_robots && random.chance(20)).then(|| random.between(1, 4)),
        robots_troubles: random
            .chance(12)
            .then(|| random.pick(&[Trouble::Error, Trouble::Busy(Some(7))]))
            .into_iter()
            .collect(),
        service_ms: random.pick(&[3, 20, 80, 300, 900]),
    }
}

fn kind(random: &mut Random) -> Kind {
    match random.below(100) {
        0..70 => Kind::Html,
        70..74 => Kind::CookieWall,
        74..86 => Kind::Redirect(0),
        86..91 => Kind::Missing,
        91..95 => Kind::Pdf,
        _ => Kind::Private,
    }
}

fn troubles(random: &mut Random) -> Vec<Trouble> {
    match random.below(100) {
        0..80 => vec![],
        80..88 => vec![Trouble::Error],
        88..90 => vec![Trouble::Error; 2],
        90..95 => vec![Trouble::Busy(Some(random.between(1, 40)))],
        95..97 => vec![Trouble::Busy(None)],
        97..98 => vec![Trouble::Error, Trouble::Busy(Some(3))],
        _ => vec![Trouble::Hang],
    }
}
