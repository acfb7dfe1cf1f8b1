//! Which URLs belong to a crawl.

use std::{borrow::Cow, collections::BTreeMap, ops::Bound};

use orbweaver_messages::{CrawlDefinition, Scope, Traps};
use orbweaver_url::{Policy, PolicyError, WideDomains};
use regex::{RegexSet, RegexSetBuilder};

use crate::tally::LinkEnd;

/// What the patterns of one crawl may take when compiled, in bytes.
const PATTERN_BYTES: usize = 4 << 20;

/// The rules of a crawl, compiled.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) scope: Scope,
    include: RegexSet,
    exclude: RegexSet,
    pub(crate) max_depth: Option<u16>,
    /// What is done about traps.
    pub(crate) traps: Traps,
    /// The policy of the canonical form.
    pub(crate) policy: Policy,
    /// Domains whose hosts are sites of their own.
    pub(crate) wide: WideDomains,
}

impl Rules {
    /// Compiles the rules of a definition; on failure says which pattern is wrong.
    pub(crate) fn compile(definition: &CrawlDefinition) -> Result<Self, String> {
        let set = |name: &str, patterns: &[String]| {
            let set = RegexSetBuilder::new(patterns).size_limit(PATTERN_BYTES).build();
            set.map_err(|error| format!("its {name} patterns cannot be used: {error}"))
        };
        Ok(Self {
            scope: definition.scope,
            include: set("include", &definition.include)?,
            exclude: set("exclude", &definition.exclude)?,
            max_depth: definition.max_depth,
            traps: definition.traps,
            policy: definition.pins.canonical_policy.parse().map_err(|error: PolicyError| error.to_string())?,
            wide: WideDomains::new(&definition.pins.wide_domains).map_err(|error| error.to_string())?,
        })
    }

    /// Whether a link to this canonical URL belongs to the crawl; if not, why. Exclude wins.
    pub(crate) fn judge(&self, entries: &Entries, canonical: &str, site: &str) -> Result<(), LinkEnd> {
        if !entries.cover(self.scope, canonical, site) {
            return Err(LinkEnd::OutOfScope);
        }
        if !self.exclude.is_empty() && self.exclude.is_match(canonical) {
            return Err(LinkEnd::Excluded);
        }
        if !self.include.is_empty() && !self.include.is_match(canonical) {
            return Err(LinkEnd::NotIncluded);
        }
        Ok(())
    }
}

/// The parts of the web that seeds brought into scope, and whether each stands in the log already.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    durable: BTreeMap<String, bool>,
    /// The most slashes of an entry: no longer prefix of a URL needs to be looked up.
    slashes: usize,
}

impl Entries {
    pub(crate) fn insert(&mut self, entry: &str, durable: bool) {
        match self.durable.get_mut(entry) {
            Some(known) => *known |= durable,
            None => {
                self.slashes = self.slashes.max(slashes(entry).count());
                self.durable.insert(entry.to_owned(), durable);
            }
        }
    }

    pub(crate) fn remove(&mut self, entry: &str) {
        self.durable.remove(entry);
    }

    fn cover(&self, scope: Scope, canonical: &str, site: &str) -> bool {
        match scope {
            Scope::Any => true,
            Scope::Site => self.durable.contains_key(site),
            Scope::Host => self.durable.contains_key(host(&place(canonical))),
            Scope::Path => self.covering(&place(canonical)).next().is_some(),
        }
    }

    /// The entries that are directories above `place`, and whether each is durable.
    fn covering<'a>(&'a self, place: &'a str) -> impl Iterator<Item = bool> + 'a {
        let path = &place[..place.find('?').unwrap_or(place.len())];
        slashes(path).take(self.slashes).filter_map(move |at| self.durable.get(&path[..=at]).copied())
    }

    /// The entry by which a seed (or what it redirects to) extends the scope, if it does, and that is not in the log yet.
    ///
    /// A redirect never widens a scope of paths to a directory above one that is in scope: a seed `/docs/` that redirects
    /// to `/login` does not make a crawl of the whole host.
    pub(crate) fn missing(&self, scope: Scope, canonical: &str, site: &str, redirected: bool) -> Option<String> {
        let place = place(canonical);
        let entry = match scope {
            Scope::Any => return None,
            Scope::Site => site,
            Scope::Host => host(&place),
            Scope::Path => {
                let directory = directory(&place);
                let covered = self.covering(&place).any(|durable| durable);
                if covered || (redirected && self.has_below(directory)) {
                    return None;
                }
                directory
            }
        };
        (self.durable.get(entry) != Some(&true)).then(|| entry.to_owned())
    }

    /// Whether an entry lies below this directory.
    fn has_below(&self, directory: &str) -> bool {
        let mut after = self.durable.range::<str, _>((Bound::Excluded(directory), Bound::Unbounded));
        after.next().is_some_and(|(entry, _)| entry.starts_with(directory))
    }
}

/// Where the slashes stand.
fn slashes(text: &str) -> impl Iterator<Item = usize> + '_ {
    text.bytes().enumerate().filter(|(_, byte)| *byte == b'/').map(|(at, _)| at)
}

/// A canonical URL without its scheme; the default ports of http and of https both count as none, since a site that moves
/// from one to the other stays the same.
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

