//! Policies of the canonical form: sets of rules. Pure data, pinned when a crawl is created.

use std::{borrow::Cow, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::parameters::LISTS_VERSION;

/// Rule of the canonical form that a policy may apply or omit. The crate's README lists all rules with their test
/// vectors.
///
/// Every policy includes the WHATWG serialization: scheme and host in lower case, international names in Punycode (UTS
/// 46), numeric hosts as IP addresses (RFC 3986 section 7.4), IPv6 addresses compressed (RFC 5952), default ports
/// omitted (RFC 3986 section 6.2.3), dot segments resolved, including those written `%2e` (section 6.2.2.3), `/` for an
/// empty path (section 6.2.3), and characters that a URL cannot contain percent-encoded as UTF-8. The latter include
/// the non-breaking space: it becomes `%C2%A0`, not a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Rule {
    /// Drops user information: it identifies the requester, not the resource (RFC 3986 section 7.5, RFC 9110 section
    /// 4.2.4).
    DropUserInfo,
    /// Drops one trailing dot of the host: `example.com.` is the same name, fully qualified (RFC 1034 section 3.1).
    DropRootDot,
    /// Normalizes escapes. In path and query, their hexadecimal digits become upper case (RFC 3986 section 6.2.2.1),
    /// and characters that a WHATWG URL may contain but an RFC 3986 `pchar` may not are escaped, since strict clients
    /// must send them so: ``[ ] | ^ ` ``, in queries also `{ } \`. In the path, unreserved characters are decoded
    /// (section 6.2.2.2; `%7Euser` becomes `~user`), and a `%` that begins no escape becomes `%25`, its only possible
    /// meaning. Neither is done in the query: a `%` may belong to a legacy `%u20AC`, and the decoder of a form may be
    /// of any kind.
    NormalizeEscapes,
    /// Drops an empty query with its `?`: three of five normalizers do, and frameworks do not distinguish the two.
    DropEmptyQuery,
    /// Replaces `https` by `http`, on default ports: most sites serve the same under both or redirect one to the other
    /// (SURT of the Internet Archive, urlcanon `aggressive`). On other ports the scheme stays, since a port speaks only
    /// one.
    MergeSchemes,
    /// Drops `www.` from the host, repeatedly, as long as a registrable domain remains (urlcanon `aggressive`, purell).
    /// `www2.` stays: such hosts are often other servers.
    StripWww,
    /// Drops repeated slashes in the path: file systems ignore them (Nutch, crawler-commons).
    MergeSlashes,
    /// Drops the file name of a directory index: `index` or `default` with a usual extension (Nutch `regex-normalize`).
    DropIndex,
    /// Reads the query as a form (WHATWG URL section 5.1): `%20` and `+` are both a space, written `+`, unreserved
    /// characters are decoded (RFC 3986 section 6.2.2.2), and a `%` that begins no escape becomes `%25`. `%2B` stays,
    /// and so does `%C2%A0`, the non-breaking space. For the query, this includes `normalize-escapes`.
    FormQuery,
    /// Sorts the parameters of the query by key; those of one key keep their order, since it is the order of a list.
    /// Empty and absent values are kept and stay distinct (`a=` and `a`).
    SortQuery,
    /// Drops empty parameters: `?&a=1&&b=2&` becomes `?a=1&b=2` (Nutch, w3lib, urlcanon).
    DropEmptyParameters,
    /// Drops parameters that only track visitors, by a list (`utm_source`, `fbclid`).
    DropTracking,
    /// Drops session identifiers, by a list: parameters (`PHPSESSID`), path parameters (`;jsessionid=`), and the
    /// segments of cookieless ASP.NET sessions (`/(S(…))/`). Names with another meaning elsewhere (`sid`) are dropped
    /// only with a value that looks random.
    DropSessions,
    /// Always writes the port. (In no preset: such a form parses to one without the default port.)
    WritePorts,
    /// Keeps a fragment that begins with `!` and is longer: sites built from 2009 to 2015 identify pages by it
    /// (Google's AJAX crawling scheme). Every policy removes all other fragments: they are never sent (RFC 9110 section
    /// 4.2.5).
    KeepHashBang,
}

