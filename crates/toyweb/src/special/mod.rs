//! Special places: what a crawler meets on the web besides plain pages, each with its known end.
//!
//! The place `number` of a kind lives at `/x/KIND/NUMBER/`, and is linked from one ordinary page.

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
use crate::web::Web;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident = $name:literal,)+) => {
        /// A kind of special place.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "kebab-case")]
        #[repr(u8)]
        pub enum Kind { $($(#[doc = $doc])+ $kind,)+ }

        impl Kind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)+];

            /// The name of the kind, in paths, options and truth.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }
        }
    };
}

kinds! {
    /// A tree of 240 pages on all hosts, to each of which exactly one link leads.
    Tree = "tree",
    /// A page with an inlined picture of 6 MB.
    Pictures = "pictures",
    /// A page with 20,000 links to ten URLs, each link in a spelling of its own.
    ManyLinks = "many-links",
    /// A page with 3,000 links of about a KiB to ten URLs, each link in a spelling of its own.
    LongLinks = "long-links",
    /// A chain of one to four redirects of all permanent and passing sorts; every third ends on another host.
    Chain = "chain",
    /// Two URLs that redirect to each other.
    Loop = "loop",
    /// A chain of 25 redirects.
    LongChain = "long-chain",
    /// Redirects to itself until a cookie is sent.
    CookieWall = "cookie-wall",
    /// Redirects to the URL with its query parameters in another order, and answers there: two URLs, since a server may
    /// tell them apart.
    Reordered = "reordered",
    /// Redirects to another spelling of its own URL (`%7E` for `~`), and answers there: one URL.
    Respelled = "respelled",
    /// Answers after `slow_ms`.
    Slow = "slow",
    /// Answers 500 `failures` times, then 200.
    Flaky = "flaky",
    /// Always answers 500.
    Failing = "failing",
    /// Always resets the connection.
    Reset = "reset",
    /// Promises more bytes than it sends.
    ShortBody = "short-body",
    /// Answers 429 with Retry-After `failures` times, then 200.
    Busy = "busy",
    /// A host whose first `failures` answers, robots.txt aside, are 429 with Retry-After.
    BusyHost = "busy-host",
    /// Links to pages that do not exist (404 and 410).
    Dead = "dead",
    /// A page of `large_bytes` bytes.
    Large = "large",
    /// A page that is sent compressed where the client accepts gzip.
    Gzip = "gzip",
    /// A page that leads on by meta refresh alone.
    Refresh = "refresh",
    /// Three pages that differ in their query, and link to each other by the query alone.
    Paging = "paging",
    /// A page with a base href that moves its relative links.
    Base = "base",
    /// Pages that are reached by frame, iframe and image map alone.
    Frames = "frames",
    /// One page, linked in five spellings of its URL.
    Spellings = "spellings",
    /// A copy that names its original as canonical.
    Canonical = "canonical",
    /// A page that is linked by rel=nofollow alone.
    Nofollow = "nofollow",
    /// Pages whose meta robots or X-Robots-Tag ask that their links be not followed.
    PageNofollow = "page-nofollow",
    /// Links to a host that is no part of the web: to be left out by the crawl's scope.
    Outside = "outside",
    /// Images, documents and data: not HTML.
    Resource = "resource",
    /// A directory that robots.txt disallows, but for one page.
    Disallowed = "disallowed",
    /// A host whose robots.txt always answers 500: nothing may be fetched.
    RobotsFailing = "robots-failing",
    /// A host whose robots.txt refuses everything.
    RobotsRefusing = "robots-refusing",
    /// A host whose robots.txt asks for a Crawl-delay.
    RobotsDelay = "robots-delay",
    /// An archive of 10,000 articles in one directory, under 500 pages of a list, each leading to the next; no trap.
    Archive = "archive",
    /// A calendar: every month leads to its days, the next and the one before, without end.
    Calendar = "calendar",
    /// A few pages, linked under a new session id by every answer.
    SessionMaze = "session-maze",
    /// A page that is served at any path below it, with relative links: paths that repeat their segments.
    RepeatingPath = "repeating-path",
    /// A search that finds nothing, repeats what was asked for, and offers to ask for more.
    EchoSearch = "echo-search",
}

impl Kind {
    /// Whether each place of this kind is a host of its own.
    #[must_use]
    pub fn has_hosts(self) -> bool {
        matches!(self, Self::BusyHost | Self::Outside | Self::RobotsFailing | Self::RobotsRefusing | Self::RobotsDelay)
    }

    /// Whether places of this kind are about traps: too large, or without end, for a web that has some of everything.
    #[must_use]
    pub fn is_of_traps(self) -> bool {
        self == Self::Archive || self.is_endless()
    }

    /// Whether places of this kind are large, and so are part of a web only where they are asked for by name.
    #[must_use]
    pub fn is_bulky(self) -> bool {
        matches!(self, Self::Tree | Self::Pictures | Self::ManyLinks | Self::LongLinks)
    }

    /// Whether a place of this kind has no end: its truth has the entrance alone.
    #[must_use]
    pub fn is_endless(self) -> bool {
        matches!(self, Self::Calendar | Self::SessionMaze | Self::RepeatingPath | Self::EchoSearch)
    }

