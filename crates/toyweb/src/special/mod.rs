//! Special places: everything other than plain pages that a crawler encounters on the web, each with its known result.
//!
//! Place `number` of a kind is served at `/x/KIND/NUMBER/` and linked from one ordinary page.

mod bulk;
mod failures;
mod markup;
mod redirects;
mod robots;
mod traps;

use std::fmt::Write as _;
use std::str::FromStr;

pub(crate) use robots::robots_txt;

use crate::hash::{Salt, below, mix};
use crate::hosts::{HostId, write_host};
use crate::reply::Reply;
use crate::truth::{Expected, Fate};
use crate::web::{Asked, Web};

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident = $name:literal in $theme:ident,)+) => {
        /// Kind of special place.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "kebab-case")]
        #[repr(u8)]
        pub enum Kind { $($(#[doc = $doc])+ $kind,)+ }

        impl Kind {
            pub const ALL: &'static [Self] = &[$(Self::$kind,)+];

            /// Returns the name of the kind, as used in paths, options and the ground truth.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }

            fn theme(self) -> &'static Theme {
                match self {
                    $(Self::$kind => {
                        &Theme { links: $theme::links, expected: $theme::expected, reply: $theme::reply }
                    })+
                }
            }
        }
    };
}

kinds! {
    /// Tree of 240 pages spread over all hosts; each page is linked exactly once.
    Tree = "tree" in bulk,
    /// Page with an inlined picture of 6 MB.
    Pictures = "pictures" in bulk,
    /// Page with 20,000 links to ten URLs, each link spelled differently.
    ManyLinks = "many-links" in bulk,
    /// Page with 3,000 links of about a KiB to ten URLs, each link spelled differently.
    LongLinks = "long-links" in bulk,
    /// Chain of one to four permanent and temporary redirects; every third chain ends on another host.
    Chain = "chain" in redirects,
    /// Two URLs that redirect to each other.
    Loop = "loop" in redirects,
    /// Chain of 25 redirects.
    LongChain = "long-chain" in redirects,
    /// Redirects to itself until a cookie is sent.
    CookieWall = "cookie-wall" in redirects,
    /// Redirects to the URL with its query parameters in another order, and answers there: two URLs, since a server may
    /// distinguish them.
    Reordered = "reordered" in redirects,
    /// Redirects to another spelling of its own URL (`%7E` for `~`), and answers there: one URL.
    Respelled = "respelled" in redirects,
    /// Answers after `slow_ms`.
    Slow = "slow" in failures,
    /// Answers 500 `failures` times, then 200.
    Flaky = "flaky" in failures,
    /// Always answers 500.
    Failing = "failing" in failures,
    /// Always resets the connection.
    Reset = "reset" in failures,
    /// Promises more bytes than it sends.
    ShortBody = "short-body" in failures,
    /// Answers 429 with Retry-After `failures` times, then 200.
    Busy = "busy" in failures,
    /// Host whose first `failures` responses, except for robots.txt, are 429 with Retry-After.
    BusyHost = "busy-host" in failures,
    /// Links to pages that do not exist (404 and 410).
    Dead = "dead" in failures,
    /// Page of `large_bytes` bytes.
    Large = "large" in failures,
    /// Page that is sent compressed if the client accepts gzip.
    Gzip = "gzip" in markup,
    /// Page whose only onward link is a meta refresh.
    Refresh = "refresh" in markup,
    /// Three pages that differ in their query and link to each other by bare queries.
    Paging = "paging" in markup,
    /// Page with a base href that changes the targets of its relative links.
    Base = "base" in markup,
    /// Pages that are linked only by frame, iframe and image map.
    Frames = "frames" in markup,
    /// Page linked by five spellings of its URL.
    Spellings = "spellings" in markup,
    /// Copy that names its original as canonical.
    Canonical = "canonical" in markup,
    /// Page linked only with rel=nofollow.
    Nofollow = "nofollow" in markup,
    /// Pages whose meta robots or X-Robots-Tag forbids following their links.
    PageNofollow = "page-nofollow" in markup,
    /// Links to a host outside of the web, to be rejected by the crawl's scope.
    Outside = "outside" in markup,
    /// Images, documents and data: not HTML.
    Resource = "resource" in markup,
    /// Directory that robots.txt disallows, except for one page.
    Disallowed = "disallowed" in robots,
    /// Host whose robots.txt always answers 500: nothing may be fetched.
    RobotsFailing = "robots-failing" in robots,
    /// Host whose robots.txt disallows everything.
    RobotsRefusing = "robots-refusing" in robots,
    /// Host whose robots.txt sets a Crawl-delay.
    RobotsDelay = "robots-delay" in robots,
    /// Archive of 10,000 articles in one directory, listed on 500 pages that each link to the next; not a trap.
    Archive = "archive" in traps,
    /// Endless calendar: every month links to its days and to the next and previous month.
    Calendar = "calendar" in traps,
    /// A few pages, linked with a new session id in every response.
    SessionMaze = "session-maze" in traps,
    /// Page that is served at any path below it, with relative links, which produces paths that repeat their segments.
    RepeatingPath = "repeating-path" in traps,
    /// Search that finds nothing, echoes the query and suggests further queries.
    EchoSearch = "echo-search" in traps,
}

impl Kind {
    /// Returns `true` if each place of this kind has its own host.
    #[must_use]
    pub fn has_hosts(self) -> bool {
        matches!(self, Self::BusyHost | Self::Outside | Self::RobotsFailing | Self::RobotsRefusing | Self::RobotsDelay)
    }

    /// Returns `true` for traps and similar places, which are too large or endless for a web with places of every kind.
    #[must_use]
    pub fn is_of_traps(self) -> bool {
        self == Self::Archive || self.is_endless()
    }

    /// Returns `true` for large places, which are part of a web only if requested by name.
    #[must_use]
    pub fn is_bulky(self) -> bool {
        matches!(self, Self::Tree | Self::Pictures | Self::ManyLinks | Self::LongLinks)
    }

    /// Returns `true` if a place of this kind is endless; its ground truth then has only the entrance.
    #[must_use]
    pub fn is_endless(self) -> bool {
        matches!(self, Self::Calendar | Self::SessionMaze | Self::RepeatingPath | Self::EchoSearch)
    }
}

/// Functions of a module for its kinds.
struct Theme {
    links: fn(&Place<'_>) -> Vec<String>,
    expected: fn(&Place<'_>) -> Vec<Expected>,
    reply: fn(&Place<'_>, &str, &Asked<'_>) -> Option<Reply>,
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!("all=COUNT or KIND=COUNT, where KIND is one of {}", names.join(", "))
        })
    }
}