/// Rules with their names and the narrowest preset that includes them, in the order of a policy's text.
const RULES: [(Rule, &str, Option<Preset>); 15] = {
    const STANDARD: Option<Preset> = Some(Preset::Standard);
    const AGGRESSIVE: Option<Preset> = Some(Preset::Aggressive);
    [
        (Rule::DropUserInfo, "drop-user-info", STANDARD),
        (Rule::DropRootDot, "drop-root-dot", STANDARD),
        (Rule::NormalizeEscapes, "normalize-escapes", STANDARD),
        (Rule::DropEmptyQuery, "drop-empty-query", STANDARD),
        (Rule::MergeSchemes, "merge-schemes", AGGRESSIVE),
        (Rule::StripWww, "strip-www", AGGRESSIVE),
        (Rule::MergeSlashes, "merge-slashes", AGGRESSIVE),
        (Rule::DropIndex, "drop-index", AGGRESSIVE),
        (Rule::FormQuery, "form-query", AGGRESSIVE),
        (Rule::SortQuery, "sort-query", AGGRESSIVE),
        (Rule::DropEmptyParameters, "drop-empty-parameters", AGGRESSIVE),
        (Rule::DropTracking, "drop-tracking", AGGRESSIVE),
        (Rule::DropSessions, "drop-sessions", AGGRESSIVE),
        (Rule::WritePorts, "write-ports", None),
        (Rule::KeepHashBang, "keep-hashbang", None),
    ]
};

impl Rule {
    pub fn all() -> impl Iterator<Item = Self> {
        RULES.iter().map(|(rule, ..)| *rule)
    }

    /// Returns the name, as used in a policy's text.
    #[must_use]
    pub fn name(self) -> &'static str {
        RULES[self as usize].1
    }

    /// Returns `true` if the rule uses lists, whose version then is part of the policy's text.
    fn has_lists(self) -> bool {
        matches!(self, Self::DropTracking | Self::DropSessions)
    }
}

/// Named set of rules on which a policy is based; each includes the rules of the ones before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Preset {
    Raw,
    Standard,
    Aggressive,
}

impl Preset {
    const ALL: [Self; 3] = [Self::Standard, Self::Aggressive, Self::Raw];

    fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Standard => "standard",
            Self::Aggressive => "aggressive",
        }
    }

    /// Returns the version of the rules. It increases when one of them changes, and for `aggressive` also when a list
    /// does.
    fn version(self) -> u32 {
        1
    }

    const fn policy(self) -> Policy {
        let mut rules = 0;
        let mut i = 0;
        while i < RULES.len() {
            if let (rule, _, Some(narrowest)) = RULES[i]
                && narrowest as u8 <= self as u8
            {
                rules |= 1 << rule as u8;
            }
            i += 1;
        }
        Policy { preset: self, rules }
    }
}

/// Policy: the set of rules for the canonical form of a crawl.
///
/// As text, and in serde: name and version of a preset, then the rules in which the policy differs: `standard/1`,
/// `standard/1,sort-query,drop-tracking/1`, `aggressive/1,no-strip-www`. The text is complete: policies with equal
/// texts give equal canonical forms, in every build that accepts the text. Versions may be omitted in a text to be
/// parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Cow<'_, str>", into = "String")]
pub struct Policy {
    preset: Preset,
    /// One bit per rule.
    rules: u16,
}

impl Policy {
    /// Merges URLs that RFC 3986 calls equivalent or that no server can distinguish, and none that a server might
    /// distinguish: a page that is merged wrongly is never fetched.
    pub const STANDARD: Self = Preset::Standard.policy();
    /// Also merges URLs that servers rarely distinguish. This saves requests on sites with session identifiers,
    /// tracking links or several names, and may lose pages on others.
    pub const AGGRESSIVE: Self = Preset::Aggressive.policy();
    /// Applies parsing only: each spelling of a URL is a separate page.
    pub const RAW: Self = Preset::Raw.policy();

    pub const PRESETS: [Self; 3] = [Self::STANDARD, Self::AGGRESSIVE, Self::RAW];

    /// Returns `true` if the rule applies.
    #[must_use]
    pub const fn has(self, rule: Rule) -> bool {
        self.rules & 1 << rule as u8 != 0
    }

    /// Returns `true` for [`Policy::STANDARD`], which messages omit.
    #[must_use]
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    pub fn is_standard(&self) -> bool {
        *self == Self::STANDARD
    }

    /// Returns the policy with a rule added or removed.
    #[must_use]
    pub const fn with(self, rule: Rule, applies: bool) -> Self {
        let bit = 1 << rule as u8;
        Self { preset: self.preset, rules: if applies { self.rules | bit } else { self.rules & !bit } }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::STANDARD
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let preset = self.preset.policy();
        write!(f, "{}/{}", self.preset.name(), self.preset.version())?;
        for rule in Rule::all().filter(|rule| self.has(*rule) != preset.has(*rule)) {
            let no = if self.has(rule) { "" } else { "no-" };
            write!(f, ",{no}{}", rule.name())?;
            if rule.has_lists() && self.has(rule) {
                write!(f, "/{LISTS_VERSION}")?;
            }
        }
        Ok(())
    }
}

