//! Scope of a crawl, as extended by its seeds.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use orbweaver_messages::Scope;
use orbweaver_scope::Applied;
use orbweaver_url::{Policy, SiteName, WideDomains};

use crate::tally::LinkOutcome;

/// Current rules of a crawl.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) applied: &'a Applied,
    pub(crate) policy: Policy,
    /// Domains whose hosts are separate sites.
    pub(crate) wide: &'a WideDomains,
}

impl Rules<'_> {
    pub(crate) fn scope(&self) -> Scope {
        self.applied.rules.scope()
    }

    /// Checks whether a link to this canonical URL belongs to the crawl; the error is the reason if not. Exclude takes
    /// precedence.
    pub(crate) fn judge(&self, entries: &Entries, canonical: &str, site: &SiteName) -> Result<(), LinkOutcome> {
        if !entries.cover(self.scope(), canonical, site) {
            return Err(LinkOutcome::OutOfScope);
        }
        self.applied.rules.refusal(canonical).map_or(Ok(()), |outside| Err(outside.into()))
    }

    /// Checks whether a requisite or external URL with this canonical form belongs to the crawl, as [`Self::judge`]: only
    /// `exclude` applies.
    pub(crate) fn judge_no_page(&self, canonical: &str) -> Result<(), LinkOutcome> {
        self.applied.rules.refusal_of_no_page(canonical).map_or(Ok(()), |outside| Err(outside.into()))
    }
}

/// Parts of the web that seeds brought into scope, and whether each is durable in the log. An entry is written for the
/// scope at that time; it also applies to any wider scope: a directory to its host, both to their site.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    wide: WideDomains,
    durable: BTreeMap<String, bool>,
    sites: BTreeSet<String>,
    /// Maximum number of slashes in an entry; longer prefixes of a URL need no lookup.
    slashes: usize,
}

impl Entries {
    /// Creates an empty set for a pipeline with these wide domains.
    pub(crate) fn new(wide: WideDomains) -> Self {
        Self { wide, ..Self::default() }
    }

    pub(crate) fn insert(&mut self, entry: &str, durable: bool) {
        match self.durable.get_mut(entry) {
            Some(known) => *known |= durable,
            None => {
                self.slashes = self.slashes.max(slashes(entry).count());
                self.sites.extend(site_of(entry, &self.wide));
                self.durable.insert(entry.to_owned(), durable);
            }
        }
    }

    /// Removes an entry. Entries are only removed manually, so the cost does not matter.
    pub(crate) fn remove(&mut self, entry: &str) {
        self.durable.remove(entry);
        self.sites = self.durable.keys().filter_map(|entry| site_of(entry, &self.wide)).collect();
    }

    fn cover(&self, scope: Scope, canonical: &str, site: &SiteName) -> bool {
        match scope {
            Scope::Any => true,
            Scope::Site => self.sites.contains(&**site),
            Scope::Host => {
                let place = place(canonical);
                let host = host(&place);
                self.durable.contains_key(host) || self.has(Bound::Included, &format!("{host}/"))
            }
            Scope::Path => self.covering(&place(canonical)).next().is_some(),
        }
    }

    /// Returns, for each entry that is a directory above `place`, whether it is durable.
    fn covering<'a>(&'a self, place: &'a str) -> impl Iterator<Item = bool> + 'a {
        let path = &place[..place.find('?').unwrap_or(place.len())];
        slashes(path).take(self.slashes).filter_map(move |at| self.durable.get(&path[..=at]).copied())
    }

    /// Returns the entry by which a seed (or its redirect target) extends the scope, unless the entry is already
    /// durable.
    ///
    /// A redirect never widens a path scope to a directory above one that is in scope: a seed `/docs/` that redirects
    /// to `/login` does not make the whole host part of the crawl.
    pub(crate) fn missing(&self, scope: Scope, canonical: &str, site: &SiteName, redirected: bool) -> Option<String> {
        let place = place(canonical);
        let entry = match scope {
            Scope::Any => return None,
            Scope::Site => site,
            Scope::Host => host(&place),
            Scope::Path => {
                let directory = directory(&place);
                let covered = self.covering(&place).any(|durable| durable);
                if covered || (redirected && self.has(Bound::Excluded, directory)) {
                    return None;
                }
                directory
            }
        };
        (self.durable.get(entry) != Some(&true)).then(|| entry.to_owned())
    }

    /// Returns `true` if there is an entry below this directory or, with an inclusive bound, for the directory itself.
    fn has<'a>(&self, bound: fn(&'a str) -> Bound<&'a str>, directory: &'a str) -> bool {
        let mut from = self.durable.range::<str, _>((bound(directory), Bound::Unbounded));
        from.next().is_some_and(|(entry, _)| entry.starts_with(directory))
    }
}

/// Returns the site of an entry, which is a site, a host, or a host and a directory.
fn site_of(entry: &str, wide: &WideDomains) -> Option<String> {
    let url = orbweaver_url::parse(&format!("http://{entry}")).ok()?;
    Some(wide.site_of(&url).into_owned())
}

/// Returns the positions of the slashes.
fn slashes(text: &str) -> impl Iterator<Item = usize> + '_ {
    text.bytes().enumerate().filter(|(_, byte)| *byte == b'/').map(|(at, _)| at)
}

/// Returns a canonical URL without its scheme. The default ports of both http and https count as none, since a site
/// that moves from one to the other stays the same.
fn place(canonical: &str) -> Cow<'_, str> {
    let rest = canonical.split_once("://").map_or(canonical, |(_, rest)| rest);
    let path = rest.find('/').unwrap_or(rest.len());
    let authority = &rest[..path];
    match authority.strip_suffix(":80").or_else(|| authority.strip_suffix(":443")) {
        Some(host) => Cow::Owned(format!("{host}{}", &rest[path..])),
        None => Cow::Borrowed(rest),
    }
}