/// One special place of a web.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub web: &'a Web,
    pub kind: Kind,
    pub number: u32,
}

impl<'a> Place<'a> {
    pub(crate) fn host(&self, part: &str) -> HostId {
        let config = &self.web.config;
        if self.kind.has_hosts() {
            return HostId::Special(self.kind, self.number);
        }
        let salted = (u64::from(self.kind as u8) << 32) | u64::from(self.number);
        let host = below(mix(config.seed, Salt::Special, salted), config.hosts().into()) as u32;
        match self.kind {
            Kind::Chain if part == "end" && self.number % 3 == 2 => HostId::Main((host + 1) % config.hosts()),
            Kind::Tree => {
                let page = part.parse().unwrap_or(0);
                HostId::Main((u64::from(host) + page).rem_euclid(config.hosts().into()) as u32)
            }
            Kind::Disallowed => HostId::Main(robots::with_rules(host)),
            _ => HostId::Main(host),
        }
    }

    pub(crate) fn path(&self, part: &str) -> String {
        format!("/x/{}/{}/{part}", self.kind.name(), self.number)
    }

    pub(crate) fn url(&self, part: &str) -> String {
        let mut url = String::from("http://");
        write_host(&self.web.config, self.host(part), &mut url);
        let _ = write!(url, ":{}{}", self.web.port, self.path(part));
        url
    }

    /// Returns the place at a path, and the part with its query.
    pub(crate) fn at<'p>(web: &'a Web, host: HostId, path: &'p str) -> Option<(Self, &'p str)> {
        let mut segments = path.strip_prefix("/x/")?.splitn(3, '/');
        let kind: Kind = segments.next()?.parse().ok()?;
        let number: u32 = segments.next()?.parse().ok()?;
        let part = segments.next()?;
        let place = Self { web, kind, number };
        let exists = number < web.config.specials.get(&kind).copied().unwrap_or(0) && place.host(part) == host;
        exists.then_some((place, part))
    }

    /// Returns the markup that links to the place.
    pub(crate) fn links(&self) -> Vec<String> {
        (self.kind.theme().links)(self)
    }

    /// Returns the expected results for the URLs of the place.
    pub(crate) fn expected(&self) -> Vec<Expected> {
        (self.kind.theme().expected)(self)
    }

    /// Answers a request for a part with its query; `None` if there is nothing.
    pub(crate) fn reply(&self, part: &str, asked: &Asked<'_>) -> Option<Reply> {
        (self.kind.theme().reply)(self, part, asked)
    }

    /// Returns the expected result for one part.
    fn expect(&self, part: &str, fate: Fate, requests: (u32, u32)) -> Expected {
        Expected { url: self.url(part), fate, least: requests.0, most: requests.1, kind: Some(self.kind) }
    }

    /// Expects a part to be fetched with one request.
    fn fetched(&self, part: &str) -> Expected {
        self.expect(part, Fate::Fetched, (1, 1))
    }

    /// Creates a small page.
    fn page(&self, body: &str) -> Reply {
        let (kind, number) = (self.kind.name(), self.number);
        Reply::html(format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{kind} {number}</title></head>\n\
             <body><h1>{kind} {number}</h1>\n{body}\n</body></html>\n"
        ))
    }
}

/// Returns a link as markup.
fn anchor(href: &str) -> String {
    format!("<p>See <a href=\"{}\">a special place</a>.</p>", href.replace('&', "&amp;"))
}

/// Returns the places that a page links to; special places are spread evenly over the pages, in the order of their
/// kinds.
pub(crate) fn places_of(web: &Web, page: u64) -> impl Iterator<Item = Place<'_>> {
    let (total, pages) = (u128::from(web.specials), u128::from(web.config.pages));
    let share = |page: u64| (u128::from(page) * total / pages) as u64;
    (share(page)..share(page + 1)).filter_map(|index| place_number(web, index))
}

/// Returns every special place of a web.
pub(crate) fn places(web: &Web) -> impl Iterator<Item = Place<'_>> {
    (0..web.specials).filter_map(|index| place_number(web, index))
}

fn place_number(web: &Web, mut index: u64) -> Option<Place<'_>> {
    for (kind, count) in &web.config.specials {
        match index.checked_sub(u64::from(*count)) {
            Some(rest) => index = rest,
            None => return Some(Place { web, kind: *kind, number: index as u32 }),
        }
    }
    None
}