/// The host and the path up to its last slash.
fn directory(place: &str) -> &str {
    let path = &place[..place.find('?').unwrap_or(place.len())];
    &path[..path.rfind('/').map_or(path.len(), |at| at + 1)]
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::Pins;

    use super::*;

    fn rules(scope: Scope, include: &[&str], exclude: &[&str]) -> Rules {
        let patterns = |patterns: &[&str]| patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        let pins = Pins {
            partitions: 1,
            suffix_list: String::new(),
            canonical_policy: "standard/1".to_owned(),
            wide_domains: vec![],
        };
        let (include, exclude) = (patterns(include), patterns(exclude));
        let name = "docs".to_owned();
        let traps = Traps::default();
        Rules::compile(&CrawlDefinition {
            name,
            scope,
            include,
            exclude,
            max_depth: None,
            traps,
            pins,
            created_at_ms: 0,
        })
        .unwrap()
    }

    /// The ends of links to `urls` after a seed at `seed`.
    fn ends(rules: &Rules, seed: &str, urls: &[(&str, Option<LinkEnd>)]) {
        let mut entries = Entries::default();
        if let Some(entry) = entries.missing(rules.scope, seed, "example.com", false) {
            entries.insert(&entry, true);
        }
        for (url, end) in urls {
            let site = if url.contains("example.com") { "example.com" } else { "other.test" };
            assert_eq!(rules.judge(&entries, url, site).err(), *end, "{url}");
        }
    }

    const OUT: Option<LinkEnd> = Some(LinkEnd::OutOfScope);

    #[test]
    fn a_host_scope_keeps_to_host_and_port_and_both_default_ports_are_none() {
        let rules = rules(Scope::Host, &[], &[]);
        ends(
            &rules,
            "http://example.com/docs/",
            &[
                ("http://example.com/", None),
                ("https://example.com/x", None),
                ("http://example.com:443/", None),
                ("https://example.com:80/", None),
                ("http://example.com:8080/", OUT),
                ("http://www.example.com/", OUT),
                ("http://other.test/example.com/", OUT),
            ],
        );
        ends(&rules, "http://example.com:8080/", &[("http://example.com/", OUT), ("https://example.com:8080/", None)]);
    }

    #[test]
    fn a_path_scope_keeps_below_the_directory_of_the_seed() {
        let rules = rules(Scope::Path, &[], &[]);
        ends(
            &rules,
            "http://example.com/docs/index.html?a=/b/",
            &[
                ("https://example.com/docs/", None),
                ("http://example.com/docs/a/b/c/d/e/f?g", None),
                ("http://example.com/docs", OUT),
                ("http://example.com/docs2/", OUT),
                ("http://example.com/?/docs/", OUT),
                ("http://www.example.com/docs/", OUT),
            ],
        );
        ends(&rules, "http://example.com/docs", &[("http://example.com/anything", None)]);
    }

    #[test]
    fn a_site_scope_takes_all_hosts_of_the_site_and_any_takes_all() {
        let site = rules(Scope::Site, &[], &[]);
        ends(&site, "http://example.com/", &[("http://a.b.example.com:81/", None), ("http://other.test/", OUT)]);
        ends(&rules(Scope::Any, &[], &[]), "http://example.com/", &[("http://other.test/", None)]);
    }

    #[test]
    fn exclude_wins_over_include_and_both_are_unanchored() {
        let rules = rules(Scope::Any, &["\\.html$", "/docs/"], &["sessionid="]);
        ends(
            &rules,
            "http://example.com/",
            &[
                ("http://example.com/a.html", None),
                ("http://example.com/docs/a", None),
                ("http://example.com/a.pdf", Some(LinkEnd::NotIncluded)),
                ("http://example.com/docs/?sessionid=1", Some(LinkEnd::Excluded)),
            ],
        );
    }

    #[test]
    fn a_redirect_extends_the_scope_and_does_not_widen_it_upwards() {
        let mut entries = Entries::default();
        entries.insert("example.com/docs/", true);
        let missing = |entries: &Entries, url, redirected| entries.missing(Scope::Path, url, "example.com", redirected);
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
        assert!(entries.cover(Scope::Host, "http://example.com/", "example.com"));
        assert!(entries.missing(Scope::Host, "http://example.com/", "example.com", false).is_some());
        entries.insert("example.com", true);
        entries.insert("example.com", false);
        assert!(entries.missing(Scope::Host, "http://example.com/", "example.com", false).is_none());
        entries.remove("example.com");
        assert!(!entries.cover(Scope::Host, "http://example.com/", "example.com"));
    }

    #[test]
    fn a_pattern_that_is_wrong_or_too_large_is_named() {
        let mut definition: CrawlDefinition =
            serde_json::from_str(include_str!("../../../schemas/examples/crawl-definition/1/host.json")).unwrap();
        definition.include = vec!["(".to_owned()];
        assert!(
            Rules::compile(&definition).unwrap_err().starts_with("its include patterns cannot be used: regex parse")
        );
        definition.include = vec!["(\\w{1000}){1000}".to_owned()];
        assert!(Rules::compile(&definition).unwrap_err().contains("size limit"));
    }
}