fn host(place: &str) -> &str {
    &place[..place.find('/').unwrap_or(place.len())]
}

/// Returns the host and the path up to its last slash.
fn directory(place: &str) -> &str {
    let path = &place[..place.find('?').unwrap_or(place.len())];
    &path[..path.rfind('/').map_or(path.len(), |at| at + 1)]
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::CrawlDefinition;

    use super::*;

    const OUT: Option<LinkOutcome> = Some(LinkOutcome::OutOfScope);

    #[test]
    fn a_scope_keeps_to_host_and_port_or_directory_or_site_of_the_seed_and_both_default_ports_are_none() {
        let host = include_str!("../../../schemas/examples/crawl-definition/1/host.json");
        let host: CrawlDefinition = serde_json::from_str(host).unwrap();
        for (scope, seed, urls) in [
            (
                Scope::Host,
                "http://example.com/docs/",
                &[
                    ("http://example.com/", None),
                    ("https://example.com/x", None),
                    ("http://example.com:443/", None),
                    ("https://example.com:80/", None),
                    ("http://example.com:8080/", OUT),
                    ("http://www.example.com/", OUT),
                    ("http://other.test/example.com/", OUT),
                ][..],
            ),
            (
                Scope::Host,
                "http://example.com:8080/",
                &[("http://example.com/", OUT), ("https://example.com:8080/", None)],
            ),
            (
                Scope::Path,
                "http://example.com/docs/index.html?a=/b/",
                &[
                    ("https://example.com/docs/", None),
                    ("http://example.com/docs/a/b/c/d/e/f?g", None),
                    ("http://example.com/docs", OUT),
                    ("http://example.com/docs2/", OUT),
                    ("http://example.com/?/docs/", OUT),
                    ("http://www.example.com/docs/", OUT),
                ],
            ),
            (Scope::Path, "http://example.com/docs", &[("http://example.com/anything", None)]),
            (Scope::Site, "http://example.com/", &[("http://a.b.example.com:81/", None), ("http://other.test/", OUT)]),
            (Scope::Any, "http://example.com/", &[("http://other.test/", None)]),
        ] {
            let definition = CrawlDefinition { scope, exclude: vec![], ..host.clone() };
            let applied =
                &Applied { version: 0, rules: orbweaver_scope::Rules::compile(&definition).unwrap(), definition };
            let rules = Rules { applied, policy: Policy::STANDARD, wide: &WideDomains::default() };
            let mut entries = Entries::default();
            let missing = entries.missing(scope, seed, &"example.com".into(), false);
            missing.iter().for_each(|entry| entries.insert(entry, true));
            for (url, end) in urls {
                let site = if url.contains("example.com") { "example.com" } else { "other.test" };
                assert_eq!(rules.judge(&entries, url, &site.into()).err(), *end, "{scope:?}, {seed}: {url}");
            }
        }
    }

    #[test]
    fn a_redirect_extends_the_scope_and_does_not_widen_it_upwards() {
        let mut entries = Entries::default();
        entries.insert("example.com/docs/", true);
        let missing =
            |entries: &Entries, url, redirected| entries.missing(Scope::Path, url, &"example.com".into(), redirected);
        assert_eq!(missing(&entries, "https://example.com/en/docs/", true).as_deref(), Some("example.com/en/docs/"));
        assert_eq!(missing(&entries, "https://docs.example.com/", true).as_deref(), Some("docs.example.com/"));
        assert_eq!(missing(&entries, "https://example.com/login", true), None);
        assert_eq!(missing(&entries, "https://example.com/login", false).as_deref(), Some("example.com/"));
        assert_eq!(missing(&entries, "https://example.com/docs/v2/", false), None, "covered already");
    }

    #[test]
    fn an_entry_that_is_not_in_the_log_yet_counts_and_is_still_missing() {
        let mut entries = Entries::default();
        entries.insert("example.com", false);
        assert!(entries.cover(Scope::Host, "http://example.com/", &"example.com".into()));
        assert!(entries.missing(Scope::Host, "http://example.com/", &"example.com".into(), false).is_some());
        entries.insert("example.com", true);
        entries.insert("example.com", false);
        assert!(entries.missing(Scope::Host, "http://example.com/", &"example.com".into(), false).is_none());
        entries.remove("example.com");
        assert!(!entries.cover(Scope::Host, "http://example.com/", &"example.com".into()));
    }

    #[test]
    fn what_a_narrow_scope_has_noted_counts_for_a_wider_one() {
        let mut entries = Entries::default();
        entries.insert("docs.example.com:8080/guide/", true);
        entries.insert("example.org", true);
        let covers = |scope, url: &str, site: &str| entries.cover(scope, url, &site.into());
        assert!(!covers(Scope::Path, "http://docs.example.com:8080/", "example.com"));
        assert!(covers(Scope::Host, "http://docs.example.com:8080/", "example.com"));
        assert!(!covers(Scope::Host, "http://docs.example.com/", "example.com"));
        assert!(!covers(Scope::Host, "http://docs.example.com:80800/", "example.com"));
        assert!(covers(Scope::Site, "http://www.example.com/", "example.com"));
        assert!(covers(Scope::Site, "http://www.example.org/", "example.org"));
        assert!(!covers(Scope::Site, "http://other.test/", "other.test"));
        assert!(covers(Scope::Any, "http://other.test/", "other.test"));
        entries.remove("example.org");
        assert!(!entries.cover(Scope::Site, "http://www.example.org/", &"example.org".into()));
        assert!(entries.cover(Scope::Site, "http://www.example.com/", &"example.com".into()));
    }
}