/// Error of a text that names no policy of this build.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The text does not begin with a preset.
    #[error(
        "`{0}` is not a canonical policy; allowed: `standard`, `aggressive` and `raw`, with rules after commas, \
         such as `standard,sort-query`"
    )]
    Preset(String),
    /// A rule is unknown.
    #[error("`{0}` is not a policy rule; allowed: {names}, each also with the prefix `no-`", names = rule_names())]
    Rule(String),
    /// The version is not that of this build.
    #[error("`{0}` is not a version of this build; allowed: `{1}`")]
    Version(String, String),
}

fn rule_names() -> String {
    let names: Vec<_> = RULES.iter().map(|(_, name, _)| format!("`{name}`")).collect();
    names.join(", ")
}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = text.split(',').map(str::trim);
        let first = words.next().unwrap_or_default();
        let (name, version) = versioned(first);
        let preset = Preset::ALL.into_iter().find(|preset| preset.name() == name);
        let preset = preset.ok_or_else(|| PolicyError::Preset(shown(first)))?;
        if version.is_some_and(|version| version != preset.version().to_string()) {
            return Err(PolicyError::Version(shown(first), format!("{name}/{}", preset.version())));
        }
        let mut policy = preset.policy();
        for word in words {
            let (name, version) = versioned(word);
            let (name, applies) = name.strip_prefix("no-").map_or((name, true), |name| (name, false));
            let rule = Rule::all().find(|rule| rule.name() == name && (version.is_none() || rule.has_lists()));
            let rule = rule.ok_or_else(|| PolicyError::Rule(shown(word)))?;
            if version.is_some_and(|version| version != LISTS_VERSION.to_string()) {
                return Err(PolicyError::Version(shown(word), format!("{name}/{LISTS_VERSION}")));
            }
            policy = policy.with(rule, applies);
        }
        Ok(policy)
    }
}

/// Splits a word into the name and the version after the slash.
fn versioned(word: &str) -> (&str, Option<&str>) {
    word.split_once('/').map_or((word, None), |(name, version)| (name, Some(version)))
}

/// Returns the beginning of a text, for an error message.
fn shown(text: &str) -> String {
    text[..text.floor_char_boundary(60)].to_owned()
}

impl TryFrom<Cow<'_, str>> for Policy {
    type Error = PolicyError;

    fn try_from(text: Cow<'_, str>) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Policy> for String {
    fn from(policy: Policy) -> Self {
        policy.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_policy_that_crawls_have_pinned_keeps_its_name() {
        // Stored data depends on these.
        assert_eq!(Policy::STANDARD.to_string(), "standard/1");
        assert_eq!(Policy::AGGRESSIVE.to_string(), "aggressive/1");
        assert_eq!(Policy::RAW.to_string(), "raw/1");
        let policy = Policy::STANDARD.with(Rule::DropTracking, true).with(Rule::SortQuery, true);
        assert_eq!(policy.to_string(), "standard/1,sort-query,drop-tracking/1");
        assert_eq!(Policy::AGGRESSIVE.with(Rule::StripWww, false).to_string(), "aggressive/1,no-strip-www");
    }

    #[test]
    fn what_a_person_writes_is_read_and_what_is_wrong_is_named_with_what_is_allowed() {
        assert_eq!("standard".parse(), Ok(Policy::STANDARD));
        assert_eq!("aggressive, no-drop-sessions".parse(), Ok(Policy::AGGRESSIVE.with(Rule::DropSessions, false)));
        for (text, error) in [
            ("", "`` is not a canonical policy; allowed: `standard`, `aggressive` and `raw`"),
            ("Standard", "`Standard` is not a canonical policy"),
            ("standard/2", "`standard/2` is not a version of this build; allowed: `standard/1`"),
            ("standard,", "`` is not a policy rule; allowed: `drop-user-info`, "),
            ("raw,sort", "`sort` is not a policy rule"),
            ("raw,sort-query/1", "`sort-query/1` is not a policy rule"),
            ("raw,drop-tracking/7", "`drop-tracking/7` is not a version of this build; allowed: `drop-tracking/1`"),
        ] {
            let reported = text.parse::<Policy>().unwrap_err().to_string();
            assert!(reported.starts_with(error), "{reported}");
        }
    }

    #[test]
    fn the_table_of_rules_is_in_their_order() {
        for (place, rule) in Rule::all().enumerate() {
            assert_eq!(place, rule as usize, "{}", rule.name());
        }
    }

    proptest! {
        #[test]
        fn a_policy_reads_back_from_its_text_and_from_json(preset in 0..3usize, rules in 0..1u16 << RULES.len()) {
            let policy = Policy { preset: Preset::ALL[preset], rules };
            prop_assert_eq!(policy.to_string().parse(), Ok(policy));
            let json = serde_json::to_string(&policy).unwrap();
            prop_assert_eq!(serde_json::from_str::<Policy>(&json).unwrap(), policy);
        }
    }
}