    fn theme(self) -> &'static Theme {
        match self {
            Self::Tree | Self::Pictures | Self::ManyLinks | Self::LongLinks => &bulk::THEME,
            Self::Chain | Self::Loop | Self::LongChain => &redirects::THEME,
            Self::CookieWall | Self::Reordered | Self::Respelled => &redirects::THEME,
            Self::Slow | Self::Flaky | Self::Failing | Self::Reset | Self::ShortBody => &failures::THEME,
            Self::Busy | Self::BusyHost | Self::Dead | Self::Large => &failures::THEME,
            Self::Gzip | Self::Refresh | Self::Paging | Self::Base | Self::Frames | Self::Spellings => &markup::THEME,
            Self::Canonical | Self::Nofollow | Self::PageNofollow | Self::Outside | Self::Resource => &markup::THEME,
            Self::Archive | Self::Calendar | Self::SessionMaze | Self::RepeatingPath | Self::EchoSearch => {
                &traps::THEME
            }
            Self::Disallowed | Self::RobotsFailing | Self::RobotsRefusing | Self::RobotsDelay => &robots::THEME,
        }
    }
}

/// What a module knows about its kinds.
struct Theme {
    links: fn(&Place<'_>) -> Vec<String>,
    expected: fn(&Place<'_>) -> Vec<Expected>,
    reply: fn(&Place<'_>, &str, &Visit<'_>) -> Option<Reply>,
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!("no kind of special place is called `{name}`; there are {}", names.join(", "))
        })
    }
}

/// What a special place sees of a request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Visit<'a> {
    /// Requests that the place had before this one.
    pub before: u32,
    /// The Cookie header.
    pub cookie: &'a str,
    /// Whether the client accepts gzip.
    pub gzip: bool,
}

/// One special place of one web.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub web: &'a Web,
    pub kind: Kind,
    pub number: u32,
}

impl<'a> Place<'a> {
    /// The host of a part of the place.
    pub(crate) fn host(&self, part: &str) -> HostId {
        let config = self.web.config();
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

    /// The path of a part of the place.
    pub(crate) fn path(&self, part: &str) -> String {
        format!("/x/{}/{}/{part}", self.kind.name(), self.number)
    }

    /// The URL of a part of the place.
    pub(crate) fn url(&self, part: &str) -> String {
        let mut url = String::from("http://");
        write_host(self.web.config(), self.host(part), &mut url);
        let _ = write!(url, ":{}{}", self.web.port(), self.path(part));
        url
    }

    /// The place at a path: the place itself and the part, with the query.
    pub(crate) fn at<'p>(web: &'a Web, host: HostId, path: &'p str) -> Option<(Self, &'p str)> {
        let mut segments = path.strip_prefix("/x/")?.splitn(3, '/');
        let kind: Kind = segments.next()?.parse().ok()?;
        let number: u32 = segments.next()?.parse().ok()?;
        let part = segments.next()?;
        let place = Self { web, kind, number };
        let exists = number < web.config().specials.get(&kind).copied().unwrap_or(0) && place.host(part) == host;
        exists.then_some((place, part))
    }

    /// The markup that the page which links to the place carries.
    pub(crate) fn links(&self) -> Vec<String> {
        (self.kind.theme().links)(self)
    }

    /// What is true of the URLs of the place.
    pub(crate) fn expected(&self) -> Vec<Expected> {
        (self.kind.theme().expected)(self)
    }

    /// The answer to a request for a part (with its query); none where there is nothing.
    pub(crate) fn reply(&self, part: &str, visit: &Visit<'_>) -> Option<Reply> {
        (self.kind.theme().reply)(self, part, visit)
    }

    /// What is expected of one part.
    fn expect(&self, part: &str, fate: Fate, requests: (u32, u32)) -> Expected {
        Expected { url: self.url(part), fate, least: requests.0, most: requests.1, kind: Some(self.kind) }
    }

    /// A part that is fetched with one request.
    fn fetched(&self, part: &str) -> Expected {
        self.expect(part, Fate::Fetched, (1, 1))
    }

    /// A small page.
    fn page(&self, body: &str) -> Reply {
        let (kind, number) = (self.kind.name(), self.number);
        Reply::html(format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{kind} {number}</title></head>\n\
             <body><h1>{kind} {number}</h1>\n{body}\n</body></html>\n"
        ))
    }
}

/// A link as markup.
fn anchor(href: &str) -> String {
    format!("<p>See <a href=\"{}\">a special place</a>.</p>", href.replace('&', "&amp;"))
}

/// The places that a page links to: the special places are spread over the pages evenly, in the order of their kinds.
pub(crate) fn places_of(web: &Web, page: u64) -> impl Iterator<Item = Place<'_>> {
    let (total, pages) = (u128::from(web.special_count()), u128::from(web.config().pages));
    let share = |page: u64| (u128::from(page) * total / pages) as u64;
    (share(page)..share(page + 1)).filter_map(|index| place_number(web, index))
}

/// Every special place of a web.
pub(crate) fn places(web: &Web) -> impl Iterator<Item = Place<'_>> {
    (0..web.special_count()).filter_map(|index| place_number(web, index))
}

fn place_number(web: &Web, mut index: u64) -> Option<Place<'_>> {
    for (kind, count) in &web.config().specials {
        match index.checked_sub(u64::from(*count)) {
            Some(rest) => index = rest,
            None => return Some(Place { web, kind: *kind, number: index as u32 }),
        }
    }
    None
}
